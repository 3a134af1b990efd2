"""`pods/proxy`, `services/proxy`, `nodes/proxy`: an HTTP request through the API server to something inside.

The name may be `name`, `name:port` or `scheme:name:port`. A pod is reached at its address, a service at one of its
ready endpoints, a node at its agent. What follows `/proxy` in the path is passed on, as are method, query and body;
headers that carry the caller's identity are not. A reader of `/proxy` itself is sent to `/proxy/`: relative links of
the page would lead elsewhere otherwise.

Addresses come from objects that more people may write than may reach the machine itself, so requests go to addresses of
pods only (`rules/podaddresses`).
"""

import random
from typing import Final, Protocol
from urllib.parse import quote, urlencode

import msgspec

from kohort.cluster.apiserver.endpoints import connect_admission
from kohort.cluster.apiserver.endpoints.node_connections import KUBELET_PORT, address_of
from kohort.cluster.apiserver.endpoints.proxy_links import LinkRewriter, with_links
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.kube import errors
from kohort.kube.http import Response
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.rules.pod_addresses import belongs_to_pod, can_be_of_pod

SLICES: Final = "endpointslices.discovery.k8s.io"
_WITHHELD: Final = frozenset(
    {"authorization", "connection", "content-length", "cookie", "host", "keep-alive", "transfer-encoding", "upgrade"}
)


class ProxyTarget(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    port: int
    is_agent: bool = False
    """Whether this is a node agent, to which the server shows its certificate."""


class Forwarder(Protocol):
    async def forward(
        self,
        method: str,
        target: ProxyTarget,
        path: str,
        query: tuple[tuple[str, str], ...],
        headers: dict[str, str],
        body: bytes,
    ) -> Response: ...


class ProxyEndpoints:
    def __init__(self, parts: ServerParts, forwarder: Forwarder | None) -> None:
        self._parts = parts
        self._forwarder = forwarder

    async def pod(self, call: ResourceRequest) -> Response:
        scheme, name, port = split_name(call.name)
        pod = self._object(call, "pods", call.namespace, name)
        host = (pod.get("status") or {}).get("podIP") or ""
        if not self._is_address_of(pod, host):
            raise address_not_allowed()
        return await self._pass_on(call, ProxyTarget(scheme, host, _number(port) or _first_port(pod) or 80))

    async def service(self, call: ResourceRequest) -> Response:
        scheme, name, port = split_name(call.name)
        service = self._object(call, "services", call.namespace, name)
        choices = self._endpoints(service, port)
        if not choices:
            message = f'no endpoints available for service "{call.name}"'
            raise errors.failure(503, "ServiceUnavailable", message)
        host, number = random.choice(choices)
        if not can_be_of_pod(host):
            raise address_not_allowed()
        return await self._pass_on(call, ProxyTarget(scheme, host, number))

    async def node(self, call: ResourceRequest) -> Response:
        scheme, name, port = split_name(call.name)
        node = self._object(call, "nodes", "", name)
        host, agent_port = address_of(node)
        if port and _number(port) not in (agent_port, KUBELET_PORT):  # by the usual number the agent is meant as well
            if not can_be_of_pod(host):  # nor can it be of anything but the machine itself
                raise address_not_allowed()
            return await self._pass_on(call, ProxyTarget(scheme, host, _number(port)))
        return await self._pass_on(call, ProxyTarget("https", host, agent_port, is_agent=True))

    def _is_address_of(self, pod: JsonObject, host: str) -> bool:
        """Whether a pod can have the address that its status names; others than its node may write that."""
        spec = pod.get("spec") or {}
        node = self._parts.reader.get("nodes", "", spec.get("nodeName") or "") or {}
        node_spec, node_status = node.get("spec") or {}, node.get("status") or {}
        return belongs_to_pod(
            host,
            ranges=node_spec.get("podCIDRs") or (),
            node_addresses=[one.get("address") or "" for one in node_status.get("addresses") or ()],
            host_network=bool(spec.get("hostNetwork")),
        )

    async def _pass_on(self, call: ResourceRequest, target: ProxyTarget) -> Response:
        if self._forwarder is None:
            raise errors.failure(503, "ServiceUnavailable", "this server has no connections to the outside")
        await connect_admission.admit(self._parts, call)
        request, rest = call.request, call.path.rest
        if not rest and request.method in ("GET", "HEAD"):
            query = f"?{urlencode(request.query)}" if request.query else ""
            return Response(301, {"location": f"{quote(request.path)}/{query}"})
        headers = {
            key: value
            for key, value in request.headers.items()
            if key not in _WITHHELD and not key.startswith("impersonate-")
        }
        headers["x-forwarded-uri"] = quote(request.path)
        response = await self._forwarder.forward(
            request.method, target, rest or "/", request.query, headers, request.body
        )
        prefix = quote(request.path.removesuffix(rest))
        host = f"[{target.host}]" if ":" in target.host else target.host
        names = frozenset({f"{host}:{target.port}", host, request.headers.get("host", "")} - {""})
        return with_links(response, LinkRewriter(prefix, names))

    def _object(self, call: ResourceRequest, bucket: str, namespace: str, name: str) -> JsonObject:
        found = self._parts.reader.get(bucket, namespace, name)
        if found is None:
            raise errors.not_found(call.kind.resource.plural, name)
        return found

    def _endpoints(self, service: JsonObject, port: str) -> list[tuple[str, int]]:
        """Addresses of ready endpoints behind a port of a service, given by name or number."""
        metadata = service["metadata"]
        names = _port_names(service, port)
        slices = [
            piece
            for piece in self._parts.reader.list(SLICES, metadata["namespace"])
            if (piece["metadata"].get("labels") or {}).get(well_known_names.SERVICE_NAME) == metadata["name"]
        ]
        if not slices:
            raise errors.not_found("services", metadata["name"])
        found: list[tuple[str, int]] = []
        for piece in slices:
            numbers = [one["port"] for one in piece.get("ports") or [] if (one.get("name") or "") in names]
            for endpoint in piece.get("endpoints") or []:
                if (endpoint.get("conditions") or {}).get("ready", True):
                    found += [(address, number) for address in endpoint["addresses"] for number in numbers]
        return found


def address_not_allowed() -> errors.ApiError:
    return errors.bad_request("address not allowed")


def split_name(text: str) -> tuple[str, str, str]:
    """`scheme:name:port` in all its shorter forms."""
    parts = text.split(":")
    if len(parts) == 1:
        return "http", parts[0], ""
    if len(parts) == 2:
        return "http", parts[0], parts[1]
    if len(parts) == 3 and parts[0] in ("", "http", "https"):
        return parts[0] or "http", parts[1], parts[2]
    raise errors.bad_request(f'invalid request "{text}"')


def _number(port: str) -> int:
    if not port:
        return 0
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise errors.bad_request(f'invalid port "{port}"')
    return int(port)


def _first_port(pod: JsonObject) -> int:
    for container in pod["spec"].get("containers") or []:
        for port in container.get("ports") or []:
            number: int = port["containerPort"]
            return number
    return 0


def _port_names(service: JsonObject, port: str) -> set[str]:
    ports = (service.get("spec") or {}).get("ports") or []
    if not port and len(ports) == 1:
        return {ports[0].get("name") or ""}
    wanted = [one for one in ports if port in ((one.get("name") or ""), str(one["port"]))]
    if not wanted:
        message = f'no service port "{port}" found for service "{service["metadata"]["name"]}"'
        raise errors.failure(503, "ServiceUnavailable", message)
    return {one.get("name") or "" for one in wanted}
