"""The host name of a pod."""

from kohort.node.names.etc_hosts import full_name
from kohort.objects.node_pods import NodePod

LONGEST_KERNEL_NAME = 64


class InvalidContainer(Exception):
    """A container cannot be made from its spec."""


def hostname_of(pod: NodePod) -> str:
    if pod.spec.hostname_override:
        return pod.spec.hostname_override
    return pod.spec.hostname or pod.metadata.name[:63].rstrip("-.")


def subdomain_of(pod: NodePod) -> str:
    """Empty if names of the pod have none: `hostnameOverride` is the whole name."""
    return "" if pod.spec.hostname_override else pod.spec.subdomain


def kernel_name_of(pod: NodePod) -> str:
    """What `hostname` says in the pod. Raises InvalidContainer if no kernel takes it."""
    short = hostname_of(pod)
    if not pod.spec.set_hostname_as_fqdn or not subdomain_of(pod):
        return short
    full = full_name(short, pod.spec.subdomain, pod.metadata.namespace)
    if len(full) > LONGEST_KERNEL_NAME:
        raise InvalidContainer(
            f"Failed to construct FQDN from Pod hostname and cluster domain, FQDN {full} is too long "
            f"({LONGEST_KERNEL_NAME} characters is the max, {len(full)} characters requested)"
        )
    return full
