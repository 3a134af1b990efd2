"""The plot of ratios: one bar for each, with a line at 1; shorter bars are better than the peer."""

from collections.abc import Sequence
from html import escape

LABELS, WIDTH, ROW, SCALE_END = 330, 360, 24, 2.0


def ratios(values: Sequence[tuple[str, float]]) -> str:
    height = ROW * (len(values) + 2)
    one = LABELS + WIDTH / SCALE_END
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABELS + WIDTH + 60}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (label, ratio) in enumerate(values):
        top = ROW * (number + 1)
        length = WIDTH * min(ratio, SCALE_END) / SCALE_END
        colour = "#2a7f62" if ratio <= 1 else "#c0552d"
        lines.append(f'<text x="{LABELS - 8}" y="{top + 14}" text-anchor="end">{escape(label)}</text>')
        lines.append(f'<rect x="{LABELS}" y="{top + 3}" width="{length:.1f}" height="{ROW - 8}" fill="{colour}"/>')
        lines.append(f'<text x="{LABELS + length + 5:.1f}" y="{top + 14}">{ratio:.2f}</text>')
    lines.append(
        f'<line x1="{one}" x2="{one}" y1="{ROW - 6}" y2="{height - ROW}" stroke="#444" stroke-dasharray="4 3"/>'
    )
    lines.append(f'<text x="{one}" y="{height - 8}" text-anchor="middle">as the peer</text>')
    lines.append("</svg>")
    return "\n".join(lines) + "\n"
