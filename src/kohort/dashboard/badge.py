"""The state of a set as a small picture."""

from typing import Final

from kohort.dashboard.html import Html, tag
from kohort.dashboard.set_page import Badge

_COLOURS: Final = {"ok": "#1f7a4d", "busy": "#8a5300", "bad": "#b3261e"}
_LABEL: Final = "#3d4754"
_CHARACTER: Final = 6.6
"""Width of a character; the picture names fonts of about this width."""
_PADDING: Final = 8.0


def svg(badge: Badge) -> Html:
    left, right = (_PADDING * 2 + _CHARACTER * len(one) for one in (badge.label, badge.message))
    words = f"{badge.label}: {badge.message}"
    return tag(
        "svg",
        tag("title", words),
        tag("rect", width=f"{left + right:.0f}", height="20", rx="3", fill=_LABEL),
        tag("rect", x=f"{left:.0f}", width=f"{right:.0f}", height="20", rx="3", fill=_COLOURS[badge.tone]),
        _text(badge.label, left / 2),
        _text(badge.message, left + right / 2),
        xmlns="http://www.w3.org/2000/svg",
        width=f"{left + right:.0f}",
        height="20",
        role="img",
        aria_label=words,
    )


def _text(words: str, middle: float) -> Html:
    return tag(
        "text",
        words,
        x=f"{middle:.1f}",
        y="14",
        fill="#ffffff",
        text_anchor="middle",
        font_family="Verdana, DejaVu Sans, sans-serif",
        font_size="11",
    )
