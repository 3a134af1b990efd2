"""Probes and lifecycle hooks: what is run, and how often."""

from typing import Final

from kohort.cluster.apiserver.schema.field_checks import NEGATIVE, Errors, port_or_name
from kohort.objects.field_errors import forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import http_header_name

_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_PROBE_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_SCHEMES: Final = ("HTTP", "HTTPS")


def check_probes(errors: Errors, path: str, container: JsonObject, grace: int | None) -> None:
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(kind)
        if probe is None:
            continue
        here = f"{path}.{kind}"
        _check_probe(errors, here, probe, grace)
        if kind == "readinessProbe":
            if probe.get("terminationGracePeriodSeconds") is not None:
                detail = "must not be set for readinessProbes"
                value = probe["terminationGracePeriodSeconds"]
                errors.append(invalid(f"{here}.terminationGracePeriodSeconds", value, detail))
        elif (probe.get("successThreshold") or 0) != 1:
            errors.append(invalid(f"{here}.successThreshold", probe.get("successThreshold") or 0, "must be 1"))


def _check_probe(errors: Errors, path: str, probe: JsonObject, grace: int | None) -> None:
    _check_action(errors, path, probe, _PROBE_ACTIONS, grace)
    for name in _NUMBERS:
        number = probe.get(name)
        if number is not None and number < 0:
            errors.append(invalid(f"{path}.{name}", number, NEGATIVE))
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"))


def check_lifecycle(errors: Errors, path: str, lifecycle: JsonObject, grace: int | None) -> None:
    for moment in ("postStart", "preStop"):
        hook = lifecycle.get(moment)
        if hook is not None:
            _check_action(errors, f"{path}.{moment}", hook, _HOOK_ACTIONS, grace)


def _check_action(errors: Errors, path: str, holder: JsonObject, actions: tuple[str, ...], grace: int | None) -> None:
    """Exactly one action; only the first is looked into."""
    found = False
    for name in actions:
        action = holder.get(name)
        if action is None:
            continue
        if found:
            errors.append(forbidden(f"{path}.{name}", "may not specify more than 1 handler type"))
            continue
        found = True
        here = f"{path}.{name}"
        if name == "exec":
            if not action.get("command"):
                errors.append(required(f"{here}.command"))
        elif name == "httpGet":
            _check_http(errors, here, action)
        elif name == "sleep":
            _check_sleep(errors, here, action, grace)
        else:
            port_or_name(errors, f"{here}.port", action.get("port"))
    if not found:
        errors.append(required(path, "must specify a handler type"))


def _check_http(errors: Errors, path: str, action: JsonObject) -> None:
    if not action.get("path"):
        errors.append(required(f"{path}.path"))
    port_or_name(errors, f"{path}.port", action.get("port"))
    if action.get("scheme") not in _SCHEMES:
        errors.append(not_supported(f"{path}.scheme", action.get("scheme") or "", _SCHEMES))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        errors += [invalid(f"{path}.httpHeaders", name, problem) for problem in http_header_name(name)]


def _check_sleep(errors: Errors, path: str, action: JsonObject, grace: int | None) -> None:
    seconds = action.get("seconds") or 0
    if grace is not None and not 0 <= seconds <= grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        errors.append(invalid(path, seconds, detail))
