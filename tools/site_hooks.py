"""Hooks of mkdocs: the site shows the version of the project, and no page asks another host for anything.

The version is read from pyproject.toml, so it is written in one place. Pages must work on a machine without a network:
a script, style sheet, picture or font from elsewhere fails the build.
"""

import re
import tomllib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_RESOURCE = re.compile(
    r"<(script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)[^>]*>"
)
_STYLE = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')\s]+)")
_MERMAID = re.compile(r"class=[\"']?mermaid")


def on_config(config: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    config["site_name"] = f"kohort {version}"
    config["copyright"] = f"kohort {version}, Apache-2.0"
    return config


def on_post_build(config: MutableMapping[str, Any]) -> None:
    site = Path(config["site_dir"])
    wrong = [
        f"{path.relative_to(site)}: {address}"
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css")
        for address in external_requests(path.read_text())
    ]
    if wrong:
        raise SystemExit("pages must not load anything from other hosts:\n" + "\n".join(wrong))


def external_requests(text: str) -> list[str]:
    """What a browser would load from other hosts to show this page or style sheet; links to follow do not count.

    >>> external_requests('<a href="https://example.com">x</a> <script src="//cdn.example.com/x.js"></script>')
    ['//cdn.example.com/x.js']
    >>> external_requests('<link rel="canonical" href="https://example.com/">'), external_requests("@import 'https://x.example/a.css'")
    ([], ['https://x.example/a.css'])
    """
    loaded = [match[2] for match in _RESOURCE.finditer(text) if "canonical" not in match[0]]
    diagrams = ["a mermaid diagram, whose program comes from a CDN"] if _MERMAID.search(text) else []
    return [*loaded, *_STYLE.findall(text), *diagrams]
