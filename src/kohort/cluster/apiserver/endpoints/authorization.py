"""Asking the authorizer, and the refusals it leads to."""

from kohort.cluster.apiserver.auth.model import AccessRequest
from kohort.cluster.apiserver.endpoints.request_context import Authorizer, ResourceRequest
from kohort.kube import errors


def check(authorizer: Authorizer, request: AccessRequest) -> None:
    decision = authorizer.authorize(request)
    if not decision.allowed:
        raise refusal(request, decision.reason)


def refusal(request: AccessRequest, reason: str = "") -> errors.ApiError:
    """403 in the words that people paste into search engines."""
    user = f'User "{request.user.name}"'
    tail = f": {reason}" if reason else ""
    if request.path:
        return errors.generic(403, "Forbidden", f'forbidden: {user} cannot {request.verb} path "{request.path}"{tail}')
    resource = f"{request.plural}/{request.subresource}" if request.subresource else request.plural
    scope = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
    detail = f'{user} cannot {request.verb} resource "{resource}" in API group "{request.group}" {scope}{tail}'
    return errors.forbidden(request.plural, request.name, detail, request.group)


def to_create(call: ResourceRequest) -> AccessRequest:
    """What an update or a patch asks for besides when there is nothing yet that it could change."""
    resource = call.kind.resource
    return AccessRequest(
        user=call.user,
        verb="create",
        group=resource.group,
        version=resource.version,
        plural=resource.plural,
        namespace=call.namespace,
        name=call.name,
    )


def to_create_subresource(call: ResourceRequest) -> AccessRequest:
    """What a connection through a subresource asks for besides when it is opened by a GET."""
    return AccessRequest(
        user=call.user,
        verb="create",
        group=call.path.group,
        version=call.path.version,
        plural=call.path.plural,
        subresource=call.path.subresource,
        namespace=call.path.namespace,
        name=call.path.name,
    )
