"""Feature gates of `kohort up`: one flag for the gates of the API server and those of Rollouts."""

from kohort.cluster.apiserver.kinds import feature_gates as of_server
from kohort.objects import feature_gates
from kohort.rollouts.feature_gates import GATES


def divided(text: str) -> tuple[dict[str, bool], dict[str, bool]]:
    """Those of the API server, with what follows from them, and those of Rollouts. ValueError says what is wrong.

    >>> divided("AnalysisOfLoopback=true,HPAScaleToZero=false")
    ({'HPAScaleToZero': False}, {'AnalysisOfLoopback': True})
    """
    gates = feature_gates.parse(text)
    feature_gates.check_known(gates, (*of_server.DEFAULTS, *GATES))
    releases = {name: on for name, on in gates.items() if name in GATES}
    return of_server.completed({name: on for name, on in gates.items() if name not in GATES}), releases
