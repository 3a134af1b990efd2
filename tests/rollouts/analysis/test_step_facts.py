"""Which steps compare both versions."""

import msgspec
import pytest
from tests.rollouts.observations import progress, rollout

from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.counter_samples import PodReading
from kohort.rollouts.analysis.sources import SourceReading
from kohort.rollouts.analysis_control.run_controller import step_facts, unread
from kohort.rollouts.rollout_types import RolloutStatus, WorkloadRef

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


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize(
    ("step", "compares"),
    [
        ({"replicas": 1, "traffic": "20%"}, True),
        ({"replicas": "50%"}, True),
        ({"replicas": "100%"}, False),
        ({"replicas": 4, "traffic": "90%"}, False),
    ],
)
def test_partition_style_compares_as_long_as_an_old_pod_is_left(kind: str, step: JsonObject, compares: bool) -> None:
    plain = rollout(steps=[step], enableExtraWorkloadForCanary=False)
    ref = WorkloadRef("apps/v1", kind, "web")
    plain = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, workload_ref=ref))
    status = RolloutStatus(canary_status=progress(1).to_status(blue_green=False))
    assert step_facts(msgspec.structs.replace(plain, status=status), 4).compares is compares


@pytest.mark.parametrize(
    ("read", "compares", "usable"),
    [
        ("new old", True, True),
        ("new", True, False),
        ("new", False, True),
        ("old", True, False),
        ("old", False, False),
        ("", False, False),
    ],
)
def test_no_version_is_judged_alone_where_both_are_compared(read: str, compares: bool, usable: bool) -> None:
    found = SourceReading(tuple(PodReading(name, "1") for name in read.split()), problems=("old: HTTP 500",))
    assert unread(found, ["new"], compares=compares) == ("" if usable else "old: HTTP 500")
