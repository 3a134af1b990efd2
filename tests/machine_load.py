"""Bounds in real seconds, for tests that measure how long a user waits."""

import os

from kohort.testing.virtual_time import machine_load, slowdown


def within(seconds: float) -> float:
    """The bound that holds on a quiet machine, and as much more as a busy one is slower now."""
    return seconds * slowdown(machine_load(), os.cpu_count() or 1)
