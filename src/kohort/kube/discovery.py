"""Which resources a cluster serves, from its aggregated discovery."""

import msgspec

from kohort.kube.client import Client
from kohort.kube.resources import Resource

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _Kind(msgspec.Struct):
    kind: str = ""


class _Subresource(msgspec.Struct):
    subresource: str


class _Served(msgspec.Struct, rename="camel"):
    resource: str
    scope: str = "Namespaced"
    verbs: list[str] = []
    response_kind: _Kind = msgspec.field(default_factory=_Kind)
    subresources: list[_Subresource] = []


class _Version(msgspec.Struct):
    version: str
    resources: list[_Served] = []


class _GroupMeta(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _GroupMeta = msgspec.field(default_factory=_GroupMeta)
    versions: list[_Version] = []


class _GroupList(msgspec.Struct):
    items: list[_Group] = []


class ServedResource(msgspec.Struct, frozen=True):
    resource: Resource
    verbs: frozenset[str]
    subresources: frozenset[str] = frozenset()

    def allows(self, *verbs: str) -> bool:
        return self.verbs.issuperset(verbs)


async def served_resources(client: Client, *, all_versions: bool = False) -> list[ServedResource]:
    """Every resource once, in the version that the server prefers; every version of it when asked."""
    found: list[ServedResource] = []
    for root in ("/api", "/apis"):
        body = await client.raw("GET", root, accept=_AGGREGATED)
        for group in msgspec.json.decode(body, type=_GroupList).items:
            found += _of_group(group, all_versions)
    return found


def _of_group(group: _Group, all_versions: bool) -> list[ServedResource]:
    found: list[ServedResource] = []
    seen: set[str] = set()
    for version in group.versions:
        for served in version.resources:
            if served.resource in seen and not all_versions:
                continue
            seen.add(served.resource)
            resource = Resource(
                group.metadata.name,
                version.version,
                served.resource,
                served.response_kind.kind,
                namespaced=served.scope == "Namespaced",
            )
            subresources = frozenset(one.subresource for one in served.subresources)
            found.append(ServedResource(resource, frozenset(served.verbs), subresources))
    return found
