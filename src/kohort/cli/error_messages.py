"""Errors of an API server as messages of the command line, with what the user can do about them."""

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
from kohort.rules.api_server_message import (
    RequestRefusal,
    is_denied_by_webhook,
    request_refusal,
    without_field,
    without_patch,
)


def described(problem: ApiError, namespace: str, subject: str = "", *, start: str = "kohort up --detach") -> str:
    """`subject` is what was sent, for answers that do not name it; `start` is what would start the cluster.

    | answer | the message adds |
    |---|---|
    | none | is the cluster running? |
    | 401 | which options choose other credentials |
    | 403, for lack of a right | who can grant it |
    | 404 without an object | that the kind is not installed |
    | 409, unless a webhook gave it | try again |
    | 422, and 403 that names fields | every field that is wrong, one per line |
    """
    text = problem.message
    refusal = request_refusal(text)
    if isinstance(problem, Unreachable):
        text = f"{problem.unconnected} cannot be reached" if problem.unconnected else text
        return f"no answer: {text}; is the cluster running? ({start}, or choose another --context)"
    if isinstance(problem, Unauthorized):
        return "the cluster does not know these credentials; log in again, or choose another --context or --kubeconfig"
    if isinstance(problem, Invalid) or (isinstance(problem, Forbidden) and _names_fields(problem)):
        return _fields(problem, subject)
    if isinstance(problem, Forbidden):
        missing = refusal is RequestRefusal.RIGHT_MISSING
        return f"{text}; ask an administrator of the cluster for this right" if missing else text
    if isinstance(problem, NotFound) and refusal is RequestRefusal.KIND_NOT_SERVED:
        return "this cluster does not know LeaderWorkerSets; `kohort install` brings them"
    if isinstance(problem, NotFound):
        return f"{text} in namespace {namespace}"
    if isinstance(problem, Conflict) and not is_denied_by_webhook(text):
        return f"{text} (it was changed meanwhile: try again)"
    return text


def _names_fields(problem: ApiError) -> bool:
    """Webhooks that refuse an object name fields; a refusal for lack of a right does not."""
    details = problem.status.details
    return details is not None and any(cause.field for cause in details.causes)


def _fields(problem: ApiError, subject: str) -> str:
    details = problem.status.details
    if details is None or not details.causes:
        return problem.message
    lines = dict.fromkeys(f"  {_field(cause)}" for cause in details.causes if _is_field(cause.field))
    named = f"{details.kind} {details.name}".strip() or subject or "the change"
    return "\n".join([f"{named} is refused:", *lines])


def _field(cause: StatusCause) -> str:
    if cause.field == "patch":
        return without_patch(cause.message)
    return f"{cause.field}: {without_field(cause.message, cause.field)}"


def _is_field(name: str) -> bool:
    """A value of a wrong type has consequences under no field or an odd one: validation rules that could not run."""
    return not name.startswith(("<nil>", "."))
