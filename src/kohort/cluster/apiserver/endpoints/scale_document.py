"""A Scale as it is read from its parent."""

from kohort.cluster.apiserver.apply.scale_ownership import SCALE_VERSION
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.selectors import LabelSelector


def scale_of(kind: Kind, parent: JsonObject) -> JsonObject:
    metadata = parent["metadata"]
    replicas, status_replicas = replicas_of(kind, parent)
    status: JsonObject = {"replicas": status_replicas}
    selector = selector_of(kind, parent)
    if selector:
        status["selector"] = selector
    spec: JsonObject = {"replicas": replicas} if replicas else {}
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": SCALE_VERSION,
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": spec,
        "status": status,
    }


def replicas_of(kind: Kind, parent: JsonObject) -> tuple[int | None, int]:
    assert kind.scale_paths is not None
    wanted = _at(parent, kind.scale_paths[0])
    return wanted, _at(parent, kind.scale_paths[1]) or 0


def put_replicas(kind: Kind, parent: JsonObject, replicas: int) -> None:
    assert kind.scale_paths is not None
    *above, last = steps(kind.scale_paths[0])
    for step in above:
        parent = parent.setdefault(step, {})
    parent[last] = replicas


def selector_of(kind: Kind, parent: JsonObject) -> str:
    assert kind.scale_paths is not None
    if kind.custom:
        found = _at(parent, kind.scale_paths[2]) if kind.scale_paths[2] else ""
        return found if isinstance(found, str) else ""
    selector = (parent.get("spec") or {}).get("selector") or {}
    if kind.resource.kind == "ReplicationController":
        return ",".join(f"{key}={selector[key]}" for key in sorted(selector))
    return str(LabelSelector.from_object(selector))


def steps(path: str) -> list[str]:
    return path.lstrip(".").split(".")


def _at(document: Json, path: str) -> Json:
    for step in steps(path):
        if not isinstance(document, dict):
            return None
        document = document.get(step)
    return document
