"""What is installed keeps to least privilege and to the names that LeaderWorkerSet users know (section 6.7)."""

import pytest
import yaml

from kohort.install.install_kinds import resource_of
from kohort.install.manifests import manifests
from kohort.install.options import InstallOptions
from kohort.install.rendering import render
from kohort.manager.configuration import parse
from kohort.objects.json_types import JsonObject

VARIANTS = [
    InstallOptions(),
    InstallOptions(rollouts=False),
    InstallOptions(namespaces=("a", "b")),
    InstallOptions(cert_manager=True, service_monitor=True, gang_scheduler="volcano", default_resize_policy="Recreate"),
]


def one(objects: list[JsonObject], kind: str, name: str) -> JsonObject:
    (found,) = [obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"] == name]
    return found


def rules(objects: list[JsonObject], kind: str) -> list[JsonObject]:
    names = ("lws-manager-role", "lws-leader-election-role", "lws-metrics-auth-role")
    return [
        rule for obj in objects if obj["kind"] == kind and obj["metadata"]["name"] in names for rule in obj["rules"]
    ]


def test_names() -> None:
    objects = manifests(InstallOptions())
    deployment = one(objects, "Deployment", "lws-controller-manager")
    assert deployment["metadata"]["namespace"] == "lws-system"
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["metadata"]["labels"]["control-plane"] == "controller-manager"
    webhook = one(objects, "Service", "lws-webhook-service")
    assert (webhook["spec"]["ports"][0]["port"], webhook["spec"]["ports"][0]["targetPort"]) == (443, 9443)
    one(objects, "Service", "lws-controller-manager-metrics-service")
    one(objects, "Secret", "lws-webhook-server-cert")
    one(objects, "MutatingWebhookConfiguration", "lws-mutating-webhook-configuration")


@pytest.mark.parametrize("options", VARIANTS)
def test_no_secrets_of_others_and_no_writes_to_nodes(options: InstallOptions) -> None:
    objects = manifests(options)
    for rule in rules(objects, "ClusterRole"):
        assert "secrets" not in rule["resources"]
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
        if "nodes" in rule["resources"]:
            assert set(rule["verbs"]) <= {"get", "list"}
        if any(name.endswith("webhookconfigurations") for name in rule["resources"]):
            assert rule["resourceNames"]
    for rule in rules(objects, "Role"):
        assert "secrets" not in rule["resources"] or rule["resourceNames"] == ["lws-webhook-server-cert"]


def test_a_confined_operator_has_no_rights_over_workloads_elsewhere() -> None:
    objects = manifests(InstallOptions(namespaces=("a", "b")))
    groups = {group for rule in rules(objects, "ClusterRole") for group in rule["apiGroups"]}
    assert not groups & {"apps", "leaderworkerset.x-k8s.io", "rollouts.kruise.io"}
    roles = [obj for obj in objects if obj["kind"] == "Role" and obj["metadata"]["name"] == "lws-manager-role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["a", "b"]


@pytest.mark.parametrize("options", VARIANTS)
def test_containers_are_locked_down(options: InstallOptions) -> None:
    pod = one(manifests(options), "Deployment", "lws-controller-manager")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    mounted, volumes = {one["name"] for one in container["volumeMounts"]}, {one["name"] for one in pod["volumes"]}
    assert mounted == volumes


@pytest.mark.parametrize("options", VARIANTS)
def test_the_configuration_is_one_that_the_operator_reads(options: InstallOptions) -> None:
    found = parse(one(manifests(options), "ConfigMap", "lws-manager-config")["data"]["controller_manager_config.yaml"])
    assert found.namespaces == [*options.namespaces]
    assert found.rollouts == options.rollouts
    assert found.internal_cert_management.enable is not options.cert_manager
    assert found.gang_scheduler == options.gang_scheduler
    assert found.default_resize_policy == options.default_resize_policy


@pytest.mark.parametrize("options", VARIANTS)
def test_the_text_is_the_objects(options: InstallOptions) -> None:
    objects = manifests(options)
    assert [*yaml.safe_load_all(render(objects))] == objects
    for obj in objects:
        resource = resource_of(obj)
        assert obj["apiVersion"] == resource.api_version
        assert ("namespace" in obj["metadata"]) == resource.namespaced
