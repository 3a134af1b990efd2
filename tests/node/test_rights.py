"""Whom containers run as."""

import os

import msgspec
import pytest
from tests.node.resizing import sized

from kohort.node.environment import ConfigProblem
from kohort.node.rights import CAPABILITIES, Rights, rights_of
from kohort.objects.jsontypes import JsonObject
from kohort.objects.nodepods import NodePod, PodSecurityContext, SecurityContext

ROOT = os.geteuid() == 0


def rights(pod: JsonObject, own: JsonObject) -> Rights:
    found = sized("u1", c1="")
    assert found.spec.containers is not None
    container = msgspec.structs.replace(
        found.spec.containers[0], security_context=msgspec.convert(own, SecurityContext)
    )
    spec = msgspec.structs.replace(found.spec, security_context=msgspec.convert(pod, PodSecurityContext))
    whole: NodePod = msgspec.structs.replace(found, spec=spec)
    return rights_of(whole, container)


def test_a_container_says_it_or_its_pod_does() -> None:
    pod = {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4]}
    assert rights(pod, {"runAsUser": 7}) == Rights(7, 2, (4, 3))
    assert rights({}, {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}) == Rights(
        read_only_root=True, no_new_privileges=True
    )


@pytest.mark.parametrize(
    ("pod", "own", "words"),
    [
        pytest.param(
            {"runAsNonRoot": True},
            {},
            "container has runAsNonRoot and image will run as root",
            marks=pytest.mark.skipif(not ROOT, reason="who is not root runs nothing as root"),
        ),
        ({"runAsUser": 0}, {"runAsNonRoot": True}, "container's runAsUser breaks non-root policy"),
    ],
)
def test_root_is_refused_where_it_must_be(pod: JsonObject, own: JsonObject, words: str) -> None:
    with pytest.raises(ConfigProblem, match=words) as found:
        rights(pod, own)
    assert str(found.value).endswith('(pod: "u1_default(u1)", container: c1)')


def test_who_is_not_root_may_not_be_root() -> None:
    assert rights({"runAsNonRoot": True, "runAsUser": 5}, {}).uid == 5
    assert rights({"runAsNonRoot": True}, {"runAsNonRoot": False}).uid is None


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ({"capabilities": {"drop": ["ALL"]}}, set()),
        ({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}, {"NET_BIND_SERVICE"}),
        ({"capabilities": {"drop": ["CAP_SYS_ADMIN"]}}, {*CAPABILITIES} - {"SYS_ADMIN"}),
        ({"privileged": True, "capabilities": {"drop": ["ALL"]}}, {*CAPABILITIES}),
        ({}, {*CAPABILITIES}),
    ],
)
def test_capabilities_that_are_left(own: JsonObject, kept: set[str]) -> None:
    dropped = rights({}, own).dropped_capabilities
    assert {name for number, name in enumerate(CAPABILITIES) if number not in dropped} == kept
