"""Why a pod has no node, and what to do about it."""

from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition


def of_placing(pod: Pod, snapshot: Snapshot) -> tuple[str, str, str] | None:
    """(class, what was found, what to do); None if it has a node."""
    if pod.spec.node_name:
        return None
    if gates := [one.name for one in pod.spec.scheduling_gates]:
        text = f"held by scheduling gate{'' if len(gates) == 1 else 's'} {', '.join(gates)}"
        return "scheduling", text, "whoever set the gate in the template must lift it, or take it out of the template"
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return "scheduling", scheduled.message or scheduled.reason, _place_to_look(scheduled.message, pod, snapshot)
    name = pod.spec.scheduler_name or "default-scheduler"
    return "waiting", f"no node yet, {name} has not looked at it", "wait; if it stays so, see that this scheduler runs"


def _place_to_look(message: str, pod: Pod, snapshot: Snapshot) -> str:
    """
    | the scheduler says | so |
    |---|---|
    | Insufficient … | more room |
    | affinity, with an exclusive topology | more domains |
    | affinity or selector | labels |
    | taint | tolerations |
    """
    if "Insufficient" in message or "Too many pods" in message:
        return "add nodes, free what others hold, or ask for less in the template"
    group_set = snapshot.group_set
    for label, who in (
        (group_set.subgroup_exclusive_topology, "subgroup"),
        (group_set.exclusive_topology, "group"),
    ):
        if "affinity" in message and label:
            seen = f"see which nodes have it (kubectl get nodes -L {label})"
            return f"every {who} needs a value of node label {label} for itself: {seen}, add some, or want fewer groups"
    unique = group_set.template.scheduling
    if unique is not None and unique.replica_unique_node_selector:
        label = unique.replica_unique_node_selector
        return f"each group needs nodes labelled {label}=<leader's name>: kubectl label nodes ... {label}=..."
    if "affinity" in message or "selector" in message:
        asked = ",".join(f"{key}={value}" for key, value in pod.spec.node_selector.items())
        look = f" (kubectl get nodes -l {asked})" if asked else ""
        return f"see that nodes have the labels that the template's selector and affinity ask for{look}"
    if "taint" in message:
        return "tolerate the taint in the template, or remove it from the nodes"
    return "kubectl describe the pod for the scheduler's whole story"
