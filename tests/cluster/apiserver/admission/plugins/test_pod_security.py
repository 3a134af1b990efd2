"""PodSecurity: levels by label, in the words of Kubernetes 1.36."""

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.cluster.apiserver.admission.plugins.podsecurity.checks import detailed, evaluate
from kohort.cluster.apiserver.admission.plugins.podsecurity.policy import LATEST, Standard, policy_of
from kohort.objects.json_types import Json, JsonObject

LABEL = "pod-security.kubernetes.io/"
GOOD: JsonObject = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def spec(context: JsonObject | None = None, container: JsonObject | None = None, **more: Json) -> JsonObject:
    one = {"name": "a", "image": "i", "securityContext": context or {}, **(container or {})}
    return {"containers": [one], **more}


BASELINE = [
    (spec(), ""),
    (spec({"privileged": True}), 'privileged (container "a" must not set securityContext.privileged=true)'),
    (spec(hostNetwork=True, hostPID=True), "host namespaces (hostNetwork=true, hostPID=true)"),
    (
        spec({"capabilities": {"add": ["NET_ADMIN", "CHOWN"]}}),
        'non-default capabilities (container "a" must not include "NET_ADMIN" in securityContext.capabilities.add)',
    ),
    (spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
    (
        spec(container={"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 81}]}),
        'hostPort (container "a" uses hostPorts 80, 81)',
    ),
    (
        spec(container={"livenessProbe": {"httpGet": {"port": 1, "host": "h"}}}),
        'probe or lifecycle host (container "a" uses probe or lifecycle host "h")',
    ),
    (
        spec({"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        spec(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        spec({"seLinuxOptions": {"type": "x", "user": "u"}}),
        'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "x"; user may not be set)',
    ),
    (
        spec(securityContext={"appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
    ),
    (
        spec({"procMount": "Unmasked"}),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    (spec({"procMount": "Unmasked"}, hostUsers=False), ""),
    (
        spec(container={"image": "host"}),
        'hostPath images (container "a" uses files of the machine as image "host")',
    ),
    (
        spec(
            container={"image": "host:v1"},
            initContainers=[{"name": "b", "image": "/srv/root"}, {"name": "c", "image": "x/../../.."}],
        ),
        'hostPath images (containers "b", "c", "a" use files of the machine as images '
        '"/srv/root", "host:v1", "x/../../..")',
    ),
    (
        spec(volumes=[{"name": "v", "image": {"reference": "/etc"}}, {"name": "w", "image": {"reference": "web:v1"}}]),
        'hostPath images (volume "v" uses files of the machine as image "/etc")',
    ),
    (spec(container={"image": "registry.example:5000/host/app:host"}), ""),
]


@pytest.mark.parametrize(("pod", "expected"), BASELINE)
def test_baseline(pod: JsonObject, expected: str) -> None:
    assert detailed(evaluate(Standard("baseline"), {}, pod)) == expected


RESTRICTED = [
    (spec(GOOD), ""),
    (
        spec(),
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")',
    ),
    (
        spec(GOOD, container={"image": "host"}),
        'hostPath images (container "a" uses files of the machine as image "host")',
    ),
    (spec({**GOOD, "runAsUser": 0}), 'runAsUser=0 (container "a" must not set runAsUser=0)'),
    (
        spec({**GOOD, "runAsNonRoot": False}),
        'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)',
    ),
    (
        spec(
            GOOD, volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {"server": "s", "path": "/"}}]
        ),
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ),
    (
        spec(
            {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "Localhost"}},
        ),
        "",
    ),
]


@pytest.mark.parametrize(("pod", "expected"), RESTRICTED)
def test_restricted(pod: JsonObject, expected: str) -> None:
    assert detailed(evaluate(Standard("restricted"), {}, pod)) == expected


@pytest.mark.parametrize(
    ("minor", "pod", "violated"),
    [
        (33, spec(container={"livenessProbe": {"httpGet": {"port": 1, "host": "h"}}}), False),
        (34, spec(container={"livenessProbe": {"httpGet": {"port": 1, "host": "h"}}}), True),
        (26, spec(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}), True),
        (27, spec(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}), False),
        (LATEST, spec({"seLinuxOptions": {"type": "container_engine_t"}}), False),
        (30, spec({"seLinuxOptions": {"type": "container_engine_t"}}), True),
    ],
)
def test_a_standard_is_that_of_its_release(minor: int, pod: JsonObject, violated: bool) -> None:
    assert bool(evaluate(Standard("baseline", minor), {}, pod)) == violated


@pytest.mark.parametrize(
    ("labels", "enforce", "warn", "fields"),
    [
        ({}, "privileged:latest", "privileged:latest", []),
        ({"enforce": "baseline"}, "baseline:latest", "baseline:latest", []),
        ({"enforce": "baseline", "enforce-version": "v1.30"}, "baseline:v1.30", "baseline:v1.30", []),
        ({"enforce": "baseline", "warn": "restricted"}, "baseline:latest", "restricted:latest", []),
        ({"enforce": "nope"}, "restricted:latest", "privileged:latest", ["enforce"]),
        ({"warn-version": "1.30"}, "privileged:latest", "privileged:latest", ["warn-version"]),
    ],
)
def test_labels(labels: dict[str, str], enforce: str, warn: str, fields: list[str]) -> None:
    policy, problems = policy_of({f"{LABEL}{key}": value for key, value in labels.items()})
    assert (str(policy.enforce), str(policy.warn)) == (enforce, warn)
    assert [problem.field for problem in problems] == [f"metadata.labels[{LABEL}{key}]" for key in fields]


# --- through the server


async def test_pods_are_refused_and_workloads_warned_about(admitting: Api) -> None:
    await admitting.patch("/api/v1/namespaces/d", {"metadata": {"labels": {f"{LABEL}enforce": "baseline"}}})
    body = {"metadata": {"name": "p"}, "spec": spec(hostNetwork=True)}
    answer = await admitting.post("/api/v1/namespaces/d/pods", body)
    violation = 'PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    assert (answer.code, answer.message) == (403, f'pods "p" is forbidden: violates {violation}')
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec(hostNetwork=True)}
    workload = {"metadata": {"name": "w"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    made = await admitting.post("/apis/apps/v1/namespaces/d/deployments", workload)
    assert made.code == 201
    escaped = violation.replace('"', '\\"')
    assert made.warnings == [f'299 - "would violate {escaped}"']


async def test_raising_the_level_warns_of_present_pods(admitting: Api) -> None:
    for name in ("q", "p", "r"):
        body = {"metadata": {"name": name}, "spec": spec(hostNetwork=True)}
        await admitting.post("/api/v1/namespaces/d/pods", body)
    answer = await admitting.patch("/api/v1/namespaces/d", {"metadata": {"labels": {f"{LABEL}enforce": "baseline"}}})
    assert [warning.replace("\\", "") for warning in answer.warnings] == [
        '299 - "existing pods in namespace "d" violate the new PodSecurity enforce level "baseline:latest""',
        '299 - "p (and 2 other pods): host namespaces"',
    ]


async def test_labels_must_be_readable(admitting: Api) -> None:
    answer = await admitting.patch("/api/v1/namespaces/d", {"metadata": {"labels": {f"{LABEL}enforce": "bogus"}}})
    assert answer.code == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [f"metadata.labels[{LABEL}enforce]"]
