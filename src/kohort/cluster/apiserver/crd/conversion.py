"""Objects of one version shown as another.

Without a webhook, versions differ in nothing but their name, and in what their schemas let through. With one, the
conversion is a network call, but storage is read in places that cannot wait for one. So a conversion that is not known
yet is an exception: whoever handles the request waits for `ConversionNeeded.resolve` and starts again, and finds the
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

from kohort.cluster.apiserver.admission.model import Reader
from kohort.cluster.apiserver.schema import decode
from kohort.cluster.apiserver.schema.defaults import apply_defaults
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.kube import errors
from kohort.objects.jsontypes import Json, JsonObject

REMEMBERED: Final = 20_000
PER_REVIEW: Final = 500
_encode: Final = msgspec.json.Encoder(order="sorted").encode

Convert = Callable[[JsonObject], JsonObject]
T = TypeVar("T")


class ReviewClient(Protocol):
    """Posts a review to the webhook of a definition."""

    def post(self, client_config: JsonObject, body: bytes, timeout: float) -> Awaitable[bytes]: ...


class Versions:
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
            lambda obj: self._converted(obj, version, self.storage),
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

    def _converted(self, obj: JsonObject, source: str, target: str) -> JsonObject:
        api_version = f"{self._group}/{target}"
        if self._converter is not None:
            obj = self._converter.convert(obj, api_version)
        else:
            obj = {**obj, "apiVersion": api_version}
        if self._sources[source] == self._sources[target]:
            return obj
        pruned = copy.deepcopy(obj)
        decode.conform(pruned, self.schemas[target]())
        return pruned


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

    def __init__(self, converter: "Converter", obj: JsonObject, api_version: str) -> None:
        super().__init__(f"{obj.get('apiVersion')} must be converted to {api_version}")
        self._converter = converter
        self._object = obj
        self._api_version = api_version

    async def resolve(self, reader: Reader, client: ReviewClient) -> None:
        """Ask the webhook, for all stored objects at once: a list would come back for each of them otherwise."""
        siblings = reader.list(self._converter.bucket)
        await self._converter.ask([self._object, *siblings], self._api_version, client)


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

    def convert(self, obj: JsonObject, api_version: str) -> JsonObject:
        if obj.get("apiVersion") == api_version:
            return obj
        key = _key(obj, api_version)
        converted = self._known.get(key)
        if converted is None:
            raise ConversionNeeded(self, obj, api_version)
        self._known.move_to_end(key)
        result = _with_metadata_of(obj, converted)
        # What was just converted for storage is read back for the answer: that must not need another conversion,
        # since a write that is done cannot start again.
        self._known.setdefault(_key(result, obj["apiVersion"]), obj)
        return result

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
        try:
            answer = msgspec.json.decode(await client.post(self._client_config, msgspec.json.encode(review), 30.0))
            return self._checked(answer.get("response") or {}, uid, objects, api_version)
        except (OSError, ValueError, TypeError, AttributeError, msgspec.DecodeError) as error:
            gvk = f"{objects[0].get('apiVersion')}, Kind={self._kind}"
            raise errors.internal(f"conversion webhook for {gvk} failed: {error}") from None

    def _checked(self, response: JsonObject, uid: str, objects: list[JsonObject], api_version: str) -> list[JsonObject]:
        if response.get("uid") != uid:
            raise ValueError(f"expected response.uid={uid!r}, got {response.get('uid')!r}")
        result = response.get("result") or {}
        if result.get("status") != "Success":
            raise ValueError(result.get("message") or "no message")
        converted: list[JsonObject] = response.get("convertedObjects") or []
        if len(converted) != len(objects):
            raise ValueError(f"webhook returned {len(converted)} objects, expected {len(objects)}")
        for index, (new, old) in enumerate(zip(converted, objects, strict=True)):
            if new.get("apiVersion") != api_version or new.get("kind") != old.get("kind"):
                expected = f"{api_version}, Kind={old.get('kind')}"
                raise ValueError(f"webhook returned the wrong kind at index {index}, expected {expected}")
            for field in ("name", "namespace", "uid"):
                if new["metadata"].get(field) != old["metadata"].get(field):
                    raise ValueError(f"webhook changed metadata.{field} at index {index}")
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
