"""API errors: which class a Status becomes, and the wording that clients match on."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube import errors
from kohort.kube.errors import ApiError, Status, StatusCause, StatusDetails
from kohort.objects.field_errors import FieldError


@pytest.mark.parametrize(
    ("reason", "code", "kind"),
    [
        ("NotFound", 404, errors.NotFound),
        ("AlreadyExists", 409, errors.AlreadyExists),
        ("Conflict", 409, errors.Conflict),
        ("", 409, errors.Conflict),
        ("Gone", 410, errors.Expired),
        ("Expired", 410, errors.Expired),
        ("", 422, errors.Invalid),
        ("RequestEntityTooLarge", 413, errors.RequestTooLarge),
        ("", 429, errors.TooManyRequests),
        ("", 504, errors.Timeout),
        ("SomethingNew", 503, errors.ServiceUnavailable),
        ("SomethingNew", 418, ApiError),
    ],
)
def test_the_reason_decides_and_else_the_code(reason: str, code: int, kind: type[ApiError]) -> None:
    error = errors.from_status(Status(reason=reason, code=code, message="why"))
    assert type(error) is kind
    assert (error.reason, error.code, error.message, str(error)) == (reason, code, "why", "why")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"kind":"Status","message":"no such pod","reason":"NotFound","code":404}', "no such pod"),
        (b'{"kind":"Status","message":"no code in it"}', "no code in it"),
        (b"404 page not found\n", "404 page not found"),
        (b"<html>\xff</html>", "<html>\ufffd</html>"),
        (b"", "the server answered 404"),
    ],
)
def test_a_response_becomes_an_error_whatever_its_body(body: bytes, message: str) -> None:
    error = errors.from_response(404, body)
    assert isinstance(error, errors.NotFound) and (error.code, error.message) == (404, message)


def test_a_status_survives_the_wire() -> None:
    causes = [StatusCause("FieldValueInvalid", "too long", "metadata.name")]
    sent = errors.failure(
        422, "Invalid", "bad", name="a", group="apps", kind="StatefulSet", causes=causes, retry_after=3
    )
    received = errors.from_response(422, msgspec.json.encode(sent.to_json()))
    assert isinstance(received, errors.Invalid) and received.status == sent.status
    assert received.retry_after == 3
    assert received.caused_by("FieldValueInvalid") and not received.caused_by("FieldValueRequired")
    assert received.names_field("metadata.name") and not received.names_field("spec")


def test_an_error_without_details_has_no_causes() -> None:
    error = errors.from_status(Status(code=500))
    assert error.retry_after == 0 and not error.caused_by("") and not error.names_field("")


def test_details_are_left_out_when_there_are_none() -> None:
    assert errors.failure(500, "InternalError", "no").status.details is None
    assert errors.generic(404, "NotFound", "no").status.details == StatusDetails()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.not_found("pods", "a"), 404, 'pods "a" not found'),
        (errors.not_found("statefulsets", "a", "apps"), 404, 'statefulsets.apps "a" not found'),
        (errors.already_exists("pods", "a"), 409, 'pods "a" already exists'),
        (
            errors.conflict("pods", "a", errors.STALE),
            409,
            'Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the '
            "latest version and try again",
        ),
        (errors.unauthorized(), 401, "Unauthorized"),
        (errors.already_exists("pods", "a", terminating=True), 409, 'object is being deleted: pods "a" already exists'),
        (errors.forbidden("pods", "a", "no"), 403, 'pods "a" is forbidden: no'),
        (errors.forbidden("statefulsets", "", "no", "apps"), 403, "statefulsets.apps is forbidden: no"),
        (errors.internal("disk full"), 500, "Internal error occurred: disk full"),
        (errors.expired("too old resource version: 1 (5)"), 410, "too old resource version: 1 (5)"),
        (errors.path_not_found(), 404, "the server could not find the requested resource"),
        (errors.bad_request("no"), 400, "no"),
    ],
)
def test_the_wording_of_common_errors(error: ApiError, code: int, message: str) -> None:
    assert (error.code, error.message) == (code, message)


def test_no_answer_is_not_a_status_of_the_server() -> None:
    error = errors.Unreachable("connection refused", unconnected="https://a")
    assert (error.code, error.reason, error.unconnected) == (0, "Unreachable", "https://a")
    assert errors.Unreachable("timed out").unconnected == ""


LONG = FieldError("FieldValueTooLong", "spec.a", "Too long: may not be more than 3 bytes")
LESS = FieldError("FieldValueInvalid", "spec.b", "Invalid value: -1: must be greater than or equal to 0")


def test_one_invalid_field_is_named_after_the_object() -> None:
    error = errors.invalid("StatefulSet", "a", [LONG], "apps")
    assert error.message == f'StatefulSet.apps "a" is invalid: {LONG}'
    assert error.names_field("spec.a") and error.caused_by("FieldValueTooLong")


def test_several_invalid_fields_are_listed_and_a_repeated_one_only_once() -> None:
    error = errors.invalid("Pod", "a", [LONG, LESS, LONG])
    assert error.message == f'Pod "a" is invalid: [{LONG}, {LESS}]'
    details = error.status.details
    assert details is not None and [cause.field for cause in details.causes] == ["spec.a", "spec.b", "spec.a"]


def test_a_client_is_told_when_to_come_back() -> None:
    error = errors.too_many_requests("busy", retry_after=7)
    assert (error.code, error.retry_after) == (429, 7)


@given(st.integers(400, 599), st.binary(max_size=200))
def test_any_answer_becomes_an_error_with_a_code_and_a_message(code: int, body: bytes) -> None:
    error = errors.from_response(code, body)
    assert error.code and error.message
    assert errors.from_response(error.code, msgspec.json.encode(error.to_json())).message == error.message


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.MethodNotAllowed),
        (406, errors.NotAcceptable),
        (409, errors.Conflict),
        (410, errors.Expired),
        (413, errors.RequestTooLarge),
        (415, errors.UnsupportedMediaType),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (500, errors.InternalError),
        (503, errors.ServiceUnavailable),
        (504, errors.Timeout),
        (416, ApiError),
        (501, ApiError),
        (502, ApiError),
    ],
)
def test_an_answer_of_a_proxy_is_known_by_its_code(code: int, kind: type[ApiError]) -> None:
    error = errors.from_response(code, b"<html>sorry</html>")
    assert (type(error), error.code, error.message) == (kind, code, "<html>sorry</html>")
