"""Pods leave a Service one by one, and it is as before when they are gone."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import JsonObject
from kohort.rollouts.traffic.model import Selectors
from kohort.rollouts.traffic.services import plan_unpin, unpinned_selector
from kohort.rollouts.traffic.withdrawal import ReturnPlan, plan_return, plan_withdrawal, withdrawn_pods
from kohort.rules.rollout_labels import SERVES, WITHDRAWN_PODS

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def service(selector: dict[str, str] | None = None, record: str = "") -> JsonObject:
    annotations = {WITHDRAWN_PODS: record} if record else {}
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
    plan = plan_withdrawal(service(), [pod("a"), pod("b"), pod("c")], {"c"}, NOW)
    assert (plan.label, plan.unlabel) == (("a", "b"), ())
    assert plan.record.pods == ("c",)
    narrowed = applied(service(), plan.service)
    assert narrowed["spec"]["selector"] == {"app": "llm", SERVES: "true"}
    assert withdrawn_pods(narrowed) == plan.record
    assert unpinned_selector(narrowed) == {"app": "llm"}
    later = NOW + timedelta(seconds=30)
    again = plan_withdrawal(narrowed, [pod("a", marked=True), pod("b", marked=True), pod("c")], {"c"}, later)
    assert (again.label, again.unlabel, again.service, again.record) == ((), (), None, plan.record)


def test_more_pods_that_leave_have_their_own_time() -> None:
    first = plan_withdrawal(service(), [pod("a"), pod("b"), pod("c")], {"c"}, NOW)
    narrowed = applied(service(), first.service)
    marked = [pod("a", marked=True), pod("b", marked=True), pod("c")]
    plan = plan_withdrawal(narrowed, marked, {"b", "c"}, NOW + timedelta(seconds=30))
    assert plan.unlabel == ("b",)
    assert plan.record.pods == ("b", "c")
    assert plan.record.since > NOW.isoformat()


def test_a_record_that_cannot_be_read_is_written_anew() -> None:
    plan = plan_withdrawal(service(record="{"), [pod("a")], {"a"}, NOW)
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
    plan = plan_withdrawal(service(), [pod("a"), pod("b")], {"b"}, NOW)
    selecting_all = applied(
        applied(service(), plan.service), plan_return(applied(service(), plan.service), ()).selector
    )
    rest = plan_return(selecting_all, [pod("a", marked=True), pod("b")])
    assert (rest.selector, rest.unlabel) == (None, ("a",))
    assert applied(selecting_all, rest.annotation) == service()


def test_pods_that_the_service_selected_again_leave_at_another_time() -> None:
    plan = plan_withdrawal(service(), [pod("a"), pod("b")], {"b"}, NOW)
    selecting_all = applied(applied(service(), plan.service), {"spec": {"selector": {SERVES: None}}})
    later = NOW + timedelta(seconds=30)
    again = plan_withdrawal(selecting_all, [pod("a", marked=True), pod("b")], {"b"}, later)
    assert again.service is not None and again.record.since == later.isoformat()


@given(
    st.sets(st.sampled_from("abcdef"), min_size=1),
    st.sets(st.sampled_from("abcdef")),
    st.sets(st.sampled_from("abcdef")),
)
def test_the_service_is_as_before_in_the_end(names: set[str], leaving: set[str], marked: set[str]) -> None:
    pods = [pod(name, marked=name in marked) for name in sorted(names)]
    plan = plan_withdrawal(service(), pods, leaving, NOW)
    labelled = (names & marked | set(plan.label)) - set(plan.unlabel)
    assert labelled == names - leaving
    narrowed = applied(service(), plan.service)
    back = plan_return(narrowed, [pod(name, marked=name in labelled) for name in names])
    assert applied(applied(narrowed, back.selector), back.annotation) == service()
    assert set(back.unlabel) == labelled
