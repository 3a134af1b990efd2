"""What the command line makes of answers of an API server."""

import pytest

from kohort.cli.error_messages import described
from kohort.kube.errors import Conflict, Status

DENIED = 'admission webhook "mleaderworkerset.rollouts.kruise.io" denied the request: put the old template back'
CHANGED = 'Operation cannot be fulfilled on leaderworkersets "llm": the object has been modified'


@pytest.mark.parametrize(("message", "again"), [(CHANGED, True), (DENIED, False)])
def test_a_conflict_is_worth_another_try_unless_a_webhook_decided_so(message: str, again: bool) -> None:
    problem = Conflict(Status(status="Failure", message=message, reason="Conflict", code=409))
    assert described(problem, "default") == (f"{message} (it was changed meanwhile: try again)" if again else message)
