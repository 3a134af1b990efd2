"""When two pod templates of Deployments and ReplicaSets are the same.

As in Kubernetes: typed values are compared, so the spelling of a quantity and a field that is set to what Go leaves out
do not count, and the label that the Deployment controller adds to its ReplicaSets is taken off both sides. A template
whose author wrote that label is therefore the same as one without it.
"""

import copy
from collections.abc import Collection
from typing import Final

from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.rules.canonical_form import POD_TEMPLATE, canonical_struct

TEMPLATE_HASH: Final = well_known_names.POD_TEMPLATE_HASH


def pod_template_content(
    template: JsonObject, *, without_labels: Collection[str] = (), without_annotations: Collection[str] = ()
) -> JsonObject:
    """A template as it counts for equality: canonical, without `pod-template-hash` and without the named metadata."""
    result: JsonObject = copy.copy(template)
    metadata = result["metadata"] = {**(template.get("metadata") or {})}
    for part, names in (("labels", {TEMPLATE_HASH, *without_labels}), ("annotations", without_annotations)):
        metadata[part] = {name: value for name, value in (metadata.get(part) or {}).items() if name not in names}
    return canonical_struct(result, POD_TEMPLATE)


def same_pod_template(one: JsonObject, other: JsonObject) -> bool:
    return pod_template_content(one) == pod_template_content(other)
