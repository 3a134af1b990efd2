"""Whom containers run as."""

import os

import msgspec
import pytest
from tests.node.resizing import sized

from kohort.node.container_environment import ConfigProblem
from kohort.node.image_config import Image, ImageConfig
from kohort.node.security_context import (
    CAPABILITIES,
    DEFAULT_CAPABILITIES,
    MACHINE,
    Rights,
    forbidden_sysctls,
    rights_of,
    unenforced,
)
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodePod, PodSecurityContext, SecurityContext

ROOT = os.geteuid() == 0


def secured(pod: JsonObject, own: JsonObject) -> NodePod:
    found = sized("u1", c1="")
    assert found.spec.containers is not None
    container = msgspec.structs.replace(
        found.spec.containers[0], security_context=msgspec.convert(own, SecurityContext)
    )
    spec = msgspec.structs.replace(found.spec, security_context=msgspec.convert(pod, PodSecurityContext))
    spec = msgspec.structs.replace(spec, containers=(container,))
    return msgspec.structs.replace(found, spec=spec)


def rights(pod: JsonObject, own: JsonObject, image: Image = MACHINE) -> Rights:
    found = secured(pod, own)
    assert found.spec.containers is not None
    return rights_of(found, found.spec.containers[0], image)


def test_a_container_says_it_or_its_pod_does() -> None:
    pod = {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4]}
    usual = rights({}, {}).capabilities
    assert rights(pod, {"runAsUser": 7}) == Rights(7, 2, (4, 3), capabilities=usual)
    assert rights({}, {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}) == Rights(
        read_only_root=True, no_new_privileges=True, capabilities=usual
    )


@pytest.mark.parametrize(
    ("image", "pod", "expected"),
    [
        (Image(), {"runAsUser": 1000}, (1000, 1000, ())),
        (Image("/r"), {"runAsUser": 1000}, (1000, 0, ())),
        (Image("/r", passwd="app:x:1000:55::/:/bin/sh"), {"runAsUser": 1000}, (1000, 55, ())),
        (
            Image("/r", passwd="app:x:1000:55::/:", group="disk:x:6:other,app\nx:x:7:"),
            {"runAsUser": 1000},
            (1000, 55, (6,)),
        ),
        (
            Image("/r", passwd="app:x:1000:55::/:", group="disk:x:6:app"),
            {"runAsUser": 1000, "supplementalGroupsPolicy": "Strict", "fsGroup": 9},
            (1000, 55, (9,)),
        ),
        (Image("/r", ImageConfig(user="app"), "app:x:1000:55::/:"), {}, (1000, 55, ())),
        (Image("/r", ImageConfig(user="12:34")), {}, (12, 34, ())),
        (Image("/r", ImageConfig(user="12:34")), {"runAsUser": 5}, (5, 0, ())),
        (Image("/r", ImageConfig(user="12:34")), {"runAsGroup": 5}, (12, 5, ())),
        (Image("/r"), {}, (None, None, ())),
    ],
)
def test_users_and_groups_of_images(image: Image, pod: JsonObject, expected: object) -> None:
    found = rights(pod, {}, image)
    assert (found.uid, found.gid, found.groups) == expected


def test_a_profile_is_applied_or_refused() -> None:
    default = {"seccompProfile": {"type": "RuntimeDefault"}}
    assert rights(default, {}).seccomp and rights({}, default).seccomp
    assert rights(default, {"seccompProfile": {"type": "Unconfined"}}).seccomp == b""
    assert rights(default, {"privileged": True}).seccomp == b""
    with pytest.raises(ConfigProblem, match=r"Localhost is not supported by this node.*use RuntimeDefault"):
        rights({"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}, {})


def test_fields_that_a_node_does_not_follow_are_named() -> None:
    def named(pod: JsonObject, own: JsonObject, *, root: bool = True) -> tuple[str, ...]:
        return unenforced(secured(pod, own), root=root)

    assert named({"runAsUser": 5, "fsGroup": 6}, {"capabilities": {"drop": ["ALL"]}}) == ()
    assert named({"appArmorProfile": {"type": "RuntimeDefault"}}, {"seLinuxOptions": {"type": "t"}}) == (
        "spec.containers[0].securityContext.seLinuxOptions",
        "spec.securityContext.appArmorProfile",
    )
    assert named({"runAsUser": 5, "fsGroup": 6}, {}, root=False) == (
        "spec.securityContext.runAsGroup, fsGroup, supplementalGroups",
        "spec.securityContext.runAsUser",
    )


def test_only_safe_kernel_settings_are_changed() -> None:
    wanted = [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "kernel.msgmax", "value": "1"}]
    assert forbidden_sysctls(secured({"sysctls": wanted}, {})) == ["kernel.msgmax"]


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
        ({"capabilities": {"drop": ["CAP_CHOWN"]}}, {*DEFAULT_CAPABILITIES} - {"CHOWN"}),
        ({"privileged": True, "capabilities": {"drop": ["ALL"]}}, {*CAPABILITIES}),
        ({}, {*DEFAULT_CAPABILITIES}),
        ({"capabilities": {"add": ["SYS_TIME"]}}, {*DEFAULT_CAPABILITIES, "SYS_TIME"}),
        ({"capabilities": {"add": ["ALL"], "drop": ["SYS_TIME"]}}, {*CAPABILITIES} - {"SYS_TIME"}),
    ],
)
def test_capabilities_that_are_left(own: JsonObject, kept: set[str]) -> None:
    found = rights({}, own).capabilities
    assert {name for number, name in enumerate(CAPABILITIES) if found is None or number in found} == kept
