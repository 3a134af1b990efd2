"""What commands print as JSON has the fields that the reference names, and their types, at every stage of a release."""

import json
import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.cli.terminal import Story
from tests.rollouts import deployments
from tests.rollouts.analysis.served_metrics import judged_cluster, judged_rollout
from tests.rollouts.releases import V2
from tools.reference.commands import OUTPUTS

from kohort.cli.actions import analysis, edit, list_workloads, show
from kohort.cli.connection import PAUSED
from kohort.kube.resources import DEPLOYMENTS, STATEFUL_SETS, Resource
from kohort.objects.json_types import JsonObject

PAGE = Path(__file__).parents[2] / "docs/reference/commands.md"
SCALARS: dict[str, JsonObject] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
}
STEPS = [{"replicas": "40%", "traffic": "40%", "pause": {}}, {"replicas": "100%"}]


def documented() -> dict[str, JsonObject]:
    """A schema for each heading of the page. New fields must be written down, so that no other ones are allowed."""
    tables = re.findall(
        r"^### (.+)\n\n\| field \| type \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE
    )
    assert {command for command, _ in OUTPUTS} <= {heading for heading, _ in tables}
    found = {}
    for heading, rows in tables:
        fields = dict(re.findall(r"\| `(\w+)` \| `(.+?)` \|", rows))
        found[heading] = {
            "type": "object",
            "properties": {name: schema_of(kind) for name, kind in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        }
    return found


HEADINGS = {type.__name__: heading for heading, type in OUTPUTS}


def schema_of(kind: str) -> JsonObject:
    if kind.endswith(" or null"):
        return {"anyOf": [schema_of(kind.removesuffix(" or null")), {"type": "null"}]}
    if kind.startswith("list of "):
        return {"type": "array", "items": schema_of(kind.removeprefix("list of "))}
    if kind.startswith("one of "):
        return {"enum": kind.removeprefix("one of ").split(", ")}
    return SCALARS.get(kind) or {"$ref": f"#/$defs/{kind}"}


DOCUMENTED = documented()


def check(text: str, heading: str) -> None:
    schema = {**DOCUMENTED[heading], "$defs": {name: DOCUMENTED[one] for name, one in HEADINGS.items()}}
    found = json.loads(text)
    for one in found if "a list)" in heading and isinstance(found, list) else [found]:
        jsonschema.validate(one, schema)


def test_output_with_another_field_or_type_is_found() -> None:
    row = {"namespace": "default"}
    with pytest.raises(jsonschema.ValidationError, match="'name' is a required property"):
        check(json.dumps([row]), "kohort list (a list)")
    good: JsonObject = {
        name: 1 if field == SCALARS["int"] else "" for name, field in fields("kohort list (a list)").items()
    }
    good |= {"images": [], "release": None}
    check(json.dumps([good]), "kohort list (a list)")
    wrongs: list[JsonObject] = [{"ready": "1"}, {"more": 1}, {"release": {}}, {"images": [1]}]
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            check(json.dumps([good | wrong]), "kohort list (a list)")


def fields(heading: str) -> JsonObject:
    properties: JsonObject = DOCUMENTED[heading]["properties"]
    return properties


async def printed_as_documented(user: Story, *, kind: str, codes: tuple[int, ...]) -> None:
    text, code = await user.run(show.status, "llm", "json", False, 1.0)
    assert code in codes
    check(text, "kohort status")
    tree = (
        "kohort get NAME (without NAME, a list)"
        if kind == "LeaderWorkerSet"
        else "kohort get deployment/NAME, statefulset/NAME"
    )
    check((await user.run(show.get, "llm", "json", False))[0], tree)
    for command, heading in (
        (analysis.show_analysis, "kohort analysis (a list)"),
        (list_workloads.releases, "kohort releases (a list)"),
    ):
        text, code = await user.run(command, "llm", "json")
        assert code == 0
        assert json.loads(text)
        check(text, heading)


@pytest.mark.parametrize(
    "resource", [None, DEPLOYMENTS, STATEFUL_SETS], ids=["LeaderWorkerSet", "Deployment", "StatefulSet"]
)
async def test_output_is_as_documented_at_a_pause_and_after_a_release(
    capsys: pytest.CaptureFixture[str], resource: Resource | None
) -> None:
    async with judged_cluster() as judged:
        user = Story(judged.cluster, capsys)
        await judged.analysis()
        plan = judged_rollout(steps=STEPS)
        if resource is None:
            await judged.begin(plan=plan)
            await judged.change(V2)
        else:
            plan["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
            story = deployments.Story(judged.cluster, resource)
            await story.begin(plan)
            await story.change(V2)
        kind = resource.kind if resource is not None else "LeaderWorkerSet"
        await judged.until(lambda: (judged.step, judged.state) == (1, "StepPaused"), timeout=3600)
        await printed_as_documented(user, kind=kind, codes=(PAUSED,))
        assert (await user.run(edit.approve, "llm"))[1] == 0
        await judged.until(lambda: judged.phase == "Healthy", timeout=3600)
        await printed_as_documented(user, kind=kind, codes=(0,))
