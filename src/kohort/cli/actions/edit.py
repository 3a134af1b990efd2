"""`undo`, `pause`, `resume`, `approve`, `retry`, `abort`, `restart`, `resize`."""

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.output_formats import show
from kohort.cli.actions.snapshot_reader import WORKLOADS
from kohort.cli.connection import Refusal
from kohort.groups.restart_budget import counted_since
from kohort.inspection import allowed_commands, history, roll_pause
from kohort.inspection.advice import Verb
from kohort.inspection.release_subject import Subject, command, title
from kohort.inspection.served_revisions import Version
from kohort.inspection.snapshot import Snapshot, worker_of
from kohort.inspection.workload import Workload
from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.errors import Forbidden, NotFound
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, ROLLOUTS, Resource
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import find_condition
from kohort.objects.pods import ResourceRequirements
from kohort.objects.quantity import Quantity
from kohort.rollouts.rollout_types import Rollout
from kohort.rules.api_server_message import RequestRefusal, request_refusal
from kohort.rules.group_labels import RESTARTS_COUNTED_SINCE
from kohort.rules.resize_restart import restarts_container
from kohort.rules.rollout_labels import READY

NO_RECREATION = "None"
"""The restartPolicy of a set that leaves the group alone when one of its containers restarts."""
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def resource_of(subject: Subject) -> Resource:
    return LEADER_WORKER_SETS if isinstance(subject, Snapshot) else WORKLOADS[subject.kind.lower()].resource


async def undo(client: Client, namespace: str, name: str, to: int | None, dry_run: bool) -> int:
    found = await snapshot_reader.subject(client, namespace, name)
    wanted = history.previous(found) if to is None else history.chosen(found, to)
    if wanted.key == found.update_key:
        show([f"{name} is at revision {wanted.number} already"])
        return 0
    await return_to(client, found, wanted, dry_run=dry_run)
    verb = "would return" if dry_run else "returns"
    show([f"{name} {verb} to {history.renewed(found, wanted)}{what_follows(found, dry_run)}"])
    return 0


async def return_to(client: Client, found: Subject, to: Version, *, dry_run: bool = False) -> None:
    metadata, patch = found.metadata, history.return_patch(found, to)
    await client.patch(resource_of(found), metadata.name, metadata.namespace, patch, PatchType.JSON, dry_run=dry_run)


def what_follows(found: Subject, dry_run: bool) -> str:
    """What comes next. There is nothing to follow where nothing happens."""
    if dry_run:
        return ""
    rollout = f"Rollout {found.rollout.metadata.name}" if found.rollout is not None else ""
    if roll_pause.paused(found):
        resume = command(found, Verb.RESUME).text
        return f"; {rollout or 'the workload'} is paused, and begins with it after: {resume}"
    released = f"; {rollout} releases it, from its first step on" if rollout else ""
    return f"{released}; follow it with: {command(found, Verb.STATUS).text}"


async def pause(client: Client, namespace: str, name: str) -> int:
    found = await snapshot_reader.subject(client, namespace, name)
    if found.rollout is not None:
        return await _pause_rollout(client, found.rollout, True)
    return await _hold(
        client, found, roll_pause.pause_workload(found) if isinstance(found, Workload) else roll_pause.pause(found)
    )


async def resume(client: Client, namespace: str, name: str) -> int:
    found = await snapshot_reader.subject(client, namespace, name)
    if found.rollout is not None:
        return await _pause_rollout(client, found.rollout, False)
    decision = roll_pause.resume_workload(found) if isinstance(found, Workload) else roll_pause.resume(found)
    return await _hold(client, found, decision)


async def _hold(client: Client, found: Subject, decision: roll_pause.Decision) -> int:
    if decision.patch is not None:
        await client.patch(resource_of(found), found.metadata.name, found.metadata.namespace, decision.patch)
    show([decision.words])
    return 0


async def _pause_rollout(client: Client, rollout: Rollout, paused: bool) -> int:
    metadata = rollout.metadata
    body: JsonObject = {"spec": {"strategy": {"paused": paused}}}
    await client.patch(ROLLOUTS, metadata.name, metadata.namespace, body)
    show([f"Rollout {metadata.name} {'is paused' if paused else 'goes on'}"])
    return 0


async def approve(client: Client, namespace: str, name: str, step: int | None = None, full: bool = False) -> int:
    """Lets a step that waits for a person go on; or goes on with another step, with `full` with the last one."""
    found = await snapshot_reader.subject(client, namespace, name)
    if full and found.rollout is not None:
        step = len(found.rollout.strategy.steps)
    refused = allowed_commands.approval_refusal(found) if step is None else allowed_commands.jump_refusal(found, step)
    if refused:
        raise Refusal(refused)
    rollout = found.rollout
    assert rollout is not None, "a workload without one is refused"
    index = rollout.status.current_step_index
    last = len(rollout.strategy.steps)
    if step is None or step == index + 1 or (full and index == last):
        await _patch_progress(client, rollout, {"currentStepState": READY})
        show([f"step {index} of Rollout {rollout.metadata.name} is approved"])
        return 0
    await _patch_progress(client, rollout, {"nextStepIndex": step})
    waits = full and not rollout.skips_pause(last) and rollout.strategy.steps[-1].pause_seconds is None
    after = f"; it waits there for: {command(found, Verb.APPROVE).text}" if waits else ""
    show([f"Rollout {rollout.metadata.name} goes from step {index} to step {step} of {last}{after}"])
    return 0


async def _patch_progress(client: Client, rollout: Rollout, fields: JsonObject) -> None:
    field = "canaryStatus" if rollout.status.canary_status is not None else "blueGreenStatus"
    metadata = rollout.metadata
    body: JsonObject = {"status": {field: fields}}
    await client.patch(ROLLOUTS, metadata.name, metadata.namespace, body, subresource="status")


async def retry(client: Client, namespace: str, name: str) -> int:
    """Does the step of a release again; or, when the last release was given up, begins that release again.

    | the workload | so |
    |---|---|
    | is being released, and the release is rolling | its current step is begun again |
    | is at rest, and the newest other version never served | that version again |
    """
    found = await snapshot_reader.subject(client, namespace, name)
    rollout = found.rollout
    if rollout is not None and found.releasing:
        index = rollout.status.current_step_index
        if refused := allowed_commands.jump_refusal(found, index):
            raise Refusal(refused)
        await _patch_progress(client, rollout, {"nextStepIndex": index})
        show([f"step {index} of Rollout {rollout.metadata.name} is begun again"])
        return 0
    served = history.served(found)
    others = [one for one in history.in_order(found.versions) if one.key != found.update_key]
    if not others or (served[others[-1].key].may_be_returned_to and not _was_given_up(found, others[-1])):
        raise Refusal(
            f"{title(found)} has no release that was given up; to return to an earlier revision: "
            f"{command(found, Verb.UNDO).text}"
        )
    await return_to(client, found, others[-1])
    show([f"{name} is given {history.renewed(found, others[-1])} again{what_follows(found, dry_run=False)}"])
    return 0


def _was_given_up(found: Subject, version: Version) -> bool:
    """It was made after the present one and does not run: an abort took it back."""
    present = next((one for one in found.versions if one.key == found.update_key), None)
    return present is not None and version.created > present.created and version.key not in found.using


async def abort(client: Client, namespace: str, name: str) -> int:
    """Ends a roll or a release by returning to the revision that was served before it."""
    found = await snapshot_reader.subject(client, namespace, name)
    if refused := allowed_commands.abort_refusal(found):
        raise Refusal(refused)
    stable = next(one for one in found.versions if one.key == found.stable_key)
    await return_to(client, found, stable)
    show([f"{name} returns to {history.renewed(found, stable)}{_back(found)}"])
    return 0


def _back(found: Subject) -> str:
    """After an abort. A Rollout lets go of the new version at once; a pause outlives what was held."""
    held = f"; it stays paused until {command(found, Verb.RESUME).text}" if roll_pause.paused(found) else ""
    return f"{held}; follow it with: {command(found, Verb.STATUS).text}"


async def restart(client: Client, namespace: str, name: str, group: int | None) -> int:
    """All replicas as a roll, which keeps to the strategy of the workload; or one group, at once."""
    found = await snapshot_reader.subject(client, namespace, name)
    if group is None:
        metadata = found.metadata
        await client.patch(resource_of(found), metadata.name, metadata.namespace, _restarting(found))
        what = "groups" if isinstance(found, Snapshot) else "pods"
        show([f"{name} recreates its {what} step by step{what_follows(found, dry_run=False)}"])
        return 0
    if not isinstance(found, Snapshot):
        raise Refusal(f"{title(found)} has no groups; leave --group out to recreate its pods step by step")
    leader = found.leaders.get(group)
    if leader is None:
        there = ", ".join(map(str, sorted(found.leaders))) or "none"
        raise Refusal(f"LeaderWorkerSet {name} has no group {group}; there are: {there}")
    metadata = leader.metadata
    if found.group_set.template.restart_budget is not None:
        await client.patch(LEADER_WORKER_SETS, found.name, namespace, _counting_anew(found, group))
    await client.delete(PODS, metadata.name, namespace, propagation="Foreground", uid=metadata.uid)
    show([f"group {group} of {name} is recreated"])
    return 0


def _counting_anew(found: Snapshot, group: int) -> JsonObject:
    """Restarts of the group before now do not count against its budget any more."""
    known = counted_since(found.metadata.annotations)
    groups = {index: time for index, time in known.items() if index.isdecimal() and int(index) < found.replicas}
    groups[str(group)] = clock.micro_timestamp()
    return {"metadata": {"annotations": {RESTARTS_COUNTED_SINCE: msgspec.json.encode(groups).decode()}}}


def _restarting(found: Subject) -> JsonObject:
    mark = {"metadata": {"annotations": {RESTARTED_AT: clock.timestamp()}}}
    if not isinstance(found, Snapshot):
        return {"spec": {"template": mark}}
    roles = ["workerTemplate", *(["leaderTemplate"] if found.group_set.template.raw.get("leaderTemplate") else [])]
    return {"spec": {"leaderWorkerTemplate": dict.fromkeys(roles, mark)}}


async def resize_groups(client: Client, namespace: str, name: str, size: int, recreate: bool, dry_run: bool) -> int:
    """Other numbers of pods per group. That recreates groups, so the set or `--recreate` must allow it."""
    found = await snapshot_reader.snapshot(client, namespace, name)
    template = found.group_set.template
    if template.size == size:
        show([f"groups of {name} have {size} pods already"])
        return 0
    if template.resize_policy != "Recreate" and not recreate:
        raise Refusal(
            f"groups of {name} would be recreated with {size} instead of {template.size} pods, and its resizePolicy is "
            f"{template.resize_policy or 'not set'}; add --recreate to allow it"
        )
    change: JsonObject = {"size": size, **({"resizePolicy": "Recreate"} if recreate else {})}
    body = {"spec": {"leaderWorkerTemplate": change}}
    await client.patch(LEADER_WORKER_SETS, name, namespace, body, dry_run=dry_run)
    verb = "would be recreated" if dry_run else "are recreated"
    show([f"groups of {name} {verb} with {size} pods{what_follows(found, dry_run)}"])
    return 0


async def resize_pods(
    client: Client,
    namespace: str,
    name: str,
    amounts: Mapping[str, str],
    container: str,
    role: str,
    dry_run: bool,
    whole_pod: bool = False,
    allow_recreate: bool = False,
) -> int:
    """Other resources for pods that run, in place: of one container each, or of each pod as a whole. The template
    stays: it is what later pods are made of."""
    found = await snapshot_reader.snapshot(client, namespace, name)
    pods = [pod for pod in found.pods if not pod.metadata.deleting and role in ("all", _role(pod))]
    if not pods:
        raise Refusal(f"LeaderWorkerSet {name} has no {'pods' if role == 'all' else role + ' pods'} to resize")
    if container:
        pods = _with(container, pods)
    elif not whole_pod and (bound := _bound_by_pod(pods, amounts)):
        words = " ".join(f"--{key} {value}" for key, value in amounts.items())
        raise Refusal(
            f"pods of {name} have {bound} as a whole (spec.resources): kohort resize {name} -n {namespace} --pod "
            f"{words} changes that; --container NAME changes one container within it"
        )
    restarted = _restarted(pods, container, amounts, whole_pod)
    policy = found.group_set.template.restart_policy
    if restarted and policy != NO_RECREATION and not allow_recreate:
        raise Refusal(
            f"containers {', '.join(restarted)} of {name} restart when they are resized (their resizePolicy is "
            f"RestartContainer), and the restartPolicy {policy} of the set then recreates their groups from the "
            "template, at the old size; change the template instead, set restartPolicy to None, or add "
            "--allow-recreate to do it all the same"
        )
    for trial in (True,) if dry_run else (True, False):  # a pod that cannot have it is found before any is changed
        for pod in pods:
            change = _pod_block(pod, amounts) if whole_pod else {"containers": [_resources(pod, container, amounts)]}
            await _resize(client, pod, change, trial)
    text = ", ".join(f"{key} {value}" for key, value in amounts.items())
    if dry_run:
        show([f"{len(pods)} pods of {name} could get {text} in place"])
        return 0
    show([f"{len(pods)} pods of {name} get {text} in place; see progress with: {command(found, Verb.EXPLAIN).text}"])
    show(["The template is unchanged: pods that are created later get the resources in it."])
    if restarted and policy != NO_RECREATION:
        show([f"Their containers {', '.join(restarted)} restart, and their groups are recreated at the old size."])
    if unenforced := await _unenforced(client, pods):
        show([f"Limits are not enforced on {unenforced}"])
    return 0


def _bound_by_pod(pods: list[Pod], amounts: Mapping[str, str]) -> str:
    """Which of these resources pods have as a whole: containers cannot outgrow that."""
    blocks = [one.spec.resources for one in pods if one.spec.resources is not None]
    names = [key for key in amounts if any(key in {*one.requests, *one.limits} for one in blocks)]
    return " and ".join(names)


def _restarted(pods: list[Pod], container: str, amounts: Mapping[str, str], whole_pod: bool) -> list[str]:
    """Containers that their own policy restarts. A change of a pod as a whole is felt by those without a limit of their
    own."""
    found: dict[str, None] = {}
    for pod in pods:
        for position, one in enumerate(pod.spec.main_containers):
            chosen = one.name == container if container else position == 0
            changed = [key for key in amounts if (key not in one.resources.limits if whole_pod else chosen)]
            if restarts_container(one, changed):
                found[one.name] = None
    return list(found)


def _pod_block(pod: Pod, amounts: Mapping[str, str]) -> JsonObject:
    """As of a container: requests change, and limits where they must."""
    before = pod.spec.resources or ResourceRequirements()
    limits = {key: value for key, value in amounts.items() if _moves_limit(before, key, value)}
    return {"resources": {"requests": dict(amounts), **({"limits": limits} if limits else {})}}


def _with(container: str, pods: list[Pod]) -> list[Pod]:
    """The pods that have such a container: leaders may differ from workers."""
    names = [[one.name for one in pod.spec.main_containers] for pod in pods]
    if found := [pod for pod, each in zip(pods, names, strict=True) if container in each]:
        return found
    there = ", ".join(dict.fromkeys(name for each in names for name in each))
    raise Refusal(f"no pod has a container {container}; there are: {there}")


async def _resize(client: Client, pod: Pod, change: JsonObject, dry_run: bool) -> None:
    name, body = pod.metadata.name, {"spec": change}
    try:
        await client.patch(
            PODS, name, pod.metadata.namespace, body, PatchType.STRATEGIC, subresource="resize", dry_run=dry_run
        )
    except NotFound as problem:
        raise Refusal("this cluster cannot resize pods in place (Kubernetes 1.33 or newer can)") from problem
    except Forbidden as problem:
        if request_refusal(problem.message) is not RequestRefusal.NODE_TOO_SMALL:
            raise
        raise Refusal(
            f"{problem.message}; ask for less, or change the template, so that groups are recreated where there is room"
        ) from problem


async def _unenforced(client: Client, pods: list[Pod]) -> str:
    """The first node of these pods that reports that it cannot enforce limits, and why; empty also if the user may not
    read nodes."""
    for name in sorted({pod.spec.node_name for pod in pods if pod.spec.node_name}):
        with suppress(Forbidden, NotFound):
            node = await client.get(NODES, name, type=Node)
            enforced = find_condition(node.status.conditions, "ResourcesEnforced")
            if enforced is not None and enforced.status == "False":
                return f"node {name}: {enforced.message or enforced.reason}"
    return ""


def _role(pod: Pod) -> str:
    return "worker" if worker_of(pod) else "leader"


def _resources(pod: Pod, container: str, amounts: Mapping[str, str]) -> JsonObject:
    """Requests change; a limit that is equal to its request stays equal, so that the quality of service does. Others
    stay, unless the request outgrows them: then they follow, because the server would refuse the resize otherwise."""
    mains = pod.spec.main_containers
    chosen = next(one for one in mains if one.name == container) if container else mains[0]
    limits = {key: value for key, value in amounts.items() if _moves_limit(chosen.resources, key, value)}
    return {"name": chosen.name, "resources": {"requests": dict(amounts), **({"limits": limits} if limits else {})}}


def _moves_limit(before: ResourceRequirements, key: str, wanted: str) -> bool:
    if key not in before.limits:
        return False
    limit = Quantity.parse(before.limits[key])
    try:
        outgrown = Quantity.parse(wanted) > limit
    except ValueError:
        return False  # the server reports the error
    return outgrown or limit == Quantity.parse(before.requests.get(key, before.limits[key]))
