"""Modules compiled by the Python of the image, which could not write them later: its root is read-only.

Its Python runs here through the loader of the image, in a folder, so that neither root nor the same Python is needed on
this machine. Compiled modules are marked as not to be compared with their sources: files of the image have no times.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from tools.image.files import Files
from tools.image.wheels import MACHINES, Target


def compile_modules(base: Files, layers: list[Files], target: Target) -> None:
    """Add what the modules of the base and the layers compile to, each to its own files."""
    with tempfile.TemporaryDirectory(prefix="kohort-image-") as directory:
        root = Path(directory)
        whole = Files()
        for files in (base, *layers):
            whole.update(files)
        whole.write_to(root)
        run_python(
            root,
            target,
            *("-m", "compileall", "-qq", "-f", "-s", directory, "-p", "/"),
            *("--invalidation-mode", "unchecked-hash"),
            *(str(root / place) for place in (f"usr/lib/python{target.python}", target.folder)),
        )
        for files in (base, *layers):
            for path in [one for one in files.regular if one.endswith(".py")]:
                compiled = Path(path).parent / "__pycache__" / f"{Path(path).stem}.{_tag(target)}.pyc"
                if (root / compiled).is_file():
                    files.add(str(compiled), (root / compiled).read_bytes())


def run_python(root: Path, target: Target, *arguments: str) -> str:
    """What the Python below the root prints. Not isolated: for programs of ours only."""
    machine = MACHINES[target.architecture]
    libraries = root / "usr" / "lib" / f"{machine}-linux-gnu"
    (loader,) = libraries.glob("ld-linux-*.so.*")
    environment = {"PATH": os.environ["PATH"], "PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0"}
    command = [loader, "--library-path", libraries, root / "usr" / "bin" / f"python{target.python}", "-S", "-B"]
    return subprocess.run(
        [*map(str, command), *arguments], env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def _tag(target: Target) -> str:
    return f"cpython-{target.python.replace('.', '')}"
