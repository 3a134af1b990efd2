"""A crash of the operator before and after every write of every scenario: `make crash-sweep`.

    python -m tools.crash_sweep [--results FILE] [--shard 1/2] [--stride N] [--from N] [--only N] [SCENARIO ...]

Prints one line per scenario, as `docs/reliability.md` has them, and ends with 1 if some crash led to another end.

| option | |
|---|---|
| `--results FILE` | one line of JSON per crash point; points that the file has are not tried again. So an interrupted |
|                  | sweep continues, and the shards of one sweep may share the file |
| `--shard I/N` | only the I-th of N equal parts of each scenario |
| `--stride N` | only every N-th write |
| `--from N` | only writes from this number on |
| `--only N` | only this write: repeats one crash point, as a divergent one is reported |
"""

import argparse
import sys
import time
from pathlib import Path

import msgspec
from tests.crash.scenarios import CASES

from kohort.kube.http import Request
from kohort.testing.crashes import CrashPoint, CrashUnsafe, crash_sweep


class PointResult(msgspec.Struct, frozen=True):
    """One line of the results file."""

    scenario: str
    write: int
    after_effect: bool
    problem: str | None = None


class Results:
    """What was tried, in memory and in a file if there is one."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.known: dict[tuple[str, int, bool], PointResult] = {}
        self.read()

    def read(self) -> None:
        """Also what other shards have written."""
        if self._file is not None and self._file.exists():
            for line in self._file.read_bytes().splitlines():
                self._remember(msgspec.json.decode(line, type=PointResult))

    def add(self, result: PointResult) -> None:
        self._remember(result)
        if self._file is not None:
            with self._file.open("ab") as file:
                file.write(msgspec.json.encode(result) + b"\n")

    def of(self, scenario: str) -> list[PointResult]:
        return [one for one in self.known.values() if one.scenario == scenario]

    def _remember(self, result: PointResult) -> None:
        self.known[result.scenario, result.write, result.after_effect] = result


def is_remembered(request: Request) -> bool:
    """Not events: no part reads them, and they are written beside the work."""
    return "/events" not in request.path


def sweep(name: str, results: Results, given: argparse.Namespace) -> None:
    case = CASES[name]
    part, parts = given.shard

    def chosen(point: CrashPoint) -> bool:
        return (
            (name, point.write, point.after_effect) not in results.known
            and point.write >= given.start
            and given.only in (None, point.write)
            and point.write % parts == part % parts
        )

    def record(point: CrashPoint, failure: CrashUnsafe | None) -> None:
        problem = None if failure is None else str(failure)
        results.add(PointResult(name, point.write, point.after_effect, problem))
        if problem is not None:
            again = f"python -m tools.crash_sweep --only {point.write} '{name}'"
            print(f"{name}: {problem}\nagain: {again}", file=sys.stderr, flush=True)

    crash_sweep(
        case.new_cluster,
        case.part,
        case.scenario,
        stride=given.stride,
        end_state=case.end_state,
        of=is_remembered,
        chosen=chosen,
        on_result=record,
    )


def shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"expected I/N with I from 1 to N, such as 1/2, not {text!r}")
    return int(part), int(parts)


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash-sweep", description="Crash the operator at every write.")
    parser.add_argument("--results", type=Path, help="a file of results; points that it has are not tried again")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="only the I-th of N parts")
    parser.add_argument("--stride", type=int, default=1, help="only every n-th write")
    parser.add_argument("--from", dest="start", type=int, default=1, metavar="N", help="only writes from this one on")
    parser.add_argument("--only", type=int, metavar="N", help="only this write")
    parser.add_argument("scenarios", nargs="*", help=f"of: {', '.join(CASES)}")
    given = parser.parse_args()
    unknown = [name for name in given.scenarios if name not in CASES]
    if unknown:
        parser.error(f"there is no scenario {', '.join(unknown)}; there are: {', '.join(CASES)}")
    results = Results(given.results)
    names = given.scenarios or list(CASES)
    for name in names:
        begun = time.monotonic()
        sweep(name, results, given)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    results.read()
    print("| scenario | crash points | divergent ends |\n|---|--:|--:|")
    for name in names:
        found = results.of(name)
        print(f"| {name} | {len(found)} | {sum(one.problem is not None for one in found)} |")
    every = [one for name in names for one in results.of(name)]
    divergent = sum(one.problem is not None for one in every)
    print(f"| all | {len(every)} | {divergent} |")
    return 1 if divergent else 0


if __name__ == "__main__":
    sys.exit(main())
