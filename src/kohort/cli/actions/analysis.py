"""`analysis`, and `approve --override`."""

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.output_formats import document, show, table
from kohort.cli.connection import Refusal
from kohort.inspection.analyses import HEADER, analysis_rows, chart, table_rows
from kohort.inspection.release import is_rolling
from kohort.inspection.release_subject import title
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import ANALYSIS_RUNS, ROLLOUTS, Resource
from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.step_analysis import override_document
from kohort.rules.rollout_labels import ANALYSIS_CONDITION, ANALYSIS_NAME, ROLLOUT_NAME

_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


async def show_analysis(client: Client, namespace: str, name: str, form: str) -> int:
    """Of the present release, or of the last one."""
    rollout = await _rollout(client, namespace, name)
    selector = f"{ROLLOUT_NAME}={rollout.metadata.name}"
    listed = await client.list(ANALYSIS_RUNS, rollout.metadata.namespace, type=AnalysisRun, label_selector=selector)
    rows = analysis_rows(listed.items)
    if form not in ("text", "wide"):
        show([document(rows, form)])
        return 0
    if not rows:
        named = rollout.metadata.annotations.get(ANALYSIS_NAME)
        why = f"; its ReleaseAnalysis is {named}" if named else f": it has no annotation {ANALYSIS_NAME}"
        condition = rollout.status.condition(ANALYSIS_CONDITION)
        said = f"; {condition.message}" if condition is not None else ""
        show([f"No step of Rollout {rollout.metadata.name} was judged yet{why}{said}"])
        return 0
    present = [row for row in rows if row.release == rows[-1].release]
    lines = table(list(HEADER), [line for row in present for line in table_rows(row)])
    last = present[-1]
    run = next(one for one in listed.items if one.metadata.name == last.name)
    charts = [line for state in run.status.metrics for line in chart(state)]
    if charts:
        lines += ["", f"share of bad samples in step {last.step}, over {last.seconds:.0f} s:", *charts]
    lines += ["", f"step {last.step}: {last.phase} ({last.mode or 'not read yet'}): {last.message}"]
    if last.overridden_by:
        lines.append(f"overridden by {last.overridden_by}")
    show(lines)
    return 0


async def override(client: Client, namespace: str, name: str, reason: str) -> int:
    """Lets the current step go on in spite of its analysis."""
    rollout = await _rollout(client, namespace, name)
    progress = rollout.status.progress
    own = rollout.metadata.name
    if not rollout.metadata.annotations.get(ANALYSIS_NAME):
        raise Refusal(f"Rollout {own} has no analysis to override; without --override: kohort approve {name}")
    if progress is None or not is_rolling(rollout):
        raise Refusal(f"Rollout {own} has no step that could go on: {rollout.status.message or 'nothing is released'}")
    step = progress.current_step_index
    body = override_document(progress, await _user(client), reason)
    await client.patch(ROLLOUTS, own, rollout.metadata.namespace, body)
    show([f"step {step} of Rollout {own} goes on in spite of its analysis"])
    return 0


async def _rollout(client: Client, namespace: str, name: str) -> Rollout:
    found = await snapshot_reader.subject(client, namespace, name, rollout_needed=True)
    if found.rollout is None:
        raise Refusal(f"no Rollout releases {title(found)}; only steps of Rollouts are judged")
    return found.rollout


async def _user(client: Client) -> str:
    """As the server knows the user; empty where it does not say."""
    body: JsonObject = {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind}
    try:
        answer: JsonObject = await client.create(_REVIEWS, body)
    except ApiError:
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))
