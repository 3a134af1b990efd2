"""Writes the files that come from code: `python -m tools.reference`, with src on the path."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.reference import api, commands, example, metrics, packages, picture

ROOT: Final = Path(__file__).parents[2]
FILES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/reference/api.md": api.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/commands.md": commands.page,
    "docs/kohort.svg": picture.svg,
    "docs/packages.svg": packages.svg,
    "examples/language-model.yaml": example.text,
}


def main() -> None:
    for name, text in FILES.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text())


if __name__ == "__main__":
    main()
