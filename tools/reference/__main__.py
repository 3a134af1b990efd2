"""Writes the pages of docs/reference that come from code: `python -m tools.reference`, with src on the path."""

from pathlib import Path

from tools.reference import api, commands, metrics

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {"api.md": api.page, "metrics.md": metrics.page, "commands.md": commands.page}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())


if __name__ == "__main__":
    main()
