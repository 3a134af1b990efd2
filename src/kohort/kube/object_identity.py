"""Key and resource version of any object.

Objects are typed views or plain dictionaries. A view may leave out whatever its reader does not need, except
`metadata.name`, `metadata.namespace` and `metadata.resource_version`.
"""

from typing import Protocol, TypeVar

from kohort.kube.resources import Key
from kohort.objects.json_types import JsonObject


class Metadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class View(Protocol):
    """A typed view of an API object."""

    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T", bound="View | JsonObject")


def key_of(obj: "View | JsonObject") -> Key:
    if isinstance(obj, dict):
        metadata = obj["metadata"]
        return Key(metadata.get("namespace", ""), metadata["name"])
    return Key(obj.metadata.namespace, obj.metadata.name)


def version_of(obj: "View | JsonObject") -> str:
    """`metadata.resourceVersion`; empty for an object that was never stored."""
    if isinstance(obj, dict):
        version: str = obj.get("metadata", {}).get("resourceVersion", "")
        return version
    return obj.metadata.resource_version


def newer(version: str, than: str) -> bool:
    """Whether a resource version was written later. Versions are decimal numbers; a server that breaks this rule is
    trusted to send every event once and in order."""
    try:
        return int(version) > int(than)
    except ValueError:
        return version != than
