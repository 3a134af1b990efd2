"""How many events a release may emit.

A release of a few steps emits some forty events, and the next one may follow within the hour. With the default
allowance of Kubernetes for one object, the end of the first release and a rollback after it would be lost.
"""

from typing import Final

from kohort.kube.events import EventLimit, EventRecorder
from kohort.kube.manager import Manager

_ALLOWED: Final = EventLimit(burst=250, per_second=1 / 5)


def recorder(manager: Manager) -> EventRecorder:
    return manager.recorder("rollouts", _ALLOWED)
