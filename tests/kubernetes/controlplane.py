"""A real Kubernetes control plane on loopback, for tests and benchmarks.

    with control_plane(directory) as kubeconfig: ...

etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each on a free port, ended by pid.
"""

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

TOKEN = "test-token"
READY_SECONDS = 60.0
AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
"""


class ControlPlane:
    def __init__(
        self, binaries: Path, directory: Path, flags: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        """`flags` are given to the components in addition."""
        self.binaries = binaries
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.audit_log = directory / "audit.log"
        """What service accounts have asked for, one event per line."""
        self.port, self._etcd_port, self._peer_port = free_ports(3)
        self._flags = flags
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    def start(self, *components: str) -> None:
        """etcd and the API server, and any of `kube-controller-manager`, `kube-scheduler`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_files()
        self._run("etcd", self._etcd_flags())
        self.start_api_server()
        for component in components:
            (port,) = free_ports(1)
            flags = ["--kubeconfig", str(self.kubeconfig), "--leader-elect=false", f"--secure-port={port}"]
            flags += ["--cert-dir", str(self.directory / component)]
            if component == "kube-controller-manager":
                flags += ["--service-account-private-key-file", str(self.directory / "sa.key")]
            self._run(component, flags)

    def start_api_server(self) -> None:
        self._run("kube-apiserver", self._api_server_flags())
        self._wait_ready()

    def stop_one(self, component: str) -> None:
        process = self._processes.pop(component)
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            # An API server waits for every watch to end, for up to a minute.
            process.kill()
            process.wait(timeout=10)

    def signal(self, component: str, number: int) -> None:
        self._processes[component].send_signal(number)

    def stop(self) -> None:
        for component in reversed([*self._processes]):
            self.stop_one(component)

    def kubectl(self, *words: str, text: str | None = None) -> str:
        command = [str(self.binaries / "kubectl"), "--kubeconfig", str(self.kubeconfig), *words]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60).stdout

    def _run(self, component: str, flags: Sequence[str]) -> None:
        log = (self.directory / f"{component}.log").open("ab")
        command = [str(self.binaries / component), *flags, *self._flags.get(component, ())]
        self._processes[component] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self._processes["kube-apiserver"].poll() is not None:
                break
            if self._is_ready():
                return
            time.sleep(0.1)
        tail = (self.directory / "kube-apiserver.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"the API server did not become ready; its log ends with:\n{tail}")

    def _is_ready(self) -> bool:
        try:
            return self.kubectl("get", "--raw", "/readyz").strip() == "ok"
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return False

    def _write_files(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self.directory / "sa.key").write_bytes(private)
        (self.directory / "sa.pub").write_bytes(public)
        (self.directory / "audit.yaml").write_text(AUDIT)
        (self.directory / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self.kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\n"
            f"clusters: [{{name: r, cluster: {{server: '{self.server}', insecure-skip-tls-verify: true}}}}]\n"
            f"users: [{{name: r, user: {{token: {TOKEN}}}}}]\n"
            "contexts: [{name: r, context: {cluster: r, user: r}}]\ncurrent-context: r\n"
        )
        self.kubeconfig.chmod(0o600)

    def _etcd_flags(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            *("--data-dir", str(self.directory / "etcd")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
        ]

    def _api_server_flags(self) -> list[str]:
        return [
            *("--etcd-servers", f"http://127.0.0.1:{self._etcd_port}"),
            *("--secure-port", str(self.port), "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"),
            *("--cert-dir", str(self.directory / "certs")),
            *("--service-account-key-file", "sa.pub", "--service-account-signing-key-file", "sa.key"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--token-auth-file", "tokens.csv", "--authorization-mode", "RBAC"),
            *("--service-cluster-ip-range", "10.96.0.0/16", "--endpoint-reconciler-type", "none"),
            *("--audit-policy-file", "audit.yaml", "--audit-log-path", str(self.audit_log)),
        ]


@contextmanager
def control_plane(
    binaries: Path, directory: Path, *components: str, flags: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Iterator[ControlPlane]:
    plane = ControlPlane(binaries, directory, flags)
    try:
        plane.start(*components)
        yield plane
    finally:
        plane.stop()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
