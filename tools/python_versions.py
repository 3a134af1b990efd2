"""Run the quick tests with every Python that this machine has: `make test-pythons`.

Looks for python3.11 and later on the PATH and among pyenv's versions, one for each minor version. Each gets an
environment of its own in .venv/pythons. Quick tests are those of single packages; nothing is started as a process.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 11
PLACE = Path(".venv/pythons")
QUICK = ("objects", "resources", "rules", "kube", "groups", "rollouts", "inspection", "up", "demo", "packaging")
MARKS = "not kubernetes and not kernel and not wheel and not e2e and not crash"


def find() -> dict[int, str]:
    """The program for each minor version of Python 3; pyenv's newest patch release counts, unless the PATH has one."""
    found: dict[int, str] = {}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    known = [(path, re.fullmatch(r"3\.(\d+)\.(\d+)", path.name)) for path in versions.glob("3.*")]
    for path, match in sorted(known, key=lambda pair: tuple(map(int, pair[1].groups())) if pair[1] else ()):
        if match and int(match[1]) >= OLDEST:
            found[int(match[1])] = str(path / "bin" / "python3")
    for minor in range(OLDEST, OLDEST + 10):
        program = shutil.which(f"python3.{minor}")
        if program and works(program):
            found[minor] = program
    return dict(sorted(found.items()))


def works(program: str) -> bool:
    """The shims of pyenv are there for versions that are not selected, too."""
    return subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0


def test(minor: int, program: str) -> bool:
    environment = PLACE / f"3.{minor}"
    print(f"== Python 3.{minor}: {program}", flush=True)
    for group in ([], ["dev"]):
        subprocess.run([program, "tools/setup_venv.py", str(environment), *group], check=True)
    folders = [f"tests/{name}" for name in QUICK if Path(f"tests/{name}").is_dir()]
    command = [str(environment / "bin" / "pytest"), "-p", "no:cacheprovider", "-m", MARKS, *folders]
    return subprocess.run(command, check=False).returncode == 0


def main() -> None:
    results = {minor: test(minor, program) for minor, program in find().items()}
    for minor, passed in results.items():
        print(f"Python 3.{minor}: {'passed' if passed else 'FAILED'}")
    sys.exit(0 if results and all(results.values()) else 1)


if __name__ == "__main__":
    main()
