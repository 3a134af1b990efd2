"""Questions about identity and access: the review kinds.

They are created, answered and forgotten; nothing is stored. `answer` takes the decoded body and returns the object to
send with 201.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kohort.cluster.apiserver.auth.jwt import UNKNOWN, BadToken
from kohort.cluster.apiserver.auth.model import AccessRequest, User
from kohort.cluster.apiserver.auth.rbac import Authorizer
from kohort.cluster.apiserver.auth.rbac_rules import Rule
from kohort.cluster.apiserver.auth.tokens import TokenIssuer
from kohort.kube import clock, errors
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.selectors import FieldSelector, LabelSelector, requirement_errors

AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"


class Reviews:
    def __init__(self, authorizer: Authorizer, tokens: TokenIssuer) -> None:
        self._authorizer = authorizer
        self._tokens = tokens
        self._answers: dict[str, Callable[[JsonObject, User, str], JsonObject]] = {
            "SelfSubjectAccessReview": self._self_subject_access,
            "SubjectAccessReview": self._subject_access,
            "LocalSubjectAccessReview": self._local_subject_access,
            "SelfSubjectRulesReview": self._self_subject_rules,
            "TokenReview": self._token,
            "SelfSubjectReview": self._self_subject,
        }

    def handles(self, kind: str) -> bool:
        return kind in self._answers

    def answer(self, kind: str, document: JsonObject, user: User, namespace: str = "") -> JsonObject:
        """Answer a review of `kind` that `user` asked for, in `namespace` if its path has one."""
        return self._answers[kind](document, user, namespace)

    def _self_subject_access(self, document: JsonObject, user: User, _: str) -> JsonObject:
        spec = document.get("spec") or {}
        _refuse(_attribute_errors(spec) + _metadata_errors(document))
        return _answered(document, "SelfSubjectAccessReview", self._access_status(spec, user))

    def _subject_access(self, document: JsonObject, _: User, __: str) -> JsonObject:
        spec = document.get("spec") or {}
        _refuse(_attribute_errors(spec) + _subject_errors(spec) + _metadata_errors(document))
        return _answered(document, "SubjectAccessReview", self._access_status(spec, _subject_of(spec)))

    def _local_subject_access(self, document: JsonObject, _: User, namespace: str) -> JsonObject:
        spec = document.get("spec") or {}
        own = (document.get("metadata") or {}).get("namespace", "")
        _refuse(_attribute_errors(spec) + _subject_errors(spec) + _local_errors(spec, own))
        if own != namespace:
            raise errors.bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        return _answered(document, "LocalSubjectAccessReview", self._access_status(spec, _subject_of(spec)))

    def _self_subject_rules(self, document: JsonObject, user: User, _: str) -> JsonObject:
        namespace = (document.get("spec") or {}).get("namespace", "")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        rules = self._authorizer.rules_for(user, namespace)
        status = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)}
                for rule in rules
                if rule.non_resource_urls
            ],
            "incomplete": False,
        }
        return _answered({"metadata": {}, "spec": {}}, "SelfSubjectRulesReview", status)

    def _token(self, document: JsonObject, _: User, __: str) -> JsonObject:
        spec = document.get("spec") or {}
        token = spec.get("token", "")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        try:
            verified = self._tokens.verify(token, spec.get("audiences") or ())
        except BadToken as error:
            # The other authenticators are asked first.
            reason = str(error) if str(error) == UNKNOWN else f"[{UNKNOWN}, {error}]"
            return _answered(document, "TokenReview", {"user": {}, "error": reason}, AUTHENTICATION)
        status = {"authenticated": True, "user": verified.user.document(), "audiences": list(verified.audiences)}
        return _answered(document, "TokenReview", status, AUTHENTICATION)

    def _self_subject(self, _: JsonObject, user: User, __: str) -> JsonObject:
        document = {"metadata": {"creationTimestamp": clock.timestamp()}}
        return _answered(document, "SelfSubjectReview", {"userInfo": user.document()}, AUTHENTICATION)

    def _access_status(self, spec: JsonObject, user: User) -> JsonObject:
        decision = self._authorizer.authorize(_access_request(spec, user))
        status: JsonObject = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        ignored = [text for name in ("fieldSelector", "labelSelector") if (text := _ignored_selector(spec, name))]
        if ignored:
            status["evaluationError"] = "; ".join(ignored)
        return status


def _answered(document: JsonObject, kind: str, status: JsonObject, group: str = AUTHORIZATION) -> JsonObject:
    head: JsonObject = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": document.get("metadata") or {}}
    if "spec" in document:
        head["spec"] = document["spec"]
    return {**head, "status": status}


def _access_request(spec: JsonObject, user: User) -> AccessRequest:
    if wanted := spec.get("nonResourceAttributes"):
        return AccessRequest(user, wanted.get("verb", ""), path=wanted.get("path", ""))
    wanted = spec.get("resourceAttributes") or {}
    return AccessRequest(
        user,
        wanted.get("verb", ""),
        wanted.get("group", ""),
        wanted.get("version", ""),
        wanted.get("resource", ""),
        wanted.get("subresource", ""),
        wanted.get("namespace", ""),
        wanted.get("name", ""),
    )


def _subject_of(spec: JsonObject) -> User:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _resource_rule(rule: Rule) -> JsonObject:
    shown: JsonObject = {"verbs": list(rule.verbs), "apiGroups": list(rule.api_groups or ())}
    shown["resources"] = list(rule.resources or ())
    if rule.resource_names:
        shown["resourceNames"] = list(rule.resource_names)
    return shown


def _refuse(problems: list[FieldError]) -> None:
    if problems:
        # The real server names neither kind nor object here.
        raise errors.invalid("", "", problems, AUTHORIZATION)


def _attribute_errors(spec: JsonObject) -> list[FieldError]:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        return [field_errors.invalid("spec.nonResourceAttributes", _shown(other), detail)]
    if resource is None and other is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [field_errors.invalid("spec.resourceAttributes", None, detail)]
    return (
        []
        if resource is None
        else [*_selector_errors(resource, "fieldSelector"), *_selector_errors(resource, "labelSelector")]
    )


def _selector_errors(attributes: JsonObject, name: str) -> list[FieldError]:
    selector = attributes.get(name)
    path = f"spec.resourceAttributes.{name}"
    if selector is None:
        return []
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    errors_of = _label_errors if name == "labelSelector" else _requirement_errors
    found = errors_of(f"{path}.requirements", requirements or ())
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        return [field_errors.invalid(f"{path}.rawSelector", raw, detail), *found]
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        return [field_errors.required(f"{path}.requirements", detail)]
    return found


def _ignored_selector(spec: JsonObject, name: str) -> str:
    """What is said of a selector that is valid as an object but cannot be understood."""
    selector = (spec.get("resourceAttributes") or {}).get(name) or {}
    understood, raw = _UNDERSTOOD[name], selector.get("rawSelector")
    requirements = selector.get("requirements") or ()
    good = sum(understood(one) for one in requirements)
    if (not raw or _is_selector(name, raw)) and good == len(requirements):
        return ""
    return f"spec.resourceAttributes.{name} {'partially ' if good else ''}ignored due to parse error"


def _is_selector(name: str, raw: str) -> bool:
    try:
        (LabelSelector if name == "labelSelector" else FieldSelector).parse(raw)
    except ValueError:
        return False
    return True


_UNDERSTOOD: Final[dict[str, Callable[[JsonObject], bool]]] = {
    "fieldSelector": lambda one: one.get("operator") in ("In", "NotIn") and len(one.get("values") or ()) == 1,
    "labelSelector": lambda one: one.get("operator") in ("In", "NotIn", "Exists", "DoesNotExist"),
}


def _requirement_errors(path: str, requirements: Sequence[JsonObject]) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, requirement in enumerate(requirements):
        here, operator, values = f"{path}[{index}]", requirement.get("operator"), requirement.get("values")
        if not requirement.get("key"):
            problems.append(field_errors.required(f"{here}.key", "must be specified"))
        if operator in ("In", "NotIn") and not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            problems.append(field_errors.required(f"{here}.values", detail))
        elif operator in ("Exists", "DoesNotExist") and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.append(field_errors.forbidden(f"{here}.values", detail))
    return problems


def _label_errors(path: str, requirements: Sequence[JsonObject]) -> list[FieldError]:
    """The same of labels, whose names and values have a form."""
    problems: list[FieldError] = []
    for index, requirement in enumerate(requirements):
        problems += requirement_errors(requirement, f"{path}[{index}]", allow_any_operator=True)
    return problems


def _subject_errors(spec: JsonObject) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [field_errors.invalid("spec.user", "", "at least one of user or group must be specified")]


def _metadata_errors(document: JsonObject) -> list[FieldError]:
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key != "managedFields"}
    return [field_errors.invalid("metadata", metadata, "must be empty")] if any(metadata.values()) else []


def _local_errors(spec: JsonObject, namespace: str) -> list[FieldError]:
    problems: list[FieldError] = []
    resource = spec.get("resourceAttributes")
    if resource is not None and resource.get("namespace", "") != namespace:
        given = resource.get("namespace", "")
        detail = "must match metadata.namespace"
        problems.append(field_errors.invalid("spec.resourceAttributes.namespace", given, detail))
    if (other := spec.get("nonResourceAttributes")) is not None:
        detail = "disallowed on this kind of request"
        problems.append(field_errors.invalid("spec.nonResourceAttributes", _shown(other), detail))
    return problems


def _shown(attributes: JsonObject) -> Json:
    """Attributes as the real server prints them in a message: with the names of its Go fields."""
    return {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}
