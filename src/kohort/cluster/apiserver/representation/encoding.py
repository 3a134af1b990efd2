"""Bytes of answers: compact JSON, indented JSON, YAML in the style that Kubernetes users know, and protobuf."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from kohort.cluster.apiserver.representation.negotiation import Media
from kohort.objects.json_types import Json, JsonObject

if TYPE_CHECKING:
    import yaml

_encoder: Final = msgspec.json.Encoder()


def compact(document: Json) -> bytes:
    return _encoder.encode(document)


def encode(document: Json, media: Media) -> bytes:
    """A whole answer body."""
    if media.format == "yaml":
        return to_yaml(document)
    if media.format == "protobuf":
        return to_protobuf(document)
    return _finish(compact(document), media)


def encode_raw(raw: bytes, media: Media) -> bytes:
    """The same for a document that is JSON text already."""
    if media.format != "json":
        return encode(msgspec.json.decode(raw), media)
    return _finish(raw, media)


def yaml_list(head: JsonObject, items: Iterable[bytes]) -> bytes:
    """A list as YAML. `head` is the list without its items, each of `items` the YAML of a sequence of some of them:
    keys are sorted, and a sequence inside a mapping is not indented."""
    before = {key: value for key, value in head.items() if key < "items"}
    after = {key: value for key, value in head.items() if key > "items"}
    shown = b"".join(items)
    return b"".join((to_yaml(before), b"items:\n" if shown else b"items: []\n", shown, to_yaml(after)))


def _finish(raw: bytes, media: Media) -> bytes:
    if media.pretty:
        return msgspec.json.format(raw, indent=2)
    return raw + b"\n"


def to_protobuf(document: Json) -> bytes:
    from kohort.cluster.apiserver.schema import protobuf_encode

    return protobuf_encode.encode(document)


def to_yaml(document: Json) -> bytes:
    import yaml

    text: str = yaml.dump(document, Dumper=_dumper(), default_flow_style=False, allow_unicode=True, width=2**31 - 1)
    return text.encode()


_AMBIGUOUS: Final = frozenset(
    ["y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF"]
)
"""Words that a YAML 1.1 reader may take for booleans."""


def _dumper() -> "type[yaml.CSafeDumper]":
    global _dumper_class
    if _dumper_class is None:
        import yaml

        class Dumper(yaml.CSafeDumper):
            def ignore_aliases(self, data: Json) -> bool:
                return True

        def represent_text(dumper: "yaml.CSafeDumper", text: str) -> "yaml.Node":
            style = None
            if "\n" in text:
                style = "|"
            elif text in _AMBIGUOUS or _reads_as_other_type(dumper, text):
                style = '"'
            return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

        Dumper.add_representer(str, represent_text)
        _dumper_class = Dumper
    return _dumper_class


def _reads_as_other_type(dumper: "yaml.CSafeDumper", text: str) -> bool:
    import yaml

    tag = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return bool(tag != "tag:yaml.org,2002:str")


_dumper_class: "type[yaml.CSafeDumper] | None" = None
