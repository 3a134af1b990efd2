"""A containerd of our own for tests, with its own directories, and images from registries on loopback.

Images are made here from Debian's static busybox; nothing is downloaded.
"""

import contextlib
import hashlib
import io
import json
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

START_SECONDS = 60.0
SANDBOX_IMAGE = "kohort.test/pause:1"


class Containerd:
    def __init__(self, directory: Path, *, snapshotter: str = "overlayfs") -> None:
        self.directory = directory
        self.socket = directory / "containerd.sock"
        self.cni_bin, self.cni_conf = directory / "cni" / "bin", directory / "cni" / "conf"
        self._snapshotter = snapshotter
        self._process: subprocess.Popen[bytes] | None = None
        self._registries: list[subprocess.Popen[bytes]] = []

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        for path in (self.cni_bin, self.cni_conf, self.directory / "certs.d"):
            path.mkdir(parents=True, exist_ok=True)
        config = self.directory / "config.toml"
        config.write_text(self._config())
        words = ["containerd", "-c", str(config)]
        log = (self.directory / "containerd.log").open("ab")
        self._process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        self._until(self._answers, "containerd does not answer")

    def kill(self) -> None:
        """End the daemon as a crash would. Containers run on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End everything that was started here."""
        if self._process is not None and self._process.poll() is None:
            self._end_containers()
            self._process.terminate()
            self._process.wait(30)
        for registry in self._registries:
            registry.kill()
            registry.wait()
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if line.split()[1].startswith(str(self.directory)):
                subprocess.run(["umount", "-l", line.split()[1]], check=False)

    def ctr(self, *words: str) -> str:
        return subprocess.run(
            ["ctr", "-a", str(self.socket), "-n", "k8s.io", *words], check=True, capture_output=True, text=True
        ).stdout

    def load(self, archive: bytes) -> None:
        """Import an image that `docker save` could have written."""
        path = self.directory / "image.tar"
        path.write_bytes(archive)
        self.ctr("images", "import", "--snapshotter", self._snapshotter, str(path))

    def registry(self, *, user: str = "", password: str = "") -> str:
        """Serve a registry on loopback; its host and port."""
        port = _free_port()
        place = self.directory / f"registry-{port}"
        place.mkdir()
        auth = ""
        if user:
            passwords = subprocess.run(["htpasswd", "-Bbn", user, password], check=True, capture_output=True).stdout
            (place / "htpasswd").write_bytes(passwords)
            auth = f"auth:\n  htpasswd:\n    realm: test\n    path: {place}/htpasswd\n"
        (place / "config.yml").write_text(
            f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {place}/data\n  delete:\n    enabled: true\n"
            f"http:\n  addr: 127.0.0.1:{port}\n{auth}"
        )
        log = (place / "log").open("ab")
        words = ["docker-registry", "serve", str(place / "config.yml")]
        self._registries.append(subprocess.Popen(words, stdout=log, stderr=log))
        log.close()
        hosts = self.directory / "certs.d" / f"127.0.0.1:{port}"
        hosts.mkdir()
        (hosts / "hosts.toml").write_text(f'server = "http://127.0.0.1:{port}"\n')
        self._until(lambda: _listens(port), "the registry does not listen")
        return f"127.0.0.1:{port}"

    def push(self, registry: str, name: str, archive: bytes, credentials: str = "") -> str:
        """Put an image into a registry; its complete name. `credentials` are USER:PASSWORD."""
        path = self.directory / "push.tar"
        path.write_bytes(archive)
        target = f"{registry}/{name}"
        words = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false"]
        if credentials:
            words += ["--dest-creds", credentials]
        subprocess.run([*words, f"docker-archive:{path}", f"docker://{target}"], check=True, capture_output=True)
        return target

    def _config(self) -> str:
        return f"""version = 2
root = "{self.directory}/root"
state = "{self.directory}/state"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX_IMAGE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{self._snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.cni_bin}"
    conf_dir = "{self.cni_conf}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{self.directory}/certs.d"
"""

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"containerd has ended: {(self.directory / 'containerd.log').read_text()[-2000:]}")
        done = subprocess.run(["ctr", "-a", str(self.socket), "version"], check=False, capture_output=True)
        return done.returncode == 0

    def _end_containers(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            for id in self.ctr("tasks", "ls", "-q").split():
                with contextlib.suppress(subprocess.CalledProcessError):
                    self.ctr("tasks", "rm", "-f", id)

    def _until(self, happened: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{problem}: {(self.directory / 'containerd.log').read_text()[-2000:]}")
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


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


def pause_archive() -> bytes:
    return image_archive(SANDBOX_IMAGE, entrypoint=["/bin/sleep", "infinity"])
