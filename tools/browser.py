"""Install what tests in a browser need besides Python packages: chromium, and axe-core, which checks accessibility.

python -m tools.browser

| program | from |
|---|---|
| chromium | the machine, or Debian's package (as root, with apt-get) |
| axe-core | the npm registry, into a folder of the user's cache |

What cannot be installed is reported; the tests are skipped then, and say so.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

AXE: Final = "axe-core@4.10.3"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "kohort" / "browser"


def chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def axe() -> Path | None:
    path = cache() / "node_modules" / "axe-core" / "axe.min.js"
    return path if path.exists() else None


def missing() -> str:
    """What tests in a browser lack; empty if nothing."""
    try:
        import playwright
    except ImportError:
        return "the Python package playwright is not installed"
    assert playwright
    if chromium() is None:
        return "there is no chromium"
    if axe() is None:
        return "axe-core is not installed"
    return ""


def install() -> None:
    if chromium() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install_words = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
        for words in (["apt-get", "update", "-qq"], install_words):
            subprocess.run(words, check=False, stdout=subprocess.DEVNULL)
    if axe() is None and shutil.which("npm"):
        cache().mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", str(cache()), AXE]
        subprocess.run(words, check=False)


if __name__ == "__main__":
    install()
    lacking = missing()
    if lacking:
        print(f"!!! Tests in a browser are skipped: {lacking}. !!!", file=sys.stderr)
