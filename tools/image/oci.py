"""An image as the OCI image format describes it: blobs named by their digests, in a directory or an archive."""

import hashlib
import io
import json
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.image.files import Layer, digest_of

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX: Final = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class Image:
    name: str
    """With a tag, such as registry.example.com/kohort:0.1.0."""
    digest: str
    """Of its manifest: what follows the @ of a reference."""
    size: int
    """Of its compressed layers, in bytes."""
    files: dict[str, bytes]
    """The layout: paths to contents."""

    def write(self, folder: Path) -> None:
        """Replaces the folder."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, content in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)

    def archive(self) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return stream.getvalue()


@dataclass(frozen=True)
class Settings:
    """How containers of the image run, and what the image says of itself."""

    name: str
    architecture: str
    created: str
    """In RFC 3339."""
    entry_point: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: dict[str, str]
    user: str
    ports: tuple[str, ...]
    labels: dict[str, str]


def make_image(settings: Settings, layers: dict[str, Layer]) -> Image:
    """Layers in their order, each with a word on what it holds."""
    config: dict[str, Any] = {
        "architecture": settings.architecture,
        "config": {
            "Cmd": [*settings.arguments],
            "Entrypoint": [*settings.entry_point],
            "Env": [f"{name}={value}" for name, value in settings.environment.items()],
            "ExposedPorts": {port: {} for port in settings.ports},
            "Labels": settings.labels,
            "User": settings.user,
            "WorkingDir": "/",
        },
        "created": settings.created,
        "history": [{"created": settings.created, "created_by": text} for text in layers],
        "os": "linux",
        "rootfs": {"diff_ids": [layer.content_digest for layer in layers.values()], "type": "layers"},
    }
    blobs = [layer.compressed for layer in layers.values()]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, _json(config)),
        "layers": [_descriptor(LAYER, blob) for blob in blobs],
        "annotations": settings.labels,
    }
    written = _json(manifest)
    repository, _, tag = settings.name.rpartition(":")
    named = {"io.containerd.image.name": settings.name, "org.opencontainers.image.ref.name": tag}
    platform = {"architecture": settings.architecture, "os": "linux"}
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{**_descriptor(MANIFEST, written), "platform": platform, "annotations": named}],
    }
    # `docker load` and skopeo's docker-archive read this one.
    docker = [
        {"Config": _place(_json(config)), "Layers": [_place(blob) for blob in blobs], "RepoTags": [settings.name]}
    ]
    files = {_place(blob): blob for blob in (*blobs, _json(config), written)}
    files |= {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    files["manifest.json"] = _json(docker)
    assert repository, settings.name
    return Image(settings.name, digest_of(written), sum(map(len, blobs)), files)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}


def _place(content: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
