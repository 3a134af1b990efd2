"""Checks of the baseline level: what gives a pod more than an ordinary one has."""

from collections.abc import Iterable
from typing import Final

from kohort.cluster.apiserver.admission.plugins.podsecurity.pod_fields import (
    Finding,
    container_names,
    containers_of,
    context_of,
    has_own_users,
    names_of,
    quoted,
    setters_of,
    singular_or_plural,
)
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.rules.host_images import uses_machine_files
from kohort.rules.safe_sysctls import safe_sysctls


def app_armor(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    def bad(part: JsonObject) -> str | None:
        profile = context_of(part).get("appArmorProfile")
        if profile is None or profile.get("type") in ("RuntimeDefault", "Localhost"):
            return None
        return str(profile.get("type") or "")

    of_pod = bad(spec)
    of_containers = {one.get("name") or "": kind for one in containers_of(spec) if (kind := bad(one)) is not None}
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(well_known_names.APP_ARMOR_PREFIX)
        and value
        and value != "runtime/default"
        and not value.startswith("localhost/")
    )
    values = sorted({*([] if of_pod is None else [of_pod]), *of_containers.values()}) + annotations
    if not values:
        return None
    setters = [setters_of(of_pod is not None, list(of_containers))] if of_pod is not None or of_containers else []
    if annotations:
        setters.append(singular_or_plural("annotation", len(annotations)))
    reason = singular_or_plural("forbidden AppArmor profile", len(values))
    return reason, f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(values)}"


_DEFAULT_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)


def added_beyond(container: JsonObject, allowed: Iterable[str]) -> set[str]:
    return {*((context_of(container).get("capabilities") or {}).get("add") or ())} - {*allowed}


def capabilities(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad = {
        one.get("name") or "": more for one in containers_of(spec) if (more := added_beyond(one, _DEFAULT_CAPABILITIES))
    }
    if not bad:
        return None
    names = quoted(sorted(set().union(*bad.values())))
    detail = f"{container_names(list(bad))} must not include {names} in securityContext.capabilities.add"
    return "non-default capabilities", detail


def host_namespaces(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return ("host namespaces", ", ".join(shared)) if shared else None


def host_paths(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad = names_of(volume for volume in spec.get("volumes") or [] if volume.get("hostPath") is not None)
    return ("hostPath volumes", f"{singular_or_plural('volume', len(bad))} {quoted(bad)}") if bad else None


def host_images(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    """Images that are directories of the machine show a container what a hostPath volume would."""
    bad = [one for one in containers_of(spec) if uses_machine_files(one.get("image") or "-")]
    volumes = [
        one for one in spec.get("volumes") or [] if uses_machine_files((one.get("image") or {}).get("reference") or "-")
    ]
    users = [container_names(names_of(bad))] if bad else []
    users += [f"{singular_or_plural('volume', len(volumes))} {quoted(names_of(volumes))}"] if volumes else []
    if not users:
        return None
    images = sorted({one["image"] for one in bad} | {one["image"]["reference"] for one in volumes})
    uses = singular_or_plural("uses", len(bad) + len(volumes), "use")
    what = singular_or_plural("image", len(images))
    return "hostPath images", f"{' and '.join(users)} {uses} files of the machine as {what} {quoted(images)}"


def host_ports(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad: dict[str, list[str]] = {}
    for container in containers_of(spec):
        ports = [str(port["hostPort"]) for port in container.get("ports") or [] if port.get("hostPort")]
        if ports:
            bad[container.get("name") or ""] = ports
    if not bad:
        return None
    ports = sorted({port for used in bad.values() for port in used})
    uses = singular_or_plural("uses", len(bad), "use")
    return (
        "hostPort",
        f"{container_names(list(bad))} {uses} {singular_or_plural('hostPort', len(ports))} {', '.join(ports)}",
    )


def probe_hosts(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad: set[str] = set()
    hosts: set[str] = set()
    for container in containers_of(spec):
        lifecycle = container.get("lifecycle") or {}
        probes = [container.get(f"{kind}Probe") for kind in ("liveness", "readiness", "startup")]
        for handler in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
            for action in ("httpGet", "tcpSocket"):
                host = ((handler or {}).get(action) or {}).get("host")
                if host:
                    bad.add(container.get("name") or "")
                    hosts.add(host)
    if not bad:
        return None
    uses, what = singular_or_plural("uses", len(bad), "use"), singular_or_plural("probe or lifecycle host", len(hosts))
    return "probe or lifecycle host", f"{container_names(sorted(bad))} {uses} {what} {quoted(sorted(hosts))}"


def privileged(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad = names_of(one for one in containers_of(spec) if context_of(one).get("privileged"))
    return ("privileged", f"{container_names(bad)} must not set securityContext.privileged=true") if bad else None


def proc_mount(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad = {
        one.get("name") or "": mount
        for one in containers_of(spec)
        if (mount := context_of(one).get("procMount")) is not None and mount != "Default"
    }
    if not bad:
        return None
    mounts = quoted(sorted({*bad.values()}))
    return "procMount", f"{container_names(list(bad))} must not set securityContext.procMount to {mounts}"


def proc_mount_baseline(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    return None if minor >= 35 and has_own_users(spec) else proc_mount(metadata, spec, minor)


def selinux(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    allowed = {"", "container_t", "container_init_t", "container_kvm_t"}
    if minor >= 31:
        allowed.add("container_engine_t")

    def bad(part: JsonObject) -> bool:
        options = context_of(part).get("seLinuxOptions") or {}
        return (options.get("type") or "") not in allowed or bool(options.get("user")) or bool(options.get("role"))

    of_pod, of_containers = bad(spec), [one for one in containers_of(spec) if bad(one)]
    if not of_pod and not of_containers:
        return None
    options = [context_of(part)["seLinuxOptions"] for part in (*([spec] if of_pod else ()), *of_containers)]
    types = sorted({one.get("type") or "" for one in options} - allowed)
    faults = [f"{singular_or_plural('type', len(types))} {quoted(types)}"] if types else []
    faults += [f"{field} may not be set" for field in ("user", "role") if any(one.get(field) for one in options)]
    setters = setters_of(of_pod, names_of(of_containers))
    return "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(faults)}"


def seccomp_type(part: JsonObject) -> str | None:
    profile = context_of(part).get("seccompProfile")
    return None if profile is None else str(profile.get("type") or "")


_SECCOMP_TYPES: Final = ("Localhost", "RuntimeDefault")


def explicit_seccomp(spec: JsonObject) -> Finding:
    of_pod = seccomp_type(spec)
    pod_bad = of_pod is not None and of_pod not in _SECCOMP_TYPES
    bad = {
        one.get("name") or "": kind
        for one in containers_of(spec)
        if (kind := seccomp_type(one)) is not None and kind not in _SECCOMP_TYPES
    }
    if not pod_bad and not bad:
        return None
    values = sorted({*bad.values(), *([of_pod] if pod_bad and of_pod is not None else [])})
    detail = f"must not set securityContext.seccompProfile.type to {quoted(values)}"
    return "seccompProfile", f"{setters_of(pod_bad, list(bad))} {detail}"


def seccomp_baseline(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 19:
        return explicit_seccomp(spec)
    annotations = metadata.get("annotations") or {}
    keys = [well_known_names.SECCOMP_POD]
    keys += [well_known_names.SECCOMP_PREFIX + name for name in names_of(containers_of(spec))]
    bad = sorted(
        {
            f'{key}="{annotations[key]}"'
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    return (
        ("seccompProfile", f"forbidden {singular_or_plural('annotation', len(bad))} {', '.join(bad)}") if bad else None
    )


def sysctls(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    allowed = safe_sysctls(minor)
    bad = [one.get("name") or "" for one in context_of(spec).get("sysctls") or [] if one.get("name") not in allowed]
    return ("forbidden sysctls", ", ".join(bad)) if bad else None


def host_process(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    def bad(part: JsonObject) -> bool:
        return bool((context_of(part).get("windowsOptions") or {}).get("hostProcess"))

    setters = setters_of(bad(spec), names_of(one for one in containers_of(spec) if bad(one)))
    detail = "must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", f"{setters} {detail}") if setters else None
