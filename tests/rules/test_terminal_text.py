"""Text of users must not act on the terminals of those who read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.terminal_text import with_visible_controls, without_control_sequences


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[36mpassword\x1b[0m=x", "password=x"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;Y2xpcA==\x1b\\after", "after"),
        ("\x1b]0;never ended\nnext line", "\nnext line"),
        ("\x9b2Jcleared", "cleared"),
        ("a\x00b\x08c\u202ed\u200be", "abcde"),
        ("10%\r20%\r\ndone\n", "10%\n20%\ndone\n"),
        ("tab\tand é 日本", "tab\tand é 日本"),
        ("\x1b", ""),
    ],
)
def test_only_what_a_reader_sees_is_left(text: str, plain: str) -> None:
    assert without_control_sequences(text) == plain


def test_what_would_act_on_a_terminal_is_spelled_out() -> None:
    text = "\x1b]0;title\x07\x1b[2J\u202e\x7f\x9b\ta\nb"
    assert with_visible_controls(text) == "\\u001b]0;title\\u0007\\u001b[2J\\u202e\\u007f\\u009b\ta\nb"


@given(st.text())
def test_nothing_that_acts_on_a_terminal_is_ever_left(text: str) -> None:
    for made in (with_visible_controls(text), without_control_sequences(text)):
        assert all(character in "\n\t" or ord(character) >= 32 for character in made)
        assert not {"\x7f", "\x9b", "\u202e"} & set(made)
