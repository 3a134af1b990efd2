"""Pods in one line: figures are cpu in thousandths and memory in Mi, written `100/200`, `-` for none."""

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity


def block(text: str | None) -> dict[str, str]:
    """`100/50` → cpu 100m, memory 50Mi; `100` cpu alone; `-/50` memory alone; further names as `name=amount`."""
    if not text:
        return {}
    figures, *others = text.split()
    parts = [*figures.split("/"), "-"][:2]
    names = (("cpu", "m"), ("memory", "Mi"))
    found = {name: part + unit for (name, unit), part in zip(names, parts, strict=True) if part != "-"}
    return found | dict(other.split("=") for other in others)


def container(
    request: str | None = None,
    limit: str | None = None,
    *,
    allocated: str | None = None,
    actual: str | None = None,
    actual_limit: str | None = None,
    kind: str = "main",
) -> JsonObject:
    return {
        "kind": kind,
        "resources": {"requests": block(request), "limits": block(limit)},
        "status": _status(allocated, actual, actual_limit),
    }


def init(request: str | None = None, limit: str | None = None) -> JsonObject:
    return container(request, limit, kind="init")


def sidecar(
    request: str | None = None,
    limit: str | None = None,
    *,
    allocated: str | None = None,
    actual: str | None = None,
) -> JsonObject:
    return container(request, limit, allocated=allocated, actual=actual, kind="sidecar")


def pod(
    *containers: JsonObject,
    request: str | None = None,
    limit: str | None = None,
    overhead: str | None = None,
    allocated: str | None = None,
    actual: str | None = None,
    actual_limit: str | None = None,
    pending: str | None = None,
    quality: str = "",
) -> Pod:
    spec: JsonObject = {"containers": [], "initContainers": [], "overhead": block(overhead)}
    status: JsonObject = {"containerStatuses": [], "initContainerStatuses": [], "qosClass": quality}
    for index, entry in enumerate(containers):
        body: JsonObject = {"name": f"c{index}", "resources": entry["resources"]}
        if entry["kind"] == "sidecar":
            body["restartPolicy"] = "Always"
        main = entry["kind"] == "main"
        spec["containers" if main else "initContainers"].append(body)
        if entry["status"]:
            statuses = status["containerStatuses" if main else "initContainerStatuses"]
            statuses.append({"name": body["name"], **entry["status"]})
    if request is not None or limit is not None:
        spec["resources"] = {"requests": block(request), "limits": block(limit)}
    if allocated is not None:
        status["allocatedResources"] = block(allocated)
    if actual is not None or actual_limit is not None:
        status["resources"] = {"requests": block(actual), "limits": block(actual_limit)}
    if pending:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": pending}]
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec, "status": status}, Pod)


def amounts(text: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(value) for name, value in block(text).items()}


def _status(allocated: str | None, actual: str | None, actual_limit: str | None) -> JsonObject:
    status: JsonObject = {}
    if allocated is not None:
        status["allocatedResources"] = block(allocated)
    if actual is not None or actual_limit is not None:
        status["resources"] = {"requests": block(actual), "limits": block(actual_limit)}
    return status
