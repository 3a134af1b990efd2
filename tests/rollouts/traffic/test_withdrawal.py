"""Pods leave a Service one by one, and it is as before when they are gone."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import JsonObject
from kohort.rollouts.traffic.model import Selectors
from kohort.rollouts.traffic.services import plan_unpin, unpinned_selector
from kohort.rollouts.traffic.withdrawal import (
    ReturnPlan,
    WithdrawnPod,
    WithdrawnPods,
    plan_return,
    plan_withdrawal,
    withdrawn_pods,
)
from kohort.rules.rollout_labels import SERVES, WITHDRAWN_PODS

NOW = datetime(2026, 1, 1, tzinfo=UTC)

WEB, OTHER = "Deployment/web", "StatefulSet/web"


def record(**pods: tuple[str, datetime]) -> WithdrawnPods:
    return WithdrawnPods({uid: WithdrawnPod(owner, since.isoformat()) for uid, (owner, since) in pods.items()})


def service(selector: dict[str, str] | None = None, noted: str = "") -> JsonObject:
    annotations = {WITHDRAWN_PODS: noted} if noted else {}
    metadata = {"name": "llm", "namespace": "default", "resourceVersion": "1", "annotations": annotations}
    return {"metadata": metadata, "spec": {"selector": selector or {"app": "llm"}}}


def pod(name: str, *, marked: bool = False) -> JsonObject:
    return {"metadata": {"name": name, "uid": name, "labels": {"app": "llm"} | ({SERVES: "true"} if marked else {})}}


def applied(found: JsonObject, patch: JsonObject | None) -> JsonObject:
    """A merge patch, as far as it is needed here."""
    result: JsonObject = msgspec.json.decode(msgspec.json.encode(found))
    for part, field in (("metadata", "annotations"), ("spec", "selector")):
        for key, value in ((patch or {}).get(part) or {}).get(field, {}).items():
            result[part][field] = {name: one for name, one in result[part][field].items() if name != key}
            if value is not None:
                result[part][field][key] = value
    return result


def test_those_that_stay_are_marked_before_the_selector_asks_for_it() -> None:
    plan = plan_withdrawal(service(), [pod("a"), pod("b"), pod("c")], WEB, {"c"}, NOW)
    assert (plan.label, plan.unlabel) == (("a", "b"), ())
    assert plan.record == record(c=(WEB, NOW))
    narrowed = applied(service(), plan.service)
    assert narrowed["spec"]["selector"] == {"app": "llm", SERVES: "true"}
    assert withdrawn_pods(narrowed) == plan.record
    assert unpinned_selector(narrowed) == {"app": "llm"}
    later = NOW + timedelta(seconds=30)
    again = plan_withdrawal(narrowed, [pod("a", marked=True), pod("b", marked=True), pod("c")], WEB, {"c"}, later)
    assert (again.label, again.unlabel, again.service, again.record) == ((), (), None, plan.record)


def test_more_pods_that_leave_have_their_own_time() -> None:
    first = plan_withdrawal(service(), [pod("a"), pod("b"), pod("c")], WEB, {"c"}, NOW)
    narrowed = applied(service(), first.service)
    marked = [pod("a", marked=True), pod("b", marked=True), pod("c")]
    later = NOW + timedelta(seconds=30)
    plan = plan_withdrawal(narrowed, marked, WEB, {"b", "c"}, later)
    assert plan.unlabel == ("b",)
    assert plan.record == record(b=(WEB, later), c=(WEB, NOW))


def test_pods_of_other_workloads_stay_out_as_long_as_they_live() -> None:
    first = plan_withdrawal(service(), [pod("a"), pod("b"), pod("c")], WEB, {"c"}, NOW)
    marked = [pod("a", marked=True), pod("b", marked=True), pod("c")]
    both = applied(service(), first.service)
    later = NOW + timedelta(seconds=30)
    second = plan_withdrawal(both, marked, OTHER, {"b"}, later)
    assert (second.label, second.unlabel) == ((), ("b",))
    assert second.record == record(b=(OTHER, later), c=(WEB, NOW))
    both = applied(both, second.service)
    back = plan_withdrawal(both, [pod("a", marked=True), pod("b"), pod("c")], OTHER, (), later)
    assert (back.label, back.unlabel, back.record) == (("b",), (), first.record)
    gone = plan_withdrawal(both, [pod("a", marked=True), pod("b")], OTHER, (), later)
    assert gone.record == record(), "a pod that is gone keeps no Service as it is"


def test_a_pod_that_got_the_label_again_leaves_at_another_time() -> None:
    """Also one of another workload, and also after the clock was set back."""
    first = plan_withdrawal(service(), [pod("a"), pod("b")], WEB, {"b"}, NOW)
    narrowed = applied(service(), first.service)
    later = NOW + timedelta(seconds=30)
    again = plan_withdrawal(narrowed, [pod("a", marked=True), pod("b", marked=True)], OTHER, (), later)
    assert (again.unlabel, again.record) == (("b",), record(b=(WEB, later)))
    earlier = NOW - timedelta(hours=1)
    assert plan_withdrawal(narrowed, [pod("b")], WEB, {"b"}, earlier).record == record(b=(WEB, earlier))


def test_a_record_that_cannot_be_read_is_written_anew() -> None:
    plan = plan_withdrawal(service(noted="{"), [pod("a")], WEB, {"a"}, NOW)
    assert plan.service is not None


def test_the_end_of_a_release_does_not_give_requests_to_pods_that_leave() -> None:
    pinned = service({"app": "llm", "hash": "1", SERVES: "true"})
    (write,) = plan_unpin(pinned, Selectors("hash", "1", "2")).writes
    assert write.body["spec"] == {"selector": {"hash": None}}


@pytest.mark.parametrize("found", [service(), service({"app": "llm", "other": "x"})])
def test_nothing_is_put_back_where_nothing_was_changed(found: JsonObject) -> None:
    assert plan_return(found, [pod("a")]) == ReturnPlan()


def test_labels_are_removed_as_long_as_the_annotation_is_there() -> None:
    """An operator that died in between finds pods with the label, and a Service that asks for none."""
    plan = plan_withdrawal(service(), [pod("a"), pod("b")], WEB, {"b"}, NOW)
    selecting_all = applied(
        applied(service(), plan.service), plan_return(applied(service(), plan.service), ()).selector
    )
    rest = plan_return(selecting_all, [pod("a", marked=True), pod("b")])
    assert (rest.selector, rest.unlabel) == (None, ("a",))
    assert applied(selecting_all, rest.annotation) == service()


def test_pods_that_the_service_selected_again_leave_at_another_time() -> None:
    plan = plan_withdrawal(service(), [pod("a"), pod("b")], WEB, {"b"}, NOW)
    selecting_all = applied(applied(service(), plan.service), {"spec": {"selector": {SERVES: None}}})
    later = NOW + timedelta(seconds=30)
    again = plan_withdrawal(selecting_all, [pod("a", marked=True), pod("b")], WEB, {"b"}, later)
    assert again.service is not None and again.record == record(b=(WEB, later))


@given(
    st.sets(st.sampled_from("abcdef"), min_size=1),
    st.sets(st.sampled_from("abcdef")),
    st.sets(st.sampled_from("abcdef")),
)
def test_the_service_is_as_before_in_the_end(names: set[str], leaving: set[str], marked: set[str]) -> None:
    pods = [pod(name, marked=name in marked) for name in sorted(names)]
    plan = plan_withdrawal(service(), pods, WEB, leaving, NOW)
    labelled = (names & marked | set(plan.label)) - set(plan.unlabel)
    assert labelled == names - leaving
    narrowed = applied(service(), plan.service)
    back = plan_return(narrowed, [pod(name, marked=name in labelled) for name in names])
    assert applied(applied(narrowed, back.selector), back.annotation) == service()
    assert set(back.unlabel) == labelled
