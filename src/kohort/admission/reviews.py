"""Reviews: what an API server asks, and what is answered.

A handler gets the `request` of an AdmissionReview and answers with `allowed`, or refuses with field errors in the words
of the API. A mutating handler returns the object as it should be; the patch is computed here, against what was sent, so
that fields unknown to this version survive.
"""

import base64
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from kohort.admission.jsondiff import operations
from kohort.objects.field_errors import FieldError, listed
from kohort.objects.json_types import JsonObject

Mutate = Callable[[JsonObject], JsonObject]
"""From a request to the object that should be stored. Raises Refused."""
MutateAsync = Callable[[JsonObject], Awaitable[JsonObject]]
"""As Mutate, for changes that depend on requests."""
Validate = Callable[[JsonObject], list[FieldError]]
ValidateAsync = Callable[[JsonObject], Awaitable[list[FieldError]]]
"""As Validate, for checks that make requests."""


class Refused(Exception):
    """The request is denied. The message reaches the user, and so do the fields that are wrong, if it is about such."""

    def __init__(self, message: str, found: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.found = found

    @classmethod
    def because_of(cls, found: Sequence[FieldError]) -> "Refused":
        return cls(listed(found), found)


def mutating(handler: Mutate) -> Callable[[JsonObject], JsonObject]:
    def answer(request: JsonObject) -> JsonObject:
        try:
            wanted = handler(request)
        except Refused as refusal:
            return _denied(request, refusal)
        changes = operations(request["object"], wanted)
        if not changes:
            return {"allowed": True}
        patch = base64.b64encode(msgspec.json.encode(changes)).decode()
        return {"allowed": True, "patch": patch, "patchType": "JSONPatch"}

    return answer


def mutating_async(handler: MutateAsync) -> Callable[[JsonObject], Awaitable[JsonObject]]:
    """As `mutating`, for handlers that make requests."""

    async def answer(request: JsonObject) -> JsonObject:
        try:
            wanted = await handler(request)
        except Refused as refusal:
            return _denied(request, refusal)
        return mutating(lambda _: wanted)(request)

    return answer


def validating(handler: Validate) -> Callable[[JsonObject], JsonObject]:
    def answer(request: JsonObject) -> JsonObject:
        try:
            found = handler(request)
        except Refused as refusal:
            return _denied(request, refusal)
        return _denied(request, Refused.because_of(found)) if found else {"allowed": True}

    return answer


def validating_async(handler: ValidateAsync) -> Callable[[JsonObject], Awaitable[JsonObject]]:
    async def answer(request: JsonObject) -> JsonObject:
        found = await handler(request)
        return _denied(request, Refused.because_of(found)) if found else {"allowed": True}

    return answer


def _denied(request: JsonObject, refusal: Refused) -> JsonObject:
    status: JsonObject = {"code": 403, "reason": "Forbidden", "message": str(refusal)}
    if refusal.found:
        kind = request.get("kind") or {}
        causes = [{"reason": one.reason, "field": one.field, "message": one.message} for one in refusal.found]
        status["details"] = {
            "name": request.get("name") or "",
            "group": kind.get("group") or "",
            "kind": kind.get("kind") or "",
            "causes": causes,
        }
    return {"allowed": False, "status": status}


Endpoints = Mapping[str, Callable[[JsonObject], JsonObject | Awaitable[JsonObject]]]
"""What is answered at which path."""


async def review(endpoints: Endpoints, path: str, body: bytes) -> JsonObject:
    """Answer a whole AdmissionReview, or ConversionReview. ValueError when it is none."""
    try:
        document = msgspec.json.decode(body)
        request = document["request"]
        uid = request["uid"]
    except (msgspec.DecodeError, KeyError, TypeError) as problem:
        raise ValueError(f"not a review: {problem}") from problem
    answered = endpoints[path](request)
    response = await answered if inspect.isawaitable(answered) else answered
    return {
        "apiVersion": document.get("apiVersion", "admission.k8s.io/v1"),
        "kind": document.get("kind", "AdmissionReview"),
        "response": {"uid": uid, **response},
    }
