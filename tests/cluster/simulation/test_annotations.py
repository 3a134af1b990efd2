"""SimulatedBehavior as people write them."""

import pytest

from kohort.cluster.simulation.annotations import (
    InvalidAnnotation,
    SimulatedBehavior,
    is_lost,
    pod_behavior,
    readable_behavior,
    unready_message,
)
from kohort.rules.simulation_labels import PREFIX


def behavior(*, node: str = "", **pod: str) -> SimulatedBehavior:
    def annotations(given: dict[str, str]) -> dict[str, str]:
        return {f"simulation.kohort.dev/{name.replace('_', '-')}": value for name, value in given.items()}

    on_node = dict([node.split("=")]) if node else {}
    return pod_behavior({**annotations(pod), "unrelated": "x"}, annotations(on_node))


@pytest.mark.parametrize(
    ("text", "seconds"), [("1.5s", 1.5), ("500ms", 0.5), ("2m", 120), ("1h", 3600), ("7", 7), (" 3s ", 3), ("0", 0)]
)
def test_times(text: str, seconds: float) -> None:
    assert behavior(start_latency=text).start_latency == seconds


@pytest.mark.parametrize(
    ("given", "after", "code", "crashes"),
    [
        ({}, None, 0, None),
        ({"exit_after": "5s"}, 5, 0, None),
        ({"exit_code": "3"}, 0, 3, None),
        ({"crashes": "2"}, 0, 1, 2),
        ({"crashes": "2", "exit_code": "137", "exit_after": "1s"}, 1, 137, 2),
    ],
)
def test_how_containers_end(given: dict[str, str], after: float | None, code: int, crashes: int | None) -> None:
    found = behavior(**given)
    assert (found.exit_after, found.exit_code, found.crashes) == (after, code, crashes)


def test_what_stands_on_the_node_counts_unless_the_pod_says_otherwise() -> None:
    assert behavior(node="start-latency=3s").start_latency == 3
    assert behavior(node="start-latency=3s", start_latency="1s").start_latency == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start_latency", "soon"),
        ("ready_latency", "-1s"),
        ("crashes", "many"),
        ("exit_code", "-1"),
        ("exit_code", "256"),
        ("never_ready", "yes"),
        ("resize", "perhaps"),
        ("readiness_flips", "1s,x"),
    ],
)
def test_what_cannot_be_understood_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidAnnotation, match=name.replace("_", "-")):
        behavior(**{name: value})


@pytest.mark.parametrize("name", ["start", "lost", "capacity"])
def test_what_is_no_order_for_a_pod_is_named(name: str) -> None:
    with pytest.raises(InvalidAnnotation, match=name):
        behavior(**{name: "1s"})


def test_what_can_be_understood_counts_beside_what_cannot() -> None:
    pod = {f"{PREFIX}crashes": "many", f"{PREFIX}never-ready": "true", f"{PREFIX}unheard-of": "x"}
    found, problems = readable_behavior(pod, {f"{PREFIX}ready-latency": "later", f"{PREFIX}lost": "false"}, 3.0)
    assert (found.never_ready, found.crashes, found.ready_latency, found.start_latency) == (True, None, 0.0, 3.0)
    assert [str(problem) for problem in problems] == [
        f"annotation {PREFIX}unheard-of: is not known",
        f"annotation {PREFIX}crashes: 'many' is not a whole number",
        f"annotation {PREFIX}ready-latency: 'later' is not a time such as 1.5s, 500ms or 2m",
    ]


@pytest.mark.parametrize(("value", "lost"), [("true", True), ("yes", True), ("false", False), (None, False)])
def test_a_lost_node(value: str | None, lost: bool) -> None:
    assert is_lost({"simulation.kohort.dev/lost": value} if value else {}) is lost


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, ""), ("false", ""), ("true", "ordered by an annotation"), ("disk is gone", "disk is gone")],
)
def test_why_a_node_is_not_ready(value: str | None, words: str) -> None:
    assert unready_message({"simulation.kohort.dev/not-ready": value} if value else {}) == words
