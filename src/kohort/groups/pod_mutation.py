"""What the webhook writes into the pods of a group.

A pod knows its group only through its labels, annotations and name, so everything written here can be derived again
later from the pod alone; `missing_from` does so for pods that were created while the webhook was away.
"""

import copy

from kohort.groups import tpu_environment
from kohort.groups.gang import GangProvider
from kohort.groups.placement import keep_exclusive, pin_to_own_nodes
from kohort.groups.subgroups import excludes_leader, subgroup_of
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import PodName, group_key, is_leader, parse_index, parse_pod_name, subgroup_key


class PodRefused(ValueError):
    """The pod claims to belong to a group and cannot."""


def mutated(pod: JsonObject, namespace: str, *, gang: GangProvider | None = None) -> JsonObject:
    """The pod as it must be stored. The input is not changed; a pod outside any group comes back as it is."""
    if group_labels.NAME not in (pod["metadata"].get("labels") or {}):
        return pod
    result = copy.deepcopy(pod)
    metadata, spec = result["metadata"], result["spec"]
    annotations = metadata.setdefault("annotations", {})
    size = _size(metadata["name"], annotations)
    if is_leader(metadata["labels"]):
        _mutate_leader(metadata, spec, namespace)
        leader = metadata["name"]
    else:
        _mutate_worker(metadata, spec, size)
        leader = annotations.get(group_labels.LEADER_NAME) or _parsed(metadata["name"]).parent
    pin_to_own_nodes(spec, annotations, leader)
    if gang is not None:
        gang.join(metadata, spec)
    _add_tpu_variables(metadata, spec, leader, size)
    _add_group_variables(metadata, spec, namespace)
    return result


def _size(name: str, annotations: JsonObject) -> int:
    text = annotations.get(group_labels.SIZE)
    if text is None:
        raise PodRefused(f"size annotation is unexpectedly missing for pod {name}")
    size = parse_index(text)
    if size is None:
        raise PodRefused(f"size annotation {text!r} of pod {name} is not a number")
    return size


def _parsed(name: str) -> PodName:
    found = parse_pod_name(name)
    if found is None:
        raise PodRefused(f"parsing pod ordinal for pod {name}")
    return found


def _mutate_leader(metadata: JsonObject, spec: JsonObject, namespace: str) -> None:
    labels, annotations = metadata["labels"], metadata["annotations"]
    name = metadata["name"]
    if group_labels.GROUP_INDEX not in labels or _is_named_as_leader(name, labels[group_labels.NAME]):
        # The name decides: a template that has this label would give every group the same index.
        labels[group_labels.GROUP_INDEX] = str(_parsed(name).ordinal)
    if annotations.get(group_labels.SUBDOMAIN_POLICY) == group_labels.UNIQUE:
        spec["subdomain"] = name
    key = labels.setdefault(group_labels.GROUP_KEY, group_key(namespace, name))
    topology = annotations.get(group_labels.EXCLUSIVE)
    if topology:
        keep_exclusive(spec, group_labels.GROUP_KEY, key, topology, everywhere=_everywhere(annotations))
    if group_labels.SUBGROUP_SIZE in annotations and not excludes_leader(annotations.get(group_labels.SUBGROUP_POLICY)):
        _join_subgroup(metadata, spec, 0, name)


def _is_named_as_leader(name: str, set_name: str) -> bool:
    parsed = parse_pod_name(name)
    return parsed is not None and parsed.parent == set_name


def _mutate_worker(metadata: JsonObject, spec: JsonObject, size: int) -> None:
    parsed = _parsed(metadata["name"])
    metadata["labels"][group_labels.WORKER_INDEX] = str(parsed.ordinal)
    width = metadata["annotations"].get(group_labels.SUBGROUP_SIZE)
    if width is None or metadata["labels"].get(group_labels.SUBGROUP_INDEX):
        return
    subgroup_size = parse_index(width)
    if not subgroup_size:
        raise PodRefused(f"subgroup size annotation {width!r} of pod {metadata['name']} is not a positive number")
    subgroup = subgroup_of(parsed.ordinal, size=size, subgroup_size=subgroup_size)
    leader = metadata["annotations"].get(group_labels.LEADER_NAME) or parsed.parent
    _join_subgroup(metadata, spec, subgroup or 0, leader)


def _join_subgroup(metadata: JsonObject, spec: JsonObject, subgroup: int, leader: str) -> None:
    labels = metadata["labels"]
    if labels.get(group_labels.SUBGROUP_INDEX):
        return
    labels[group_labels.SUBGROUP_INDEX] = str(subgroup)
    labels[group_labels.SUBGROUP_KEY] = subgroup_key(leader, subgroup)
    topology = metadata["annotations"].get(group_labels.SUBGROUP_EXCLUSIVE)
    if topology:
        everywhere = _everywhere(metadata["annotations"])
        keep_exclusive(
            spec, group_labels.SUBGROUP_KEY, labels[group_labels.SUBGROUP_KEY], topology, everywhere=everywhere
        )


def _everywhere(annotations: JsonObject) -> bool:
    return bool(annotations.get(group_labels.EXCLUSIVE_EVERYWHERE) == "true")


def _add_tpu_variables(metadata: JsonObject, spec: JsonObject, leader: str, size: int) -> None:
    if not tpu_environment.pod_requests_tpus(spec):
        return
    labels, annotations = metadata["labels"], metadata["annotations"]
    leads = is_leader(labels)
    width = annotations.get(group_labels.SUBGROUP_SIZE)
    subgroup = labels.get(group_labels.SUBGROUP_INDEX)
    member = tpu_environment.TpuMember(
        leader=leader,
        worker=int(labels[group_labels.WORKER_INDEX]),
        size=size,
        subdomain=spec.get("subdomain", ""),
        leader_has_tpus=leads or annotations.get(group_labels.LEADER_REQUESTS_TPUS) == "true",
        subgroup_size=_number(metadata["name"], "subgroup size annotation", width),
        subgroup=_number(metadata["name"], "subgroup index label", subgroup),
        leader_excluded=excludes_leader(annotations.get(group_labels.SUBGROUP_POLICY)),
    )
    try:
        tpu_environment.add_variables(spec, member)
    except tpu_environment.TpuError as problem:
        raise PodRefused(str(problem)) from problem


def _number(pod: str, what: str, text: str | None) -> int | None:
    number = parse_index(text) if text else None
    if text and number is None:
        raise PodRefused(f"{what} {text!r} of pod {pod} is not a number")
    return number


def _add_group_variables(metadata: JsonObject, spec: JsonObject, namespace: str) -> None:
    labels = metadata["labels"]
    for label in (group_labels.GROUP_INDEX, group_labels.WORKER_INDEX):
        if label not in labels:
            raise PodRefused(f"label {label} is unexpectedly missing for pod {metadata['name']}")
    leader = f"{labels[group_labels.NAME]}-{labels[group_labels.GROUP_INDEX]}"
    values = {
        group_labels.LEADER_ADDRESS: f"{leader}.{spec.get('subdomain', '')}.{namespace}",
        group_labels.GROUP_SIZE: metadata["annotations"][group_labels.SIZE],
        group_labels.WORKER_INDEX_VARIABLE: labels[group_labels.WORKER_INDEX],
    }
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            container["env"] = with_first(values, container.get("env") or [])


def with_first(values: dict[str, str], variables: list[JsonObject]) -> list[JsonObject]:
    """Our variables first, because others may refer to them, then the user's; of each name the first one counts."""
    result: list[JsonObject] = [{"name": name, "value": value} for name, value in values.items()]
    seen = set(values)
    for variable in variables:
        if variable["name"] not in seen:
            seen.add(variable["name"])
            result.append(variable)
    return result


def missing_from(pod: JsonObject, namespace: str) -> list[str]:
    """What the webhook would have written and the stored pod lacks, for an event; empty when nothing is missing."""
    wanted = mutated(pod, namespace)
    if wanted == pod:
        return []
    labels, have = wanted["metadata"]["labels"], pod["metadata"].get("labels") or {}
    missing = [f"label {key}" for key, value in labels.items() if have.get(key) != value]
    if wanted["spec"] != pod["spec"]:
        missing.append("variables or placement rules in its spec")
    return missing
