"""The picture in docs/architecture.md: the packages in their layers, drawn from the import contract in pyproject.toml.

This module has a short text for each package. A package without a text, or a text without a package, fails
`make reference` and the test that compares the picture with this module.
"""

import tomllib
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CONTENTS: Final = {
    "cli": "the kohort command, also kubectl kohort",
    "testing": "a cluster in a test",
    "up": "kohort up",
    "install": "install on a cluster",
    "demo": "the demo",
    "dashboard": "kohort dashboard: pages of what inspection finds, live",
    "manager": "the operator as a process: leadership, health, metrics",
    "operator": "which controllers and webhooks make up the operator",
    "inspection": "what the commands say about a set: tree, causes, forecasts (pure)",
    "admission": "webhook server, certificates, reviews",
    "groups": "LeaderWorkerSet",
    "rollouts": "releases, traffic",
    "cluster": "embedded control plane",
    "node": "node agent, cgroups",
    "rules": "rules that several parts share: group identity, resize decision, back-off (pure)",
    "kube": "controller runtime: client, watch, caches, queues, leader election, events",
    "resources": "effective requests and limits, QoS, cgroup values (pure)",
    "objects": "typed views of API objects, quantities, names, selectors (pure)",
}
WIDTH, ROW, GAP, LEFT = 960, 46, 10, 24
INK, PAPER, DIM = "#1f2933", "#ffffff", "#52606d"
COLOURS: Final = {
    "groups": "#2f6fde",
    "rollouts": "#2f6fde",
    "cluster": "#e08a00",
    "node": "#3c8c3c",
    "rules": "#8a4fbf",
}


def layers() -> list[list[str]]:
    """From the top down, as the import contract says; packages of one layer never import each other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["type"] == "layers" and "kohort.cli" in one["layers"]]
    return [[name.strip().removeprefix("kohort.") for name in layer.split("|")] for layer in contract["layers"]]


def svg() -> str:
    drawn = layers()
    names = [name for layer in drawn for name in layer]
    if sorted(names) != sorted(CONTENTS):
        raise SystemExit(f"tools/reference/packages.py: describe exactly these packages: {', '.join(names)}")
    height = len(drawn) * (ROW + GAP) + 58
    rows = [part for number, layer in enumerate(drawn) for part in _layer(44 + number * (ROW + GAP), layer)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Packages of kohort in layers, from {names[0]} at the top to {names[-1]} at the bottom">'
    )
    title = _text(LEFT, 28, "Imports only point down. Packages side by side never import each other.", 13, DIM)
    return (
        "\n".join([head, f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}"/>', title, *rows, "</svg>"])
        + "\n"
    )


def _layer(top: int, names: list[str]) -> list[str]:
    width = (WIDTH - 2 * LEFT - GAP * (len(names) - 1)) / len(names)
    parts = []
    for number, name in enumerate(names):
        left = LEFT + number * (width + GAP)
        colour = COLOURS.get(name, INK)
        shape = f'x="{left:g}" y="{top}" width="{width:g}" height="{ROW}" rx="6"'
        parts.append(f'<rect {shape} fill="{PAPER}" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(left + 12, top + 20, name, 14, colour, weight="bold"))
        parts.append(_text(left + 12, top + 37, CONTENTS[name], 11, DIM))
    return parts


def _text(x: float, y: int, text: str, size: int, colour: str, *, weight: str = "normal") -> str:
    style = f'font-family="system-ui, sans-serif" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:g}" y="{y}" fill="{colour}" {style}>{escape(text)}</text>'
