"""Builds the pods and claims of a StatefulSet."""

import msgspec

from kohort.cluster.workloads.controller_ref import controller_reference
from kohort.objects import meta, well_known_names
from kohort.objects.json_types import JsonObject
from kohort.rules.group_identity import parse_pod_name

POD_NAME_LABEL = well_known_names.STATEFUL_SET_POD_NAME
POD_INDEX_LABEL = well_known_names.POD_INDEX
REVISION_LABEL = well_known_names.CONTROLLER_REVISION_HASH


def pod_name(set_name: str, ordinal: int) -> str:
    return f"{set_name}-{ordinal}"


def claim_name(template_name: str, set_name: str, ordinal: int) -> str:
    return f"{template_name}-{set_name}-{ordinal}"


def claims_of(set_object: JsonObject, ordinal: int) -> list[str]:
    """The names of the claims of one pod."""
    templates = set_object["spec"].get("volumeClaimTemplates") or []
    set_name = set_object["metadata"]["name"]
    return [claim_name(one["metadata"]["name"], set_name, ordinal) for one in templates]


def ordinal_of(name: str, set_name: str) -> int | None:
    """The number in a pod's name, or None when the name is not one that the set gives."""
    found = parse_pod_name(name)
    return found.ordinal if found is not None and name == pod_name(set_name, found.ordinal) else None


def build_pod(set_object: JsonObject, template: JsonObject, ordinal: int, revision: str) -> JsonObject:
    """A pod of the set. `template` is that of `revision`, which need not be the one in the set's spec today."""
    set_name = set_object["metadata"]["name"]
    name = pod_name(set_name, ordinal)
    meta = template.get("metadata") or {}
    spec = dict(template.get("spec") or {})
    spec["hostname"] = name
    service = set_object["spec"].get("serviceName")
    if service:
        spec["subdomain"] = service
    spec["volumes"] = with_claims(set_object, spec.get("volumes") or [], ordinal)
    if not spec["volumes"]:
        del spec["volumes"]
    metadata: JsonObject = {
        "name": name,
        "generateName": f"{set_name}-",
        "namespace": set_object["metadata"]["namespace"],
        "labels": {
            **(meta.get("labels") or {}),
            REVISION_LABEL: revision,
            POD_NAME_LABEL: name,
            POD_INDEX_LABEL: str(ordinal),
        },
        "ownerReferences": [controller_reference(set_object)],
    }
    for key in ("annotations", "finalizers"):
        if meta.get(key):
            metadata[key] = meta[key]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def with_claims(set_object: JsonObject, volumes: list[JsonObject], ordinal: int) -> list[JsonObject]:
    """The volumes of a pod: one for each claim template, then those of the template that do not share a name."""
    templates = set_object["spec"].get("volumeClaimTemplates") or []
    set_name = set_object["metadata"]["name"]
    claimed: list[JsonObject] = [
        {
            "name": claim["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(claim["metadata"]["name"], set_name, ordinal)},
        }
        for claim in templates
    ]
    names = {volume["name"] for volume in claimed}
    return claimed + [volume for volume in volumes if volume["name"] not in names]


def build_claims(set_object: JsonObject, ordinal: int) -> list[JsonObject]:
    """The claims that a pod of the set needs."""
    return [_build_claim(set_object, claim, ordinal) for claim in set_object["spec"].get("volumeClaimTemplates") or []]


def _build_claim(set_object: JsonObject, template: JsonObject, ordinal: int) -> JsonObject:
    meta = template.get("metadata") or {}
    selector = set_object["spec"]["selector"].get("matchLabels") or {}
    metadata: JsonObject = {
        "name": claim_name(meta["name"], set_object["metadata"]["name"], ordinal),
        "namespace": set_object["metadata"]["namespace"],
        "labels": {**(meta.get("labels") or {}), **selector},
    }
    for key in ("annotations", "finalizers"):
        if meta.get(key):
            metadata[key] = meta[key]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


class Owner(msgspec.Struct, frozen=True):
    """The set or pod that may own a claim."""

    api_version: str
    kind: str
    name: str
    uid: str

    def named_by(self, reference: JsonObject) -> bool:
        return (reference["apiVersion"], reference["kind"], reference["name"]) == (
            self.api_version,
            self.kind,
            self.name,
        )

    def reference(self) -> JsonObject:
        return meta.controller_reference(self.api_version, self.kind, self.name, self.uid)


def claim_owners(
    references: list[JsonObject], set_owner: Owner, pod: Owner, *, when_deleted: str, when_scaled: str, condemned: bool
) -> list[JsonObject]:
    """The owner references that a claim must have; equal to `references` when they are right already.

    | whenDeleted | whenScaled | pod in range | pod condemned |
    |---|---|---|---|
    | Retain | Retain | none | none |
    | Delete | Retain | the set | the set |
    | Retain | Delete | none | the pod |
    | Delete | Delete | the set | the pod |

    A claim that belongs to an earlier set or pod of the same name, or to another controller, is not taken over.
    """
    if any(owner.named_by(one) and one["uid"] != owner.uid for one in references for owner in (set_owner, pod)):
        return references
    foreign = [one for one in references if not (set_owner.named_by(one) or pod.named_by(one))]
    wanted: Owner | None = None
    if when_scaled == "Delete" and condemned:
        wanted = pod
    elif when_deleted == "Delete":
        wanted = set_owner
    retained = when_deleted != "Delete" and when_scaled != "Delete"
    if not retained and any(one.get("controller") for one in foreign):
        return foreign
    ours = [one for one in references if one not in foreign]
    if wanted is None:
        return foreign if ours else references
    if len(ours) == 1 and ours[0]["uid"] == wanted.uid and ours[0].get("controller"):
        return references
    return [*foreign, wanted.reference()]
