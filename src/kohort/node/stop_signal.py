"""Which signal asks a container to end. Pure.

| `lifecycle.stopSignal` | STOPSIGNAL of the image | signal                    |
|------------------------|-------------------------|---------------------------|
| named                  |                         | the container's           |
| absent                 | named                   | the image's               |
| absent                 | absent, or no signal    | SIGTERM                   |

A container runtime with images of its own reads their STOPSIGNAL itself: it gets what the container names, and nothing
where the container names none.
"""

import re
import signal
from typing import Final

from kohort.objects.node_pods import NodeContainer

RTMIN, RTMAX = 34, 64
"""As container runtimes number them: C libraries differ in how many real-time signals they keep for themselves."""
_REAL_TIME: Final = re.compile(r"SIGRT(?:MIN(?:\+(?P<above>\d{1,2}))?|MAX(?:-(?P<below>\d{1,2}))?)", re.ASCII)


def stop_signal_name(container: NodeContainer, of_image: str) -> str:
    """By name; empty if neither the container nor what is known of its image names one."""
    own = container.lifecycle.stop_signal if container.lifecycle is not None else ""
    return own or of_image


def signal_number(name: str) -> int:
    """The kernel's number of a stop signal: SIGTERM for an empty name, and for one that is none. Images may name it as
    `docker build` permits: by number, without SIG, in small letters."""
    if re.fullmatch(r"\d{1,2}", name, re.ASCII):
        number = int(name)
    else:
        number = _number_of("SIG" + name.upper().removeprefix("SIG"))
    return number if 1 <= number <= RTMAX else signal.SIGTERM


def _number_of(name: str) -> int:
    """0 for an unknown name."""
    if (found := _REAL_TIME.fullmatch(name)) is not None:
        if name.startswith("SIGRTMAX"):
            number = RTMAX - int(found["below"] or 0)
        else:
            number = RTMIN + int(found["above"] or 0)
        return number if RTMIN <= number <= RTMAX else 0
    known = getattr(signal, name, 0)
    return int(known) if isinstance(known, signal.Signals) else 0
