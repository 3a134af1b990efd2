"""The cost budget of an evaluation.

One unit is about one operation. Loops pay for all their rounds before the first, functions that can be slow pay by the
size of their arguments, so nothing expensive starts that is not paid for. The clock is a second guard for what the
units do not foresee; it is only looked at when something is charged.
"""

import time

from kohort.cluster.apiserver.cel.errors import BudgetExceeded

PER_CALL = 1_000_000
PER_OBJECT = 10_000_000
SECONDS = 2.0


class Budget:
    """`left` is what may still be spent; several evaluations may share one budget."""

    __slots__ = ("deadline", "left")

    def __init__(self, units: int = PER_CALL, seconds: float = SECONDS) -> None:
        self.left = units
        self.deadline = time.perf_counter() + seconds

    def charge(self, units: int) -> None:
        self.left -= units
        if self.left < 0 or (units > 100 and time.perf_counter() > self.deadline):
            raise BudgetExceeded
