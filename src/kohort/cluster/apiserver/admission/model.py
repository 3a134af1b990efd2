"""What an admission step is asked, and how it answers.

A mutating step changes `Attributes.object` in place. A refusal is an ApiError that is raised. Steps read other objects
through `Attributes.reader`, which sees the committed state of this server.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    operation: Operation
    resource: Resource
    name: str
    """Empty on a create that uses generateName, before the name is generated, and when a collection is deleted."""
    namespace: str
    user: User
    reader: Reader
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    subresource: str = ""
    options: JsonObject = field(default_factory=dict)
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    """Texts for `Warning` headers; steps append."""

    @property
    def shown_name(self) -> str:
        """What a refusal calls the object; before it has a name, by what its name will begin with."""
        metadata = (self.object or {}).get("metadata") or {}
        return self.name or metadata.get("name") or metadata.get("generateName") or "Unknown"


class Plugin(Protocol):
    """A built-in admission step. `mutate` runs before built-in validation, `validate` after it."""

    name: str

    def handles(self, attributes: Attributes) -> bool: ...

    async def mutate(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...
