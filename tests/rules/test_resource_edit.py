"""Whether an edit of templates can be carried out on running pods."""

import copy
from cProfile import Profile

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.stored_templates import with_pod_defaults
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.pods import PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources import qos_class
from kohort.rules.resource_edit import (
    POD,
    AmountField,
    InPlaceEdit,
    RecreateEdit,
    RecreateReason,
    classify_revision_edit,
    classify_template_edit,
    stated_amounts,
    without_amounts,
)


def template(*, size: int = 2, leader: JsonObject | None = None, **worker: Json) -> JsonObject:
    found: JsonObject = {"size": size, "workerTemplate": {"spec": spec(**worker)}}
    return found if leader is None else {**found, "leaderTemplate": {"spec": leader}}


def spec(
    requests: JsonObject | None = None,
    limits: JsonObject | None = None,
    image: str = "model",
    pod: JsonObject | None = None,
    init: list[JsonObject] | None = None,
) -> JsonObject:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    found: JsonObject = {"containers": [{"name": "main", "image": image, "resources": resources}]}
    if pod is not None:
        found["resources"] = pod
    if init is not None:
        found["initContainers"] = init
    return found


def amount(container: str, side: str, resource: str) -> AmountField:
    return AmountField(container, side, resource)  # type: ignore[arg-type]


def test_other_amounts_of_a_container_are_an_edit_in_place() -> None:
    found = classify_template_edit(template(requests={"cpu": "1"}), template(requests={"cpu": "2"}))
    assert isinstance(found, InPlaceEdit)
    field = amount("main", "requests", "cpu")
    assert found.worker.changed_fields == [field]
    assert (found.worker.before[field], found.worker.after[field]) == (Quantity.parse("1"), Quantity.parse("2"))
    assert found.leader == found.worker


@pytest.mark.parametrize("bad", ["1e1000000", "1e99999999999", "1e1.5"])
def test_an_amount_that_cannot_be_computed_is_no_error(bad: str) -> None:
    strange, usual = template(requests={"cpu": bad}), template(requests={"cpu": "1"})
    classify_template_edit(strange, usual)
    classify_template_edit(usual, strange)
    assert isinstance(classify_template_edit(strange, template(requests={"cpu": bad}, image="b")), RecreateEdit)


def test_leaders_have_a_template_of_their_own() -> None:
    before = template(requests={"cpu": "1"}, leader=spec(requests={"cpu": "1"}))
    after = template(requests={"cpu": "1"}, leader=spec(requests={"cpu": "4"}))
    found = classify_template_edit(before, after)
    assert isinstance(found, InPlaceEdit)
    assert found.of("worker").changed_fields == []
    assert found.of("leader").changed_fields == [amount("main", "requests", "cpu")]


def test_a_limit_without_a_request_counts_as_both() -> None:
    found = stated_amounts(spec(limits={"cpu": "2"}))
    assert found == {
        amount("main", "limits", "cpu"): Quantity.parse("2"),
        amount("main", "requests", "cpu"): Quantity.parse("2"),
    }


def test_accelerators_and_ordinary_init_containers_are_not_stated() -> None:
    init = [{"name": "load", "resources": {"requests": {"cpu": "1"}}}]
    assert stated_amounts(spec(limits={"nvidia.com/gpu": "8"}, init=init)) == {}


def test_sidecars_and_the_pod_as_a_whole_are_stated() -> None:
    init = [{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]
    found = stated_amounts(spec(pod={"limits": {"memory": "1Gi"}}, init=init))
    assert set(found) == {amount("proxy", "requests", "cpu"), amount(POD, "limits", "memory")}
    assert amount(POD, "limits", "memory").path == "spec.resources.limits.memory"


GUARANTEED = {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (template(image="a"), template(image="b"), RecreateReason.OTHER_FIELDS),
        (template(size=2), template(size=3), RecreateReason.OTHER_FIELDS),
        (
            template(limits={"nvidia.com/gpu": "1"}),
            template(limits={"nvidia.com/gpu": "2"}),
            RecreateReason.OTHER_FIELDS,
        ),
        (
            template(requests={"cpu": "1"}, limits={"cpu": "2"}),
            template(requests={"cpu": "1"}),
            RecreateReason.AMOUNT_REMOVED,
        ),
        (
            template(init=[{"name": "load", "resources": {"requests": {"cpu": "1"}}}]),
            template(init=[{"name": "load", "resources": {"requests": {"cpu": "2"}}}]),
            RecreateReason.INIT_CONTAINER,
        ),
        (
            template(requests={"cpu": "1", "memory": "1Gi"}),
            template(requests=GUARANTEED, limits=GUARANTEED),
            RecreateReason.QOS_CHANGED,
        ),
        (template(), template(requests={"cpu": "1"}), RecreateReason.QOS_CHANGED),
        (
            template(requests=GUARANTEED, limits=GUARANTEED),
            template(requests=GUARANTEED, limits=GUARANTEED, pod={"requests": GUARANTEED}),
            RecreateReason.QOS_CHANGED,
        ),
    ],
)
def test_pods_must_be_made_anew(before: JsonObject, after: JsonObject, reason: RecreateReason) -> None:
    found = classify_template_edit(before, after)
    assert isinstance(found, RecreateEdit)
    assert found.reason is reason


def test_a_running_pod_gets_amounts_as_a_whole_that_keep_its_class() -> None:
    before = template(requests=GUARANTEED, limits=GUARANTEED)
    after = template(requests=GUARANTEED, limits=GUARANTEED, pod={"requests": GUARANTEED, "limits": GUARANTEED})
    assert isinstance(classify_template_edit(before, after), InPlaceEdit)


def test_amounts_are_compared_by_value() -> None:
    found = classify_template_edit(template(requests={"cpu": "1000m"}), template(requests={"cpu": "1"}))
    assert isinstance(found, InPlaceEdit)
    assert found.worker.changed_fields == []


def test_the_way_back_is_the_change_reversed() -> None:
    found = classify_template_edit(template(requests={"cpu": "1"}), template(requests={"cpu": "2"}))
    back = classify_template_edit(template(requests={"cpu": "2"}), template(requests={"cpu": "1"}))
    assert isinstance(found, InPlaceEdit) and isinstance(back, InPlaceEdit)
    assert found.worker.reversed == back.worker


quantities = st.sampled_from(["100m", "1", "2", "1Gi", "2Gi"])
blocks = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), quantities, max_size=3)
templates = st.builds(
    lambda requests, limits, whole, image: template(requests=requests, limits=limits, image=image, pod=whole),
    blocks,
    blocks,
    st.none() | st.fixed_dictionaries({"requests": blocks}),
    st.sampled_from(["a", "b"]),
)


@given(templates, templates)
def test_an_edit_in_place_changes_nothing_but_cpu_and_memory(before: JsonObject, after: JsonObject) -> None:
    untouched = copy.deepcopy((before, after))
    found = classify_template_edit(before, after)
    assert (before, after) == untouched
    if not isinstance(found, InPlaceEdit):
        return
    for side in ("requests", "limits"):
        old, new = (
            one["workerTemplate"]["spec"]["containers"][0]["resources"].get(side, {}) for one in (before, after)
        )
        assert old.get("nvidia.com/gpu") == new.get("nvidia.com/gpu")
        assert set(old) <= set(new) | {"cpu", "memory"}
    assert set(found.worker.before) <= set(found.worker.after)
    images = [one["workerTemplate"]["spec"]["containers"][0]["image"] for one in (before, after)]
    assert images[0] == images[1]


@given(templates)
def test_a_template_does_not_differ_from_itself(one: JsonObject) -> None:
    found = classify_template_edit(one, copy.deepcopy(one))
    assert isinstance(found, InPlaceEdit)
    assert found.leader.changed_fields == found.worker.changed_fields == []


def test_a_pod_as_a_whole_requests_what_its_containers_do_unless_it_says_otherwise() -> None:
    """Its limits alone do not make it Guaranteed, so stating requests equal to them changes its class."""
    limits = {"cpu": "2", "memory": "1Gi"}
    before = template(requests={"cpu": "1", "memory": "1Gi"}, pod={"limits": limits})
    after = template(requests={"cpu": "1", "memory": "1Gi"}, pod={"requests": limits, "limits": limits})
    found = classify_template_edit(before, after)
    assert isinstance(found, RecreateEdit)
    assert found.qos_classes == ("Burstable", "Guaranteed")


amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities)
requirements = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})


def with_sidecar(main: JsonObject, sidecar: JsonObject, whole: JsonObject | None) -> JsonObject:
    init = [{"name": "proxy", "image": "proxy", "restartPolicy": "Always", "resources": sidecar}]
    return template(requests=main.get("requests"), limits=main.get("limits"), pod=whole, init=init)


with_sidecars = st.builds(with_sidecar, requirements, requirements, st.none() | requirements)


@given(with_sidecars, with_sidecars)
def test_the_class_is_that_of_the_pod_as_the_api_server_stores_it(before: JsonObject, after: JsonObject) -> None:
    found = classify_template_edit(before, after)
    stored = [with_pod_defaults(LeaderWorkerSet(spec={"leaderWorkerTemplate": one})) for one in (before, after)]
    classes = [qos_class(msgspec.convert(one.template.worker["spec"], PodSpec)) for one in stored]
    if isinstance(found, InPlaceEdit):
        assert classes[0] == classes[1]
    elif found.reason is RecreateReason.QOS_CHANGED and classes[0] != classes[1]:
        assert list(found.qos_classes or ()) == classes
    elif found.reason is RecreateReason.QOS_CHANGED:
        assert classes == ["Guaranteed", "Guaranteed"], "of new pods; running ones get no limits filled in"


# Revisions: the template and the network


def revision(network: JsonObject | None = None, **worker: Json) -> JsonObject:
    found: JsonObject = {"leaderWorkerTemplate": {**template(**worker), "$patch": "replace"}}
    return found if network is None else {**found, "networkConfig": {**network, "$patch": "replace"}}


def test_revisions_that_differ_in_amounts_alone_are_an_edit_in_place() -> None:
    found = classify_revision_edit(revision(requests={"cpu": "1"}), revision(requests={"cpu": "2"}))
    assert isinstance(found, InPlaceEdit)
    assert found.of("leader") == found.leader and found.of("worker") == found.worker


def test_another_network_needs_new_pods() -> None:
    found = classify_revision_edit(
        revision({"subdomainPolicy": "Shared"}), revision({"subdomainPolicy": "UniquePerReplica"})
    )
    assert found == RecreateEdit(RecreateReason.OTHER_FIELDS, changes_amounts=False)


def test_no_network_is_the_default_one() -> None:
    found = classify_revision_edit(revision(), revision({"subdomainPolicy": "Shared"}))
    assert isinstance(found, InPlaceEdit)


def test_whether_a_revision_carries_the_directive_does_not_matter() -> None:
    bare = {"leaderWorkerTemplate": template(requests={"cpu": "1"})}
    assert isinstance(classify_revision_edit(bare, revision(requests={"cpu": "1"})), InPlaceEdit)


# What stands in the way is named


def test_the_role_and_the_amount_that_was_taken_away_are_named() -> None:
    leader = spec(requests={"cpu": "1", "memory": "1Gi"})
    less = spec(requests={"cpu": "1"})
    found = classify_template_edit(template(leader=leader), template(leader=less))
    assert found == RecreateEdit(RecreateReason.AMOUNT_REMOVED, "leader", amount("main", "requests", "memory"))


def test_an_init_container_that_has_ended_cannot_be_resized() -> None:
    def with_init(cpu: str) -> JsonObject:
        init = [{"name": "load", "image": "model", "resources": {"requests": {"cpu": cpu}}}]
        return template(requests={"cpu": "1"}, init=init)

    found = classify_template_edit(with_init("1"), with_init("2"))
    assert isinstance(found, RecreateEdit)
    assert (found.reason, found.field) == (RecreateReason.INIT_CONTAINER, amount("load", "requests", "cpu"))


@pytest.mark.parametrize(
    ("field", "path"),
    [
        (amount("main", "requests", "cpu"), "containers[main].resources.requests.cpu"),
        (amount(POD, "limits", "memory"), "spec.resources.limits.memory"),
    ],
)
def test_where_an_amount_stands(field: AmountField, path: str) -> None:
    assert field.path == path


def test_a_limit_alone_counts_as_a_request_too() -> None:
    found = stated_amounts(spec(limits={"cpu": "2"}))
    assert found == {
        amount("main", "limits", "cpu"): Quantity.parse("2"),
        amount("main", "requests", "cpu"): Quantity.parse("2"),
    }
    assert amount(POD, "requests", "cpu") not in stated_amounts(spec(pod={"limits": {"cpu": "2"}}))


def test_a_change_of_the_pod_as_a_whole_is_told_from_one_of_its_containers() -> None:
    sizes: JsonObject = {"cpu": "1", "memory": "1Gi"}
    before = template(pod={"requests": sizes, "limits": {"cpu": "2", "memory": "2Gi"}})
    after = template(pod={"requests": sizes, "limits": {"cpu": "3", "memory": "2Gi"}})
    found = classify_template_edit(before, after)
    assert isinstance(found, InPlaceEdit) and found.worker.touches_pod_level
    other = classify_template_edit(template(requests={"cpu": "1"}), template(requests={"cpu": "2"}))
    assert isinstance(other, InPlaceEdit) and not other.worker.touches_pod_level


@given(templates)
def test_what_is_left_without_amounts_states_none_and_keeps_the_rest(one: JsonObject) -> None:
    untouched = copy.deepcopy(one)
    rest = without_amounts(one)
    assert one == untouched
    assert stated_amounts(rest["workerTemplate"]["spec"]) == {}
    assert rest["size"] == one["size"]
    for side in ("requests", "limits"):
        container = one["workerTemplate"]["spec"]["containers"][0]
        kept = (rest["workerTemplate"]["spec"]["containers"][0].get("resources") or {}).get(side) or {}
        assert kept.get("nvidia.com/gpu") == container["resources"].get(side, {}).get("nvidia.com/gpu")
    assert without_amounts(rest) == rest


@given(templates, templates)
def test_a_template_that_can_follow_can_be_followed_back_unless_amounts_were_added(
    before: JsonObject, after: JsonObject
) -> None:
    there, back = classify_template_edit(before, after), classify_template_edit(after, before)
    if isinstance(there, InPlaceEdit):
        added = set(there.worker.after) - set(there.worker.before)
        assert isinstance(back, RecreateEdit) == bool(added)


def test_the_effort_grows_with_the_number_of_containers_and_not_with_its_square() -> None:
    def calls(containers: int) -> int:
        before, after = (
            {"workerTemplate": {"spec": {"containers": [_requesting(f"c{index}", cpu) for index in range(containers)]}}}
            for cpu in ("1", "2")
        )
        profile = Profile()
        assert isinstance(profile.runcall(classify_template_edit, before, after), InPlaceEdit)
        return sum(one.callcount for one in profile.getstats())

    assert calls(80) < 3 * calls(40)


def _requesting(name: str, cpu: str) -> JsonObject:
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
