"""The identity of a caller and the question that authorization answers."""

import msgspec

from kohort.objects.json_types import JsonObject


class User(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, tuple[str, ...]] = {}

    def document(self) -> JsonObject:
        """As reviews and certificate requests show it, without what is empty."""
        info: JsonObject = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
"""The identity of the generated kubeconfig and of parts that run in the same process."""


class AccessRequest(msgspec.Struct, frozen=True):
    """What a caller wants to do. Either `path` is set (a non-resource request) or the resource fields are."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class AccessDecision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str = ""
