"""What is said about a cluster."""

import pytest

from kohort.manager.capabilities import ClusterFacts, missing_capabilities

ALL = frozenset({"pods/resize", "httproutes.gateway.networking.k8s.io", "podgroups.scheduling.volcano.sh"})


@pytest.mark.parametrize(
    ("facts", "gang", "missing"),
    [
        (ClusterFacts("v1.36.4", True, ALL), "", []),
        (ClusterFacts("v1.30.0", False, ALL), "", ["StatefulSet maxUnavailable"]),
        (ClusterFacts("v1.36.4", None, ALL), "", []),
        (ClusterFacts("v1.30.0", True, ALL - {"pods/resize"}), "", ["in-place pod resize"]),
        (ClusterFacts("v1.36.4", True, frozenset({"pods/resize"})), "", ["Gateway API"]),
        (
            ClusterFacts("v1.36.4", True, frozenset({"pods/resize"})),
            "volcano",
            ["Gateway API", "PodGroups of scheduling.volcano.sh"],
        ),
    ],
)
def test_what_is_missing(facts: ClusterFacts, gang: str, missing: list[str]) -> None:
    found = missing_capabilities(facts, gang_scheduler=gang)
    assert [one.name for one in found if not one.present] == missing
    assert all(one.means for one in found)
