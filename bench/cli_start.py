"""Processor time of `kohort --help` and `kohort version`: what a user waits on an idle machine.

    python -m bench.cli_start [--rounds 10]

The fastest round counts. The goal is 150 ms; a bare interpreter is shown for comparison.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile

from bench.servers import compiled

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "kohort --help": ("-m", "kohort", "--help"),
    "kohort version": ("-m", "kohort", "version"),
    "kohort get --help": ("-m", "kohort", "get", "--help"),
}


def processor_milliseconds(words: tuple[str, ...], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        environment = {**compiled(directory), "PYTHONPATH": os.pathsep.join(sys.path)}
        for name, words in COMMANDS.items():
            fastest = min(processor_milliseconds(words, environment) for _ in range(rounds + 1))
            print(f"{name:<20} {fastest:6.0f} ms")


if __name__ == "__main__":
    main()
