"""CRI-O for tests. It cannot import images: a registry on loopback stands for those in the names of images."""

import contextlib
import io
import json
import os
import socket
import subprocess
import tarfile
from pathlib import Path

from tests.containers.runtime import SANDBOX_IMAGE, RuntimeUnderTest

REPLACED_REGISTRIES = ("kohort.test", "docker.io")


class Crio(RuntimeUnderTest):
    name = "cri-o"

    def __init__(self, directory: Path, *, driver: str = "overlay") -> None:
        super().__init__(directory)
        self._driver = driver
        self._images = ""
        """The registry that stands for others."""

    def start(self) -> None:
        if not self._images:
            self._images = self.registry()
        registries = [
            f'[[registry]]\nprefix = "{name}"\nlocation = "{self._images}"\ninsecure = true\n'
            for name in REPLACED_REGISTRIES
        ]
        files = {
            "crio.conf": self._config(),
            "policy.json": json.dumps({"default": [{"type": "insecureAcceptAnything"}]}),
            "registries.conf": "\n".join(registries),
            "storage.conf": f'[storage]\ndriver = "{self._driver}"\nrunroot = "{self.directory}/run"\n'
            f'graphroot = "{self.directory}/root"\n',
        }
        for name, content in files.items():
            (self.directory / name).write_text(content)
        for name in ("hooks", "registries.conf.d", "namespaces"):
            (self.directory / name).mkdir(exist_ok=True)
        options = {
            "config": self.directory / "crio.conf",
            "config-dir": "",
            "registries-conf": self.directory / "registries.conf",
            "registries-conf-dir": self.directory / "registries.conf.d",
        }
        words = ["crio", *(f"--{name}={value}" for name, value in options.items())]
        environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(self.directory / "storage.conf")}
        self._start_daemon(words, environment)

    def stop(self) -> None:
        super().stop()
        for place in Path("/sys/fs/cgroup").glob("*/crio"):  # CRI-O leaves them to a kubelet; those in use stay
            for path in (*place.iterdir(), place):
                with contextlib.suppress(OSError):
                    path.rmdir()

    def load(self, archive: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            manifest = tar.extractfile("manifest.json")
            assert manifest is not None
            (name,) = json.load(manifest)[0]["RepoTags"]
        self.push(self._images, name.partition("/")[2], archive)

    def container_ids(self) -> list[str]:
        return self._runc("list", "-q").split()

    def _allow(self, registry: str) -> None:
        """CRI-O does not ask for TLS on loopback."""

    def _runc(self, *words: str) -> str:
        command = ["runc", "--root", str(self.directory / "runc"), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
            connection.settimeout(10)
            connection.connect(str(self.socket))
            connection.sendall(b"GET /config HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(100)
        return False

    def _end_containers(self) -> None:
        for id in self.container_ids():
            with contextlib.suppress(subprocess.CalledProcessError):
                self._runc("delete", "--force", id)

    def _config(self) -> str:
        own = self.directory
        return f"""[crio]
root = "{own}/root"
runroot = "{own}/run"
storage_driver = "{self._driver}"
log_dir = "{own}/logs"
version_file = "{own}/version"
clean_shutdown_file = "{own}/clean.shutdown"
[crio.api]
listen = "{self.socket}"
[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
container_exits_dir = "{own}/exits"
container_attach_socket_dir = "{own}/attach"
irqbalance_config_restore_file = "disable"
disable_hostport_mapping = true
namespaces_dir = "{own}/namespaces"
hooks_dir = ["{own}/hooks"]
default_runtime = "runc"
[crio.runtime.runtimes.runc]
runtime_root = "{own}/runc"
[crio.image]
pause_image = "{SANDBOX_IMAGE}"
signature_policy = "{own}/policy.json"
signature_policy_dir = "{own}/policies"
[crio.network]
network_dir = "{self.cni_conf}"
plugin_dirs = ["{self.cni_bin}"]
[crio.nri]
enable_nri = false
"""
