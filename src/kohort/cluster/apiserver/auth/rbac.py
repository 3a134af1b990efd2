"""Role-based access control: who is bound to which rules, and whether they allow a request.

All roles and bindings are turned into one index from user and group to grants. The store hands out the same list object
until something in it changes, so noticing that the index is out of date is four comparisons, and decisions are kept
until then.

A ClusterRole with an aggregation rule counts for what is written in it: the sum is the work of a controller.
"""

from collections.abc import Iterable, Sequence

import msgspec

from kohort.cluster.apiserver.auth.model import AccessDecision, AccessRequest, User
from kohort.cluster.apiserver.auth.rbac_rules import Rule
from kohort.cluster.apiserver.storage.model import Store, Stored

SUPERUSERS = "system:masters"
ALLOWED = AccessDecision(True)
KEPT_DECISIONS = 20_000

CLUSTER_ROLES = "clusterroles.rbac.authorization.k8s.io"
ROLES = "roles.rbac.authorization.k8s.io"
CLUSTER_ROLE_BINDINGS = "clusterrolebindings.rbac.authorization.k8s.io"
ROLE_BINDINGS = "rolebindings.rbac.authorization.k8s.io"
BUCKETS = (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)


class Role(msgspec.Struct, frozen=True):
    rules: tuple[Rule, ...] | None = ()


class RoleRef(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    name: str
    api_group: str = ""


class Subject(msgspec.Struct, frozen=True):
    kind: str
    name: str
    namespace: str = ""


class RoleBinding(msgspec.Struct, frozen=True, rename="camel"):
    role_ref: RoleRef
    subjects: tuple[Subject, ...] | None = ()


class Grant(msgspec.Struct, frozen=True):
    """One subject of one binding."""

    rules: tuple[Rule, ...]
    namespace: str
    """Where it holds; empty for everywhere."""
    source: str
    """The binding in words, for `status.reason` of an access review."""
    problem: str = ""
    """Why there are no rules, when the role does not exist."""
    place: int = 0
    """That of the binding among all of them."""


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[Sequence[Stored], ...] = ()
        self._index = RbacIndex((), (), (), ())
        self._decisions: dict[tuple[object, ...], AccessDecision] = {}

    def authorize(self, request: AccessRequest) -> AccessDecision:
        user = request.user
        if SUPERUSERS in user.groups:
            return ALLOWED
        self._refresh()
        key = (
            user.name,
            user.groups,
            request.verb,
            request.group,
            request.plural,
            request.subresource,
            request.namespace,
            request.name,
            request.path,
        )
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= KEPT_DECISIONS:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(request)
        return decision

    def rules_for(self, user: User, namespace: str) -> list[Rule]:
        """Everything that `user` may do in `namespace` (only what holds everywhere, when empty)."""
        self._refresh()
        return [rule for grant in self._index.grants(user, namespace) for rule in grant.rules]

    def role_rules(self, ref: RoleRef, namespace: str) -> tuple[Rule, ...] | None:
        """What the role that a binding in `namespace` refers to allows; None when there is no such role."""
        self._refresh()
        return self._index.role_rules(ref, namespace)

    def _decide(self, request: AccessRequest) -> AccessDecision:
        problems: list[str] = []
        for grant in self._index.grants(request.user, request.namespace):
            if any(rule.allows(request) for rule in grant.rules):
                return AccessDecision(True, f"RBAC: allowed by {grant.source}")
            if grant.problem:
                problems.append(grant.problem)
        return AccessDecision(False, f"RBAC: {_joined(problems)}" if problems else "")

    def _refresh(self) -> None:
        current = tuple([self._store.list(bucket) for bucket in BUCKETS])
        if len(self._seen) == len(current) and all(old is new for old, new in zip(self._seen, current, strict=True)):
            return
        self._seen = current
        self._index = RbacIndex(*current)
        self._decisions.clear()


class RbacIndex:
    def __init__(
        self,
        cluster_roles: Sequence[Stored],
        roles: Sequence[Stored],
        cluster_bindings: Sequence[Stored],
        bindings: Sequence[Stored],
    ) -> None:
        self._cluster_roles = _rules_by_name(cluster_roles)
        self._roles = {
            (stored.namespace, stored.name): msgspec.json.decode(stored.raw, type=Role).rules or () for stored in roles
        }
        self._by_user: dict[str, list[Grant]] = {}
        self._by_group: dict[str, list[Grant]] = {}
        for place, stored in enumerate((*cluster_bindings, *bindings)):
            self._add(stored, place, msgspec.json.decode(stored.raw, type=RoleBinding))

    def grants(self, user: User, namespace: str) -> Iterable[Grant]:
        """What every binding that names a user gives, those of the whole cluster first."""
        found: dict[int, Grant] = {}
        for grants in (self._by_user.get(user.name, ()), *(self._by_group.get(group, ()) for group in user.groups)):
            for grant in grants:
                if not grant.namespace or grant.namespace == namespace:
                    found.setdefault(grant.place, grant)
        return [found[place] for place in sorted(found)]

    def role_rules(self, ref: RoleRef, namespace: str) -> tuple[Rule, ...] | None:
        if ref.kind == "ClusterRole":
            return self._cluster_roles.get(ref.name)
        return self._roles.get((namespace, ref.name))

    def _add(self, stored: Stored, place: int, binding: RoleBinding) -> None:
        ref = binding.role_ref
        rules = self.role_rules(ref, stored.namespace)
        problem = ""
        if rules is None:
            problem = f'{ref.kind.lower()}.rbac.authorization.k8s.io "{ref.name}" not found'
        for subject in binding.subjects or ():
            source = _described(stored, ref, subject)
            grant = Grant(rules or (), stored.namespace, source, problem, place)
            if subject.kind == "Group":
                self._by_group.setdefault(subject.name, []).append(grant)
            elif subject.kind == "User":
                self._by_user.setdefault(subject.name, []).append(grant)
            elif subject.kind == "ServiceAccount" and (subject.namespace or stored.namespace):
                account = f"system:serviceaccount:{subject.namespace or stored.namespace}:{subject.name}"
                self._by_user.setdefault(account, []).append(grant)


def _rules_by_name(cluster_roles: Sequence[Stored]) -> dict[str, tuple[Rule, ...]]:
    return {stored.name: msgspec.json.decode(stored.raw, type=Role).rules or () for stored in cluster_roles}


def _described(stored: Stored, ref: RoleRef, subject: Subject) -> str:
    """The binding in the words of `status.reason`; upstream puts names before namespaces, so this does too."""
    kind = "RoleBinding" if stored.namespace else "ClusterRoleBinding"
    name = f"{stored.name}/{stored.namespace}" if stored.namespace else stored.name
    who = subject.name
    if subject.kind == "ServiceAccount":
        who = f"{subject.name}/{subject.namespace or stored.namespace}"
    return f'{kind} "{name}" of {ref.kind} "{ref.name}" to {subject.kind} "{who}"'


def _joined(problems: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
