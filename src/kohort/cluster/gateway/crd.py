"""Definitions of the Gateway API kinds, for clusters that have none.

They define the fields that are served here and keep all others of a manifest, so manifests for other implementations
can be applied. As in the official ones, versions v1, which is stored, and v1beta1 are the same. A cluster that has the
official definitions keeps them.
"""

from typing import Final

from kohort.cluster.gateway.views import CONTROLLER, GROUP
from kohort.objects import well_known_names
from kohort.objects.json_types import Json, JsonObject

CLASS: Final = "kohort"
STORED: Final = "v1"
_TEXT: Final[JsonObject] = {"type": "string"}
_ANYTHING: Final[JsonObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definitions() -> list[JsonObject]:
    accepted = _column("Accepted", '.status.conditions[?(@.type=="Accepted")].status')
    programmed = _column("Programmed", '.status.conditions[?(@.type=="Programmed")].status')
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    return [
        _definition(
            "GatewayClass",
            "gatewayclasses",
            "gc",
            "Cluster",
            [_column("Controller", ".spec.controllerName"), accepted, age],
            _object({"controllerName": _TEXT}, required=("controllerName",)),
        ),
        _definition(
            "Gateway",
            "gateways",
            "gtw",
            "Namespaced",
            [
                _column("Class", ".spec.gatewayClassName"),
                _column("Address", ".status.addresses[*].value"),
                programmed,
                age,
            ],
            _gateway(),
        ),
        _definition(
            "HTTPRoute", "httproutes", "", "Namespaced", [_column("Hostnames", ".spec.hostnames"), age], _route()
        ),
        _definition("ReferenceGrant", "referencegrants", "refgrant", "Namespaced", [age], _grant(), status=False),
    ]


def gateway_class() -> JsonObject:
    return {"metadata": {"name": CLASS}, "spec": {"controllerName": CONTROLLER}}


def _definition(
    kind: str, plural: str, short: str, scope: str, columns: list[JsonObject], spec: JsonObject, *, status: bool = True
) -> JsonObject:
    properties = {"spec": spec, "status": _ANYTHING} if status else {"spec": spec}
    schema = {"type": "object", "properties": properties, "required": ["spec"]}
    names: JsonObject = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    names["categories"] = ["gateway-api"]
    if short:
        names["shortNames"] = [short]
    versions: list[JsonObject] = [
        {
            "name": name,
            "served": True,
            "storage": name == STORED,
            "subresources": {"status": {}} if status else {},
            "additionalPrinterColumns": columns,
            "schema": {"openAPIV3Schema": schema},
        }
        for name in (STORED, "v1beta1")
    ]
    approved = {well_known_names.API_APPROVED: "https://github.com/kubernetes-sigs/gateway-api"}
    return {
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": approved},
        "spec": {"group": GROUP, "names": names, "scope": scope, "versions": versions},
    }


def _column(name: str, path: str) -> JsonObject:
    return {"name": name, "type": "string", "jsonPath": path}


def _object(properties: JsonObject, *, required: tuple[str, ...] = ()) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}
    return {**schema, "required": list(required)} if required else schema


def _list(items: JsonObject, **more: Json) -> JsonObject:
    return {"type": "array", "items": items, **more}


def _choice(*values: str, default: str = "") -> JsonObject:
    return {"type": "string", "enum": list(values), **({"default": default} if default else {})}


def _integer(lowest: int, highest: int, **more: Json) -> JsonObject:
    return {"type": "integer", "format": "int32", "minimum": lowest, "maximum": highest, **more}


def _gateway() -> JsonObject:
    namespaces = _object({"from": _choice("All", "Selector", "Same", "None", default="Same"), "selector": _ANYTHING})
    kinds = _list(_object({"group": {**_TEXT, "default": GROUP}, "kind": _TEXT}, required=("kind",)), maxItems=8)
    allowed = _object({"namespaces": namespaces, "kinds": kinds})
    certificate = _object(
        {"group": _TEXT, "kind": _TEXT, "name": _TEXT, "namespace": _TEXT},
        required=("name",),
    )
    tls = _object(
        {
            "mode": _choice("Terminate", "Passthrough", default="Terminate"),
            "certificateRefs": _list(certificate, maxItems=64),
        }
    )
    listener = _object(
        {
            "name": _TEXT,
            "hostname": _TEXT,
            "port": _integer(1, 65535),
            "protocol": _TEXT,
            "tls": tls,
            "allowedRoutes": allowed,
        },
        required=("name", "port", "protocol"),
    )
    listeners = _list(
        listener, maxItems=64, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    )
    return _object({"gatewayClassName": _TEXT, "listeners": listeners}, required=("gatewayClassName", "listeners"))


def _route() -> JsonObject:
    parent = _object(
        {
            "group": {**_TEXT, "default": GROUP},
            "kind": {**_TEXT, "default": "Gateway"},
            "namespace": _TEXT,
            "name": _TEXT,
            "sectionName": _TEXT,
            "port": _integer(1, 65535),
        },
        required=("name",),
    )
    return _object(
        {
            "parentRefs": _list(parent, maxItems=32),
            "hostnames": _list(_TEXT, maxItems=16),
            "rules": _list(_rule(), maxItems=16),
        }
    )


def _rule() -> JsonObject:
    backend = _object(
        {
            "group": {**_TEXT, "default": ""},
            "kind": {**_TEXT, "default": "Service"},
            "namespace": _TEXT,
            "name": _TEXT,
            "port": _integer(1, 65535),
            "weight": _integer(0, 1_000_000, default=1),
            "filters": _list(_filter(), maxItems=16),
        },
        required=("name",),
    )
    return _object(
        {
            "matches": _list(_match(), maxItems=64, default=[{"path": {"type": "PathPrefix", "value": "/"}}]),
            "filters": _list(_filter(), maxItems=16),
            "backendRefs": _list(backend, maxItems=16),
            "timeouts": _object({"request": _TEXT, "backendRequest": _TEXT}),
        }
    )


def _match() -> JsonObject:
    values = _list(
        _object(
            {"type": _choice("Exact", "RegularExpression", default="Exact"), "name": _TEXT, "value": _TEXT},
            required=("name", "value"),
        ),
        maxItems=16,
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    path = _object(
        {
            "type": _choice("Exact", "PathPrefix", "RegularExpression", default="PathPrefix"),
            "value": {**_TEXT, "default": "/", "maxLength": 1024},
        }
    )
    path["default"] = {"type": "PathPrefix", "value": "/"}
    return _object({"path": path, "method": _TEXT, "headers": values, "queryParams": values})


def _filter() -> JsonObject:
    pairs = _list(_object({"name": _TEXT, "value": _TEXT}, required=("name", "value")), maxItems=16)
    change = _object({"set": pairs, "add": pairs, "remove": _list(_TEXT, maxItems=16)})
    path = _object(
        {
            "type": _choice("ReplaceFullPath", "ReplacePrefixMatch"),
            "replaceFullPath": {**_TEXT, "maxLength": 1024},
            "replacePrefixMatch": {**_TEXT, "maxLength": 1024},
        },
        required=("type",),
    )
    redirect = _object(
        {
            "scheme": _choice("http", "https"),
            "hostname": _TEXT,
            "path": path,
            "port": _integer(1, 65535),
            "statusCode": {"type": "integer", "enum": [301, 302, 303, 307, 308], "default": 302},
        }
    )
    return _object(
        {
            "type": _TEXT,
            "requestHeaderModifier": change,
            "responseHeaderModifier": change,
            "requestRedirect": redirect,
            "urlRewrite": _object({"hostname": _TEXT, "path": path}),
        },
        required=("type",),
    )


def _grant() -> JsonObject:
    origin = _object({"group": _TEXT, "kind": _TEXT, "namespace": _TEXT}, required=("group", "kind", "namespace"))
    target = _object({"group": _TEXT, "kind": _TEXT, "name": _TEXT}, required=("group", "kind"))
    return _object({"from": _list(origin, maxItems=16), "to": _list(target, maxItems=16)}, required=("from", "to"))
