"""Warnings about files of one volume with overlapping paths: accepted, but one of them will be missing."""

from collections.abc import Iterator
from typing import Final

from kohort.objects.json_types import JsonObject

_MAPPED: Final = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("downwardAPI", "DownwardAPI", ""),
)
_CERTIFICATE: Final = (
    ("certificateChainPath", "PodCertificate chain"),
    ("keyPath", "PodCertificate key"),
    ("credentialBundlePath", "PodCertificate credential bundle"),
)

File = tuple[str, str]
"""A path, and what puts it there (empty if only one thing could)."""


def overlapping_paths(volumes: list[JsonObject]) -> Iterator[str]:
    for volume in volumes:
        name = volume.get("name") or ""
        for field, kind, key in _MAPPED:
            source = volume.get(field)
            if source is not None and source.get("items"):
                shown = f'{kind} "{source.get(key) or ""}"' if key else kind
                files = [(item.get("path") or "", "") for item in source["items"]]
                yield from _collisions(name, shown, files)
        projected = volume.get("projected")
        if projected is not None:
            yield from _projected(name, projected.get("sources") or [])


def _projected(name: str, sources: list[JsonObject]) -> Iterator[str]:
    files: list[File] = []
    for source in sources:
        if not source:
            yield f'volume "{name}" (Projected) has no sources provided'
        files += _files(source)
    yield from _collisions(name, "Projected", files)


def _files(source: JsonObject) -> list[File]:
    for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        mapped = source.get(field)
        if mapped is not None and mapped.get("items"):
            return [(item.get("path") or "", f'{kind} "{mapped.get("name") or ""}"') for item in mapped["items"]]
    if source.get("downwardAPI") is not None:
        return [(item.get("path") or "", "DownwardAPI") for item in source["downwardAPI"].get("items") or ()]
    if source.get("serviceAccountToken") is not None:
        return [(source["serviceAccountToken"].get("path") or "", "ServiceAccountToken")]
    bundle = source.get("clusterTrustBundle")
    if bundle is not None:
        owner = bundle.get("name") or bundle.get("signerName") or ""
        return [(bundle.get("path") or "", f'ClusterTrustBundle "{owner}"')]
    certificate = source.get("podCertificate") or {}
    return [(certificate[field], what) for field, what in _CERTIFICATE if certificate.get(field)]


def _collisions(name: str, kind: str, files: list[File]) -> Iterator[str]:
    taken: list[File] = []
    for path, origin in files:
        file = path.rstrip("/"), origin
        for other in taken:
            if _overlap(file[0], other[0]):
                yield f'volume "{name}" ({kind}): overlapping paths: {_shown(file)} with {_shown(other)}'
        taken.append(file)


def _overlap(path: str, other: str) -> bool:
    """Whether one of two paths is the other or leads through it."""
    if not path or not other:
        return False
    return f"{other}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other}/")


def _shown(file: File) -> str:
    path, origin = file
    return f'"{path}" ({origin})' if origin else f'"{path}"'
