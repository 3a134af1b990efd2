"""The review kinds. Expected answers are those of Kubernetes 1.36."""

import pytest

from kohort.cluster.apiserver.auth.access_reviews import Reviews
from kohort.cluster.apiserver.auth.default_roles import bootstrap_objects
from kohort.cluster.apiserver.auth.model import ADMIN, User
from kohort.cluster.apiserver.auth.rbac import Authorizer
from kohort.cluster.apiserver.auth.tokens import ISSUER, TokenIssuer
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.errors import ApiError
from kohort.objects.json_types import Json, JsonObject

GROUP = "rbac.authorization.k8s.io"
BOB = User("bob", ("devs", "system:authenticated"))


class Accounts:
    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        return {"metadata": {"name": "sa", "uid": "u"}} if (bucket, name) == ("serviceaccounts", "sa") else None

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        return []


@pytest.fixture
async def reviews() -> Reviews:
    store = open_store()
    for item in bootstrap_objects():
        bucket = f"{item['kind'].lower()}s.{GROUP}"
        await store.write(bucket, item["metadata"].get("namespace", ""), item["metadata"]["name"], item, expected=0)
    return Reviews(Authorizer(store), TokenIssuer(Accounts()))


def review(spec: JsonObject, **metadata: str) -> JsonObject:
    return {"metadata": metadata, "spec": spec}


CREATE_PODS = {"verb": "create", "resource": "pods", "namespace": "default"}
HEALTH = {"path": "/healthz", "verb": "get"}


async def test_an_administrator_asks_about_itself(reviews: Reviews) -> None:
    answer = reviews.answer("SelfSubjectAccessReview", review({"resourceAttributes": CREATE_PODS}), ADMIN)
    assert answer == {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {"resourceAttributes": CREATE_PODS},
        "status": {"allowed": True},
    }


async def test_a_user_without_permissions_reviews_its_own_access(reviews: Reviews) -> None:
    answer = reviews.answer("SelfSubjectAccessReview", review({"resourceAttributes": CREATE_PODS}), BOB)
    assert answer["status"] == {"allowed": False}


async def test_reviewing_the_access_of_another_user(reviews: Reviews) -> None:
    spec = {"user": "bob", "groups": ["system:authenticated"], "nonResourceAttributes": HEALTH}
    assert reviews.answer("SubjectAccessReview", review(spec), ADMIN)["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" '
        'to Group "system:authenticated"',
    }


async def test_the_rules_of_the_caller(reviews: Reviews) -> None:
    answer = reviews.answer("SelfSubjectRulesReview", review({"namespace": "default"}), BOB)
    assert answer["spec"] == {}
    assert answer["status"]["incomplete"] is False
    assert {
        "verbs": ["create"],
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"],
    } in answer["status"]["resourceRules"]
    assert {
        "verbs": ["get"],
        "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
    } in answer["status"]["nonResourceRules"]


async def test_who_am_i(reviews: Reviews) -> None:
    answer = reviews.answer("SelfSubjectReview", {}, BOB)
    assert list(answer) == ["kind", "apiVersion", "metadata", "status"]
    assert answer["status"] == {"userInfo": {"username": "bob", "groups": ["devs", "system:authenticated"]}}


async def test_reviewing_tokens(reviews: Reviews) -> None:
    tokens = reviews._tokens
    token = tokens.request("ns", "sa", {})["status"]["token"]
    good = reviews.answer("TokenReview", review({"token": token}), ADMIN)["status"]
    assert (good["authenticated"], good["user"]["username"]) == (True, "system:serviceaccount:ns:sa")
    assert good["audiences"] == [ISSUER]
    assert reviews.answer("TokenReview", review({"token": "nope"}), ADMIN)["status"] == {
        "user": {},
        "error": "invalid bearer token",
    }
    elsewhere = reviews.answer("TokenReview", review({"token": token, "audiences": ["vault"]}), ADMIN)["status"]
    reason = f'token audiences ["{ISSUER}"] is invalid for the target audiences ["vault"]'
    assert elsewhere == {"user": {}, "error": f"[invalid bearer token, {reason}]"}


def refusal(reviews: Reviews, kind: str, document: JsonObject, namespace: str = "") -> tuple[int, str, list[Json]]:
    with pytest.raises(ApiError) as refused:
        reviews.answer(kind, document, ADMIN, namespace)
    status = refused.value.status
    causes = [(cause.reason, cause.field) for cause in status.details.causes] if status.details else []
    return status.code, status.message, causes


@pytest.mark.parametrize(
    ("kind", "spec", "message", "field"),
    [
        (
            "SelfSubjectAccessReview",
            {},
            '.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: '
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            "spec.resourceAttributes",
        ),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x", "verb": "get"}},
            '.authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: '
            '{"Path":"/x","Verb":"get"}: cannot be specified in combination with resourceAttributes',
            "spec.nonResourceAttributes",
        ),
        (
            "SubjectAccessReview",
            {"resourceAttributes": {"verb": "get"}},
            '.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": '
            "at least one of user or group must be specified",
            "spec.user",
        ),
    ],
)
async def test_questions_that_make_no_sense(
    reviews: Reviews, kind: str, spec: JsonObject, message: str, field: str
) -> None:
    assert refusal(reviews, kind, review(spec)) == (422, message, [("FieldValueInvalid", field)])


async def test_a_local_question_stays_in_its_namespace(reviews: Reviews) -> None:
    def spec(namespace: str) -> JsonObject:
        return {"user": "x", "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "pods"}}

    fine = reviews.answer("LocalSubjectAccessReview", review(spec("ns"), namespace="ns"), ADMIN, "ns")
    assert fine["status"] == {"allowed": False}
    assert refusal(reviews, "LocalSubjectAccessReview", review(spec("default"), namespace="ns"), "ns") == (
        422,
        '.authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "default": '
        "must match metadata.namespace",
        [("FieldValueInvalid", "spec.resourceAttributes.namespace")],
    )


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("SelfSubjectRulesReview", {}, "no namespace on request"),
        ("TokenReview", {}, "token is required for TokenReview in authentication"),
    ],
)
async def test_questions_without_a_subject(reviews: Reviews, kind: str, spec: JsonObject, message: str) -> None:
    assert refusal(reviews, kind, review(spec)) == (400, message, [])


async def test_requirements_about_labels_have_the_form_of_labels(reviews: Reviews) -> None:
    """An operator that is not known is somebody else's future; the others of the list still count."""
    requirements = [{"key": "a b", "operator": "Foo"}, {"key": "a", "operator": "In", "values": ["!"]}]
    fields = [{"key": "", "operator": "In"}, {"key": "a", "operator": "Foo", "values": ["x"]}]
    attributes = {
        "verb": "list",
        "labelSelector": {"requirements": requirements},
        "fieldSelector": {"requirements": fields},
    }
    with pytest.raises(ApiError) as raised:
        reviews.answer("SubjectAccessReview", review({"user": "x", "resourceAttributes": attributes}), ADMIN)
    assert raised.value.status.details is not None
    causes = raised.value.status.details.causes
    assert [(cause.reason, cause.field.removeprefix("spec.resourceAttributes.")) for cause in causes] == [
        ("FieldValueRequired", "fieldSelector.requirements[0].key"),
        ("FieldValueRequired", "fieldSelector.requirements[0].values"),
        ("FieldValueInvalid", "labelSelector.requirements[0].key"),
        ("FieldValueInvalid", "labelSelector.requirements[1].values[0]"),
    ]


@pytest.mark.parametrize(
    ("selectors", "error"),
    [
        ({"labelSelector": {"rawSelector": "a=b,c in (d)"}}, None),
        ({"labelSelector": {"rawSelector": "a=b,"}}, "labelSelector ignored"),
        ({"fieldSelector": {"rawSelector": "a"}}, "fieldSelector ignored"),
        ({"fieldSelector": {"requirements": [{"key": "a", "operator": "Exists"}]}}, "fieldSelector ignored"),
        (
            {"labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Odd"}]}},
            "labelSelector partially ignored",
        ),
    ],
)
async def test_selectors_that_are_not_valid(reviews: Reviews, selectors: JsonObject, error: str | None) -> None:
    spec = {"user": "bob", "resourceAttributes": {**CREATE_PODS, **selectors}}
    status = reviews.answer("SubjectAccessReview", review(spec), ADMIN)["status"]
    expected = f"spec.resourceAttributes.{error} due to parse error" if error else None
    assert status.get("evaluationError") == expected
