"""Where on which node the log, the shell or the port of a container is.

The node agent serves the same paths as a kubelet: `/containerLogs`, `/exec`, `/attach`, `/portForward`, each followed
by namespace, pod and container. This module finds the address and puts the request together; carrying bytes is the
task of the implementation of `NodeClient`.
"""

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from kohort.cluster.apiserver.endpoints import authorization, connect_admission
from kohort.cluster.apiserver.endpoints.query_options import boolean, integer
from kohort.cluster.apiserver.endpoints.reading import missing
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.kube import clock, errors
from kohort.kube.http import Response
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.rules.simulation_labels import SIMULATED

KUBELET_PORT: Final = 10250
_ADDRESS_ORDER: Final = ("InternalIP", "Hostname", "InternalDNS", "ExternalIP", "ExternalDNS")

Query = tuple[tuple[str, str], ...]


class NodeLocation(msgspec.Struct, frozen=True):
    """A request to a node agent."""

    node: str
    host: str
    port: int
    path: str
    query: Query = ()


class NodeClient(Protocol):
    async def get(self, location: NodeLocation) -> Response:
        """The answer of the node agent; the body is an iterator, so that it can grow for ever."""
        ...


class NodeEndpoints:
    """Subresources of pods that a node answers."""

    def __init__(self, parts: ServerParts, client: NodeClient | None) -> None:
        self._parts = parts
        self._client = client

    async def log(self, call: ResourceRequest) -> Response:
        query = log_query(call, split_streams=self._parts.gates.get("PodLogsQuerySplitStreams", False))
        pod = self._pod(call)
        container = container_of(pod, call.request.param("container"))
        if not (pod.get("spec") or {}).get("nodeName"):
            return Response(204, {"content-type": "text/plain"})
        location = self._location(pod, "containerLogs", container, query)
        if self._client is None:
            raise unreachable(location, "this server has no connection to nodes")
        response = await self._client.get(location)
        response.headers["content-type"] = "text/plain"
        return response

    async def connect(self, call: ResourceRequest) -> NodeLocation:
        """Where an exec, attach or port-forward request must go, after admission agreed."""
        if call.verb != "create":
            # WebSockets begin with a GET, but what they do to a pod is not reading.
            authorization.check(self._parts.authorizer, authorization.to_create_subresource(call))
        pod = self._pod(call)
        action = call.path.subresource
        query = connect_query(call)
        container = "" if action == "portforward" else container_of(pod, call.request.param("container"))
        if not (pod.get("spec") or {}).get("nodeName"):
            raise errors.bad_request(f"pod {call.name} does not have a host assigned")
        if action != "portforward" and not any(key in ("input", "output", "error") for key, _ in query):
            raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
        await connect_admission.admit(self._parts, call)
        return self._location(pod, _NODE_PATHS[action], container, query)

    async def refuse_plain(self, call: ResourceRequest) -> Response:
        """The same request without an upgrade: what is wrong with it otherwise is said first."""
        await self.connect(call)
        raise errors.bad_request("Upgrade request required")

    def _pod(self, call: ResourceRequest) -> JsonObject:
        stored = self._parts.store.get("pods", call.namespace, call.name)
        if stored is None:
            raise missing(call)
        return call.view.document(stored)

    def _location(self, pod: JsonObject, path: str, container: str, query: Query) -> NodeLocation:
        name = pod["spec"]["nodeName"]
        stored = self._parts.store.get("nodes", "", name)
        if stored is None:
            # Upstream calls it a pod here: the request is about pods.
            raise errors.not_found("pods", name)
        host, port = address_of(stored.decode())
        metadata = pod["metadata"]
        tail = f"/{container}" if container else ""
        return NodeLocation(name, host, port, f"/{path}/{metadata['namespace']}/{metadata['name']}{tail}", query)


_NODE_PATHS: Final = {"exec": "exec", "attach": "attach", "portforward": "portForward"}


def address_of(node: JsonObject) -> tuple[str, int]:
    """Where the agent of a node listens. A simulated node has none, and its address may belong to another machine."""
    if ((node.get("metadata") or {}).get("labels") or {}).get(SIMULATED) == "true":
        words = "nothing runs on simulated nodes: they have no logs, no shells and no ports"
        raise errors.failure(503, "ServiceUnavailable", f"{node['metadata']['name']}: {words}")
    status = node.get("status") or {}
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    known = {one["type"]: one["address"] for one in status.get("addresses") or []}
    host = next((known[kind] for kind in _ADDRESS_ORDER if known.get(kind)), "")
    if not host:
        raise errors.internal(f"no preferred addresses found; known addresses: {sorted(known.values())}")
    return host, endpoint.get("Port") or KUBELET_PORT


def containers_of(pod: JsonObject) -> Iterable[str]:
    spec = pod.get("spec") or {}
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(group) or []:
            yield container["name"]


def container_of(pod: JsonObject, wanted: str) -> str:
    """The container that a request means; the only one when it names none."""
    name = pod["metadata"]["name"]
    if wanted:
        if wanted not in containers_of(pod):
            raise errors.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    own: list[str] = [container["name"] for container in (pod.get("spec") or {}).get("containers") or []]
    if len(own) == 1:
        return own[0]
    choices = f", choose one of: [{' '.join(containers_of(pod))}]" if own else ""
    raise errors.bad_request(f"a container name must be specified for pod {name}{choices}")


def log_query(call: ResourceRequest, *, split_streams: bool = False) -> Query:
    """The options of a log request, checked, in the node agent's names. `split_streams` is a feature gate."""
    request = call.request
    found: list[FieldError] = []
    query = [(flag, "true") for flag in ("follow", "previous", "timestamps") if boolean(request, flag)]
    for name, least in (("sinceSeconds", 1), ("tailLines", 0), ("limitBytes", 1)):
        value = integer(request, name)
        if value is None:
            continue
        if value < least:
            found.append(field_errors.invalid(name, value, f"must be greater than {least - 1}" if least else _NOT_LESS))
        query.append((name, str(value)))
    if request.param("sinceTime"):
        _check_time(request.param("sinceTime"))
        query.append(("sinceTime", request.param("sinceTime")))
        if request.param("sinceSeconds"):
            found.append(field_errors.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    stream = request.param("stream")
    if stream and not split_streams:
        found.append(field_errors.forbidden("stream", "may not be specified"))
    elif stream not in ("", "All", "Stdout", "Stderr"):
        found.append(field_errors.not_supported("stream", stream, ("All", "Stderr", "Stdout")))
    elif stream not in ("", "All") and request.param("tailLines"):
        detail = "`tailLines` and specific `stream` are mutually exclusive for now"
        found.append(field_errors.forbidden("[]", detail))
    if found:
        raise errors.invalid("PodLogOptions", call.name, found)
    return (*query, ("stream", stream)) if stream else tuple(query)


def _check_time(text: str) -> None:
    try:
        clock.parse_time(text)
    except ValueError:
        layout = "2006-01-02T15:04:05Z07:00"
        message = f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"'
        raise errors.bad_request(message) from None


_NOT_LESS: Final = "must be greater than or equal to 0"


def connect_query(call: ResourceRequest) -> Query:
    """The options of exec, attach and port-forward in the node agent's names."""
    request = call.request
    if call.path.subresource == "portforward":
        return tuple(("port", value) for value in request.params("ports"))
    names = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
    query = [(theirs, "1") for ours, theirs in names if boolean(request, ours)]
    return (*query, *(("command", word) for word in request.params("command")))


def unreachable(location: NodeLocation, problem: str) -> errors.ApiError:
    target = f"https://{location.host}:{location.port}{location.path}"
    return errors.failure(500, "InternalError", f'Get "{target}": {problem}')
