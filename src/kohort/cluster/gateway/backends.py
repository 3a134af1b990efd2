"""The addresses of the pods behind a port of a Service, in turns.

Endpoints come from EndpointSlices. Pods with loopback addresses are never in a slice: on a machine where kohort may not
add addresses, pods have addresses from 127.16.0.0 on, and the API rejects those in endpoints. For a Service without
endpoints, such pods are searched.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kohort.kube.informer import Informer
from kohort.kube.resources import Key
from kohort.objects.core import Service
from kohort.objects.discovery import Endpoint, EndpointSlice
from kohort.objects.pods import Pod

BY_SERVICE = "service"
_LOOPBACK = "127."
Dial = Callable[[str, int], tuple[str, int]]
"""Where an address of a pod is reached from here."""


class Address(NamedTuple):
    host: str
    port: int
    pod: str = ""
    """The name of the pod behind it; empty for endpoints that are none."""


def by_service(one: EndpointSlice) -> Iterable[str]:
    return (f"{one.metadata.namespace}/{one.service_name}",) if one.service_name else ()


def port_name(service: Service, port: int | str) -> str | None:
    """The name of a port of the Service in its slices; None if it has no such port."""
    for one in service.spec.ports:
        if one.port == port or (one.name and one.name == port):
            return one.name
    return None


def addresses(slices: Iterable[EndpointSlice], name: str) -> list[Address]:
    """The ready endpoints; if there is none, terminating ones that still serve."""
    ready: list[Address] = []
    ending: list[Address] = []
    for one in slices:
        number = next((port.port for port in one.ports or () if (port.name or "") == name and port.port), None)
        if number is None:
            continue
        for endpoint in one.endpoints or ():
            group = _group(endpoint, ready, ending)
            if group is not None and endpoint.addresses:
                group.append(Address(endpoint.addresses[0], number, endpoint.pod))
    return sorted(set(ready or ending))


def _group(endpoint: Endpoint, ready: list[Address], ending: list[Address]) -> list[Address] | None:
    conditions = endpoint.conditions
    if conditions.ready is not False:
        return ready
    return ending if conditions.serving and conditions.terminating else None


def loopback_addresses(service: Service, name: str, pods: Iterable[Pod]) -> list[Address]:
    """Ready pods of the Service that have an address of this machine only."""
    port = next(one for one in service.spec.ports if one.name == name)
    target = port.target_port or port.port
    found = []
    for pod in pods:
        if not pod.status.pod_ip.startswith(_LOOPBACK) or not pod.ready or not pod.active:
            continue
        if not service.spec.selector or not service.spec.selector.items() <= pod.metadata.labels.items():
            continue
        number = target if isinstance(target, int) else _named_port(pod, target)
        if number is not None:
            found.append(Address(pod.status.pod_ip, number, pod.metadata.name))
    return sorted(found)


def _named_port(pod: Pod, name: str) -> int | None:
    ports = (port for container in pod.spec.containers or () for port in container.ports)
    return next((port.container_port for port in ports if port.name == name), None)


class Backends:
    """Addresses by Service and port, cached until the Service or one of its slices changes."""

    def __init__(
        self,
        services: Informer[Service],
        slices: Informer[EndpointSlice],
        pods: Callable[[], Informer[Pod]] | None = None,
        changed: Callable[[Key], None] | None = None,
    ) -> None:
        """`pods` is called when a Service without endpoints is requested for the first time; `changed` when a Service
        may have lost pods."""
        self._services = services
        self._slices = slices
        self._open_pods = pods
        self._pods: Informer[Pod] | None = None
        self._changed = changed
        self._known: dict[Key, dict[int | str, list[Address] | None]] = {}
        self._turn: dict[tuple[Key, int | str], int] = {}
        self._on_loopback: dict[tuple[Key, int | str], list[Address]] = {}
        """Found among the pods, until one of the namespace changes."""
        slices.add_index(BY_SERVICE, by_service)
        services.on_change(self._service_changed)
        slices.on_change(self._slice_changed)

    def of(self, key: Key, port: int | str) -> list[Address] | None:
        """The address whose turn it is, then the others. None if there is no such Service or port."""
        known = self._known.setdefault(key, {})
        if port not in known:
            known[port] = self._look_up(key, port)
        found = known[port]
        if found == []:
            found = self._on_loopback.get((key, port)) or self._among_pods(key, port)
        if not found or len(found) == 1:
            return found
        turn = self._turn.get((key, port), -1) + 1
        self._turn[key, port] = turn
        start = turn % len(found)
        return found[start:] + found[:start]

    def _look_up(self, key: Key, port: int | str) -> list[Address] | None:
        service = self._services.get(key)
        name = None if service is None else port_name(service, port)
        return None if name is None else addresses(self._slices.by_index(BY_SERVICE, str(key)), name)

    def _among_pods(self, key: Key, port: int | str) -> list[Address]:
        service = self._services.get(key)
        name = None if service is None else port_name(service, port)
        if self._open_pods is None or service is None or name is None:
            return []
        if self._pods is None:
            self._pods = self._open_pods()
            self._pods.on_change(self._pod_changed)
        found = loopback_addresses(service, name, self._pods.list(key.namespace))
        if found:
            self._on_loopback[key, port] = found
        return found

    def pods_of(self, key: Key) -> frozenset[str] | None:
        """The names of all pods behind a Service, ready or not; None if there is no such Service."""
        service = self._services.get(key)
        if service is None:
            return None
        slices = self._slices.by_index(BY_SERVICE, str(key))
        names = {endpoint.pod for one in slices for endpoint in one.endpoints or ()}
        selector = service.spec.selector
        if self._pods is not None and selector:
            pods = self._pods.list(key.namespace)
            names |= {pod.metadata.name for pod in pods if selector.items() <= pod.metadata.labels.items()}
        return frozenset(names)

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        for one in (old, new):
            if one is not None:
                self._forget(Key(one.metadata.namespace, one.metadata.name), gone=new is None)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for one in (old, new):
            if one is not None and one.service_name:
                self._forget(Key(one.metadata.namespace, one.service_name))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        changed = new or old
        if changed is not None and self._on_loopback:
            namespace = changed.metadata.namespace
            for place in [place for place in self._on_loopback if place[0].namespace == namespace]:
                del self._on_loopback[place]
        if old is None or self._changed is None or (new is not None and old.metadata.labels == new.metadata.labels):
            return
        for service in self._services.list(old.metadata.namespace):
            if service.spec.selector and service.spec.selector.items() <= old.metadata.labels.items():
                self._changed(Key(service.metadata.namespace, service.metadata.name))

    def _forget(self, key: Key, *, gone: bool = False) -> None:
        known = self._known.pop(key, {})
        for port in known:
            self._on_loopback.pop((key, port), None)
        if self._changed is not None:
            self._changed(key)
        if gone:
            for port in known:
                self._turn.pop((key, port), None)
