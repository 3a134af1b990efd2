"""Series as users name them, and as Prometheus is asked for them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rollouts.analysis.metrics_text import Series
from kohort.rollouts.analysis.series_selectors import (
    OLDER_NAMES,
    PRESETS,
    HistogramSeries,
    Matcher,
    MetricSeries,
    QuerySeries,
    Selector,
    ShareSeries,
    ValueSeries,
    parse_selector,
    series_of,
)


@pytest.mark.parametrize(
    ("text", "name", "matchers"),
    [
        ("requests_total", "requests_total", []),
        (" vllm:requests ", "vllm:requests", []),
        ("a{}", "a", []),
        ("a{ }", "a", []),
        ('a{b="c"}', "a", [("b", "=", "c")]),
        ('a { b = "c" , d != "e" }', "a", [("b", "=", "c"), ("d", "!=", "e")]),
        ('a{b="c",}', "a", [("b", "=", "c")]),
        ('a{b=~"5..",c!~"x|y"}', "a", [("b", "=~", "5.."), ("c", "!~", "x|y")]),
        (r'a{b="say \"hi\""}', "a", [("b", "=", 'say "hi"')]),
        (r'a{b="\\"}', "a", [("b", "=", "\\")]),
        (r'a{b="one\ntwo\tthree"}', "a", [("b", "=", "one\ntwo\tthree")]),
        (r'a{b=~"\\d+"}', "a", [("b", "=~", r"\d+")]),
        (r'a{b=~"\d+"}', "a", [("b", "=~", r"\d+")]),
        ('a{b="}"}', "a", [("b", "=", "}")]),
        ('a{b=","}', "a", [("b", "=", ",")]),
        ('a{b=""}', "a", [("b", "=", "")]),
    ],
)
def test_a_series_is_a_name_with_conditions(text: str, name: str, matchers: list[tuple[str, str, str]]) -> None:
    assert parse_selector(text) == Selector(name, tuple(Matcher(*each) for each in matchers))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a series"),
        ("9a", "is not a series"),
        ("a b", "is not a series"),
        ("a{", "is not a series"),
        ("sum(a)", "is not a series"),
        ("x" * 1025, "is not a series"),
        ("a{b}", "the labels {b} cannot be read"),
        ("a{b=c}", "the labels {b=c} cannot be read"),
        ('a{b=="c"}', "cannot be read"),
        ('a{b="c" d="e"}', "cannot be read"),
        ('a{9="c"}', "cannot be read"),
        ('a{b="c}', "cannot be read"),
        ('a{b=~"("}', "'(' is not a regular expression"),
        ('a{b!~"[z-a]"}', "'[z-a]' is not a regular expression"),
        (r'a{b=~"(?=x)"}', "is not a regular expression"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_selector(text)


@pytest.mark.parametrize(
    ("operator", "value", "fits"),
    [
        ("=", "500", {"500"}),
        ("!=", "500", {"5000", "200", ""}),
        ("=~", "5..", {"500"}),
        ("!~", "5..", {"5000", "200", ""}),
        ("=", "", {""}),
        ("=~", ".*", {"500", "5000", "200", ""}),
        ("=~", "500|200", {"500", "200"}),
    ],
)
def test_conditions_are_about_the_whole_label_and_an_absent_one_is_empty(
    operator: str, value: str, fits: set[str]
) -> None:
    selector = Selector("a", (Matcher("code", operator, value),))
    codes = ("500", "5000", "200", "")
    assert {code for code in codes if selector.fits(Series("a", {"code": code}, 1.0))} == fits
    assert selector.fits(Series("a", {}, 1.0)) == ("" in fits)
    assert not any(selector.fits(Series("b", {"code": code}, 1.0)) for code in codes)


def test_all_conditions_must_hold() -> None:
    selector = parse_selector('a{b="1",c="2"}')
    found = [selector.fits(Series("a", {"b": b, "c": c}, 0.0)) for b in ("1", "x") for c in ("2", "x")]
    assert found == [True, False, False, False]


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,9}", fullmatch=True)
labels = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,9}", fullmatch=True)
values = st.text(st.sampled_from(list('ab"\\\n\t{},= ')), max_size=9)
selectors = st.builds(
    Selector, names, st.lists(st.builds(Matcher, labels, st.sampled_from(["=", "!="]), values), max_size=3).map(tuple)
)


@given(selectors)
def test_what_prometheus_is_asked_for_is_what_was_meant(selector: Selector) -> None:
    """Quotes, backslashes and line feeds in a label included."""
    assert parse_selector(selector.text()) == selector


@given(selectors, st.builds(Matcher, labels, st.just("="), values))
def test_further_conditions_are_added_to_a_query(selector: Selector, more: Matcher) -> None:
    assert parse_selector(selector.text(more)) == Selector(selector.name, (*selector.matchers, more))


@given(labels, values, st.dictionaries(labels, values, max_size=3))
def test_a_condition_and_its_opposite_divide_all_series(label: str, value: str, found: dict[str, str]) -> None:
    assert Matcher(label, "=", value).fits(found) is not Matcher(label, "!=", value).fits(found)


METRICS = [(preset, name) for preset, found in sorted(PRESETS.items()) for name in sorted(found)]


@pytest.mark.parametrize(("preset", "name"), METRICS)
def test_a_preset_names_series_that_can_be_asked_for(preset: str, name: str) -> None:
    match PRESETS[preset][name]:
        case HistogramSeries(selector) | ValueSeries(selector):
            assert not selector.name.endswith(("_bucket", "_total")), "a histogram without its suffix, or a gauge"
            asked = [selector]
        case ShareSeries(total, bad, good):
            assert (bad is None) != (good is None)
            asked = [one for one in (total, bad, good) if one is not None]
            assert all(one.name.endswith("_total") for one in asked), "counters"
        case other:
            pytest.fail(f"a preset has no query of its own: {other}")
    for selector in asked:
        assert parse_selector(selector.text()) == selector


def test_a_share_counts_answers_of_the_server_as_bad_and_no_others() -> None:
    for preset, label in (("vllm", "status"), ("gateway", "code")):
        share = PRESETS[preset]["errorRate"]
        assert isinstance(share, ShareSeries) and share.bad is not None
        codes = ("200", "404", "429", "499", "500", "503", "599")
        bad = {code for code in codes if share.bad.fits(Series(share.total.name, {label: code}, 1.0))}
        assert bad == {"500", "503", "599"}
        assert all(share.total.fits(Series(share.total.name, {label: code}, 1.0)) for code in codes)


def test_older_names_belong_to_series_of_presets() -> None:
    known = {
        series.selector.name
        for found in PRESETS.values()
        for series in found.values()
        if isinstance(series, HistogramSeries | ValueSeries)
    }
    assert set(OLDER_NAMES) <= known
    assert known.isdisjoint(OLDER_NAMES.values())


@pytest.mark.parametrize("text", ["latency", "latency_bucket", 'latency{model="a"}', 'latency_bucket{model="a"}'])
def test_a_histogram_is_named_with_or_without_its_buckets(text: str) -> None:
    matchers = (Matcher("model", "=", "a"),) if "model" in text else ()
    named = HistogramSeries.parse(text)
    assert named == HistogramSeries(Selector("latency", matchers))
    assert series_of(named) == (Selector("latency_bucket", matchers),)


@pytest.mark.parametrize(
    ("metric", "names"),
    [
        (
            PRESETS["vllm"]["itl"],
            ["vllm:inter_token_latency_seconds_bucket", "vllm:time_per_output_token_seconds_bucket"],
        ),
        (PRESETS["vllm"]["errorRate"], ["http_requests_total", "http_requests_total"]),
        (ShareSeries(Selector("all"), good=Selector("good")), ["all", "good"]),
        (PRESETS["vllm"]["running"], ["vllm:num_requests_running"]),
        (QuerySeries('sum(a{pod=~"{{pods}}"})'), []),
    ],
)
def test_the_series_that_a_metric_is_read_from(metric: MetricSeries, names: list[str]) -> None:
    assert [one.name for one in series_of(metric)] == names
