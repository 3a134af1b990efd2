"""`kohort node` as a node of a real cluster: scheduled to by its scheduler, asked by its API server, driven by kubectl.

Streams are tried both ways: WebSockets, which an API server of 1.36 passes on to nodes that declare it, and SPDY, which
older ones speak to their nodes.
"""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.children import environment
from tests.kubernetes.controlplane import ControlPlane, control_plane

from kohort.kube.certificate_issuing import Authority, new_authority
from kohort.objects.json_types import Json, JsonObject

NODE = "ours"
LIFE = timedelta(days=1)
SERVE = (
    "import http.server as h, os; h.HTTPServer((os.environ['IP'], 8080), h.SimpleHTTPRequestHandler).serve_forever()"
)
WIRES = {
    "websocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true"},
    "spdy": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"},
}
both_wires = pytest.mark.parametrize("wire", WIRES)


def pod(name: str, *command: str, **more: Json) -> JsonObject:
    container: JsonObject = {
        "name": "c",
        "image": "host",
        "command": list(command),
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        **more,
    }
    spec: JsonObject = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class Joined:
    """A control plane with our node."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def command(self, *words: str) -> list[str]:
        return [str(self.plane.binaries / "kubectl"), "--kubeconfig", str(self.plane.kubeconfig), *words]

    def kubectl(self, *words: str, text: str = "", wire: str = "websocket") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*words),
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment(**WIRES[wire]),
        )

    def get(self, kind: str, name: str) -> JsonObject:
        answer = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return dict(json.loads(answer.stdout or "{}"))

    def until(self, holds: Callable[[], bool], what: Callable[[], str]) -> None:
        deadline = time.monotonic() + 120
        while not holds():
            assert time.monotonic() < deadline, what()
            time.sleep(0.2)

    def run(self, document: JsonObject) -> JsonObject:
        name = document["metadata"]["name"]
        answer = self.kubectl("create", "-f", "-", text=json.dumps(document))
        assert answer.returncode == 0, answer.stderr
        self.until(lambda: self.ready(name), lambda: self.kubectl("describe", "pod", name).stdout)
        return self.get("pod", name)

    def ready(self, name: str) -> bool:
        conditions = self.get("pod", name).get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@pytest.fixture(scope="module")
def cluster(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    directory = tmp_path_factory.mktemp("node-agent")
    authority, key = new_authority("test", LIFE)
    certificate, secret = Authority(authority, key).issue(
        name="kube-apiserver-kubelet-client", organizations=("system:masters",), life=LIFE, server=False
    )
    for name, content in (("ca.crt", authority), ("client.crt", certificate), ("client.key", secret)):
        (directory / name).write_bytes(content)
    flags = [
        *("--client-ca-file", str(directory / "ca.crt")),
        *("--kubelet-client-certificate", str(directory / "client.crt")),
        *("--kubelet-client-key", str(directory / "client.key")),
    ]
    components = ("kube-controller-manager", "kube-scheduler")
    with control_plane(binaries, directory / "plane", *components, flags={"kube-apiserver": flags}) as plane:
        options = ["--kubeconfig", str(plane.kubeconfig), "--name", NODE, "--data-dir", str(directory / "node")]
        command = [sys.executable, "-m", "kohort", "node", *options, "--stop-pods"]
        node = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        try:
            assert node.stdout is not None
            while (line := node.stdout.readline()) and line.strip() != "node ready":
                pass
            assert line, "the node did not come up"
            yield Joined(plane)
        finally:
            node.send_signal(signal.SIGTERM)
            assert node.wait(30) == 0, "the node did not end well"


@pytest.fixture(scope="module")
def web(cluster: Joined) -> JsonObject:
    listens = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    return cluster.run(pod("web", sys.executable, "-u", "-c", f"print('up'); {SERVE}", readinessProbe=listens))


def test_it_registers_and_says_what_it_can(cluster: Joined) -> None:
    node = cluster.get("node", NODE)
    conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
    assert conditions["Ready"] == "True" and conditions["MemoryPressure"] == "False"
    assert {"ExtendWebSocketsToKubelet", "InPlacePodVerticalScalingInitContainers"} <= {
        *node["status"]["declaredFeatures"]
    }
    assert cluster.kubectl("get", "lease", "-n", "kube-node-lease", NODE).returncode == 0


def test_pods_that_are_scheduled_to_it_run_and_have_logs(cluster: Joined, web: JsonObject) -> None:
    assert web["spec"]["nodeName"] == NODE and web["status"]["phase"] == "Running"
    assert web["status"]["containerStatuses"][0]["containerID"].startswith("process://")
    assert cluster.kubectl("logs", "web", "--limit-bytes=3").stdout == "up\n"


@both_wires
def test_commands_run_with_streams_and_exit_codes(cluster: Joined, web: JsonObject, wire: str) -> None:
    words = ("exec", "-i", "web", "--", "sh", "-c", "cat; echo no >&2; exit 7")
    answer = cluster.kubectl(*words, text="through", wire=wire)
    assert (answer.stdout, answer.returncode) == ("through", 7) and "no\n" in answer.stderr


@both_wires
def test_much_goes_through_whole(cluster: Joined, web: JsonObject, wire: str) -> None:
    text = "".join(f"{number:08d}\n" for number in range(200_000))
    assert cluster.kubectl("exec", "-i", "web", "--", "cat", text=text, wire=wire).stdout == text


@both_wires
def test_attach_reaches_a_running_container(cluster: Joined, wire: str) -> None:
    name = f"echo-{wire}"
    echo = pod(name, "sh", "-c", "while read line; do echo got $line; done", stdin=True, stdinOnce=True)
    echo["spec"]["restartPolicy"] = "Never"
    cluster.run(echo)
    answer = cluster.kubectl("attach", "-i", name, text="one\ntwo\n", wire=wire)
    assert "got one\ngot two\n" in answer.stdout, answer.stderr
    cluster.until(lambda: cluster.get("pod", name)["status"]["phase"] == "Succeeded", lambda: "its input did not end")
    assert cluster.kubectl("logs", name).stdout == "got one\ngot two\n"


@both_wires
def test_ports_are_forwarded(cluster: Joined, web: JsonObject, wire: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = cluster.command("port-forward", "pod/web", f"{port}:8080")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **WIRES[wire]}) as forward:
        assert forward.stdout is not None and "Forwarding" in forward.stdout.readline()
        for _ in range(3):
            assert b"<html" in urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read()
        forward.terminate()


@both_wires
def test_files_are_copied_both_ways(cluster: Joined, web: JsonObject, wire: str, tmp_path: Path) -> None:
    sent, back, inside = tmp_path / "sent", tmp_path / "back", f"/tmp/kohort-copied-{wire}"
    sent.write_bytes(bytes(range(256)) * 4000)
    assert cluster.kubectl("cp", str(sent), f"web:{inside}", wire=wire).returncode == 0
    assert cluster.kubectl("cp", f"web:{inside}", str(back), wire=wire).returncode == 0
    assert back.read_bytes() == sent.read_bytes()
    cluster.kubectl("exec", "web", "--", "rm", inside)


def test_a_resize_is_served_without_a_restart(cluster: Joined) -> None:
    cluster.run(pod("grows", "sleep", "1000"))
    before = cluster.kubectl("exec", "grows", "--", "sh", "-c", "echo $PPID").returncode
    bigger = {"requests": {"cpu": "200m", "memory": "128Mi"}}
    patch = json.dumps({"spec": {"containers": [{"name": "c", "resources": bigger}]}})
    answer = cluster.kubectl("patch", "pod", "grows", "--subresource", "resize", "-p", patch)
    assert answer.returncode == 0 and before == 0, answer.stderr

    def done() -> bool:
        status = cluster.get("pod", "grows")["status"]
        resizing = any(each["type"].startswith("PodResize") for each in status["conditions"])
        return status.get("observedGeneration") == 2 and not resizing

    cluster.until(done, lambda: json.dumps(cluster.get("pod", "grows")["status"]))
    status = cluster.get("pod", "grows")["status"]["containerStatuses"][0]
    assert status["resources"] == bigger and status["allocatedResources"] == bigger["requests"]
    assert status["restartCount"] == 0
    reasons = cluster.kubectl("events", "--for", "pod/grows", "-o", "jsonpath={.items[*].reason}").stdout.split()
    assert {"ResizeStarted", "ResizeCompleted"} <= {*reasons}


def test_its_metrics_are_for_those_whom_the_cluster_trusts(cluster: Joined, web: JsonObject) -> None:
    """The API server does not proxy to nodes on loopback addresses, so they are read as a scraper does."""
    port = cluster.get("node", NODE)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    url = f"https://127.0.0.1:{port}/metrics"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=10, context=tls).read()
    keys = cluster.plane.directory.parent
    tls.load_cert_chain(keys / "client.crt", keys / "client.key")
    text = urllib.request.urlopen(url, timeout=10, context=tls).read().decode()
    assert "kubelet_pod_resize_duration_milliseconds" in text


def test_somebody_looks_inside(cluster: Joined, web: JsonObject) -> None:
    script = ("sh", "-c", "echo looking; hostname")
    words = ("debug", "web", "--image=host", "--container=visitor", "--target=c", "--", *script)
    assert cluster.kubectl(*words).returncode == 0

    def seen() -> bool:
        found = cluster.get("pod", "web")["status"].get("ephemeralContainerStatuses", [])
        return bool(found) and "terminated" in found[0]["state"]

    cluster.until(seen, lambda: json.dumps(cluster.get("pod", "web")["status"]))
    assert cluster.kubectl("logs", "web", "-c", "visitor").stdout == "looking\nweb\n"


def test_services_lead_to_pods(cluster: Joined, web: JsonObject) -> None:
    assert cluster.kubectl("label", "pod", "web", "app=web").returncode == 0
    assert cluster.kubectl("expose", "pod", "web", "--port=80", "--target-port=8080", "--name=front").returncode == 0
    fetch = "import urllib.request as u; print(u.urlopen('http://front.default.svc.cluster.local/', timeout=5).status)"

    def answered() -> bool:
        return cluster.kubectl("exec", "web", "--", sys.executable, "-c", fetch).stdout == "200\n"

    cluster.until(answered, lambda: cluster.kubectl("get", "endpointslices", "-o", "wide").stdout)


def test_a_deleted_pod_ends(cluster: Joined) -> None:
    cluster.run(pod("goes", "sleep", "1000"))
    assert cluster.kubectl("delete", "pod", "goes").returncode == 0
    assert cluster.get("pod", "goes") == {}


def test_a_node_is_drained_and_taken_up_again(cluster: Joined) -> None:
    cluster.run(pod("moves", "sleep", "1000"))
    drained = cluster.kubectl("drain", NODE, "--force", "--delete-emptydir-data", "--timeout=50s")
    assert drained.returncode == 0, drained.stderr
    left = cluster.kubectl(
        "get", "pods", "-A", "--field-selector", f"spec.nodeName={NODE},status.phase=Running", "-o", "name"
    )
    assert left.stdout == ""
    assert cluster.kubectl("uncordon", NODE).returncode == 0
    cluster.run(pod("comes", "sleep", "1000"))
