"""The resource metrics API, `metrics.k8s.io/v1beta1`: what nodes and pods use of cpu and memory now.

It answers what metrics-server answers on other clusters, from what node agents measure (`/stats/summary`). Nothing runs
on simulated nodes, so the use of their pods is defined by `rules/simulated_usage`. Nodes that are not ready, or do not
answer within two seconds, and containers that have just started have no metrics.

The API is served while the APIService `v1beta1.metrics.k8s.io` names no Service. An installed metrics-server sets one
there, and then answers instead.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.cluster.apiserver.endpoints.node_connections import NodeClient, NodeLocation, address_of
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube import clock, errors
from kohort.kube.http import Request, Response
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import LabelSelector
from kohort.objects.well_known_names import AGGREGATE_TO
from kohort.rules.simulated_usage import container_usage
from kohort.rules.simulation_labels import SIMULATED

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
PATH: Final = f"/apis/{API_VERSION}"
SIMULATED_WINDOW: Final = 15.0
_NODES_AT_ONCE: Final = 16
_NODE_SECONDS: Final = 2.0
_LARGEST_SUMMARY: Final = 16 * 1024 * 1024
_VERBS: Final = ["get", "list"]
RESOURCES: Final[list[JsonObject]] = [
    {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": _VERBS},
    {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": _VERBS},
]
API_SERVICE: Final[JsonObject] = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": f"{VERSION}.{GROUP}"},
    "spec": {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100},
}
READER_ROLE: Final[JsonObject] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {
        "name": "system:aggregated-metrics-reader",
        "labels": {f"{AGGREGATE_TO}{role}": "true" for role in ("admin", "edit", "view")},
    },
    "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
}
"""For the roles that may view pods."""


class Usage(msgspec.Struct, frozen=True):
    """Of a container or a node, averaged over the seconds before."""

    cpu: int
    """In billionths of a core."""
    memory: int
    at: str
    window: float

    def shown(self) -> JsonObject:
        return {"cpu": f"{self.cpu}n" if self.cpu else "0", "memory": f"{self.memory // 1024}Ki"}


class NodeUsage(msgspec.Struct, frozen=True):
    node: Usage | None = None
    containers: Mapping[tuple[str, str], Mapping[str, Usage]] = {}
    """By namespace and name of the pod, then by container."""


class ResourceMetrics:
    def __init__(self, reader: Reader, nodes: NodeClient | None) -> None:
        self._reader = reader
        self._nodes = nodes

    async def answer(self, request: Request) -> Response:
        """Raises ApiError. The caller may: that is checked before."""
        if request.method not in ("GET", "HEAD") or request.param("watch") in ("true", "1"):
            message = "the server does not allow this method on the requested resource"
            raise errors.generic(405, "MethodNotAllowed", message)
        match request.path.removeprefix(PATH).strip("/").split("/"):
            case [""]:
                return _json(
                    {
                        "kind": "APIResourceList",
                        "apiVersion": "v1",
                        "groupVersion": API_VERSION,
                        "resources": RESOURCES,
                    }
                )
            case ["nodes"]:
                return _json(_list("NodeMetricsList", await self._node_metrics(_selector(request))))
            case ["nodes", name]:
                return _json(_one("NodeMetrics", await self._node_metrics(_Selector(name=name)), name))
            case ["pods"]:
                return _json(_list("PodMetricsList", await self._pod_metrics("", _selector(request))))
            case ["namespaces", namespace, "pods"]:
                return _json(_list("PodMetricsList", await self._pod_metrics(namespace, _selector(request))))
            case ["namespaces", namespace, "pods", name]:
                found = await self._pod_metrics(namespace, _Selector(name=name))
                return _json(_one("PodMetrics", found, f"{namespace}/{name}"))
        raise errors.path_not_found()

    async def _node_metrics(self, selector: "_Selector") -> list[JsonObject]:
        nodes = [one for one in self._reader.list("nodes") if selector.matches(one["metadata"])]
        usages = await self._usages(nodes, self._reader.list("pods"))
        return [
            {
                "metadata": _metadata(node["metadata"]),
                "timestamp": usage.node.at,
                "window": _duration(usage.node.window),
                "usage": usage.node.shown(),
            }
            for node, usage in zip(nodes, usages, strict=True)
            if usage.node is not None
        ]

    async def _pod_metrics(self, namespace: str, selector: "_Selector") -> list[JsonObject]:
        chosen = [one for one in self._reader.list("pods", namespace) if selector.matches(one["metadata"])]
        names = {(one.get("spec") or {}).get("nodeName") or "" for one in chosen} - {""}
        nodes = [node for name in sorted(names) if (node := self._reader.get("nodes", "", name)) is not None]
        usages = await self._usages(nodes, chosen)
        found = {key: containers for usage in usages for key, containers in usage.containers.items()}
        return [
            _pod(one["metadata"], containers)
            for one in chosen
            if (containers := found.get((one["metadata"]["namespace"], one["metadata"]["name"])))
        ]

    async def _usages(self, nodes: Iterable[JsonObject], pods: Iterable[JsonObject]) -> list[NodeUsage]:
        """One for each node, whose pods are among these."""
        by_node: dict[str, list[JsonObject]] = {}
        for pod in pods:
            by_node.setdefault((pod.get("spec") or {}).get("nodeName") or "", []).append(pod)
        asked_at_once = asyncio.Semaphore(_NODES_AT_ONCE)
        return await asyncio.gather(
            *(self._usage(node, by_node.get(node["metadata"]["name"], []), asked_at_once) for node in nodes)
        )

    async def _usage(self, node: JsonObject, pods: list[JsonObject], asked_at_once: asyncio.Semaphore) -> NodeUsage:
        """`pods` are those of the node."""
        if not _is_ready(node):
            return NodeUsage()
        name = node["metadata"]["name"]
        if (node["metadata"].get("labels") or {}).get(SIMULATED) == "true":
            return simulated_usage(pods)
        if self._nodes is None:
            return NodeUsage()
        try:
            async with asked_at_once, asyncio.timeout(_NODE_SECONDS):
                host, port = address_of(node)
                response = await self._nodes.get(NodeLocation(name, host, port, "/stats/summary"))
                return measured_usage(msgspec.json.decode(await response.whole_body(_LARGEST_SUMMARY)))
        except (errors.ApiError, TimeoutError, OSError, ValueError, LookupError, TypeError):
            return NodeUsage()


def simulated_usage(pods: Iterable[JsonObject]) -> NodeUsage:
    """Of a simulated node with these pods."""
    now = clock.timestamp()
    found = {
        (pod["metadata"]["namespace"], pod["metadata"]["name"]): {
            name: Usage(used["cpu"].nano, used["memory"].value, now, SIMULATED_WINDOW)
            for name, used in container_usage(pod).items()
        }
        for pod in pods
        if (pod.get("status") or {}).get("phase") == "Running"
    }
    every = [usage for containers in found.values() for usage in containers.values()]
    total = Usage(sum(one.cpu for one in every), sum(one.memory for one in every), now, SIMULATED_WINDOW)
    return NodeUsage(total, found)


def measured_usage(summary: JsonObject) -> NodeUsage:
    """What a node agent has measured."""
    return NodeUsage(
        _figures(summary.get("node") or {}),
        {
            (one["podRef"]["namespace"], one["podRef"]["name"]): {
                each["name"]: usage for each in one.get("containers") or () if (usage := _figures(each)) is not None
            }
            for one in summary.get("pods") or ()
        },
    )


def _figures(stats: JsonObject) -> Usage | None:
    cpu, memory = stats.get("cpu") or {}, stats.get("memory") or {}
    if "usageNanoCores" not in cpu or "workingSetBytes" not in memory:
        return None
    return Usage(
        int(cpu["usageNanoCores"]), int(memory["workingSetBytes"]), cpu["time"], float(cpu.get("windowSeconds") or 10)
    )


def _pod(metadata: JsonObject, containers: Mapping[str, Usage]) -> JsonObject:
    earliest = min(containers.values(), key=lambda usage: usage.at)
    return {
        "metadata": _metadata(metadata),
        "timestamp": earliest.at,
        "window": _duration(earliest.window),
        "containers": [{"name": name, "usage": usage.shown()} for name, usage in containers.items()],
    }


def _metadata(metadata: JsonObject) -> JsonObject:
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if metadata.get(key)}
    return {**kept, "creationTimestamp": clock.timestamp()}


class _Selector(msgspec.Struct, frozen=True):
    labels: LabelSelector | None = None
    name: str = ""

    def matches(self, metadata: JsonObject) -> bool:
        fits = self.labels is None or self.labels.matches(metadata.get("labels"))
        return fits and self.name in ("", metadata["name"])


def _selector(request: Request) -> _Selector:
    text, field = request.param("labelSelector"), request.param("fieldSelector")
    key, _, name = field.replace("==", "=").partition("=")
    if field and key != "metadata.name":
        raise errors.bad_request(f'"{key}" is not a known field selector: only "metadata.name"')
    try:
        return _Selector(LabelSelector.parse(text) if text else None, name)
    except ValueError as problem:
        raise errors.bad_request(f"unable to parse requirement: {problem}") from None


def _is_ready(node: JsonObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _duration(seconds: float) -> str:
    """As Go writes it.

    >>> _duration(15.0), _duration(10.013)
    ('15s', '10.013s')
    """
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def _list(kind: str, items: list[JsonObject]) -> JsonObject:
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": {}, "items": items}


def _one(kind: str, found: list[JsonObject], name: str) -> JsonObject:
    if not found:
        raise errors.not_found(kind.lower(), name, GROUP)
    return {"kind": kind, "apiVersion": API_VERSION, **found[0]}


def _json(document: JsonObject) -> Response:
    return Response(200, {"content-type": "application/json"}, msgspec.json.encode(document))
