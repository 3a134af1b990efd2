"""Whether an object may refer to one in another namespace: only if a ReferenceGrant there says so. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from kohort.cluster.gateway.views import GROUP, ReferenceGrant
from kohort.kube.resources import Key


class Referrer(NamedTuple):
    kind: str
    namespace: str
    group: str = GROUP


def is_permitted(referrer: Referrer, kind: str, target: Key, grants: Iterable[ReferenceGrant], group: str = "") -> bool:
    """`kind` and `group` are those of the target. Within a namespace everything is permitted."""
    if referrer.namespace == target.namespace:
        return True
    return any(_allows(grant, referrer, kind, group, target) for grant in grants)


def _allows(grant: ReferenceGrant, referrer: Referrer, kind: str, group: str, target: Key) -> bool:
    if grant.metadata.namespace != target.namespace:
        return False
    named = (referrer.group, referrer.kind, referrer.namespace)
    if not any((one.group, one.kind, one.namespace) == named for one in grant.spec.from_):
        return False
    return any((one.group, one.kind) == (group, kind) and one.name in (None, "", target.name) for one in grant.spec.to)
