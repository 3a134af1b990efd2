"""Install kohort into a virtual environment, with uv when it is there, else with pip.

python3 tools/setup_venv.py .venv           what it needs to run
python3 tools/setup_venv.py .venv dev       a group of pyproject.toml on top: dev for tests, docs for the site

Versions and hashes are those of the lock files in `requirements`; `make lock` renews them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

MINIMUM = (3, 11)


def main(target: Path, group: str = "") -> int:
    if sys.version_info < MINIMUM:
        print(f"kohort needs Python {'.'.join(map(str, MINIMUM))} or newer; this is {sys.version.split()[0]}.")
        print("Name another interpreter with: make PYTHON=/path/to/python3.11 setup")
        return 1
    if not (target / "bin" / "python").exists():
        print(f"making {target}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(target)], check=True)
    print(f"installing {group or 'kohort'} into {target} (once; needs the package index)", flush=True)
    for words in steps(group):
        subprocess.run([*installer(target), *words], check=True)
    if not group:
        compile_modules(target)
    return 0


def compile_modules(target: Path) -> None:
    """Start-up is mostly imports; installers may leave modules uncompiled, and some environments never write them."""
    places = [*map(str, target.glob("lib/python*/site-packages")), "src"]
    subprocess.run([target / "bin" / "python", "-m", "compileall", "-q", "-j", "0", *places], check=False)


def installer(target: Path) -> list[str]:
    python = str(target / "bin" / "python")
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", python]
    return [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def steps(group: str) -> list[list[str]]:
    """What the installer is called with, one call after the other. kohort itself is the only thing without a hash, and
    it is built by what is locked, too."""
    if group:
        return [["--require-hashes", "--requirement", f"requirements/{group}.lock"]]
    locked = ["--requirement", "requirements/run.lock", "--requirement", "requirements/build.lock"]
    return [["--require-hashes", *locked], ["--no-deps", "--no-build-isolation", "--editable", "."]]


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), *sys.argv[2:]))
