"""Endpoints that users write, mirrored into EndpointSlices.

Consumers read slices only. A Service without a selector has no slices of its own, so the addresses in its Endpoints
are copied: one slice for each address family of those addresses that have the same ports, across all subsets.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.endpoints.plan import MANAGED_BY, SERVICE_NAME
from kohort.cluster.workloads.endpoints.subsets import READINESS, repacked
from kohort.cluster.workloads.endpoints.trigger_time import LAST_CHANGE
from kohort.kube.controller import Requeue
from kohort.kube.errors import NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES, Key
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
SKIP: Final = well_known_names.SKIP_MIRROR
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
MOST: Final = 1000
"""Addresses of one subset that are mirrored."""
_NOT_COPIED: Final = frozenset({LAST_CHANGE, well_known_names.LAST_APPLIED})


def register(manager: Manager) -> None:
    Mirror(manager)


def mirrored(endpoints: JsonObject | None, service: JsonObject | None) -> bool:
    if endpoints is None or service is None or service["spec"].get("selector"):
        return False
    metadata = endpoints["metadata"]
    return (metadata.get("labels") or {}).get(SKIP) != "true" and LEADER not in (metadata.get("annotations") or {})


def slices(endpoints: JsonObject) -> list[JsonObject]:
    """The slices for these Endpoints, without names."""
    metadata = endpoints["metadata"]
    labels = {**(metadata.get("labels") or {}), SERVICE_NAME: metadata["name"], MANAGED_BY: MIRROR}
    meta: JsonObject = {
        "generateName": f"{metadata['name']}-",
        "namespace": metadata["namespace"],
        "labels": labels,
        "ownerReferences": [
            controller_ref.controller_reference({**endpoints, "apiVersion": "v1", "kind": "Endpoints"}),
        ],
    }
    copied = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _NOT_COPIED}
    if copied:
        meta["annotations"] = copied
    return [
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": meta,
            "addressType": family,
            "endpoints": found,
            "ports": [{"name": "", **port} for port in subset.get("ports") or []],
        }
        for subset in repacked(endpoints.get("subsets") or [])
        for family in ("IPv4", "IPv6")
        if (found := [entry for entry in _entries(subset) if _family(entry) == family][:MOST])
    ]


def _entries(subset: JsonObject) -> Iterable[JsonObject]:
    for name, ready in READINESS:
        for address in subset.get(name) or []:
            entry: JsonObject = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
            yield entry | {key: address[key] for key in ("hostname", "nodeName", "targetRef") if address.get(key)}


def _family(entry: JsonObject) -> str:
    return f"IPv{ipaddress.ip_address(entry['addresses'][0]).version}"


class Mirror:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.endpoints = manager.informer(ENDPOINTS, JsonObject)
        self.services = manager.informer(SERVICES, JsonObject)
        self.slices = manager.informer(ENDPOINT_SLICES, JsonObject, indexes={"mirror": _by_endpoints})
        self._made: dict[Key, set[str]] = {}
        controller = manager.controller("endpointslicemirroring", self.reconcile, workers=2, max_delay=30)
        controller.watches(self.endpoints)
        controller.watches(self.services)
        controller.watches(self.slices, lambda one: [Key(*value.split("/", 1)) for value in _by_endpoints(one)])

    async def reconcile(self, key: Key) -> Requeue | None:
        present = {one["metadata"]["name"]: one for one in self.slices.by_index("mirror", str(key))}
        if self._made.get(key, set()) - present.keys():
            return None
        self._made.pop(key, None)
        endpoints = self.endpoints.get(key)
        wanted = slices(endpoints) if endpoints is not None and mirrored(endpoints, self.services.get(key)) else []
        spare = dict(present)
        missing: list[JsonObject] = []
        for body in wanted:
            same = next((name for name, one in spare.items() if _content(one) == _content(body)), None)
            if same is None:
                missing.append(body)
            else:
                del spare[same]
        for body in missing:
            name = next((one for one in spare if spare[one]["addressType"] == body["addressType"]), None)
            if name is not None:
                await self._rewrite(spare.pop(name), body)
                continue
            made: JsonObject = await self.client.create(ENDPOINT_SLICES, body)
            self._made.setdefault(key, set()).add(made["metadata"]["name"])
        for name in spare:
            await self._delete(key.namespace, name)
        return None

    async def _rewrite(self, current: JsonObject, body: JsonObject) -> None:
        kept = {key: current["metadata"][key] for key in ("name", "resourceVersion", "uid")}
        await self.client.update(ENDPOINT_SLICES, {**body, "metadata": {**body["metadata"], **kept}})

    async def _delete(self, namespace: str, name: str) -> None:
        try:
            await self.client.delete(ENDPOINT_SLICES, name, namespace)
        except NotFound:
            return


def _by_endpoints(obj: JsonObject) -> Iterable[str]:
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) != MIRROR:
        return ()
    return (f"{metadata['namespace']}/{labels.get(SERVICE_NAME, '')}",)


def _content(one: JsonObject) -> tuple[object, ...]:
    metadata = one["metadata"]
    return (
        one["addressType"],
        one.get("endpoints") or [],
        one.get("ports") or [],
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
    )
