"""The /etc/resolv.conf of a pod. Pure.

| dnsPolicy               | name servers        | search path                          | options |
|-------------------------|---------------------|--------------------------------------|---------|
| ClusterFirst            | the node's          | the pod's namespace, then the machine's | ndots:5 |
| ClusterFirstWithHostNet | the node's          | the same                             | ndots:5 |
| Default                 | the machine's       | the machine's                        | -       |
| None                    | -                   | -                                    | -       |

ClusterFirst of a pod that uses the machine's network means Default. What `dnsConfig` says is added, and its options
replace those of the same name.
"""

from collections.abc import Sequence

from kohort.node.names.etc_hosts import DOMAIN
from kohort.objects.node_pods import NodePod

LONGEST_SEARCH = 32
MOST_SERVERS = 3


def resolv_conf(pod: NodePod, node_server: str, servers: Sequence[str], search: Sequence[str]) -> str:
    spec = pod.spec
    policy = spec.dns_policy or "ClusterFirst"
    if policy == "ClusterFirst" and spec.host_network:
        policy = "Default"
    found, paths, options = list(servers), list(search), dict[str, str | None]()
    if policy.startswith("ClusterFirst"):
        namespace = pod.metadata.namespace
        found = [node_server]
        paths = [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN, *paths]
        options = {"ndots": "5"}
    elif policy == "None":
        found, paths = [], []
    if (config := spec.dns_config) is not None:
        found += [each for each in config.nameservers if each not in found]
        paths += [each for each in config.searches if each not in paths]
        options |= {each.name: each.value for each in config.options}
    lines = [f"nameserver {each}" for each in found[:MOST_SERVERS]]
    if paths:
        lines.insert(0, f"search {' '.join(paths[:LONGEST_SEARCH])}")
    if options:
        words = [name if value is None else f"{name}:{value}" for name, value in options.items()]
        lines.append(f"options {' '.join(words)}")
    return "\n".join(lines) + "\n"
