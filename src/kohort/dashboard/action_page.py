"""The preview of an action: the command, what it would write, and what would follow."""

from collections.abc import Mapping, Sequence

import msgspec

from kohort.dashboard.commands import (
    FLAGS,
    PARAMETERS,
    ActionRefused,
    ActionRequest,
    Commands,
    DryRuns,
    PlannedWrite,
    Verb,
)
from kohort.dashboard.container_amounts import ContainerAmounts, container_amounts
from kohort.dashboard.release_forecast import release_lines
from kohort.dashboard.set_page import SetHead, head_of
from kohort.dashboard.view import BadParameter
from kohort.groups import revisions
from kohort.groups.leaderworkerset import KIND, LeaderWorkerSet
from kohort.inspection.forecast import forecast_lines
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.objects.counted_nouns import agreeing, counted, counted_of
from kohort.objects.pods import PodSpec
from kohort.objects.quantity import Quantity
from kohort.rules.group_identity import parse_index
from kohort.rules.resource_update_policy import (
    LONGEST_DEADLINE,
    ResourceUpdatePolicy,
    deadline_seconds,
    resource_update_policy,
)

_NUMBERS = ("step", "group", "to", "replicas", "deadline")
_AMOUNTS = ("cpu", "memory")
MOST_REASON = 500
_CHOICES: Mapping[str, Sequence[str]] = {
    "role": ("all", "leader", "worker"),
    "policy": tuple(one.value for one in ResourceUpdatePolicy if one.in_place),
}


class ActionForm(msgspec.Struct, frozen=True, rename="camel"):
    """What must be given before an action can be previewed."""

    set: SetHead
    verb: str
    policy: str
    """The resourceUpdatePolicy of the set."""
    deadline_seconds: int
    """How long a group may take to get other resources, as the set says."""
    roles: Sequence[str]
    """Which pods can be chosen; one choice if leaders and workers share a template."""
    containers: Sequence[str]
    pod_level: bool
    """Pods state resources as a whole."""
    resources: Sequence[ContainerAmounts]


def action_form(snapshot: Snapshot, request: ActionRequest) -> ActionForm:
    template = snapshot.group_set.template
    templates = [one for one in (template.raw.get("leaderTemplate"), template.raw.get("workerTemplate")) if one]
    specs = [msgspec.convert(one.get("spec") or {}, PodSpec) for one in templates]
    return ActionForm(
        set=head_of(snapshot, clock.now()),
        verb=request.verb,
        policy=resource_update_policy(snapshot.group_set.spec).value,
        deadline_seconds=int(deadline_seconds(snapshot.group_set.spec)),
        roles=_CHOICES["role"] if len(templates) > 1 else ("all",),
        containers=list(dict.fromkeys(one.name for spec in specs for one in spec.main_containers)),
        pod_level=any(one.resources is not None for one in specs),
        resources=container_amounts(snapshot),
    )


class ActionPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    verb: str
    parameters: Mapping[str, str]
    command: str
    """The command that does the same."""
    refused: str
    """Why it cannot be done; empty if it can."""
    result: str
    """What the command says at its end."""
    writes: Sequence[PlannedWrite]
    forecast: Sequence[str]
    """What becomes of the groups, as `kohort plan` says it."""
    seen: str
    """What the preview is about: an action is done only while this is the same."""


def read_request(verb: str, namespace: str, set_name: str, given: Mapping[str, str]) -> ActionRequest:
    """Raises BadRequest."""
    if verb not in {one.value for one in Verb}:
        raise BadParameter(f"there is no action {verb!r}; there are: {', '.join(Verb)}")
    found: dict[str, str] = {}
    for name in PARAMETERS.get(Verb(verb), ()):
        text = given.get(name, "").strip()
        if text:
            _check(name, text)
            found[name] = "1" if name in FLAGS else text
    if found.get("role") == "all":
        del found["role"]
    if "override" in found and ("step" in found or "full" in found):
        raise BadParameter("override: is for the current step; give it without step and full")
    if "reason" in found and "override" not in found:
        raise BadParameter("reason: is for override")
    if "full" in found and "step" in found:
        raise BadParameter("step, full: give one of them")
    if "policy" in found and "recreate" in found:
        raise BadParameter("policy, recreate: give one of them; the policy keeps groups from being recreated")
    if "pod" in found and "container" in found:
        raise BadParameter("pod, container: give one of them")
    return ActionRequest(Verb(verb), namespace, set_name, found)


def _check(name: str, text: str) -> None:
    if name in _NUMBERS and (parse_index(text) is None or len(text) > 9):
        raise BadParameter(f"{name}: {text!r} is not a number")
    if name == "deadline" and not 1 <= int(text) <= LONGEST_DEADLINE:
        raise BadParameter(f"deadline: {text} is not allowed; allowed are 1 to {LONGEST_DEADLINE} seconds")
    if name == "reason" and (len(text) > MOST_REASON or not text.isprintable()):
        raise BadParameter(f"reason: must be one line of at most {MOST_REASON} characters")
    if name in _CHOICES and text not in _CHOICES[name]:
        raise BadParameter(f"{name}: {text!r} is not allowed; allowed are {', '.join(_CHOICES[name])}")
    if name in _AMOUNTS:
        try:
            Quantity.parse(text)
        except ValueError:
            raise BadParameter(
                f"{name}: {text!r} is not an amount; write 500m, 2 or 1.5, for memory 512Mi or 4Gi"
            ) from None


async def preview(
    commands: Commands, client: Client, subject: Snapshot | PlainWorkload, request: ActionRequest
) -> ActionPage:
    """Runs the action as a dry run, with the rights of the client."""
    dry = DryRuns(client.transport)
    trial = Client(dry, field_manager=client.field_manager, user_agent=client.user_agent)
    refused = result = ""
    lines: list[str] = []
    try:
        result = await commands.act(trial, request)
    except ActionRefused as problem:
        refused = str(problem)
    else:
        stored = [one for one in dry.answers if one.get("kind") == KIND]
        if stored and isinstance(subject, Snapshot):
            after = msgspec.convert(stored[-1], LeaderWorkerSet)
            lines = _end_of_release(subject, after) or await _foreseen(commands, trial, subject, after)
        elif "group" in request.parameters and isinstance(subject, Snapshot):
            lines = _restart_of_group(subject, int(request.parameters["group"]))
        else:
            lines = release_lines(subject, request.verb, request.parameters)
    return ActionPage(
        set=head_of(subject, clock.now()),
        verb=request.verb,
        parameters=request.parameters,
        command=request.text,
        refused=refused,
        result="" if refused else result,
        writes=[] if refused else dry.writes,
        forecast=lines,
        seen=state_of(subject),
    )


async def _foreseen(commands: Commands, trial: Client, snapshot: Snapshot, after: LeaderWorkerSet) -> list[str]:
    try:
        return forecast_lines((await commands.forecast(trial, snapshot, after)).forecast)
    except ActionRefused as problem:
        return [str(problem)]


def _restart_of_group(snapshot: Snapshot, index: int) -> list[str]:
    """One group is recreated at once: no other group is touched."""
    state, pods = snapshot.states.get(index), snapshot.members(index)
    ready = sum(one.ready for one in snapshot.states.values())
    left = ready - (1 if state is not None and state.ready else 0)
    names = ", ".join(one.metadata.name for one in pods[:8]) + (", …" if len(pods) > 8 else "")
    return [
        f"Group {index} is recreated at once, with {counted(len(pods), 'pod')}: {names}.",
        f"{counted_of(left, snapshot.replicas, 'group')} {agreeing(left, 'is', 'are')} ready meanwhile.",
        "No other group is touched.",
    ]


def _end_of_release(snapshot: Snapshot, after: LeaderWorkerSet) -> list[str]:
    """The way back to the stable version ends a release: no group of the stable version is recreated."""
    known = revisions.matching(after, snapshot.revisions)
    if not snapshot.releasing or known is None or known.key != snapshot.stable_key:
        return []
    return [
        f"The template returns to revision {known.revision}, the stable version: the release ends.",
        "Requests go to the stable version again, then the groups of the new version are removed.",
        "Groups of the stable version stay as they are.",
    ]


def state_of(subject: Snapshot | PlainWorkload) -> str:
    """Changes with anything that an action depends on."""
    rollout = subject.rollout
    parts = [subject.metadata.generation, subject.update_key, subject.stable_key]
    if rollout is not None:
        status = rollout.status
        parts += [rollout.metadata.generation, status.phase, status.current_step_index, status.current_step_state]
    return ".".join(str(one) for one in parts)
