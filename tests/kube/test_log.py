"""What a log line looks like, for machines and for people."""

import io
import sys

import msgspec
import pytest

from kohort.kube.log import Log
from kohort.objects.json_types import JsonObject


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> "LogLines":
    monkeypatch.delenv("KOHORT_LOG", raising=False)
    return LogLines(capsys)


class LogLines:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def read(self) -> list[JsonObject]:
        return [msgspec.json.decode(line) for line in self._capsys.readouterr().err.splitlines()]


async def test_a_line_is_json_with_all_fields_and_the_time_of_the_loop(lines: LogLines) -> None:
    log = Log(module="m", logger="any name is allowed").bind(controller="c")
    log.warning("something happened", key="n/a", controller="d")
    assert lines.read() == [
        {
            "module": "m",
            "logger": "any name is allowed",
            "controller": "d",
            "key": "n/a",
            "event": "something happened",
            "level": "warning",
            "time": "2026-01-01T00:00:00.000000Z",
        }
    ]


async def test_debug_lines_are_written_when_asked_for(lines: LogLines, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.debug("hidden")
    monkeypatch.setenv("KOHORT_LOG", "debug")
    log.debug("shown")
    assert [line["event"] for line in lines.read()] == ["shown"]


async def test_an_exception_brings_its_stack(lines: LogLines) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        Log().exception("failed")
    (line,) = lines.read()
    assert line["level"] == "error"
    assert "ValueError: broken" in line["exception"]


async def test_people_at_a_terminal_get_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    Log(module="m").warning("something happened", key="a/b")
    assert capsys.readouterr().err == "00:00:00 \x1b[33mwarning\x1b[0m something happened  module=m key=a/b\n"


def test_a_log_that_cannot_be_written_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(full, write_through=True))
        Log().error("lost")
    monkeypatch.setattr(sys, "stderr", None)
    Log().error("lost, too")
