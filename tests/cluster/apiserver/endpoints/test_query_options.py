"""Query parameters (specification 1.4); the messages are those of Kubernetes 1.36."""

import pytest

from kohort.cluster.apiserver.endpoints import query_options
from kohort.kube.errors import ApiError
from kohort.kube.http import Request


def request(**query: str) -> Request:
    return Request("GET", "/", tuple((key.rstrip("_"), value) for key, value in query.items()))


def causes(error: ApiError) -> list[tuple[str, str]]:
    assert error.status.details is not None
    return [(cause.reason, cause.field) for cause in error.status.details.causes]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"resourceVersionMatch": "Exact"}, [("FieldValueForbidden", "resourceVersionMatch")]),
        (
            {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
            [("FieldValueForbidden", "resourceVersionMatch")],
        ),
        (
            {"resourceVersion": "5", "resourceVersionMatch": "Nope"},
            [("FieldValueNotSupported", "resourceVersionMatch")],
        ),
        (
            {"resourceVersionMatch": "Exact", "continue_": "x"},
            [("FieldValueForbidden", "resourceVersionMatch"), ("FieldValueForbidden", "resourceVersionMatch")],
        ),
        ({"sendInitialEvents": "true"}, [("FieldValueForbidden", "sendInitialEvents")]),
        (
            {"watch": "1", "sendInitialEvents": "true"},
            [("FieldValueForbidden", "resourceVersionMatch")],
        ),
        (
            {"watch": "1", "resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"},
            [("FieldValueForbidden", "resourceVersionMatch")],
        ),
    ],
)
def test_contradicting_list_options(query: dict[str, str], expected: list[tuple[str, str]]) -> None:
    with pytest.raises(ApiError) as refused:
        query_options.list_options(request(**query))
    assert refused.value.code == 422
    assert refused.value.message.startswith('ListOptions.meta.k8s.io "" is invalid: ')
    assert causes(refused.value) == expected


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("1", True), ("", True), ("no", True), ("false", False), ("0", False)]
)
def test_booleans(text: str, value: bool) -> None:
    assert query_options.boolean(request(x=text), "x") is value


def test_an_absent_boolean_is_neither() -> None:
    assert query_options.boolean(request(), "x") is None


def test_numbers() -> None:
    assert query_options.integer(request(limit="-1"), "limit") == -1
    with pytest.raises(ApiError) as refused:
        query_options.integer(request(limit="x"), "limit")
    assert refused.value.message == 'strconv.ParseInt: parsing "x": invalid syntax'


def test_a_watch_without_revision_asks_for_the_present_state() -> None:
    for revision in ("", "0"):
        found = query_options.list_options(request(watch="1", resourceVersion=revision))
        assert found.initial_events is True
    assert query_options.list_options(request(watch="1", resourceVersion="7")).initial_events is None


@pytest.mark.parametrize(
    ("query", "apply", "expected"),
    [
        ({"dryRun": "Some"}, False, [("FieldValueNotSupported", "dryRun")]),
        ({"fieldValidation": "Loose"}, False, [("FieldValueNotSupported", "fieldValidation")]),
        ({"force": "true"}, False, [("FieldValueForbidden", "force")]),
        ({}, True, [("FieldValueRequired", "fieldManager")]),
        ({"fieldManager": "x" * 129}, True, [("FieldValueTooLong", "fieldManager")]),
        ({"fieldManager": "a\nb"}, True, [("FieldValueInvalid", "fieldManager")]),
    ],
)
def test_wrong_patch_options(query: dict[str, str], apply: bool, expected: list[tuple[str, str]]) -> None:
    with pytest.raises(ApiError) as refused:
        query_options.write_options(request(**query), "PatchOptions", apply=apply)
    assert causes(refused.value) == expected


@pytest.mark.parametrize(
    ("manager", "agent", "expected"),
    [
        ("me", "kubectl/v1.36", "me"),
        ("", "kubectl/v1.36 (linux)", "kubectl"),
        ("", "", "unknown"),
        ("", "x" * 200, "x" * 128),
        ("", "a\tb/1", "ab"),
    ],
)
def test_the_user_agent_stands_in_for_a_field_manager(manager: str, agent: str, expected: str) -> None:
    sent = Request("POST", "/", (), {"user-agent": agent})
    assert query_options.manager_of(query_options.WriteOptions(manager=manager), sent) == expected


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", str(2**64)])
def test_revisions_that_are_none(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        query_options.revision_of(text, of_list=True)
    assert refused.value.code == 400
    with pytest.raises(ApiError) as refused:
        query_options.revision_of(text)
    assert (refused.value.code, refused.value.reason) == (500, "")


def test_delete_options_exclude_each_other() -> None:
    with pytest.raises(ApiError) as refused:
        query_options.delete_options({"propagationPolicy": "Orphan", "orphanDependents": True})
    assert causes(refused.value) == [("FieldValueInvalid", "propagationPolicy")]
    with pytest.raises(ApiError) as refused:
        query_options.delete_options({"propagationPolicy": "Sideways"})
    assert refused.value.message.endswith('supported values: "Foreground", "Background", "Orphan", "nil"')


def test_admission_sees_no_force_in_an_update() -> None:
    """An apply is a create or an update there, and neither can be forced."""
    query = (("fieldManager", "m"), ("force", "true"))
    found = query_options.write_options(Request("PATCH", "/", query), "PatchOptions", apply=True)
    assert found.force is True
    assert found.as_object("UpdateOptions") == {
        "kind": "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "m",
    }


@pytest.mark.parametrize("text", ["", "0", "5s", "-5s", "1h2m3.5s", ".5ms", "10µs"])
def test_how_long_a_request_is_waited_for(text: str) -> None:
    query_options.check_timeout(request(timeout=text))


@pytest.mark.parametrize(
    ("text", "problem"), [("bad", "invalid"), ("1", "missing unit in"), ("1 s", "invalid"), ("5m3", "invalid")]
)
def test_waiting_must_be_said_in_a_way_that_can_be_understood(text: str, problem: str) -> None:
    message = f'invalid timeout specified in the request URL - time: {problem} duration "{text}"'
    with pytest.raises(ApiError) as refused:
        query_options.check_timeout(request(timeout=text))
    assert (refused.value.code, refused.value.message) == (400, message)
    query_options.check_timeout(request(timeout=text, watch="1"))
