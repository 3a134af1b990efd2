"""Which revision's template the leader StatefulSet carries.

It is the newest one, except where a partition would then hold nothing. A StatefulSet makes pods below its partition
from its `currentRevision`, and that becomes the revision of its template as soon as it has no pods and wants none (or
when it is new). Groups that come after that would all be new ones, whatever the partition says. So a set that is held
by a partition goes down to 0 groups with its stable template, and the new template returns with the first groups:

| partition | groups wanted | leader StatefulSet | template |
|--:|--:|---|---|
| 0 | any | any | newest |
| above 0 | 0 | any | stable |
| above 0 | some | none yet, or without pods and not looked at since it has the stable template | stable |
| above 0 | some | looked at, or with pods | newest: the stable one is its `currentRevision` |

The label of the leader StatefulSet itself names the newest revision always.
"""

from collections.abc import Iterable

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision, by_key
from kohort.objects.apps import GroupStatefulSet
from kohort.rules import group_labels


def revision_for_template(
    group_set: LeaderWorkerSet,
    leaders: GroupStatefulSet | None,
    newest: Revision,
    known: Iterable[Revision],
    replicas: int,
) -> Revision:
    """`replicas` is what the leader StatefulSet gets with this template."""
    stable = by_key(known, group_set.status.stable_revision)
    if stable is None or stable.key == newest.key or group_set.partition == 0:
        return newest
    if replicas == 0 or leaders is None:
        return stable
    if template_revision(leaders) == stable.key and not leaders.observed and leaders.status.replicas == 0:
        return stable
    return newest


def template_revision(leaders: GroupStatefulSet) -> str:
    return leaders.spec.template.metadata.labels.get(group_labels.REVISION, "")
