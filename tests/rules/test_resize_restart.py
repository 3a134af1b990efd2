"""Which containers a resize restarts."""

import msgspec
import pytest

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Container, PodSpec
from kohort.rules.resize_restart import containers_to_restart, restarts_container

MEMORY_RESTARTS = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
]


def spec(resources: JsonObject, pod: JsonObject | None = None, policy: object = MEMORY_RESTARTS) -> PodSpec:
    container = {"name": "main", "resources": resources, "resizePolicy": policy}
    return msgspec.convert({"containers": [container], "resources": pod}, PodSpec)


@pytest.mark.parametrize(
    ("before", "after", "restarts"),
    [
        pytest.param({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "2Gi"}}, True, id="request"),
        pytest.param({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}}, True, id="limit"),
        pytest.param({}, {"limits": {"memory": "2Gi"}}, True, id="first limit"),
        pytest.param({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, False, id="other resource"),
        pytest.param({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "1024Mi"}}, False, id="spelling"),
        pytest.param({"limits": {"memory": "1Gi"}}, {"limits": {"memory": 1073741824}}, False, id="number"),
        pytest.param({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "1Gi"}}, False, id="no change"),
    ],
)
def test_a_container_restarts_when_its_own_amounts_change(
    before: JsonObject, after: JsonObject, restarts: bool
) -> None:
    assert containers_to_restart(spec(before), spec(after)) == (["main"] if restarts else [])


@pytest.mark.parametrize(
    ("own", "restarts"),
    [({}, True), ({"limits": {"cpu": "1"}}, True), ({"limits": {"memory": "1Gi"}}, False)],
)
def test_a_change_of_the_pods_limit_restarts_containers_without_a_limit(own: JsonObject, restarts: bool) -> None:
    before, after = ({"limits": {"cpu": "2", "memory": amount}} for amount in ("2Gi", "3Gi"))
    assert containers_to_restart(spec(own, before), spec(own, after)) == (["main"] if restarts else [])


def test_a_change_of_the_pods_request_restarts_no_container() -> None:
    before, after = ({"requests": {"memory": amount}} for amount in ("2Gi", "3Gi"))
    assert containers_to_restart(spec({}, before), spec({}, after)) == []


def test_a_container_without_a_policy_is_not_restarted() -> None:
    before, after = ({"requests": {"cpu": amount, "memory": amount}} for amount in ("1", "2"))
    assert containers_to_restart(spec(before, policy=[]), spec(after, policy=[])) == []


def test_containers_are_named_in_the_order_of_the_spec_and_new_ones_are_left_out() -> None:
    def pod(amount: str, *names: str) -> PodSpec:
        containers = [
            {"name": name, "resources": {"requests": {"memory": amount}}, "resizePolicy": MEMORY_RESTARTS}
            for name in names
        ]
        return msgspec.convert({"containers": containers[1:], "initContainers": containers[:1]}, PodSpec)

    assert containers_to_restart(pod("1Gi", "proxy", "b", "a"), pod("2Gi", "proxy", "b", "a", "c")) == [
        "proxy",
        "b",
        "a",
    ]


@pytest.mark.parametrize(("changed", "restarts"), [((), False), (("cpu",), False), (("cpu", "memory"), True)])
def test_the_policy_of_a_container_is_asked_per_resource(changed: tuple[str, ...], restarts: bool) -> None:
    container = msgspec.convert({"name": "main", "resizePolicy": MEMORY_RESTARTS}, Container)
    assert restarts_container(container, changed) == restarts
