"""The command behind `make image`."""

import argparse
import sys
from pathlib import Path

from tools.image.build import ImageError, build, write

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.image", description="Build kohort's image.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder for the results [dist]")
    parser.add_argument("--name", default="", help="name and tag of the image [that of kohort install]")
    parser.add_argument("--base", type=Path, help="a base.lock of an earlier build: exactly these Debian packages")
    chosen = parser.parse_args()
    try:
        built = build(ROOT, name=chosen.name, base=chosen.base)
    except ImageError as problem:
        print(f"no image: {problem}", file=sys.stderr)
        return 1
    for line in write(built, chosen.output):
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
