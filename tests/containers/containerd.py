"""containerd for tests, and images that are made here from Debian's static busybox: nothing is downloaded."""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.containers.runtime import SANDBOX_IMAGE, RuntimeUnderTest

SYS_RESOURCE = 24
"""The number of the capability."""


class Containerd(RuntimeUnderTest):
    name = "containerd"

    def __init__(
        self,
        directory: Path,
        *,
        snapshotter: str = "overlayfs",
        oci_runtime: str = "runc",
        restrict_oom_scores: bool = True,
    ) -> None:
        """`restrict_oom_scores` keeps containers from scores below that of containerd; kubelet's recorded answers were
        made so, because some machines allow nothing else."""
        super().__init__(directory)
        self._restrict_oom_scores = restrict_oom_scores
        self._snapshotter = snapshotter
        self._oci_runtime = oci_runtime
        self.programs: Path | None = None
        """Where the programs of another version are; from the next start on."""

    def start(self) -> None:
        (self.directory / "certs.d").mkdir(parents=True, exist_ok=True)
        config = self.directory / "config.toml"
        config.write_text(self._config())
        if self.programs is None:
            self._start_daemon(["containerd", "-c", str(config)])
        else:
            environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"}
            self._start_daemon([str(self.programs / "containerd"), "-c", str(config)], environment)

    def ctr(self, *words: str) -> str:
        return subprocess.run(
            ["ctr", "-a", str(self.socket), "-n", "k8s.io", *words], check=True, capture_output=True, text=True
        ).stdout

    def load(self, archive: bytes) -> None:
        path = self.directory / "image.tar"
        path.write_bytes(archive)
        self.ctr("images", "import", "--snapshotter", self._snapshotter, str(path))

    def container_ids(self) -> list[str]:
        return self.ctr("containers", "ls", "-q").split()

    def _allow(self, registry: str) -> None:
        hosts = self.directory / "certs.d" / registry
        hosts.mkdir()
        (hosts / "hosts.toml").write_text(f'server = "http://{registry}"\n')

    def _config(self) -> str:
        return f"""version = 2
root = "{self.directory}/root"
state = "{self.directory}/state"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX_IMAGE}"
  restrict_oom_score_adj = {str(self._restrict_oom_scores).lower()}
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{self._snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{self._oci_runtime}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.cni_bin}"
    conf_dir = "{self.cni_conf}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{self.directory}/certs.d"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
"""

    def _answers(self) -> bool:
        done = subprocess.run(["ctr", "-a", str(self.socket), "version"], check=False, capture_output=True)
        return done.returncode == 0

    def _end_containers(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            for id in self.ctr("tasks", "ls", "-q").split():
                with contextlib.suppress(subprocess.CalledProcessError):
                    self.ctr("tasks", "rm", "-f", id)


def may_lower_oom_scores() -> bool:
    """Some machines withhold CAP_SYS_RESOURCE even from root; containers do not start there without a restriction."""
    capabilities = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return capabilities is not None and bool(int(capabilities[1], 16) >> SYS_RESOURCE & 1)


# Images


def busybox_files() -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """A root file system of a static busybox with its usual names."""
    program = shutil.which("busybox")
    assert program is not None
    content = Path(program).read_bytes()
    for name in ("bin", "etc", "tmp", "root", "data"):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        yield entry, b""
    entry = tarfile.TarInfo("bin/busybox")
    entry.mode, entry.size = 0o755, len(content)
    yield entry, content
    names = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        if name != "busybox":
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            yield link, b""
    for path, text in {
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nserver:x:1234:2345::/:/bin/sh\n",
        "etc/group": b"root:x:0:\nserver:x:2345:\nextra:x:3456:server\n",
    }.items():
        file = tarfile.TarInfo(path)
        file.size = len(text)
        yield file, text


def image_archive(
    name: str,
    *,
    entrypoint: Sequence[str] = (),
    command: Sequence[str] = (),
    env: Sequence[str] = ("PATH=/bin",),
    user: str = "",
    directory: str = "",
    mark: str = "",
) -> bytes:
    """An image of busybox as `docker save` writes it. `mark` is the content of the file /mark, to tell images apart."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for entry, content in busybox_files():
            tar.addfile(entry, io.BytesIO(content))
        entry = tarfile.TarInfo("mark")
        entry.size = len(mark)
        tar.addfile(entry, io.BytesIO(mark.encode()))
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": list(entrypoint) or None,
                "Cmd": list(command) or None,
                "Env": list(env),
                "User": user,
                "WorkingDir": directory,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, content in ((config_name, config), ("layer.tar", layer.getvalue()), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def pause_archive(*entrypoint: str) -> bytes:
    return image_archive(SANDBOX_IMAGE, entrypoint=entrypoint or ["/bin/sleep", "infinity"])
