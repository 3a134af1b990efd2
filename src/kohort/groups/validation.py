"""What a LeaderWorkerSet must fulfil, beyond the types and ranges that its schema checks.

Everything that is wrong is reported at once. Rules that need the old object are in `update_errors`.
"""

from collections.abc import Iterator
from typing import Final

from kohort.groups import subgroups
from kohort.groups.engine_recovery import LONGEST
from kohort.groups.leaderworkerset import LeaderWorkerTemplate, SubGroupPolicy
from kohort.groups.restart_budget import LONGEST_DELAY_TOO_SHORT
from kohort.objects import field_errors, int_or_string, names
from kohort.objects.counted_nouns import counted
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.quantity import Quantity
from kohort.objects.well_known_names import TAINT_EFFECTS
from kohort.rules import group_labels
from kohort.rules.canonical_form import CLAIM, canonical_struct
from kohort.rules.group_identity import parse_index
from kohort.rules.group_template import leader_field
from kohort.rules.rolling_limits import DEFAULT_ROLLING_OF_GROUPS, Field, comes_to_nothing, written_groups

MAX_REPLICAS: Final = 1_000_000
MAX_PODS: Final = 2**31 - 1

_REVISION_SUFFIX: Final = 11
"""A StatefulSet adds a dash and up to ten characters to its name for the revision label of its pods."""

_TEMPLATE: Final = "spec.leaderWorkerTemplate"
_ROLLING: Final = "spec.rolloutStrategy.rollingUpdateConfiguration"
_LIMITS: Final[tuple[Field, ...]] = ("maxUnavailable", "maxSurge")
_SUBGROUP: Final = f"{_TEMPLATE}.SubGroupPolicy.subGroupSize"


def create_errors(group_set: JsonObject) -> list[FieldError]:
    spec = group_set["spec"]
    template = LeaderWorkerTemplate(spec.get("leaderWorkerTemplate") or {})
    replicas = _replicas(spec)
    return [
        *_name_errors(group_set),
        *_size_errors(replicas, template.size),
        *_rolling_errors(spec, replicas),
        *_restart_budget_errors(template),
        *_disruption_budget_errors(spec),
        *_subgroup_errors(group_set, template),
        *_placement_errors(group_set),
        *_annotation_errors(group_set),
        *_owned_annotation_errors(template),
        *_container_errors(template),
        *_quantity_errors(template),
        *_claim_errors(template),
        *_scheduling_errors(group_set, template),
    ]


def update_errors(group_set: JsonObject, old: JsonObject, *, default_resize_policy: str = "None") -> list[FieldError]:
    """Violations of an update: those that it brings, and changes that are not possible.

    What was wrong before is no reason to refuse another change: some rules are stricter than those under which the set
    may have been created, and scaling goes past others. A set that is being deleted must be able to lose its
    finalizers, whatever is wrong with it.
    """
    if group_set["metadata"].get("deletionTimestamp"):
        return []
    new_template = LeaderWorkerTemplate(group_set["spec"].get("leaderWorkerTemplate") or {})
    old_template = LeaderWorkerTemplate(old["spec"].get("leaderWorkerTemplate") or {})
    return [
        *_new_errors(create_errors(group_set), create_errors(old), group_set, old),
        *_network_errors(group_set["spec"]),
        *_subgroup_changes(new_template, old_template),
        *_resize_errors(new_template, old_template, default_resize_policy),
        *_claim_changes(new_template, old_template),
    ]


def scale_errors(group_set: JsonObject, old: JsonObject) -> list[FieldError]:
    """Violations that another number of groups brings; `old` is the set with the number that it has now."""
    return _new_errors(_errors_of_count(group_set), _errors_of_count(old), group_set, old)


def _new_errors(
    found: list[FieldError], known: list[FieldError], group_set: JsonObject, old: JsonObject
) -> list[FieldError]:
    """What an update brings. A name is too long for more than before only if it may be shorter now."""
    name_excused = _longest_name(group_set["spec"]) >= _longest_name(old["spec"])
    return [error for error in found if error not in known and not (name_excused and error.field == "metadata.name")]


def _errors_of_count(group_set: JsonObject) -> list[FieldError]:
    replicas, size = (
        _replicas(group_set["spec"]),
        LeaderWorkerTemplate(group_set["spec"].get("leaderWorkerTemplate") or {}).size,
    )
    return [*_name_errors(group_set), *_size_errors(replicas, size)]


def _replicas(spec: JsonObject) -> int:
    replicas = spec.get("replicas")
    return 1 if replicas is None else replicas


def _name_errors(group_set: JsonObject) -> list[FieldError]:
    name = group_set["metadata"].get("name", "")
    found = [field_errors.invalid("metadata.name", name, text) for text in names.dns1035_label(name)]
    if found or not name:
        return found
    spec = group_set["spec"]
    longest = _longest_name(spec)
    if len(name) > longest:
        size = LeaderWorkerTemplate(spec.get("leaderWorkerTemplate") or {}).size
        surge = _most_groups(spec) - _replicas(spec)
        text = (
            f"labels and names of its pods would be too long: with {counted(_replicas(spec), 'replica')} of size {size}"
            f"{f' and {surge} more while they roll' if surge else ''} the name may have at most {longest} characters, "
            f"because a StatefulSet adds up to {_REVISION_SUFFIX} to its own name in the label "
            f"controller-revision-hash of its pods, which holds {names.LABEL_LENGTH}"
        )
        found.append(field_errors.invalid("metadata.name", name, text))
    return found


def _longest_name(spec: JsonObject) -> int:
    """How long a set's name may be, so that names made from it fit where Kubernetes puts them.

    | made from the set's name | where it must fit | characters |
    |---|---|--:|
    | leader StatefulSet `NAME` | revision label of leaders | 63 - 11 |
    | worker StatefulSet `NAME-GROUP`, of groups with workers | revision label of workers | 63 - 11 |
    | last pod `NAME-GROUP[-WORKER]` | host name, label with the pod's name | 63 |

    The last group is the last one that a roll may make. A revision hash can be shorter than ten characters, but the
    next one need not be.
    """
    size = LeaderWorkerTemplate(spec.get("leaderWorkerTemplate") or {}).size
    group = f"-{max(0, _most_groups(spec) - 1)}"
    maker, last = (group, f"{group}-{size - 1}") if size > 1 else ("", group)
    return names.LABEL_LENGTH - max(len(maker) + _REVISION_SUFFIX, len(last))


def _most_groups(spec: JsonObject) -> int:
    """With the groups that a roll makes in addition. What cannot be resolved is refused elsewhere."""
    replicas = max(0, _replicas(spec))
    rolling = (spec.get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    try:
        return replicas + max(0, written_groups("maxSurge", rolling.get("maxSurge"), replicas))
    except ValueError:
        return replicas


def _size_errors(replicas: int, size: int) -> list[FieldError]:
    found: list[FieldError] = []
    if replicas < 0:
        found.append(field_errors.invalid("spec.replicas", replicas, "replicas must be equal or greater than 0"))
    if replicas > MAX_REPLICAS:
        text = f"replicas must be equal or less than {MAX_REPLICAS}"
        found.append(field_errors.invalid("spec.replicas", replicas, text))
    if size < 1:
        found.append(field_errors.invalid(f"{_TEMPLATE}.size", size, "size must be equal or greater than 1"))
    if replicas * size > MAX_PODS:
        text = f"the product of replicas and worker replicas must not exceed {MAX_PODS}"
        found.append(field_errors.invalid("spec.replicas", replicas, text))
    return found


def _rolling_errors(spec: JsonObject, replicas: int) -> list[FieldError]:
    rolling = (spec.get("rolloutStrategy") or {}).get("rollingUpdateConfiguration")
    if rolling is None:
        return []
    amounts = {name: _or(rolling.get(name), DEFAULT_ROLLING_OF_GROUPS[name]) for name in _LIMITS}
    found = [error for name in _LIMITS for error in _amount_errors(f"{_ROLLING}.{name}", amounts[name])]
    partition = rolling.get("partition") or 0
    if partition < 0:
        found.append(field_errors.invalid(f"{_ROLLING}.partition", partition, "must be greater than or equal to 0"))
    resolvable: dict[str, int | str] = {}
    for name in _LIMITS:
        try:
            written_groups(name, amounts[name], max(replicas, 0))
            resolvable[name] = amounts[name]
        except ValueError:
            resolvable[name] = 0
            found.append(field_errors.invalid(f"{_ROLLING}.{name}", amounts[name], "invalid value"))
    if replicas != 0 and comes_to_nothing(resolvable, max(replicas, 0)):
        text = "must not be 0 when `maxSurge` is 0"
        found.append(field_errors.invalid(f"{_ROLLING}.maxUnavailable", amounts["maxUnavailable"], text))
    return found


def _restart_budget_errors(template: LeaderWorkerTemplate) -> list[FieldError]:
    budget = template.restart_budget
    if budget is None or budget.max_backoff_seconds >= budget.backoff_seconds:
        return []
    text = f"{LONGEST_DELAY_TOO_SHORT}, which is {budget.backoff_seconds}"
    return [field_errors.invalid(f"{_TEMPLATE}.restartBudget.maxBackoffSeconds", budget.max_backoff_seconds, text)]


def _disruption_budget_errors(spec: JsonObject) -> list[FieldError]:
    value = (spec.get("disruptionBudget") or {}).get("maxUnavailable")
    return [] if value is None else _amount_errors("spec.disruptionBudget.maxUnavailable", value)


def _or(value: Json, missing: int) -> int | str:
    return missing if value is None else value


def _amount_errors(field: str, value: int | str) -> list[FieldError]:
    """A number of groups, or a percentage of them up to 100%."""
    if isinstance(value, int):
        if value < 0:
            return [field_errors.invalid(field, value, "must be greater than or equal to 0")]
        if value > int_or_string.LARGEST:
            return [field_errors.invalid(field, value, f"must be less than or equal to {int_or_string.LARGEST}")]
        return []
    if not int_or_string.is_percentage(value):
        return [field_errors.invalid(field, value, int_or_string.PERCENT_WRONG)]
    if int_or_string.percentage(value) > 100:
        return [field_errors.invalid(field, value, "must not be greater than 100%")]
    return []


def _subgroup_errors(group_set: JsonObject, template: LeaderWorkerTemplate) -> list[FieldError]:
    policy = template.subgroups
    annotations = group_set["metadata"].get("annotations") or {}
    if policy is None:
        if group_labels.SUBGROUP_EXCLUSIVE in annotations:
            field = f"metadata.annotations.{group_labels.SUBGROUP_EXCLUSIVE}"
            value = annotations[group_labels.SUBGROUP_EXCLUSIVE]
            text = "cannot have subgroup-exclusive-topology without subGroupSize set"
            return [field_errors.invalid(field, value, text)]
        return []
    width = policy.sub_group_size
    if width is None:
        return [field_errors.required(_SUBGROUP, subgroups.SIZE_MISSING)]
    return [field_errors.invalid(_SUBGROUP, width, text) for text in _width_problems(template.size, width, policy)]


def _width_problems(size: int, width: int, policy: SubGroupPolicy) -> list[str]:
    if width < 1:
        return [subgroups.SIZE_TOO_SMALL]
    problems: list[str] = []
    workers_divide = subgroups.workers_divide_evenly(size, width)
    if not workers_divide and not subgroups.group_divides_evenly(size, width):
        problems.append(subgroups.NOT_DIVISIBLE)
    if size < width:
        problems.append(subgroups.SIZE_TOO_LARGE)
    if subgroups.excludes_leader(policy.sub_group_policy_type) and not workers_divide:
        problems.append(subgroups.WORKERS_NOT_DIVISIBLE)
    return problems


def _network_errors(spec: JsonObject) -> list[FieldError]:
    """Defaulting comes first and fills the policy in; without it, null would silently mean Shared."""
    network = spec.get("networkConfig")
    if network is None or network.get("subdomainPolicy") is not None:
        return []
    return [field_errors.invalid("spec.networkConfig.subdomainPolicy", None, "cannot set subdomainPolicy as null")]


def _subgroup_changes(new: LeaderWorkerTemplate, old: LeaderWorkerTemplate) -> list[FieldError]:
    now, before = new.subgroups, old.subgroups
    if now is not None and before is not None and now.sub_group_size != before.sub_group_size:
        return [field_errors.invalid(_SUBGROUP, now.sub_group_size, "field is immutable")]
    if now is not None and before is None:
        return [field_errors.invalid(_SUBGROUP, now.sub_group_size, subgroups.ADDED_LATER)]
    if now is None and before is not None:
        return [field_errors.invalid(_SUBGROUP, before.sub_group_size, subgroups.REMOVED_LATER)]
    return []


def _resize_errors(new: LeaderWorkerTemplate, old: LeaderWorkerTemplate, default_policy: str) -> list[FieldError]:
    """The policy of the new object decides, so that policy and size can change in one edit."""
    policy = new.resize_policy or default_policy
    if new.size == old.size or policy == "Recreate":
        return []
    text = (
        f"field is immutable while spec.leaderWorkerTemplate.resizePolicy is {policy}; set resizePolicy to Recreate to "
        "have the groups recreated with the new size"
    )
    return [field_errors.invalid(f"{_TEMPLATE}.size", new.size, text)]


def _placement_errors(group_set: JsonObject) -> list[FieldError]:
    """Both name a label of nodes. Pods that name another kind of text are refused by every server."""
    annotations = group_set["metadata"].get("annotations") or {}
    return [
        field_errors.invalid(f"metadata.annotations.{key}", annotations[key], text)
        for key in (group_labels.EXCLUSIVE, group_labels.SUBGROUP_EXCLUSIVE)
        if annotations.get(key)
        for text in names.qualified_name(annotations[key])
    ]


def _annotation_errors(group_set: JsonObject) -> list[FieldError]:
    annotations, found = group_set["metadata"].get("annotations") or {}, list[FieldError]()
    seconds = annotations.get(group_labels.ENGINE_RECOVERY)
    number = parse_index(seconds)
    if seconds is not None and (number is None or number > LONGEST):
        field = f"metadata.annotations.{group_labels.ENGINE_RECOVERY}"
        found.append(field_errors.invalid(field, seconds, f"must be a number of seconds from 0 to {LONGEST}"))
    prefers = annotations.get(group_labels.PREFER_PREVIOUS_NODES)
    if prefers is not None and prefers not in ("true", "false"):
        field = f"metadata.annotations.{group_labels.PREFER_PREVIOUS_NODES}"
        found.append(field_errors.not_supported(field, prefers, ("true", "false")))
    return found


def _owned_annotation_errors(template: LeaderWorkerTemplate) -> list[FieldError]:
    """Annotations of pods that the operator writes, where a value of the user would keep groups from ever being ready.

    | in the template of | annotation | of others that are in templates |
    |---|---|---|
    | leaders, with workers | leader-name | name, worker-index, revision and size are overwritten |
    | workers, without subGroupPolicy | subgroup-size that is no number | group-index is that of the pod's name |
    | | | group-key, subgroup-index and all else count as they are |
    """
    if template.size < 2:
        return []
    found: list[FieldError] = []
    leader_name = _annotations(template.leader).get(group_labels.LEADER_NAME)
    if leader_name:
        field = f"{_TEMPLATE}.{leader_field(template.raw)}.metadata.annotations.{group_labels.LEADER_NAME}"
        text = "a leader that has this annotation gets no workers; remove it: workers get it from the operator"
        found.append(field_errors.invalid(field, leader_name, text))
    width = _annotations(template.worker).get(group_labels.SUBGROUP_SIZE)
    labels = (template.worker.get("metadata") or {}).get("labels") or {}
    in_subgroup = template.subgroups is not None or labels.get(group_labels.SUBGROUP_INDEX)
    if width is not None and not parse_index(width) and not in_subgroup:
        field = f"{_TEMPLATE}.workerTemplate.metadata.annotations.{group_labels.SUBGROUP_SIZE}"
        text = f"must be a number above 0, or no worker could be created; remove it and use {_TEMPLATE}.subGroupPolicy"
        found.append(field_errors.invalid(field, width, text))
    return found


def _annotations(pod_template: JsonObject) -> JsonObject:
    found: JsonObject = (pod_template.get("metadata") or {}).get("annotations") or {}
    return found


def _container_errors(template: LeaderWorkerTemplate) -> list[FieldError]:
    """A template without any list of containers, `{}` for one, would silently be taken for none."""
    given = [name for name in ("leaderTemplate", "workerTemplate") if template.raw.get(name) is not None]
    without = [name for name in given if (template.raw[name].get("spec") or {}).get("containers") is None]
    return [field_errors.required(f"{_TEMPLATE}.{name}.spec.containers") for name in without]


def _quantity_errors(template: LeaderWorkerTemplate) -> list[FieldError]:
    """The schema checks the characters of a quantity, and lets some pass that none has: `1e1.5`, `1e99999999999`."""
    found: list[FieldError] = []
    for name in ("leaderTemplate", "workerTemplate"):
        spec: JsonObject = (template.raw.get(name) or {}).get("spec") or {}
        path = f"{_TEMPLATE}.{name}.spec"
        found += _unreadable(f"{path}.resources", spec.get("resources"))
        for group in ("initContainers", "containers"):
            for number, container in enumerate(spec.get(group) or ()):
                found += _unreadable(f"{path}.{group}[{number}].resources", container.get("resources"))
    return found


def _unreadable(path: str, resources: JsonObject | None) -> Iterator[FieldError]:
    for side in ("requests", "limits"):
        for name, written in ((resources or {}).get(side) or {}).items():
            try:
                Quantity.parse(written)
            except ValueError as problem:
                yield field_errors.invalid(f"{path}.{side}[{name}]", written, str(problem))


def _claim_errors(template: LeaderWorkerTemplate) -> list[FieldError]:
    """A claim template must be mounted by a container: a claim that no pod mounts is a mistake that costs storage. One
    that only leaders or only workers mount is none, although the others get it as well."""
    found: list[FieldError] = []
    seen: set[str] = set()
    mounted = _mounted(template.leader.get("spec") or {}) | _mounted(template.worker.get("spec") or {})
    for number, claim in enumerate(template.claims):
        field = f"{_TEMPLATE}.volumeClaimTemplates[{number}].metadata.name"
        name = (claim.get("metadata") or {}).get("name") or ""
        if not name:
            found.append(field_errors.required(field, "a claim template is mounted by its name"))
            continue
        if name in seen:
            found.append(field_errors.duplicate(field, name))
        seen.add(name)
        if name not in mounted:
            text = "no container of the leader or the worker template mounts a volume of this name"
            found.append(field_errors.invalid(field, name, text))
    return found


def _mounted(spec: JsonObject) -> set[str]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    used = (use for one in containers for kind in ("volumeMounts", "volumeDevices") for use in one.get(kind) or ())
    return {use.get("name") or "" for use in used}


def _claim_changes(new: LeaderWorkerTemplate, old: LeaderWorkerTemplate) -> list[FieldError]:
    if [_claimed(one) for one in new.claims] == [_claimed(one) for one in old.claims]:
        return []
    field = f"{_TEMPLATE}.volumeClaimTemplates"
    text = (
        "field is immutable: the claims of a StatefulSet cannot change; create a new LeaderWorkerSet, or resize the "
        "existing PersistentVolumeClaims directly"
    )
    return [field_errors.invalid(field, [(one.get("metadata") or {}).get("name") for one in new.claims], text)]


def _claimed(claim: JsonObject) -> JsonObject:
    """What a StatefulSet makes of a claim template. Another implementation writes quantities in their shortest form and
    an empty status into what it stores, so a manifest that is applied again differs from that in text only."""
    try:
        found = canonical_struct(claim, CLAIM)
    except ValueError:  # an amount that is none, which the schema refuses
        return claim
    metadata = {key: value for key, value in found["metadata"].items() if key != "namespace"}
    return {"metadata": metadata, "spec": {"volumeMode": "Filesystem", **found["spec"]}}


def _scheduling_errors(group_set: JsonObject, template: LeaderWorkerTemplate) -> list[FieldError]:
    policy = template.scheduling
    if policy is None:
        return []
    root = f"{_TEMPLATE}.schedulingPolicy"
    selector, toleration = policy.replica_unique_node_selector, policy.replica_unique_toleration
    if not selector and toleration is None:
        text = "one of replicaUniqueNodeSelector and replicaUniqueToleration must be set"
        return [field_errors.required(root, text)]
    found: list[FieldError] = []
    if selector:
        field = f"{root}.replicaUniqueNodeSelector"
        found += [field_errors.invalid(field, selector, text) for text in names.qualified_name(selector)]
        topology = (group_set["metadata"].get("annotations") or {}).get(group_labels.EXCLUSIVE)
        if topology == selector:
            text = (
                f"must differ from the annotation {group_labels.EXCLUSIVE}, whose value the workers' node selector uses"
            )
            found.append(field_errors.invalid(field, selector, text))
    if toleration is not None:
        field = f"{root}.replicaUniqueToleration"
        if not toleration.key:
            found.append(field_errors.required(f"{field}.key"))
        else:
            problems = names.qualified_name(toleration.key)
            found += [field_errors.invalid(f"{field}.key", toleration.key, text) for text in problems]
        if toleration.effect not in TAINT_EFFECTS:
            found.append(field_errors.not_supported(f"{field}.effect", toleration.effect, TAINT_EFFECTS))
    return found
