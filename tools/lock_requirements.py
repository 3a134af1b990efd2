"""Write the lock files: every package that kohort, its tools and its build need, with exact versions and hashes.

python3 tools/lock_requirements.py            for Python 3.11 and later, all platforms; keeps versions that still fit
python3 tools/lock_requirements.py --upgrade  newest versions

| file | what for |
|---|---|
| `requirements/run.lock` | running kohort: `make setup`, the image |
| `requirements/dev.lock` | tests and checks, the group dev of pyproject.toml |
| `requirements/docs.lock` | the site, the group docs |
| `requirements/browser.lock` | tests in a browser, the group browser |
| `requirements/build.lock` | building the package |

Needs uv; without it, uv is installed into a temporary environment.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

FOLDER = Path("requirements")
OLDEST = "3.11"
EDITABLE = "editables>=0.5"
"""What hatchling asks for when it installs a checkout."""


def inputs() -> dict[str, list[str]]:
    """The requirements behind each lock file, from pyproject.toml."""
    project = tomllib.loads(Path("pyproject.toml").read_text())
    return {
        "run": project["project"]["dependencies"],
        **project["dependency-groups"],
        "build": [*project["build-system"]["requires"], EDITABLE],
    }


def find_uv(directory: str) -> str:
    if found := shutil.which("uv"):
        return found
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    subprocess.run([f"{directory}/bin/pip", "install", "--quiet", "uv"], check=True)
    return f"{directory}/bin/uv"


def main(*options: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        uv = find_uv(f"{directory}/venv")
        agreeing: list[str] = []
        for name, requirements in inputs().items():
            target = FOLDER / f"{name}.lock"
            subprocess.run(
                [
                    *(uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--python-version", OLDEST),
                    *("--no-header", "--no-annotate", "--no-emit-index-url", "--output-file", str(target)),
                    *(*agreeing, *options, "-"),
                ],
                input="\n".join(requirements),
                text=True,
                check=True,
            )
            # All files agree on what they share, because all are installed into one environment.
            agreeing += ["--constraint", str(target)]
            print(f"wrote {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
