"""Judging a step by metrics: the place for it, and the answer that is given until somebody judges.

`judge` is asked when a step has its pods and its traffic, before it pauses. It sees the world of that pass and answers
with a verdict; `running` keeps the step here and asks again after so many seconds. A judge that wants to remember when
it began finds that time in the progress (`last_update_time`, set when the state was entered).
"""

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from kohort.rollouts.release_state import World


class Verdict(msgspec.Struct, frozen=True):
    state: Literal["passed", "running"]
    seconds: float = 0.0
    text: str = ""


def judge(world: "World") -> Verdict:
    """Nothing is measured yet: every step passes."""
    del world
    return Verdict("passed")
