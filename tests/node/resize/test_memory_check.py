"""Memory in use is not taken away."""

import pytest
from tests.node.resizing import sized

from kohort.node.resize.plan import LimitBelowUsage, changes, check_memory
from kohort.node.resource_views import Actuated, Usage, figures_of
from kohort.resources import pod_cgroup

MI = 1 << 20
BOTH = {"memory": "RestartContainer"}


def verdict(before: str, after: str, used: int | None, *, level: str, policy: dict[str, str] | None = None) -> str:
    def made(limit: str) -> dict[str, str]:
        own = f"-:-/{limit}" if limit else ""
        return {"pod": own, "c1": ""} if level == "pod" else {"c1": own}

    old, new = sized(policy=policy, **made(before)), sized(policy=policy, **made(after))  # type: ignore[arg-type]
    target, pushed = figures_of(new), figures_of(old)
    changed = changes(new, target, Actuated(pushed.pod, pushed.containers), ["c1"])
    in_use = None if used is None else used * MI
    of_container = MI if level == "pod" else in_use
    usage = Usage(in_use, {} if of_container is None else {"c1": of_container})
    try:
        check_memory(target, pod_cgroup(old), changed, usage)
    except LimitBelowUsage as problem:
        return str(problem)
    return "fine"


@pytest.mark.parametrize("level", ["pod", "container"])
@pytest.mark.parametrize(
    ("before", "after", "used", "fine"),
    [
        ("", "100Mi", 10, True),
        ("", "100Mi", 200, False),
        ("", "100Mi", None, False),
        ("200Mi", "100Mi", 20, True),
        ("200Mi", "100Mi", 150, False),
        ("200Mi", "100Mi", 100, False),
        ("200Mi", "100Mi", None, False),
        ("100Mi", "200Mi", None, True),
        ("100Mi", "100Mi", None, True),
    ],
)
def test_w4_limits_go_down_only_above_what_is_in_use(
    level: str, before: str, after: str, used: int | None, fine: bool
) -> None:
    assert (verdict(before, after, used, level=level) == "fine") == fine


def test_w8_the_message_names_limit_and_usage_of_who_is_meant() -> None:
    found = verdict("200Mi", "100Mi", 150, level="pod")
    assert found == f"attempting to set pod memory limit ({100 * MI}) below current usage ({150 * MI})"


def test_a_container_that_restarts_anyway_is_not_asked_and_takes_along_what_it_holds() -> None:
    assert verdict("200Mi", "100Mi", 150, level="container", policy=BOTH) == "fine"


def test_what_others_hold_stays_in_the_pod() -> None:
    found = verdict("200Mi", "100Mi", 150, level="pod", policy=BOTH)
    assert found == f"attempting to set pod memory limit ({100 * MI}) below current usage ({149 * MI})"
