"""Every kind, asked what Kubernetes 1.36 was asked, must come to the same verdicts."""

import pytest
from tests.cluster.apiserver.caller import Api
from tests.cluster.apiserver.kinds.specimens import SPECIMENS, Door, Specimen, cases, recorded, verdict

from kohort.objects.json_types import JsonObject

RANGE = "a dry run of Kubernetes does not look at the range of ports"
EMPTY = "an empty list is the same as none"
PRIVILEGED = "privileged containers are allowed"
DEFAULTING = "pod-level resources that are left out stay as they were"
CRASH = "500 in Kubernetes; ours says what is wrong"
DELIBERATE = {
    "pod-win2": {
        "spec.containers.0.securityContext.privileged = True": PRIVILEGED,
        "spec.securityContext.supplementalGroups = []": EMPTY,
        "remove spec.securityContext.supplementalGroups.0": EMPTY,
    },
    "pod-rc": {"spec.runtimeClassName = ''": CRASH},
    "pod-level": {
        "remove spec.resources": DEFAULTING,
        "remove spec.resources.requests.hugepages-2Mi": DEFAULTING,
    },
    "svc-np": {
        "spec.ports.0.nodePort = -1": RANGE,
        "spec.ports.0.nodePort = 70000": RANGE,
        "spec.ports.1.nodePort = -1": RANGE,
        "spec.ports.1.nodePort = 70000": RANGE,
        "repeat spec.ports": CRASH,
        "remove spec.ports.1.protocol": CRASH,
        "spec.ports.1.protocol = ''": CRASH,
    },
    "pv": {
        "remove spec.nodeAffinity.required.nodeSelectorTerms.0.matchExpressions.0.key": "taken for a renamed label",
        "spec.nodeAffinity.required.nodeSelectorTerms.0.matchExpressions.0.key = ''": "taken for a renamed label",
    },
    "hpa": {
        "spec.behavior.scaleUp.policies = []": EMPTY,
        "spec.behavior.scaleDown.policies = []": EMPTY,
        "remove spec.behavior.scaleUp.policies.0": EMPTY,
        "remove spec.behavior.scaleDown.policies.0": EMPTY,
    },
}
"""Where we differ, and why. By specimen and case."""


def label(specimen: Specimen) -> str:
    return specimen.name


async def judged(api: Api, specimen: Specimen, door: Door) -> list[str]:
    """What was answered otherwise than recorded."""
    expected = recorded(door).get(specimen.name, {})
    stored: JsonObject = {}
    if door != "create":
        answer = await api.post(specimen.collection, specimen.object)
        assert answer.code == 201, answer.raw
        stored = answer.json
    found = []
    for name, body in cases(specimen, door, stored, expected).items():
        if name not in expected or name in DELIBERATE.get(specimen.name, ()):
            continue
        if door == "create":
            answer = await api.post(specimen.collection, body, dryRun="All")
        else:
            suffix = "/status" if door == "status" else ""
            answer = await api.put(f"{specimen.path}{suffix}", body, dryRun="All")
        said = verdict(answer.code, answer.json)
        if said != expected[name]:
            found.append(f"{name}: {said}, recorded {expected[name]}")
    return found


@pytest.mark.parametrize("specimen", SPECIMENS, ids=label)
async def test_create(admitting: Api, specimen: Specimen) -> None:
    assert await judged(admitting, specimen, "create") == []


@pytest.mark.parametrize("specimen", [one for one in SPECIMENS if one.name in recorded("update")], ids=label)
async def test_update(admitting: Api, specimen: Specimen) -> None:
    assert await judged(admitting, specimen, "update") == []


@pytest.mark.parametrize("specimen", [one for one in SPECIMENS if one.name in recorded("status")], ids=label)
async def test_status(admitting: Api, specimen: Specimen) -> None:
    assert await judged(admitting, specimen, "status") == []
