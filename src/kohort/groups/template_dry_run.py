"""Whether the cluster would take the templates of a set.

What a pod template may contain depends on the version and the feature gates of the API server, which only the server
itself knows. So for every template that is new, the webhook creates a StatefulSet with that template as a dry run. The
server's errors are reported at the fields of the set, when it is written, instead of in a condition later.

No other problem refuses a set: no answer in time, a missing permission, a quota, a policy. A template of workers in a
group without workers is not checked.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from kohort.groups.leaderworkerset import LeaderWorkerTemplate
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Invalid, StatusCause
from kohort.kube.resources import STATEFUL_SETS
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.canonical_form import POD_TEMPLATE, canonical_struct
from kohort.rules.group_template import leader_field

_SECONDS: Final = 2.0
"""An API server waits five for a webhook, and its client waits for both."""
_ROOT: Final = "spec.leaderWorkerTemplate"


class TemplateDryRun(NamedTuple):
    stateful_set: JsonObject
    places: tuple[tuple[str, str], ...]
    """Where fields of the StatefulSet are in the set, by their beginnings."""


def dry_runs(group_set: JsonObject, old: JsonObject | None) -> list[TemplateDryRun]:
    """What there is to ask about a set that is created, or that takes the place of an old one."""
    template = LeaderWorkerTemplate(group_set["spec"].get("leaderWorkerTemplate") or {})
    before = None if old is None else LeaderWorkerTemplate(old["spec"].get("leaderWorkerTemplate") or {})
    leader = leader_field(template.raw)
    used = dict.fromkeys((leader, "workerTemplate") if template.size > 1 else (leader,))
    changed = [name for name in used if before is None or not _same(template.raw[name], before.raw.get(name))]
    return [_dry_run(group_set, name, judge_claims=before is None and name == leader) for name in changed]


def _same(new: JsonObject, old: JsonObject | None) -> bool:
    return old is not None and canonical_struct(new, POD_TEMPLATE) == canonical_struct(old, POD_TEMPLATE)


def _dry_run(group_set: JsonObject, name: str, *, judge_claims: bool) -> TemplateDryRun:
    """Every StatefulSet of a set has its claims, and containers may mount them. What is wrong with the claims
    themselves is reported once, when the set is created: they cannot change afterwards."""
    whole = LeaderWorkerTemplate(group_set["spec"]["leaderWorkerTemplate"])
    template = whole.raw[name]
    labels = {group_labels.NAME: group_set["metadata"]["name"]}
    metadata = template.get("metadata") or {}
    stateful_set: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"generateName": "dry_run-"},
        "spec": {
            "replicas": 0,
            "serviceName": "dry_run",
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}},
            "volumeClaimTemplates": list(whole.claims),
        },
    }
    places: tuple[tuple[str, str], ...] = (("spec.template", f"{_ROOT}.{name}"),)
    if judge_claims:
        places += (("spec.volumeClaimTemplates", f"{_ROOT}.volumeClaimTemplates"),)
    return TemplateDryRun(stateful_set, places)


def errors_at_set_fields(dry_run: TemplateDryRun, causes: Iterable[StatusCause]) -> list[FieldError]:
    """The errors of the StatefulSet, at the fields of the set."""
    found: list[FieldError] = []
    for cause in causes:
        for here, there in dry_run.places:
            rest = cause.field.removeprefix(here)
            if rest != cause.field and rest[:1] in ("", ".", "["):
                found.append(FieldError(cause.reason, f"{there}{rest}", cause.message))
    return list(dict.fromkeys(found))


async def template_errors(
    client: Client, namespace: str, group_set: JsonObject, old: JsonObject | None
) -> list[FieldError]:
    found: list[FieldError] = []
    try:
        async with asyncio.timeout(_SECONDS):
            for dry_run in dry_runs(group_set, old):
                found += await _dry_run_errors(client, dry_run, namespace)
    except (TimeoutError, ApiError):
        return found
    return found


async def _dry_run_errors(client: Client, dry_run: TemplateDryRun, namespace: str) -> list[FieldError]:
    try:
        await client.create(STATEFUL_SETS, dry_run.stateful_set, namespace, dry_run=True)
    except Invalid as refusal:
        details = refusal.status.details
        return errors_at_set_fields(dry_run, details.causes) if details is not None else []
    return []
