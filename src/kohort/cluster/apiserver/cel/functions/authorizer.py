"""Questions to the authorizer from admission expressions:
`authorizer.group('apps').resource('deployments').namespace('n').check('create').allowed()`."""

from collections.abc import Callable

import msgspec

from kohort.cluster.apiserver.auth.model import AccessDecision, AccessRequest, User
from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.values import Extension

Authorize = Callable[[AccessRequest], AccessDecision]

_PREFIX = "kubernetes.authorization."


class Authorizer(Extension):
    """Asks on behalf of one user."""

    __slots__ = ("authorize", "user")
    type_name = _PREFIX + "Authorizer"

    def __init__(self, authorize: Authorize, user: User) -> None:
        self.authorize = authorize
        self.user = user


class AuthorizerCheck(Extension):
    """A question under construction. One class for paths, groups and resources: the types keep them apart."""

    __slots__ = ("authorize", "request", "type_name")

    def __init__(self, authorize: Authorize, request: AccessRequest, kind: str) -> None:
        self.authorize = authorize
        self.request = request
        self.type_name = _PREFIX + kind


class AuthorizerDecision(Extension):
    __slots__ = ("decision",)
    type_name = _PREFIX + "Decision"

    def __init__(self, decision: AccessDecision) -> None:
        self.decision = decision


def path_check(authorizer: Authorizer, path: str) -> AuthorizerCheck:
    if not path.strip("/"):
        raise CelError("path must not be empty")
    return AuthorizerCheck(authorizer.authorize, AccessRequest(authorizer.user, "", path=path), "PathCheck")


def group_check(authorizer: Authorizer, group: str) -> AuthorizerCheck:
    return AuthorizerCheck(
        authorizer.authorize, AccessRequest(authorizer.user, "", group=group, version="*"), "GroupCheck"
    )


def service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Authorizer(authorizer.authorize, User(f"system:serviceaccount:{namespace}:{name}", groups))


def resource_check(check: AuthorizerCheck, resource: str) -> AuthorizerCheck:
    if not resource:
        raise CelError("resource must not be empty")
    return _with(check, plural=resource)


def _with(check: AuthorizerCheck, **changes: str) -> AuthorizerCheck:
    return AuthorizerCheck(check.authorize, msgspec.structs.replace(check.request, **changes), "ResourceCheck")


def ask(check: AuthorizerCheck, verb: str) -> AuthorizerDecision:
    return AuthorizerDecision(check.authorize(msgspec.structs.replace(check.request, verb=verb)))


def unchanged(check: AuthorizerCheck, selector: str) -> AuthorizerCheck:
    """Selectors narrow a question; an authorizer that does not look at them answers the wider one."""
    return check


LIBRARY = Library(
    (
        Function("authorizer::path(string): pathCheck", path_check),
        Function("authorizer::group(string): groupCheck", group_check),
        Function("authorizer::serviceAccount(string, string): authorizer", service_account),
        Function("groupCheck::resource(string): resourceCheck", resource_check),
        Function(
            "resourceCheck::subresource(string): resourceCheck", lambda check, name: _with(check, subresource=name)
        ),
        Function("resourceCheck::namespace(string): resourceCheck", lambda check, name: _with(check, namespace=name)),
        Function("resourceCheck::name(string): resourceCheck", lambda check, name: _with(check, name=name)),
        Function("resourceCheck::fieldSelector(string): resourceCheck", unchanged),
        Function("resourceCheck::labelSelector(string): resourceCheck", unchanged),
        Function("pathCheck::check(string): decision", ask),
        Function("resourceCheck::check(string): decision", ask),
        Function("decision::allowed(): bool", lambda answer: answer.decision.allowed),
        Function("decision::reason(): string", lambda answer: answer.decision.reason),
        Function("decision::errored(): bool", lambda answer: False),
        Function("decision::error(): string", lambda answer: ""),
    ),
    {
        "authorizer": _PREFIX + "Authorizer",
        "pathCheck": _PREFIX + "PathCheck",
        "groupCheck": _PREFIX + "GroupCheck",
        "resourceCheck": _PREFIX + "ResourceCheck",
        "decision": _PREFIX + "Decision",
    },
)
