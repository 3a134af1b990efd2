"""Why a pod cannot run on this node however much room there is, in the words of Kubernetes. The scheduler checks the
same; pods that are bound without it are checked here."""

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.objects import well_known_names
from kohort.objects.node_pods import NodePod
from kohort.objects.pods import Pod
from kohort.rules.pod_admission import Rejection, RejectionReason

OS_LABEL: Final = well_known_names.OS
OS: Final = "linux"
_ANY: Final = ("", "0.0.0.0", "::")


NO_EXACT_GROUPS: Final = Rejection(
    RejectionReason.SUPPLEMENTAL_GROUPS, "SupplementalGroupsPolicy=Strict is not supported in this node"
)


def needs_exact_groups(pod: NodePod) -> bool:
    context = pod.spec.security_context
    return context is not None and context.supplemental_groups_policy == "Strict"


def mismatch(pod: Pod, others: Iterable[Pod]) -> Rejection | None:
    """`others` are the pods that this node has admitted."""
    if pod.metadata.labels.get(OS_LABEL, OS) != OS:
        message = f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label"
        return Rejection(RejectionReason.POD_OS_LABEL, message)
    if pod.spec.os is not None and pod.spec.os.name != OS:
        return Rejection(RejectionReason.POD_OS, "Failed to admit pod as the OS field doesn't match node OS")
    wanted = list(_host_ports(pod))
    if wanted and any(_collide(own, taken) for each in others for taken in _host_ports(each) for own in wanted):
        message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        return Rejection(RejectionReason.NODE_PORTS, message)
    return None


def _host_ports(pod: Pod) -> Iterator[tuple[str, int, str]]:
    for container in pod.spec.all_containers:
        for port in container.ports:
            if port.host_port:
                yield port.protocol or "TCP", port.host_port, port.host_ip


def _collide(one: tuple[str, int, str], other: tuple[str, int, str]) -> bool:
    return one[:2] == other[:2] and (one[2] == other[2] or one[2] in _ANY or other[2] in _ANY)
