"""Asks the cluster whether a user may do something, by SubjectAccessReview."""

from kohort.kube.client import Client
from kohort.kube.resources import SUBJECT_ACCESS_REVIEWS, Resource
from kohort.objects.json_types import JsonObject


def resource_access(
    verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = ""
) -> JsonObject:
    """A request for objects. Without a name it is for all of them, without a namespace in all."""
    attributes = {
        "verb": verb,
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "namespace": namespace,
    }
    if name:
        attributes["name"] = name
    if subresource:
        attributes["subresource"] = subresource
    return {"resourceAttributes": attributes}


def path_access(verb: str, path: str) -> JsonObject:
    """A request for something that is not an object."""
    return {"nonResourceAttributes": {"path": path, "verb": verb}}


def access_review(user: JsonObject, access: JsonObject) -> JsonObject:
    """The question whether a user may do something. `user` is as TokenReviews and AdmissionReviews describe one."""
    return {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {
            "user": user.get("username") or "",
            "uid": user.get("uid") or "",
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            **access,
        },
    }


def says_yes(answer: JsonObject) -> bool:
    return (answer.get("status") or {}).get("allowed") is True


async def is_allowed(client: Client, user: JsonObject, access: JsonObject) -> bool:
    """Raises ApiError if the cluster does not answer: take that for a no."""
    return says_yes(await client.create(SUBJECT_ACCESS_REVIEWS, access_review(user, access)))
