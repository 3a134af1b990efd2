"""Runs failed tests a second time, alone, and records those that pass then: they depend on load or timing.

python -m tools.retry_failed_tests run TIER NOTES     after a tier failed; the exit code is that of the second run
python -m tools.retry_failed_tests report NOTES       all recorded tests, as text and as one line of JSON
"""

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")


def failed() -> set[str]:
    try:
        return set(json.loads(FAILED.read_text()))
    except FileNotFoundError:
        return set()


def run(tier: str, notes: Path) -> int:
    before = failed()
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "--last-failed", "--last-failed-no-failures=none"], check=False
    ).returncode
    with notes.open("a") as file:
        for test in sorted(before - failed()):
            file.write(json.dumps({"tier": tier, "test": test}) + "\n")
    return code


def report(notes: Path) -> str:
    """
    >>> report(Path("/does/not/exist"))
    'flaky-tests: []'
    """
    lines = notes.read_text().splitlines() if notes.exists() else []
    found = [json.loads(line) for line in lines]
    words = [f"!!! PASSED ONLY WHEN TRIED AGAIN ({one['tier']}): {one['test']} !!!" for one in found]
    return "\n".join([*words, f"flaky-tests: {json.dumps(found)}"])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", tier, notes]:
            sys.exit(run(tier, Path(notes)))
        case ["report", notes]:
            print(report(Path(notes)), flush=True)
        case _:
            sys.exit(__doc__)
