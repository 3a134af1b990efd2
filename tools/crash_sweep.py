"""A crash of the operator before and after every write of every scenario: `make crash-sweep`.

    python -m tools.crash_sweep [--stride N] [SCENARIO ...]

Prints one line per scenario, as `docs/reliability.md` has them, and ends with 1 if some crash led to another end. With
`--stride` only every n-th write is tried.
"""

import argparse
import sys
import time

from tests.crash.scenarios import CASES

from kohort.kube.http import Request
from kohort.testing.crashes import crash_sweep


def is_remembered(request: Request) -> bool:
    """Not events: no part reads them, and they are written beside the work."""
    return "/events" not in request.path


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash-sweep", description="Crash the operator at every write.")
    parser.add_argument("--stride", type=int, default=1, help="only every n-th write")
    parser.add_argument("scenarios", nargs="*", help=f"of: {', '.join(CASES)}")
    given = parser.parse_args()
    unknown = [name for name in given.scenarios if name not in CASES]
    if unknown:
        parser.error(f"there is no scenario {', '.join(unknown)}; there are: {', '.join(CASES)}")
    points, divergent = 0, 0
    print("| scenario | crash points | divergent ends |\n|---|--:|--:|", flush=True)
    for name in given.scenarios or CASES:
        case, begun = CASES[name], time.monotonic()
        result = crash_sweep(
            case.new_cluster,
            case.part,
            case.scenario,
            stride=given.stride,
            end_state=case.end_state,
            of=is_remembered,
        )
        points += result.points
        divergent += len(result.divergent)
        print(f"| {name} | {result.points} | {len(result.divergent)} |", flush=True)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        for failure in result.divergent:
            print(f"{name}: {failure}", file=sys.stderr, flush=True)
    print(f"| all | {points} | {divergent} |", flush=True)
    return 1 if divergent else 0


if __name__ == "__main__":
    sys.exit(main())
