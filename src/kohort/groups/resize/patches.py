"""The writes of a group resize, as documents.

| write | to | patch type |
|---|---|---|
| `pod_amounts` | `pods/resize` | strategic merge: containers are found by name, other amounts stay |
| `worker_template` | the worker StatefulSet | strategic merge: new template, and a partition above all its pods |
| `worker_release` | the worker StatefulSet | merge: the partition is taken off again |
| `pod_labels` | a pod | merge: the labels by which StatefulSets and LeaderWorkerSets know its revision |
"""

from typing import Final

from kohort.groups.resize.record import ResizeRecord, write_record
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.resource_edit import POD, AmountField, StatedAmounts

STATEFUL_SET_REVISION: Final = well_known_names.CONTROLLER_REVISION_HASH


def pod_amounts(amounts: StatedAmounts, sidecars: frozenset[str], resource_version: str = "") -> JsonObject:
    """All amounts that the template states, so that the pod ends with exactly these. `resource_version` makes the
    server refuse if the pod has changed since it was read."""
    spec = _resources_by_owner(amounts, sidecars)
    metadata = {"resourceVersion": resource_version} if resource_version else {}
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


def worker_template(amounts: StatedAmounts, sidecars: frozenset[str], revision: str, size: int) -> JsonObject:
    """Below the partition, pods stay as they are: none is replaced by the new template before it carries its label."""
    return {
        "metadata": {"labels": {group_labels.REVISION: revision}},
        "spec": {
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": size}},
            "template": {
                "metadata": {"labels": {group_labels.REVISION: revision}},
                "spec": _resources_by_owner(amounts, sidecars),
            },
        },
    }


def worker_release() -> JsonObject:
    return {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}}


def pod_labels(stateful_set_revision: str, revision: str, *, drop_record: bool = False) -> JsonObject:
    labels = {STATEFUL_SET_REVISION: stateful_set_revision, group_labels.REVISION: revision}
    metadata: JsonObject = {"labels": labels}
    if drop_record:
        metadata["annotations"] = {group_labels.GROUP_RESIZE: None}
    return {"metadata": metadata}


def leader_record(record: ResizeRecord | None) -> JsonObject:
    return {"metadata": {"annotations": {group_labels.GROUP_RESIZE: None if record is None else write_record(record)}}}


def _resources_by_owner(amounts: StatedAmounts, sidecars: frozenset[str]) -> JsonObject:
    spec: JsonObject = {}
    blocks: dict[str, JsonObject] = {}
    for field, amount in amounts.items():
        _put(blocks.setdefault(field.container, {}), field, str(amount))
    for container, block in blocks.items():
        if container == POD:
            spec["resources"] = block
        else:
            listed = "initContainers" if container in sidecars else "containers"
            spec.setdefault(listed, []).append({"name": container, "resources": block})
    return spec


def _put(block: JsonObject, field: AmountField, amount: str) -> None:
    block.setdefault(field.side, {})[field.resource] = amount
