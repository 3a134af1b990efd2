"""Decisions of the authorizer over stored roles and bindings, and the check against granting more than one has."""

import pytest

from kohort.cluster.apiserver.admission.model import Attributes, Operation
from kohort.cluster.apiserver.admission.plugins.role_escalation import EscalationCheck
from kohort.cluster.apiserver.auth.default_roles import bootstrap_objects
from kohort.cluster.apiserver.auth.model import ADMIN, ANONYMOUS, AccessRequest, User
from kohort.cluster.apiserver.auth.rbac import Authorizer
from kohort.cluster.apiserver.storage.model import Store
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.errors import ApiError
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject

GROUP = "rbac.authorization.k8s.io"
BOB = User("bob", ("devs", "system:authenticated"))
ACCOUNT = User("system:serviceaccount:ns:robot", ("system:serviceaccounts", "system:serviceaccounts:ns"))


class NoObjects:
    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        raise AssertionError("not asked")

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        raise AssertionError("not asked")


async def put(store: Store, document: JsonObject) -> None:
    metadata = document["metadata"]
    bucket = f"{document['kind'].lower()}s.{GROUP}"
    place = (bucket, metadata.get("namespace", ""), metadata["name"])
    current = store.get(*place)
    revision = current.revision if current else 0
    await store.write(*place, document, expected=revision, labels=metadata.get("labels", {}))


async def with_bootstrap() -> Store:
    store = open_store()
    for document in bootstrap_objects():
        await put(store, document)
    return store


def role(name: str, *rules: JsonObject, namespace: str = "", **more: object) -> JsonObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": list(rules), **more}


def allow(verbs: str, resources: str, group: str = "", names: str = "") -> JsonObject:
    rule: JsonObject = {"verbs": verbs.split(","), "apiGroups": [group], "resources": resources.split(",")}
    return {**rule, "resourceNames": names.split(",")} if names else rule


def bind(name: str, role_kind: str, role_name: str, subject: str, namespace: str = "") -> JsonObject:
    kind, _, who = subject.partition(" ")
    place, _, short = who.rpartition("/")
    subject_object = {"kind": kind, "name": short, **({"namespace": place} if place else {})}
    return {
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role_name},
        "subjects": [subject_object],
    }


def can(store: Store, user: User, verb: str, plural: str, namespace: str = "", group: str = "", name: str = "") -> bool:
    request = AccessRequest(user, verb, group, "v1", plural, namespace=namespace, name=name)
    return Authorizer(store).authorize(request).allowed


async def test_administrators_may_do_everything_without_any_role() -> None:
    assert can(open_store(), ADMIN, "delete", "nodes")


async def test_nothing_is_allowed_without_a_binding() -> None:
    assert not can(open_store(), BOB, "get", "pods", "ns")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/healthz", True), ("/livez", True), ("/readyz", True), ("/version", True), ("/api", False), ("/metrics", False)],
)
async def test_what_anonymous_callers_may_read(path: str, allowed: bool) -> None:
    decision = Authorizer(await with_bootstrap()).authorize(AccessRequest(ANONYMOUS, "get", path=path))
    assert decision.allowed is allowed


async def test_a_role_binding_holds_in_its_namespace_only() -> None:
    store = open_store()
    await put(store, role("reader", allow("get", "pods")))
    await put(store, bind("b", "ClusterRole", "reader", "Group devs", "ns"))
    assert can(store, BOB, "get", "pods", "ns")
    assert not can(store, BOB, "get", "pods", "other")
    assert not can(store, BOB, "get", "pods")


@pytest.mark.parametrize(
    ("subject", "namespace"),
    [
        ("ServiceAccount robot", "ns"),
        ("ServiceAccount ns/robot", "other"),
        ("User system:serviceaccount:ns:robot", "other"),
    ],
)
async def test_a_service_account_is_bound_by_name(subject: str, namespace: str) -> None:
    store = open_store()
    await put(store, role("r", allow("get", "pods"), namespace=namespace))
    await put(store, bind("b", "Role", "r", subject, namespace))
    assert can(store, ACCOUNT, "get", "pods", namespace)
    assert not can(store, User("system:serviceaccount:third:robot"), "get", "pods", namespace)


async def test_a_decision_says_which_binding_allows_it() -> None:
    store = open_store()
    await put(store, role("r", allow("get", "pods"), namespace="ns"))
    await put(store, bind("b", "Role", "r", "User bob", "ns"))
    request = AccessRequest(BOB, "get", "", "v1", "pods", namespace="ns")
    assert (
        Authorizer(store).authorize(request).reason == 'RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "bob"'
    )


async def test_bindings_of_the_cluster_count_first_and_each_of_them_once() -> None:
    store = open_store()
    await put(store, role("reader", allow("get", "pods")))
    await put(store, bind("zz", "ClusterRole", "reader", "Group devs"))
    await put(store, bind("aa", "ClusterRole", "reader", "User bob", namespace="ns"))
    twice = bind("yy", "ClusterRole", "reader", "User bob")
    twice["subjects"] = [{"kind": "User", "name": "bob"}, {"kind": "Group", "name": "devs"}]
    await put(store, twice)
    decision = Authorizer(store).authorize(AccessRequest(BOB, "get", "", "v1", "pods", namespace="ns"))
    assert decision.reason == 'RBAC: allowed by ClusterRoleBinding "yy" of ClusterRole "reader" to User "bob"'
    assert len(Authorizer(store).rules_for(BOB, "ns")) == 3


async def test_a_refusal_names_the_role_that_does_not_exist() -> None:
    store = open_store()
    await put(store, bind("b", "ClusterRole", "gone", "User bob"))
    decision = Authorizer(store).authorize(AccessRequest(BOB, "get", "", "v1", "pods", namespace="ns"))
    assert decision.reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'


async def test_decisions_follow_every_change() -> None:
    store = open_store()
    authorizer = Authorizer(store)
    request = AccessRequest(BOB, "get", "", "v1", "pods", namespace="ns")
    assert not authorizer.authorize(request).allowed
    await put(store, bind("b", "ClusterRole", "r", "User bob"))
    assert not authorizer.authorize(request).allowed
    await put(store, role("r", allow("get", "pods")))
    assert authorizer.authorize(request).allowed
    await put(store, role("r", allow("list", "pods")))
    assert not authorizer.authorize(request).allowed


async def test_an_aggregated_role_counts_for_what_is_written_in_it() -> None:
    """The sum is written by a controller; without one, as Kubernetes has it, the role is empty."""
    store = await with_bootstrap()
    await put(store, bind("b", "ClusterRole", "view", "User bob", "ns"))
    assert not can(store, BOB, "get", "pods", "ns")
    await put(store, role("view", allow("get", "pods"), aggregationRule={"clusterRoleSelectors": [{}]}))
    assert can(store, BOB, "get", "pods", "ns")


def attributes(document: JsonObject, user: User = BOB, old: JsonObject | None = None) -> Attributes:
    operation: Operation = "UPDATE" if old else "CREATE"
    namespace = document["metadata"].get("namespace", "")
    resource = Resource(GROUP, "v1", f"{document['kind'].lower()}s", document["kind"], bool(namespace))
    name = document["metadata"]["name"]
    return Attributes(operation, resource, name, namespace, user, NoObjects(), document, old)


async def escalation(store: Store, wanted: Attributes) -> str:
    check = EscalationCheck(Authorizer(store))
    if not check.handles(wanted):
        return ""
    try:
        await check.validate(wanted)
    except ApiError as refusal:
        return refusal.message
    return ""


async def test_a_user_cannot_grant_permissions_that_it_lacks_in_a_role() -> None:
    store = open_store()
    await put(store, role("r", allow("get", "roles", GROUP), namespace="ns"))
    await put(store, bind("b", "Role", "r", "User bob", "ns"))
    evil = role("evil", allow("get", "secrets"), namespace="ns")
    assert await escalation(store, attributes(evil)) == (
        'roles.rbac.authorization.k8s.io "evil" is forbidden: user "bob" (groups=["devs" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )
    assert not await escalation(store, attributes(role("fine", allow("get", "roles", GROUP), namespace="ns")))
    assert not await escalation(store, attributes(evil, user=ADMIN))


async def test_a_user_cannot_bind_a_role_with_permissions_that_it_lacks() -> None:
    store = await with_bootstrap()
    evil = bind("evil", "ClusterRole", "cluster-admin", "User bob", "ns")
    assert (await escalation(store, attributes(evil))).endswith(
        'not currently held:\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    )
    missing = bind("evil", "Role", "gone", "User bob", "ns")
    assert await escalation(store, attributes(missing)) == 'rolebindings.rbac.authorization.k8s.io "gone" not found'


@pytest.mark.parametrize(
    ("verb", "plural", "names", "free"),
    [
        ("escalate", "roles", "", True),
        ("escalate", "clusterroles", "", False),
        ("bind", "clusterroles", "", False),
        ("escalate", "roles", "other", False),
    ],
)
async def test_the_verb_escalate_lifts_the_check_on_roles(verb: str, plural: str, names: str, free: bool) -> None:
    store = open_store()
    await put(store, role("r", allow(verb, plural, GROUP, names)))
    await put(store, bind("b", "ClusterRole", "r", "User bob"))
    refusal = await escalation(store, attributes(role("evil", allow("get", "secrets"), namespace="ns")))
    assert (not refusal) is free


@pytest.mark.parametrize(("names", "free"), [("", True), ("cluster-admin", True), ("view", False)])
async def test_the_verb_bind_lifts_the_check_on_bindings(names: str, free: bool) -> None:
    store = await with_bootstrap()
    await put(store, role("binder", allow("bind", "clusterroles", GROUP, names)))
    await put(store, bind("b", "ClusterRole", "binder", "User bob"))
    refusal = await escalation(store, attributes(bind("x", "ClusterRole", "cluster-admin", "User bob", "ns")))
    assert (not refusal) is free


async def test_an_update_that_only_serves_deletion_is_not_checked() -> None:
    old = role("evil", allow("get", "secrets"), namespace="ns")
    old["metadata"] |= {"finalizers": ["x/y"], "resourceVersion": "5"}
    written = {**old, "metadata": {**old["metadata"], "finalizers": []}}
    assert not await escalation(open_store(), attributes(written, old=old))
    changed = {**written, "rules": [allow("get", "secrets,pods")]}
    assert await escalation(open_store(), attributes(changed, old=old))


async def test_bootstrap_roles_are_those_of_kubernetes() -> None:
    found = {(item["kind"], item["metadata"]["name"]): item for item in bootstrap_objects()}
    wanted = {"cluster-admin": 2, "system:discovery": 1, "system:public-info-viewer": 1, "system:basic-user": 2}
    assert {name: len(found["ClusterRole", name]["rules"]) for name in wanted} == wanted
    assert found["ClusterRole", "edit"]["metadata"]["labels"] == {
        "kubernetes.io/bootstrapping": "rbac-defaults",
        "rbac.authorization.k8s.io/aggregate-to-admin": "true",
    }
    assert found["ClusterRole", "admin"]["aggregationRule"] == {
        "clusterRoleSelectors": [{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}}]
    }
    for name in ("kube-scheduler", "kube-controller-manager", "node", "auth-delegator"):
        assert found["ClusterRole", f"system:{name}"]["rules"]
    assert found["RoleBinding", "system::leader-locking-kube-scheduler"]["subjects"] == [
        {"kind": "User", "apiGroup": GROUP, "name": "system:kube-scheduler"},
        {"kind": "ServiceAccount", "name": "kube-scheduler", "namespace": "kube-system"},
    ]
