"""`set image`: another image for containers of a workload."""

from collections.abc import Mapping

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.edit import next_command_text, resource_of
from kohort.cli.actions.output_formats import show
from kohort.cli.connection import Refusal
from kohort.inspection.release_subject import Subject, title
from kohort.inspection.served_revisions import CHANGE_CAUSE
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.kube.client import Client, PatchType
from kohort.objects.image_reference import is_image_reference
from kohort.objects.json_types import JsonObject
from kohort.rules.group_template import leader_field

FIRST = ""
"""Stands for the first container."""


async def set_images(
    client: Client, namespace: str, name: str, wanted: Mapping[str, str], role: str, change_cause: str, dry_run: bool
) -> int:
    """`wanted` are images by container; the empty name means the first container."""
    found = await snapshot_reader.subject(client, namespace, name)
    patch = image_patch(found, wanted, role)
    if not patch:
        show([f"{name} has {', '.join(wanted.values())} already"])
        return 0
    metadata = found.metadata
    unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version}
    noted = [_noted(found, change_cause)] if change_cause else []
    await client.patch(
        resource_of(found),
        metadata.name,
        metadata.namespace,
        [unchanged, *noted, *patch],
        PatchType.JSON,
        dry_run=dry_run,
    )
    verb = "would get" if dry_run else "gets"
    show([f"{name} {verb} {', '.join(wanted.values())}{next_command_text(found, dry_run)}"])
    return 0


def image_patch(subject: Snapshot | PlainWorkload, wanted: Mapping[str, str], role: str = "all") -> list[JsonObject]:
    """Only what changes. Leaders and workers may have different containers: every name must be found once."""
    for image in wanted.values():
        if not is_image_reference(image):
            raise Refusal(f"{image!r} is not a reference to an image, such as model:2 or example.com/llm/model:2")
    missing = set(wanted)
    patch: list[JsonObject] = []
    names: dict[str, None] = {}
    for path, template in _templates(subject, role).items():
        for part in ("containers", "initContainers"):
            for index, container in enumerate((template.get("spec") or {}).get(part) or ()):
                names[container["name"]] = None
                key = FIRST if FIRST in wanted and part == "containers" and index == 0 else container["name"]
                if key not in wanted:
                    continue
                missing.discard(key)
                if container.get("image") != wanted[key]:
                    place = f"{path}/spec/{part}/{index}/image"
                    patch.append({"op": "add", "path": place, "value": wanted[key]})
    if wanted.get(FIRST) in names:
        name = wanted[FIRST]
        raise Refusal(f"{name} is a container of {title(subject)}, and no image is given for it: write {name}=IMAGE")
    if missing:
        raise Refusal(f"{title(subject)} has no container {', '.join(sorted(missing))}; there are: {', '.join(names)}")
    return patch


def _templates(subject: Snapshot | PlainWorkload, role: str) -> dict[str, JsonObject]:
    if isinstance(subject, PlainWorkload):
        if role != "all":
            raise Refusal(f"{title(subject)} has no {role}s; leave --role out")
        return {"/spec/template": subject.template}
    raw = subject.group_set.template.raw
    roles = {"leader": "leaderTemplate", "worker": "workerTemplate"}
    if role == "leader" and leader_field(raw) != roles[role]:
        raise Refusal(f"{title(subject)} makes leaders of its workerTemplate; leave --role out")
    chosen = [field for each, field in roles.items() if role in ("all", each) and raw.get(field)]
    return {f"/spec/leaderWorkerTemplate/{field}": raw[field] for field in chosen}


def _noted(subject: Subject, cause: str) -> JsonObject:
    annotations = {**subject.metadata.annotations, CHANGE_CAUSE: cause}
    return {"op": "add", "path": "/metadata/annotations", "value": annotations}
