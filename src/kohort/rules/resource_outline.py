"""What has to be remembered of a template to tell later whether an edit of it changes cpu and memory alone.

A release compares the template that a set has now with the one that it had when it was held. The whole template can be
too large for an annotation, so only this is kept: a fingerprint of everything but cpu and memory, and the containers
with their resources. `classify_template_edit` gives the same answer for outlines as for the templates themselves.
"""

import hashlib
from typing import Final

from kohort.objects.json_types import JsonObject
from kohort.rules.canonical_form import encode
from kohort.rules.group_template import revision_content, with_default_template
from kohort.rules.resource_edit import InPlaceEdit, classify_template_edit, without_amounts

_TEMPLATES: Final = ("leaderTemplate", "workerTemplate")
_CONTAINERS: Final = ("containers", "initContainers")
_KEPT: Final = ("name", "restartPolicy", "resources")


def resource_outline(spec: JsonObject) -> JsonObject:
    """The outline of the part of a set's spec that makes pods, with defaults filled in."""
    content = revision_content(with_default_template(spec))["spec"]
    template = content["leaderWorkerTemplate"]
    rest = {**content, "leaderWorkerTemplate": without_amounts(template)}
    outline: JsonObject = {"rest": hashlib.sha256(encode(rest)).hexdigest()[:16]}
    for name in _TEMPLATES:
        if template.get(name):
            outline[name] = {"spec": _outline_of_pod(template[name].get("spec") or {})}
    return outline


def changes_only_resources(outline: JsonObject, spec: JsonObject) -> bool:
    """Whether running pods of a set with this outline can get the template of `spec` without being recreated."""
    return isinstance(classify_template_edit(outline, resource_outline(spec)), InPlaceEdit)


def _outline_of_pod(spec: JsonObject) -> JsonObject:
    outline: JsonObject = {"resources": spec["resources"]} if spec.get("resources") else {}
    for part in _CONTAINERS:
        if spec.get(part):
            outline[part] = [{key: one[key] for key in _KEPT if key in one} for one in spec[part]]
    return outline
