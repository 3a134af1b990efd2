"""Messages as kube-scheduler writes them, of this release and of earlier ones."""

import pytest

from kohort.rules.scheduler_message import InsufficientResource, NodeReason, Reason, reasons_in, text

CPU, MEMORY = InsufficientResource("cpu"), InsufficientResource("memory")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are "
            "available: 1 No preemption victims found for incoming pod.",
            {CPU},
        ),
        (
            "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 2 Insufficient memory, 3 node(s) had untolerated "
            "taint {node-role.kubernetes.io/control-plane: }. preemption: 0/4 nodes are available: 4 Preemption is not "
            "helpful for scheduling.",
            {InsufficientResource("nvidia.com/gpu"), MEMORY, NodeReason.UNTOLERATED_TAINT},
        ),
        (
            "0/3 nodes are available: 1 node(s) had taint {node-role.kubernetes.io/master: }, that the pod didn't "
            "tolerate, 2 Insufficient cpu.",
            {NodeReason.UNTOLERATED_TAINT, CPU},
        ),
        (
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node "
            "affinity/selector. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not "
            "helpful for scheduling.",
            {NodeReason.UNSCHEDULABLE, NodeReason.NODE_AFFINITY},
        ),
        (
            "0/3 nodes are available: 3 node(s) had taints that the pod didn't tolerate.",
            {NodeReason.UNTOLERATED_TAINT},
        ),
        ("0/3 nodes are available: 3 node(s) didn't match node selector.", {NodeReason.NODE_AFFINITY}),
        (
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
            {NodeReason.VOLUME_NODE_AFFINITY},
        ),
        (
            "0/6 nodes are available: 3 node(s) didn't match pod affinity rules, 3 node(s) didn't match pod "
            "anti-affinity rules.",
            {NodeReason.POD_AFFINITY, NodeReason.POD_ANTI_AFFINITY},
        ),
        (
            "0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match pod topology spread constraints (missing "
            "required label).",
            {NodeReason.TOO_MANY_PODS, NodeReason.TOPOLOGY_LABEL_MISSING},
        ),
    ],
)
def test_the_reasons_of_nodes_are_found(message: str, expected: set[Reason]) -> None:
    assert reasons_in(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "",
        "no nodes available to schedule pods",
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        '0/3 nodes are available: persistentvolumeclaim "taint" not found.',
        "the affinity of this pod, 2 Insufficient cpu",
        "0/3 nodes are available: 3 node(s) had too little taint affinity for our own plugin.",
    ],
)
def test_a_message_without_known_reasons_has_none(message: str) -> None:
    assert reasons_in(message) == frozenset()


def test_reasons_of_preemption_are_left_out() -> None:
    message = (
        "0/2 nodes are available: 2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/2 "
        "nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling."
    )
    assert reasons_in(message) == {NodeReason.UNTOLERATED_TAINT}


@pytest.mark.parametrize("reason", [*NodeReason, CPU, InsufficientResource("example.com/gpu")], ids=text)
def test_every_reason_is_read_back_from_its_words(reason: Reason) -> None:
    alone = f"0/5 nodes are available: 5 {text(reason)}."
    among_others = (
        f"0/5 nodes are available: 1 Too many pods, 2 {text(reason)}, 4 Insufficient memory. preemption: none."
    )
    assert reasons_in(alone) == {reason}
    assert reasons_in(among_others) == {reason, NodeReason.TOO_MANY_PODS, MEMORY}
