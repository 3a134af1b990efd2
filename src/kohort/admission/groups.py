"""The webhooks of LeaderWorkerSets and of the pods in their groups."""

from functools import partial
from typing import Final

from kohort.admission.reviews import Endpoints, Refused, mutating, validating
from kohort.groups.defaulting import defaulted
from kohort.groups.podmutation import PodRefused, mutated
from kohort.groups.validation import create_errors, update_errors
from kohort.objects.fielderrors import FieldError
from kohort.objects.jsontypes import JsonObject

MUTATE_SET: Final = "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
VALIDATE_SET: Final = "/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
MUTATE_POD: Final = "/mutate--v1-pod"
VALIDATE_POD: Final = "/validate--v1-pod"
"""Not registered by us. Where another operator stood before, its configuration may still ask; it gets the same yes."""


def endpoints(*, default_resize_policy: str = "None", gang: bool = False) -> Endpoints:
    return {
        MUTATE_SET: mutating(lambda request: defaulted(request["object"])),
        VALIDATE_SET: validating(partial(_set_errors, default_resize_policy=default_resize_policy)),
        MUTATE_POD: mutating(partial(_pod, gang=gang)),
        VALIDATE_POD: validating(lambda _: []),
    }


def _set_errors(request: JsonObject, *, default_resize_policy: str) -> list[FieldError]:
    new, old = request.get("object"), request.get("oldObject")
    if new is None:
        return []
    if old is None:
        return create_errors(new)
    return update_errors(new, old, default_resize_policy=default_resize_policy)


def _pod(request: JsonObject, *, gang: bool) -> JsonObject:
    pod: JsonObject = request["object"]
    namespace = pod["metadata"].get("namespace") or request.get("namespace") or ""
    try:
        return mutated(pod, namespace, gang=gang)
    except PodRefused as refusal:
        raise Refused(str(refusal)) from refusal
