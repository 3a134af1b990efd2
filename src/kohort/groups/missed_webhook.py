"""Pods that were created while the pod webhook was away.

The webhook refuses pods when it cannot be reached, but an administrator may make the API server ignore that, remove
the configuration, or exempt a namespace. Such a pod has the labels of its template and none of those that the webhook
writes; it also lacks variables, placement rules and a subdomain, which cannot be added to a pod that exists. So it is
deleted, and its StatefulSet makes another one, at growing intervals: while the webhook stays away, the next one is no
better.
"""

from kohort.groups.pod_mutation import PodRefused, missing_from
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import is_leader


def missed_webhook(pod: Pod) -> bool:
    """Whether a pod of a set never passed the webhook. Workers learn their index there, leaders their group.

    Only pods of StatefulSets are meant: others may carry the set's name for reasons of their own.
    """
    labels, owner = pod.metadata.labels, pod.metadata.controller
    if group_labels.NAME not in labels or owner is None or owner.kind != "StatefulSet":
        return False
    if is_leader(labels):
        return group_labels.GROUP_INDEX not in labels or group_labels.GROUP_KEY not in labels
    return group_labels.WORKER_INDEX not in labels


def what_is_missing(pod: JsonObject, namespace: str) -> str:
    """What a pod lacks that was created without the webhook, for an event."""
    try:
        return ", ".join(missing_from(pod, namespace)) or "nothing"
    except PodRefused as refusal:
        return f"what it needs to belong to a group: {refusal}"
