"""Events of releases.

A release of a few steps has some forty things to tell, and the next one may follow within the hour. With what
Kubernetes allows an object, the end of the first would not be told any more, nor anything of a rollback after it.
"""

from typing import Final

from kohort.kube.events import Allowance, EventRecorder
from kohort.kube.manager import Manager

_ALLOWED: Final = Allowance(burst=250, per_second=1 / 5)


def recorder(manager: Manager) -> EventRecorder:
    return manager.recorder("rollouts", _ALLOWED)
