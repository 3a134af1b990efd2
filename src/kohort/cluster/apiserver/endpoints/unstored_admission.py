"""Admission of objects that are sent and answered but never stored: bindings, evictions, reviews, token requests."""

import msgspec

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.endpoints.query_options import WriteOptions
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.objects.json_types import JsonObject


async def admit(
    parts: ServerParts, call: ResourceRequest, options: WriteOptions, document: JsonObject, name: str
) -> None:
    """Run admission as for a creation; it may change `document`."""
    if call.namespace:
        document.setdefault("metadata", {})["namespace"] = call.namespace
    attributes = Attributes(
        operation="CREATE",
        resource=msgspec.structs.replace(call.kind.resource, kind=document["kind"]),
        name=name,
        namespace=call.namespace,
        user=call.user,
        reader=parts.reader,
        object=document,
        subresource=call.path.subresource,
        options=options.as_object("CreateOptions"),
        dry_run=options.dry_run,
        warnings=call.warnings,
    )
    await parts.admission.mutate(attributes)
    await parts.admission.validate(attributes)
