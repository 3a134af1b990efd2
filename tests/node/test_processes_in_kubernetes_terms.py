"""Fields of pods that Kubernetes users rely on, shown with real processes below `kohort up`."""

import asyncio
import contextlib
import os
import socket
import sys

import pytest
from tests.node.processes import SERVE, Bench, bench, data, shell, volume

from kohort.kube.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS, SERVICES
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.objects.json_types import JsonObject

__all__ = ["bench", "data"]
pytestmark = pytest.mark.e2e
HEALTH = """
import grpc, os, time
from concurrent import futures
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
server, servicer = grpc.server(futures.ThreadPoolExecutor(2)), health.HealthServicer()
health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
server.add_insecure_port('0.0.0.0:9090')
servicer.set('well', health_pb2.HealthCheckResponse.SERVING)
servicer.set('ill', health_pb2.HealthCheckResponse.NOT_SERVING)
server.start()
while True:
    time.sleep(0.1)
    if os.path.exists('/run/told/sick'):
        servicer.set('well', health_pb2.HealthCheckResponse.NOT_SERVING)
"""
ECHO = """
import socket
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); asked.bind(('0.0.0.0', 5353))
while True:
    said, who = asked.recvfrom(1000); asked.sendto(said.upper(), who)
"""
ASK = """
import socket, ssl, sys, time, urllib.request
def tried(what):
    for _ in range(100):
        try: return what()
        except OSError: time.sleep(0.2)
    return 'nothing'
def udp():
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); asking.settimeout(1)
    asking.sendto(b'said', (sys.argv[2], 53)); return asking.recv(100).decode()
def api():
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); trust.check_hostname = False; trust.verify_mode = ssl.CERT_NONE
    try: return urllib.request.urlopen(f'https://{sys.argv[3]}/version', timeout=2, context=trust).status
    except urllib.error.HTTPError as answered: return answered.code
print(tried(lambda: urllib.request.urlopen(f'http://{sys.argv[1]}/', timeout=2).status))
print(tried(udp))
print(socket.gethostbyname('front'))
print(tried(api) in (200, 401, 403))
"""


async def test_whom_a_container_runs_as_and_what_it_may_do(bench: Bench) -> None:
    secret = {"metadata": {"name": "kept", "namespace": "default"}, "stringData": {"key": "s3cret"}}
    await bench.client.create(SECRETS, secret, "default")
    script = """
id -u; id -g; id -G
touch /run/e/made && stat -c '%g' /run/e/made
cat /run/s/key; echo
touch /var/tmp/kohort-must-not-be 2>/dev/null || echo read-only
grep -E 'CapBnd|NoNewPrivs' /proc/self/status | tr -s '\\t\\n' '  '
"""
    await bench.run(
        "humble",
        shell(
            script,
            securityContext={
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
            },
            # The first one covers where the others come from.
            volumeMounts=[volume("t", str(bench.data.parent)), volume("e", "/run/e"), volume("s", "/run/s")],
        ),
        restartPolicy="Never",
        securityContext={"runAsUser": 12345, "runAsGroup": 23456, "fsGroup": 34567, "supplementalGroups": [45678]},
        volumes=[
            {"name": "t", "emptyDir": {}},
            {"name": "e", "emptyDir": {}},
            {"name": "s", "secret": {"secretName": "kept", "defaultMode": 0o400}},
        ],
    )
    await bench.run("proud", shell("sleep 100"), securityContext={"runAsNonRoot": True})
    await bench.ended("humble")
    lines = (await bench.log("humble")).splitlines()
    assert lines[:6] == ["12345", "23456", "23456 34567 45678", "34567", "s3cret", "read-only"]
    assert lines[6].split() == ["CapBnd:", "0000000000000001", "NoNewPrivs:", "1"]
    refused = await bench.until("proud", lambda found: bool(found["containerStatuses"][0]["state"]["waiting"]))
    waiting = refused["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError" and "image will run as root" in waiting["message"]


async def test_a_volume_in_memory_is_one_and_goes_with_its_pod(bench: Bench) -> None:
    script = """
stat -f -c '%T' /run/m; df -k --output=size /run/m | tail -1 | tr -d ' '
head -c 3000000 /dev/zero > /run/m/fits && echo fits
head -c 3000000 /dev/zero > /run/m/more 2>/dev/null || echo full
sleep 1000
"""
    await bench.run(
        "remembers",
        shell(script, volumeMounts=[volume("m", "/run/m")]),
        volumes=[{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "5Mi"}}],
    )
    await bench.ready("remembers")
    uid = (await bench.client.get(PODS, "remembers", "default"))["metadata"]["uid"]
    await bench.said("remembers", "tmpfs\n5120\nfits\nfull\n")
    place = bench.data / "node" / "pods" / uid / "volumes" / "m"
    assert await asyncio.to_thread(os.path.ismount, place)
    await bench.gone("remembers")
    assert not await asyncio.to_thread(os.path.lexists, place), "what is mounted cannot be removed"


async def test_new_content_is_seen_except_at_sub_paths_and_in_ephemeral_containers(bench: Bench) -> None:
    settings: JsonObject = {"metadata": {"name": "changing", "namespace": "default"}, "data": {"a": "old"}}
    await bench.client.create(CONFIG_MAPS, settings, "default")
    mounts = [volume("v", "/run/whole"), volume("v", "/run/part", subPath="a")]
    volumes = [{"name": "v", "configMap": {"name": "changing"}}]
    await bench.run("follows", shell("sleep 1000", volumeMounts=mounts), volumes=volumes)
    await bench.ready("follows")
    look = ("exec", "follows", "--", "sh", "-c", "cat /run/whole/a; echo; cat /run/part")
    assert (await bench.kubectl(*look)).split() == ["old", "old"]
    await bench.client.patch(CONFIG_MAPS, "changing", "default", {"data": {"a": "new"}})
    await bench.client.patch(PODS, "follows", "default", {"metadata": {"annotations": {"look": "again"}}})
    uid = (await bench.client.get(PODS, "follows", "default"))["metadata"]["uid"]
    place = bench.data / "node" / "pods" / uid / "volumes" / "v" / "a"
    async with asyncio.timeout(60):
        while await asyncio.to_thread(place.read_text) != "new":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await bench.kubectl(*look)).split() == ["new", "old"]
    await bench.gone("follows")


async def test_a_grpc_server_is_asked_for_its_health(bench: Bench) -> None:
    server = {"name": "c", "image": "host", "command": [sys.executable, "-c", HEALTH]}
    quick = {"periodSeconds": 1, "failureThreshold": 2}

    def asking(service: str) -> JsonObject:
        return {"grpc": {"port": 9090, "service": service}, **quick}

    started = {**asking(""), "failureThreshold": 60}
    await bench.run(
        "spoken-to",
        {
            **server,
            "startupProbe": started,
            "readinessProbe": asking("well"),
            "livenessProbe": asking("well"),
            "volumeMounts": [volume("told", "/run/told")],
        },
        volumes=[{"name": "told", "emptyDir": {}}],
    )
    ready = await bench.ready("spoken-to")
    assert ready["containerStatuses"][0]["restartCount"] == 0
    uid = (await bench.client.get(PODS, "spoken-to", "default"))["metadata"]["uid"]
    (bench.data / "node" / "pods" / uid / "volumes" / "told" / "sick").touch()
    await bench.until("spoken-to", lambda found: bool(found["containerStatuses"][0]["restartCount"] >= 1))
    words = [each["message"] for each in (await bench.client.list(EVENTS, "default")).items]
    assert 'Liveness probe failed: service unhealthy (responded with "NOT_SERVING")' in words
    await bench.gone("spoken-to")


@pytest.mark.skipif(os.geteuid() != 0 or not NetworkNamespaces.permitted(), reason="network namespaces are needed")
async def test_services_have_the_addresses_that_the_cluster_has_given_them(bench: Bench) -> None:
    ports: list[JsonObject] = [
        {"name": "http", "port": 80, "targetPort": 8080},
        {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"},
    ]
    document = {
        "metadata": {"name": "front", "namespace": "default"},
        "spec": {"selector": {"app": "f"}, "ports": ports},
    }
    made = await bench.client.create(SERVICES, document, "default")
    address = made["spec"]["clusterIP"]
    api = (await bench.client.get(SERVICES, "kubernetes", "default"))["spec"]["clusterIP"]
    await bench.run(
        "serves",
        {"name": "web", "image": "host", "command": [sys.executable, "-c", SERVE]},
        {"name": "echo", "image": "host", "command": [sys.executable, "-c", ECHO]},
        labels={"app": "f"},
    )
    await bench.ready("serves")
    asks = {"name": "c", "image": "host", "command": [sys.executable, "-c", ASK, address, address, api]}
    await bench.run("asks-front", asks, restartPolicy="Never")
    await bench.ended("asks-front")
    assert (await bench.log("asks-front")).splitlines() == ["200", "SAID", address, "True"]


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("0.0.0.0", 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(os.geteuid() != 0 or not NetworkNamespaces.permitted(), reason="network namespaces are needed")
async def test_ports_of_the_machine_lead_to_pods_until_they_go(bench: Bench) -> None:
    tcp, udp = free_port(socket.SOCK_STREAM), free_port(socket.SOCK_DGRAM)
    web = {"containerPort": 8080, "hostPort": tcp, "hostIP": "127.0.0.1"}
    await bench.run(
        "exposed",
        {"name": "web", "image": "host", "command": [sys.executable, "-c", SERVE], "ports": [web]}
        | {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}},
        {"name": "echo", "image": "host", "command": [sys.executable, "-c", ECHO]}
        | {"ports": [{"containerPort": 5353, "hostPort": udp, "protocol": "UDP"}]},
    )
    await bench.ready("exposed")
    reader, writer = await asyncio.open_connection("127.0.0.1", tcp)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"200"
    writer.close()
    assert await asyncio.to_thread(echoed, udp) == b"SAID"
    await bench.gone("exposed")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", tcp)


def echoed(port: int) -> bytes:
    """What comes back; the one who listens may not listen yet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.5)
        for _ in range(60):
            asking.sendto(b"said", ("127.0.0.1", port))
            with contextlib.suppress(OSError):
                return asking.recv(100)
    return b"nothing"
