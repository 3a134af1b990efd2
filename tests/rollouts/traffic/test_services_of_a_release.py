"""The canary Service and the pin of the stable one, as values."""

import pytest
from tests.builders import service

from kohort.kube.resources import INGRESSES
from kohort.objects.json_types import JsonObject
from kohort.rollouts.messages import EventReason
from kohort.rollouts.traffic import services
from kohort.rollouts.traffic.model import RouteRef, Selectors, TrafficRequest
from kohort.rollouts.traffic.pending_writes import NOTHING_TO_DO, TrafficNotReady, TrafficPlan, TrafficProblem, Write
from kohort.rules.rollout_labels import ROUTED_BY

REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
SET = "leaderworkerset.sigs.k8s.io/name"
OWNER = {"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "name": "r", "uid": "u1", "controller": True}
REF = RouteRef(service="llm")
GROUPS = Selectors(REVISION, "v1", "v2", {WORKER: "0", SET: "llm-x7k2p"})


def request(selectors: Selectors = GROUPS) -> TrafficRequest:
    return TrafficRequest("default", OWNER, (REF,), selectors=selectors)


def stable() -> JsonObject:
    return service("llm").version(7).uid("s").selecting(app="llm").port(80, target=8000)


def test_the_canary_service_selects_leaders_of_the_canary_set_at_the_new_revision() -> None:
    selector = services.canary_selector({"app": "llm", SET: "llm"}, GROUPS)
    assert selector == {"app": "llm", REVISION: "v2", WORKER: "0", SET: "llm-x7k2p"}


def test_patched_labels_replace_keys_of_the_selector_and_add_none() -> None:
    patched = Selectors("pod-template-hash", "v1", "v2", patched={"app": "llm-new", "tier": "gray"})
    assert services.canary_selector({"app": "llm"}, patched) == {"app": "llm-new", "pod-template-hash": "v2"}


def test_patched_labels_never_widen_a_selection_to_workers() -> None:
    patched = Selectors(REVISION, "v1", "v2", {WORKER: "0"}, {WORKER: "1"})
    assert services.canary_selector({WORKER: "0"}, patched)[WORKER] == "0"


def test_w15_the_canary_service_is_a_copy_without_what_only_one_service_can_have() -> None:
    given = (
        service("llm").version(1).labels(team="a").annotations({"note": "x", "rollouts.kruise.io/added-selector": "{}"})
    )
    given = given.selecting(app="llm").but("spec.ports", [{"port": 80, "nodePort": 30080, "targetPort": 8000}])
    for field, value in {
        "type": "LoadBalancer",
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "externalIPs": ["1.2.3.4"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "loadBalancerIP": "1.2.3.4",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30001,
        "allocateLoadBalancerNodePorts": True,
        "sessionAffinity": "ClientIP",
    }.items():
        given = given.but(f"spec.{field}", value)
    copy = services.canary_service(given, "llm-canary", request())
    assert copy["metadata"]["labels"] == {"team": "a", ROUTED_BY: OWNER["uid"]}
    assert copy["metadata"]["annotations"] == {"note": "x"}
    assert copy["metadata"]["ownerReferences"] == [OWNER]
    assert copy["spec"] == {
        "type": "ClusterIP",
        "sessionAffinity": "ClientIP",
        "ports": [{"port": 80, "targetPort": 8000}],
        "selector": {"app": "llm", REVISION: "v2", WORKER: "0", SET: "llm-x7k2p"},
    }


def test_row_51_a_node_port_service_stays_one() -> None:
    copy = services.canary_service(stable().but("spec.type", "NodePort"), "llm-canary", request())  # type: ignore[attr-defined]
    assert copy["spec"]["type"] == "NodePort"


def test_a_recreated_canary_moves_the_selector_and_nothing_else() -> None:
    existing = services.canary_service(stable(), "llm-canary", request())
    assert services.plan_canary(stable(), existing, REF, request()).writes == ()
    third = Selectors(REVISION, "v1", "v3", {WORKER: "0", SET: "llm-zzzzz"})
    (write,) = services.plan_canary(stable(), existing, REF, request(third)).writes
    assert write.verb == "patch"
    assert write.body == {"spec": {"selector": {REVISION: "v3", SET: "llm-zzzzz"}}}


def test_a_foreign_service_is_neither_changed_nor_deleted() -> None:
    foreign = service("llm-canary").uid("f").version(1).selecting(app="other")
    with pytest.raises(TrafficProblem, match=r"Service default/llm-canary exists already.*delete or rename"):
        services.plan_canary(stable(), foreign, REF, request())
    assert services.plan_removal(foreign, request()).writes == ()


def test_a_canary_service_that_is_going_is_waited_for() -> None:
    going = service("llm-canary").uid("f").deleting()
    with pytest.raises(TrafficNotReady):
        services.plan_canary(stable(), going, REF, request())
    assert services.plan_removal(going, request()).writes == ()


# The pin


def pinned(given: JsonObject, selectors: Selectors = GROUPS) -> JsonObject:
    """The Service after the planned patch."""
    (write,) = services.plan_pin(given, request(selectors)).writes
    return _patched(given, write.body)


def unpinned(given: JsonObject, selectors: Selectors = GROUPS) -> JsonObject:
    (write,) = services.plan_unpin(given, selectors).writes
    return _patched(given, write.body)


def _patched(given: JsonObject, patch: JsonObject) -> JsonObject:
    from kohort.cluster.apiserver.patch import merge

    return merge.apply(given, patch)


@pytest.mark.parametrize("selector", [{"app": "llm"}, {"app": "llm", REVISION: "old"}, {"app": "llm", WORKER: "0"}])
def test_w03_the_pin_comes_off_without_a_trace_even_when_the_workload_is_gone(selector: dict[str, str]) -> None:
    given = service("llm").version(7).annotations(mine="x").selecting(selector)
    on = pinned(given)
    assert on["spec"]["selector"] == {**selector, REVISION: "v1"}
    assert services.plan_pin(on, request()).writes == ()
    off = unpinned(on, Selectors(""))
    assert off["spec"]["selector"] == selector
    assert off["metadata"]["annotations"] == {"mine": "x"}
    assert services.plan_unpin(off, GROUPS).writes == ()


def test_a_pin_follows_the_stable_revision_and_still_knows_the_original() -> None:
    on = pinned(pinned(stable()), Selectors(REVISION, "v2", "v3"))
    assert on["spec"]["selector"] == {"app": "llm", REVISION: "v2"}
    assert unpinned(on)["spec"]["selector"] == {"app": "llm"}


def test_a_pin_whose_note_was_lost_comes_off_if_it_has_our_revision() -> None:
    bare = service("llm").version(7).selecting({"app": "llm", REVISION: "v1"})
    assert unpinned(bare)["spec"]["selector"] == {"app": "llm"}
    assert services.plan_unpin(bare, Selectors(REVISION, "v9")).writes == ()


def test_the_canary_copies_the_selector_of_the_user_not_the_pin() -> None:
    copy = services.canary_service(pinned(stable()), "llm-canary", request(Selectors("other-key", "v1", "v2")))
    assert copy["spec"]["selector"] == {"app": "llm", "other-key": "v2"}


# Whether a Service can be used


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, r"Service default/llm .*does not exist; create it"),
        (service("llm").selecting(app="x").headless(), "headless"),
        (service("llm"), r"no spec\.selector"),
        (service("llm").selecting(app="x").but("spec.type", "ExternalName"), r"no spec\.selector"),
        (
            service("llm")
            .selecting(app="x")
            .owned_by({"apiVersion": "v1", "kind": "LeaderWorkerSet", "metadata": {"name": "llm"}}),
            "belongs to LeaderWorkerSet llm",
        ),
    ],
)
def test_services_that_cannot_be_used_are_refused_in_words(given: JsonObject | None, words: str) -> None:
    with pytest.raises(TrafficProblem, match=words):
        services.check_service(given, REF, TrafficRequest("default", {}, (REF,)))


def member(index: str, *ports: JsonObject) -> JsonObject:
    from tests.builders import container, pod

    return pod().labels({WORKER: index, SET: "llm"}).containers(container(ports=list(ports)))


@pytest.mark.parametrize(
    ("pods", "reasons"),
    [
        ([], []),
        ([member("0")], []),
        ([member("0"), member("1")], ["ServiceSelectsWorkers"]),
        ([member("0", {"containerPort": 8000})], []),
        ([member("0", {"containerPort": 9000})], ["LeaderPortMissing"]),
    ],
)
def test_what_leaders_say_about_their_service(pods: list[JsonObject], reasons: list[str]) -> None:
    assert [event.reason for event in services.check_leaders(stable(), pods)] == reasons


def test_a_named_port_that_leaders_lack_is_reported() -> None:
    named = service("llm").selecting(app="x").port(80, target="http")
    (event,) = services.check_leaders(named, [member("0", {"name": "grpc", "containerPort": 8000})])
    assert (event.reason, event.warning) == ("LeaderPortMissing", True)


def test_a_service_of_workers_only_is_refused() -> None:
    with pytest.raises(TrafficProblem, match="service llm selects no leader pod of LeaderWorkerSet llm"):
        services.check_leaders(stable(), [member("1"), member("2")])


def test_a_service_is_never_pinned_to_a_key_that_both_versions_have() -> None:
    with pytest.raises(TrafficProblem, match="same revision key v1"):
        services.plan_pin(stable(), request(Selectors(REVISION, "v1", "v1")))


@pytest.mark.parametrize(
    ("stable_is", "new_is", "waits_for"), [("", "", "stable"), ("", "v2", "stable"), ("v1", "", "new")]
)
def test_services_wait_until_both_revisions_are_known(stable_is: str, new_is: str, waits_for: str) -> None:
    with pytest.raises(TrafficNotReady, match=f"waiting for the {waits_for} revision to be known"):
        services.check_revisions(Selectors(REVISION, stable_is, new_is))
    services.check_revisions(GROUPS)


def test_no_requests_are_moved_to_a_service_without_a_ready_endpoint() -> None:
    plan = TrafficPlan((Write("patch", INGRESSES, "default", "llm-canary", "set Ingress llm-canary"),))
    with pytest.raises(TrafficNotReady, match="Service llm-canary has no ready endpoint yet; traffic is not moved"):
        services.without_endpoint(plan, "llm-canary")


def test_requests_that_go_to_a_service_without_a_ready_endpoint_are_reported() -> None:
    (event,) = services.without_endpoint(NOTHING_TO_DO, "llm-canary").events
    assert event.reason == EventReason.CANARY_UNAVAILABLE
