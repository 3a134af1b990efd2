"""What is wrong with a pod, a set, a workload or its release, as types.

Checks find problems; `messages` makes words of them, and `cause` puts them in order. A problem holds what was read from
objects (names, amounts, the words of nodes and servers) and no sentence of its own.
"""

from enum import Enum

import msgspec

from kohort.inspection.advice import Command


class Problem(msgspec.Struct, frozen=True):
    """Base of all problems."""


# Pods: nodes, volumes and scheduling


class RejectedByNode(Problem, frozen=True):
    reason: str
    message: str


class NodeSilent(Problem, frozen=True):
    node: str
    since: str
    terminating: bool
    gives_up_after: int | None
    """Seconds after which the set deletes pods there by force; None if it never does."""
    of_group: bool = True
    """Only groups can be recreated by force."""


class Terminating(Problem, frozen=True):
    grace_seconds: int | None
    finalizers: tuple[str, ...]


class ClaimState(Enum):
    MISSING = "missing"
    LOST = "lost"
    NOT_PROVISIONED = "not provisioned"
    WITHOUT_CLASS = "without a storage class"


class ClaimNotBound(Problem, frozen=True):
    claim: str
    state: ClaimState
    storage_class: str = ""
    phase: str = ""
    message: str = ""
    """What the provisioner said."""


class MountFails(Problem, frozen=True):
    message: str


class HeldByGates(Problem, frozen=True):
    gates: tuple[str, ...]


class HeldAfterFailures(Problem, frozen=True):
    """Pods of its name failed again and again; the operator holds this one for a while."""

    until: str
    reason: str


class PlacementAdvice(Enum):
    """What to do about a pod that fits no node."""

    MORE_ROOM = "more room"
    EXCLUSIVE_SUBGROUP = "a domain for each subgroup"
    EXCLUSIVE_GROUP = "a domain for each group"
    UNIQUE_NODES = "labelled nodes for each group"
    NODE_LABELS = "labels"
    TAINTS = "tolerations"
    NODE_OF_VOLUME = "the node that reaches its volume"
    CORDONED = "nodes that take pods"
    UNKNOWN = "the whole message"


class FitsNoNode(Problem, frozen=True):
    message: str
    """Of the scheduler."""
    advice: PlacementAdvice
    label: str = ""
    """Node label that the placement of groups goes by."""
    selector: str = ""
    """Node selector of the pod."""
    claims: tuple[str, ...] = ()
    """Claims of the pod, of which one is bound to a volume that only some nodes reach."""
    namespace: str = ""
    """Of these claims."""
    other_sets: tuple[str, ...] = ()
    """Other sets, whose pods keep groups out of `taken_domains`."""
    taken_domains: tuple[str, ...] = ()


class NotScheduledYet(Problem, frozen=True):
    scheduler: str


class WaitsForLeader(Problem, frozen=True):
    leader: str


class NodeHasNotBegun(Problem, frozen=True):
    node: str


class IsStarting(Problem, frozen=True):
    state: str


# Pods: containers


class ContainerExit(msgspec.Struct, frozen=True):
    code: int
    reason: str
    """Empty where it adds nothing to the code."""
    message: str
    """The last line."""


class ImageNotThere(Problem, frozen=True):
    image: str
    reason: str
    """Empty for pulls that fail: their reason changes between two attempts."""
    message: str


class ContainerNotCreated(Problem, frozen=True):
    """It waits with a reason that its template, or what the template names, has to change for."""

    container: str
    reason: str
    message: str


class ContainerWaits(Problem, frozen=True):
    """It waits with a reason that is not known here."""

    container: str
    reason: str
    message: str
    pod: str
    namespace: str


class ContainerCannotStart(Problem, frozen=True):
    container: str
    exit: ContainerExit


class ContainerCrashes(Problem, frozen=True):
    container: str
    restarts: int
    exit: ContainerExit | None
    logs: Command


class ContainerEnded(Problem, frozen=True):
    container: str
    exit: ContainerExit
    logs: Command


class PodFailed(Problem, frozen=True):
    reason: str
    message: str
    pod: str
    namespace: str


class NotReady(Problem, frozen=True):
    containers: tuple[str, ...]
    state: str
    """Of the pod, where no container is to blame."""
    probe: str
    """What the last probe said."""
    logs: Command


# Pods: resizes of their own, outside of a resize of their group


class ResizePending(Problem, frozen=True):
    reason: str
    message: str


class ResizeFails(Problem, frozen=True):
    message: str


# Sets


class NotObserved(Problem, frozen=True):
    observed: int
    generation: int


class ServiceTaken(Problem, frozen=True):
    service: str
    namespace: str


class ReportedWaiting(Problem, frozen=True):
    """The operator reports in the condition Waiting what it waits for."""

    reason: str
    message: str


class RevisionMissing(Problem, frozen=True):
    """Workers cannot be created: the revision of their group was deleted."""

    revision: str
    partition: int


class WriteRefused(Problem, frozen=True):
    message: str
    over_quota: bool


class HeldByPartition(Problem, frozen=True):
    partition: int
    paused: bool
    may_resume: bool


class BudgetNameTaken(Problem, frozen=True):
    """A PodDisruptionBudget of the set's name is not the set's own."""

    name: str


class SeveralBudgets(Problem, frozen=True):
    """More than one PodDisruptionBudget selects a leader."""

    names: tuple[str, ...]


class LeaderMissing(Problem, frozen=True):
    pass


class PodsMissing(Problem, frozen=True):
    count: int
    size: int
    leader_not_ready: bool


class NotUpdatedYet(Problem, frozen=True):
    resizing: bool
    """Groups get the new revision in place."""


# Deployments and StatefulSets


class ReplicasMissing(Problem, frozen=True):
    missing: int
    """0 if all pods exist, and only their version is not the wanted one."""
    wanted: int
    workload: str
    """As it is typed."""


class HeldWorkload(Problem, frozen=True):
    partition: int | None
    """None for a Deployment, which is held by `spec.paused`."""


# Releases


class RolloutPaused(Problem, frozen=True):
    pass


class StepWaitsForApproval(Problem, frozen=True):
    step: int


class StoppedByAnalysis(Problem, frozen=True):
    """A step failed its analysis, is held by it, or cannot be judged."""

    message: str


class ReleaseOutdated(Problem, frozen=True):
    """The workload has another template than the one that is released."""


class ReleaseStage(Enum):
    STEP = "a step is under way"
    TIMED_PAUSE = "a step waits for its time to pass"
    CANCELLING = "the release is taken back"
    PROMOTING = "the new version is promoted"


class ReleaseUnderWay(Problem, frozen=True):
    moment: ReleaseStage
    begun: bool
    step: int
    step_state: str
    message: str
    """Of the Rollout."""


class PromotionWithoutRoom(Problem, frozen=True):
    """New groups of a set that is promoted with a surge find no node, and the canary keeps its own until that is done
    (`rollouts.promotion_pace`)."""

    message: str
    """Of the Rollout."""
    groups: tuple[int, ...]
    namespace: str
    name: str
    all_stay: bool
    """No group may be away, so nothing moves before these are ready."""
    canary_stands_in: bool
    """All groups of the canary are ready: the set soon goes on without a surge."""


class ReferencesUnusable(Problem, frozen=True):
    message: str
    absent: bool
    """Something does not exist that the Rollout names."""
    rollout: str
    may_change: bool
    """Admission takes another name now."""
    services: tuple[str, ...]


class StepMovesRequests(Problem, frozen=True):
    step: int
    grace_seconds: int
    services: tuple[str, ...]


class RouteNotServed(Problem, frozen=True):
    message: str
