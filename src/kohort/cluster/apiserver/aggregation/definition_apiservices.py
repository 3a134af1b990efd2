"""APIServices of the group versions that definitions of custom resources add.

| the group version is served by a definition | its APIService                         | then it is |
|---------------------------------------------|----------------------------------------|------------|
| yes                                         | does not exist                         | created    |
| yes                                         | is managed here, and was edited        | restored   |
| no                                          | is managed here                        | deleted    |
| either                                      | is a user's own: it lacks the label    | left alone |
"""

from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final

from kohort.cluster.apiserver.aggregation.local_apiservices import AUTOMANAGED
from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.storage.model import Store
from kohort.kube.http import Request, Response
from kohort.kube.log import Log
from kohort.objects.json_types import JsonObject

BUCKET: Final = "apiservices.apiregistration.k8s.io"
PATH: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
OWNER: Final = User("system:apiserver", ("system:masters", "system:authenticated"))
ALWAYS: Final = "true"
"""Value of the label on APIServices that follow definitions; those of built-in groups are only made at the start."""
GROUP_PRIORITY: Final = 1000
VERSION_PRIORITY: Final = 100


class ApiServiceAction(Enum):
    NONE = "none"
    CREATE = "create"
    RESTORE = "restore"
    DELETE = "delete"


def api_service_of_definition(group: str, version: str) -> JsonObject:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "labels": {AUTOMANAGED: ALWAYS}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": VERSION_PRIORITY,
        },
    }


def api_service_action(wanted: JsonObject | None, found: JsonObject | None) -> ApiServiceAction:
    """What to do with an APIService, as the table above says."""
    if found is None:
        return ApiServiceAction.NONE if wanted is None else ApiServiceAction.CREATE
    if (found["metadata"].get("labels") or {}).get(AUTOMANAGED) != ALWAYS:
        return ApiServiceAction.NONE
    if wanted is None:
        return ApiServiceAction.DELETE
    return ApiServiceAction.NONE if found.get("spec") == wanted["spec"] else ApiServiceAction.RESTORE


def served_versions(definition: JsonObject) -> frozenset[str]:
    return frozenset(one["name"] for one in definition["spec"].get("versions") or () if one.get("served"))


class DefinitionApiServices:
    def __init__(self, store: Store, handle: Callable[[Request, User], Awaitable[Response]]) -> None:
        """`handle` is how APIServices are written."""
        self._store = store
        self._handle = handle
        self._served: dict[str, tuple[str, frozenset[str]]] = {}
        """By name of a definition: its group and the versions that it serves."""
        self._log = Log(part="definitions")

    async def definition_changed(self, name: str, definition: JsonObject | None) -> None:
        group = name.partition(".")[2]
        before = self._served.pop(name, (group, frozenset()))
        if definition is not None:
            self._served[name] = (group, served_versions(definition))
        changed = before[1] ^ self._served.get(name, (group, frozenset()))[1]
        await self._sync(f"{version}.{group}" for version in sorted(changed))

    async def api_service_changed(self, name: str) -> None:
        """An APIService was written or deleted, perhaps by a user."""
        await self._sync([name])

    async def _sync(self, names: Iterable[str]) -> None:
        for name in names:
            version, _, group = name.partition(".")
            served = any(known == group and version in versions for known, versions in self._served.values())
            wanted = api_service_of_definition(group, version) if served else None
            stored = self._store.get(BUCKET, "", name)
            found = stored.decode() if stored is not None else None
            await self._perform(api_service_action(wanted, found), name, wanted, found)

    async def _perform(
        self, action: ApiServiceAction, name: str, wanted: JsonObject | None, found: JsonObject | None
    ) -> None:
        match action:
            case ApiServiceAction.NONE:
                return
            case ApiServiceAction.CREATE:
                request = _request("POST", PATH, wanted)
            case ApiServiceAction.RESTORE:
                assert wanted is not None
                request = _request("PUT", f"{PATH}/{name}", {**(found or {}), "spec": wanted["spec"]})
            case ApiServiceAction.DELETE:
                request = _request("DELETE", f"{PATH}/{name}", None)
        response = await self._handle(request, OWNER)
        if response.status not in (200, 201, 404, 409):
            self._log.warning("failed to write an APIService", name=name, action=action.value, status=response.status)


def _request(method: str, path: str, document: JsonObject | None) -> Request:
    headers = {"content-type": "application/json", "user-agent": "kube-apiserver/kohort"}
    return Request(method, path, (), headers, compact(document) if document is not None else b"")
