"""Random operations on sets and releases, in runs with a seed each: `make chaos`.

    python -m tools.chaos [--operations 10000] [--length 250] [--seed N] [--from N] [--results FILE]

Each run is a process of its own, with the seed as PYTHONHASHSEED, so that the same seed and length repeat it exactly. A
run that fails prints its seed and the command that repeats it. Runs that `--results` has are not done again: an
interrupted series continues. Ends with 1 if some run failed.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec


class RunResult(msgspec.Struct, frozen=True):
    """One line of the results file."""

    seed: int
    operations: int
    seconds: float
    passed: bool


def one_run(seed: int, operations: int) -> RunResult:
    begun = time.monotonic()
    program = f"from tests.crash.chaos import run_chaos; run_chaos({seed}, {operations})"
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    return RunResult(seed, operations, round(time.monotonic() - begun, 1), ended.returncode == 0)


def read(file: Path | None) -> dict[tuple[int, int], RunResult]:
    if file is None or not file.exists():
        return {}
    lines = [msgspec.json.decode(line, type=RunResult) for line in file.read_bytes().splitlines()]
    return {(one.seed, one.operations): one for one in lines}


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description="Random operations on sets and releases.")
    parser.add_argument("--operations", type=int, default=10_000, help="how many in all runs together")
    parser.add_argument("--length", type=int, default=250, help="operations of one run")
    parser.add_argument("--seed", type=int, help="only the run with this seed")
    parser.add_argument("--from", dest="start", type=int, default=1, metavar="N", help="the first seed")
    parser.add_argument("--results", type=Path, help="a file of results; runs that it has are not done again")
    given = parser.parse_args()
    seeds = range(given.start, given.start + -(-given.operations // given.length))
    done = read(given.results)
    for seed in seeds if given.seed is None else [given.seed]:
        if (seed, given.length) in done:
            continue
        result = done[seed, given.length] = one_run(seed, given.length)
        print(f"seed {seed}: {'passed' if result.passed else 'FAILED'}, {result.seconds:.0f} s", flush=True)
        if given.results is not None:
            with given.results.open("ab") as file:
                file.write(msgspec.json.encode(result) + b"\n")
    failed = sorted(one.seed for one in done.values() if not one.passed)
    print(f"{sum(one.operations for one in done.values())} operations, {len(done)} seeds, failed seeds: {failed or 0}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
