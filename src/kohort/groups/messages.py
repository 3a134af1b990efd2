"""Texts of events and conditions about sets and groups, made from typed reasons.

Upstream's controller emits some of these events too; where it does, the text is the same.
"""

from collections.abc import Mapping
from enum import Enum
from itertools import islice
from typing import Final

from kohort.groups.disruption_budget import AwayGroups, AwayReason
from kohort.groups.group_problems import WorkersRefused
from kohort.groups.resize.record import Phase, ResizeRecord
from kohort.groups.rolling_update import RollPlan, RollReason
from kohort.objects.counted_nouns import agreeing, counted, counted_of, how_often
from kohort.rules import group_labels
from kohort.rules.group_identity import leader_name
from kohort.rules.recorded_restarts import DueRestart, Exhaustion, FailedContainer

_MOST_GROUPS: Final = 5
"""That one message names."""

# Revisions


class RevisionNote(Enum):
    """Why a ControllerRevision is created."""

    NEW_SET = "Creating revision with key {} for a newly created LeaderWorkerSet"
    MISSING = "Creating missing revision with key {} for existing LeaderWorkerSet"
    UPDATED_SET = "Creating revision with key {} for updated LWS"


def creating_revision(note: RevisionNote, key: str) -> str:
    return note.value.format(key)


# The leader StatefulSet


def created_leader_set(name: str) -> str:
    return f"Created leader statefulset {name}"


def leader_set_failed(verb: str, name: str, problem: str) -> str:
    return f"Failed to {verb.lower()} leader statefulset {name}: {problem}"


def deleting_surge(name: str, first: int, last: int) -> str:
    if first == last:
        return f"deleting surge replica {leader_name(name, first)}"
    return f"deleting surge replicas from {leader_name(name, first)} to {leader_name(name, last)}"


def updating_replicas(first: int, last: int) -> str:
    return f"Updating replica {first}" if first == last else f"Updating replicas {first} to {last} (inclusive)"


def deleted_blocking_leader(pod: str) -> str:
    return f"Deleted leader pod {pod}, which was not ready, to update its group"


def recreating_failed_group(pod: str, index: str) -> str:
    return (
        f"Deleted leader pod {pod}: group {index} has failed, and is made anew with the new template before the others"
    )


def recreating_incomplete_group(pod: str, index: str) -> str:
    return (
        f"Deleted leader pod {pod}: group {index} has no workers and its revision was deleted, so they cannot be "
        "created; the group is made anew with the new template"
    )


def failures_not_kept(name: str) -> str:
    return f"Failures of groups are not kept: {name_taken('ConfigMap', name)}; rename or delete it"


def nodes_not_recorded(name: str) -> str:
    return f"Nodes of groups are not recorded: {name_taken('ConfigMap', name)}; rename or delete it"


def name_taken(kind: str, name: str) -> str:
    return f"a {kind} {name} exists and does not belong to this set"


_ROLL_REASONS: Final = {
    RollReason.NEW_SET: "the set is new",
    RollReason.TEMPLATE_CHANGED: "the template changed",
    RollReason.TEMPLATE_CHANGED_WHILE_GROWING: "the template changed; more groups first, surge afterwards",
    RollReason.GROWING: "more groups are wanted",
    RollReason.AT_REST: "at rest",
    RollReason.RESIZED_DURING_ROLL: "the number of groups changed during the roll",
    RollReason.ROLLING: "rolling",
}


def roll_reason(plan: RollPlan) -> str:
    text = _ROLL_REASONS[plan.reason]
    return f"{text}; held by partition {plan.partition}" if plan.held else text


def headless_service_failed(name: str, problem: str) -> str:
    return f"Failed to create headless service {name}: {problem}"


def waiting_for(obstacle: str) -> str:
    return f"Waiting for {obstacle}"


def groups_ready(condition: str, ready: int, wanted: int) -> str:
    return f"{condition}, with {ready} groups ready of total {wanted} groups"


# Claims of workers


def deleted_claim(name: str) -> str:
    return f"Deleted claim {name} of a worker that is not wanted any more"


def claims_not_deleted(problem: str) -> str:
    return f"Failed to delete claims of workers that are not wanted any more: {problem}"


# Groups


def gang_failed(problem: str, needs: str) -> str:
    return f"Failed to create the gang of a group: {problem}; {needs}"


def group_resize(index: str, record: ResizeRecord) -> str:
    """What the record that was written to the leader of a group means for it."""
    because = f": {record.message}" if record.message else ""
    match record.phase:
        case Phase.RESIZING:
            return f"Resizing the pods of group {index} in place"
        case Phase.REVERTING:
            return f"Giving the pods of group {index} their former resources back{because}"
        case Phase.REVERTED:
            return f"Group {index} keeps its former resources{because}"
        case Phase.RECREATE:
            return f"Group {index} is recreated with the new resources{because}"


def group_resized(index: str, revision: str) -> str:
    return f"Group {index} has the resources of revision {revision}, without a recreated pod"


def recreating_group(pod: str, leader: str, index: str) -> str:
    return f"Worker pod {pod} failed, deleted leader pod {leader} to recreate group {index}"


def group_exhausted(name: str, index: int, failed: FailedContainer, restarts: int, window: int) -> str:
    return (
        f"{failed_group(index, failed)}; the group was restarted {how_often(restarts)} within {window} s, which is its "
        f"budget, and is held; to begin afresh: kohort restart {name} --group {index}, or another template"
    )


def groups_exhausted(name: str, held: Mapping[int, Exhaustion], window: int) -> str:
    """The condition GroupsExhausted; empty for no group."""
    if not held:
        return ""
    texts = [
        f"{failed_group(index, one.failed)}, after {counted(one.restarts, 'restart')} within {window} s"
        for index, one in held.items()
    ]
    more = f"; and {counted(len(texts) - _MOST_GROUPS, 'more group')}" if len(texts) > _MOST_GROUPS else ""
    first = next(iter(held))
    return (
        f"{'; '.join(texts[:_MOST_GROUPS])}{more}. They are not recreated any more; to begin afresh: "
        f"kohort restart {name} --group {first}, or another template"
    )


def failed_group(index: int, failed: FailedContainer) -> str:
    """Group, pod, container and exit code."""
    if not failed.container:
        return f"group {index}: pod {failed.pod} was deleted"
    reason = f" ({failed.reason})" if failed.reason and failed.reason != "Error" else ""
    return f"group {index}: pod {failed.pod}, container {failed.container} ended with code {failed.exit_code}{reason}"


def node_was_lost(node: str, since: str) -> str:
    return f"its node {node} has not been ready since {since}"


def pod_given_up(pod: str, node: str, since: str) -> str:
    return f"Deleted pod {pod} by force: {node_was_lost(node, since)}"


def engine_recovered(pod: str) -> str:
    return f"Worker pod {pod} is ready again and its leader stayed ready: its group is not restarted"


def engine_recovers(why_not_ready: str, until: str) -> str:
    recovery = f"its leader is ready, and its engine has until {until} to recover before the group restarts"
    return f"is {why_not_ready}; {recovery}"


def created_workers(leader: str) -> str:
    return f"Created worker statefulset for leader pod {leader}"


def workers_failed(leader: str, problem: str) -> str:
    return f"Failed to create worker statefulset for leader pod {leader}: {problem}"


def worker_set_name_taken(name: str, owner: str) -> str:
    return f"a StatefulSet {name} exists and " + (f"belongs to {owner}" if owner else "has no owner")


def missing_start_ordinals(leader: str) -> str:
    return (
        f"leader pod {leader} carries the annotation {group_labels.LEADER_NAME}, which only workers have; worker "
        "StatefulSets need start ordinals: Kubernetes 1.27, or 1.26 with the feature gate StatefulSetStartOrdinal"
    )


def replaced_pod_without_webhook(pod: str, lacks: str) -> str:
    return f"Pod {pod} was created while the webhook was away and lacks {lacks}; deleted it, so that it is created anew"


def eviction_refused(name: str, pod: str, replicas: int, limit: int, away: AwayGroups) -> str:
    """`name` is namespace and name of the set."""
    texts = [f"group {index} ({reason.value})" for index, reason in islice(away.items(), _MOST_GROUPS)]
    more = f" and {len(away) - _MOST_GROUPS} more" if len(away) > _MOST_GROUPS else ""
    held = [index for index, reason in away.existing.items() if reason is AwayReason.HELD]
    namespace, _, short = name.partition("/")
    restart = f"kohort restart {short} -n {namespace} --group {held[0]}" if held else ""
    end = f"; group {held[0]} does not come back by itself, restart it: {restart}" if held else ""
    return (
        f"Cannot evict pod {pod}: LeaderWorkerSet {name} allows {limit} of its {counted(replicas, 'group')} to be away "
        f"(spec.disruptionBudget.maxUnavailable), and away are: {', '.join(texts) or 'none'}{more}{end}"
    )


def eviction_busy(name: str, pod: str) -> str:
    return f"Cannot evict pod {pod} now: the status of LeaderWorkerSet {name} is changing; try again"


# The condition Waiting


def recreation_delayed(index: int, due: DueRestart) -> str:
    failed = due.failed
    end = f": container {failed.container} ended with code {failed.exit_code}" if failed.container else ""
    return (
        f"group {index}: pod {failed.pod} restarted{end}; the group was recreated {how_often(due.in_a_row)} for such "
        f"reasons, waits longer each time, and is recreated again at {due.at}"
    )


def workers_refused(index: int, problem: WorkersRefused) -> str:
    return f"group {index}: the StatefulSet of its workers is refused: {problem.message}"


def revision_missing(index: int, revision: str) -> str:
    return f"group {index}: its workers cannot be created, because its revision {revision} was deleted"


def leader_set_refused(message: str) -> str:
    return f"the leader StatefulSet is refused: {message}"


def leader_missing(index: int, leader: str) -> str:
    return f"group {index}: pod {leader} does not exist yet"


def workers_missing(index: int, missing: int, workers: int) -> str:
    missing_workers = counted_of(missing, workers, "worker")
    return f"group {index}: {missing_workers} {agreeing(missing, 'does', 'do')} not exist yet"


def pod_obstacle(index: int, pod: str, text: str) -> str:
    return f"group {index}: pod {pod} {text}"


WITHOUT_WEBHOOK = "was created while the webhook was away, and is being replaced"


def terminating(node: str, since: str) -> str:
    """A group is recreated only when all of it is gone, so a pod on a dead node holds it up. Only a person can know
    that the node will not come back with the pod still running on it."""
    place = f" on node {node}" if node else ""
    return (
        f"is to be gone{place} since {since} and still exists; if its node is dead, taint it "
        "with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or delete the pod with --force"
    )
