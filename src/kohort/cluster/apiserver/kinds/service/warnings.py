"""Warnings about fields of services that are accepted but have no effect, or are deprecated."""

from collections.abc import Iterator

from kohort.cluster.apiserver.schema.field_checks import address_warnings, network_warnings
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

_OLD_HINTS = well_known_names.TOPOLOGY_HINTS
_HINTS = well_known_names.TOPOLOGY_MODE


def service_warnings(service: JsonObject) -> list[str]:
    return [*_annotations(service.get("metadata") or {}), *_ignored(service["spec"]), *_written_oddly(service["spec"])]


def _annotations(metadata: JsonObject) -> Iterator[str]:
    if _OLD_HINTS in (metadata.get("annotations") or {}):
        yield f"annotation {_OLD_HINTS} is deprecated, please use {_HINTS} instead"


def _ignored(spec: JsonObject) -> Iterator[str]:
    kind, external = spec.get("type"), spec.get("externalIPs")
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if external:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    elif external and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    elif external:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _written_oddly(spec: JsonObject) -> Iterator[str]:
    for field in ("clusterIPs", "externalIPs"):
        for index, address in enumerate(spec.get(field) or ()):
            if address != "None":
                yield from address_warnings(f"spec.{field}[{index}]", address)
    if spec.get("loadBalancerIP"):
        yield from address_warnings("spec.loadBalancerIP", spec["loadBalancerIP"])
    for index, network in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from network_warnings(f"spec.loadBalancerSourceRanges[{index}]", network)
