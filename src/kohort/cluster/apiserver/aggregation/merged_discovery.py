"""Discovery documents that include the group versions of aggregated servers."""

from collections.abc import Iterable
from typing import Final

from kohort.objects.json_types import Json, JsonObject

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def version_item(answer: Json, group: str, version: str) -> JsonObject | None:
    """The entry of a group version in an aggregated discovery document; None when it is another kind of document."""
    if not isinstance(answer, dict) or answer.get("kind") != "APIGroupDiscoveryList":
        return None
    for item in answer.get("items") or ():
        if (item.get("metadata") or {}).get("name") == group:
            for found in item.get("versions") or ():
                if found.get("version") == version:
                    return {**found, "freshness": "Current"}
    return None


def version_item_of_list(resources: JsonObject, version: str) -> JsonObject:
    """The same, made of an APIResourceList: servers before 1.27 have nothing else."""
    items: dict[str, JsonObject] = {}
    for one in resources.get("resources") or ():
        plural, _, subresource = one["name"].partition("/")
        kind = {"group": one.get("group") or "", "version": one.get("version") or "", "kind": one["kind"]}
        if subresource:
            shown = {"subresource": subresource, "responseKind": kind, "verbs": one.get("verbs") or []}
            items.setdefault(plural, {"resource": plural}).setdefault("subresources", []).append(shown)
            continue
        item: JsonObject = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if one.get("namespaced") else "Cluster",
            "singularResource": one.get("singularName") or "",
            "verbs": one.get("verbs") or [],
        }
        item |= {key: one[key] for key in ("shortNames", "categories") if one.get(key)}
        if "subresources" in items.get(plural, {}):
            item["subresources"] = items[plural]["subresources"]
        items[plural] = item
    return {"version": version, "resources": list(items.values()), "freshness": "Current"}


def merged_swagger(own: JsonObject, others: Iterable[tuple[str, JsonObject]]) -> JsonObject:
    """Our Swagger 2 document, with the paths below the given prefixes from others, and what those refer to."""
    paths, definitions = dict(own["paths"]), dict(own["definitions"])
    for prefix, document in others:
        found = document.get("paths") or {}
        paths |= {path: item for path, item in found.items() if path.startswith(prefix)}
        for name, schema in (document.get("definitions") or {}).items():
            definitions.setdefault(name, schema)
    return {**own, "paths": dict(sorted(paths.items())), "definitions": dict(sorted(definitions.items()))}
