"""The preview of an action: the command, what it would write, and what would follow."""

from collections.abc import Mapping, Sequence

import msgspec

from kohort.dashboard.commands import PARAMETERS, ActionRequest, Commands, DryRuns, Refused, Verb, Write
from kohort.dashboard.set_page import SetHead, head_of
from kohort.dashboard.view import BadRequest
from kohort.groups import revisions
from kohort.groups.leaderworkerset import KIND, LeaderWorkerSet
from kohort.inspection.forecast import forecast_lines
from kohort.inspection.snapshot import Snapshot
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.rules.group_identity import parse_index


class ActionPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    verb: str
    parameters: Mapping[str, str]
    command: str
    """The command that does the same."""
    refused: str
    """Why it cannot be done; empty if it can."""
    writes: Sequence[Write]
    forecast: Sequence[str]
    """What becomes of the groups, as `kohort plan` says it."""
    seen: str
    """What the preview is about: an action is done only while this is the same."""


def read_request(verb: str, namespace: str, name: str, given: Mapping[str, str]) -> ActionRequest:
    """Raises BadRequest."""
    if verb not in {one.value for one in Verb}:
        raise BadRequest(f"there is no action {verb!r}; there are: {', '.join(Verb)}")
    known = PARAMETERS.get(Verb(verb), ())
    numbers: dict[str, int] = {}
    for parameter in ("step", "group", "to"):
        text = given.get(parameter, "")
        if not text or parameter not in known:
            continue
        number = parse_index(text)
        if number is None or len(text) > 9:
            raise BadRequest(f"{parameter}: {text!r} is not a number")
        numbers[parameter] = number
    full = "full" in known and bool(given.get("full"))
    if full and "step" in numbers:
        raise BadRequest("step, full: give one of them")
    return ActionRequest(Verb(verb), namespace, name, full=full, **numbers)


async def preview(commands: Commands, client: Client, snapshot: Snapshot, request: ActionRequest) -> ActionPage:
    """Runs the action as a dry run, with the rights of the client."""
    dry = DryRuns(client.transport)
    trial = Client(dry, field_manager=client.field_manager, user_agent=client.user_agent)
    refused = ""
    lines: list[str] = []
    try:
        await commands.act(trial, request)
    except Refused as problem:
        refused = str(problem)
    else:
        stored = [one for one in dry.answers if one.get("kind") == KIND]
        if stored:
            after = msgspec.convert(stored[-1], LeaderWorkerSet)
            lines = _end_of_release(snapshot, after) or forecast_lines(
                (await commands.forecast(trial, snapshot, after)).forecast
            )
    parameters = {name: str(value) for name in ("step", "group", "to") if (value := getattr(request, name)) is not None}
    return ActionPage(
        set=head_of(snapshot, clock.now()),
        verb=request.verb,
        parameters={**parameters, **({"full": "1"} if request.full else {})},
        command=request.text,
        refused=refused,
        writes=[] if refused else _writes(dry.writes),
        forecast=lines,
        seen=state_of(snapshot),
    )


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


def _writes(writes: Sequence[Write]) -> list[Write]:
    """Without those that only a forecast asks for: pods of templates that are tried."""
    return [one for one in writes if not (one.method == "POST" and one.path.endswith("/pods"))]


def state_of(snapshot: Snapshot) -> str:
    """Changes with anything that an action depends on."""
    rollout = snapshot.rollout
    parts = [snapshot.metadata.generation, snapshot.update_key, snapshot.stable_key]
    if rollout is not None:
        status = rollout.status
        parts += [rollout.metadata.generation, status.phase, status.current_step_index, status.current_step_state]
    return ".".join(str(one) for one in parts)
