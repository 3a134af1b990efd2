"""On a terminal a text is redrawn, elsewhere it is printed."""

import io
import os
import pty
import subprocess
import sys

import pytest
from tests.children import environment

from kohort.cli.actions.live_text import Screen
from kohort.cli.actions.output_formats import fitted

PROGRAM = """
from kohort.cli.actions.live_text import Screen
with Screen(live=True) as screen:
    assert screen.live
    screen.show("one of two")
    screen.show("two of two")
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_lines_are_cut_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["0123456789", "0123456789a"]
    monkeypatch.setenv("COLUMNS", "10")
    assert fitted(lines) == lines
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert fitted(lines) == ["0123456789", "012345678…"]


def test_elsewhere_every_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(live=True) as screen:
        assert not screen.live
        for text in ("one", "one", "two"):
            screen.show(text)
    assert capsys.readouterr().out == "one\ntwo\n"


def test_on_a_terminal_the_old_text_is_taken_away() -> None:
    ours, theirs = pty.openpty()
    terminal = environment(TERM="xterm", COLUMNS="80")
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=theirs, env=terminal) as child:
        os.close(theirs)
        assert child.wait(60) == 0
    written = os.read(ours, 10_000).decode()
    os.close(ours)
    first, second = written.index("one of two"), written.index("two of two")
    assert "\x1b[2K" in written[first:second], "the line is erased in between"
