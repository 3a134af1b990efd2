"""Starting, stopping, restarting, and refusing to start."""

import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.children import environment, imports

from kohort.node.cgroups import warning_of_no_limits
from kohort.up.data_directory import DataDirectory

if TYPE_CHECKING:
    from tests.e2e.conftest import Kohort

pytestmark = pytest.mark.e2e

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"key": name}}


def fingerprint(path: Path) -> dict[str, bytes]:
    """The content of everything in a directory that must survive."""
    files = [path / "kubeconfig", path / "store.db", *(path / "pki").iterdir()]
    return {str(file): file.read_bytes() for file in files if file.exists()}


def test_ready_means_that_the_api_answers(kohort: "Kohort") -> None:
    kohort.up("--parts", "apiserver")
    assert re.fullmatch(r"https://127\.0\.0\.1:\d+", kohort.server)
    assert kohort.request("/readyz") == "ok"
    assert kohort.request(CONFIG_MAPS, config_map("x"))["data"] == {"key": "x"}


def test_others_can_read_nothing(kohort: "Kohort") -> None:
    kohort.up("--parts", "apiserver")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in kohort.data.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert stat.S_IMODE(kohort.data.stat().st_mode) == 0o700


def test_strangers_get_health_and_version_and_nothing_else(kohort: "Kohort") -> None:
    kohort.up("--parts", "apiserver")
    allowed = ["/healthz", "/livez", "/readyz", "/version"]
    denied = ["/api", "/apis", "/api/v1/namespaces", "/api/v1/secrets", "/metrics", "/openapi/v3"]
    assert {path: kohort.status(path, token="") for path in allowed} == dict.fromkeys(allowed, 200)
    assert {path: kohort.status(path, token="") for path in denied} == dict.fromkeys(denied, 403)
    assert kohort.status("/healthz", token="wrong") == 401


@pytest.mark.parametrize(("words", "status"), [((), 403), (("--default-resize-policy", "Recreate"), 200)])
def test_whether_sizes_may_change_can_be_chosen(kohort: "Kohort", words: tuple[str, ...], status: int) -> None:
    kohort.up("--parts", "apiserver,operator", *words)
    pod = {"spec": {"containers": [{"name": "main", "image": "host"}]}}
    sets = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
    body = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm"},
        "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": pod}},
    }
    kohort.request(sets, body)
    found = 409
    while found == 409:  # the operator has written the status in between
        made = kohort.request(f"{sets}/llm")
        made["spec"]["leaderWorkerTemplate"]["size"] = 3
        found = kohort.status(f"{sets}/llm", body=made, method="PUT")
    assert found == status


def test_it_listens_on_loopback_only(kohort: "Kohort") -> None:
    child = kohort.up("--parts", "apiserver")
    port = int(kohort.server.rpartition(":")[2])
    sockets = Path(f"/proc/{child.pid}/net/tcp").read_text()
    listening = [line.split()[1] for line in sockets.splitlines()[1:] if line.split()[3] == "0A"]
    assert [address for address in listening if address.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_order(kohort: "Kohort", number: signal.Signals) -> None:
    child = kohort.up()
    kohort.request(CONFIG_MAPS, config_map("x"))
    child.send_signal(number)
    _, errors = child.communicate(timeout=120)
    expected = f"kohort: {limits}\n" if (limits := warning_of_no_limits()) else ""
    assert (child.returncode, errors) == (0, expected)
    assert not (kohort.data / "store.db-wal").exists()


def test_a_killed_cluster_continues_with_everything(kohort: "Kohort") -> None:
    child = kohort.up("--parts", "apiserver")
    created = [kohort.request(CONFIG_MAPS, config_map(f"x{number}"))["metadata"] for number in range(20)]
    before = fingerprint(kohort.data)
    port = int(kohort.server.rpartition(":")[2])
    child.kill()
    child.wait()
    kohort.up("--parts", "apiserver", port=port)
    found = kohort.request(CONFIG_MAPS)
    assert {item["metadata"]["uid"] for item in found["items"]} >= {item["uid"] for item in created}
    assert int(found["metadata"]["resourceVersion"]) >= int(created[-1]["resourceVersion"])
    later = kohort.request(CONFIG_MAPS, config_map("later"))["metadata"]
    assert int(later["resourceVersion"]) > int(created[-1]["resourceVersion"])
    after = fingerprint(kohort.data)
    assert {name: after[name] == content for name, content in before.items() if not name.endswith(".db")} == {
        name: True for name in before if not name.endswith(".db")
    }


def test_a_second_one_on_the_same_directory_is_refused(kohort: "Kohort") -> None:
    child = kohort.up("--parts", "apiserver")
    before = fingerprint(kohort.data)
    assert kohort.refusal("--port", "0") == (
        f"kohort: a cluster runs on {kohort.data} already (pid {child.pid}): "
        f"export KUBECONFIG={kohort.data / 'kubeconfig'}; stop it with kohort down --data-dir {kohort.data}, "
        "or choose another --data-dir"
    )
    assert fingerprint(kohort.data) == before
    assert kohort.request("/readyz") == "ok"


def test_without_its_lock_files_a_directory_is_still_taken(kohort: "Kohort") -> None:
    child = kohort.up("--parts", "apiserver")
    for lock in kohort.data.glob("*.lock"):
        lock.unlink()
    assert "a cluster runs on" in kohort.refusal("--port", "0")
    assert kohort.request("/readyz") == "ok"
    child.send_signal(signal.SIGTERM)
    child.wait(30)


def test_a_server_whose_directory_is_deleted_refuses_writes_and_is_not_ready(kohort: "Kohort") -> None:
    child = kohort.up("--parts", "apiserver")
    kohort.request(CONFIG_MAPS, config_map("before"))
    kept = {name: (kohort.data / "pki" / name).read_bytes() for name in ("token", "ca.crt")}
    shutil.rmtree(kohort.data)
    (kohort.data / "pki").mkdir(parents=True)
    for name, content in kept.items():
        (kohort.data / "pki" / name).write_bytes(content)
    assert child.stderr is not None
    assert "store.db was deleted or replaced while the server was running" in child.stderr.readline()
    with pytest.raises(urllib.error.HTTPError) as refused:
        kohort.request("/readyz")
    assert "[-]etcd failed: the database was deleted or replaced" in refused.value.read().decode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        kohort.request(CONFIG_MAPS, config_map("after"))
    assert refused.value.code == 500
    assert "no write is possible until a restart" in json.load(refused.value)["message"]
    names = [item["metadata"]["name"] for item in kohort.request(CONFIG_MAPS)["items"]]
    assert "before" in names and "after" not in names


def test_a_port_in_use_is_named_and_nothing_is_written(kohort: "Kohort") -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = kohort.refusal("--port", str(port))
    assert message == f"kohort: port {port} on 127.0.0.1 is in use; choose another with --port, or 0 for any free one"
    assert not kohort.data.exists()


def test_an_address_of_another_machine_is_refused(kohort: "Kohort") -> None:
    assert "cannot listen on 192.0.2.1 port 7777" in kohort.refusal("--host", "192.0.2.1", "--port", "7777")


@pytest.mark.parametrize("damage", ["garbage", "truncated"])
def test_a_damaged_database_is_left_as_it_is(kohort: "Kohort", damage: str) -> None:
    child = kohort.up("--parts", "apiserver")
    for number in range(50):
        kohort.request(CONFIG_MAPS, {**config_map(f"x{number}"), "data": {"padding": "x" * 2000}})
    child.send_signal(signal.SIGTERM)
    child.wait(30)
    database = kohort.data / "store.db"
    content = database.read_bytes()
    database.write_bytes(b"garbage" * 1000 if damage == "garbage" else content[: len(content) // 2])
    before = fingerprint(kohort.data)
    assert f"the database {database} is damaged" in kohort.refusal("--port", "0")
    assert fingerprint(kohort.data) == before


AS_NOBODY = """
import os, sys
import kohort.cli.main, kohort.cli.up, kohort.up.process, kohort.kube.certificate_issuing
import kohort.cluster.apiserver.http.https_server, kohort.cluster.apiserver.http.exec_streams
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.argv = ["kohort", "up", "--data-dir", sys.argv[1], "--port", "0", "--parts", "apiserver"]
kohort.cli.main.main()
"""


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Root may write everywhere, so the attempt is made without privileges."""
    data = tmp_path / "data"
    data.mkdir(mode=0o500)
    if os.getuid() == 0:
        os.chown(data, 65534, 65534)
    for parent in tmp_path.parents[:2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    tmp_path.chmod(0o755)
    result = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(data)],
        env=imports(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr == (
        f"kohort: cannot write to the data directory {data}: Permission denied; "
        "make it writable, or choose another with --data-dir\n"
    )
    assert list(data.iterdir()) == []


def test_in_the_background(kohort: "Kohort") -> None:
    started = kohort.call("up", "--detach", "--port", "0", "--simulated-nodes", "3")
    assert started.returncode == 0, started.stderr
    ready, export = started.stdout.splitlines()
    kohort.server = ready.removeprefix("ready ")
    assert export == f"export KUBECONFIG={kohort.kubeconfig}"
    names = [node["metadata"]["name"] for node in kohort.request("/api/v1/nodes")["items"]]
    assert [name for name in names if name.startswith("sim-")] == ["sim-0", "sim-1", "sim-2"]
    again = kohort.call("up", "--detach", "--port", "0")
    assert again.returncode == 1
    assert "already (pid" in again.stderr
    stopped = kohort.call("down")
    assert (stopped.returncode, bool(re.fullmatch(r"stopped \(pid \d+\)\n", stopped.stdout))) == (0, True)
    assert kohort.call("down").stdout == f"kohort is not running on {kohort.data}\n"
    fewer = kohort.call("up", "--detach", "--port", "0", "--simulated-nodes", "1")
    assert fewer.stderr == "kohort: removed nodes sim-1 to sim-2, which an earlier start ran\n"
    assert fewer.stdout.startswith("ready https://")
    assert kohort.call("down").returncode == 0
    here = kohort.call("up", "--detach", "--port", "0")
    notes = filter(None, ("removed node sim-0, which an earlier start ran", warning_of_no_limits()))
    assert here.stderr == f"kohort: {'; '.join(notes)}\n"
    assert kohort.call("down").returncode == 0
    machine = socket.gethostname().lower()
    elsewhere = kohort.call("up", "--detach", "--port", "0", "--simulated-nodes", "1")
    assert elsewhere.stderr == f"kohort: removed node {machine}, which an earlier start ran\n"
    assert kohort.call("down").returncode == 0


def test_down_ends_the_pods_of_a_killed_cluster(kohort: "Kohort") -> None:
    child = kohort.up()
    container = {"name": "c", "image": "host", "command": ["sleep", "1234"]}
    kohort.request("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    instances = kohort.data / "node" / "runtime" / "instances"
    wait_until(lambda: list(instances.glob("*.json")) != [])
    pid = json.loads(next(instances.glob("*.json")).read_text())["instance"]["pid"]
    child.kill()
    child.wait()
    assert Path(f"/proc/{pid}").exists(), "it waits for the next one"
    stopped = kohort.call("down")
    assert (stopped.returncode, stopped.stdout) == (0, "ended 1 pod that a killed kohort had left\n"), stopped.stderr
    assert not Path(f"/proc/{pid}").exists()
    assert str(kohort.data) not in Path("/proc/self/mounts").read_text()
    assert kohort.call("down").stdout == f"kohort is not running on {kohort.data}\n"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_failed_start_in_the_background_says_why(kohort: "Kohort") -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = kohort.call("up", "--detach", "--port", str(port))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"kohort: port {port} on 127.0.0.1 is in use")


def test_parts_alone_run_against_another_cluster(kohort: "Kohort", tmp_path: Path) -> None:
    from tests.e2e.conftest import Kohort

    kohort.up("--parts", "apiserver")
    other = Kohort(tmp_path / "other")
    command = other.command("up", "--parts", "workloads", "--kubeconfig", str(kohort.kubeconfig))
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"ready {kohort.server}\n"
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
        assert child.stdout.read() == "", "the user has the kubeconfig"


def test_parts_in_the_background_can_be_stopped(kohort: "Kohort", tmp_path: Path) -> None:
    from tests.e2e.conftest import Kohort

    kohort.up("--parts", "apiserver")
    other = Kohort(tmp_path / "other")
    words = ("up", "--detach", "--parts", "workloads", "--kubeconfig", str(kohort.kubeconfig))
    started = other.call(*words)
    assert (started.returncode, started.stdout) == (0, f"ready {kohort.server}\n"), started.stderr
    assert "already (pid" in other.call(*words).stderr
    assert other.call("down").stdout.startswith("stopped (pid ")
    assert other.call("down").stdout == f"kohort is not running on {other.data}\n"


def test_a_start_in_the_background_that_is_interrupted_ends(kohort: "Kohort", tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": ""}}],
            "current-context": "a",
        }
        (tmp_path / "config").write_text(json.dumps(config))
        words = ("--detach", "--parts", "workloads", "--kubeconfig", str(tmp_path / "config"))
        with subprocess.Popen(kohort.command("up", *words), env=environment(), stderr=subprocess.PIPE) as child:
            silent.accept()
            child.send_signal(signal.SIGINT)
        wait_until(lambda: DataDirectory(kohort.data).owner() is None)


def test_a_narrow_limit_of_open_files_is_widened(kohort: "Kohort") -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = ["sh", "-c", 'ulimit -S -n 64; exec "$@"', "-", *kohort.command("up", "--parts", "apiserver")]
    with subprocess.Popen([*command, "--port", "0"], env=environment(), stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith("ready ")
        limits = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        child.terminate()
    assert limits == (min(65536, hard), hard)


def test_kubectl_sees_the_nodes(kohort: "Kohort", run_kubectl: Callable[..., str]) -> None:
    kohort.up("--simulated-nodes", "2")
    run_kubectl("wait", "--for=condition=Ready", "node/sim-0", "node/sim-1", "--timeout=120s")
    table = run_kubectl("get", "nodes").splitlines()
    assert table[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [line.split()[0] for line in table[1:] if line.startswith("sim-")] == ["sim-0", "sim-1"]
    assert run_kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}") == "kubernetes-admin"
