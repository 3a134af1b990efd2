"""Text in quotes, as Go writes it."""

import pytest

from kohort.kube import errors
from kohort.objects import field_errors
from kohort.objects.go_quote import go_quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ("a\x00", r'"a\x00"'),
        ("a\x7fb", r'"a\x7fb"'),
        ('say "hi"\n', r'"say \"hi\"\n"'),
        ("zero\u200bwidth", r'"zero\u200bwidth"'),
        ("<ü & 語>", '"<ü & 語>"'),
    ],
)
def test_as_go_quotes(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


def test_what_is_invalid_is_shown_in_it() -> None:
    error = errors.invalid("ConfigMap", "a\x00", [field_errors.invalid("metadata.name", "a\x00", "bad")])
    assert error.message == r'ConfigMap "a\x00" is invalid: metadata.name: Invalid value: "a\x00": bad'
