"""`resize`: other resources for the groups of a set, or other numbers of pods in them.

| what is given | what is done |
|---|---|
| amounts, and a policy for changes in place | the template is edited, and the operator is followed until it is done |
| amounts, and the policy Recreate | refused, with the choices; `--recreate` edits the template all the same |
| amounts and `--pods-only` | running pods are changed, the template is not |
| a size | the template is edited; groups are recreated |
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

import click
import msgspec

from kohort.cli.actions import plan, snapshot_reader
from kohort.cli.actions.change_watch import Changes
from kohort.cli.actions.edit import forget_stop, next_command_text
from kohort.cli.actions.live_text import Screen
from kohort.cli.actions.output_formats import document, show
from kohort.cli.connection import NOT_YET, PAUSED, TOO_LATE, Refusal
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection import set_causes
from kohort.inspection.advice import Command, Verb
from kohort.inspection.capacity_forecast import Room
from kohort.inspection.forecast import Forecast, forecast_lines
from kohort.inspection.messages import listed_groups, request_words, way_words
from kohort.inspection.progress import WorkloadProgress, progress_lines, progress_of, resize_line
from kohort.inspection.release_subject import command
from kohort.inspection.resize_causes import resize_causes_of_set
from kohort.inspection.resize_forecast import GroupReason, ResizeMethod
from kohort.inspection.resize_progress import GroupOutcome, outcomes, stopped_groups
from kohort.inspection.snapshot import Snapshot, worker_of
from kohort.inspection.template_resize import (
    AmountRequest,
    BoundByPod,
    RoleChoice,
    limits_that_follow,
    request_problem,
    resized_template,
    resources_of_pods,
)
from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.errors import Forbidden, NotFound
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS
from kohort.objects.core import Node, Pod
from kohort.objects.counted_nouns import agreeing, counted
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import find_condition
from kohort.objects.pods import ResourceRequirements
from kohort.rules.api_server_message import RequestRefusal, request_refusal
from kohort.rules.group_template import canonical_template
from kohort.rules.node_conditions import RESOURCES_ENFORCED
from kohort.rules.resize_restart import restarts_container
from kohort.rules.resource_update_policy import ResourceUpdatePolicy, deadline_seconds, resource_update_policy

NO_RECREATION: Final = "None"
"""The restartPolicy of a set that leaves the group alone when one of its containers restarts."""


class TemplateEditOptions(msgspec.Struct, frozen=True):
    """How the template is edited, beside the amounts."""

    policy: str = ""
    """The resourceUpdatePolicy to set in the same edit."""
    deadline: int | None = None
    """The resourceUpdateDeadlineSeconds to set in the same edit."""
    recreate: bool = False
    """Edit the template also where that recreates all groups."""
    dry_run: bool = False
    wait: bool = True
    timeout: float | None = None
    form: str = "text"


class CommandOutcome(StrEnum):
    """How far the command has followed the resize."""

    DONE = "done"
    STOPPED = "stopped"
    REPLACED = "replaced"
    """By another edit of the template."""
    PAUSED = "paused"
    TIMED_OUT = "timedOut"
    STARTED = "started"
    """Without --wait."""


class ResizeResult(msgspec.Struct, frozen=True, rename="camel"):
    """What `-o json` prints at the end."""

    name: str
    namespace: str
    outcome: CommandOutcome
    reason: str
    """Of the condition ResizeInProgress, when stopped."""
    message: str
    """How far the groups are, or what they wait for."""
    resized_in_place: tuple[int, ...]
    """Groups."""
    recreated: tuple[int, ...]
    unchanged: tuple[int, ...]
    """Groups that have their former resources."""
    up_to_date: tuple[int, ...]
    """Groups that had the wanted resources before the command."""
    revision: int
    action: str = ""
    """What to do."""
    commands: tuple[str, ...] = ()


async def resize_template(
    client: Client, namespace: str, name: str, request: AmountRequest, options: TemplateEditOptions
) -> int:
    """Other resources in the template. With a policy for it, running groups get them in place."""
    found = await snapshot_reader.snapshot(client, namespace, name)
    name, spec = found.name, found.group_set.spec
    policy = ResourceUpdatePolicy(options.policy) if options.policy else resource_update_policy(spec)
    template = found.group_set.template.raw
    if refusal := _refusal_of_request(found, request, policy, options):
        raise Refusal(refusal)
    wanted = resized_template(template, request)
    same = canonical_template(wanted) == canonical_template(template)
    same_strategy = policy is resource_update_policy(spec) and options.deadline in (None, deadline_seconds(spec))
    if same and same_strategy and not stopped_groups(found):
        if options.form == "text":
            what = f"the template of {name}" if request.amounts else name
            show([f"{what} has {_amounts_text(request)} already"])
        if progress_of(found, clock.now()).done or options.dry_run:
            return 0 if options.form == "text" else _report(_result(found, found, CommandOutcome.DONE), options.form, 0)
        return await _follow(client, found, wanted, options) if options.wait else 0
    patch = _patch(found, wanted, options)
    stored = await client.patch(LEADER_WORKER_SETS, name, namespace, patch, PatchType.JSON, dry_run=True)
    foreseen = await _forecast(client, found, msgspec.convert(stored, LeaderWorkerSet))
    if options.dry_run:
        return _show_forecast(foreseen, options.form)
    if refusal := _refusal_of_forecast(foreseen, policy, options):
        raise Refusal(refusal)
    await client.patch(LEADER_WORKER_SETS, name, namespace, patch, PatchType.JSON)
    if request.amounts or same_strategy:
        await forget_stop(client, found)
    if options.form == "text":
        edited = _edited(found, request, policy, options, foreseen)
        show([f"{edited}{'' if options.wait else next_command_text(found, False)}"])
    if not options.wait:
        return 0 if options.form == "text" else _report(_result(found, found, CommandOutcome.STARTED), options.form, 0)
    return await _follow(client, found, wanted, options)


def _refusal_of_request(
    found: Snapshot, request: AmountRequest, policy: ResourceUpdatePolicy, options: TemplateEditOptions
) -> str:
    """Why the template is not edited, whatever the cluster says; empty if it may be."""
    problem = request_problem(found.group_set.template.raw, request)
    if isinstance(problem, BoundByPod):
        return _bound_by_pod(found, problem, msgspec.structs.replace(request, whole_pod=True))
    if problem is not None:
        return f"LeaderWorkerSet {found.name}: {request_words(problem)}"
    if not policy.in_place and not options.recreate and request.amounts:
        return _choice(found, request)
    return ""


def _refusal_of_forecast(foreseen: Forecast, policy: ResourceUpdatePolicy, options: TemplateEditOptions) -> str:
    """Why the edit is not made, given what it would do; empty if it may be."""
    if policy is ResourceUpdatePolicy.IN_PLACE_ONLY and _recreates_serving(foreseen) and not options.recreate:
        return _against_policy(foreseen, options)
    if policy.in_place and foreseen.recreated and foreseen.room is not None and not foreseen.room.fits:
        return _without_room(foreseen, foreseen.room)
    return ""


def _choice(found: Snapshot, request: AmountRequest) -> str:
    """What the user may choose between, if the set does not say how its resources change."""

    def typed(*more: str) -> str:
        return command(found, Verb.RESIZE, *request.options, *more).text

    return "\n".join(
        [
            f"groups of {found.name} would be recreated for {_amounts_text(request)}: its resourceUpdatePolicy is "
            "Recreate. Choose:",
            f"  in place; groups that cannot follow are recreated:  {typed('--policy', 'InPlaceOrRecreate')}",
            f"  in place; stop at a group that cannot follow:       {typed('--policy', 'InPlaceOnly')}",
            f"  running pods only; the template stays as it is:     {typed('--pods-only')}",
            f"  recreate all groups:                                {typed('--recreate')}",
        ]
    )


def _bound_by_pod(found: Snapshot, problem: BoundByPod, request: AmountRequest, more: tuple[str, ...] = ()) -> str:
    changes = command(found, Verb.RESIZE, *request.options, *more).text
    return f"{request_words(problem)}: {changes} changes that; --container NAME changes one container within it"


def _amounts_text(request: AmountRequest) -> str:
    return ", ".join(f"{key} {value}" for key, value in request.amounts.items()) or "these settings"


def _patch(found: Snapshot, template: JsonObject, options: TemplateEditOptions) -> list[JsonObject]:
    """Refused if the spec has changed since it was read."""
    spec = found.group_set.spec
    patch: list[JsonObject] = [
        {"op": "test", "path": "/metadata/generation", "value": found.metadata.generation},
        {"op": "replace", "path": "/spec/leaderWorkerTemplate", "value": template},
    ]
    chosen: JsonObject = {"resourceUpdatePolicy": options.policy} if options.policy else {}
    if options.deadline is not None:
        chosen["resourceUpdateDeadlineSeconds"] = options.deadline
    if chosen:
        strategy = {**(spec.get("rolloutStrategy") or {}), **chosen}
        patch.append({"op": "add", "path": "/spec/rolloutStrategy", "value": strategy})
    return patch


def _edited(
    found: Snapshot,
    request: AmountRequest,
    policy: ResourceUpdatePolicy,
    options: TemplateEditOptions,
    foreseen: Forecast,
) -> str:
    settings = [f"resourceUpdatePolicy is {policy.value}"] if options.policy else []
    settings += [f"groups have {options.deadline} s each"] if options.deadline is not None else []
    rule = f"; {', '.join(settings)} from now on" if settings else ""
    if not request.amounts:
        return f"{found.name}{rule.replace(';', ':', 1)}" if settings else found.name
    return f"groups of {found.name} get {_amounts_text(request)} {_how(policy, foreseen)}{rule}"


def _how(policy: ResourceUpdatePolicy, foreseen: Forecast) -> str:
    ways = foreseen.resources
    recreated = ways.by_way(ResizeMethod.RECREATE) if ways is not None else []
    if not policy.in_place:
        return "by being recreated"
    if ways is None or not recreated:
        return "in place"
    named = "by being recreated" if len(recreated) == len(ways.groups) else "in place or by being recreated"
    return f"{named} ({listed_groups([one.group for one in recreated])}: {way_words(recreated[0])})"


async def _forecast(client: Client, before: Snapshot, after: LeaderWorkerSet) -> Forecast:
    nodes = await snapshot_reader.list_if_readable(client, NODES, "", Node)
    pods = await snapshot_reader.list_if_readable(client, PODS, "", Pod) if nodes else []
    return await plan.forecast_of_set(client, before, after, nodes, pods)


def _recreates_serving(found: Forecast) -> bool:
    """The policy InPlaceOnly keeps pods that serve; those of a group that has failed do not."""
    ways = found.resources.by_way(ResizeMethod.RECREATE) if found.resources is not None else []
    failed = {one.group for one in ways if one.reason is GroupReason.BROKEN}
    return not failed.issuperset(found.recreated)


def _against_policy(found: Forecast, options: TemplateEditOptions) -> str:
    """The operator rolls what running pods cannot follow, whatever the policy."""
    allowed = "give --recreate instead of --policy" if options.policy else "add --recreate"
    ways = found.resources.by_way(ResizeMethod.RECREATE) if found.resources is not None else []
    why = f" ({way_words(ways[0])})" if ways else ""
    return (
        f"nothing was changed: {listed_groups(found.recreated)} would be recreated{why}, and resourceUpdatePolicy is "
        f"InPlaceOnly; ask for other amounts, or {allowed} to allow it"
    )


def _without_room(found: Forecast, room: Room) -> str:
    """Groups that would be deleted for nothing: they can neither follow in place nor be placed anew."""
    ways = found.resources.by_way(ResizeMethod.RECREATE) if found.resources is not None else []
    why = f" ({way_words(ways[0])})" if ways else ""
    pods = f"{counted(room.homeless, 'pod')} {agreeing(room.homeless, 'finds', 'find')}"
    return (
        f"nothing was changed: {listed_groups(found.recreated)} would be recreated{why}, and {pods} no node "
        f"({room.reason}); ask for less, or make room"
    )


async def _follow(client: Client, before: Snapshot, wanted: JsonObject, options: TemplateEditOptions) -> int:
    """Until the groups have the resources, or until nothing goes on without the user, or until another edit has
    replaced what is wanted."""
    name, namespace = before.name, before.metadata.namespace
    now = before
    try:
        async with asyncio.timeout(options.timeout), Changes(client, namespace, name) as changes:
            with Screen(live=options.form == "text") as screen:
                while True:
                    await changes.next()
                    now = await snapshot_reader.snapshot(client, namespace, name, surroundings=True)
                    progress = progress_of(now, clock.now())
                    if options.form == "text":
                        screen.show(_progress_text(progress, screen))
                    if canonical_template(now.group_set.template.raw) != canonical_template(wanted):
                        outcome = CommandOutcome.REPLACED
                        break
                    if (reached := _outcome(progress)) is not None:
                        outcome = reached
                        break
    except TimeoutError:
        outcome = CommandOutcome.TIMED_OUT
    except asyncio.CancelledError:
        click.echo(f"kohort: interrupted; the operator goes on with it. {_ways_on(before)}", err=True)
        raise
    code = _report(_result(before, now, outcome), options.form, _CODES[outcome])
    if (
        outcome is CommandOutcome.DONE
        and options.form == "text"
        and (unenforced := await _unenforced(client, now.pods))
    ):
        show([f"Limits are not enforced on {unenforced}"])
    return code


def _progress_text(progress: WorkloadProgress, screen: Screen) -> str:
    """On a terminal all of it, drawn over; elsewhere a line for each change."""
    if progress.resize is None or screen.live:
        return "\n".join(progress_lines(progress))
    return resize_line(progress.resize)


_CODES: Final[Mapping[CommandOutcome, int]] = {
    CommandOutcome.DONE: 0,
    CommandOutcome.STOPPED: NOT_YET,
    CommandOutcome.REPLACED: NOT_YET,
    CommandOutcome.PAUSED: PAUSED,
    CommandOutcome.TIMED_OUT: TOO_LATE,
}


def _outcome(progress: WorkloadProgress) -> CommandOutcome | None:
    """None while it goes on."""
    if progress.done:
        return CommandOutcome.DONE
    if progress.resize is not None and progress.resize.stopped:
        return CommandOutcome.STOPPED
    return CommandOutcome.PAUSED if progress.at_pause else None


def _ways_on(found: Snapshot) -> str:
    return f"Follow it with: {command(found, Verb.STATUS).text}; go back with: {command(found, Verb.UNDO).text}"


def _result(before: Snapshot, now: Snapshot, outcome: CommandOutcome) -> ResizeResult:
    progress = progress_of(now, clock.now())
    waited = outcome is not CommandOutcome.STARTED
    groups = outcomes(before, now) if waited else dict.fromkeys(before.leaders, GroupOutcome.UNCHANGED)
    causes = [] if outcome is CommandOutcome.DONE else list(resize_causes_of_set(now)) or set_causes.causes(now)
    resize = progress.resize

    def of(wanted: GroupOutcome) -> tuple[int, ...]:
        return tuple(index for index, one in groups.items() if one is wanted)

    return ResizeResult(
        name=now.name,
        namespace=now.metadata.namespace,
        outcome=outcome,
        reason=resize.reason if resize is not None else "",
        message=resize.message if resize is not None else progress.waiting_for,
        resized_in_place=of(GroupOutcome.IN_PLACE),
        recreated=of(GroupOutcome.RECREATED),
        unchanged=of(GroupOutcome.UNCHANGED),
        up_to_date=of(GroupOutcome.UP_TO_DATE),
        revision=progress.revision,
        action=causes[0].action.text if causes else "",
        commands=tuple(one.text for cause in causes[:1] for one in cause.action.commands),
    )


def _report(found: ResizeResult, form: str, code: int) -> int:
    if form != "text":
        show([document(found, form)])
        return code
    if found.outcome is CommandOutcome.DONE:
        show([f"{found.name}: {_counts(found)}"])
        return code
    explain = Command(Verb.EXPLAIN, found.name, found.namespace).text
    waits_for = found.message or "the operator has not begun"
    what = {
        CommandOutcome.STOPPED: f"stopped ({found.reason}): {found.message}",
        CommandOutcome.REPLACED: "another edit of the template came meanwhile, and the groups follow that one",
        CommandOutcome.PAUSED: "its release is paused and waits",
        CommandOutcome.TIMED_OUT: f"not done in time: {waits_for}; the operator goes on with it",
    }[found.outcome]
    click.echo(f"kohort: {found.name}: {what}\n  {_counts(found)}\n  → {found.action or explain}", err=True)
    return code


def _counts(found: ResizeResult) -> str:
    parts = [
        (f"resized in place: {listed_groups(found.resized_in_place)}" if found.resized_in_place else ""),
        (f"recreated: {listed_groups(found.recreated)}" if found.recreated else ""),
        (f"with former resources: {listed_groups(found.unchanged)}" if found.unchanged else ""),
        (f"had these resources before: {listed_groups(found.up_to_date)}" if found.up_to_date else ""),
    ]
    return "; ".join(filter(None, parts)) or "no groups"


async def resize_groups(
    client: Client, namespace: str, name: str, size: int, recreate: bool, dry_run: bool, form: str = "text"
) -> int:
    """Other numbers of pods per group. That recreates groups, so the set or `--recreate` must allow it."""
    found = await snapshot_reader.snapshot(client, namespace, name)
    template = found.group_set.template
    if template.size == size and not (dry_run and form != "text"):
        show([f"groups of {name} have {counted(size, 'pod')} already"])
        return 0
    if template.size != size and template.resize_policy != "Recreate" and not recreate:
        raise Refusal(
            f"groups of {name} would be recreated with {size} instead of {counted(template.size, 'pod')}, and its "
            f"resizePolicy is {template.resize_policy or 'not set'}; add --recreate to allow it"
        )
    change: JsonObject = {"size": size, **({"resizePolicy": "Recreate"} if recreate else {})}
    body = {"spec": {"leaderWorkerTemplate": change}}
    stored = await client.patch(LEADER_WORKER_SETS, name, namespace, body, dry_run=dry_run)
    if dry_run:
        return _show_forecast(await _forecast(client, found, msgspec.convert(stored, LeaderWorkerSet)), form)
    show([f"groups of {name} are recreated with {counted(size, 'pod')}{next_command_text(found, False)}"])
    return 0


def _show_forecast(foreseen: Forecast, form: str) -> int:
    """What `--dry-run` prints; returns the exit code."""
    show(forecast_lines(foreseen) if form == "text" else [document(foreseen, form)])
    return 0 if plan.can_finish(foreseen) else NOT_YET


async def resize_pods(
    client: Client,
    namespace: str,
    name: str,
    amounts: Mapping[str, str],
    container: str,
    role: RoleChoice,
    dry_run: bool,
    whole_pod: bool = False,
    allow_restart: bool = False,
) -> int:
    """Other resources for pods that run, in place: of one container each, or of each pod as a whole. The template
    stays: it is what later pods are made of."""
    found = await snapshot_reader.snapshot(client, namespace, name)
    pods = [pod for pod in found.pods if not pod.metadata.deleting and role in ("all", _role(pod))]
    if not pods:
        raise Refusal(f"LeaderWorkerSet {name} has no {'pods' if role == 'all' else role + ' pods'} to resize")
    if container:
        pods = _with(container, pods)
    elif not whole_pod and (bound := resources_of_pods([pod.spec for pod in pods], amounts)):
        request = AmountRequest(amounts, role=role, whole_pod=True)
        raise Refusal(_bound_by_pod(found, BoundByPod(bound), request, ("--pods-only",)))
    restarted = _restarted(pods, container, amounts, whole_pod)
    policy = found.group_set.template.restart_policy
    if restarted and policy != NO_RECREATION and not allow_restart:
        raise Refusal(
            f"containers {', '.join(restarted)} of {name} restart when they are resized (their resizePolicy is "
            f"RestartContainer), while the other pods of their groups run on, although the restartPolicy of the set is "
            f"{policy}; change the template instead, or add --allow-restart to do it all the same"
        )
    for trial in (True,) if dry_run else (True, False):  # a pod that cannot have it is found before any is changed
        for pod in pods:
            change = _pod_block(pod, amounts) if whole_pod else _container_block(pod, container, amounts)
            await _resize(client, pod, change, trial)
    text = ", ".join(f"{key} {value}" for key, value in amounts.items())
    if dry_run:
        show([f"{counted(len(pods), 'pod')} of {name} could get {text} in place"])
        return 0
    subject = f"{counted(len(pods), 'pod')} of {name} {agreeing(len(pods), 'gets', 'get')}"
    show([f"{subject} {text} in place; see progress with: {command(found, Verb.EXPLAIN).text}"])
    show(["The template is unchanged: pods that are created later get the resources in it."])
    if restarted and policy != NO_RECREATION:
        show([f"Their containers {', '.join(restarted)} restart; their groups are not recreated for that."])
    if unenforced := await _unenforced(client, pods):
        show([f"Limits are not enforced on {unenforced}"])
    return 0


def _restarted(pods: list[Pod], container: str, amounts: Mapping[str, str], whole_pod: bool) -> list[str]:
    """Containers that their own policy restarts. A change of a pod as a whole is felt by those without a limit of their
    own."""
    found: dict[str, None] = {}
    for pod in pods:
        for position, one in enumerate(pod.spec.lasting_containers):
            chosen = one.name == container if container else position == 0
            changed = [key for key in amounts if (key not in one.resources.limits if whole_pod else chosen)]
            if restarts_container(one, changed):
                found[one.name] = None
    return list(found)


def _pod_block(pod: Pod, amounts: Mapping[str, str]) -> JsonObject:
    limits = limits_that_follow(pod.spec.resources or ResourceRequirements(), amounts)
    return {"resources": {"requests": dict(amounts), **({"limits": limits} if limits else {})}}


def _with(container: str, pods: list[Pod]) -> list[Pod]:
    """The pods that have such a container: leaders may differ from workers."""
    names = [[one.name for one in pod.spec.lasting_containers] for pod in pods]
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


async def _unenforced(client: Client, pods: Iterable[Pod]) -> str:
    """The first node of these pods that reports that it cannot enforce limits, and why; empty also if the user may not
    read nodes."""
    for name in sorted({pod.spec.node_name for pod in pods if pod.spec.node_name}):
        with suppress(Forbidden, NotFound):
            node = await client.get(NODES, name, type=Node)
            enforced = find_condition(node.status.conditions, RESOURCES_ENFORCED)
            if enforced is not None and enforced.status == "False":
                return f"node {name}: {enforced.message or enforced.reason}"
    return ""


def _role(pod: Pod) -> str:
    return "worker" if worker_of(pod) else "leader"


def _container_block(pod: Pod, container: str, amounts: Mapping[str, str]) -> JsonObject:
    lasting = pod.spec.lasting_containers
    chosen = next(one for one in lasting if one.name == container) if container else lasting[0]
    limits = limits_that_follow(chosen.resources, amounts)
    resources = {"requests": dict(amounts), **({"limits": limits} if limits else {})}
    return {"initContainers" if chosen.sidecar else "containers": [{"name": chosen.name, "resources": resources}]}
