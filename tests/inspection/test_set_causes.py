"""The first cause first."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import lws, pod
from tests.inspection.scenes import (
    KEY,
    OLD,
    group_set,
    leader_set,
    member,
    revision,
    scene,
    waiting,
    without_node,
    workers,
)

from kohort.groups.caches import GroupService
from kohort.groups.resize.record import Phase, ResizeRecord, write_record
from kohort.inspection.advice import Advice, Command, Verb
from kohort.inspection.cause import ORDER, Cause, CauseKind, cause_lines
from kohort.inspection.container_causes import restarts
from kohort.inspection.occupied_domains import domains_of_others
from kohort.inspection.release import is_at_pause
from kohort.inspection.set_causes import causes
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Event, Node, PersistentVolumeClaim, Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.policy import PodDisruptionBudget
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import group_labels

REST = (member(0, 1), member(1), member(1, 1))


def event(kind: str, name: str, reason: str, message: str, uid: str = "") -> Event:
    reference = {"kind": kind, "name": name, "uid": uid}
    document = {"involvedObject": reference, "reason": reason, "message": message, "type": "Warning"}
    return msgspec.convert(document, Event)


def with_claim(pod: Pod, claim: str) -> Pod:
    document: JsonObject = msgspec.to_builtins(pod)
    document["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return msgspec.convert(document, Pod)


def condition(pod: Pod, type: str, reason: str, message: str) -> Pod:
    document: JsonObject = msgspec.to_builtins(pod)
    more = {"type": type, "status": "True", "reason": reason, "message": message}
    document["status"]["conditions"] = [*document["status"]["conditions"], more]
    return msgspec.convert(document, Pod)


def specified(pod: Pod, **fields: Json) -> Pod:
    document: JsonObject = msgspec.to_builtins(pod)
    return msgspec.convert({**document, "spec": {**document["spec"], **fields}}, Pod)


def begun(pod: Pod) -> Pod:
    document: JsonObject = msgspec.to_builtins(pod)
    return msgspec.convert({**document, "status": {**document["status"], "startTime": "2026-01-01T00:00:00Z"}}, Pod)


def test_a_set_at_rest_has_none() -> None:
    assert causes(scene()) == []


@pytest.mark.parametrize(
    ("pod", "kind", "found", "action"),
    [
        (
            without_node(member(0), "0/2 nodes are available: 2 Insufficient cpu."),
            "scheduling",
            "Insufficient",
            "add nodes",
        ),
        (
            without_node(
                member(0), "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
            ),
            "scheduling",
            "PersistentVolume",
            "only some nodes reach its volume: bring these back (kubectl get nodes",
        ),
        (
            without_node(
                member(0),
                "0/8 nodes are available: 1 node(s) had untolerated taint(s), "
                "7 node(s) didn't match PersistentVolume's node affinity.",
            ),
            "scheduling",
            "PersistentVolume",
            "only some nodes reach its volume: bring these back (kubectl get nodes",
        ),
        (
            without_node(member(0), "0/2 nodes are available: 2 node(s) were unschedulable."),
            "scheduling",
            "unschedulable",
            "kubectl uncordon",
        ),
        (
            without_node(member(0), "0/2 nodes are available: 2 node(s) had no available volume zone."),
            "scheduling",
            "volume zone",
            "kubectl describe the pod",
        ),
        (
            without_node(member(0), "0/2 nodes are available: 2 node(s) had untolerated taint {a: b}."),
            "scheduling",
            "taint",
            "tolerate the taint",
        ),
        (
            without_node(member(0), "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
            "scheduling",
            "match",
            "labels",
        ),
        (without_node(member(0)), "waiting", "no node yet", "scheduler runs"),
        (waiting(member(0), "ImagePullBackOff", "no such host"), "image", "pause:3: no such host", "correct the image"),
        (waiting(member(0), "RegistryUnavailable", "refused"), "image", "pause:3: refused", "correct the image"),
        (waiting(member(0), "CreateContainerConfigError", 'secret "x"'), "configuration", 'secret "x"', "Secret"),
        (waiting(member(0), "RunContainerError", "no such file"), "configuration", "no such file", "the command"),
        (waiting(member(0), "PostStartHookError"), "configuration", "PostStartHookError", "lifecycle hook"),
        (
            waiting(
                member(0),
                "CrashLoopBackOff",
                phase="Running",
                lastState={"terminated": {"exitCode": 128, "reason": "StartError", "message": "/no/such: not found"}},
            ),
            "configuration",
            "cannot be started (StartError): /no/such: not found",
            "correct the command",
        ),
        (waiting(member(0), "CrashLoopBackOff", phase="Running"), "crash", "again and again", "--previous"),
        (begun(waiting(member(0), "ContainerCreating")), "waiting", "Pending", "starting"),
        (waiting(member(0), ""), "waiting", "node node-0 has not begun with it", "kubectl get node node-0"),
        (specified(without_node(member(0)), schedulerName="volcano"), "waiting", "volcano", "scheduler runs"),
        (
            specified(without_node(member(0)), schedulingGates=[{"name": "kohort.dev/restart-backoff"}]),
            "crash",
            "failed again and again",
            "fix the template",
        ),
        (
            specified(without_node(member(0)), schedulingGates=[{"name": "a.example/hold"}]),
            "scheduling",
            "held by scheduling gate a.example/hold",
            "lift it",
        ),
        (
            specified(
                without_node(member(0), "0/1 nodes are available: 1 node(s) didn't match node selector."),
                nodeSelector={"gpu": "h100"},
            ),
            "scheduling",
            "selector",
            "kubectl get nodes -l gpu=h100",
        ),
        (member(0, ready=False), "probe", "not ready", "kohort logs llm -n default --pod llm-0"),
        (
            member(0, phase="Failed", reason="Evicted", message="low on memory"),
            "crash",
            "Evicted: low on memory",
            "describe",
        ),
    ],
)
def test_what_a_pod_shows(pod: Pod, kind: str, found: str, action: str) -> None:
    first = causes(scene(pods=(pod, *REST)))[0]
    assert (first.kind, first.objects) == (kind, ("llm-0",))
    assert found in first.found
    assert action in first.action.text


def test_a_pod_that_nodes_refuse_again_and_again() -> None:
    """It is never seen in that state: what is seen is its successor."""
    events = (event("Pod", "llm-0", "OutOfnvidia.com/gpu", "requested: 8, used: 8", uid="its-predecessor"),)
    successor = waiting(member(0), "")
    first = causes(scene(pods=(successor, *REST), events=events))[0]
    assert (first.kind, first.objects) == ("refused", ("llm-0",))
    assert first.found == "its node did not take it: OutOfnvidia.com/gpu: requested: 8, used: 8"
    assert causes(scene(pods=(member(0), *REST), events=events)) == []


@pytest.mark.parametrize(("annotation", "who"), [("exclusive", "group"), ("subgroup-exclusive", "subgroup")])
def test_a_domain_of_its_own_is_named(annotation: str, who: str) -> None:
    built = lws("llm").replicas(2).size(2)
    subject = group_set(built, annotations={f"leaderworkerset.sigs.k8s.io/{annotation}-topology": "rack"})
    pod = without_node(member(0), "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.")
    first = causes(scene(group_set=subject, pods=(pod, *REST)))[0]
    assert first.action.text.startswith(f"every {who} needs a value of node label rack for itself")
    assert "kubectl get nodes -L rack" in first.action.text


def test_a_crash_tells_how_it_ended() -> None:
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    pod = waiting(member(0), "CrashLoopBackOff", phase="Running", restartCount=4, lastState=last)
    assert causes(scene(pods=(pod, *REST)))[0].found == (
        "container main ends again and again, restarted 4 times; last with code 137 (OOMKilled)"
    )


def test_the_order_is_by_what_follows_from_what() -> None:
    """A worker's crash comes after a leader that has no node, whoever has the lower index."""
    pods = (
        member(0, ready=False),
        waiting(member(0, 1), "CrashLoopBackOff", phase="Running"),
        without_node(member(1), "0/2 nodes are available: 2 Insufficient cpu."),
        waiting(member(1, 1), "ErrImagePull"),
    )
    kinds = [cause.kind for cause in causes(scene(pods=pods))]
    assert kinds == ["scheduling", "image", "crash", "probe"]
    assert kinds == sorted(kinds, key=ORDER.index)


def test_the_same_thing_is_told_once() -> None:
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    pods = [without_node(member(group, worker), message) for group in range(2) for worker in range(2)]
    (cause,) = causes(scene(pods=pods))
    assert cause.objects == ("llm-0", "llm-0-1", "llm-1", "llm-1-1")
    assert cause_lines(cause, 1)[0] == f"1. [scheduling] llm-0 and 3 more: {message}"


def test_one_image_is_one_cause() -> None:
    """Some pods try, others wait for the next try: all of them for the same reason."""
    pods = (
        waiting(member(0), "ImagePullBackOff", 'Back-off pulling image "pause:3"'),
        waiting(member(0, 1), "ErrImagePull", "no such host"),
        waiting(member(1), "ErrImagePull"),
        waiting(member(1, 1), "ImagePullBackOff"),
    )
    (cause,) = causes(scene(pods=pods))
    assert (cause.objects, cause.found) == (
        ("llm-0", "llm-0-1", "llm-1", "llm-1-1"),
        f"cannot pull image {pods[0].spec.main_containers[0].image}: no such host",
    )


def test_a_container_that_runs_between_two_crashes_is_named() -> None:
    """It is no cause: everything is there. Who asks in such a moment learns of it all the same."""
    ended = {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T00:00:00Z"}}
    running = {"running": {"startedAt": "2026-01-01T00:00:01Z"}}
    crashed = {"name": "main", "ready": True, "restartCount": 2, "state": running, "lastState": ended}
    snapshot = scene(pods=(member(0, containerStatuses=[crashed]), *REST))
    assert causes(snapshot) == []
    end = datetime(2026, 1, 1, tzinfo=UTC)
    assert list(restarts(snapshot.pod_context, end + timedelta(seconds=40))) == [
        "llm-0: container main has restarted 2 times, last 40 s ago after code 3 "
        "→ kohort logs llm -n default --pod llm-0 --previous"
    ]
    assert list(restarts(snapshot.pod_context, end + timedelta(minutes=11))) == []


def test_a_volume_comes_before_the_scheduling_that_waits_for_it() -> None:
    pod = with_claim(without_node(member(0), "pod has unbound immediate PersistentVolumeClaims"), "data-llm-0")
    assert causes(scene(pods=(pod, *REST)))[0].found == "claim data-llm-0 does not exist"
    claim = msgspec.convert({"metadata": {"name": "data-llm-0"}, "status": {"phase": "Pending"}}, PersistentVolumeClaim)
    found = causes(scene(pods=(pod, *REST), claims=[claim]))[0]
    assert (found.kind, "names no storage class" in found.found) == ("volume", True)


def test_a_mount_that_fails() -> None:
    pod = waiting(member(0), "ContainerCreating")
    told = event("Pod", "llm-0", "FailedMount", 'configmap "model" not found', uid="uid-llm-0")
    first = causes(scene(pods=(pod, *REST), events=[told]))[0]
    assert (first.kind, first.found) == ("volume", 'configmap "model" not found')


def test_pods_that_the_server_refused() -> None:
    message = 'pods "llm-1" is forbidden: exceeded quota: gpus'
    snapshot = scene(pods=(*REST[:1], member(0)), events=[event("StatefulSet", "llm", "FailedCreate", message)])
    first = causes(snapshot)[0]
    assert (first.kind, first.objects, first.found) == ("refused", ("StatefulSet llm",), message)
    assert "quota" in first.action.text


def test_what_only_the_operator_knows() -> None:
    message = "group 0: pod llm-0 was created while the webhook was away, and is being replaced"
    condition = {"type": "Waiting", "status": "True", "reason": "WebhookMissed", "message": message}
    known = group_set(lws("llm").replicas(2).size(2))
    status = msgspec.structs.replace(known.status, conditions=(condition,))
    first = causes(scene(group_set=msgspec.structs.replace(known, status=status), pods=()))[0]
    assert (first.kind, first.objects, first.found) == ("refused", ("llm",), message)
    assert "mutatingwebhookconfiguration" in first.action.text


def test_an_old_refusal_is_no_cause_when_nothing_is_missing() -> None:
    assert causes(scene(events=[event("StatefulSet", "llm", "FailedCreate", "exceeded quota")])) == []


def test_a_refusal_of_a_stateful_set_that_was_deleted_is_no_cause_for_its_successor() -> None:
    earlier = event("StatefulSet", "llm-0", "FailedCreate", "exceeded quota", uid="uid-of-its-predecessor")
    assert "refused" not in {cause.kind for cause in causes(scene(pods=(member(0), *REST[1:]), events=[earlier]))}


@pytest.mark.parametrize(
    ("partition", "advice"), [(0, "wait: the group is made anew"), (2, "lower the partition to 0")]
)
def test_workers_whose_revision_was_deleted(partition: int, advice: str) -> None:
    """A refusal that is over has the same symptom, and does not explain it."""
    built = lws("llm").replicas(2).size(2).partition(partition)
    snapshot = scene(
        built=built,
        pods=(member(0, revision=OLD), *REST[1:]),
        stateful_sets=(leader_set(2, partition), workers(1)),
        revisions=(revision(built, 1),),
        events=[event("StatefulSet", "llm", "FailedCreate", "exceeded quota")],
    )
    (first, *others) = causes(snapshot)
    assert (first.kind, first.objects) == ("refused", ("group 0",))
    assert first.found == f"its workers cannot be created, because its revision {OLD} was deleted"
    assert advice in first.action.text
    assert "refused" not in {cause.kind for cause in others}


def test_no_operator() -> None:
    snapshot = scene(group_set=group_set(lws("llm").replicas(2).size(2), observed=0), pods=())
    assert causes(snapshot)[0] == Cause(
        CauseKind.OPERATOR,
        ("llm",),
        "no operator has seen this set",
        Advice(
            "wait a second and ask again; if it stays so, see that the operator runs (kohort up, or kohort operator) "
            "and looks after this namespace (--namespaces)"
        ),
    )


def test_an_operator_that_is_refused_what_it_writes_does_run() -> None:
    taken = "Failed to create leader statefulset llm: a StatefulSet llm exists and does not belong to this set"
    unseen = group_set(lws("llm").replicas(2).size(2), observed=0)
    told = event("LeaderWorkerSet", "llm", "FailedCreate", taken, uid="uid-set")
    found = causes(scene(group_set=unseen, pods=(), stateful_sets=(), events=[told]))
    assert (found[0].kind, found[0].objects, found[0].found) == ("refused", ("LeaderWorkerSet llm",), taken)
    assert "operator" not in {cause.kind for cause in found}
    earlier = event("LeaderWorkerSet", "llm", "FailedCreate", taken, uid="uid-of-its-predecessor")
    assert causes(scene(group_set=unseen, pods=(), stateful_sets=(), events=[earlier]))[0].kind == "operator"


@pytest.mark.parametrize(
    ("owner", "policy", "kinds"),
    [("", "Shared", ["refused"]), ("uid-set", "Shared", []), ("", "UniquePerReplica", [])],
)
def test_a_foreign_service_with_the_name_of_the_set(owner: str, policy: str, kinds: list[str]) -> None:
    owners = [{"kind": "LeaderWorkerSet", "name": "llm", "uid": owner, "controller": True}] if owner else []
    service = msgspec.convert({"metadata": {"name": "llm", "ownerReferences": owners}}, GroupService)
    found = causes(scene(built=lws("llm").replicas(2).size(2).network(policy), service=service))
    assert [cause.kind for cause in found] == kinds
    for cause in found:
        assert cause.objects == ("Service llm",)
        assert "does not belong to this set" in cause.found
        assert "kubectl -n default delete service llm" in cause.action.text


_LOOK = "see that the routes exist, and that Service llm-leader-canary has a ready pod (kubectl describe service)"


@pytest.mark.parametrize("state", ["StepUpgrade", "StepTrafficRouting"])
@pytest.mark.parametrize(
    ("reason", "action"),
    [("RefNotFound", "create it"), ("ServiceSelectsNoPods", _LOOK), ("InvalidRef", _LOOK)],
)
def test_references_that_cannot_be_used_are_a_cause_whatever_the_message_says(
    state: str, reason: str, action: str
) -> None:
    resolved = {"type": "ResolvedRefs", "status": "False", "reason": reason, "message": "what the operator found"}
    first = causes(scene(rollout=releasing(state, resolved)))[0]
    assert (first.kind, first.found, first.action.text) == ("traffic", "what the operator found", action)


def test_a_step_that_moves_requests_is_waited_for_whatever_the_message_says() -> None:
    resolved = {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "message": ""}
    first = causes(scene(rollout=releasing("StepTrafficRouting", resolved)))[0]
    assert (first.kind, first.action.text) == ("waiting", f"wait; if it stays so, {_LOOK}")


def releasing(state: str, *conditions: JsonObject) -> Rollout:
    status = {"phase": "Progressing", "currentStepIndex": 2, "currentStepState": state, "message": "does not exist"}
    document = {
        "metadata": {"name": "release"},
        "spec": {"strategy": {"canary": {"trafficRoutings": [{"service": "llm-leader"}]}}},
        "status": {**status, "conditions": list(conditions)},
    }
    return msgspec.convert(document, Rollout)


def test_a_route_that_no_gateway_serves_comes_before_the_step() -> None:
    words = "there is no Gateway default/public; create it"
    accepted = {"type": "Accepted", "status": "False", "reason": "NoMatchingParent", "message": words}
    route = {"metadata": {"name": "llm"}, "status": {"parents": [{"conditions": [accepted]}]}}
    document = {
        "metadata": {"name": "release"},
        "status": {"phase": "Progressing", "currentStepState": "StepPaused", "message": "manually"},
    }
    rollout = msgspec.convert(document, Rollout)
    found = causes(scene(rollout=rollout, routes=[route]))
    assert [(one.kind, one.objects[0]) for one in found] == [
        ("traffic", "HTTPRoute llm"),
        ("rollout", "Rollout release"),
    ]
    assert found[0].found == f"no gateway serves it: {words}"
    accepted["status"] = "True"
    assert [one.kind for one in causes(scene(rollout=rollout, routes=[route]))] == ["rollout"]


@pytest.mark.parametrize(
    ("state", "kind", "found_words", "action"),
    [
        ("StepTrafficRouting", "waiting", "step 1 moves its requests; routes get 7 s", "wait; if"),
        ("StepPaused", "rollout", "step 1 pauses, then goes on by itself", "kohort approve llm"),
        ("StepUpgrade", "rollout", "Rollout is in step(1/3)", "kohort abort llm"),
    ],
)
def test_a_step_that_only_takes_its_time(state: str, kind: str, found_words: str, action: str) -> None:
    message = "Rollout is in step(1/3)"
    routes = [{"service": "llm-leader", "gracePeriodSeconds": 7}]
    document = {
        "metadata": {"name": "release"},
        "spec": {"strategy": {"canary": {"steps": [{"pause": {"duration": 60}}], "trafficRoutings": routes}}},
        "status": {"phase": "Progressing", "currentStepIndex": 1, "currentStepState": state, "message": message},
    }
    stable = scene(rollout=msgspec.convert(document, Rollout), revisions=[revision(lws("llm"), 1, OLD)])
    status = msgspec.structs.replace(stable.group_set.status, stable_revision=OLD)
    subject = msgspec.structs.replace(stable.group_set, status=status)
    (found,) = causes(msgspec.structs.replace(stable, group_set=subject))
    assert (found.kind, action in found.action.text) == (kind, True)
    assert found.found.startswith(found_words)


@pytest.mark.parametrize(
    ("reason", "action"), [("Infeasible", "can never hold it"), ("Deferred", "wait until others on the node give back")]
)
def test_a_resize_that_waits(reason: str, action: str) -> None:
    pod = condition(member(0), "PodResizePending", reason, "Node didn't have enough capacity: cpu")
    first = causes(scene(pods=(pod, *REST)))[0]
    assert (first.kind, first.found) == ("resize", f"resize {reason.lower()}: Node didn't have enough capacity: cpu")
    assert action in first.action.text


def test_groups_held_by_the_partition() -> None:
    pods = (member(0, revision=OLD), member(0, 1, revision=OLD), member(1), member(1, 1))
    sets = [leader_set(2, 1), workers(0, revision=OLD), workers(1)]
    snapshot = scene(built=lws("llm").replicas(2).size(2).partition(1), pods=pods, stateful_sets=sets)
    assert causes(snapshot) == [
        Cause(
            CauseKind.ROLLOUT,
            ("group 0",),
            "partition 1 holds groups below it at their old revision",
            Advice("go on: {}", (Command(Verb.RESUME, "llm", "default"),)),
            note=True,
        )
    ]


@pytest.mark.parametrize(
    ("paused", "state", "message", "found", "action"),
    [
        (True, "StepPaused", "", "the rollout is paused", "kohort resume llm"),
        (False, "StepPaused", "you need manually confirm", "step 2 waits for approval", "kohort approve llm"),
        (False, "StepUpgrade", "waiting for pods", "waiting for pods", "wait"),
    ],
)
def test_steps_of_a_rollout(paused: bool, state: str, message: str, found: str, action: str) -> None:
    document = {
        "metadata": {"name": "release"},
        "spec": {"strategy": {"paused": paused, "canary": {"steps": [{"pause": {}}, {"pause": {}}]}}},
        "status": {"phase": "Progressing", "currentStepIndex": 2, "currentStepState": state, "message": message},
    }
    first = causes(scene(rollout=msgspec.convert(document, Rollout)))[0]
    assert (first.kind, first.objects, first.found) == ("rollout", ("Rollout release",), found)
    assert action in first.action.text


@pytest.mark.parametrize(
    ("style", "step", "waits"),
    [("canary", 1, True), ("canary", 2, False), ("blueGreen", 1, True), ("blueGreen", 2, True)],
)
def test_the_last_step_of_a_canary_does_not_wait_although_its_state_says_so_for_a_moment(
    style: str, step: int, waits: bool
) -> None:
    document = {
        "metadata": {"name": "release"},
        "spec": {"strategy": {style: {"steps": [{"replicas": 1, "pause": {}}, {"replicas": "100%"}]}}},
        "status": {"phase": "Progressing", "currentStepIndex": step, "currentStepState": "StepPaused"},
    }
    snapshot = scene(rollout=msgspec.convert(document, Rollout))
    assert is_at_pause(snapshot) == waits
    assert any("kohort approve" in one.action.text for one in causes(snapshot)) == waits


def test_workers_that_wait_for_their_leader() -> None:
    built = lws("llm").replicas(1).size(2).startup("LeaderReady")
    snapshot = scene(1, built=built, pods=(member(0, ready=False),), stateful_sets=[leader_set(1)])
    assert [cause.kind for cause in causes(snapshot)] == ["probe"]


def test_exclusive_placement_names_its_label() -> None:
    label = "example.com/rack"
    snapshot = scene(
        pods=(without_node(member(0), "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."), *REST)
    )
    exclusive = group_set(lws("llm").replicas(2).size(2).exclusive(label))
    marked: Snapshot = msgspec.structs.replace(snapshot, group_set=exclusive)
    assert label in causes(marked)[0].action.text
    assert "want fewer groups" in causes(marked)[0].action.text


def test_other_sets_that_occupy_exclusive_domains_are_named() -> None:
    message = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    labels = {group_labels.NAME: "other", group_labels.GROUP_KEY: "k"}
    others = [pod(f"other-{zone}").labels(labels).on(f"node-{zone}").as_view(Pod) for zone in "ab"]
    nodes = [msgspec.convert({"metadata": {"name": f"node-{zone}", "labels": {"zone": zone}}}, Node) for zone in "abc"]
    taken = domains_of_others("llm", "zone", [*others, member(0)], nodes)
    assert taken == {"a": ("other",), "b": ("other",)}
    exclusive = group_set(lws("llm").replicas(2).size(2).exclusive("zone"))
    found = causes(scene(pods=(without_node(member(0), message), *REST), group_set=exclusive, domains_of_others=taken))
    assert "and a, b are taken by pods of other" in found[0].action.text


def test_a_node_that_does_not_answer_a_resize_is_named() -> None:
    def resized(index: int, worker: int) -> Pod:
        one = member(index, worker, revision=OLD, observedGeneration=1)
        record = write_record(ResizeRecord(KEY, Phase.RESIZING, 0.0))
        notes = (
            {**one.metadata.annotations, group_labels.GROUP_RESIZE: record} if worker == 0 else one.metadata.annotations
        )
        return replace(one, metadata=replace(one.metadata, annotations=notes, generation=2 if worker else 1))

    pods = [resized(0, 0), resized(0, 1), member(1), member(1, 1)]
    found = causes(scene(pods=pods, stateful_sets=[leader_set(2), workers(0, revision=OLD), workers(1)]))
    assert [(one.kind, one.objects) for one in found] == [(CauseKind.RESIZE, ("llm-0-1",))]
    assert found[0].found == (
        "its node node-0 has not answered yet; the resize of its group began at 1970-01-01T00:00:00Z"
    )


def test_a_silent_node_is_named_instead_of_the_probes_of_its_pods() -> None:
    since = "2026-01-01T00:00:00Z"
    pods = [member(0, ready=False), member(0, 1, ready=False), member(1), member(1, 1)]
    found = causes(scene(pods=pods, silent_nodes={"node-0": since}))
    assert [(one.kind, one.objects) for one in found] == [(CauseKind.NODE, ("llm-0", "llm-0-1"))]
    assert found[0].found == f"its node node-0 has not been ready since {since}"
    assert "kubectl taint node node-0 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in found[0].action.text
    assert "restartBudget.forceDeleteOnNodeLoss" in found[0].action.text


# PodDisruptionBudgets of users


def budgets_noted(*found: JsonObject) -> list[Cause]:
    built = lws("llm").replicas(2).size(2).but("spec.disruptionBudget", {"maxUnavailable": 1})
    budgets = [msgspec.convert({"spec": {"selector": {}}, **one}, PodDisruptionBudget) for one in found]
    return causes(scene(2, built=built, disruption_budgets=budgets))


def test_a_budget_of_the_name_of_the_set_is_noted() -> None:
    (found,) = budgets_noted({"metadata": {"name": "llm", "namespace": "default"}})
    assert (found.kind, found.objects, found.note) == (CauseKind.REFUSED, ("PodDisruptionBudget llm",), True)
    assert "does not belong to this set" in found.found


def test_a_second_budget_of_leaders_is_noted() -> None:
    owner = group_set(lws("llm")).owner_reference()
    own = {"metadata": {"name": "llm", "namespace": "default", "ownerReferences": [owner]}}
    assert budgets_noted(own) == []
    (found,) = budgets_noted(own, {"metadata": {"name": "all", "namespace": "default"}})
    assert (found.objects, found.note) == (("llm-0", "llm-1"), True)
    assert found.found.startswith("PodDisruptionBudgets llm and all select it")
