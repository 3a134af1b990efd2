"""The example manifests: in a wheel they are part of the package, in a checkout they are in its folder `examples`."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path


def manifests() -> dict[str, str]:
    """The text of each, by name."""
    found = sorted((each for each in _folder().iterdir() if each.name.endswith(".yaml")), key=lambda each: each.name)
    return {each.name.removesuffix(".yaml"): each.read_text() for each in found}


def summary(text: str) -> str:
    """The first sentence of the comment at the head.

    >>> summary("# Two groups. More.\\nkind: Service")
    'Two groups'
    """
    lines = (line.removeprefix("#").strip() for line in takewhile(lambda line: line.startswith("#"), text.splitlines()))
    comment = takewhile(bool, lines)
    return " ".join(comment).partition(". ")[0].removesuffix(".")


def _folder() -> Traversable:
    packaged = files("kohort") / "examples"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "examples"
