"""The command behind `make release`."""

import argparse
import sys
from pathlib import Path

from tools.release.build import release
from tools.release.version import ReleaseError

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Build all files of a release.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "release", help="a folder that is replaced")
    parser.add_argument("--base", type=Path, help="base.lock of an earlier build: exactly these Debian packages")
    chosen = parser.parse_args()
    try:
        for path in release(ROOT, chosen.output, chosen.base):
            print(f"{path.stat().st_size:>12,}  {path}")
    except ReleaseError as problem:
        print(f"no release:\n{problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
