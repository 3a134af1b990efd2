"""Objects as text."""

from collections.abc import Iterable

import yaml

from kohort.objects.json_types import Json, JsonObject


def render(objects: Iterable[JsonObject]) -> str:
    """As one YAML stream."""
    return "".join(f"---\n{yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=120)}" for one in objects)


class _Dumper(yaml.CSafeDumper):
    """Shared parts are written out: anchors are for machines."""

    def ignore_aliases(self, data: Json) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
