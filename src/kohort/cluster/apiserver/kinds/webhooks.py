"""Configurations of admission webhooks."""

from types import ModuleType
from typing import Final
from urllib.parse import urlsplit

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, named, repeats, same
from kohort.objects.field_errors import FieldError, duplicate, invalid, not_supported, required, too_many
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1035_label, dns1123_subdomain, in_range, qualified_name
from kohort.objects.selectors import selector_errors

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_VERSIONS: Final = ("v1", "v1beta1")


class WebhookConfigurationStrategy(Strategy):
    names_finalizers_freely = True
    unconditional_update = False
    has_status = False
    rechecks_metadata = 1
    checks_metadata_change = False
    mutating = False

    def default(self, obj: JsonObject) -> None:
        for hook in obj.get("webhooks") or ():
            _default_hook(hook, self.mutating)

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("webhooks"), old.get("webhooks"))

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        names: set[str] = set()
        for index, hook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            _check_hook(errors, path, hook, self.mutating)
            name = hook.get("name")
            if name and name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name or "")
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)


class MutatingWebhookConfigurationStrategy(WebhookConfigurationStrategy):
    mutating = True


def _default_hook(hook: JsonObject, mutating: bool) -> None:
    defaults: JsonObject = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
    }
    if mutating:
        defaults["reinvocationPolicy"] = "Never"
    for field, value in defaults.items():
        if hook.get(field) is None:
            hook[field] = value
    service = (hook.get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443
    for rule in hook.get("rules") or ():
        if rule.get("scope") is None:
            rule["scope"] = "*"


def _check_hook(errors: Errors, path: str, hook: JsonObject, mutating: bool) -> None:
    _check_full_name(errors, f"{path}.name", hook.get("name") or "")
    for index, rule in enumerate(hook.get("rules") or ()):
        check_operations(errors, f"{path}.rules[{index}]", rule)
        check_rule(errors, f"{path}.rules[{index}]", rule)
    choices = [("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))]
    if mutating:
        choices.append(("reinvocationPolicy", ("IfNeeded", "Never")))
    for field, allowed in choices:
        if hook.get(field) is not None and hook[field] not in allowed:
            errors.append(not_supported(f"{path}.{field}", hook[field], allowed))
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    elif effects not in _SIDE_EFFECTS:
        errors.append(not_supported(f"{path}.sideEffects", effects, _SIDE_EFFECTS))
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", timeout, detail))
    for field in ("namespaceSelector", "objectSelector"):
        errors += selector_errors(hook.get(field), f"{path}.{field}")
    _check_client(errors, f"{path}.clientConfig", hook.get("clientConfig") or {})
    conditions = hook.get("matchConditions") or []
    check_conditions(errors, f"{path}.matchConditions", conditions)
    if conditions:
        errors += expression_rules().webhook_condition_errors(conditions, f"{path}.matchConditions")
    _check_versions(errors, f"{path}.admissionReviewVersions", hook.get("admissionReviewVersions") or [])


def _check_full_name(errors: Errors, path: str, name: str) -> None:
    if not name:
        errors.append(required(path))
        return
    problems = dns1123_subdomain(name)
    if problems:
        errors.append(invalid(path, name, ",".join(problems)))
    elif name.count(".") < 2:
        errors.append(invalid(path, name, "should be a domain with at least three segments separated by dots"))


def check_operations(errors: Errors, path: str, rule: JsonObject) -> None:
    operations = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        errors.append(invalid(f"{path}.operations", operations, detail))
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS))


def check_rule(errors: Errors, path: str, rule: JsonObject) -> None:
    for field, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}"))
        if len(values) > 1 and "*" in values:
            detail = f"if '*' is present, must not specify other {what}"
            errors.append(invalid(f"{path}.{field}", values, detail))
        if field == "apiVersions":
            errors += [required(f"{path}.{field}[{i}]") for i, version in enumerate(values) if not version]
    _check_resources(errors, f"{path}.resources", rule.get("resources") or [])
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", scope, _SCOPES))


def _check_resources(errors: Errors, path: str, resources: list[str]) -> None:
    if not resources:
        errors.append(required(path))
    of_all: set[str] = set()
    all_of: set[str] = set()
    plain = False
    for index, text in enumerate(resources):
        if not text:
            errors.append(required(f"{path}[{index}]"))
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in all_of:
            detail = f"if '{resource}/*' is present, must not specify {text}"
            errors.append(invalid(f"{path}[{index}]", text, detail))
        if sub in of_all:
            errors.append(invalid(f"{path}[{index}]", text, f"if '*/{sub}' is present, must not specify {text}"))
        if sub == "*":
            all_of.add(resource)
        if resource == "*":
            of_all.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))


def _check_client(errors: Errors, path: str, config: JsonObject) -> None:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        errors.append(required(path, "exactly one of url or service is required"))
    elif url is not None:
        _check_url(errors, f"{path}.url", url)
    elif service is not None:
        # The field that is reported is the other one. Kubernetes does so, and tools compare.
        for field, reported in (("namespace", "name"), ("name", "namespace")):
            if not service.get(field):
                errors.append(required(f"{path}.service.{reported}"))
        port, target = service.get("port"), service.get("path")
        if port is not None and not 1 <= port <= 65535:
            detail = f"port is not valid: {in_range(1, 65535)}"
            errors.append(invalid(f"{path}.service.port", port, detail))
        if target is not None:
            _check_service_path(errors, f"{path}.service.path", target)


_FORM: Final = "; desired format: https://host[/path]"


def _check_url(errors: Errors, path: str, url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        errors.append(required(path, f"url must be a valid URL: {error}{_FORM}"))
        return
    if url.startswith(":"):
        errors.append(required(path, f'url must be a valid URL: parse "{url}": missing protocol scheme{_FORM}'))
        return
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not parts.netloc:
        errors.append(invalid(path, "", f"host must be specified{_FORM}"))
    if parts.username is not None:
        errors.append(invalid(path, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))


def _check_service_path(errors: Errors, path: str, target: str) -> None:
    if target == "/" or not target:
        return
    if not target.startswith("/"):
        errors.append(invalid(path, target, "must start with a '/'"))
    steps = target[1:].removesuffix("/").split("/")
    for index, step in enumerate(steps):
        if not step:
            errors.append(invalid(path, target, f"segment[{index}] may not be empty"))
            continue
        for problem in dns1123_subdomain(step):
            errors.append(invalid(path, target, f"segment[{index}]: {problem}"))


def expression_rules() -> ModuleType:
    """The language of expressions takes a while to load, and most clusters have none of these objects."""
    from kohort.cluster.apiserver.kinds import admission_expressions as rules

    return rules


def check_conditions(errors: Errors, path: str, conditions: list[JsonObject]) -> None:
    names: set[str] = set()
    if len(conditions) > 64:
        errors.append(too_many(path, len(conditions), 64))
    for index, condition in enumerate(conditions):
        here, name = f"{path}[{index}]", condition.get("name") or ""
        if not (condition.get("expression") or "").strip():
            errors.append(required(f"{here}.expression"))
        if not name:
            errors.append(required(f"{here}.name"))
        else:
            named(errors, f"{here}.name", name, qualified_name)
            if name in names:
                errors.append(duplicate(f"{here}.name", name))
            names.add(name)


def _check_versions(errors: Errors, path: str, versions: list[str]) -> None:
    if not versions:
        errors.append(required(path, "must specify one of v1, v1beta1"))
        return
    again = repeats(versions)
    for index, version in enumerate(versions):
        if again[index]:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        named(errors, f"{path}[{index}]", version, dns1035_label)
    if not any(version in _VERSIONS for version in versions):
        errors.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
