"""The pods of a Job: building them, and reading their results."""

from typing import Final

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.job.backoff import ended
from kohort.cluster.workloads.job.plan import FINALIZER, INDEX, PodResult
from kohort.cluster.workloads.job.policies import Exit, failure_decision
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def result(pod: Pod, policy: JsonObject | None = None) -> PodResult:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    exits = [Exit(one.name, one.state.terminated.exit_code) for one in statuses if one.state.terminated is not None]
    conditions = [(one.type, one.status) for one in pod.status.conditions]
    return PodResult(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        phase=pod.status.phase or "Pending",
        terminating=pod.metadata.deleting,
        tracked=FINALIZER in pod.metadata.finalizers,
        index=_number(pod, INDEX),
        ready=pod.ready,
        restarts=sum(one.restart_count for one in statuses),
        decision=failure_decision(policy, f"{pod.metadata.namespace}/{pod.metadata.name}", exits, conditions),
        failures=_number(pod, FAILURES) or 0,
        ignored=_number(pod, IGNORED_FAILURES) or 0,
        ended=ended(pod),
    )


def _number(pod: Pod, annotation: str) -> int | None:
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdigit() else None


def build_pod(job: JsonObject, index: int | None, replaced: PodResult | None = None) -> JsonObject:
    """A pod of the Job; `replaced` is the failed pod that it follows, where failures are counted for each index."""
    template = job["spec"]["template"]
    meta = template.get("metadata") or {}
    name = job["metadata"]["name"]
    spec = dict(template.get("spec") or {})
    finalizers = [one for one in meta.get("finalizers") or [] if one != FINALIZER]
    metadata: JsonObject = {
        "generateName": f"{name}-" if index is None else f"{name}-{index}-",
        "namespace": job["metadata"]["namespace"],
        "labels": dict(meta.get("labels") or {}),
        "annotations": dict(meta.get("annotations") or {}),
        "finalizers": [*finalizers, FINALIZER],
        "ownerReferences": [controller_ref.controller_reference(job)],
    }
    if index is not None:
        metadata["labels"][INDEX] = str(index)
        metadata["annotations"][INDEX] = str(index)
        if job["spec"].get("backoffLimitPerIndex") is not None:
            metadata["annotations"] |= failure_counts(replaced)
        spec["hostname"] = f"{name}-{index}"
        for group in ("containers", "initContainers"):
            if spec.get(group):
                spec[group] = [_with_index(one) for one in spec[group]]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def failure_counts(replaced: PodResult | None) -> dict[str, str]:
    if replaced is None:
        return {FAILURES: "0"}
    counts = replaced.decision.counts
    ignored = replaced.ignored + (not counts)
    annotations = {FAILURES: str(replaced.failures + counts)}
    return {**annotations, IGNORED_FAILURES: str(ignored)} if ignored else annotations


def _with_index(container: JsonObject) -> JsonObject:
    variables: list[JsonObject] = container.get("env") or []
    if any(one["name"] == "JOB_COMPLETION_INDEX" for one in variables):
        return container
    reference = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*variables, {"name": "JOB_COMPLETION_INDEX", "valueFrom": reference}]}
