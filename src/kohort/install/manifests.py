"""Everything that is installed, as one list of objects: the only source of plain manifests and Helm chart."""

from collections.abc import Iterable

import yaml

from kohort.install import roles, workload
from kohort.install.options import Options
from kohort.objects.jsontypes import Json, JsonObject


def manifests(options: Options) -> list[JsonObject]:
    """In the order in which they can be created."""
    return [
        workload.place(options),
        *workload.definitions(options),
        *roles.access(options),
        *roles.gang_access(options),
        workload.configuration(options),
        *workload.certificate_store(options),
        *workload.services(options),
        workload.deployment(options),
        *workload.surroundings(options),
        *([workload.monitor(options)] if options.service_monitor else []),
        *workload.webhooks(options),
    ]


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
