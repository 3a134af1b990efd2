"""Features of a LeaderWorkerSet and what is done to it, combined so that every two of them meet.

A row gives every factor one of its choices. `rows(2)` is the shortest list that a greedy search finds in which any two
choices of different factors occur together at least once; `rows(3)` has, in addition, every two features together with
every operation. Choices that exclude each other are named in `EXCLUDED`, with the reason.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations, product

from tests.builders import LeaderWorkerSet, container, lws

from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

Row = Mapping[str, str]
Pick = tuple[str, str]
Change = Callable[[LeaderWorkerSet], LeaderWorkerSet]

NAME = "llm"
OLD, NEW = "model:1", "model:2"
REPLICAS, SIZE = 3, 3
RACK, POOL = "rack", "pool"
TEMPLATE = "spec.leaderWorkerTemplate"
MOUNT = [{"name": "cache", "mountPath": "/cache"}]
CLAIM: JsonObject = {
    "metadata": {"name": "cache"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
RECOVERY_SECONDS = 20
AMOUNTS = {"cpu": "200m", "memory": "64Mi"}


def model() -> JsonObject:
    return container(image=OLD, requests=AMOUNTS, limits={"memory": "128Mi"})


def _as_is(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    return subject


def _both(subject: LeaderWorkerSet, path: str, value: object) -> LeaderWorkerSet:
    """A value in the template of workers, and in that of leaders if they have their own."""
    for role in ("leaderTemplate", "workerTemplate"):
        if subject.at(f"{TEMPLATE}.{role}") is not None:
            subject = subject.but(f"{TEMPLATE}.{role}.{path}", value)
    return subject


def _claims(**retention: str) -> Change:
    def change(subject: LeaderWorkerSet) -> LeaderWorkerSet:
        mounting = _both(subject, "spec.containers.0.volumeMounts", MOUNT).but(
            f"{TEMPLATE}.volumeClaimTemplates", [CLAIM]
        )
        return mounting.but(f"{TEMPLATE}.persistentVolumeClaimRetentionPolicy", retention) if retention else mounting

    return change


def _pod_level(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    return _both(
        subject, "spec.resources", {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}
    )


def _two_templates(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    return subject.leader({"metadata": {}, "spec": {"containers": [model()]}})


def _with(step: Callable[[LeaderWorkerSet, str], LeaderWorkerSet], *choices: str) -> dict[str, Change]:
    """One choice for each value of a field."""
    return {choice: partial(_stepped, step, choice) for choice in choices}


def _stepped(
    step: Callable[[LeaderWorkerSet, str], LeaderWorkerSet], choice: str, subject: LeaderWorkerSet
) -> LeaderWorkerSet:
    return step(subject, choice)


def _without_resources(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    return _both(subject, "spec.containers.0.resources", None)


def _unique_nodes(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    toleration = {"key": POOL, "effect": "NoSchedule"}
    policy = {"replicaUniqueNodeSelector": POOL, "replicaUniqueToleration": toleration}
    return subject.but(f"{TEMPLATE}.schedulingPolicy", policy)


def _budgets(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    budget = {"maxRestarts": 5, "backoffSeconds": 1, "maxBackoffSeconds": 10}
    return subject.but(f"{TEMPLATE}.restartBudget", budget).but("spec.disruptionBudget", {"maxUnavailable": 1})


def _engine_first(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    return subject.annotations({group_labels.ENGINE_RECOVERY: str(RECOVERY_SECONDS)})


def _previous_nodes(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    return subject.annotations({group_labels.PREFER_PREVIOUS_NODES: "true"})


def _subgroup_exclusive(subject: LeaderWorkerSet) -> LeaderWorkerSet:
    return subject.annotations({group_labels.SUBGROUP_EXCLUSIVE: RACK})


FEATURES: dict[str, dict[str, Change]] = {
    "templates": {"one": _as_is, "two": _two_templates},
    "size": {"three": lambda subject: subject.size(SIZE), "one": lambda subject: subject.size(1)},
    "claims": {
        "none": _as_is,
        "retained": _claims(),
        "deleted when scaled": _claims(whenScaled="Delete"),
        "deleted always": _claims(whenDeleted="Delete", whenScaled="Delete"),
    },
    "resources": {"containers": _as_is, "pods": _pod_level, "none": _without_resources},
    "subgroups": {
        "none": _as_is,
        "LeaderWorker": lambda subject: subject.subgroups(2, group_labels.LEADER_WORKER),
        "LeaderExcluded": lambda subject: subject.subgroups(2, group_labels.LEADER_EXCLUDED),
    },
    "placement": {
        "anywhere": _as_is,
        "exclusive": lambda subject: subject.exclusive(RACK),
        "exclusive subgroups": _subgroup_exclusive,
        "nodes of its own": _unique_nodes,
    },
    "startup": _with(LeaderWorkerSet.startup, group_labels.LEADER_CREATED, group_labels.LEADER_READY),
    "restarts": _with(
        LeaderWorkerSet.restart, group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED, "None"
    ),
    "strategy": {
        "one unavailable": _as_is,
        "surge only": lambda subject: subject.max_surge(1).max_unavailable(0),
        "surge and unavailable": lambda subject: subject.max_surge("50%").max_unavailable("34%"),
        "partition": lambda subject: subject.partition(1),
    },
    "budgets": {"none": _as_is, "restarts and disruptions": _budgets},
    "recovery": {"restart": _as_is, "engine first": _engine_first, "previous nodes": _previous_nodes},
    "gangs": {"none": _as_is, "volcano": _as_is},
    "network": _with(LeaderWorkerSet.network, group_labels.SHARED, group_labels.UNIQUE),
}

OPERATIONS = (
    "create",
    "roll",
    "restart",
    "lose a pod",
    "fail",
    "evict",
    "change size",
    "scale up",
    "scale down",
    "undo",
    "release",
    "abort",
    "resize",
    "resize in place",
    "release in place",
    "take over",
    "crash midway",
)

EXCLUDED: dict[tuple[Pick, Pick], str] = {
    (("size", "one"), ("subgroups", "LeaderWorker")): "a subgroup of two pods is more than the group has",
    (("size", "one"), ("subgroups", "LeaderExcluded")): "as above",
    (("subgroups", "none"), ("placement", "exclusive subgroups")): "there are no subgroups to place",
    (("size", "one"), ("placement", "exclusive subgroups")): "as above",
    (("resources", "none"), ("operation", "resize")): "a pod may not leave its quality of service class",
    (("resources", "none"), ("operation", "resize in place")): "as above",
    (("resources", "none"), ("operation", "release in place")): "as above",
}


def subject_of(row: Row) -> LeaderWorkerSet:
    subject = lws(NAME).replicas(REPLICAS).but(f"{TEMPLATE}.workerTemplate.spec.containers", [model()])
    subject = subject.but(f"{TEMPLATE}.resizePolicy", "Recreate")
    for factor, choices in FEATURES.items():
        subject = choices[row[factor]](subject)
    return subject


def factors() -> dict[str, tuple[str, ...]]:
    return {"operation": OPERATIONS, **{factor: tuple(choices) for factor, choices in FEATURES.items()}}


def allowed(row: Row) -> bool:
    picks = set(row.items())
    return not any(first in picks and second in picks for first, second in EXCLUDED)


def wanted(strength: int) -> set[frozenset[Pick]]:
    """The combinations that some row must contain."""
    known = factors()
    if strength == 2:
        chosen = list(combinations(known, 2))
        return {found for pair in chosen for found in _products(pair, known)}
    features = [one for one in known if one != "operation"]
    return {found for pair in combinations(features, 2) for found in _products(("operation", *pair), known)}


def _products(chosen: tuple[str, ...], known: Mapping[str, tuple[str, ...]]) -> Iterator[frozenset[Pick]]:
    for values in product(*(known[one] for one in chosen)):
        row = dict(zip(chosen, values, strict=True))
        if allowed(row):
            yield frozenset(row.items())


def rows(strength: int = 2, seed: int = 1) -> list[Row]:
    """Greedy: begin with a combination that is missing, then give every other factor the choice that covers most."""
    chance, missing, found = random.Random(seed), wanted(strength), list[Row]()
    order = sorted(missing, key=sorted)
    chance.shuffle(order)
    for seed_of_row in order:
        if seed_of_row not in missing:
            continue
        row = dict(seed_of_row)
        others = [one for one in factors() if one not in row]
        chance.shuffle(others)
        for factor in others:
            choices = [one for one in factors()[factor] if allowed({**row, factor: one})]
            gains = {one: (len(_covered({**row, factor: one}, strength) & missing), chance.random()) for one in choices}
            row[factor] = max(choices, key=gains.__getitem__)
        missing -= _covered(row, strength)
        found.append({factor: row[factor] for factor in factors()})
    return sorted(found, key=lambda row: OPERATIONS.index(row["operation"]))


def _covered(row: Row, strength: int) -> set[frozenset[Pick]]:
    return {frozenset(found) for found in combinations(row.items(), strength)}


def title(row: Row) -> str:
    """Only what is not the usual choice."""
    usual = {factor: choices[0] for factor, choices in factors().items()}
    return ", ".join([row["operation"], *(f"{key}: {row[key]}" for key in FEATURES if row[key] != usual[key])])
