"""Checks of the restricted level: what a pod must give up by itself."""

from typing import Final

from kohort.cluster.apiserver.admission.plugins.podsecurity.baseline import added_beyond, explicit_seccomp, seccomp_type
from kohort.cluster.apiserver.admission.plugins.podsecurity.pod_fields import (
    Finding,
    container_names,
    containers_of,
    context_of,
    has_own_users,
    is_windows,
    names_of,
    quoted,
    setters_of,
    singular_or_plural,
)
from kohort.objects.json_types import JsonObject


def escalation(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 25 and is_windows(spec):
        return None
    bad = names_of(one for one in containers_of(spec) if context_of(one).get("allowPrivilegeEscalation") is not False)
    if not bad:
        return None
    detail = f"{container_names(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return "allowPrivilegeEscalation != false", detail


def dropped_capabilities(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 25 and is_windows(spec):
        return None
    kept: list[str] = []
    added: dict[str, set[str]] = {}
    for container in containers_of(spec):
        name = container.get("name") or ""
        if "ALL" not in ((context_of(container).get("capabilities") or {}).get("drop") or ()):
            kept.append(name)
        more = added_beyond(container, ("NET_BIND_SERVICE",))
        if more:
            added[name] = more
    details = [f'{container_names(kept)} must set securityContext.capabilities.drop=["ALL"]'] if kept else []
    if added:
        names = quoted(sorted(set().union(*added.values())))
        details.append(f"{container_names(list(added))} must not include {names} in securityContext.capabilities.add")
    return ("unrestricted capabilities", "; ".join(details)) if details else None


_VOLUMES: Final = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)


def volume_types(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad: dict[str, str] = {}
    for volume in spec.get("volumes") or []:
        kinds = [key for key, source in volume.items() if key != "name" and source is not None]
        if not _VOLUMES.intersection(kinds):
            bad[volume.get("name") or ""] = kinds[0] if kinds else "unknown"
    if not bad:
        return None
    kinds = sorted({*bad.values()})
    subject = f"{singular_or_plural('volume', len(bad))} {quoted(bad)} {singular_or_plural('uses', len(bad), 'use')}"
    return (
        "restricted volume types",
        f"{subject} {singular_or_plural('restricted volume type', len(kinds))} {quoted(kinds)}",
    )


def non_root(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 35 and has_own_users(spec):
        return None
    of_pod = context_of(spec).get("runAsNonRoot")
    explicit = names_of(one for one in containers_of(spec) if context_of(one).get("runAsNonRoot") is False)
    reason = "runAsNonRoot != true"
    if of_pod is False or explicit:
        return reason, f"{setters_of(of_pod is False, explicit)} must not set securityContext.runAsNonRoot=false"
    silent = names_of(one for one in containers_of(spec) if context_of(one).get("runAsNonRoot") is None)
    if of_pod or not silent:
        return None
    return reason, f"pod or {container_names(silent)} must set securityContext.runAsNonRoot=true"


def user_zero(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 35 and has_own_users(spec):
        return None

    def bad(part: JsonObject) -> bool:
        return bool(context_of(part).get("runAsUser") == 0)

    setters = setters_of(bad(spec), names_of(one for one in containers_of(spec) if bad(one)))
    return ("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def seccomp_restricted(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 25 and is_windows(spec):
        return None
    explicit = explicit_seccomp(spec)
    if explicit is not None:
        return explicit
    silent = names_of(one for one in containers_of(spec) if seccomp_type(one) is None)
    if seccomp_type(spec) is not None or not silent:
        return None
    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return "seccompProfile", f"pod or {container_names(silent)} {wanted}"
