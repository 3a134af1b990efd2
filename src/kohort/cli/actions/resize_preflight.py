"""Asks the cluster about every group whose resources would change in place, as the operator asks before it begins."""

from collections.abc import Sequence
from typing import Final

from kohort.cli.actions import snapshot_reader
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.resize.preflight import PreflightFailure, check_group, quotas_after
from kohort.groups.resize.preflight_requests import Member, dry_run_failure, group_check, patch_amounts, read_quotas
from kohort.inspection.resize_forecast import Preflight, members_to_resize, room_shortages
from kohort.inspection.snapshot import Snapshot
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.resources import NODES
from kohort.objects.core import Node, Pod
from kohort.rules.api_server_message import RequestRefusal, request_refusal

_UNREADABLE: Final = {"nodes": "nodes", "quotas": "quotas", "pods": "the API server about pods/resize"}


async def preflight_of_groups(
    client: Client, before: Snapshot, after: LeaderWorkerSet, nodes: Sequence[Node], pods: Sequence[Pod]
) -> Preflight:
    """Groups are asked about in the order in which they come: what one takes of a quota, the next one does not find."""
    groups = members_to_resize(before, after)
    if not groups:
        return Preflight()
    known = {
        node.metadata.name: node for node in nodes or await snapshot_reader.list_if_readable(client, NODES, "", Node)
    }
    not_asked = [] if known else [_UNREADABLE["nodes"]]
    try:
        quotas = await read_quotas(client, after.metadata.namespace)
    except (Forbidden, NotFound):
        quotas = []
        not_asked.append(_UNREADABLE["quotas"])
    may_patch = await _may_patch(client, groups)
    not_asked += [] if may_patch else [_UNREADABLE["pods"]]
    failures: dict[int, PreflightFailure] = {}
    for index, members in groups.items():
        check = group_check(after, members, known, quotas)
        failure = check_group(check)
        if failure is None and may_patch:
            failure = await dry_run_failure(client, members)
        if failure is None:
            quotas = quotas_after(check)
        else:
            failures[index] = failure
    begun = {index: members for index, members in groups.items() if index not in failures}
    return Preflight(failures, room_shortages(begun, known.values(), pods), ", ".join(not_asked))


async def _may_patch(client: Client, groups: dict[int, list[Member]]) -> bool:
    """Whether the user may resize pods; only a user who may can ask for a dry run."""
    pod, change = next(iter(groups.values()))[0]
    try:
        await patch_amounts(client, pod, change.after, dry_run=True)
    except Forbidden as problem:
        return request_refusal(problem.message) is not RequestRefusal.RIGHT_MISSING
    except ApiError:
        return True
    return True
