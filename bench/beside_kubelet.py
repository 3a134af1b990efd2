"""Pod starts, resizes and memory of the node agent beside kubelet, on one kernel, in turns.

python -m bench.beside_kubelet [--rounds 2]

Both run in user-mode-linux (cgroup v2, one processor) with the same containerd and the same API server, which is
kohort's. Where user-mode-linux, containerd or kubelet is missing, this says so and measures nothing.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from tests.kernel.machine import in_user_mode_linux, missing
from tests.kernel.twin import nodes
from tools.container_packages import missing as missing_packages

INSIDE = Path(nodes.__file__).with_name("measure.py")
GOALS = {"pod start": 1.0, "resize": 0.5, "memory": 1.0}
"""What kohort may take at most, as a part of what kubelet takes."""
SECONDS_OF_A_ROUND = 900


def goal_of(what: str) -> float:
    return next(goal for name, goal in GOALS.items() if what.startswith(name))


def table(found: list[tuple[str, dict[str, list[float]]]]) -> str:
    """All runs in their order, the medians of each node, and their ratio beside its goal."""
    lines = ["| what | kubelet: all runs | kohort: all runs | medians | ratio | goal |", "|---|---|---|---|---|---|"]
    for what in found[0][1]:
        runs = {kind: [figures[what] for who, figures in found if who == kind] for kind in ("kubelet", "kohort")}
        shown = {kind: "; ".join(" ".join(f"{each:g}" for each in run) for run in each) for kind, each in runs.items()}
        medians = {kind: statistics.median(value for run in each for value in run) for kind, each in runs.items()}
        ratio = medians["kohort"] / medians["kubelet"]
        goal = goal_of(what)
        verdict = f"≤ {goal}" if ratio <= goal else f"≤ {goal}: missed"
        pair = f"{medians['kubelet']:g}, {medians['kohort']:g}"
        lines.append(f"| {what} | {shown['kubelet']} | {shown['kohort']} | {pair} | {ratio:.2f} | {verdict} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    rounds: int = parser.parse_args().rounds
    if reason := missing(native=False) or missing_packages() or nodes.missing():
        print(f"!!! NOT RUN: the comparison with kubelet: {reason} !!!")
        return
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory, "figures.json")
        output = in_user_mode_linux([str(INSIDE), str(result), str(rounds)], SECONDS_OF_A_ROUND * rounds, "3G")
        if not result.exists():
            sys.exit(f"nothing was measured:\n{output[-4000:]}")
        print(table(json.loads(result.read_text())))


if __name__ == "__main__":
    main()
