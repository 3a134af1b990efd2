"""Names on the wire: labels, annotations and variables that other software relies on."""

from typing import Final

from kohort.objects import well_known_names
from kohort.rules import group_template

PREFIX: Final = "leaderworkerset.sigs.k8s.io/"

# Labels
NAME: Final = f"{PREFIX}name"
REVISION: Final = f"{PREFIX}template-revision-hash"
WORKER_INDEX: Final = f"{PREFIX}worker-index"
GROUP_INDEX: Final = f"{PREFIX}group-index"
GROUP_KEY: Final = f"{PREFIX}group-key"
SUBGROUP_INDEX: Final = f"{PREFIX}subgroup-index"
SUBGROUP_KEY: Final = f"{PREFIX}subgroup-key"

# Annotations
SIZE: Final = f"{PREFIX}size"
REPLICAS: Final = f"{PREFIX}replicas"
LEADER_NAME: Final = f"{PREFIX}leader-name"
EXCLUSIVE: Final = f"{PREFIX}exclusive-topology"
SUBGROUP_EXCLUSIVE: Final = f"{PREFIX}subgroup-exclusive-topology"
SUBGROUP_SIZE: Final = f"{PREFIX}subgroup-size"
SUBGROUP_POLICY: Final = f"{PREFIX}subgroup-policy-type"
SUBDOMAIN_POLICY: Final = f"{PREFIX}subdomainPolicy"
LEADER_REQUESTS_TPUS: Final = f"{PREFIX}leader-requests-tpus"
RECREATE_AFTER_START: Final = f"{PREFIX}experimental-recreate-group-after-start"
UNIQUE_NODE_SELECTOR: Final = f"{PREFIX}replicaUniqueNodeSelector"
UNIQUE_TOLERATION_KEY: Final = f"{PREFIX}replicaUniqueTolerationKey"
UNIQUE_TOLERATION_EFFECT: Final = f"{PREFIX}replicaUniqueTolerationEffect"
EXCLUSIVE_EVERYWHERE: Final = f"{PREFIX}exclusive-topology-across-namespaces"
"""Ours: exclusive placement also keeps out groups of other namespaces."""
POD_GROUP: Final = "scheduling.k8s.io/group-name"
EXPECTED_RESTARTS: Final = "kohort.dev/expected-restarts"
"""On pods: restart counts by container, up to which restarts are the effect of a resize and not a failure."""
RESTARTS_COUNTED_SINCE: Final = "kohort.dev/restarts-counted-since"
"""On sets: when a user last restarted each group, by its index; earlier restarts do not count against its budget."""
ENGINE_RECOVERY: Final = "kohort.dev/engine-recovery-seconds"
"""On sets: how long the engine may recover by itself from a worker that restarted, while the leader is ready."""
RECOVERY_UNTIL: Final = "kohort.dev/engine-recovery-until"
"""On worker pods: until when the group is not restarted for their restarts."""
PREFER_PREVIOUS_NODES: Final = "kohort.dev/prefer-previous-nodes"
"""On sets: recreated pods prefer the nodes that their predecessors had."""
HELD_GATE: Final = "kohort.dev/restart-backoff"
"""Scheduling gate of pods whose predecessors failed again and again."""
HELD_UNTIL: Final = "kohort.dev/held-until"
"""On pods with that gate: when it is removed."""
HELD_BECAUSE: Final = "kohort.dev/held-because"
"""On pods with that gate: why the pod before failed."""
GROUP_RESIZE: Final = "kohort.dev/group-resize"
"""On leader pods: how far the in-place resize of their group has come."""
RESOURCES_OF_REVISION: Final = "kohort.dev/resources-of-revision"
"""On a set whose release was withdrawn: its groups have the template of this revision, whatever the set says."""
REVISION_LIMIT: Final = f"{PREFIX}revision-history-limit"
"""Ours: how many revisions are kept beyond those in use."""
LAST_APPLIED: Final = well_known_names.LAST_APPLIED

# Variables
LEADER_ADDRESS: Final = "LWS_LEADER_ADDRESS"
GROUP_SIZE: Final = "LWS_GROUP_SIZE"
WORKER_INDEX_VARIABLE: Final = "LWS_WORKER_INDEX"

FIELD_MANAGER: Final = "lws"
"""Server-side apply goes by the name that upstream uses, so that one operator can replace the other
without a restart of groups."""

LEADER: Final = "0"
"""The worker index of a leader."""

SHARED: Final = group_template.SHARED
UNIQUE: Final = "UniquePerReplica"
LEADER_CREATED: Final = "LeaderCreated"
LEADER_READY: Final = "LeaderReady"
RECREATE_ON_RESTART: Final = group_template.RECREATE_ON_RESTART
RECREATE_WHEN_STARTED: Final = "RecreateGroupAfterStart"
LEADER_EXCLUDED: Final = "LeaderExcluded"
LEADER_WORKER: Final = "LeaderWorker"

SERVED_AT: Final = "kohort.dev/served-at"
"""On a ControllerRevision: when all groups were first ready at it. One that was replaced before that has no mark."""
CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""On a set and on its revisions: why it was changed, in the words of the user."""
