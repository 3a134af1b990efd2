"""Answers of an API server, told so that a person knows what to do."""

import re

from kohort.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    StatusCause,
    Unauthorized,
    Unreachable,
)

_CONNECTING = re.compile(r"^[A-Z]+ (https?://[^/]+)\S*: Cannot connect.*$", re.DOTALL)
_WHOLE_PATCH = re.compile(r'^Invalid value: "(?:[^"\\]|\\.)*": (?:strict decoding error: )?', re.DOTALL)
_KIND_UNKNOWN = ("the server could not find the requested resource", "404 page not found")


def described(problem: ApiError, namespace: str, subject: str = "") -> str:
    """`subject` is what was sent, for answers that do not name it.

    | answer | what is said about it |
    |---|---|
    | none | is the cluster running? |
    | 401 | the credentials |
    | 403, for lack of a right | who must grant it |
    | 404 without an object | the kind is not installed |
    | 409 | try again |
    | 422, and 403 that names fields | every field that is wrong, one per line |
    """
    text = problem.message
    if isinstance(problem, Unreachable):
        text = _CONNECTING.sub(r"\1 cannot be reached", text)
        return f"no answer: {text}; is the cluster running? (kohort up --detach, or choose another --context)"
    if isinstance(problem, Unauthorized):
        return "the cluster does not know these credentials; log in again, or choose another --context or --kubeconfig"
    if isinstance(problem, Invalid) or (isinstance(problem, Forbidden) and _names_fields(problem)):
        return _fields(problem, subject)
    if isinstance(problem, Forbidden):
        return f"{text}; ask an administrator of the cluster for this right" if " cannot " in text else text
    if isinstance(problem, NotFound) and text.strip() in _KIND_UNKNOWN:
        return "this cluster does not know LeaderWorkerSets; `kohort install` brings them"
    if isinstance(problem, NotFound):
        return f"{text} in namespace {namespace}"
    if isinstance(problem, Conflict):
        return f"{text} (somebody changed it meanwhile: try again)"
    return text


def _names_fields(problem: ApiError) -> bool:
    """As webhooks do that refuse an object; a right that is missing is not about a field."""
    details = problem.status.details
    return details is not None and any(cause.field for cause in details.causes)


def _fields(problem: ApiError, subject: str) -> str:
    details = problem.status.details
    if details is None or not details.causes:
        return problem.message
    lines = dict.fromkeys(f"  {_field(cause)}" for cause in details.causes if _speaks(cause.field))
    named = f"{details.kind} {details.name}".strip() or subject or "the change"
    return "\n".join([f"{named} is refused:", *lines])


def _field(cause: StatusCause) -> str:
    r"""
    >>> _field(StatusCause(message="spec.size in body should be at least 1", field="spec.size"))
    'spec.size: should be at least 1'

    What is wrong with a patch as a whole is told by repeating all of it; the reader has it already.

    >>> text = r'Invalid value: "{\"spec\":{\"sise\":1}}": strict decoding error: unknown field "spec.sise"'
    >>> _field(StatusCause(message=text, field="patch"))
    'unknown field "spec.sise"'
    """
    if cause.field == "patch":
        return _WHOLE_PATCH.sub("", cause.message)
    return f"{cause.field}: {cause.message.replace(f'{cause.field} in body ', '')}"


def _speaks(field: str) -> bool:
    """What follows from a wrong type is told as well: rules that could not be judged, under no or an odd field."""
    return not field.startswith(("<nil>", "."))
