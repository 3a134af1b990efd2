"""Autoscalers during a blue-green release.

Both versions run at full size for a while, each idle for some of it. An autoscaler would take that for a reason to
shrink. It is pointed at a name that does not exist until the release is over.
"""

from kohort.kube.client import Client
from kohort.kube.resources import HORIZONTAL_POD_AUTOSCALERS, Key
from kohort.objects.autoscaling import HorizontalPodAutoscaler
from kohort.rules import rollout_labels


async def set_enabled(client: Client, key: Key, api_version: str, kind: str, *, enabled: bool) -> list[str]:
    """Turn the autoscalers of a workload off or on again; the names of those that were changed."""
    listed = await client.list(HORIZONTAL_POD_AUTOSCALERS, key.namespace, type=HorizontalPodAutoscaler)
    changed = []
    for one in listed.items:
        target = one.spec.scale_target_ref
        if (target.api_version, target.kind) != (api_version, kind):
            continue
        if target.name.removesuffix(rollout_labels.DISABLED_SUFFIX) != key.name:
            continue
        wanted = key.name if enabled else key.name + rollout_labels.DISABLED_SUFFIX
        if target.name != wanted:
            body = {"spec": {"scaleTargetRef": {"name": wanted}}}
            await client.patch(HORIZONTAL_POD_AUTOSCALERS, one.metadata.name, key.namespace, body)
            changed.append(one.metadata.name)
    return changed
