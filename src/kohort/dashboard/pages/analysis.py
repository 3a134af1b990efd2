"""Charts of judged steps."""

from collections.abc import Callable, Mapping, Sequence

from kohort.dashboard.analysis_charts import ChartPoint, MetricChart, StepAnalysis
from kohort.dashboard.html import Child, Html, tag
from kohort.dashboard.pages.elements import BAD, BUSY, OK, QUIET, pill, section
from kohort.dashboard.view import Section

_TONES: Mapping[str, str] = {"Passed": OK, "Failed": BAD, "Held": BAD, "Running": BUSY, "NoData": QUIET}
WIDTH, HEIGHT = 320.0, 110.0


def analysis_section(analyses: Sequence[StepAnalysis]) -> Section:
    return section("analysis", "Analysis", *(_step(one) for one in analyses), more=_legend())


def _legend() -> Html:
    marks = (("canary", "new version"), ("stable", "stable version"), ("limit", "fails above"))
    return tag("p", *(tag("span", tag("span", class_=f"swatch {one}"), text) for one, text in marks), class_="legend")


def _step(one: StepAnalysis) -> Html:
    mode = tag("span", one.mode, class_="tag") if one.mode else None
    head = tag("h3", f"Step {one.step} ", pill(one.phase, _TONES.get(one.phase, BUSY)), " ", mode)
    words = [text for text in (one.message, f"overridden by {one.overridden_by}" if one.overridden_by else "") if text]
    time = f"{one.readings} readings in {one.elapsed_seconds:.0f} s"
    charts = tag("div", *(_metric(chart) for chart in one.metrics), class_="charts")
    return tag("div", head, tag("p", "; ".join([*words, time]), class_="quiet-text"), charts)


def _metric(chart: MetricChart) -> Html:
    marks: list[Child] = [pill(chart.verdict, _TONES.get(chart.verdict, BUSY))]
    marks += [tag("span", name, class_="tag") for name in ("critical", "advisory") if getattr(chart, name)]
    values = f"new {chart.canary_value:.4g}, stable {chart.stable_value:.4g}"
    limit = f", {chart.limit} fails above {chart.fail_above:.2%} bad" if chart.fail_above is not None else ""
    return tag(
        "figure",
        tag("figcaption", tag("strong", chart.name), " ", *marks, tag("span", f"{values}{limit}", class_="sub")),
        _drawing(chart),
        tag("p", chart.message, class_="sub") if chart.message else None,
        class_="chart",
    )


def _drawing(chart: MetricChart) -> Html:
    shares = [one for point in chart.points for one in (point.canary, point.stable) if one is not None]
    top = max([*shares, chart.fail_above or 0.0, 0.001]) * 1.25
    latest = max([point.seconds for point in chart.points], default=1.0) or 1.0

    def y(share: float) -> float:
        return HEIGHT - share / top * HEIGHT

    parts: list[Child] = []
    if chart.fail_above is not None:
        edge = y(chart.fail_above)
        parts.append(tag("rect", x="0", y="0", width=f"{WIDTH:g}", height=f"{edge:.1f}", class_="over"))
        parts.append(tag("line", x1="0", x2=f"{WIDTH:g}", y1=f"{edge:.1f}", y2=f"{edge:.1f}", class_="limit"))
    if chart.lower is not None and chart.upper is not None:
        high, low = y(min(chart.upper, top)), y(max(chart.lower, 0.0))
        size = f"{max(0.0, low - high):.1f}"
        parts.append(tag("rect", x=f"{WIDTH - 8:g}", y=f"{high:.1f}", width="6", height=size, rx="2", class_="margin"))
    for name in ("stable", "canary"):
        points = _line(chart.points, name, latest, y)
        if points:
            parts.append(tag("polyline", points=points, class_=name))
    words = f"{chart.name}: share of bad samples over time, {len(chart.points)} windows; {chart.verdict}"
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img", aria_label=words, class_="drawing")


def _line(points: Sequence[ChartPoint], name: str, latest: float, y: Callable[[float], float]) -> str:
    found = []
    for one in points:
        share = one.canary if name == "canary" else one.stable
        if share is not None:
            found.append(f"{one.seconds / latest * (WIDTH - 12):.1f},{y(share):.1f}")
    return " ".join(found)
