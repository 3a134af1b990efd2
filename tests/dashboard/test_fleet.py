"""The fleet: filters, pages, rows."""

import sys
from datetime import UTC, datetime
from types import FrameType

import pytest
from tests.builders import lws

from kohort.dashboard.fleet import PAGE_SIZE, BadFilter, FleetFilter, FleetRow, Listed, fleet_of, read_filter, row_of
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.set_causes import causes
from kohort.inspection.snapshot import Snapshot
from kohort.kube.resources import Key

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def group_set(name: str, namespace: str = "default", *, available: bool = True, **labels: str) -> LeaderWorkerSet:
    made = lws(name).namespaced(namespace).labels(labels).generation(1).created("2026-01-01T00:00:00Z")
    made = made.but("status.observedGeneration", 1).but("status.readyReplicas", 1 if available else 0)
    return made.condition("Available", "True" if available else "False").as_view(LeaderWorkerSet)


def fails(one: Listed) -> bool:
    return one.key.name == "b"


def shown(sets: list[LeaderWorkerSet], wanted: FleetFilter = FleetFilter()) -> list[str]:  # noqa: B008
    by_key = {Key(one.metadata.namespace, one.metadata.name): one for one in sets}

    def row(kind: str, key: Key) -> FleetRow:
        return row_of(Snapshot(by_key[key]), NOW)

    return [f"{one.namespace}/{one.name}" for one in fleet_of(sets, wanted, row, fails, NOW).rows]


SETS = [
    group_set("a", "east", team="x"),
    group_set("b", "east", available=False, team="y"),
    group_set("ab", "west", team="x"),
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (FleetFilter(), ["east/a", "east/b", "west/ab"]),
        (FleetFilter(namespace="east"), ["east/a", "east/b"]),
        (FleetFilter(label="team=x"), ["east/a", "west/ab"]),
        (FleetFilter(label="team!=x"), ["east/b"]),
        (FleetFilter(state="Progressing"), ["east/b"]),
        (FleetFilter(name="b"), ["east/b", "west/ab"]),
        (FleetFilter(sort="state"), ["east/b", "east/a", "west/ab"]),
        (FleetFilter(namespace="west", state="Progressing"), []),
        (FleetFilter(state="Failing"), ["east/b"]),
        (FleetFilter(namespace="west", state="Failing"), []),
    ],
)
def test_filters(wanted: FleetFilter, expected: list[str]) -> None:
    assert shown(SETS, wanted) == expected


def test_rows_are_made_for_one_page_only() -> None:
    sets = [group_set(f"s{number:04}") for number in range(2 * PAGE_SIZE + 1)]
    made: list[Key] = []

    def row(kind: str, key: Key) -> FleetRow:
        made.append(key)
        return row_of(Snapshot(sets[0]), NOW)

    found = fleet_of(sets, FleetFilter(page=3), row, fails, NOW)
    assert (found.total, found.pages, len(found.rows), len(made)) == (2 * PAGE_SIZE + 1, 3, 1, 1)
    assert fleet_of(sets, FleetFilter(page=99), row, fails, NOW).filter.page == 3


def test_states_are_counted_before_the_state_is_filtered() -> None:
    found = fleet_of(SETS, FleetFilter(state="Progressing"), lambda kind, key: None, fails, NOW)
    assert (found.states["Available"], found.states["Progressing"], found.failing, found.total) == (2, 1, 1, 1)


def test_a_row_names_the_first_cause() -> None:
    row = row_of(Snapshot(group_set("b", available=False)), NOW)
    assert row.cause is not None
    assert (row.cause.kind, row.cause.object, row.cause.found) == ("waiting", "group 0", "has no leader pod yet")
    assert fleet_of(SETS, FleetFilter(), lambda kind, key: row, fails, NOW).rows[0].age_seconds == 86400


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"page": "x"}, "page: 'x' is not a page number; the first one is 1"),
        ({"page": "0"}, "page: '0' is not a page number; the first one is 1"),
        ({"state": "Fine"}, "state: 'Fine' is not a state of a set; allowed are Available"),
        ({"label": "a=b=c"}, "label: 'a=b=c' selects nothing"),
        ({"sort": "age"}, "sort: 'age' is not allowed; allowed are name, state"),
    ],
)
def test_a_wrong_filter_is_named(given: dict[str, str], text: str) -> None:
    with pytest.raises(BadFilter) as problem:
        read_filter(given)
    assert str(problem.value).startswith(text)


def test_an_address_has_only_what_is_not_as_usual() -> None:
    assert [one for one in read_filter({"name": "a", "page": "1"}).query if one[1]] == [("name", "a")]


def test_a_row_is_explained_once() -> None:
    """Explanations are most of what a first view costs."""
    explained = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is causes.__code__:
            explained.append(event)

    sys.setprofile(count)
    try:
        made = row_of(Snapshot(group_set("a", available=False)), NOW)
    finally:
        sys.setprofile(None)
    assert made.cause is not None
    assert len(explained) == 1
