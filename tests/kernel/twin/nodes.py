"""The two nodes of the comparison, each a process beside the same containerd and the same API server.

| node    | program                | cgroups of pods         | network of pods                                |
|---------|------------------------|-------------------------|------------------------------------------------|
| kubelet | kubelet 1.36.4         | /sys/fs/cgroup/kubepods | Debian's CNI plugins `ptp` and `host-local`    |
| kohort  | `kohort node`          | /sys/fs/cgroup/kohort   | its own CNI plugin                             |

kubelet starts with its defaults but for what this kernel and an API server without certificates need; the reason stands
beside each option.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

from tests.containers.containerd import Containerd
from tools.kubernetes.build import find_kubelet

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import NODES
from kohort.kube.transport import Connection, HttpsTransport
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient

Kind = Literal["kubelet", "kohort"]
CGROUPS = Path("/sys/fs/cgroup")
PARENTS: dict[Kind, Path] = {"kubelet": CGROUPS / "kubepods", "kohort": CGROUPS / "kohort"}
NAME = "twin"
CNI_PLUGINS = Path("/usr/lib/cni")
ADDRESS = "192.0.2.1"
DNS_ADDRESS = "198.18.255.53"
SECONDS = 120.0
PORT = 18080


def missing() -> str:
    """What keeps kubelet from running here, empty if nothing does."""
    if find_kubelet() is None:
        return "kubelet is not built: make programs"
    if not (CNI_PLUGINS / "ptp").exists():
        return f"{CNI_PLUGINS}/ptp is missing: apt-get install containernetworking-plugins"
    return ""


class Machine:
    """What both nodes share, in a folder of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.containerd = Containerd(directory, snapshotter="native")
        self.kubeconfig = directory / "kubeconfig"
        self.url = f"http://127.0.0.1:{PORT}"
        self._api_server: subprocess.Popen[bytes] | None = None

    async def start(self) -> Client:
        self.containerd.start()
        _add_address()
        words = [sys.executable, "-m", "tests.kernel.twin.api_server", str(PORT)]
        self._api_server = _started(words, self.directory / "api-server.log")
        self.kubeconfig.write_text(json.dumps(_kubeconfig(self.url)))
        client = Client(HttpsTransport(Connection(self.url)))
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    await client.list(NODES)
                    return client
                except (ApiError, OSError):
                    await asyncio.sleep(0.1)

    def stop(self) -> None:
        self.containerd.stop()
        if self._api_server is not None:
            self._api_server.kill()
            self._api_server.wait()


class Node:
    """One of the two, from its start until `stop`."""

    def __init__(self, kind: Kind, machine: Machine) -> None:
        self.kind = kind
        self.log = machine.directory / f"{kind}.log"
        self._directory = machine.directory / kind
        self._machine = machine
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def parent(self) -> Path:
        """The cgroup that holds the pods."""
        return PARENTS[self.kind]

    @property
    def socket(self) -> Path:
        """That of the container runtime."""
        return self._machine.containerd.socket

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, client: Client) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        words = self._kubelet() if self.kind == "kubelet" else self._kohort()
        self._process = _started(words, self.log)
        async with asyncio.timeout(SECONDS):
            while not await self._is_ready(client):
                if self._process.poll() is not None:
                    raise RuntimeError(f"{self.kind} has ended: {self.log.read_text()[-4000:]}")
                await asyncio.sleep(0.1)

    async def _is_ready(self, client: Client) -> bool:
        try:
            node = await client.get(NODES, NAME)
        except ApiError:
            return False
        conditions = node.get("status", {}).get("conditions") or []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    async def stop(self, client: Client) -> None:
        assert self._process is not None
        await self._until_no_sandboxes()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        await client.delete(NODES, NAME)
        await self._remove_sandboxes()
        for path in self._machine.containerd.cni_conf.iterdir():
            path.unlink()

    async def _until_no_sandboxes(self) -> None:
        """A pod that is deleted without a grace period is gone from the API before it is from the runtime, and the
        network of a sandbox is removed by the node."""
        runtime = CriClient(self.socket)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    while (await runtime.call(cri.LIST_POD_SANDBOX, cri.ListPodSandboxRequest())).items:  # noqa: ASYNC110
                        await asyncio.sleep(0.2)
        finally:
            await runtime.close()

    async def _remove_sandboxes(self) -> None:
        """Neither node would start beside pods of the other."""
        runtime = CriClient(self.socket)
        try:
            for each in (await runtime.call(cri.LIST_POD_SANDBOX, cri.ListPodSandboxRequest())).items:
                await runtime.call_unless_gone(cri.STOP_POD_SANDBOX, cri.StopPodSandboxRequest(each.id))
                await runtime.call_unless_gone(cri.REMOVE_POD_SANDBOX, cri.RemovePodSandboxRequest(each.id))
        finally:
            await runtime.close()

    def _kohort(self) -> list[str]:
        place = self._machine
        return [
            *(sys.executable, "-m", "kohort", "node", "--name", NAME, "--kubeconfig", str(place.kubeconfig)),
            *("--data-dir", str(self._directory), "--runtime", "cri", "--runtime-endpoint", place.containerd.endpoint),
        ]

    def _kubelet(self) -> list[str]:
        program = find_kubelet()
        assert program is not None, missing()
        _give_cpuinfo_a_frequency(self._directory)
        self._configure_network()
        config = self._directory / "config.json"
        config.write_text(json.dumps(self._configuration()))
        return [
            *(str(program), "--config", str(config), "--kubeconfig", str(self._machine.kubeconfig)),
            *("--node-ip", ADDRESS, "--hostname-override", NAME, "--root-dir", str(self._directory / "root")),
            *("--cert-dir", str(self._directory / "certificates"), "--v", os.environ.get("KUBELET_VERBOSITY", "1")),
        ]

    def _configuration(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": self._machine.containerd.endpoint,
            "cgroupDriver": "cgroupfs",  # containerd of Debian 12 does not report its driver
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "failSwapOn": False,
            "address": "127.0.0.1",
            "healthzPort": 0,
            "clusterDomain": "cluster.local",
            "clusterDNS": [DNS_ADDRESS],
            "resolvConf": "/etc/resolv.conf",
            "podLogsDir": str(self._directory / "logs"),
            "volumePluginDir": str(self._directory / "plugins"),
            "localStorageCapacityIsolation": False,  # file systems of user-mode-linux have no devices to measure
            "evictionHard": {"memory.available": "100Mi"},
        }

    def _configure_network(self) -> None:
        place = self._machine.containerd
        for name in ("ptp", "host-local", "loopback"):
            (place.cni_bin / name).unlink(missing_ok=True)
            shutil.copy(CNI_PLUGINS / name, place.cni_bin / name)
        plugin = {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "dataDir": str(self._directory / "addresses"),
                "ranges": [[{"subnet": "198.19.0.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        network = {"cniVersion": "0.4.0", "name": "twin", "plugins": [plugin]}
        (place.cni_conf / "10-twin.conflist").write_text(json.dumps(network))


def _add_address() -> None:
    """kubelet wants an address of the node that is not that of loopback."""
    subprocess.run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], check=True)


def _started(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(words, stdout=file, stderr=file, stdin=subprocess.DEVNULL)


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "twin",
        "clusters": [{"name": "twin", "cluster": {"server": url}}],
        "users": [{"name": "twin", "user": {}}],
        "contexts": [{"name": "twin", "context": {"cluster": "twin", "user": "twin"}}],
    }


def _give_cpuinfo_a_frequency(directory: Path) -> None:
    """kubelet does not start without one, and user-mode-linux has none."""
    text = Path("/proc/cpuinfo").read_text()
    if "cpu MHz" not in text:
        changed = directory / "cpuinfo"
        changed.write_text(text.replace("bogomips", "cpu MHz\t\t: 2000.000\nbogomips"))
        subprocess.run(["mount", "--bind", str(changed), "/proc/cpuinfo"], check=True)
