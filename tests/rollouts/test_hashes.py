"""Hashes that are stored in objects are those of Kruise Rollouts, so that a release changes hands without being taken
for another one. The expected values were printed by a Go program with the types and functions of its release 0.6.0.

The hash of a template (canaryRevision) is not among them: theirs is made of a dump of the Go type in memory. It
never selects anything, and a release that is taken over is known by what its canary runs (`test_takeovers`)."""

import copy

import msgspec
import pytest
from tests.rollouts.releases import CANARY_STEPS, ROUTED, rollout

from kohort.objects.json_types import JsonObject
from kohort.rollouts.go_hashes import go_json, hash_of, plan_hash, release_plan_hash
from kohort.rollouts.rollout_types import ReleasePlan, RolloutStrategy
from kohort.rules.safe_text import safe_text

EVERYTHING: JsonObject = {
    "steps": [
        {
            "replicas": "20%",
            "traffic": "5%",
            "matches": [
                {
                    "path": {"type": "PathPrefix", "value": "/v1?a=<b>&c"},
                    "headers": [{"type": "RegularExpression", "name": "user-agent", "value": '^a.*"é\u2028$'}],
                    "queryParams": [{"type": "Exact", "name": "q", "value": "x"}],
                },
                {"headers": [{"type": "Exact", "name": "b", "value": "c"}]},
            ],
            "requestHeaderModifier": {
                "set": [{"name": "a", "value": "b"}],
                "add": [{"name": "c", "value": "d"}],
                "remove": ["e", "f"],
            },
        }
    ],
    "trafficRoutings": [
        {
            "service": "s",
            "gracePeriodSeconds": 0,
            "gateway": {"httpRouteName": "r"},
            "customNetworkRefs": [
                {"apiVersion": "networking.istio.io/v1alpha3", "kind": "VirtualService", "name": "v"}
            ],
        }
    ],
    "patchPodTemplateMetadata": {"labels": {"z": "1", "a": "2"}, "annotations": {"n": "m"}},
    "enableExtraWorkloadForCanary": True,
    "trafficRoutingRef": "shared",
    "disableGenerateCanaryService": True,
}
BLUE_GREEN: JsonObject = {
    "failureThreshold": 1,
    "steps": [
        {"replicas": "50%", "traffic": "0%", "pause": {"duration": 0}},
        {"replicas": 4, "traffic": "100%"},
    ],
    "trafficRoutings": [{"service": "s", "gracePeriodSeconds": 3, "ingress": {"name": "i", "classType": "aliyun-alb"}}],
    "trafficRoutingRef": "t",
}
EMPTY_MEMBERS: JsonObject = {
    "steps": [{"replicas": "100%", "requestHeaderModifier": {}, "matches": [{}]}],
    "patchPodTemplateMetadata": {},
}


def _as_stored() -> JsonObject:
    """The usual plan, with what the defaults of its definition fill in."""
    steps = copy.deepcopy(CANARY_STEPS)
    steps[0]["matches"][0]["headers"][0]["type"] = "Exact"
    return {
        "steps": steps,
        "failureThreshold": "20%",
        "trafficRoutings": ROUTED,
        "enableExtraWorkloadForCanary": True,
    }


@pytest.mark.parametrize(
    ("strategy", "value"),
    [
        ({"canary": _as_stored()}, "w8d65w5x7464445xfcfxc7w4xb2468852c96b44cc4684b44d6d249cwzxwz4492"),
        ({"canary": EVERYTHING}, "x2d46vxz6ww2w9w6w5c4545x4vv64vzd4969zv7vv4b26bb4f55bx72w8w8w7444"),
        ({"blueGreen": BLUE_GREEN}, "c96xx54f2465xc59v7d64c8bffvw94984fb4vx4d467wc487vf4649722bw84466"),
        ({"canary": EMPTY_MEMBERS}, "zfcdwfx6d2vb9x44f457dv494c5w852494666z685f8bz5b7fxx4242f86b44664"),
    ],
    ids=["usual", "everything", "blue-green", "empty members"],
)
def test_the_hash_of_a_plan_is_theirs(strategy: JsonObject, value: str) -> None:
    assert plan_hash(strategy) == value
    assert hash_of(msgspec.convert(strategy, RolloutStrategy)) == value


@pytest.mark.parametrize(
    ("plan", "value"),
    [
        (
            {
                "batches": [{"canaryReplicas": 1}, {"canaryReplicas": "50%"}, {"canaryReplicas": "100%"}],
                "batchPartition": 0,
                "rolloutID": "release-1",
                "failureThreshold": "20%",
                "rollingStyle": "Canary",
                "enableExtraWorkloadForCanary": True,
                "patchPodTemplateMetadata": {"labels": {"track": "canary", "app": "a<b"}, "annotations": {}},
            },
            "ea1dc8836474d73313c8b5c72e6832658592bdd6d4a996e46c7f97f0592da685",
        ),
        (
            {
                "batches": [{"canaryReplicas": "100%"}],
                "finalizingPolicy": "WaitResume",
                "rollingStyle": "BlueGreen",
                "failureThreshold": 0,
            },
            "d30407d0440f582c4f030b44c7961a92e2b55e033674690d514b12217c1a2224",
        ),
        (
            {"batches": [{"canaryReplicas": 1}], "batchPartition": 0, "patchPodTemplateMetadata": {}},
            "3902db556e1dbca1dd30de064f8349078afe94cf9516d1fe9c09d7c82f6179a8",
        ),
    ],
)
def test_the_hash_of_a_release_plan_is_theirs(plan: JsonObject, value: str) -> None:
    assert release_plan_hash(msgspec.convert(plan, ReleasePlan)) == value


def test_letters_of_a_hash() -> None:
    """Code point modulo 27: `0` is 48, so the 22nd letter."""
    assert safe_text("09af") == "".join("bcdfghjklmnpqrstvwxz2456789"[ord(char) % 27] for char in "09af")
    assert go_json({"a": "<&>"}) == '{"a":"\\u003c\\u0026\\u003e"}'


@pytest.mark.parametrize("edit", [{"pause": {"duration": 9}}, {"pause": {}}])
def test_pauses_do_not_count(edit: JsonObject) -> None:
    before = rollout()["spec"]["strategy"]
    after = copy.deepcopy(before)
    after["canary"]["steps"][1] |= edit
    after["canary"]["failureThreshold"] = "30%"
    assert plan_hash(before) == plan_hash(after)
    after["canary"]["steps"][1]["traffic"] = "21%"
    assert plan_hash(before) != plan_hash(after)
