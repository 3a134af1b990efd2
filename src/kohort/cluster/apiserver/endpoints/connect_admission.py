"""Admission of connections: exec, attach, port-forward and proxy.

Admission sees the query of such a request as an object of the kind that the subresource names, with the types that its
fields have in Kubernetes: a webhook decodes `PodAttachOptions` strictly and fails on a boolean that is a text.
"""

from typing import Final

import msgspec

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.endpoints.query_options import boolean
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.kube import errors
from kohort.objects.json_types import JsonObject

STREAM_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")


async def admit(parts: ServerParts, call: ResourceRequest) -> None:
    """Ask admission whether a connection may be made."""
    kind = call.kind.subresources[call.path.subresource].kind
    attributes = Attributes(
        operation="CONNECT",
        resource=msgspec.structs.replace(call.kind.resource, kind=kind),
        name=call.name,
        namespace=call.namespace,
        user=call.user,
        reader=parts.reader,
        object=connect_options(call),
        subresource=call.path.subresource,
        warnings=call.warnings,
    )
    await parts.admission.mutate(attributes)
    await parts.admission.validate(attributes)


def connect_options(call: ResourceRequest) -> JsonObject:
    """The options of a connection as an object; flags that are not set and empty texts are left out."""
    request, action = call.request, call.path.subresource
    options: JsonObject = {"kind": call.kind.subresources[action].kind, "apiVersion": "v1"}
    if action == "proxy":
        return options | ({"path": call.path.rest} if call.path.rest else {})
    if action == "portforward":
        ports = [_port(text) for given in request.params("ports") for text in given.split(",") if text]
        return options | ({"ports": ports} if ports else {})
    options |= {flag: True for flag in STREAM_FLAGS if boolean(request, flag)}
    if request.param("container"):
        options["container"] = request.param("container")
    if action == "exec":
        options["command"] = list(request.params("command")) or None
    return options


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise errors.bad_request(f'unable to parse "{text}" as a port: must be a number between 1 and 65535')
    return int(text)
