"""The admission step: pods are refused or warned about, workloads are only warned about, labels must be readable."""

from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.podsecurity.checks import detailed, evaluate, reasons
from kohort.cluster.apiserver.admission.plugins.podsecurity.policy import (
    PRIVILEGED,
    Policy,
    Standard,
    policy_of,
    stricter,
)
from kohort.cluster.apiserver.admission.plugins.step import WRITES, AdmissionStep, refusal, written
from kohort.cluster.apiserver.storage.model import Store
from kohort.kube import errors
from kohort.kube.event_mapping import controller_of
from kohort.objects.json_types import JsonObject

POD_LIMIT: Final = 3000
"""How many pods of a namespace are looked at when its level is raised."""

_WORKLOADS: Final = {
    ("", "replicationcontrollers"): ("spec", "template"),
    ("", "podtemplates"): ("template",),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
"""Where kinds that make pods keep their template."""


class PodSecurity(AdmissionStep):
    name = "PodSecurity"

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation not in WRITES or attributes.object is None:
            return False
        key = attributes.resource.group, attributes.resource.plural
        if key == ("", "pods"):
            return attributes.subresource in ("", "ephemeralcontainers", "resize")
        return not attributes.subresource and (key == ("", "namespaces") or key in _WORKLOADS)

    async def validate(self, attributes: Attributes) -> None:
        plural = attributes.resource.plural
        if plural == "namespaces":
            self._check_namespace(attributes)
            return
        policy = self._policy(attributes)
        if policy is None:
            return
        if plural == "pods":
            if attributes.old_object is None or _images_changed(written(attributes), attributes.old_object):
                self._check_pod(attributes, policy)
            return
        part = written(attributes)
        for step in _WORKLOADS[attributes.resource.group, plural]:
            part = part.get(step) or {}
        if part:
            self._warn(attributes, policy, part.get("metadata") or {}, part.get("spec") or {})

    def _policy(self, attributes: Attributes) -> Policy | None:
        """What the namespace asks for; None when that is nothing."""
        namespace = self._store.get("namespaces", "", attributes.namespace)
        policy, _ = policy_of(namespace.labels if namespace is not None else {})
        return None if policy.allows_everything else policy

    def _check_pod(self, attributes: Attributes, policy: Policy) -> None:
        pod = written(attributes)
        findings = evaluate(policy.enforce, pod["metadata"], pod["spec"])
        if findings:
            raise refusal(attributes, f'violates PodSecurity "{policy.enforce}": {detailed(findings)}')
        self._warn(attributes, policy, pod["metadata"], pod["spec"])

    def _warn(self, attributes: Attributes, policy: Policy, metadata: JsonObject, spec: JsonObject) -> None:
        findings = evaluate(policy.warn, metadata, spec)
        if findings:
            attributes.warnings.append(f'would violate PodSecurity "{policy.warn}": {detailed(findings)}')

    def _check_namespace(self, attributes: Attributes) -> None:
        namespace, before = written(attributes), attributes.old_object
        policy, problems = policy_of(namespace["metadata"].get("labels") or {})
        old, old_problems = policy_of(((before or {}).get("metadata") or {}).get("labels") or {})
        if problems and problems != old_problems:
            raise errors.invalid("Namespace", attributes.name, problems)
        if before is None or policy.enforce == old.enforce or policy.enforce.level == PRIVILEGED:
            return
        same_version = policy.enforce.minor == old.enforce.minor
        if same_version and not stricter(policy.enforce.level, old.enforce.level):
            return
        pods = attributes.reader.list("pods", namespace["metadata"]["name"])
        attributes.warnings.extend(violating_pods(list(pods), namespace["metadata"]["name"], policy.enforce))


def _images_changed(pod: JsonObject, before: JsonObject) -> bool:
    """Of all that can change in a pod, only images matter here."""
    spec, was = pod["spec"], before["spec"]
    for field in ("containers", "initContainers"):
        new, old = ([one.get("image") for one in side.get(field) or ()] for side in (spec, was))
        if new != old:
            return True
    known = {one.get("name"): one.get("image") for one in was.get("ephemeralContainers") or ()}
    added = spec.get("ephemeralContainers") or ()
    return any(one.get("name") not in known or known[one.get("name")] != one.get("image") for one in added)


def violating_pods(pods: list[JsonObject], namespace: str, standard: Standard) -> list[str]:
    """Warnings about pods that a raised level would refuse. Of the pods of one owner the first comes first."""
    ordered = _one_per_owner_first(pods)
    warnings: list[str] = []
    if len(ordered) > POD_LIMIT:
        warnings.append(
            f"new PodSecurity enforce level only checked against the first {POD_LIMIT} of {len(ordered)} existing pods"
        )
    guilty: dict[str, list[str]] = {}
    for pod in ordered[:POD_LIMIT]:
        findings = evaluate(standard, pod["metadata"], pod["spec"])
        if findings:
            guilty.setdefault(reasons(findings), []).append(pod["metadata"]["name"])
    if guilty:
        warnings.append(
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"'
        )
    return warnings + sorted(f"{_some_of(names)}: {why}" for why, names in guilty.items())


def _some_of(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"


def _one_per_owner_first(pods: list[JsonObject]) -> list[JsonObject]:
    first: list[JsonObject] = []
    rest: list[JsonObject] = []
    seen: set[str] = set()
    for pod in pods:
        owner = controller_of(pod)
        if owner is None or owner.uid not in seen:
            first.append(pod)
        else:
            rest.append(pod)
        if owner is not None:
            seen.add(owner.uid)
    return first + rest
