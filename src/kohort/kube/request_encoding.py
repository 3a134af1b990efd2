"""Encoding of requests and decoding of responses: selections, bodies, and lists."""

from enum import Enum
from functools import lru_cache
from typing import Generic

import msgspec

from kohort.kube.errors import ListMeta
from kohort.kube.object_identity import T, View
from kohort.kube.resources import Resource
from kohort.kube.watch_frames import tolerant_decode
from kohort.objects.json_types import Json, JsonObject

Body = View | JsonObject | msgspec.Struct


class PatchType(Enum):
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Page(msgspec.Struct, Generic[T]):
    """A list, or a part of one. `continue_` is the token for the rest."""

    items: list[T] = msgspec.field(default_factory=list)
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version

    @property
    def continue_(self) -> str:
        return self.metadata.continue_

    def __len__(self) -> int:
        return len(self.items)


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a resource a list or a watch is about."""

    resource: Resource
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    """Ask the server for PartialObjectMetadata instead of whole objects."""

    def query(self) -> tuple[tuple[str, str], ...]:
        pairs = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return tuple(pair for pair in pairs if pair[1])


def delete_options(
    propagation: str | None, grace_seconds: int | None, uid: str | None, version: str | None, dry_run: bool
) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if preconditions:
        options["preconditions"] = preconditions
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def document(resource: Resource, obj: Body, subresource: str) -> JsonObject:
    """The object as it goes over the wire. Views need not carry apiVersion and kind; a subresource with an own kind
    (Scale, Eviction, Binding) must."""
    document: JsonObject = obj if isinstance(obj, dict) else msgspec.to_builtins(obj)
    if "kind" in document or subresource not in ("", "status"):
        return document
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}


def namespace_of(document: JsonObject) -> str:
    namespace: str = document.get("metadata", {}).get("namespace", "")
    return namespace


def decode(body: bytes, view: Json) -> Json:
    return tolerant_decode(_decoder(view), body)


def decode_page(body: bytes, view: Json, resource: Resource) -> Page[Json]:
    """Items of typed lists come without apiVersion and kind; whole objects get them back."""
    page = tolerant_decode(_page_decoder(view), body)
    for item in page.items:
        if not isinstance(item, dict):
            break
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
    return page


@lru_cache(maxsize=256)
def _decoder(view: Json) -> "msgspec.json.Decoder[Json]":
    return msgspec.json.Decoder(view)


@lru_cache(maxsize=256)
def _page_decoder(view: Json) -> "msgspec.json.Decoder[Page[Json]]":
    return msgspec.json.Decoder(Page[view])
