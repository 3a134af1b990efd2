"""The reference of the command line, from the commands themselves."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, get_args, get_origin

import click
import msgspec

from kohort.cli.actions.cluster_parts import ClusterStatus
from kohort.cli.actions.list_workloads import Line, ReleaseRecord
from kohort.cli.actions.resize import ResizeResult
from kohort.cli.connection import EXIT_CODES
from kohort.cli.main import COMMANDS, main
from kohort.groups.failure_evidence import ContainerFailure, GroupFailure, PodFailure
from kohort.inspection.analyses import AnalysisRow, MetricRow
from kohort.inspection.awaited_groups import AwaitedGroup
from kohort.inspection.capacity_forecast import Room
from kohort.inspection.cause import CauseKind
from kohort.inspection.drain_forecast import DrainedGroup, DrainForecast
from kohort.inspection.eviction_obstacles import EvictionObstacle
from kohort.inspection.forecast import Forecast, SetChange
from kohort.inspection.history import HistoryEntry
from kohort.inspection.pod_resources import PodAmounts, PodResources
from kohort.inspection.progress import WorkloadProgress
from kohort.inspection.release import Release
from kohort.inspection.resize_forecast import GroupResizeForecast, ResizeForecast, RoomShortage
from kohort.inspection.resize_progress import ResizeCounts, ResizeProgress
from kohort.inspection.roll_cost import RollCost
from kohort.inspection.roll_simulation import ForecastStep
from kohort.inspection.rollout_plan import PlannedStep, RolloutForecast
from kohort.inspection.tree import GroupBranch, PodBranch, SetTree, Subgroup
from kohort.inspection.workload_views import WorkloadTree
from kohort.rollouts.forecast_types import ReleaseForecast
from kohort.up.status_records import PartRecord, ProcessRecord, RestartRecord, SupervisorRecord

OUTPUTS: Final = (
    ("kohort get NAME (without NAME, a list)", SetTree),
    ("kohort get: each of groups", GroupBranch),
    ("kohort get: each of subgroups", Subgroup),
    ("kohort get: each of pods", PodBranch),
    ("kohort get: resources of a pod", PodResources),
    ("kohort get: desired, allocated and actual", PodAmounts),
    ("kohort get deployment/NAME, statefulset/NAME", WorkloadTree),
    ("release, in get, list and status", Release),
    ("kohort status", WorkloadProgress),
    ("kohort status: resize", ResizeProgress),
    ("kohort status: groups of resize", ResizeCounts),
    ("kohort resize", ResizeResult),
    ("kohort list (a list)", Line),
    ("kohort history (a list)", HistoryEntry),
    ("kohort releases (a list)", ReleaseRecord),
    ("kohort analysis (a list)", AnalysisRow),
    ("kohort analysis: each of metrics", MetricRow),
    ("kohort plan: for each LeaderWorkerSet", Forecast),
    ("kohort plan: each of changes", SetChange),
    ("kohort plan: each of steps", ForecastStep),
    ("kohort plan: each of awaited", AwaitedGroup),
    ("kohort plan: room", Room),
    ("kohort plan: resources", ResizeForecast),
    ("kohort plan: each of the groups of resources", GroupResizeForecast),
    ("kohort plan: each of waitsFor of a group", RoomShortage),
    ("kohort plan: for each Rollout", RolloutForecast),
    ("kohort plan: each of a Rollout's steps", PlannedStep),
    ("kohort plan: release", ReleaseForecast),
    ("kohort plan: cost", RollCost),
    ("kohort plan --drain", DrainForecast),
    ("kohort plan --drain: each of groups", DrainedGroup),
    ("kohort plan --drain: each of blockedPods", EvictionObstacle),
    ("kohort failures (a list)", GroupFailure),
    ("kohort failures: each of pods", PodFailure),
    ("kohort failures: each of containers", ContainerFailure),
    ("kohort status --cluster", ClusterStatus),
    ("kohort status --cluster: process", ProcessRecord),
    ("kohort status --cluster: each of parts", PartRecord),
    ("kohort status --cluster: supervisor", SupervisorRecord),
    ("kohort status --cluster: each of restarts", RestartRecord),
)
FINDING: Final = (("object", "str"), ("finding", "str"))
CAUSE: Final = (
    ("kind", "str"),
    ("objects", "list of str"),
    ("found", "str"),
    ("action", "str"),
    ("commands", "list of str"),
    ("note", "bool"),
)


def page() -> str:
    lines = [
        "# Commands",
        "",
        "Generated from the code. `kubectl kohort` is the same program. Every option can also be set by a variable:",
        "`--port` of `kohort up` is `KOHORT_UP_PORT`.",
        "",
        "| exit code | meaning |",
        "|--:|---|",
        *(f"| {code} | {text} |" for code, text in EXIT_CODES.items()),
        "",
    ]
    context = click.Context(main, info_name="kohort")
    for name in COMMANDS:
        command = main.get_command(context, name)
        if command is None:
            continue
        usage = command.get_usage(click.Context(command, info_name=name, parent=context)).removeprefix("Usage: ")
        lines += [
            f"## kohort {name}",
            "",
            f"`{' '.join(usage.split())}`",
            "",
            " ".join((command.help or "").split()),
            "",
        ]
        options = [_row(one) for one in command.params if isinstance(one, click.Option) and not one.hidden]
        if options:
            lines += ["| option | meaning |", "|---|---|", *options, ""]
    return "\n".join([*lines, *_outputs()])


def _outputs() -> list[str]:
    """What `-o json` and `-o yaml` print: the fields of the structures themselves."""
    lines = [
        "## Output for scripts",
        "",
        "Fields of `-o json` and `-o yaml`. New fields may be added; none is renamed.",
        "",
    ]
    for command, type in OUTPUTS:
        rows = [f"| `{one.encode_name}` | `{_type_name(one.type)}` |" for one in msgspec.structs.fields(type)]
        lines += [f"### {command}", "", "| field | type |", "|---|---|", *rows, ""]
    for command, rows_of in (("kohort explain (a list)", CAUSE), ("kohort lint (a list)", FINDING)):
        rows = [f"| `{name}` | `{kind}` |" for name, kind in rows_of]
        lines += [f"### {command}", "", "| field | type |", "|---|---|", *rows, ""]
    kinds = ", ".join(f"`{kind}`" for kind in CauseKind)
    return [*lines, f"`kind` of `kohort explain` is one of {kinds}.", ""]


def _type_name(annotation: object) -> str:
    """
    >>> _type_name(int | None), _type_name(tuple[str, ...])
    ('int or null', 'list of str')
    """
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return f"one of {', '.join(annotation)}"
    arguments = get_args(annotation)
    if arguments and type(None) in arguments:
        return f"{_type_name(next(one for one in arguments if one is not type(None)))} or null"
    if arguments and get_origin(annotation) in (tuple, Sequence):
        return f"list of {_type_name(arguments[0])}"
    return str(getattr(annotation, "__name__", annotation)).strip("'")


def _row(option: click.Option) -> str:
    choices = f" ({', '.join(map(str, option.type.choices))})" if isinstance(option.type, click.Choice) else ""
    text = " ".join((option.help or "").split()).replace("|", "\\|")
    return f"| `{', '.join(option.opts)}` | {text}{choices} |"
