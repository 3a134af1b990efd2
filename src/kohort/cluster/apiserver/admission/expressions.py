"""Expressions about a request: match conditions of webhooks, admission policies.

`object` and `oldObject` are plain JSON here, since one expression sees objects of many kinds; what is misspelt in them
shows when it is evaluated. `request` has a type, so that a mistake in it shows at once.
"""

from collections.abc import Mapping

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.reviews import request_for
from kohort.cluster.apiserver.auth.model import AccessRequest
from kohort.cluster.apiserver.cel import Environment
from kohort.cluster.apiserver.cel.functions.authorizer import Authorize, Authorizer, AuthorizerCheck
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject


def variable_values(attributes: Attributes, matched: Resource, authorize: Authorize) -> JsonObject:
    """The values of the common variables for one request, by name."""
    obj, old = attributes.object, attributes.old_object
    request = request_for(attributes, matched, None, None, "")
    for key in ("uid", "object", "oldObject"):
        request.pop(key, None)
    authorizer = Authorizer(authorize, attributes.user)
    own = attributes.resource
    access = AccessRequest(
        attributes.user,
        "",
        group=own.group,
        version=own.version,
        plural=own.plural,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
    return {
        "object": obj if attributes.operation != "DELETE" else None,
        "oldObject": old,
        "request": request,
        "authorizer": authorizer,
        "authorizer.requestResource": AuthorizerCheck(authorize, access, "ResourceCheck"),
    }


def arguments(environment: Environment, values: Mapping[str, Json]) -> list[Json]:
    """The values in the order in which an environment declares its variables."""
    return [values.get(name) for name in environment.variables]
