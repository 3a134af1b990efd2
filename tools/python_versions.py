"""Run a selection of tests with every Python that this machine has: `make test-pythons`, or
`python tools/python_versions.py 3.12 3.13` for some of them.

Looks for python3.11 and later on the PATH and among pyenv's versions, one for each minor version. Each gets an
environment of its own in .venv/pythons. The selection is what may depend on the version of Python: the packages with
types, decoding, event loops and sockets, the pages (their commands, manifests and examples), and the programs that a
new user starts: `kohort up`, `kohort demo`, kubectl with the plugin.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 11
PLACE = Path(".venv/pythons")
SELECTED = (
    *("objects", "resources", "rules", "kube", "inspection", "testing", "up", "packaging", "docs", "examples", "demo"),
    *("groups/test_lifecycle.py", "groups/test_validation.py", "rollouts/test_releases_step_by_step.py"),
    *("cli/test_command.py", "cli/test_groups_commands.py", "cli/test_release_commands.py", "cli/test_plugin.py"),
    *("cluster/apiserver/http", "node/runtimes/test_process_runtime.py", "node/test_pods_as_processes.py", "node/grpc"),
    *("e2e/test_up.py", "e2e/test_kubectl.py", "e2e/test_python_client.py"),
)
MARKS = "not kubernetes and not kernel and not wheel and not crash and not image and not containers and not browser"


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
    selected = [f"tests/{name}" for name in SELECTED]
    command = [str(environment / "bin" / "pytest"), "-p", "no:cacheprovider", "-m", MARKS, *selected]
    return subprocess.run(command, check=False).returncode == 0


def main() -> None:
    wanted = sys.argv[1:]
    programs = {minor: program for minor, program in find().items() if not wanted or f"3.{minor}" in wanted}
    results = {minor: test(minor, program) for minor, program in programs.items()}
    for minor, passed in results.items():
        print(f"Python 3.{minor}: {'passed' if passed else 'FAILED'}")
    sys.exit(0 if results and all(results.values()) else 1)


if __name__ == "__main__":
    main()
