"""The picture in the README: a release under way, as it is and as a terminal shows it.

Drawn rather than recorded, so that it says one thing and can be read at any size; the lines in the terminal are from
a run of the demo, stopped at its first step.
"""

from html import escape
from typing import Final

WIDTH, HEIGHT = 1120, 432
INK, PAPER, DIM, LINE = "#1f2933", "#ffffff", "#7b8794", "#cbd2d9"
STABLE, CANARY = "#2f6fde", "#e08a00"
SCREEN, GLOW, GREEN, YELLOW = "#161b22", "#c9d1d9", "#56d364", "#e3b341"

TERMINAL: Final = (
    ("$ kohort get tiny", GREEN),
    ("default/tiny  Available  2/2 groups ready, 0 up to date, revision 2 (6d5f8bfdd5)", GLOW),
    ("├─ group 0  ready  revision 1 (old)", GLOW),
    ("│  ├─ tiny-0    leader  1/1  laptop  Running", GLOW),
    ("│  ├─ tiny-0-1  worker  1/1  laptop  Running", GLOW),
    ("│  └─ tiny-0-2  worker  1/1  laptop  Running", GLOW),
    ("└─ group 1  ready  revision 1 (old)", GLOW),
    ("   ├─ tiny-1    leader  1/1  laptop  Running", GLOW),
    ("   ├─ tiny-1-1  worker  1/1  laptop  Running", GLOW),
    ("   └─ tiny-1-2  worker  1/1  laptop  Running", GLOW),
    ("Rollout tiny: step 1 of 3, 20% of the requests, StepPaused", YELLOW),
    ("default/tiny-97fcc  Available  1/1 groups ready, 1 up to date, revision 1 (6d5f8bfdd5)", GLOW),
    ("└─ group 0  ready  revision 1", GLOW),
    ("   ├─ tiny-97fcc-0    leader  1/1  laptop  Running", GLOW),
    ("   ├─ tiny-97fcc-0-1  worker  1/1  laptop  Running", GLOW),
    ("   └─ tiny-97fcc-0-2  worker  1/1  laptop  Running", GLOW),
    ("$ kohort approve tiny", GREEN),
    ("step 1 of Rollout tiny is approved", GLOW),
)


def svg() -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="A gateway sends 80 % of the requests to two groups of version 1 and 20 % to one of version 2">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{PAPER}"/>',
        *_diagram(),
        *_terminal(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _diagram() -> list[str]:
    parts = [
        _box(24, 186, 92, 56, INK),
        _text(70, 219, "gateway", size=14, anchor="middle", weight="bold"),
        _arrow(116, 206, 196, 88, STABLE, "40 %"),
        _arrow(116, 214, 196, 214, STABLE, "40 %"),
        _arrow(116, 222, 196, 340, CANARY, "20 %"),
    ]
    for top, name, version, colour in (
        (34, "tiny group 0", "v1", STABLE),
        (160, "tiny group 1", "v1", STABLE),
        (286, "canary group 0", "v2", CANARY),
    ):
        parts += _group(196, top, name, version, colour)
    return parts


def _group(left: int, top: int, name: str, version: str, colour: str) -> list[str]:
    parts = [
        _box(left, top, 214, 108, colour),
        _text(left + 12, top + 22, name, size=13, weight="bold"),
        _text(left + 202, top + 22, version, size=13, anchor="end", weight="bold", colour=colour),
        _pod(left + 42, top + 66, "leader", colour, filled=True),
        _pod(left + 107, top + 66, "worker", colour),
        _pod(left + 172, top + 66, "worker", colour),
    ]
    links = f'<path d="M{left + 60} {top + 66}H{left + 89}M{left + 125} {top + 66}H{left + 154}" stroke="{LINE}"/>'
    return [*parts, links]


def _pod(x: int, y: int, role: str, colour: str, *, filled: bool = False) -> str:
    inside = colour if filled else PAPER
    circle = f'<circle cx="{x}" cy="{y}" r="18" fill="{inside}" stroke="{colour}" stroke-width="2"/>'
    return circle + _text(x, y + 36, role, size=11, anchor="middle", colour=DIM)


def _terminal() -> list[str]:
    left = 436
    parts = [f'<rect x="{left}" y="24" width="{WIDTH - left - 24}" height="{HEIGHT - 48}" rx="8" fill="{SCREEN}"/>']
    for number, (line, colour) in enumerate(TERMINAL):
        parts.append(
            f'<text x="{left + 18}" y="{56 + number * 20}" fill="{colour}" font-size="12" xml:space="preserve" '
            f'font-family="ui-monospace, Menlo, Consolas, monospace">{escape(line)}</text>'
        )
    return parts


def _box(x: int, y: int, width: int, height: int, colour: str) -> str:
    shape = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="8"'
    return f'<rect {shape} fill="{PAPER}" stroke="{colour}" stroke-width="2"/>'


def _arrow(x: int, y: int, to_x: int, to_y: int, colour: str, label: str) -> str:
    head = f'<path d="M{to_x} {to_y}l-9 -4v8z" fill="{colour}"/>'
    bend = (x + to_x) // 2
    curve = f"M{x} {y}C{bend} {y} {bend} {to_y} {to_x - 8} {to_y}"
    line = f'<path d="{curve}" fill="none" stroke="{colour}" stroke-width="2"/>'
    return line + head + _text(to_x - 12, to_y - 10, label, size=12, anchor="end", colour=colour)


def _text(
    x: int, y: int, text: str, *, size: int, anchor: str = "start", weight: str = "normal", colour: str = INK
) -> str:
    style = f'font-family="system-ui, sans-serif" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}" fill="{colour}" {style}>{escape(text)}</text>'
