"""Runs failed tests a second time, alone, and records those that pass then: they depend on load or timing.

python -m tools.retry_failed_tests run TIER NOTES     after a tier failed; the exit code is that of the second run
python -m tools.retry_failed_tests report NOTES       all recorded tests, as text and as one line of JSON

Tiers run side by side, so each must have run with `cache_of(TIER)` as pytest's cache, where failed tests are noted.
"""

import json
import subprocess
import sys
from pathlib import Path


def cache_of(tier: str) -> Path:
    return Path(".pytest_cache") / tier


def failed(tier: str) -> set[str]:
    try:
        return set(json.loads((cache_of(tier) / "v" / "cache" / "lastfailed").read_text()))
    except FileNotFoundError:
        return set()


def run(tier: str, notes: Path) -> int:
    before = failed(tier)
    again = ["--last-failed", "--last-failed-no-failures=none", "-o", f"cache_dir={cache_of(tier)}"]
    code = subprocess.run([sys.executable, "-m", "pytest", *again], check=False).returncode
    with notes.open("a") as file:
        for test in sorted(before - failed(tier)):
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
