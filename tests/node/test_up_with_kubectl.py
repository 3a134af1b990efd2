"""`kohort up` as a process, its pods as processes, driven by kubectl."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.children import environment

from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.objects.json_types import Json

pytestmark = pytest.mark.e2e
SERVE = "import http.server, os; http.server.HTTPServer((os.environ['IP'], 8080), H).serve_forever()"
SCRIPT = f"""
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'hello')
    def log_message(self, *words): pass
print('up', flush=True); print('warned', file=sys.stderr, flush=True)
{SERVE}
"""
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "c",
                "image": "host",
                "command": [sys.executable, "-c", SCRIPT],
                "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
            }
        ],
    },
}


class Machine:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.child: subprocess.Popen[str] | None = None

    def up(self) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "kohort", "up", "--data-dir", str(self.data), "--port", "0"],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.child.stdout is not None
        assert self.child.stdout.readline().startswith("ready ")

    def end(self, number: int) -> None:
        assert self.child is not None
        self.child.send_signal(number)
        self.child.wait(30)

    def kubectl(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = ["kubectl", f"--kubeconfig={self.data}/kubeconfig", *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)

    def run(self, name: str, script: str, mounts: Json = (), **more: Json) -> "subprocess.CompletedProcess[str]":
        """A pod with a shell."""
        container = {"name": "c", "image": "host", "command": ["sh", "-c", script], "volumeMounts": mounts}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **more}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(pod))

    def pod(self) -> Json:
        return json.loads(self.kubectl("get", "pod", "web", "-o", "json").stdout)

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not holds():
            assert time.monotonic() < deadline, self.kubectl("describe", "pod", "web").stdout
            time.sleep(0.1)

    def ready(self) -> bool:
        answer = self.kubectl("get", "pod", "web", "-o", "jsonpath={.status.containerStatuses[0].ready}")
        return answer.stdout == "true"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is needed")
    found = Machine(tmp_path_factory.mktemp("node") / "data")
    found.up()
    answer = found.kubectl("apply", "-f", "-", stdin=json.dumps(POD))
    assert answer.returncode == 0, answer.stderr
    found.until(found.ready)
    yield found
    found.end(signal.SIGTERM)


def test_logs_of_both_streams(machine: Machine) -> None:
    assert sorted(machine.kubectl("logs", "web").stdout.splitlines()) == ["up", "warned"]
    assert machine.kubectl("logs", "web", "--tail=1", "--timestamps").stdout.count("Z ") == 1


@pytest.fixture(params=["true", "false"], ids=["websocket", "spdy"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How kubectl speaks when a connection stops being HTTP."""
    for name in ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"):
        monkeypatch.setenv(name, request.param)


@pytest.mark.usefixtures("protocol")
def test_commands_with_streams_and_exit_codes(machine: Machine) -> None:
    answer = machine.kubectl("exec", "-i", "web", "--", "sh", "-c", "cat; echo no >&2; exit 7", stdin="through")
    assert (answer.stdout, answer.returncode) == ("through", 7) and "no" in answer.stderr


def test_a_progress_bar_is_shown_as_it_was_written(machine: Machine) -> None:
    assert machine.run("bar", "printf 'none\\rhalf\\f\\v\\342\\200\\250\\rall\\n'; sleep 600").returncode == 0
    assert machine.kubectl("wait", "--for=condition=Ready", "pod/bar", "--timeout=30s").returncode == 0
    command = ["kubectl", f"--kubeconfig={machine.data}/kubeconfig", "logs", "bar"]
    machine.until(lambda: machine.kubectl("logs", "bar").stdout != "")
    assert subprocess.run(command, capture_output=True, check=True).stdout == "none\rhalf\f\v\u2028\rall\n".encode()
    machine.kubectl("delete", "pod", "bar", "--now")


def test_the_log_before_is_that_of_the_last_state(machine: Machine) -> None:
    count = "n=$(($(cat /run/tries/n 2>/dev/null) + 1)); echo $n > /run/tries/n; echo attempt $n; exit 1"
    mounts = [{"name": "tries", "mountPath": "/run/tries"}]
    assert machine.run("loop", count, mounts, volumes=[{"name": "tries", "emptyDir": {}}]).returncode == 0
    status = "jsonpath={.status.containerStatuses[0].state.waiting.reason}"
    machine.until(lambda: machine.kubectl("get", "pod", "loop", "-o", status).stdout == "CrashLoopBackOff")
    assert [machine.kubectl("logs", "loop", *more).stdout for more in ((), ("-p",))] == ["attempt 2\n"] * 2
    answer = machine.kubectl("exec", "loop", "--", "true")
    assert 'container "c" is not running' in answer.stderr or "container not found" in answer.stderr, answer.stderr
    machine.kubectl("delete", "pod", "loop", "--now")


def test_a_container_without_an_image_has_no_log(machine: Machine) -> None:
    words = ("run", "none", "--image=no.such/image", "--restart=Never")
    assert machine.kubectl(*words).returncode == 0
    expected = 'container "none" in pod "none" is waiting to start: trying and failing to pull image'
    machine.until(lambda: expected in machine.kubectl("logs", "none").stderr)
    machine.kubectl("delete", "pod", "none", "--now")


@pytest.mark.usefixtures("protocol")
def test_refusals_of_sessions_name_their_cause(machine: Machine) -> None:
    answer = machine.kubectl("exec", "web", "-c", "nosuch", "--", "true")
    assert "container nosuch is not valid for pod web" in answer.stderr and "SPDY" not in answer.stderr


@pytest.mark.usefixtures("protocol")
def test_an_attached_container_may_fail(machine: Machine) -> None:
    words = ("run", "-i", "--rm", "once", "--image=host", "--restart=Never", "--command", "--")
    answer = machine.kubectl(*words, "sh", "-c", "cat; echo done; exit 3", stdin="through ")
    assert answer.stdout.count("through done") == 1 and answer.returncode == 3, answer
    assert "couldn't attach" not in answer.stderr


@pytest.mark.usefixtures("protocol")
def test_ports_are_forwarded(machine: Machine) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["kubectl", f"--kubeconfig={machine.data}/kubeconfig", "port-forward", "pod/web", f"{port}:8080"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        assert forward.stdout is not None and "Forwarding" in forward.stdout.readline()
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read() == b"hello"
        forward.terminate()


def test_two_pods_listen_on_the_same_port(machine: Machine) -> None:
    if not NetworkNamespaces.permitted():
        pytest.skip("network namespaces are not permitted here")
    serve = "from http.server import *; HTTPServer(('0.0.0.0', 8080), SimpleHTTPRequestHandler).serve_forever()"
    for name in ("first", "second"):
        probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        container = {"name": "c", "image": "host", "command": [sys.executable, "-c", serve], "readinessProbe": probe}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        assert machine.kubectl("apply", "-f", "-", stdin=json.dumps(pod)).returncode == 0
    waiting = machine.kubectl("wait", "--for=condition=Ready", "pod/first", "pod/second", "--timeout=30s")
    assert waiting.returncode == 0, waiting.stderr
    address = machine.kubectl("get", "pod", "second", "-o", "jsonpath={.status.podIP}").stdout
    ask = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).status)"
    answer = machine.kubectl("exec", "first", "--", sys.executable, "-c", ask, f"http://{address}:8080/")
    assert answer.stdout == "200\n", answer.stderr
    api = "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/healthz"
    answer = machine.kubectl("exec", "first", "--", "sh", "-c", f"curl -sk {api}")
    assert answer.stdout == "ok", "the API server cannot be reached from inside"
    answer = machine.kubectl("exec", "first", "--", "curl", "-sk", "https://kubernetes.default/healthz")
    assert answer.stdout == "ok", "nor by its name"
    machine.kubectl("delete", "pod", "first", "second")


def test_users_without_rights_are_refused_by_the_node(machine: Machine) -> None:
    node = json.loads(machine.kubectl("get", "nodes", "-o", "json").stdout)["items"][0]["status"]
    port = node["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    words = ["curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}"]
    for more in ([], ["-H", "Authorization: Bearer forged"]):
        command = [*words, *more, f"https://127.0.0.1:{port}/healthz"]
        answer = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
        assert answer.stdout == "401", "a client without a certificate or a valid token was served"


def test_a_killed_cluster_finds_its_processes_again(machine: Machine) -> None:
    before = machine.pod()["status"]["containerStatuses"][0]
    machine.end(signal.SIGKILL)
    machine.up()
    machine.until(machine.ready)
    after = machine.pod()["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
    assert machine.kubectl("exec", "web", "--", "echo", "still").stdout == "still\n"


def test_a_deleted_pod_leaves_nothing(machine: Machine) -> None:
    assert machine.kubectl("delete", "pod", "web").returncode == 0
    assert list((machine.data / "node" / "pods").iterdir()) == []
    assert list((machine.data / "node" / "runtime" / "instances").iterdir()) == []
