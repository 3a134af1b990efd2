"""API errors: the `Status` object as an exception, raised by the client and by the embedded API server alike."""

from collections.abc import Iterable, Sequence

import msgspec

from kohort.objects.field_errors import FieldError
from kohort.objects.go_quote import go_quote
from kohort.objects.json_types import JsonObject


class StatusCause(msgspec.Struct, omit_defaults=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, omit_defaults=True, rename="camel"):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] = []
    retry_after_seconds: int = 0


class ListMeta(msgspec.Struct, omit_defaults=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class Status(msgspec.Struct, rename="camel", omit_defaults=True):
    kind: str = msgspec.field(default_factory=lambda: "Status")
    api_version: str = msgspec.field(default_factory=lambda: "v1")
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ApiError(Exception):
    """A request that was answered with something other than 2xx."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def reason(self) -> str:
        return self.status.reason

    @property
    def message(self) -> str:
        return self.status.message

    @property
    def retry_after(self) -> int:
        return self.status.details.retry_after_seconds if self.status.details else 0

    def caused_by(self, reason: str) -> bool:
        """One of the causes has this reason."""
        return any(cause.reason == reason for cause in (self.status.details.causes if self.status.details else ()))

    def names_field(self, field: str) -> bool:
        """One of the causes is about this field."""
        return any(cause.field == field for cause in (self.status.details.causes if self.status.details else ()))

    def to_json(self) -> JsonObject:
        document: JsonObject = msgspec.to_builtins(self.status)
        return document


NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause of errors on creation in a namespace that is being deleted: a retry does not help."""


class NotFound(ApiError): ...


class AlreadyExists(ApiError): ...


class Conflict(ApiError): ...


class Invalid(ApiError): ...


class BadRequest(ApiError): ...


class Forbidden(ApiError): ...


class Unauthorized(ApiError): ...


class Expired(ApiError):
    """410: the resource version is older than the kept history."""


class TooManyRequests(ApiError): ...


class Timeout(ApiError): ...


class MethodNotAllowed(ApiError): ...


class NotAcceptable(ApiError): ...


class UnsupportedMediaType(ApiError): ...


class RequestTooLarge(ApiError): ...


class InternalError(ApiError): ...


class ServiceUnavailable(ApiError): ...


class Unreachable(ApiError):
    """No answer: refused, cut off or timed out. Whether the server acted upon the request is unknown."""

    def __init__(self, message: str, unconnected: str = "") -> None:
        super().__init__(Status(status="Failure", message=message, reason="Unreachable"))
        self.unconnected = unconnected
        """URL of the server, if not even a connection to it was made."""


_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Invalid": Invalid,
    "BadRequest": BadRequest,
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
    "Expired": Expired,
    "Gone": Expired,
    "TooManyRequests": TooManyRequests,
    "Timeout": Timeout,
    "MethodNotAllowed": MethodNotAllowed,
    "NotAcceptable": NotAcceptable,
    "UnsupportedMediaType": UnsupportedMediaType,
    "RequestEntityTooLarge": RequestTooLarge,
    "InternalError": InternalError,
    "ServiceUnavailable": ServiceUnavailable,
}

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Expired,
    413: RequestTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    503: ServiceUnavailable,
    504: Timeout,
}


def from_status(status: Status) -> ApiError:
    """The exception class that fits a Status."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, ApiError)
    return kind(status)


def from_response(code: int, body: bytes) -> ApiError:
    """The exception for an HTTP response, whether its body is a Status or not."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status()
    if not status.code:
        text = status.message or body.decode(errors="replace").strip() or f"the server answered {code}"
        status = Status(status="Failure", message=text, reason=status.reason, code=code)
    return from_status(status)


def failure(
    code: int,
    reason: str,
    message: str,
    *,
    name: str = "",
    group: str = "",
    kind: str = "",
    uid: str = "",
    causes: Sequence[StatusCause] = (),
    retry_after: int = 0,
) -> ApiError:
    """Any failure. The functions below build the common ones with the exact wording that clients match on."""
    details = StatusDetails(
        name=name, group=group, kind=kind, uid=uid, causes=list(causes), retry_after_seconds=retry_after
    )
    empty = details == StatusDetails()
    return from_status(
        Status(status="Failure", message=message, reason=reason, details=None if empty else details, code=code)
    )


def qualified(plural: str, group: str) -> str:
    """`statefulsets.apps`, or `pods` for the core group."""
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, name: str, group: str = "") -> ApiError:
    message = f'{qualified(plural, group)} "{name}" not found'
    return failure(404, "NotFound", message, name=name, group=group, kind=plural)


def generic(code: int, reason: str, message: str) -> ApiError:
    """A failure without an object, as the server answers before it knows one: with empty details."""
    return from_status(Status(status="Failure", message=message, reason=reason, details=StatusDetails(), code=code))


def path_not_found() -> ApiError:
    return generic(404, "NotFound", "the server could not find the requested resource")


def already_exists(plural: str, name: str, group: str = "", *, terminating: bool = False) -> ApiError:
    prefix = "object is being deleted: " if terminating else ""
    message = f'{prefix}{qualified(plural, group)} "{name}" already exists'
    return failure(409, "AlreadyExists", message, name=name, group=group, kind=plural)


def conflict(plural: str, name: str, detail: str, group: str = "", causes: Sequence[StatusCause] = ()) -> ApiError:
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {detail}'
    return failure(409, "Conflict", message, name=name, group=group, kind=plural, causes=causes)


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: str, name: str, errors: Iterable[FieldError], group: str = "") -> ApiError:
    found = list(errors)
    texts = list(dict.fromkeys(str(error) for error in found))  # the causes repeat, the message does not
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f"{qualified(kind, group)} {go_quote(name)} is invalid: {text}"
    causes = [StatusCause(reason=error.reason, message=error.message, field=error.field) for error in found]
    return failure(422, "Invalid", message, name=name, group=group, kind=kind, causes=causes)


def bad_request(message: str) -> ApiError:
    return failure(400, "BadRequest", message)


def forbidden(plural: str, name: str, detail: str, group: str = "", causes: Sequence[StatusCause] = ()) -> ApiError:
    subject = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    message = f"{subject} is forbidden: {detail}"
    return failure(403, "Forbidden", message, name=name, group=group, kind=plural, causes=causes)


def unauthorized() -> ApiError:
    return failure(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> ApiError:
    return failure(410, "Expired", message)


def internal(message: str) -> ApiError:
    cause = StatusCause(message=message)
    return failure(500, "InternalError", f"Internal error occurred: {message}", causes=[cause])


def too_many_requests(message: str, retry_after: int = 1, causes: Sequence[StatusCause] = ()) -> ApiError:
    return failure(429, "TooManyRequests", message, causes=causes, retry_after=retry_after)
