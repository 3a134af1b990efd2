"""How addresses are divided into slices, with as few writes as possible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.endpoints.plan import (
    MAX_PER_SLICE,
    Backend,
    BackendPod,
    Content,
    ServiceFacts,
    backend,
    endpoint,
    endpoints_labels,
    plan_slices,
    plan_subsets,
    resolved_ports,
    slice_labels,
)


def service(
    *, publish: bool = False, ports: list[dict[str, object]] | None = None, headless: bool = True
) -> ServiceFacts:
    return ServiceFacts("web", "ns", headless, publish, ports if ports is not None else [{"name": "http", "port": 80}])


def pod(name: str, *, ready: bool = True, terminating: bool = False, **more: object) -> BackendPod:
    return BackendPod(
        name=name,
        namespace="ns",
        uid=f"uid-{name}",
        addresses=("10.0.0.1",),
        ready=ready,
        terminating=terminating,
        **more,  # type: ignore[arg-type]
    )


def behind(facts: ServiceFacts, *pods: BackendPod) -> list[Backend]:
    return [one for pod in sorted(pods, key=lambda pod: pod.name) if (one := backend(facts, pod)) is not None]


def test_conditions_follow_the_table() -> None:
    rows = [
        # published, ready, terminating -> ready, serving, terminating
        (False, True, False, True, True, False),
        (False, False, False, False, False, False),
        (False, True, True, False, True, True),
        (True, False, False, True, False, False),
        (True, False, True, True, False, True),
    ]
    for publish, is_ready, leaving, ready, serving, terminating in rows:
        entry = endpoint(service(publish=publish), pod("a", ready=is_ready, terminating=leaving))
        assert entry["conditions"] == {"ready": ready, "serving": serving, "terminating": terminating}


def test_a_hostname_counts_only_below_its_own_service() -> None:
    assert endpoint(service(), pod("a", hostname="ha", subdomain="web"))["hostname"] == "ha"
    assert "hostname" not in endpoint(service(), pod("a", hostname="ha", subdomain="other"))
    assert "hostname" not in endpoint(service(), pod("a", hostname="ha"))


def test_pods_that_name_their_ports_differently_get_slices_of_their_own() -> None:
    named = service(
        ports=[{"name": "http", "port": 80, "targetPort": "http"}, {"name": "rpc", "port": 90, "targetPort": "rpc"}]
    )
    a = pod("a", named_ports={("http", "TCP"): 8080, ("rpc", "TCP"): 9090})
    b = pod("b", named_ports={("http", "TCP"): 8081})
    plan = plan_slices(named, behind(named, a, b), {})
    assert [(content.ports, len(content.endpoints)) for content in plan.create] == [
        ((("http", "TCP", 8080, None), ("rpc", "TCP", 9090, None)), 1),
        ((("http", "TCP", 8081, None),), 1),
    ]
    assert resolved_ports(named, pod("c")) == ()


def test_a_service_without_pods_keeps_one_empty_slice() -> None:
    assert plan_slices(service(), [], {}).create == [Content((), [])]
    existing = {"web-a": Content((("http", "TCP", 80, None),), [endpoint(service(), pod("a"))])}
    plan = plan_slices(service(), [], existing)
    assert plan.update == {"web-a": Content((), [])}
    assert not plan.delete


def test_the_empty_slice_takes_the_first_pods() -> None:
    plan = plan_slices(service(), behind(service(), pod("a")), {"s": Content((), [])})
    assert (plan.create, list(plan.update), plan.delete) == ([], ["s"], [])
    assert plan.update["s"].ports == (("http", "TCP", 80, None),)


def test_finished_pods_and_pods_without_address_do_not_count() -> None:
    gone = BackendPod("x", "ns", "u", addresses=())
    assert plan_slices(service(), behind(service(), gone, pod("f", finished=True)), {}).create == [Content((), [])]


def test_subsets_separate_ready_from_not_ready() -> None:
    subsets = plan_subsets(
        service(), behind(service(), pod("a"), pod("b", ready=False), pod("c", terminating=True))
    ).subsets
    assert [[one["targetRef"]["name"] for one in subsets[0][key]] for key in ("addresses", "notReadyAddresses")] == [
        ["a"],
        ["b"],
    ]
    everybody = service(publish=True)
    published = plan_subsets(everybody, behind(everybody, pod("b", ready=False), pod("c", terminating=True))).subsets
    assert [one["targetRef"]["name"] for one in published[0]["addresses"]] == ["b", "c"]


def test_ports_share_a_subset_only_if_the_same_addresses_offer_them() -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "metrics", "port": 90, "targetPort": 90}]
    facts = service(ports=ports)
    numbers = {"a": 8000, "b": 8001, "c": 8001}
    pods = [pod(name, named_ports={("http", "TCP"): port}, ready=name != "c") for name, port in numbers.items()]
    seen = {
        tuple((port["name"], port["port"]) for port in subset["ports"]): [
            [one["targetRef"]["name"] for one in subset.get(key, [])] for key in ("addresses", "notReadyAddresses")
        ]
        for subset in plan_subsets(facts, behind(facts, *pods)).subsets
    }
    assert seen == {
        (("http", 8000),): [["a"], []],
        (("http", 8001),): [["b"], ["c"]],
        (("metrics", 90),): [["a", "b"], ["c"]],
    }


@pytest.mark.parametrize(
    ("ready", "waiting", "kept"),
    [(900, 100, (900, 100)), (900, 500, (900, 100)), (1500, 500, (1000, 0)), (0, 1200, (0, 1000))],
)
def test_of_too_many_addresses_the_ready_ones_are_listed(ready: int, waiting: int, kept: tuple[int, int]) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    facts = service(ports=ports)
    pods = [
        pod(f"{number:04}", ready=number >= waiting, named_ports={("http", "TCP"): 8000 + number % 3})
        for number in range(ready + waiting)
    ]
    plan = plan_subsets(facts, [one for each in pods if (one := backend(facts, each))])
    listed = [sum(len(one.get(name, [])) for one in plan.subsets) for name in ("addresses", "notReadyAddresses")]
    assert (tuple(listed), plan.truncated) == (kept, ready + waiting > 1000)
    sizes = [len(one.get("addresses", [])) + len(one.get("notReadyAddresses", [])) for one in plan.subsets]
    assert max(sizes) - min(sizes) <= 3, "every subset keeps its share"


def test_ports_have_the_order_of_kubernetes() -> None:
    ports = [{"name": "a", "port": 1}, {"name": "z", "port": 2}]
    subsets = plan_subsets(service(ports=ports), behind(service(ports=ports), pod("a"))).subsets
    assert [one["name"] for one in subsets[0]["ports"]] == ["z", "a"]


def test_labels_of_the_service_are_copied_but_cannot_replace_ours() -> None:
    facts = ServiceFacts("web", "ns", True, False, [], {"team": "x", "kubernetes.io/service-name": "evil"})
    assert slice_labels(facts) == {
        "team": "x",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    assert endpoints_labels(facts) == {
        "team": "x",
        "kubernetes.io/service-name": "evil",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        "service.kubernetes.io/headless": "",
    }


@given(st.lists(st.sets(st.integers(0, 250)), max_size=4))
def test_any_history_of_pods_ends_with_exactly_the_wanted_endpoints(history: list[set[int]]) -> None:
    slices: dict[str, Content] = {}
    serial = 0
    for numbers in history:
        pods = [pod(f"p{number}") for number in numbers]
        plan = plan_slices(service(), behind(service(), *pods), slices)
        for name in plan.delete:
            del slices[name]
        slices.update(plan.update)
        for content in plan.create:
            serial += 1
            slices[f"web-{serial}"] = content
        found = [entry["targetRef"]["name"] for content in slices.values() for entry in content.endpoints]
        assert sorted(found) == sorted(one.name for one in pods)
        assert all(len(content.endpoints) <= MAX_PER_SLICE for content in slices.values())
        again = plan_slices(service(), behind(service(), *pods), slices)
        assert not again.create
        assert not again.update
        assert not again.delete
