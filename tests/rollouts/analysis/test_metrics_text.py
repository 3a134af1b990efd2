"""The text format of Prometheus, from servers that are not trusted."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rollouts.analysis import metrics_text
from kohort.rollouts.analysis.metrics_text import MAX_SERIES, Series, parse

TEXT = """\
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1",model_name="a \\"b\\" {c}, d"} 7
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="x",} 1.2e+01 1700000000000
vllm:num_requests_waiting 3 # {trace_id="1"} 0.5
other{a="1"} 2
# EOF
"""


def test_series_of_the_wanted_names_are_read() -> None:
    found = parse(TEXT, {"vllm:time_to_first_token_seconds_bucket", "vllm:num_requests_waiting"})
    assert found.series == (
        Series("vllm:time_to_first_token_seconds_bucket", {"le": "0.1", "model_name": 'a "b" {c}, d'}, 7.0),
        Series("vllm:time_to_first_token_seconds_bucket", {"le": "+Inf", "model_name": "x"}, 12.0),
        Series("vllm:num_requests_waiting", {}, 3.0),
    )
    assert found.unreadable == 0


@pytest.mark.parametrize(
    "line",
    [
        "m",
        "m{",
        'm{a="1"',
        'm{a="1} 2',
        "m{a=1} 2",
        'm{a="1" b="2"} 2',
        'm{a="1",a="2"} 2',
        "m two",
        "m NaN",
        "m 1 2 3",
        "{} 1",
        "m" + " " * 20_000 + "1",
        "\x00m 1",
    ],
)
def test_a_line_that_cannot_be_read_is_skipped_and_counted(line: str) -> None:
    found = parse(f"{line}\nm 1\n", {"m"})
    assert found.series == (Series("m", {}, 1.0),)
    assert found.unreadable == 1


def test_more_series_than_are_kept_are_cut_off() -> None:
    found = parse("\n".join(f'm{{i="{place}"}} 1' for place in range(MAX_SERIES + 5)), {"m"})
    assert len(found.series) == MAX_SERIES
    assert found.truncated


@given(st.text(max_size=400))
def test_no_text_breaks_the_parser(text: str) -> None:
    parse(text, {"m", "a_total"})
    parse(f"m{{{text}}} {text}", {"m"})


@pytest.mark.parametrize("unit", ['m{a="\\\\', 'm{a="1",', "m{{{{", 'm{a="', "m 1 ", '"m"'])
def test_a_mebibyte_of_anything_is_read_in_a_second(unit: str) -> None:
    text = unit * ((1 << 20) // len(unit))
    begin = time.process_time()
    metrics_text.parse(text, {"m"})
    metrics_text.parse(text.replace("m", "m\n"), {"m"})
    assert time.process_time() - begin < 5.0
