"""Security contexts of pods and containers, and what the two operating systems forbid."""

import re
from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.schema.field_checks import MAX_INT32, Errors, descending_path, named
from kohort.objects.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_subdomain, in_range

_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS: Final = ("Default", "Unmasked")


def all_containers(spec: JsonObject, path: str) -> Iterator[tuple[str, JsonObject]]:
    """Every container of the pod with its path, in the order in which rules about all of them report."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"{path}.{field}[{index}]", container


def check_container_context(errors: Errors, path: str, context: JsonObject, host_users: bool) -> None:
    for field in ("runAsUser", "runAsGroup"):
        check_id(errors, f"{path}.{field}", context.get(field))
    mount = context.get("procMount")
    if mount is not None:
        if mount not in _PROC_MOUNTS:
            errors.append(not_supported(f"{path}.procMount", mount, _PROC_MOUNTS))
        if host_users and mount == "Unmasked":
            errors.append(invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    _check_seccomp(errors, f"{path}.seccompProfile", context.get("seccompProfile"))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(invalid(path, context, detail))
        for capability in (context.get("capabilities") or {}).get("add") or ():
            if capability == "CAP_SYS_ADMIN":
                detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
                errors.append(invalid(path, context, detail))
    _check_windows_options(errors, f"{path}.windowsOptions", context.get("windowsOptions"))
    _check_app_armor(errors, f"{path}.appArmorProfile", context.get("appArmorProfile"))


_CHANGE_POLICIES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def check_pod_context(errors: Errors, path: str, context: JsonObject, spec: JsonObject) -> None:
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        check_id(errors, f"{path}.{field}", context.get(field))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        check_id(errors, f"{path}.supplementalGroups[{index}]", group)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    if context.get("sysctls"):
        _check_sysctls(errors, f"{path}.sysctls", context["sysctls"], spec)
    for field, allowed in _CHANGE_POLICIES.items():
        value = context.get(field)
        if value is not None and value not in allowed:
            errors.append(not_supported(f"{path}.{field}", value, allowed))
    _check_seccomp(errors, f"{path}.seccompProfile", context.get("seccompProfile"))
    _check_windows_options(errors, f"{path}.windowsOptions", context.get("windowsOptions"))
    _check_app_armor(errors, f"{path}.appArmorProfile", context.get("appArmorProfile"))


def check_id(errors: Errors, path: str, number: int | None) -> None:
    if number is not None and not 0 <= number <= MAX_INT32:
        errors.append(invalid(path, number, in_range(0, MAX_INT32)))


_SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_is_sysctl = re.compile(_SYSCTL, re.ASCII).fullmatch
_IPC_SYSCTLS: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def _check_sysctls(errors: Errors, path: str, sysctls: list[JsonObject], spec: JsonObject) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        here, name = f"{path}[{index}].name", sysctl.get("name") or ""
        if not name:
            errors.append(required(here))
        elif len(name) > 253 or not _is_sysctl(name):
            detail = f"must have at most 253 characters and match regex ^{_SYSCTL}$"
            errors.append(invalid(here, name, detail))
        elif name in seen:
            errors.append(duplicate(here, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.append(invalid(here, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted == "kernel.sem" or dotted.startswith(_IPC_SYSCTLS)):
            errors.append(invalid(here, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)


def _check_seccomp(errors: Errors, path: str, profile: JsonObject | None) -> None:
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if kind not in _PROFILE_TYPES:
        detail = "type is required when seccompProfile is set"
        errors.append(not_supported(f"{path}.type", kind, _PROFILE_TYPES) if kind else required(f"{path}.type", detail))
    if kind == "Localhost":
        if local is None:
            errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            descending_path(errors, f"{path}.localhostProfile", local)
    elif local is not None:
        detail = "can only be set when seccomp type is Localhost"
        errors.append(invalid(f"{path}.localhostProfile", profile, detail))


def _check_app_armor(errors: Errors, path: str, profile: JsonObject | None) -> None:
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    where = f"{path}.localhostProfile"
    if kind == "Localhost":
        if not local:
            errors.append(required(where, "must be set when AppArmor type is Localhost"))
        elif local != local.strip():
            errors.append(invalid(where, local, "must not be padded with whitespace"))
        if local is not None and len(local) > 4095:
            errors.append(too_long(where, 4095))
    elif kind in _PROFILE_TYPES:
        if local is not None:
            errors.append(invalid(where, local, "can only be set when AppArmor type is Localhost"))
    elif not kind:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    else:
        errors.append(not_supported(f"{path}.type", kind, _PROFILE_TYPES))


_has_control = re.compile(r"[\x00-\x1f\x7f]").search
_is_net_bios = re.compile(r'[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}').fullmatch
_DOMAIN_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_is_domain = re.compile(rf"{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*").fullmatch
_has_bad_character = re.compile(r'["/\\:;|=,\+\*\?<>@\[\]]').search
_is_blank_user = re.compile(r"[\. ]+").fullmatch


def _check_windows_options(errors: Errors, path: str, options: JsonObject | None) -> None:
    if options is None:
        return
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        named(errors, f"{path}.gmsaCredentialSpecName", name, dns1123_subdomain)
    credentials = options.get("gmsaCredentialSpec")
    if credentials is not None:
        where = f"{path}.gmsaCredentialSpec"
        if not credentials:
            errors.append(invalid(where, credentials, "gmsaCredentialSpec cannot be an empty string"))
        elif len(credentials) > 64 * 1024:
            errors.append(invalid(where, credentials, "gmsaCredentialSpec size must be under 64 KiB"))
    user = options.get("runAsUserName")
    if user is not None:
        errors += [invalid(f"{path}.runAsUserName", user, problem) for problem in _user_name_problems(user)]


def _user_name_problems(name: str) -> list[str]:
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if _has_control(name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    problems: list[str] = []
    if len(domain) >= 256:
        problems.append("runAsUserName's Domain length must be under 256 characters")
    if backslash and not _is_net_bios(domain) and not _is_domain(domain):
        problems.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        problems.append("runAsUserName's User cannot be empty")
    elif len(user) > 104:
        problems.append("runAsUserName's User length must not be longer than 104 characters")
    if _is_blank_user(user):
        problems.append("runAsUserName's User cannot contain only periods or spaces")
    if _has_bad_character(user):
        problems.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return problems


def check_host_processes(errors: Errors, path: str, spec: JsonObject) -> None:
    """Windows host process containers: all or none, and on the host's network."""
    of_pod = _host_process(spec)
    total = count = 0
    for here, container in all_containers(spec, path):
        total += 1
        own = _host_process(container)
        if of_pod is not None and own is not None and own != of_pod:
            shown = str(of_pod).lower()
            detail = f"pod hostProcess value must be identical if both are specified, was {shown}"
            errors.append(invalid(f"{here}.securityContext.windowsOptions.hostProcess", own, detail))
        count += bool(of_pod if own is None else own)
    if not count:
        return
    if count != total:
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, detail))


def _host_process(holder: JsonObject) -> bool | None:
    options = (holder.get("securityContext") or {}).get("windowsOptions") or {}
    value: bool | None = options.get("hostProcess")
    return value


_NOT_ON_WINDOWS_POD: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_NOT_ON_WINDOWS_SPEC: Final = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_NOT_ON_WINDOWS_CONTAINER: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
SYSTEMS: Final = ("linux", "windows")


def check_system(errors: Errors, path: str, spec: JsonObject) -> None:
    """Rules that follow from `spec.os`."""
    name = spec["os"].get("name")
    if not name:
        errors.append(required(f"{path}.os.name"))
    elif name not in SYSTEMS:
        errors.append(not_supported(f"{path}.os", name, SYSTEMS))
    elif name == "linux":
        _check_linux(errors, path, spec)
    else:
        _check_windows(errors, path, spec)


def _check_linux(errors: Errors, path: str, spec: JsonObject) -> None:
    detail = "windows options cannot be set for a linux pod"
    if (spec.get("securityContext") or {}).get("windowsOptions") is not None:
        errors.append(forbidden(f"{path}.securityContext.windowsOptions", detail))
    for here, container in all_containers(spec, path):
        if (container.get("securityContext") or {}).get("windowsOptions") is not None:
            errors.append(forbidden(f"{here}.securityContext.windowsOptions", detail))


def _check_windows(errors: Errors, path: str, spec: JsonObject) -> None:
    detail = "cannot be set for a windows pod"
    context = spec.get("securityContext") or {}
    for field in _NOT_ON_WINDOWS_POD:
        if context.get(field) is not None:
            errors.append(forbidden(f"{path}.securityContext.{field}", detail))
    for field in _NOT_ON_WINDOWS_SPEC:
        value = spec.get(field)
        if value is not None and (value or field in ("hostUsers", "shareProcessNamespace")):
            errors.append(forbidden(f"{path}.{field}", detail))
    for here, container in all_containers(spec, path):
        own = container.get("securityContext") or {}
        for field in _NOT_ON_WINDOWS_CONTAINER:
            if own.get(field) is not None:
                errors.append(forbidden(f"{here}.securityContext.{field}", detail))
