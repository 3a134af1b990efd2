"""Ingresses and their classes."""

from typing import Final

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import (
    Errors,
    dns_subdomain,
    domain_prefixed_path,
    immutable,
    ip_address,
    named,
    parse_address,
    port_number,
    same,
)
from kohort.objects import well_known_names
from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required, too_long
from kohort.objects.json_types import JsonObject
from kohort.objects.names import (
    dns1123_label,
    dns1123_subdomain,
    path_segment,
    port_name,
    wildcard_dns1123_subdomain,
)

CLASS_ANNOTATION: Final = well_known_names.INGRESS_CLASS
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")


class IngressStrategy(Strategy):
    rechecks_metadata = 1

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        obj["status"] = {"loadBalancer": {}}

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj.get("spec") or {}
        _check_spec(errors, spec)
        annotation = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
        name = spec.get("ingressClassName")
        if annotation is not None and name is not None and annotation != name:
            detail = "must match `ingressClassName` when both are specified"
            errors.append(invalid(f"annotations.{CLASS_ANNOTATION}", annotation, detail))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_spec(errors, obj.get("spec") or {})
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        stored = [point.get("ip") for point in _points(old)]
        for index, point in enumerate(_points(obj)):
            path = f"status.loadBalancer.ingress[{index}]"
            if point.get("ip"):
                ip_address(errors, f"{path}.ip", point["ip"], [text for text in stored if text])
            if point.get("hostname"):
                dns_subdomain(errors, f"{path}.hostname", point["hostname"])
                if parse_address(point["hostname"]) is not None:
                    detail = "must be a DNS name, not an IP address"
                    errors.append(invalid(f"{path}.hostname", point["hostname"], detail))
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if old is None and CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
            return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]
        return []


def _points(ingress: JsonObject) -> list[JsonObject]:
    return ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def _check_spec(errors: Errors, spec: JsonObject) -> None:
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        errors.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend") is not None:
        _check_backend(errors, "spec.defaultBackend", spec["defaultBackend"])
    for index, rule in enumerate(spec.get("rules") or ()):
        path, host = f"spec.rules[{index}]", rule.get("host")
        if host:
            if parse_address(host) is not None:
                errors.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
            _check_host(errors, f"{path}.host", host)
        if rule.get("http") is not None:
            _check_paths(errors, f"{path}.http.paths", rule["http"].get("paths") or [])
    for index, tls in enumerate(spec.get("tls") or ()):
        for position, host in enumerate(tls.get("hosts") or ()):
            _check_host(errors, f"spec.tls[{index}].hosts[{position}]", host)
        if tls.get("secretName"):
            named(errors, f"spec.tls[{index}].secretName", tls["secretName"], dns1123_subdomain)
    if spec.get("ingressClassName") is not None:
        named(errors, "spec.ingressClassName", spec["ingressClassName"], dns1123_subdomain)


def _check_host(errors: Errors, path: str, host: str) -> None:
    named(errors, path, host, wildcard_dns1123_subdomain if "*" in host else dns1123_subdomain)


def _check_paths(errors: Errors, path: str, paths: list[JsonObject]) -> None:
    if not paths:
        errors.append(required(path))
    for index, entry in enumerate(paths):
        here, kind, text = f"{path}[{index}]", entry.get("pathType"), entry.get("path") or ""
        if kind is None:
            errors.append(required(f"{here}.pathType", "pathType must be specified"))
            continue
        if kind not in _PATH_TYPES:
            errors.append(not_supported(f"{here}.pathType", kind, _PATH_TYPES))
        else:
            _check_path(errors, f"{here}.path", text, exact=kind != "ImplementationSpecific")
        _check_backend(errors, f"{here}.backend", entry.get("backend") or {})


def _check_path(errors: Errors, path: str, text: str, *, exact: bool) -> None:
    if (text or exact) and not text.startswith("/"):
        errors.append(invalid(path, text, "must be an absolute path"))
    if exact and text:
        errors += [invalid(path, text, f"must not contain '{bad}'") for bad in _BAD_SEQUENCES if bad in text]
        errors += [invalid(path, text, f"cannot end with '{bad}'") for bad in _BAD_ENDS if text.endswith(bad)]


def _check_backend(errors: Errors, path: str, backend: JsonObject) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        errors.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        check_object_reference(errors, f"{path}.resource", resource)
    elif service is None:
        errors.append(invalid(path, "", "resource or service backend is required"))
    else:
        if not service.get("name"):
            errors.append(required(f"{path}.service.name"))
        else:
            named(errors, f"{path}.service.name", service["name"], dns1123_label)
        port = service.get("port") or {}
        if port.get("name") and port.get("number"):
            errors.append(invalid(path, "", "cannot set both port name & port number"))
        elif port.get("name"):
            named(errors, f"{path}.service.port.name", port["name"], port_name)
        elif port.get("number"):
            port_number(errors, f"{path}.service.port.number", port["number"])
        else:
            errors.append(required(path, "port name or number is required"))


def check_object_reference(errors: Errors, path: str, reference: JsonObject) -> None:
    if reference.get("apiGroup") is not None:
        named(errors, f"{path}.apiGroup", reference["apiGroup"], dns1123_subdomain)
    for field in ("kind", "name"):
        if not reference.get(field):
            errors.append(required(f"{path}.{field}"))
        else:
            named(errors, f"{path}.{field}", reference[field], path_segment)


class IngressClassStrategy(Strategy):
    has_status = False
    rechecks_metadata = 1

    def default(self, obj: JsonObject) -> None:
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None and parameters.get("scope") is None:
            parameters["scope"] = "Cluster"

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj.get("spec") or {}
        controller = spec.get("controller") or ""
        if len(controller) > 250:
            errors.append(too_long("spec.controller", 250))
        domain_prefixed_path(errors, "spec.controller", controller)
        if spec.get("parameters") is not None:
            _check_parameters(errors, "spec.parameters", spec["parameters"])
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        new, before = ((side.get("spec") or {}).get("controller") or "" for side in (obj, old))
        immutable(errors, "spec.controller", new, before)
        return errors + self.validate(context, obj)


def _check_parameters(errors: Errors, path: str, parameters: JsonObject) -> None:
    check_object_reference(errors, path, parameters)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        errors.append(required(f"{path}.scope"))
    elif scope not in ("Cluster", "Namespace"):
        errors.append(not_supported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace":
        if namespace is None:
            errors.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            named(errors, f"{path}.namespace", namespace, dns1123_label)
    elif namespace is not None:
        errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
