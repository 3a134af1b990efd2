"""The operations of a kind, as OpenAPI documents list them."""

from typing import Final

from kohort.cluster.apiserver.kinds.model import Kind, Subresource
from kohort.cluster.apiserver.openapi.types import PATCH, Components
from kohort.cluster.apiserver.schema.builtin_types import type_name
from kohort.objects.json_types import JsonObject

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_STATUS: Final = f"{_META}.Status"
_DELETE_OPTIONS: Final = f"{_META}.DeleteOptions"
_WATCH_EVENT: Final = f"{_META}.WatchEvent"

JSON: Final = "application/json"
_CUSTOM_FORMS: Final = (JSON, "application/yaml")
_FORMS: Final = (*_CUSTOM_FORMS, "application/vnd.kubernetes.protobuf")
_STREAMS: Final = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_ANYTHING: Final = ("*/*",)
_TEXT: Final = {"type": "string"}

_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)

_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_LIST: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
)
_DELETE: Final = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
)
_ANSWERS: Final = {
    "post": ("200", "201", "202"),
    "put": ("200", "201"),
    "patch": ("200", "201"),
    "delete": ("200", "202"),
}
"""The codes of success that an action can be answered with, where there are several."""
_SAID_TO_VANISH: Final = ("CustomResourceDefinition", "Namespace")
"""Kinds whose deletion shows the object, though documents say otherwise."""
_DESCRIPTIONS: Final = {"200": "OK", "201": "Created", "202": "Accepted"}
_TYPES: Final = {
    "allowWatchBookmarks": "boolean",
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "boolean",
    "limit": "integer",
    "orphanDependents": "boolean",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}


def group_version_root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def paths_of(kind: Kind, components: Components) -> JsonObject:
    """The paths of a kind and its subresources; the schemas they need go into `components`."""
    return _Paths(kind, components).all()


class _Paths:
    def __init__(self, kind: Kind, components: Components) -> None:
        self.kind = kind
        self.components = components
        self.gvk = _gvk(kind.resource.group, kind.resource.version, kind.resource.kind)
        self.object, self.list = _schemas(kind, components)
        self.scope = "Namespaced" if kind.resource.namespaced else ""
        self.tag = _tag(kind)
        self.label = camel(kind.resource.group or "core", kind.resource.version)

    def all(self) -> JsonObject:
        resource = self.kind.resource
        collection = resource.path("{namespace}" if resource.namespaced else "")
        paths: JsonObject = {}
        self._put(paths, collection, self._collection())
        self._put(paths, f"{collection}/{{name}}", self._item())
        if resource.namespaced and "list" in self.kind.verbs:
            name = f"list{self.label}{resource.kind}ForAllNamespaces"
            everywhere = self._operation(name, "list", self.list, parameters=_LIST)
            self._put(paths, resource.path(), {"get": everywhere})
        for name, subresource in self.kind.subresources.items():
            place = f"{collection}/{{name}}/{name}"
            self._put(paths, place, self._subresource(name, subresource))
            if name == "proxy":
                self._put(paths, f"{place}/{{path}}", self._subresource("proxyWithPath", subresource))
        if "watch" in self.kind.verbs and not self.kind.custom:
            self._watches(paths, collection)
        return paths

    def _watches(self, paths: JsonObject, collection: str) -> None:
        """The paths that watches had before they became a parameter of lists; they still work."""
        resource = self.kind.resource
        root = group_version_root(resource.group, resource.version)
        answer = self.components.reference(_WATCH_EVENT)
        places = {f"{collection}/{{name}}": self.scope, collection: f"{self.scope}{{}}List"}
        if resource.namespaced:
            places[resource.path()] = "{}ListForAllNamespaces"
        for place, form in places.items():
            what = form.format(resource.kind) if "{}" in form else form + resource.kind
            verb = "watch" if place.endswith("{name}") else "watchlist"
            operation = self._operation(f"watch{self.label}{what}", verb, answer, parameters=_LIST)
            self._put(paths, place.replace(root, f"{root}/watch", 1), {"get": operation})

    def _put(self, paths: JsonObject, path: str, operations: JsonObject) -> None:
        """What all operations of a path can be given is said once, at the path."""
        if operations:
            names = [name for name in ("name", "namespace", "path") if f"{{{name}}}" in path]
            parameters = [_parameter(name, "path", swagger=self.components.swagger) for name in names]
            parameters.append(_parameter("pretty", "query", swagger=self.components.swagger))
            parameters += _shared(list(operations.values()))
            paths[path] = operations | {"parameters": sorted(parameters, key=lambda one: str(one["name"]))}

    def _collection(self) -> JsonObject:
        kind, verbs = self.kind.resource.kind, self.kind.verbs
        found: JsonObject = {}
        if "list" in verbs:
            found["get"] = self._operation(f"list{self.label}{self.scope}{kind}", "list", self.list, parameters=_LIST)
        if "create" in verbs:
            name = f"create{self.label}{self.scope}{kind}"
            found["post"] = self._operation(name, "post", self.object, parameters=_WRITE, body=self.object)
        if "deletecollection" in verbs:
            name = f"delete{self.label}Collection{self.scope}{kind}"
            status = self.components.reference(_STATUS)
            parameters: tuple[str, ...] = _LIST
            body = None
            if not self.kind.custom:
                parameters = tuple(sorted({*_LIST, *_DELETE} - {"allowWatchBookmarks", "watch"}))
                body = self.components.reference(_DELETE_OPTIONS)
            found["delete"] = self._operation(name, "deletecollection", status, parameters=parameters, body=body)
        return found

    def _item(self) -> JsonObject:
        kind, verbs = self.kind.resource.kind, self.kind.verbs
        found: JsonObject = {}
        if "get" in verbs:
            name = f"read{self.label}{self.scope}{kind}"
            found["get"] = self._operation(name, "get", self.object, parameters=self._read_parameters)
        if "update" in verbs:
            name = f"replace{self.label}{self.scope}{kind}"
            found["put"] = self._operation(name, "put", self.object, parameters=_WRITE, body=self.object)
        if "delete" in verbs:
            name = f"delete{self.label}{self.scope}{kind}"
            options = self.components.reference(_DELETE_OPTIONS)
            whole = self.kind.strategy.deletion_returns_object and not (self.kind.custom or kind in _SAID_TO_VANISH)
            answer = self.object if whole else self.components.reference(_STATUS)
            found["delete"] = self._operation(name, "delete", answer, parameters=_DELETE, body=options)
        if "patch" in verbs:
            found["patch"] = self._patch(f"patch{self.label}{self.scope}{kind}", self.object, self.gvk)
        return found

    @property
    def _read_parameters(self) -> tuple[str, ...]:
        return ("resourceVersion",) if self.kind.custom else ()

    def _subresource(self, name: str, subresource: Subresource) -> JsonObject:
        group = subresource.group or ("" if subresource.version else self.kind.resource.group)
        version = subresource.version or self.kind.resource.version
        gvk = self.gvk if self.kind.custom else _gvk(group, version, subresource.kind)
        suffix = f"{self.scope}{self.kind.resource.kind}{name[:1].upper()}{name[1:]}"
        if subresource.kind.endswith("Options"):
            return self._connection(subresource, suffix, gvk)
        builtin = type_name(group, version, subresource.kind)
        schema = self.components.reference(builtin) if builtin else self.object
        suffix = self.label + suffix
        found: JsonObject = {}
        for verb, method, word in (("get", "get", "read"), ("create", "post", "create"), ("update", "put", "replace")):
            if verb in subresource.verbs:
                body = None if verb == "get" else schema
                parameters = self._read_parameters if verb == "get" else _WRITE
                found[method] = self._operation(
                    f"{word}{suffix}",
                    "get" if verb == "get" else method,
                    schema,
                    parameters=parameters,
                    body=body,
                    gvk=gvk,
                )
        if "patch" in subresource.verbs:
            found["patch"] = self._patch(f"patch{suffix}", schema, gvk)
        return found

    def _connection(self, subresource: Subresource, suffix: str, gvk: JsonObject) -> JsonObject:
        """A stream or a proxy: no schema, only a method."""
        methods = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
        served = [method for verb, method in methods.items() if verb in subresource.verbs]
        if subresource.name == "proxy":
            served += ["head", "options"]
        return {
            method: self._operation(f"connect{self.label}{method.capitalize()}{suffix}", "connect", _TEXT, gvk=gvk)
            for method in served
        }

    def _patch(self, name: str, schema: JsonObject, gvk: JsonObject) -> JsonObject:
        operation = self._operation(name, "patch", schema, parameters=(*_WRITE, "force"), gvk=gvk)
        accepted = _PATCHES[:3] if self.kind.custom else _PATCHES
        reference = self.components.reference(PATCH)
        if self.components.swagger:
            operation["consumes"] = list(accepted)
            operation["parameters"].append({"name": "body", "in": "body", "required": True, "schema": reference})
        else:
            content = {media_type: {"schema": reference} for media_type in accepted}
            operation["requestBody"] = {"content": content, "required": True}
        return operation

    def _operation(
        self,
        name: str,
        action: str,
        schema: JsonObject,
        *,
        parameters: tuple[str, ...] = (),
        body: JsonObject | None = None,
        gvk: JsonObject | None = None,
    ) -> JsonObject:
        swagger = self.components.swagger
        operation: JsonObject = {
            "operationId": name,
            "responses": responses(schema, self._forms(action), swagger=swagger, codes=_ANSWERS.get(action, ("200",))),
            "tags": [self.tag],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk or self.gvk,
        }
        if parameters:
            operation["parameters"] = [_parameter(parameter, "query", swagger=swagger) for parameter in parameters]
        if body is not None and swagger:
            operation.setdefault("parameters", []).append({"name": "body", "in": "body", "schema": body})
        elif body is not None:
            forms = _CUSTOM_FORMS if self.kind.custom else _ANYTHING
            operation["requestBody"] = {"content": {form: {"schema": body} for form in forms}}
            if action in ("post", "put"):
                operation["requestBody"]["required"] = True
        return operation

    def _forms(self, action: str) -> tuple[str, ...]:
        if action == "connect":
            return _ANYTHING
        if self.kind.custom:
            return _CUSTOM_FORMS
        return (*_FORMS, *_STREAMS) if action in ("list", "watch", "watchlist") else _FORMS


def _schemas(kind: Kind, components: Components) -> tuple[JsonObject, JsonObject]:
    """The schemas of the object and of its list."""
    resource = kind.resource
    if not kind.custom:
        name = type_name(resource.group, resource.version, resource.kind)
        list_name = type_name(resource.group, resource.version, kind.list_kind)
        found = components.reference(name) if name else {"type": "object"}
        return found, components.reference(list_name) if list_name else {"type": "object"}
    base = ".".join([*reversed(resource.group.split(".")), resource.version])
    name, list_name = f"{base}.{resource.kind}", f"{base}.{kind.list_kind}"
    gvk = (resource.group, resource.version)
    found = components.custom(name, kind.schema().source or {}, *gvk, resource.kind)
    return found, components.custom_list(list_name, name, *gvk, kind.list_kind, resource.plural)


def _gvk(group: str, version: str, kind: str) -> JsonObject:
    return {"group": group, "version": version, "kind": kind}


def responses(
    schema: JsonObject, forms: tuple[str, ...], *, swagger: bool, codes: tuple[str, ...] = ("200",)
) -> JsonObject:
    """What an operation answers with, in the forms that a client may ask for."""
    answer = {"schema": schema} if swagger else {"content": {form: {"schema": schema} for form in forms}}
    found: JsonObject = {code: {"description": _DESCRIPTIONS[code], **answer} for code in codes}
    return {**found, "401": {"description": "Unauthorized"}}


def _shared(operations: list[JsonObject]) -> list[JsonObject]:
    """Takes the parameters that all operations have out of them."""
    first = [one for one in operations[0].get("parameters") or () if one["in"] == "query"]
    shared = [one for one in first if all(one in (other.get("parameters") or ()) for other in operations)]
    for operation in operations:
        own = [one for one in operation.get("parameters") or () if one not in shared]
        if own:
            operation["parameters"] = own
        else:
            operation.pop("parameters", None)
    return shared


def _parameter(name: str, place: str, *, swagger: bool) -> JsonObject:
    kind = _TYPES.get(name, "string")
    parameter: JsonObject = {"name": name, "in": place}
    if place == "path":
        parameter["required"] = True
    described = {"type": kind, "uniqueItems": True}
    return parameter | (described if swagger else {"schema": described})


def _tag(kind: Kind) -> str:
    name = camel(kind.resource.group or "core", "")
    return f"{name[:1].lower()}{name[1:]}_{kind.resource.version}"


def camel(group: str, version: str) -> str:
    """`AppsV1`, `RbacAuthorizationV1`: how operation identifiers name a group version."""
    words = group.replace(".k8s.io", "").split(".")
    return "".join(word.capitalize() for word in [*words, version])
