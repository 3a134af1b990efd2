"""AdmissionReview: what a webhook is sent, and what its answer means."""

import base64
import binascii
from typing import Final

import msgspec

from kohort.cluster.apiserver.admission.matching import is_namespace
from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.patch.go_error_text import json_name
from kohort.cluster.apiserver.schema import json_body
from kohort.kube import errors
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject

KNOWN: Final = ("v1", "v1beta1")


class BadReview(ValueError):
    """The webhook's answer is not one."""

    def __str__(self) -> str:
        return f"received invalid webhook response: {super().__str__()}"


class UnreadableReview(BadReview):
    """The answer cannot be decoded."""

    def __str__(self) -> str:
        return str(self.args[0])


class ReviewDecision(msgspec.Struct, frozen=True):
    allowed: bool
    patch: list[Json]
    warnings: list[str]
    result: JsonObject


def review_version(accepted: list[str]) -> str:
    """The first review version in a webhook's list that we speak."""
    for version in accepted:
        if version in KNOWN:
            return version
    raise BadReview("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def request_for(
    attributes: Attributes, matched: Resource, obj: JsonObject | None, old: JsonObject | None, uid: str
) -> JsonObject:
    """The `request` of a review. `matched` is the resource in the version that the webhook asked for."""
    own = attributes.resource
    request: JsonObject = {
        "uid": uid,
        "kind": _kind(attributes, matched, obj, old),
        "resource": _resource(matched),
        "subResource": attributes.subresource,
        "requestKind": _kind(attributes, own, attributes.object, attributes.old_object),
        "requestResource": _resource(own),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": request_namespace(attributes),
        "operation": attributes.operation,
        "userInfo": _user(attributes),
        "object": obj,
        "oldObject": old,
        "dryRun": attributes.dry_run,
        "options": _options(attributes.options),
    }
    return {key: value for key, value in request.items() if value != "" or key in _ALWAYS}


_ALWAYS: Final = frozenset({"uid", "operation"})


def request_namespace(attributes: Attributes) -> str:
    """A Namespace lies in itself, except when it is made without a name."""
    if not is_namespace(attributes.resource):
        return attributes.namespace
    unnamed = attributes.operation == "CREATE" and (attributes.object or {}).get("metadata", {}).get("generateName")
    return "" if unnamed else attributes.name


def _options(options: JsonObject) -> JsonObject | None:
    """Clients send DeleteOptions in the version of any group; webhooks always see them in the same."""
    if options.get("kind") == "DeleteOptions":
        return {**options, "apiVersion": "meta.k8s.io/v1"}
    return options or None


def _kind(attributes: Attributes, resource: Resource, obj: JsonObject | None, old: JsonObject | None) -> JsonObject:
    """What the object says it is: a subresource may carry an object of another kind (Scale, Eviction)."""
    shown = obj if obj is not None else old
    if attributes.subresource and shown is not None and shown.get("kind"):
        group, _, version = (shown.get("apiVersion") or "").rpartition("/")
        return {"group": group, "version": version, "kind": shown["kind"]}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(resource: Resource) -> JsonObject:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _user(attributes: Attributes) -> JsonObject:
    user = attributes.user
    shown: JsonObject = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    if user.extra:
        shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    return {key: value for key, value in shown.items() if value}


def review_bytes(version: str, request: JsonObject) -> bytes:
    review = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}
    return msgspec.json.encode(review)


def verdict_of(body: bytes, version: str, uid: str, *, mutating: bool) -> ReviewDecision:
    """What a webhook decided. BadReview when it did not say so properly."""
    try:
        review = msgspec.json.decode(body)
    except msgspec.DecodeError:
        raise UnreadableReview(
            f"failed to call webhook: couldn't get version/kind; json parse error: {_NO_OBJECT}"
        ) from None
    if isinstance(review, dict):
        _check_version(review.get("apiVersion") or "", version)
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise BadReview("webhook response was absent")
    if version == "v1":
        _check_identity(review, response, uid)
    result = response.get("result" if "result" in response else "status") or {}
    return ReviewDecision(
        allowed=response.get("allowed") is True,
        patch=_patch(response, version, mutating=mutating),
        warnings=[str(text) for text in response.get("warnings") or () if text],
        result=result,
    )


_NO_OBJECT: Final = (
    'json: cannot unmarshal string into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


def _check_version(found: str, version: str) -> None:
    """Whether a review has the other supported version, which has an error message of its own."""
    other = next(one for one in KNOWN if one != version)
    if found == f"admission.k8s.io/{other}":
        text = f"converting ({other}.AdmissionReview) to ({version}.AdmissionReview): unknown conversion"
        raise UnreadableReview(f"failed to call webhook: {text}")


def _check_identity(review: JsonObject, response: JsonObject, uid: str) -> None:
    if response.get("uid") != uid:
        raise BadReview(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    kind, api_version = review.get("kind") or "", review.get("apiVersion") or ""
    if (kind, api_version) != ("AdmissionReview", "admission.k8s.io/v1"):
        expected = "admission.k8s.io/v1, Kind=AdmissionReview"
        found = api_version if "/" in api_version else f"/{api_version}"
        raise BadReview(f"expected webhook response of {expected}, got {found}, Kind={kind}")


def _patch(response: JsonObject, version: str, *, mutating: bool) -> list[Json]:
    encoded, kind = response.get("patch") or "", response.get("patchType")
    if version == "v1":
        _check_patch_fields(encoded, kind, mutating=mutating)
    if not encoded or not mutating:
        return []
    try:
        operations = json_body.decode(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError) as error:
        raise UnreadableReview(f"received undecodable patch in webhook response: {error}") from None
    if operations is None:
        return []
    if not isinstance(operations, list):
        found = f"json: cannot unmarshal {json_name(operations)} into Go value of type jsonpatch.Patch"
        raise UnreadableReview(f"received undecodable patch in webhook response: {found}")
    if version == "v1" and kind != "JSONPatch":
        raise BadReview(f'unsupported patch type "{kind}"')
    return operations


def _check_patch_fields(encoded: str, kind: str | None, *, mutating: bool) -> None:
    if not mutating:
        if encoded:
            raise BadReview("validating webhook may not return response.patch")
        if kind is not None:
            raise BadReview("validating webhook may not return response.patchType")
        return
    if encoded and kind is None:
        raise BadReview("webhook returned response.patch but not response.patchType")
    if not encoded and kind is not None:
        raise BadReview("webhook returned response.patchType but not response.patch")
    if kind == "":
        raise BadReview('webhook returned invalid response.patchType of ""')


def denial(webhook: str, result: JsonObject) -> errors.ApiError:
    """The error of a request that a webhook refused; what the webhook says about it is passed on."""
    denied = f'admission webhook "{webhook}" denied the request'
    reason, message = result.get("reason") or "", result.get("message") or ""
    text = f"{denied}: {message or reason}" if message or reason else f"{denied} without explanation"
    code = result.get("code") or 0
    try:
        status = msgspec.convert(result, errors.Status)
    except msgspec.ValidationError:
        status = errors.Status(reason=str(reason))
    status.code = code if isinstance(code, int) and code >= 400 else 400
    status.status = "Failure"
    status.message = text
    return errors.from_status(status)
