"""Names of services and of their pods, as an /etc/hosts file that every container sees as its own.

A name server needs port 53, an address of its own and rights; a file needs a bind mount. Programs that use the system's
resolver read it before they ask a name server, and it is rewritten within a moment of every change of endpoints.

| for                                         | names                                                               |
|---------------------------------------------|---------------------------------------------------------------------|
| a headless service                          | `svc.ns.svc.cluster.local` and its short forms, for every endpoint  |
| an endpoint with a hostname                 | `hostname.svc.ns.svc.cluster.local` and its short forms             |
| an endpoint without                         | `10-0-0-1.svc.ns.svc.cluster.local` and its short forms             |
| any other service                           | `svc.ns.svc.cluster.local` and its short forms                      |

Short forms are those that the search path of a pod in that namespace would complete: `svc`, `svc.ns`, `svc.ns.svc`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kohort.objects.core import Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.node_pods import HostAlias
from kohort.objects.pods import Pod

DOMAIN: Final = "cluster.local"
API_SERVER: Final = ("default", "kubernetes")
LOCAL: Final = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
"""As a kubelet begins the file; programs look for the first line."""
OF_MACHINE: Final = "# Kubernetes-managed hosts file (host network).\n"
ALIASES: Final = "\n# Entries added by HostAliases.\n"
CLUSTER: Final = "\n# Services and pods of the cluster.\n"

Record = tuple[str, str, str]
"""Address, name within the service's namespace, namespace."""


def is_served(service: Service) -> bool:
    """Whether it has an address of its own, behind which others are."""
    return bool(service.cluster_address) and (service.metadata.namespace, service.metadata.name) != API_SERVER


def records(services: Iterable[Service], slices: Iterable[EndpointSlice], api_server: str = "") -> list[Record]:
    """What the cluster's names stand for."""
    known = {(each.metadata.namespace, each.metadata.name): each for each in services}
    found: list[Record] = []
    for (namespace, name), service in known.items():
        if (namespace, name) == API_SERVER and api_server:
            found.append((api_server, name, namespace))
        elif service.cluster_address:
            found.append((service.cluster_address, name, namespace))
    for each in slices:
        namespace = each.metadata.namespace
        owner = known.get((namespace, each.service_name))
        if owner is not None and owner.headless:
            found += _endpoints(each, owner)
    return found


def pod_records(services: Iterable[Service], pods: Iterable[tuple[Pod, str]]) -> list[Record]:
    """Pods of this node that ask for a name in a headless service. They are known here before any endpoint says so, and
    also when their addresses are of a kind that endpoints may not hold."""
    headless = {(each.metadata.namespace, each.metadata.name): each for each in services if each.headless}
    found = []
    for pod, address in pods:
        namespace, subdomain = pod.metadata.namespace, pod.spec.subdomain
        service = headless.get((namespace, subdomain))
        if service is None or not service.spec.selector.items() <= pod.metadata.labels.items():
            continue
        if not (service.spec.publish_not_ready_addresses or pod.ready):
            continue
        found.append((address, f"{pod.spec.hostname or pod.metadata.name}.{subdomain}", namespace))
        found.append((address, subdomain, namespace))
    return found


def full_name(hostname: str, subdomain: str, namespace: str) -> str:
    return f"{hostname}.{subdomain}.{namespace}.svc.{DOMAIN}"


def hosts_text(
    found: Iterable[Record], namespace: str, address: str, hostname: str, subdomain: str, aliases: Iterable[HostAlias]
) -> str:
    """The file of one pod with an address of its own."""
    own = [hostname]
    if subdomain:
        own.insert(0, full_name(hostname, subdomain, namespace))
    names = (f"{ip}\t{' '.join(_forms(name, of, namespace))}\n" for ip, name, of in sorted(set(found)))
    return f"{LOCAL}{_line(address, own)}{_aliases(aliases)}{_section(CLUSTER, names)}"


def host_network_text(machine: str, aliases: Iterable[HostAlias]) -> str:
    """The file of a pod that uses the network of the machine, which has the names of the machine."""
    text = machine if not machine or machine.endswith("\n") else f"{machine}\n"
    return f"{OF_MACHINE}{text}{_aliases(aliases)}"


def _aliases(aliases: Iterable[HostAlias]) -> str:
    return _section(ALIASES, (_line(alias.ip, alias.hostnames) for alias in aliases))


def _section(title: str, lines: Iterable[str]) -> str:
    text = "".join(lines)
    return f"{title}{text}" if text else ""


def _line(address: str, names: Iterable[str]) -> str:
    return "\t".join((address, *names)) + "\n"


def write_hosts(path: Path, text: str) -> None:
    """In place: it is mounted, so the file must stay the same one."""
    try:
        if path.read_text() == text:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _endpoints(each: EndpointSlice, owner: Service) -> Iterator[Record]:
    namespace, service = owner.metadata.namespace, owner.metadata.name
    for endpoint in each.endpoints or ():
        if endpoint.conditions.ready is False and not owner.spec.publish_not_ready_addresses:
            continue
        for address in endpoint.addresses or ():
            yield address, service, namespace
            yield address, f"{endpoint.hostname or address.replace('.', '-')}.{service}", namespace


def _forms(name: str, of: str, namespace: str) -> list[str]:
    full = f"{name}.{of}.svc"
    forms = [f"{full}.{DOMAIN}", full, f"{name}.{of}"]
    return [*forms, name] if of == namespace else forms
