"""Asks the cluster whether a user may do something, by SubjectAccessReview."""

from kohort.kube.client import Client
from kohort.kube.resources import SUBJECT_ACCESS_REVIEWS, Resource
from kohort.objects.json_types import JsonObject


def resource_access(verb: str, resource: Resource, namespace: str = "", name: str = "") -> JsonObject:
    """A request for objects. Without a name it is for all of them, without a namespace in all."""
    attributes = {
        "verb": verb,
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "namespace": namespace,
    }
    return {"resourceAttributes": {**attributes, "name": name} if name else attributes}


def path_access(verb: str, path: str) -> JsonObject:
    """A request for something that is not an object."""
    return {"nonResourceAttributes": {"path": path, "verb": verb}}


async def is_allowed(client: Client, user: JsonObject, access: JsonObject) -> bool:
    """`user` is as TokenReviews and AdmissionReviews describe one. Raises ApiError if the cluster does not
    answer: take that for a no."""
    spec: JsonObject = {
        "user": user.get("username") or "",
        "uid": user.get("uid") or "",
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
        **access,
    }
    answer: JsonObject = await client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
    return (answer.get("status") or {}).get("allowed") is True
