"""Names, keys and indexes of groups and their pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules import group_labels
from kohort.rules.group_identity import (
    group_index,
    group_key,
    has_place_in_group,
    is_leader,
    is_worker,
    leader_name,
    leads_group,
    parse_index,
    parse_pod_name,
    pod_group_name,
    subgroup_key,
    worker_index,
)

LEADER = {group_labels.GROUP_INDEX: "1", group_labels.WORKER_INDEX: "0"}
WORKER = {group_labels.GROUP_INDEX: "1", group_labels.WORKER_INDEX: "2"}


def test_group_keys_are_those_that_other_software_computes() -> None:
    assert group_key("default", "test-sample") == "95e88034e460983f51a9952fe128729fbc0663b5"
    assert group_key("default", "podName") == "390b34ab671d29e9997d7d4252b8bbf8da02f5b7"
    assert group_key("leaderworkerset", "test-sample") == "39f5d7e9122b9d94d3932e3720b43fd3b56347e8"


def test_subgroups_of_a_group_have_different_keys() -> None:
    assert subgroup_key("podName", 0) != subgroup_key("podName", 1)
    assert subgroup_key("podName", 0) == subgroup_key("podName", "0")


@pytest.mark.parametrize(
    ("name", "parent", "ordinal"),
    [("llm-0", "llm", 0), ("llm-1-3", "llm-1", 3), ("a-b-12", "a-b", 12), ("llm-007", "llm", 7)],
)
def test_pod_names_are_read_back(name: str, parent: str, ordinal: int) -> None:
    found = parse_pod_name(name)
    assert found is not None
    assert (found.parent, found.ordinal) == (parent, ordinal)


@pytest.mark.parametrize("name", ["llm", "llm-x", "llm-", "", "llm-99999999999", "llm-٣"])
def test_names_without_a_number_are_not_pods_of_a_set(name: str) -> None:
    assert parse_pod_name(name) is None


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True), st.integers(0, 2**31 - 1))
def test_the_name_of_a_leader_names_its_set_and_its_group(name: str, index: int) -> None:
    found = parse_pod_name(leader_name(name, index))
    assert found is not None
    assert (found.parent, found.ordinal) == (name, index)


def test_the_name_of_a_pod_group_changes_with_the_revision() -> None:
    assert pod_group_name("llm", 1, "abc") == "llm-1-abc"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("0", 0),
        ("", None),
        (None, None),
        ("x", None),
        ("-1", None),
        ("1.0", None),
        ("٣", None),
        ("²", None),
        ("9" * 5000, None),
    ],
)
def test_an_index_has_ascii_digits_only(text: str | None, number: int | None) -> None:
    assert parse_index(text) == number


@pytest.mark.parametrize("text", ["٣", "²", "9" * 5000])
def test_no_number_that_a_user_writes_is_an_error(text: str) -> None:
    assert parse_index(text) is None


def test_indexes_are_read_from_labels() -> None:
    assert [group_index(labels) for labels in (LEADER, WORKER, {})] == [1, 1, None]
    assert [worker_index(labels) for labels in (LEADER, WORKER, {})] == [0, 2, None]


def test_a_pod_without_labels_is_neither_leader_nor_worker() -> None:
    assert [is_leader(labels) for labels in (LEADER, WORKER, {})] == [True, False, False]
    assert [is_worker(labels) for labels in (LEADER, WORKER, {})] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "labels", "index"),
    [
        ("llm-1", LEADER, 1),
        ("llm-2", LEADER, None),
        ("other-1", LEADER, None),
        ("llm-1-2", WORKER, None),
        ("llm-1", WORKER, None),
        ("llm-1", {group_labels.WORKER_INDEX: "0"}, None),
    ],
)
def test_a_leader_has_the_name_of_its_group(name: str, labels: dict[str, str], index: int | None) -> None:
    assert leads_group("llm", name, labels) == index


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("llm-0", ("llm", 0)),
        ("llm-0-1", ("llm-0", 1)),
        ("llm-007", ("llm", 7)),
        ("-3", ("", 3)),
        (f"llm-{2**31 - 1}", ("llm", 2**31 - 1)),
        (f"llm-{2**31}", None),
        ("llm", None),
        ("llm-", None),
        ("llm-x", None),
        ("", None),
    ],
)
def test_the_number_at_the_end_of_a_name_is_that_of_the_pod(name: str, found: tuple[str, int] | None) -> None:
    parsed = parse_pod_name(name)
    assert (None if parsed is None else (parsed.parent, parsed.ordinal)) == found


@pytest.mark.parametrize(
    ("name", "labels", "has_place"),
    [
        ("llm-1", LEADER, True),
        ("llm-1-2", WORKER, True),
        ("llm-2", LEADER, False),
        ("other-1", LEADER, False),
        ("llm-1", WORKER, False),
        ("llm-2-2", WORKER, False),
        ("other-1-2", WORKER, False),
        ("other", WORKER, False),
        ("llm-1", {group_labels.WORKER_INDEX: "0"}, False),
    ],
)
def test_a_pod_has_a_place_in_a_group_when_its_name_fits_its_labels(
    name: str, labels: dict[str, str], has_place: bool
) -> None:
    assert has_place_in_group(name, {group_labels.NAME: "llm", **labels}) is has_place
