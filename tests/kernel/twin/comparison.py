"""Compares the records of two nodes field by field.

A difference is a place where the two records of one step do not say the same; `differences.py` lists the known ones
with their reasons. Of events, type and reason are compared; their wording is free, and whether a probe fails before it
passes is a matter of time. Weights of cpu come from two formulas (docs/conformance.md): they agree if one number of
shares gives both.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from kohort.objects.json_types import Json, JsonObject
from kohort.resources.cgroups import shares_from_weight, weight_on_curve, weight_on_line

Records = Mapping[str, Sequence[JsonObject]]
UNHEALTHY = "Warning Unhealthy"
SHARES_OF_ONE_WEIGHT = 28


class Difference(msgspec.Struct, frozen=True, order=True):
    case: str
    step: int
    path: str
    kubelet: str
    ours: str

    def __str__(self) -> str:
        return f"{self.case}[{self.step}] {self.path}: kubelet {self.kubelet}, ours {self.ours}"


class Known(msgspec.Struct, frozen=True):
    """Differences that are meant to be: patterns of their places, and of what stands there."""

    what: str
    """The row of docs/conformance.md that explains it."""
    path: str
    cases: str = "*"
    kubelet: str = "*"
    ours: str = "*"

    def covers(self, found: Difference) -> bool:
        pairs = ((found.path, self.path), (found.case, self.cases), (found.kubelet, self.kubelet))
        return all(fnmatchcase(value, pattern) for value, pattern in (*pairs, (found.ours, self.ours)))


def differences(kubelet: Records, ours: Records) -> list[Difference]:
    """Of all cases that both have."""
    found = []
    for case in sorted(kubelet.keys() & ours.keys()):
        steps = max(len(kubelet[case]), len(ours[case]))
        for step in range(steps):
            theirs, own = ({**dict(_leaves("", _at(each[case], step)))} for each in (kubelet, ours))
            for path in sorted(theirs.keys() | own.keys()):
                values = theirs.get(path, "nothing"), own.get(path, "nothing")
                if not _agree(path, *values):
                    found.append(Difference(case, step, path, *values))
    return found


def unexplained(found: Sequence[Difference], known: Sequence[Known]) -> list[Difference]:
    return [each for each in found if not any(row.covers(each) for row in known)]


def outdated(found: Sequence[Difference], known: Sequence[Known]) -> list[Known]:
    """Rows to which no difference belongs any more."""
    return [row for row in known if not any(row.covers(each) for each in found)]


def weights_agree(kubelet: str, ours: str) -> bool:
    """Whether a number of shares exists that kubelet and runc 1.1 (a line) turn into one, and kohort into the other."""
    if not (kubelet.isdigit() and ours.isdigit()):
        return False
    least = shares_from_weight(int(kubelet), "line")
    possible = (
        shares for shares in range(least, least + SHARES_OF_ONE_WEIGHT) if weight_on_line(shares) == int(kubelet)
    )
    return int(ours) in {weight_on_curve(shares) for shares in possible}


def _agree(path: str, kubelet: str, ours: str) -> bool:
    if path.endswith("cpu.weight"):
        return weights_agree(kubelet, ours)
    if path.endswith(("/oomScoreAdj", "/oom_score_adj")) and kubelet.isdigit() and ours.isdigit():
        return abs(int(kubelet) - int(ours)) <= 1  # the memory of this kernel is not the same to the byte at every boot
    return kubelet == ours


def _at(records: Sequence[JsonObject], step: int) -> JsonObject:
    return records[step] if step < len(records) else {}


def _leaves(path: str, value: Json) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(f"{path}/{name}", each)
    elif path == "/events":
        yield from ((f"{path}/{each.partition(':')[0]}", "there") for each in value if UNHEALTHY not in each)
    elif path.endswith(("/env", "Paths", "/namespaces")):
        yield from ((f"{path}/{each}", "there") for each in value)
    else:
        yield path, str(value)
