"""Charts of judged steps: the share of bad samples of both versions over time, with the limit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kohort.dashboard.analysis_charts import MetricChart, StepAnalysis
from kohort.dashboard.html import Child, Html, tag
from kohort.dashboard.pages.elements import BAD, BUSY, OK, QUIET, pill, section
from kohort.dashboard.view import Section
from kohort.inspection.readable_amounts import duration_text
from kohort.rollouts.analysis.metric_units import percent

_PHASES: Final[Mapping[str, tuple[str, str]]] = {
    "WarmingUp": ("warming up", BUSY),
    "Running": ("not decided yet", BUSY),
    "NoData": ("too few samples", QUIET),
    "Passed": ("passed", OK),
    "Failed": ("failed", BAD),
    "Held": ("held", BAD),
    "Ended": ("ended without a verdict", QUIET),
}
WIDTH, HEIGHT, LEFT, BOTTOM = 340.0, 150.0, 46.0, 18.0
"""Of a drawing, and the room for the names of its axes."""
_PLOT_WIDTH, _PLOT_HEIGHT, _ABOVE = WIDTH - LEFT - 12, HEIGHT - BOTTOM, 8.0


def analysis_section(analyses: Sequence[StepAnalysis]) -> Section:
    return section("analysis", "Analysis", *(_step(one) for one in analyses), more=_legend())


def _legend() -> Html:
    marks = (
        ("canary", "new version"),
        ("margin", "range of its share"),
        ("stable", "stable version"),
        ("limit", "fails above"),
    )
    return tag("p", *(tag("span", tag("span", class_=f"swatch {one}"), text) for one, text in marks), class_="legend")


def _verdict(text: str) -> Html:
    words, tone = _PHASES.get(text, (text, BUSY))
    return pill(words, tone)


def _step(one: StepAnalysis) -> Html:
    mode = tag("span", f"mode {one.mode}", class_="tag") if one.mode else None
    head = tag("h3", f"Step {one.step} ", _verdict(one.phase), " ", mode)
    words = [f"{one.readings} readings in {duration_text(round(one.elapsed_seconds))}"]
    if one.overridden_by:
        words.append(f"overridden by {one.overridden_by}")
    if one.message and not one.repeats_metrics:
        words.append(one.message)
    charts = tag("div", *(_metric(chart) for chart in one.metrics), class_="charts")
    return tag("div", head, tag("p", "; ".join(words), class_="quiet-text"), charts)


def _metric(chart: MetricChart) -> Html:
    marks: list[Child] = [_verdict(chart.verdict)]
    marks += [tag("span", name, class_="tag") for name in ("critical", "advisory") if getattr(chart, name)]
    return tag(
        "figure",
        tag("figcaption", tag("strong", chart.name), *marks),
        _drawing(chart),
        tag("p", chart.message, class_="sub") if chart.message else None,
        class_="chart",
    )


def _drawing(chart: MetricChart) -> Html:
    size = f"0 0 {WIDTH:g} {HEIGHT:g}"
    if not any(one.canary is not None or one.stable is not None for one in chart.points):
        nothing = _text("no samples yet", WIDTH / 2, HEIGHT / 2, "middle")
        words = f"{chart.name}: no samples yet"
        return tag("svg", nothing, viewBox=size, role="img", aria_label=words, class_="drawing")
    bounds = chart.bounds
    shares = [one for point in chart.points for one in (point.canary, point.stable) if one is not None]
    highest = max([*shares, *(one for _, one in bounds)], default=0.0)
    top = min(1.0, max(highest * 1.25, 0.001))
    latest = max([point.seconds for point in chart.points], default=1.0) or 1.0

    def x(seconds: float) -> float:
        return LEFT + seconds / latest * (_PLOT_WIDTH - 10)

    def y(share: float) -> float:
        return _ABOVE + (1 - min(max(share, 0.0), top) / top) * (_PLOT_HEIGHT - _ABOVE)

    parts = [*_axes(top, latest, y), *_limit(bounds, x, y), *_range(chart, y)]
    for name, shown in (
        ("stable", [(one.seconds, one.stable) for one in chart.points]),
        ("canary", [(one.seconds, one.canary) for one in chart.points]),
    ):
        places = [(x(seconds), y(share)) for seconds, share in shown if share is not None]
        if places:
            parts.append(tag("polyline", points=_points(places), class_=name))
            parts.append(tag("circle", cx=f"{places[-1][0]:.1f}", cy=f"{places[-1][1]:.1f}", r="2.5", class_=name))
    words = f"{chart.name}: share of bad samples over time, {len(chart.points)} windows; {chart.verdict}"
    return tag("svg", *parts, viewBox=size, role="img", aria_label=words, class_="drawing")


def _text(words: str, x: float, y: float, anchor: str) -> Html:
    return tag("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _axes(top: float, latest: float, y: Callable[[float], float]) -> list[Html]:
    """Shares in per cent to the left, the time since the step began below."""
    parts: list[Html] = []
    for share in (0.0, top / 2, top):
        place = f"{y(share):.1f}"
        parts.append(tag("line", x1=f"{LEFT:g}", x2=f"{WIDTH:g}", y1=place, y2=place, class_="scale"))
        parts.append(_text(percent(share), LEFT - 5, y(share) + 3, "end"))
    parts.append(_text("0 s", LEFT, HEIGHT - 5, "start"))
    parts.append(_text(duration_text(round(latest)), WIDTH - 12, HEIGHT - 5, "end"))
    return parts


def _limit(
    bounds: Sequence[tuple[float, float]], x: Callable[[float], float], y: Callable[[float], float]
) -> list[Html]:
    """The limit, and what is beyond it. Where versions are compared it follows the stable one."""
    if not bounds:
        return []
    places = [(x(seconds), y(share)) for seconds, share in bounds]
    places = [(LEFT, places[0][1]), *places, (WIDTH, places[-1][1])]
    beyond = [(LEFT, _ABOVE), *places, (WIDTH, _ABOVE)]
    return [
        tag("polyline", points=_points(beyond), class_="over"),
        tag("polyline", points=_points(places), class_="limit"),
    ]


def _range(chart: MetricChart, y: Callable[[float], float]) -> list[Html]:
    if chart.lower is None or chart.upper is None:
        return []
    high, low = y(chart.base + chart.upper), y(chart.base + chart.lower)
    size = f"{max(1.0, low - high):.1f}"
    return [tag("rect", x=f"{WIDTH - 10:g}", y=f"{high:.1f}", width="6", height=size, rx="2", class_="margin")]
