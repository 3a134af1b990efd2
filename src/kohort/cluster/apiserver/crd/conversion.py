"""Objects of one version shown as another.

Without a webhook, versions differ in nothing but their name, and in what their schemas let through. With one, the
conversion is a network call, but storage is read in places that cannot wait for one. So a conversion that is not known
yet is an exception: the server waits for `ConversionNeeded.resolve` and starts again, and finds the
answer in the converter's memory then. What a webhook may not change (all of metadata but labels and annotations) is not
part of what is remembered, so the second attempt may stamp an object anew.
"""

import copy
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from kohort.cluster.apiserver.schema import decode
from kohort.cluster.apiserver.schema.defaults import apply_defaults
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube import errors
from kohort.objects.json_types import Json, JsonObject

REMEMBERED: Final = 20_000
PER_REVIEW: Final = 500
_encode: Final = msgspec.json.Encoder(order="sorted").encode

Convert = Callable[[JsonObject], JsonObject]
T = TypeVar("T")


class ReviewClient(Protocol):
    """Posts a review to the webhook of a definition."""

    def post(self, client_config: JsonObject, body: bytes, timeout: float) -> Awaitable[bytes]: ...


class DefinitionVersions:
    """The versions of a definition, and how an object gets from one to the other.

    An object that changes its version loses what the schema of the new one does not know. Defaults are those of the
    version that it is stored in; what it is shown as adds none.
    """

    def __init__(self, crd: JsonObject) -> None:
        spec = crd["spec"]
        self._group: str = spec["group"]
        self._sources = {version["name"]: _source(version) for version in spec["versions"]}
        self.schemas = {name: _compiled(source) for name, source in self._sources.items()}
        self.storage: str = next((one["name"] for one in spec["versions"] if one.get("storage")), "")
        by_webhook = (spec.get("conversion") or {}).get("strategy") == "Webhook"
        self._converter = Converter(crd) if by_webhook else None

    def conversions(self, version: str) -> tuple[Convert | None, Convert | None]:
        """From the storage version to `version` and back; nothing for the storage version itself."""
        if self.storage == version:
            return None, None
        return (
            lambda obj: self._converted(obj, self.storage, version),
            lambda obj: self._converted(obj, version, self.storage, lambda new: self._as_stored(new, version)),
        )

    def stored_defaults(self, version: str) -> Callable[[JsonObject], None] | None:
        """Fills in the defaults of the storage version, where they are not those of `version`."""
        if self._sources[version] == self._sources[self.storage]:
            return None
        return lambda obj: apply_defaults(obj, self.schemas[self.storage]())

    def refreshed(self, obj: JsonObject, version: str) -> JsonObject:
        """An object that an older definition shaped, in a version of the present one. Changes what it is given."""
        written = obj["apiVersion"].rpartition("/")[2]
        if written not in self.schemas:
            written = self.storage
        schema = self.schemas[written]()
        decode.conform(obj, schema)
        apply_defaults(obj, schema)
        return obj if written == version else self._converted(obj, written, version)

    def _converted(self, obj: JsonObject, source: str, target: str, as_stored: Convert | None = None) -> JsonObject:
        api_version = f"{self._group}/{target}"
        if self._converter is not None:
            obj = self._converter.convert(obj, api_version, as_stored)
        else:
            obj = {**obj, "apiVersion": api_version}
        return self._pruned(obj, source, target)

    def _pruned(self, obj: JsonObject, source: str, target: str) -> JsonObject:
        if self._sources[source] == self._sources[target]:
            return obj
        pruned = copy.deepcopy(obj)
        decode.conform(pruned, self.schemas[target]())
        return pruned

    def _as_stored(self, obj: JsonObject, version: str) -> JsonObject:
        """What becomes of an object that a webhook has just converted from `version` for storage."""
        stored = self._pruned(obj, version, self.storage)
        add_defaults = self.stored_defaults(version)
        if add_defaults is not None:
            add_defaults(stored)
        return stored


def _source(version: JsonObject) -> JsonObject:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}


def _compiled(source: JsonObject) -> Callable[[], Node]:
    return cache(lambda: compile_crd_schema(source))


MAX_ATTEMPTS: Final = 20
"""A request may need several conversions, one after the other; there is an end to it all the same."""


async def with_conversions(attempt: Callable[[], Awaitable[T]], resolve: "Resolve") -> T:
    """What an attempt yields once every conversion that it asks for has been made."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return await attempt()
        except ConversionNeeded as need:
            await resolve(need)
    raise errors.internal("the object changes faster than it can be converted")


class ConversionNeeded(Exception):
    """An object has to be converted by its webhook before the request can go on."""

    def __init__(
        self, converter: "Converter", obj: JsonObject, api_version: str, as_stored: Convert | None = None
    ) -> None:
        super().__init__(f"{obj.get('apiVersion')} must be converted to {api_version}")
        self._converter = converter
        self._object = obj
        self._api_version = api_version
        self._as_stored = as_stored

    async def resolve(self, reader: Reader, client: ReviewClient) -> None:
        """Ask the webhook, for all stored objects at once: a list would come back for each of them otherwise."""
        siblings = reader.list(self._converter.bucket)
        await self._converter.ask([self._object, *siblings], self._api_version, client)
        if self._as_stored is not None:
            # What is converted for storage is read back for the answer. That must not need another conversion, since a
            # write that is done cannot start again.
            stored = self._as_stored(self._converter.convert(self._object, self._api_version))
            await self._converter.ask([stored], self._object["apiVersion"], client)


Resolve: TypeAlias = Callable[[ConversionNeeded], Awaitable[None]]


class Converter:
    """The webhook of one definition and what it has answered."""

    def __init__(self, crd: JsonObject) -> None:
        spec = crd["spec"]
        webhook = spec["conversion"]["webhook"]
        self.bucket = f"{spec['names']['plural']}.{spec['group']}"
        self._kind = spec["names"]["kind"]
        self._client_config: JsonObject = webhook["clientConfig"]
        self._review = "v1" if "v1" in webhook.get("conversionReviewVersions", ()) else "v1beta1"
        self._known: OrderedDict[bytes, JsonObject] = OrderedDict()

    def convert(self, obj: JsonObject, api_version: str, as_stored: Convert | None = None) -> JsonObject:
        """`as_stored` says what is made of the result before it is stored, if that is what it is for."""
        if obj.get("apiVersion") == api_version:
            return obj
        key = _key(obj, api_version)
        converted = self._known.get(key)
        if converted is None:
            raise ConversionNeeded(self, obj, api_version, as_stored)
        self._known.move_to_end(key)
        return _with_metadata_of(obj, converted)

    async def ask(self, objects: Iterable[JsonObject], api_version: str, client: ReviewClient) -> None:
        wanted = {_key(obj, api_version): obj for obj in objects if obj.get("apiVersion") != api_version}
        missing = [(key, obj) for key, obj in wanted.items() if key not in self._known]
        for start in range(0, len(missing), PER_REVIEW):
            part = missing[start : start + PER_REVIEW]
            for (key, _), converted in zip(part, await self._converted(part, api_version, client), strict=True):
                self._known[key] = converted
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def _converted(
        self, part: list[tuple[bytes, JsonObject]], api_version: str, client: ReviewClient
    ) -> list[JsonObject]:
        from uuid import uuid4

        uid = str(uuid4())
        objects = [obj for _, obj in part]
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{self._review}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
            "response": None,
        }
        who = f"conversion webhook for {objects[0].get('apiVersion')}, Kind={self._kind}"
        try:
            answer = msgspec.json.decode(await client.post(self._client_config, msgspec.json.encode(review), 30.0))
            return _checked(answer.get("response") or {}, uid, objects, api_version)
        except BadConversionResponse as error:
            raise errors.failure(500, "", f"{who} {error}") from None
        except (OSError, ValueError, TypeError, AttributeError, msgspec.DecodeError) as error:
            problem = str(error).removeprefix("failed to call webhook: ")
            raise errors.failure(500, "", f"{who} failed: {problem}") from None


class BadConversionResponse(Exception):
    """A conversion webhook answered with something else than the converted objects."""


def _checked(response: JsonObject, uid: str, objects: list[JsonObject], api_version: str) -> list[JsonObject]:
    if response.get("uid") != uid:
        raise BadConversionResponse(f'failed: expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise BadConversionResponse(f"failed: {result.get('message') or 'no message'}")
    converted: list[JsonObject] = response.get("convertedObjects") or []
    if len(converted) != len(objects):
        raise BadConversionResponse(f"returned {len(converted)} objects, expected {len(objects)}")
    for index, (new, old) in enumerate(zip(converted, objects, strict=True)):
        problem = ""
        if new.get("apiVersion") != api_version:
            problem = f"invalid groupVersion (expected {api_version}, received {new.get('apiVersion')})"
        elif new.get("kind") != old.get("kind"):
            problem = f"invalid kind (expected {old.get('kind')}, received {new.get('kind')})"
        if problem:
            raise BadConversionResponse(f"returned invalid object at index {index}: {problem}")
        for field, title in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
            before, after = old["metadata"].get(field) or "", new["metadata"].get(field) or ""
            if before != after:
                raise BadConversionResponse(f"returned invalid object: must have the same {title}: {before} != {after}")
    return converted


def _key(obj: JsonObject, api_version: str) -> bytes:
    """What a conversion depends on."""
    metadata = obj.get("metadata") or {}
    content: Json = {key: value for key, value in obj.items() if key != "metadata"}
    visible = {key: metadata.get(key) for key in ("name", "namespace", "labels", "annotations")}
    return hashlib.blake2b(_encode([api_version, visible, content]), digest_size=16).digest()


def _with_metadata_of(obj: JsonObject, converted: JsonObject) -> JsonObject:
    """The converted content under the metadata of the original; labels and annotations may have been converted."""
    metadata = dict(obj.get("metadata") or {})
    for key in ("labels", "annotations"):
        metadata.pop(key, None)
        value = (converted.get("metadata") or {}).get(key)
        if value:
            metadata[key] = dict(value)
    private: JsonObject = msgspec.json.decode(msgspec.json.encode(converted))
    private["metadata"] = metadata
    return private
