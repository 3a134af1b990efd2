"""The webhook configurations, by which an API server finds the webhooks.

The pod webhook asks only about pods that carry a set's name: an operator that is away must not keep the rest of a
cluster from creating pods.
"""

import base64
from typing import Final

import msgspec

from kohort.admission import group_webhooks
from kohort.admission import rollout_webhooks as releases
from kohort.kube.resources import (
    BATCH_RELEASES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    MUTATING_WEBHOOKS,
    RELEASE_ANALYSES,
    ROLLOUTS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels, rollout_labels

MUTATING: Final = "lws-mutating-webhook-configuration"
VALIDATING: Final = "lws-validating-webhook-configuration"
CONVERTED: Final = tuple(f"{one.plural}.{one.group}" for one in (ROLLOUTS, BATCH_RELEASES))
TIMEOUT_SECONDS: Final = 5


class Address(msgspec.Struct, frozen=True):
    """Where the webhooks are served: behind a Service of the cluster, or at an address of its own."""

    ca: bytes
    """PEM of the authority that signed the serving certificate; may be empty when something else injects it."""
    service: tuple[str, str] | None = None
    """Namespace and name."""
    url: str = ""
    exempt_namespace: str = ""
    """The operator's own namespace: its pods must start without it."""
    namespaces: tuple[str, ...] = ()
    """Ask only about objects in these, where the operator is confined to them; about all when empty."""

    def client(self, path: str) -> JsonObject:
        config: JsonObject = {"caBundle": base64.b64encode(self.ca).decode()} if self.ca else {}
        if self.service is not None:
            namespace, name = self.service
            return {**config, "service": {"namespace": namespace, "name": name, "path": path}}
        return {**config, "url": f"{self.url}{path}"}


def configurations(address: Address, *, rollouts: bool = True) -> list[JsonObject]:
    return [
        _configuration(
            "MutatingWebhookConfiguration",
            MUTATING,
            [
                _set_hook(address, "mleaderworkerset.kb.io", group_webhooks.MUTATE_SET),
                _pod_hook(address, "mpod.kb.io", group_webhooks.MUTATE_POD),
            ],
        ),
        _configuration(
            "ValidatingWebhookConfiguration",
            VALIDATING,
            [
                _with_scale(_set_hook(address, "vleaderworkerset.kb.io", group_webhooks.VALIDATE_SET)),
                _eviction_hook(address, "veviction.kohort.dev", group_webhooks.VALIDATE_EVICTION),
            ],
        ),
        *(_rollout_configurations(address) if rollouts else []),
    ]


def names(*, rollouts: bool = True) -> list[tuple[Resource, str]]:
    """Where the configurations are found, and the definitions whose older versions are converted here."""
    found = [(MUTATING_WEBHOOKS, MUTATING), (VALIDATING_WEBHOOKS, VALIDATING)]
    if rollouts:
        found += [(MUTATING_WEBHOOKS, releases.MUTATING), (VALIDATING_WEBHOOKS, releases.VALIDATING)]
        found += [(CUSTOM_RESOURCE_DEFINITIONS, name) for name in CONVERTED]
    return found


def _rollout_configurations(address: Address) -> list[JsonObject]:
    guarded = {"matchExpressions": [{"key": rollout_labels.WORKLOAD_TYPE, "operator": "Exists"}]}
    held = []
    for name, path, resource in (
        ("mdeployment.kb.io", releases.MUTATE_DEPLOYMENT, DEPLOYMENTS),
        ("mleaderworkerset.rollouts.kruise.io", releases.MUTATE_SET, LEADER_WORKER_SETS),
    ):
        rule = {
            "apiGroups": [resource.group],
            "apiVersions": [resource.version],
            "operations": ["UPDATE"],
            "resources": [resource.plural],
        }
        held.append({**_hook(address, name, path, rule), "objectSelector": guarded})
    # The StatefulSets of a LeaderWorkerSet carry the labels of their set, and are held by it.
    of_users = {
        "matchExpressions": [*guarded["matchExpressions"], {"key": group_labels.NAME, "operator": "DoesNotExist"}]
    }
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["statefulsets"]}
    hook = _hook(address, "mstatefulset.kb.io", releases.MUTATE_STATEFUL_SET, rule)
    held.append({**hook, "objectSelector": of_users})
    rule = {
        "apiGroups": [rollout_labels.GROUP],
        "apiVersions": ["v1alpha1", "v1beta1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["rollouts"],
    }
    checked = _hook(address, "vrollout.kb.io", releases.VALIDATE_ROLLOUT, rule)
    # Only to warn of what becomes of a release: without an operator, Rollouts can be deleted all the same.
    warned = _hook(address, "drollout.kb.io", releases.VALIDATE_ROLLOUT, {**rule, "operations": ["DELETE"]})
    warned |= {"failurePolicy": "Ignore"}
    rule = {
        "apiGroups": [RELEASE_ANALYSES.group],
        "apiVersions": [RELEASE_ANALYSES.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [RELEASE_ANALYSES.plural],
    }
    # Stored unseen, one could have the operator send Secrets that its author may not read: none without an operator.
    judged = _hook(address, "vreleaseanalysis.kohort.dev", releases.VALIDATE_ANALYSIS, rule)
    return [
        _configuration("MutatingWebhookConfiguration", releases.MUTATING, held),
        _configuration("ValidatingWebhookConfiguration", releases.VALIDATING, [checked, warned, judged]),
    ]


def _configuration(kind: str, name: str, hooks: list[JsonObject]) -> JsonObject:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": hooks,
    }


def _hook(address: Address, name: str, path: str, rule: JsonObject) -> JsonObject:
    hook: JsonObject = {
        "name": name,
        "clientConfig": address.client(path),
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
    if address.namespaces:
        hook["namespaceSelector"] = {"matchExpressions": [_namespace("In", *address.namespaces)]}
    return hook


def _namespace(operator: str, *values: str) -> JsonObject:
    return {"key": well_known_names.NAMESPACE_NAME, "operator": operator, "values": [*values]}


def _set_hook(address: Address, name: str, path: str) -> JsonObject:
    rule = {
        "apiGroups": [LEADER_WORKER_SETS.group],
        "apiVersions": [LEADER_WORKER_SETS.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [LEADER_WORKER_SETS.plural],
    }
    return _hook(address, name, path, rule)


def _with_scale(hook: JsonObject) -> JsonObject:
    """Autoscalers and `kubectl scale` write a set's replicas past the set itself."""
    scale = {**hook["rules"][0], "operations": ["UPDATE"], "resources": ["leaderworkersets/scale"]}
    return {**hook, "rules": [*hook["rules"], scale]}


def _eviction_hook(address: Address, name: str, path: str) -> JsonObject:
    """An Eviction does not carry the labels of its pod, so evictions of all pods are asked about. Without an operator
    they are allowed: then the PodDisruptionBudgets of leaders still hold."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    return _hook(address, name, path, rule) | {"failurePolicy": "Ignore", "sideEffects": "NoneOnDryRun"}


def _pod_hook(address: Address, name: str, path: str) -> JsonObject:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = _hook(address, name, path, rule)
    hook["objectSelector"] = {"matchExpressions": [{"key": group_labels.NAME, "operator": "Exists"}]}
    if address.exempt_namespace:
        selected = hook.get("namespaceSelector", {}).get("matchExpressions", [])
        hook["namespaceSelector"] = {"matchExpressions": [*selected, _namespace("NotIn", address.exempt_namespace)]}
    return hook
