"""What is read from annotations, which any user may have written."""

import pytest

from kohort.objects.recorded_json import read_recorded

NESTED = '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    ("text", "found"),
    [('{"a": 1}', {"a": 1}), ("{}", {}), ("", None), ("x", None), ("[]", None), ('{"a": "b"}', None), (NESTED, None)],
    ids=["as recorded", "empty", "nothing", "words", "a list", "another type", "nested"],
)
def test_what_cannot_be_read_is_nothing(text: str, found: dict[str, int] | None) -> None:
    assert read_recorded(text, dict[str, int]) == found
