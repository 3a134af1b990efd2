"""The words in which kube-scheduler says why a node does not take a pod: written by the embedded scheduler, read back
by the command line.

The condition `PodScheduled` of a pod carries nothing but a sentence, on Kubernetes as on the embedded cluster:

    0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). no new claims to deallocate,
    preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.

`text` makes the words of a reason, `reasons_in` finds the reasons in such a sentence. No other module reads it.
Wordings of earlier releases are understood as well, because clusters run them.
"""

import re
from enum import Enum
from typing import Final

import msgspec


class NodeReason(Enum):
    """Why one node does not take a pod. The value is the wording of Kubernetes 1.36."""

    UNSCHEDULABLE = "node(s) were unschedulable"
    UNTOLERATED_TAINT = "node(s) had untolerated taint(s)"
    NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
    NODE_NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    HOST_PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"
    TOO_MANY_PODS = "Too many pods"
    CLAIM_IN_USE = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )
    VOLUME_NODE_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
    NO_VOLUME_TO_BIND = "node(s) didn't find available persistent volumes to bind"
    VOLUME_ZONE = "node(s) had no available volume zone"
    TOPOLOGY_SPREAD = "node(s) didn't match pod topology spread constraints"
    TOPOLOGY_LABEL_MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
    POD_AFFINITY = "node(s) didn't match pod affinity rules"
    POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
    EXISTING_POD_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
    NO_PREEMPTION_VICTIMS = "No preemption victims found for incoming pod"
    PREEMPTION_NOT_HELPFUL = "Preemption is not helpful for scheduling"


class InsufficientResource(msgspec.Struct, frozen=True, gc=False):
    """The node has less of this resource free than the pod requests."""

    resource: str


Reason = NodeReason | InsufficientResource

_INSUFFICIENT: Final = "Insufficient "
_AVAILABLE: Final = " nodes are available:"
_COUNTED: Final = re.compile(r"(?:^|, )\d+ ")
"""What stands before each reason: the number of nodes that it holds for. Reasons contain commas themselves."""
_WORDS: Final = {reason.value: reason for reason in NodeReason}
_EARLIER_WORDS: Final = (
    (re.compile(r"node\(s\) had untolerated taint \{.*\}"), NodeReason.UNTOLERATED_TAINT),
    (re.compile(r"node\(s\) had taint \{.*\}, that the pod didn't tolerate"), NodeReason.UNTOLERATED_TAINT),
    (re.compile(r"node\(s\) had taints that the pod didn't tolerate"), NodeReason.UNTOLERATED_TAINT),
    (re.compile(r"node\(s\) didn't match (Pod's )?node (selector|affinity)"), NodeReason.NODE_AFFINITY),
    (re.compile(r"node\(s\) had volume node affinity conflict"), NodeReason.VOLUME_NODE_AFFINITY),
    (re.compile(r"node\(s\) didn't match pod affinity/anti-affinity( rules)?"), NodeReason.POD_ANTI_AFFINITY),
)


def text(reason: Reason) -> str:
    return reason.value if isinstance(reason, NodeReason) else f"{_INSUFFICIENT}{reason.resource}"


def reasons_in(message: str) -> frozenset[Reason]:
    """Why nodes were ruled out, from the message of the condition PodScheduled; what followed from preemption is left
    out, and so are reasons of other schedulers.

    >>> sorted(map(text, reasons_in("0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods.")))
    ['Insufficient cpu', 'Too many pods']
    """
    _, found, rest = message.partition(_AVAILABLE)
    if not found:
        return frozenset()
    counted = rest.split("preemption:", 1)[0].strip()
    parts = [part.strip().split(". ", 1)[0].rstrip(".") for part in _COUNTED.split(counted)]
    return frozenset(reason for part in parts if (reason := _reason(part)) is not None)


def _reason(words: str) -> Reason | None:
    if words in _WORDS:
        return _WORDS[words]
    if words.startswith(_INSUFFICIENT):
        return InsufficientResource(words.removeprefix(_INSUFFICIENT))
    return next((reason for pattern, reason in _EARLIER_WORDS if pattern.fullmatch(words)), None)
