"""The worked examples of effective requests (E…) and limits (L…), and what must hold for any pod."""

import doctest
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resources.figures import amounts, block, container, init, pod, sidecar

from kohort import resources
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Container, Pod, PodSpec, ResourceRequirements
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import ACCOUNTING, CONTAINERS_ONLY, SANDBOX, SPEC, Options, limits, requests
from kohort.resources import amounts as amounts_module

C1, C2 = container("100/100"), container("200/50")
WITHOUT_POD_STATUS = Options(use_status=True, pod_level_status=False)


@pytest.mark.parametrize(
    ("name", "given_pod", "options", "expected"),
    [
        ("E1", pod(C1, C2), SPEC, "300/150"),
        ("E2", pod(C1, C2, init("500/1024")), SPEC, "500/1024"),
        ("E3", pod(sidecar("100"), init("300"), container("150")), SPEC, "400"),
        ("E4", pod(init("300"), sidecar("100"), container("150")), SPEC, "300"),
        ("E5", pod(C1, C2, overhead="50/20"), SPEC, "350/170"),
        ("E5 bare", pod(C1, C2, overhead="50/20"), SANDBOX, "300/150"),
        ("E6", pod(C1, C2, request="500"), SPEC, "500/150"),
        ("E7", pod(C1, C2, request="500", overhead="50/20"), SPEC, "550/170"),
        ("E8", pod(C1, C2, request="500"), CONTAINERS_ONLY, "300/150"),
        (
            "E10",
            pod(container("- hugepages-2Mi=4Mi"), request="100 hugepages-2Mi=8Mi"),
            SPEC,
            "100 hugepages-2Mi=8Mi",
        ),
        (
            "E11",
            pod(container("100 ephemeral-storage=1Gi"), request="200 ephemeral-storage=9Gi"),
            SPEC,
            "200 ephemeral-storage=1Gi",
        ),
        (
            "E12",
            pod(
                init("500"),
                sidecar("200"),
                init("100"),
                sidecar("300"),
                init("50"),
                container("100"),
                container("100"),
            ),
            SPEC,
            "700",
        ),
        ("E13", pod(container("300", allocated="100", actual="100")), ACCOUNTING, "300"),
        ("E14", pod(container("100", allocated="100", actual="300")), ACCOUNTING, "300"),
        ("E15", pod(container("900", allocated="200", actual="200"), pending="Infeasible"), ACCOUNTING, "200"),
        ("E16", pod(container("900", allocated="200", actual="200"), pending="Deferred"), ACCOUNTING, "900"),
        (
            "E16 W-6b not reserving",
            pod(container("900", allocated="200", actual="200"), pending="Deferred"),
            Options(use_status=True, count_deferred=False),
            "200",
        ),
        ("E17", pod(container("900", allocated="200", actual="200"), pending="Infeasible"), SPEC, "900"),
        (
            "E18",
            pod(container("100", allocated="300", actual="300"), container("300", allocated="100", actual="100")),
            ACCOUNTING,
            "400",
        ),
        ("E19", pod(C1, request="500/300", actual="300/300", allocated="300/300"), ACCOUNTING, "500/300"),
        ("E20", pod(container(), request="200", allocated="200", actual="600"), ACCOUNTING, "600"),
        (
            "E21",
            pod(container(), request="4000", allocated="500", actual="500", pending="Infeasible"),
            ACCOUNTING,
            "500",
        ),
        ("E22", pod(container(), request="2000", allocated="3000", actual="3500"), ACCOUNTING, "3500"),
        ("E23", pod(container("200"), allocated="300", actual="300"), ACCOUNTING, "300"),
        (
            "E24",
            pod(container("200", allocated="300", actual="300"), allocated="300", actual="300"),
            WITHOUT_POD_STATUS,
            "300",
        ),
        (
            "E25",
            pod(container("700"), container("100", allocated="100", actual="100"), pending="Infeasible"),
            ACCOUNTING,
            "100",
        ),
        ("E26 W-1", pod(container(), request="500", overhead="100", allocated="500", actual="500"), ACCOUNTING, "600"),
        (
            "E26 from nodes that report overhead",
            pod(container(), request="500", overhead="100", allocated="600", actual="600"),
            Options(use_status=True, status_includes_overhead=True),
            "600",
        ),
        (
            "E27 W-2",
            pod(
                container("-/200", allocated="-/100", actual="-/100"),
                request="400",
                allocated="400/100",
                actual="400/100",
            ),
            ACCOUNTING,
            "400/200",
        ),
        (
            "E28",
            pod(container(), container("0")),
            Options(defaults={"cpu": Quantity.parse("100m"), "memory": Quantity.parse("200Mi")}),
            "100/400",
        ),
        ("E29", pod(sidecar("100", allocated="250", actual="250"), container("100")), ACCOUNTING, "350"),
        ("F10", pod(container(allocated="100", actual="150")), ACCOUNTING, "150"),
        (
            "F11 allocated missing",
            pod(container("200", allocated="300", actual="300"), actual="900"),
            ACCOUNTING,
            "300",
        ),
        (
            "F11 resources missing",
            pod(container("200", allocated="300", actual="300"), allocated="900"),
            ACCOUNTING,
            "300",
        ),
        (
            "F2",
            pod(container("50/900", allocated="50/100", actual="80/90"), pending="Infeasible"),
            ACCOUNTING,
            "80/100",
        ),
        ("empty block", pod(C1, request=""), SPEC, "100/100"),
        ("nothing asked", pod(container(), container()), SPEC, "-"),
    ],
)
def test_effective_requests(name: str, given_pod: Pod, options: Options, expected: str) -> None:
    assert requests(given_pod, options) == amounts(expected), name


@pytest.mark.parametrize(
    ("name", "given_pod", "options", "expected"),
    [
        ("L1", pod(container(limit="200/200"), container()), SPEC, "200/200"),
        ("L2", pod(container(limit="200/200"), container(), limit="1000", overhead="50/20"), SPEC, "1050/220"),
        ("L3", pod(container(limit="-/200", actual_limit="-/400")), ACCOUNTING, "-/400"),
        ("L4", pod(container(limit="-/400", actual_limit="-/200")), ACCOUNTING, "-/400"),
        (
            "L4 infeasible",
            pod(container(limit="-/400", actual_limit="-/200"), pending="Infeasible"),
            ACCOUNTING,
            "-/200",
        ),
        ("L5", pod(container(limit="500"), container(limit="500"), init(limit="2000")), SPEC, "2000"),
        ("L6", pod(container(), overhead="50"), SPEC, "-"),
        (
            "L7",
            pod(container(limit="100", actual_limit="300"), container(limit="300", actual_limit="100")),
            ACCOUNTING,
            "400",
        ),
        ("L8", pod(container(), limit="10000", actual_limit="8000", pending="Infeasible"), ACCOUNTING, "8000"),
        ("E22", pod(container(), limit="4000", actual_limit="5000"), ACCOUNTING, "5000"),
        ("zero limit takes no overhead", pod(container(limit="0"), overhead="50"), SPEC, "0"),
    ],
)
def test_effective_limits(name: str, given_pod: Pod, options: Options, expected: str) -> None:
    assert limits(given_pod, options) == amounts(expected), name


@pytest.mark.parametrize(
    ("given_pod", "expected"),
    [
        (pod(container(), container("0")), "100/400"),
        (pod(container("50/50")), "50/50"),
        (pod(container(), container(), request="500"), "500/400"),
        (pod(container(), request="500/50"), "500/50"),
    ],
)
def test_containers_that_ask_for_nothing_count_for_a_little(given_pod: Pod, expected: str) -> None:
    assert resources.non_zero_requests(given_pod) == amounts(expected)


@pytest.mark.parametrize(
    ("given_pod", "cpu", "memory"),
    [
        (pod(container(limit="100/100"), container(limit="100")), True, False),
        (pod(container(), limit="-/100"), False, True),
        (pod(container(limit="100/100"), init()), False, False),
        (pod(container(limit="100/100"), sidecar(limit="1/1")), True, True),
        (pod(container(limit="0/100")), False, True),
    ],
)
def test_a_pod_is_limited_if_it_says_so_or_all_of_its_containers_are(given_pod: Pod, cpu: bool, memory: bool) -> None:
    declared = resources.limit_declared
    assert (declared(given_pod.spec, "cpu"), declared(given_pod.spec, "memory")) == (cpu, memory)


def test_a_pod_at_rest_reports_no_limit_that_does_not_bind_it() -> None:
    partly = pod(container("100/100", "200/200"), container("50", "100"), overhead="10")
    assert resources.reported(partly) == (amounts("150/100"), amounts("300"))


def test_a_container_without_limit_feels_the_limit_of_its_pod() -> None:
    shared = pod(container(limit="50"), container(), limit="200/300")
    own, inheriting = shared.spec.main_containers
    assert resources.container_limit(shared.spec, own, "cpu") == Quantity.parse("50m")
    assert resources.container_limit(shared.spec, inheriting, "cpu") == Quantity.parse("200m")
    assert resources.container_limit(shared.spec, own, "memory") == Quantity.parse("300Mi")
    assert resources.container_limit(shared.spec, own, "ephemeral-storage") is None


@pytest.mark.parametrize(
    ("block_of_pod", "expected"),
    [(None, False), ({}, False), ({"requests": {"x.io/gpu": "1"}}, False), ({"requests": {"cpu": "1"}}, True)],
)
def test_only_supported_names_make_a_pod_level_block(block_of_pod: JsonObject | None, expected: bool) -> None:
    given_resources = None if block_of_pod is None else msgspec.convert(block_of_pod, ResourceRequirements)
    assert resources.pod_level_set(PodSpec(resources=given_resources)) is expected


def test_documents_are_read_like_views() -> None:
    document: JsonObject = {
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}
    }
    assert requests(resources.view_of(document)) == {"cpu": Quantity.parse("1"), "memory": Quantity.parse("1Gi")}


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(amounts_module).failed == 0


# --- what must hold for any pod ---

figure = st.sampled_from(["-", "0", "50", "100", "250", "900"])
pair = st.builds(lambda cpu, memory: f"{cpu}/{memory}", figure, figure)
maybe = st.none() | pair
containers = st.builds(
    container,
    maybe,
    maybe,
    allocated=maybe,
    actual=maybe,
    actual_limit=maybe,
    kind=st.sampled_from(["main", "main", "init", "sidecar"]),
)
pods = st.builds(
    lambda parts, keywords: pod(container(), *parts, **keywords),
    st.lists(containers, max_size=4),
    st.fixed_dictionaries(
        {
            "request": maybe,
            "limit": maybe,
            "overhead": maybe,
            "allocated": maybe,
            "actual": maybe,
            "actual_limit": maybe,
            "pending": st.sampled_from([None, "Deferred", "Infeasible"]),
        }
    ),
)
options = st.builds(Options, use_status=st.booleans(), pod_level_status=st.booleans(), overhead=st.booleans())


def covers(larger: dict[str, Quantity], smaller: dict[str, Quantity]) -> bool:
    return all(larger.get(name, ZERO) >= amount for name, amount in smaller.items())


@settings(max_examples=300)
@given(pods)
def test_a_bound_pod_never_counts_for_less_than_any_view_of_it(any_pod: Pod) -> None:
    counted = requests(any_pod, Options(use_status=True, overhead=False, pod_level=False))
    if not resources.resize_infeasible(any_pod):
        assert covers(counted, requests(any_pod, CONTAINERS_ONLY))
    status = any_pod.status
    if status.allocated_resources is not None and status.resources is not None and status.resources.requests:
        assert covers(counted, resources.amounts_of(status.allocated_resources))
        assert covers(counted, resources.amounts_of(status.resources.requests))


@settings(max_examples=300)
@given(pods, options, st.randoms(use_true_random=False))
def test_the_order_of_containers_does_not_matter(any_pod: Pod, any_options: Options, chance: random.Random) -> None:
    shuffled = list(any_pod.spec.main_containers)
    chance.shuffle(shuffled)
    spec = msgspec.structs.replace(any_pod.spec, containers=tuple(shuffled))
    other = msgspec.structs.replace(any_pod, spec=spec)
    assert requests(other, any_options) == requests(any_pod, any_options)
    assert limits(other, any_options) == limits(any_pod, any_options)


@settings(max_examples=300)
@given(pods, options, containers)
def test_one_more_container_never_makes_a_pod_smaller(any_pod: Pod, any_options: Options, extra: JsonObject) -> None:
    more = pod(extra).spec
    spec = msgspec.structs.replace(
        any_pod.spec,
        containers=any_pod.spec.main_containers + tuple(_renamed(more.main_containers)),
        init_containers=any_pod.spec.init_containers + tuple(_renamed(more.init_containers)),
    )
    larger = msgspec.structs.replace(any_pod, spec=spec)
    assert covers(requests(larger, any_options), requests(any_pod, any_options))
    assert covers(limits(larger, any_options), limits(any_pod, any_options))


@settings(max_examples=300)
@given(pods, options, st.sampled_from(["cpu", "memory"]), st.sampled_from(["requests", "limits"]), st.integers(0, 4))
def test_asking_for_more_never_counts_for_less(
    any_pod: Pod, any_options: Options, name: str, side: str, which: int
) -> None:
    """Monotone in every figure of every container."""

    def larger(container: Container) -> Container:
        amount = getattr(container.resources, side).get(name)
        if amount is None:
            return container
        more = {**getattr(container.resources, side), name: str(Quantity.parse(amount) + Quantity.parse("70"))}
        return msgspec.structs.replace(
            container, resources=msgspec.structs.replace(container.resources, **{side: more})
        )

    every = any_pod.spec.all_containers
    chosen = every[which % len(every)].name

    def changed(group: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(larger(each) if each.name == chosen else each for each in group)

    spec = msgspec.structs.replace(
        any_pod.spec,
        containers=changed(any_pod.spec.main_containers),
        init_containers=changed(any_pod.spec.init_containers),
    )
    grown = msgspec.structs.replace(any_pod, spec=spec)
    assert covers(requests(grown, any_options), requests(any_pod, any_options))
    assert covers(limits(grown, any_options), limits(any_pod, any_options))


@given(pods, options)
def test_overhead_is_counted_exactly_once(any_pod: Pod, any_options: Options) -> None:
    without = requests(any_pod, msgspec.structs.replace(any_options, overhead=False))
    with_overhead = requests(any_pod, msgspec.structs.replace(any_options, overhead=True))
    assert with_overhead == resources.added(without, resources.amounts_of(any_pod.spec.overhead))


@given(pair)
def test_figures_are_written_and_read_alike(text: str) -> None:
    assert resources.amounts_of(resources.written_of(amounts(text))) == resources.amounts_of(block(text))


def _renamed(given_containers: tuple[Container, ...]) -> list[Container]:
    return [msgspec.structs.replace(entry, name=f"extra-{index}") for index, entry in enumerate(given_containers)]
