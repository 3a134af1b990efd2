"""The files of a layer. The same files always make the same bytes: sorted, owned by root, without times."""

import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Layer:
    compressed: bytes
    digest: str
    """Of the compressed bytes: how the manifest calls it."""
    content_digest: str
    """Of the tar file: how the configuration calls it."""


@dataclass
class Files:
    """Paths are relative, without a leading slash."""

    regular: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)

    def add(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self.regular[path] = (mode, content)

    def update(self, other: "Files") -> None:
        self.regular |= other.regular
        self.links |= other.links
        self.folders |= other.folders

    def write_to(self, root: Path) -> None:
        for path in sorted(self._folders()):
            (root / path).mkdir(parents=True, exist_ok=True)
        for path, target in self.links.items():
            (root / path).symlink_to(target)
        for path, (mode, content) in self.regular.items():
            (root / path).write_bytes(content)
            (root / path).chmod(mode)

    def tar(self) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, mode in sorted(self._folders().items()):
                archive.addfile(_entry(path, mode, tarfile.DIRTYPE))
            for path, target in sorted(self.links.items()):
                entry = _entry(path, 0o777, tarfile.SYMTYPE)
                entry.linkname = target
                archive.addfile(entry)
            for path, (mode, content) in sorted(self.regular.items()):
                entry = _entry(path, mode, tarfile.REGTYPE)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return stream.getvalue()

    def layer(self) -> Layer:
        content = self.tar()
        compressed = gzip.compress(content, compresslevel=6, mtime=0)
        return Layer(compressed, digest_of(compressed), digest_of(content))

    def _folders(self) -> dict[str, int]:
        """Also those that no package names, because files are in them."""
        found: dict[str, int] = {}
        for path in (*self.regular, *self.links, *self.folders):
            for parent in Path(path).parents:
                found.setdefault(str(parent), 0o755)
        found |= self.folders
        found.pop(".", None)
        return found


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _entry(path: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = kind, mode
    return entry
