"""What pods are promised, shown with real processes below `kohort up`."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.node.processes import SERVE, Bench, bench, data, shell, up, volume

from kohort.kube import kubeconfig
from kohort.kube.client import Client, PatchType
from kohort.kube.resources import CONFIG_MAPS, EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, SERVICES
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.objects.json_types import JsonObject

__all__ = ["bench", "data"]
pytestmark = pytest.mark.e2e
ASK = """
import socket, struct, sys
server = next(l.split()[1] for l in open('/etc/resolv.conf') if l.startswith('nameserver'))
name = b''.join(bytes([len(p)]) + p.encode() for p in sys.argv[1].split('.')) + b'\\0'
kind = int(sys.argv[2])
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); asking.settimeout(5)
asking.sendto(struct.pack('>HHHHHH', 7, 256, 1, 0, 0, 0) + name + struct.pack('>HH', kind, 1), (server, 53))
answer = asking.recv(4096)
print(struct.unpack_from('>H', answer, 6)[0], answer[-4:].hex())
"""


async def test_init_containers_sidecars_and_last_words(bench: Bench) -> None:
    shared: JsonObject = {"volumeMounts": [volume("shared", "/run/shared")]}
    stays = "echo side >> /run/shared/order; while [ ! -f /run/shared/done ]; do sleep 0.05; done; sleep 100"
    await bench.run(
        "story",
        shell("cat /run/shared/order; echo well > /run/message; touch /run/shared/done", **shared)
        | {"terminationMessagePath": "/run/message"},
        restartPolicy="Never",
        volumes=[{"name": "shared", "emptyDir": {}}],
        initContainers=[
            shell("echo first >> /run/shared/order", "first", **shared),
            shell(stays, "side", restartPolicy="Always", **shared),
            shell("sleep 0.2; echo second >> /run/shared/order", "second", **shared),
        ],
    )
    status = await bench.ended("story")
    assert await bench.log("story") == "first\nside\nsecond\n"
    assert status["containerStatuses"][0]["state"]["terminated"]["message"] == "well\n"
    assert status["initContainerStatuses"][1]["state"]["terminated"], "the sidecar ends after the others"


async def test_a_failure_is_tried_again_and_the_last_output_explains_it(bench: Bench) -> None:
    once = "[ -f /run/tries/1 ] && exit 0; touch /run/tries/1; echo broken; exit 3"
    tries = [volume("tries", "/run/tries")]
    await bench.run(
        "again",
        shell(once, volumeMounts=tries, terminationMessagePolicy="FallbackToLogsOnError"),
        restartPolicy="OnFailure",
        volumes=[{"name": "tries", "emptyDir": {}}],
    )
    status = (await bench.ended("again"))["containerStatuses"][0]
    assert status["restartCount"] == 1
    before = status["lastState"]["terminated"]
    assert (before["exitCode"], before["reason"]) == (3, "Error")


async def test_what_a_container_is_told(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("from the machine")
    await bench.client.create(
        CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "1", "b": "2"}}, "default"
    )
    secret = {"metadata": {"name": "hidden", "namespace": "default"}, "stringData": {"key": "s3cret"}}
    await bench.client.create(SECRETS, secret, "default")
    reference = {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}
    script = """
echo "$NAME $MEMORY $A_a $KEY"
cat /run/config/a /run/only/b.txt /run/secret/key /run/down/labels; echo
cat /run/host/given; echo; (echo no > /run/host/given) 2>/dev/null || echo read-only
wc -c < /run/all/token | awk '$1 > 100 {print "token"}'
"""
    container = shell(
        script,
        resources={"requests": {"memory": "48Mi"}},
        env=[
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "MEMORY", "valueFrom": reference},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "key"}}},
        ],
        envFrom=[{"prefix": "A_", "configMapRef": {"name": "settings"}}],
        volumeMounts=[
            volume("config", "/run/config"),
            volume("config", "/run/only/b.txt", subPath="b"),
            volume("secret", "/run/secret"),
            volume("down", "/run/down"),
            volume("all", "/run/all"),
            volume("host", "/run/host", readOnly=True),
        ],
    )
    await bench.run(
        "told",
        container,
        labels={"app": "x"},
        restartPolicy="Never",
        volumes=[
            {"name": "config", "configMap": {"name": "settings"}},
            {"name": "secret", "secret": {"secretName": "hidden"}},
            {
                "name": "down",
                "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
            },
            {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            {"name": "host", "hostPath": {"path": str(tmp_path)}},
        ],
    )
    await bench.ended("told")
    assert (await bench.log("told")).split() == (
        ["told", "48", "1", "s3cret", '12s3cretapp="x"', "from", "the", "machine", "read-only", "token"]
    )


async def test_claims_keep_what_was_written(bench: Bench) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    await bench.client.create(
        PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "kept", "namespace": "default"}, "spec": claim}, "default"
    )
    volumes = [{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}]
    mounts = [volume("kept", "/run/kept", subPath="below")]
    for name, script in (("writes", "echo kept > /run/kept/file"), ("reads", "cat /run/kept/file")):
        await bench.run(name, shell(script, volumeMounts=mounts), volumes=volumes, restartPolicy="Never")
        await bench.ended(name)
    assert await bench.log("reads") == "kept\n"


async def test_hooks_and_the_time_to_end(bench: Bench, tmp_path: Path) -> None:
    mounts = [volume("out", "/run/out")]
    await bench.run(
        "hooked",
        shell(
            "trap 'echo term >> /run/out/said; exit 0' TERM; while :; do sleep 0.05; done",
            volumeMounts=mounts,
            lifecycle={
                "postStart": {"exec": {"command": ["sh", "-c", "echo begun >> /run/out/said"]}},
                "preStop": {"exec": {"command": ["sh", "-c", "echo stopping >> /run/out/said"]}},
            },
        ),
        shell("trap '' TERM; sleep 100", "deaf", lifecycle={"preStop": {"sleep": {"seconds": 1}}}),
        volumes=[{"name": "out", "hostPath": {"path": str(tmp_path)}}],
    )
    await bench.ready("hooked")
    await bench.client.delete(PODS, "hooked", "default")
    async with asyncio.timeout(120):
        async for event in bench.client.watch(PODS, "default", field_selector="metadata.name=hooked"):
            if event.type == "DELETED":
                break
    assert (tmp_path / "said").read_text().split() == ["begun", "stopping", "term"]


async def test_probes_of_every_kind(bench: Bench) -> None:
    server = {"name": "c", "image": "host", "command": [sys.executable, "-c", SERVE]}
    quick = {"periodSeconds": 1}
    await bench.run(
        "probed",
        {
            **server,
            "startupProbe": {"tcpSocket": {"port": 8080}, "failureThreshold": 60, **quick},
            "readinessProbe": {"httpGet": {"port": 8080}, **quick},
            "livenessProbe": {
                "exec": {"command": ["test", "!", "-f", "/run/sick/now"]},
                "failureThreshold": 1,
                **quick,
            },
            "volumeMounts": [volume("sick", "/run/sick")],
        },
        volumes=[{"name": "sick", "emptyDir": {}}],
    )
    status = await bench.ready("probed")
    assert status["containerStatuses"][0]["restartCount"] == 0
    uid = (await bench.client.get(PODS, "probed", "default"))["metadata"]["uid"]
    (bench.data / "node" / "pods" / uid / "volumes" / "sick" / "now").touch()
    await bench.until("probed", lambda found: bool(found["containerStatuses"][0]["restartCount"] >= 1))
    reasons = {each["reason"] for each in (await bench.client.list(EVENTS, "default")).items}
    assert {"Unhealthy", "Killing"} <= reasons


async def test_somebody_looks_inside(bench: Bench) -> None:
    await bench.run("patient", shell("sleep 100"))
    await bench.ready("patient")
    visitor = {**shell("echo looking; hostname", "visitor"), "targetContainerName": "c"}
    await bench.client.patch(
        PODS,
        "patient",
        "default",
        {"spec": {"ephemeralContainers": [visitor]}},
        PatchType.STRATEGIC,
        "ephemeralcontainers",
    )
    status = await bench.until("patient", lambda found: "terminated" in found["ephemeralContainerStatuses"][0]["state"])
    assert status["phase"] == "Running" and status["containerStatuses"][0]["restartCount"] == 0
    assert status["ephemeralContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert await bench.log("patient", "visitor") == "looking\npatient\n"


@pytest.mark.skipif(os.geteuid() != 0 or not NetworkNamespaces.permitted(), reason="network namespaces are needed")
async def test_names_and_services_lead_to_pods(bench: Bench) -> None:
    for name, spec in (
        ("group", {"clusterIP": "None", "selector": {"app": "named"}}),
        ("front", {"selector": {"app": "named"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}),
    ):
        document = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        await bench.client.create(SERVICES, document, "default")
    serves = {"name": "c", "image": "host", "command": [sys.executable, "-c", SERVE]}
    ready = {"readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}}
    await bench.run("one", {**serves, **ready}, labels={"app": "named"}, subdomain="group", hostname="first")
    address = (await bench.ready("one"))["podIP"]
    fetch = "import urllib.request as u; print(u.urlopen('http://front/', timeout=5).status)"
    script = f"""
fetch() {{ getent hosts first.group > /dev/null && {sys.executable} -c "{fetch}" 2>/dev/null; }}
for i in $(seq 100); do fetch && break; sleep 0.2; done
getent hosts first.group.default.svc.cluster.local | cut -d' ' -f1
{sys.executable} -c "$ASK" first.group.default.svc.cluster.local 1
{sys.executable} -c "$ASK" _http._tcp.front.default.svc.cluster.local 33 | cut -d' ' -f1
{sys.executable} -c "$ASK" nobody.group.default.svc.cluster.local 1 | cut -d' ' -f1
"""
    await bench.run("asks", shell(script, env=[{"name": "ASK", "value": ASK}]), restartPolicy="Never")
    await bench.ended("asks")
    packed = "".join(f"{int(part):02x}" for part in address.split("."))
    assert (await bench.log("asks")).splitlines() == ["200", address, f"1 {packed}", "1", "0"]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="rights are given up by setpriv")
async def test_without_any_rights_services_still_lead_to_pods(tmp_path: Path) -> None:
    """No address can be added, and no address of a pod may be in endpoints: the node knows its pods all the same."""
    serve = SERVE.replace("'0.0.0.0'", "__import__('os').environ['IP']")
    own = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    fetch = (
        "import os, urllib.request as u; print(u.urlopen('http://%s:8888/' % os.environ['FRONT_SERVICE_HOST']).status)"
    )
    with up(tmp_path / "data", "setpriv", "--inh-caps=-all", "--bounding-set=-all") as directory:
        client = Client(kubeconfig.load(directory / "kubeconfig"))
        bench = Bench(client, directory)
        ports = [{"name": "http", "port": 8888, "targetPort": 8080}]
        front = {
            "metadata": {"name": "front", "namespace": "default"},
            "spec": {"selector": {"app": "x"}, "ports": ports},
        }
        await client.create(SERVICES, front, "default")
        ready = {"httpGet": {"port": 8080}, "periodSeconds": 1}
        command = [sys.executable, "-c", serve]
        server = {"name": "c", "image": "host", "command": command, "env": own, "readinessProbe": ready}
        await bench.run("one", server, labels={"app": "x"})
        assert (await bench.ready("one"))["podIP"].startswith("127.")
        script = f'for i in $(seq 50); do {sys.executable} -c "{fetch}" 2>/dev/null && exit; sleep 0.2; done; exit 1'
        await bench.run("asks", shell(script), restartPolicy="Never")
        await bench.ended("asks")
        assert await bench.log("asks") == "200\n"
        await client.close()
