"""One valid object of every kind, rich enough that each rule has something to bite on.

`specimens.json` holds them, one per line, some with a status that may be written to them. What Kubernetes answers to
every mutation of them is in `answers_*.json`: by specimen, each distinct verdict (code and causes) with the mutations
that it was given for. `tools/record_kinds.py` records them anew.
"""

import json
from collections.abc import Container
from pathlib import Path
from typing import Final, Literal

import msgspec
from tests.cluster.apiserver.kinds.mutations import LONG, mutated, mutations, shown

from kohort.objects.json_types import Json, JsonObject

NAMESPACE: Final = "d"
FOLDER: Final = Path(__file__).parent
Door = Literal["create", "update", "status"]
"""Through which a mutation comes in."""

Verdict = tuple[int, tuple[tuple[str, str], ...]]
"""The code, and reason and field of every cause, repetitions included."""


class Specimen(msgspec.Struct):
    name: str
    collection: str
    object: JsonObject
    status: JsonObject = {}

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.object['metadata']['name']}"


SPECIMENS: Final = msgspec.json.decode((FOLDER / "specimens.json").read_bytes(), type=list[Specimen])


def cases(
    specimen: Specimen, door: Door, stored: JsonObject, wanted: Container[str] | None = None
) -> dict[str, JsonObject]:
    """By name, the bodies to send, all or those `wanted`. Updates start from what a server has `stored`."""
    if door == "create":
        source, parts = specimen.object, specimen.object
    else:
        source = {key: value for key, value in stored.items() if key != "status"} | {"metadata": _sent(stored)}
        parts = source
        if door == "status":
            source = {**source, "status": specimen.status}
            parts = {"status": specimen.status}
    bodies = {"as it is": source}
    for path, operation, value in mutations(parts):
        name = shown(path, operation, value)
        if door != "create" and (path[:2] == ("metadata", "name") or value == LONG):
            continue
        if wanted is None or name in wanted:
            bodies[name] = mutated(source, path, operation, value)
    return bodies


_OF_THE_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def _sent(stored: JsonObject) -> JsonObject:
    """Metadata as a client sends it that cares for nothing but its own fields."""
    return {key: value for key, value in stored["metadata"].items() if key not in _OF_THE_SERVER}


def verdict(code: int, body: Json) -> Verdict:
    causes = ((body or {}).get("details") or {}).get("causes") or []
    return code, tuple(sorted((one.get("reason", ""), one.get("field", "")) for one in causes))


def recorded(door: Door) -> dict[str, dict[str, Verdict]]:
    """By specimen and case: what Kubernetes said."""
    answers: dict[str, list[JsonObject]] = json.loads((FOLDER / f"answers_{door}.json").read_text())
    return {
        name: {
            case: (row["code"], tuple((reason, field) for reason, field in row["causes"]))
            for row in rows
            for case in row["cases"]
        }
        for name, rows in answers.items()
    }
