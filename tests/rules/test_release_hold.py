"""Whether a release holds a workload, and of which Rollout."""

import pytest

from kohort.rules.release_hold import hold_mark, holding_rollout, is_held_by_release
from kohort.rules.rollout_labels import IN_PROGRESSING, STABLE_REVISION


@pytest.mark.parametrize(
    ("annotations", "held", "rollout"),
    [
        ({}, False, ""),
        ({STABLE_REVISION: "abc"}, False, ""),
        ({IN_PROGRESSING: '{"rolloutName":"llm"}'}, True, "llm"),
        ({IN_PROGRESSING: ""}, True, ""),
        ({IN_PROGRESSING: "true"}, True, ""),
        ({IN_PROGRESSING: "{}"}, True, ""),
    ],
)
def test_the_annotation_counts_whatever_its_value_is(annotations: dict[str, str], held: bool, rollout: str) -> None:
    assert (is_held_by_release(annotations), holding_rollout(annotations)) == (held, rollout)


def test_the_mark_names_the_rollout_as_other_implementations_write_it() -> None:
    assert hold_mark("llm") == '{"rolloutName":"llm"}'
