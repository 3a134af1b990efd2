"""How long `kohort up` takes from the start of the process to ready, and how much memory it then holds.

    python -m bench.cluster_start [--rounds 5] [--parts LIST]

The first round starts on an empty directory (certificates are made, bootstrap objects written), the others continue it.
Modules are compiled before, as they are in an installation, whatever the environment says about writing bytecode.
"""

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from bench.servers import compiled, cpu_seconds, resident_megabytes


def start_once(directory: str, parts: str, environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds to ready, seconds of processor time, resident megabytes."""
    begun = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "kohort", "up", "--data-dir", directory, "--port", "0", "--parts", parts],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    elapsed = time.perf_counter() - begun
    if not line.startswith("ready"):
        raise RuntimeError(f"kohort up did not become ready: {line}")
    cpu, memory = cpu_seconds(child.pid), resident_megabytes(child.pid)
    child.send_signal(signal.SIGTERM)
    child.wait(30)
    return elapsed, cpu, memory


def imports(module: str, environment: dict[str, str]) -> float:
    """Seconds of processor time, the start of the interpreter included."""
    code = f"import time, {module}; print(time.process_time())"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default="")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        tempfile.TemporaryDirectory() as other,
        tempfile.TemporaryDirectory() as cache,
    ):
        environment = compiled(cache)
        start_once(other, options.parts, environment)
        first, cpu, memory = start_once(directory, options.parts, environment)
        rounds = [start_once(directory, options.parts, environment) for _ in range(options.rounds)]
        modules = ("click", "aiohttp.web", "kohort.cluster.apiserver.server_setup", "kohort.up.process")
        costs = {module: imports(module, environment) for module in modules}
    print(f"first start {first:.2f} s, {cpu:.2f} s of processor time, {memory:.0f} MB")
    times, cpus = [seconds for seconds, _, _ in rounds], [seconds for _, seconds, _ in rounds]
    print(
        f"later starts {statistics.median(times):.2f} s (best {min(times):.2f}), "
        f"{min(cpus):.2f} s of processor time, {rounds[-1][2]:.0f} MB"
    )
    for module, seconds in costs.items():
        print(f"  import {module}: {seconds:.2f} s of processor time")


if __name__ == "__main__":
    main()
