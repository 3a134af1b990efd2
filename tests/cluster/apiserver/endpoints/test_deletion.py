"""Deletion (specification 1.14): the decision as a table, and what clients see of it."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.cluster.apiserver.endpoints.deletion import finalizers_for, plan_deletion
from kohort.cluster.apiserver.endpoints.query_options import DeleteOptions
from kohort.cluster.apiserver.kinds.model import Strategy
from kohort.kube import clock
from kohort.objects.json_types import JsonObject

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


class Graceful(Strategy):
    """Like a pod on a node: thirty seconds unless told otherwise."""

    def graceful_seconds(self, obj: JsonObject, requested: int | None) -> int:
        return 30 if requested is None else requested


class Orphaning(Strategy):
    default_propagation = "Orphan"


class Uncollectable(Strategy):
    collectable = False


def live(*finalizers: str, generation: int = 1, grace: int | None = None, seconds_left: int = 0) -> JsonObject:
    metadata: JsonObject = {"name": "x", "generation": generation}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    if grace is not None:
        metadata["deletionTimestamp"] = clock.format_time(clock.now() + timedelta(seconds=seconds_left))
        metadata["deletionGracePeriodSeconds"] = grace
    return {"metadata": metadata}


def some(
    *finalizers: str, generation: int = 1, grace: int | None = None, seconds_left: int = 0
) -> Callable[[], JsonObject]:
    """The same, made when the test runs: its time stamps count from then."""
    return partial(live, *finalizers, generation=generation, grace=grace, seconds_left=seconds_left)


@pytest.mark.parametrize(
    ("obj", "options", "strategy", "marked", "removed", "pending"),
    [
        (some(), DeleteOptions(), Strategy(), None, True, False),
        (some("a/b"), DeleteOptions(), Strategy(), (0, 2, ["a/b"]), False, False),
        (some(), DeleteOptions(propagation="Foreground"), Strategy(), (0, 2, ["foregroundDeletion"]), False, False),
        (some(), DeleteOptions(propagation="Orphan"), Strategy(), (0, 2, ["orphan"]), False, False),
        (some(), DeleteOptions(orphan_dependents=True), Strategy(), (0, 2, ["orphan"]), False, False),
        (some(), DeleteOptions(), Orphaning(), (0, 2, ["orphan"]), False, False),
        (some(), DeleteOptions(propagation="Background"), Orphaning(), None, True, False),
        (some("orphan"), DeleteOptions(propagation="Background"), Strategy(), None, True, False),
        (some(), DeleteOptions(propagation="Orphan"), Uncollectable(), None, True, False),
        (some(generation=0), DeleteOptions(propagation="Orphan"), Strategy(), (0, 0, ["orphan"]), False, False),
        (some(), DeleteOptions(), Graceful(), (30, 2, None), False, False),
        (some(), DeleteOptions(grace_seconds=0), Graceful(), (0, 2, None), True, False),
        (some("a/b"), DeleteOptions(grace_seconds=0), Graceful(), (0, 2, ["a/b"]), False, False),
        (
            some(),
            DeleteOptions(propagation="Foreground"),
            Graceful(),
            (30, 2, ["foregroundDeletion"]),
            False,
            False,
        ),
        (some(grace=30, seconds_left=30), DeleteOptions(), Graceful(), None, False, True),
        (some(grace=30, seconds_left=30), DeleteOptions(grace_seconds=60), Graceful(), None, False, True),
        (some(grace=30, seconds_left=30), DeleteOptions(grace_seconds=5), Graceful(), (5, 1, None), False, False),
        (some(grace=30, seconds_left=1), DeleteOptions(grace_seconds=5), Graceful(), (1, 1, None), False, False),
        (some(grace=30, seconds_left=30), DeleteOptions(grace_seconds=0), Graceful(), (0, 1, None), True, False),
        (some("a/b", grace=0), DeleteOptions(), Graceful(), (0, 1, ["a/b"]), False, False),
        (some(grace=0), DeleteOptions(), Graceful(), None, True, False),
    ],
)
def test_what_a_delete_does(
    obj: Callable[[], JsonObject],
    options: DeleteOptions,
    strategy: Strategy,
    marked: tuple[int, int, list[str] | None] | None,
    removed: bool,
    pending: bool,
) -> None:
    plan = plan_deletion(obj(), options, strategy)
    found = None
    if plan.mark is not None:
        metadata = plan.mark["metadata"]
        assert metadata["deletionTimestamp"]
        found = (metadata["deletionGracePeriodSeconds"], metadata["generation"], metadata.get("finalizers"))
    assert (found, plan.remove, plan.pending) == (marked, removed, pending)


def test_the_policy_replaces_only_its_own_finalizers() -> None:
    options = DeleteOptions(propagation="Foreground")
    assert finalizers_for(["a/b", "orphan"], options, Strategy()) == ["a/b", "foregroundDeletion"]
    assert finalizers_for(["a/b"], DeleteOptions(), Strategy()) is None
    assert finalizers_for(["foregroundDeletion"], DeleteOptions(), Strategy()) is None


async def test_a_finalizer_keeps_an_object_until_it_is_taken_off(api: Api) -> None:
    await api.config_map("a", finalizers=["example.com/f"])
    first = await api.delete(f"{CONFIG_MAPS}/a")
    assert (first.code, first.json["kind"], first.meta["deletionGracePeriodSeconds"]) == (200, "ConfigMap", 0)
    again = await api.delete(f"{CONFIG_MAPS}/a")
    assert again.meta["resourceVersion"] == first.meta["resourceVersion"]
    added = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}})
    assert (added.code, added.reason) == (422, "Invalid")
    freed = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
    assert (freed.code, freed.json["data"]) == (200, {"k": "v"})
    assert (await api.get(f"{CONFIG_MAPS}/a")).code == 404


async def test_the_answer_names_what_is_gone(api: Api) -> None:
    created = await api.config_map("a")
    gone = await api.delete(f"{CONFIG_MAPS}/a")
    assert gone.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": created.meta["uid"]},
    }


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        (f"{CONFIG_MAPS}/a", "uid", "x"),
        (f"{CONFIG_MAPS}/a", "resourceVersion", "1"),
        (f"{CONFIG_MAPS}/a", "resourceVersion", "x"),
        (f"{CONFIG_MAPS}/a", "resourceVersion", ""),
        (CONFIG_MAPS, "uid", "x"),
        (CONFIG_MAPS, "resourceVersion", "0"),
    ],
)
async def test_preconditions_in_the_query(api: Api, path: str, name: str, value: str) -> None:
    await api.config_map("a")
    assert (await api.delete(path, **{name: value})).code == 409
    assert (await api.get(f"{CONFIG_MAPS}/a")).code == 200


async def test_preconditions_of_a_namespace_are_refused_in_its_own_words(api: Api) -> None:
    created = await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    refused = await api.delete("/api/v1/namespaces/n", {"preconditions": {"uid": "x"}})
    assert (refused.code, refused.json["details"]) == (409, {"name": "n", "kind": "namespaces"})
    assert refused.message == (
        'Operation cannot be fulfilled on namespaces "n": Precondition failed: UID in precondition: x, '
        f"UID in object meta: {created.meta['uid']}"
    )


async def test_preconditions(api: Api) -> None:
    created = await api.config_map("a")
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        refused = await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": wrong})
        assert (refused.code, refused.reason) == (409, "Conflict")
        assert refused.message.startswith('Operation cannot be fulfilled on ConfigMap "a": the ')
    right = {"uid": created.meta["uid"], "resourceVersion": created.meta["resourceVersion"]}
    assert (await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": right})).code == 200


async def test_options_in_the_body_hide_those_in_the_query(api: Api) -> None:
    await api.config_map("a")
    await api.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": "Orphan"}, propagationPolicy="Background")
    kept = await api.get(f"{CONFIG_MAPS}/a")
    assert kept.meta["finalizers"] == ["orphan"]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"kind": "Pod", "apiVersion": "v1"}, 400, 'no kind "Pod" is registered for version "v1" in scheme '),
        (b"{bad", 400, "couldn't get version/kind; json parse error: invalid character 'b' looking for "),
        ({"propagationPolicy": "Sideways"}, 422, 'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: '),
        ({"dryRun": ["Some"]}, 422, 'DeleteOptions.meta.k8s.io "" is invalid: dryRun: '),
    ],
)
async def test_bad_options(api: Api, body: object, code: int, message: str) -> None:
    await api.config_map("a")
    refused = await api.delete(f"{CONFIG_MAPS}/a", body)
    assert refused.code == code
    assert refused.message.startswith(message)


async def test_a_dry_run_leaves_everything(api: Api) -> None:
    await api.config_map("a")
    await api.delete(f"{CONFIG_MAPS}/a", dryRun="All")
    await api.delete(f"{CONFIG_MAPS}/a", {"dryRun": ["All"], "propagationPolicy": "Orphan"})
    assert "finalizers" not in (await api.get(f"{CONFIG_MAPS}/a")).meta


async def test_a_collection_is_answered_with_what_was_selected(api: Api) -> None:
    for name, label in (("a", "1"), ("b", "2"), ("c", "1")):
        await api.config_map(name, labels={"t": label})
    gone = await api.delete(CONFIG_MAPS, labelSelector="t=1")
    assert (gone.json["kind"], gone.names) == ("ConfigMapList", ["a", "c"])
    assert (await api.get(CONFIG_MAPS)).names == ["b"]


async def test_a_bound_pod_goes_in_steps(api: Api) -> None:
    await api.pod("p", nodeName="n")
    since = (await api.get(PODS)).meta["resourceVersion"]
    graceful = await api.delete(f"{PODS}/p")
    assert (graceful.meta["deletionGracePeriodSeconds"], graceful.meta["generation"]) == (30, 2)
    assert (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 60})).meta["deletionGracePeriodSeconds"] == 30
    gone = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert (gone.json["kind"], gone.meta["deletionGracePeriodSeconds"]) == ("Pod", 0)
    events = await api.watch(PODS, resourceVersion=since)
    found = [await events.next() for _ in range(3)]
    shown = [(event["type"], event["object"]["metadata"]["deletionGracePeriodSeconds"]) for event in found]
    assert shown == [("MODIFIED", 30), ("MODIFIED", 0), ("DELETED", 0)]
