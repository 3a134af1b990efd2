"""For all tests: how properties are tried, how often the garbage collector runs, and that SIGINT has an effect.

Machines are shared and slow at times, so no example has a deadline. In CI the examples are the same every time: a
change is judged by what it changes, and new examples are looked for on the machines of developers.
"""

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts commands in the background like that, and every program that tests start would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_finish(session: pytest.Session) -> None:
    """The collected tests are many objects that live until the end: the collector need not visit them each time.
    With that and fewer collections, tests on virtual time need about a tenth less processor time. A cluster leaves 5 MB
    to collect, so the oldest generation must have its turn, too: with one in 50 a worker grew to 4 GB."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
