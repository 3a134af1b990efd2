"""The command behind `make image`."""

import argparse
import sys
from pathlib import Path

from tools.image.build import ImageError, build, build_model_server, write

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.image", description="Build kohort's image.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder for the results [dist]")
    parser.add_argument("--name", default="", help="name and tag of the image [that of kohort install]")
    parser.add_argument("--base", type=Path, help="a base.lock of an earlier build: exactly these Debian packages")
    parser.add_argument("--model-server", action="store_true", help="the demo's model server, into OUTPUT/model-server")
    chosen = parser.parse_args()
    output = chosen.output / "model-server" if chosen.model_server else chosen.output
    try:
        if chosen.model_server:
            built = build_model_server(ROOT, name=chosen.name, base=chosen.base)
        else:
            built = build(ROOT, name=chosen.name, base=chosen.base)
    except ImageError as problem:
        print(f"no image: {problem}", file=sys.stderr)
        return 1
    for line in write(built, output):
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
