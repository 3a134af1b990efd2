"""Which steps compare both versions."""

import msgspec
import pytest
from tests.rollouts.observations import progress, rollout

from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis_control.run_controller import step_facts
from kohort.rollouts.rollout_types import RolloutStatus

MATCHES = [{"headers": [{"name": "a", "value": "b"}]}]


@pytest.mark.parametrize(
    ("step", "canary", "compares"),
    [
        ({"replicas": 1, "traffic": "20%"}, "llm-x", True),
        ({"replicas": "100%", "traffic": "99%"}, "llm-x", True),
        ({"replicas": "100%", "traffic": "100%"}, "llm-x", False),
        ({"replicas": 1, "matches": MATCHES}, "llm-x", False),
        ({"replicas": 1}, "llm-x", True),
        ({"replicas": 1, "traffic": "100%"}, "", True),
        ({"replicas": "50%", "matches": MATCHES}, "", True),
        ({"replicas": "100%", "traffic": "20%"}, "", False),
        ({"replicas": 4}, "", False),
    ],
)
def test_what_is_compared(step: JsonObject, canary: str, compares: bool) -> None:
    """Without a canary set groups are resized in place; the set has four of them."""
    plain = rollout(steps=[step])
    status = RolloutStatus(canary_status=progress(1, canary_name=canary).to_status(blue_green=False))
    assert step_facts(msgspec.structs.replace(plain, status=status), 4).compares is compares


def test_a_rollout_that_routes_nothing_compares_always() -> None:
    plain = rollout(steps=[{"replicas": "100%", "traffic": "100%"}], trafficRoutings=[])
    status = RolloutStatus(canary_status=progress(1).to_status(blue_green=False))
    assert step_facts(msgspec.structs.replace(plain, status=status), 4).compares
