"""The checks of the pod security standards.

Each check looks at one property of a pod and, if it does not like it, says why: a short reason and, in parentheses,
who is to blame. `CHECKS` holds them with the level that they belong to, the release from which on they apply, and which
laxer check they replace. Releases matter because a namespace may ask for the standard as it was at one of them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kohort.cluster.apiserver.admission.plugins.podsecurity.policy import BASELINE, RESTRICTED, Standard
from kohort.objects.jsontypes import JsonObject

Finding = tuple[str, str] | None
"""The reason of a refusal, and its detail."""
Examine = Callable[[JsonObject, JsonObject, int], Finding]
"""From metadata and spec of a pod, and the minor version, to what is wrong."""


class Check(NamedTuple):
    name: str
    level: str
    since: int
    examine: Examine
    replaces: str = ""


def evaluate(standard: Standard, metadata: JsonObject, spec: JsonObject) -> list[tuple[str, str]]:
    """Everything that a pod violates."""
    chosen = [check for check in CHECKS if _applies(check, standard)]
    replaced = {check.replaces for check in chosen}
    found: list[tuple[str, str]] = []
    for check in chosen:
        if check.name not in replaced:
            finding = check.examine(metadata, spec, standard.minor)
            if finding is not None:
                found.append(finding)
    return found


def _applies(check: Check, standard: Standard) -> bool:
    if check.since > standard.minor:
        return False
    return standard.level == RESTRICTED or (standard.level == BASELINE and check.level == BASELINE)


def detailed(findings: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in findings)


def reasons(findings: Iterable[tuple[str, str]]) -> str:
    return ", ".join(reason for reason, _ in findings)


# --- parts of pods


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _context(part: JsonObject) -> JsonObject:
    return part.get("securityContext") or {}


def _windows(spec: JsonObject) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _own_users(spec: JsonObject) -> bool:
    """Whether root in the pod is nobody outside of it."""
    return spec.get("hostUsers") is False


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _word(singular: str, count: int, plural: str = "") -> str:
    return singular if count == 1 else plural or f"{singular}s"


def _blamed(containers: list[str]) -> str:
    return f"{_word('container', len(containers))} {_quoted(containers)}"


def _setters(pod: bool, containers: list[str]) -> str:
    return " and ".join([*(["pod"] if pod else []), *([_blamed(containers)] if containers else [])])


def _names(containers: Iterable[JsonObject]) -> list[str]:
    return [container.get("name") or "" for container in containers]


# --- baseline


def _app_armor(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    def bad(part: JsonObject) -> str | None:
        profile = _context(part).get("appArmorProfile")
        if profile is None or profile.get("type") in ("RuntimeDefault", "Localhost"):
            return None
        return str(profile.get("type") or "")

    of_pod = bad(spec)
    of_containers = {one.get("name") or "": kind for one in _containers(spec) if (kind := bad(one)) is not None}
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith("container.apparmor.security.beta.kubernetes.io/")
        and value
        and value != "runtime/default"
        and not value.startswith("localhost/")
    )
    values = sorted({*([] if of_pod is None else [of_pod]), *of_containers.values()}) + annotations
    if not values:
        return None
    setters = [_setters(of_pod is not None, list(of_containers))] if of_pod is not None or of_containers else []
    if annotations:
        setters.append(_word("annotation", len(annotations)))
    reason = _word("forbidden AppArmor profile", len(values))
    return reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(values)}"


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


def _added(container: JsonObject, allowed: Iterable[str]) -> set[str]:
    return {*((_context(container).get("capabilities") or {}).get("add") or ())} - {*allowed}


def _capabilities(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad = {one.get("name") or "": more for one in _containers(spec) if (more := _added(one, _DEFAULT_CAPABILITIES))}
    if not bad:
        return None
    names = _quoted(sorted(set().union(*bad.values())))
    detail = f"{_blamed(list(bad))} must not include {names} in securityContext.capabilities.add"
    return "non-default capabilities", detail


def _host_namespaces(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return ("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad = _names(volume for volume in spec.get("volumes") or [] if volume.get("hostPath") is not None)
    return ("hostPath volumes", f"{_word('volume', len(bad))} {_quoted(bad)}") if bad else None


def _host_ports(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad: dict[str, list[str]] = {}
    for container in _containers(spec):
        ports = [str(port["hostPort"]) for port in container.get("ports") or [] if port.get("hostPort")]
        if ports:
            bad[container.get("name") or ""] = ports
    if not bad:
        return None
    ports = sorted({port for used in bad.values() for port in used})
    uses = _word("uses", len(bad), "use")
    return "hostPort", f"{_blamed(list(bad))} {uses} {_word('hostPort', len(ports))} {', '.join(ports)}"


def _probe_hosts(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad: set[str] = set()
    hosts: set[str] = set()
    for container in _containers(spec):
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
    uses, what = _word("uses", len(bad), "use"), _word("probe or lifecycle host", len(hosts))
    return "probe or lifecycle host", f"{_blamed(sorted(bad))} {uses} {what} {_quoted(sorted(hosts))}"


def _privileged(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad = _names(one for one in _containers(spec) if _context(one).get("privileged"))
    return ("privileged", f"{_blamed(bad)} must not set securityContext.privileged=true") if bad else None


def _proc_mount(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad = {
        one.get("name") or "": mount
        for one in _containers(spec)
        if (mount := _context(one).get("procMount")) is not None and mount != "Default"
    }
    if not bad:
        return None
    mounts = _quoted(sorted({*bad.values()}))
    return "procMount", f"{_blamed(list(bad))} must not set securityContext.procMount to {mounts}"


def _proc_mount_baseline(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    return None if minor >= 35 and _own_users(spec) else _proc_mount(metadata, spec, minor)


def _selinux(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    allowed = {"", "container_t", "container_init_t", "container_kvm_t"}
    if minor >= 31:
        allowed.add("container_engine_t")

    def bad(part: JsonObject) -> bool:
        options = _context(part).get("seLinuxOptions") or {}
        return (options.get("type") or "") not in allowed or bool(options.get("user")) or bool(options.get("role"))

    of_pod, of_containers = bad(spec), [one for one in _containers(spec) if bad(one)]
    if not of_pod and not of_containers:
        return None
    options = [_context(part)["seLinuxOptions"] for part in (*([spec] if of_pod else ()), *of_containers)]
    types = sorted({one.get("type") or "" for one in options} - allowed)
    faults = [f"{_word('type', len(types))} {_quoted(types)}"] if types else []
    faults += [f"{field} may not be set" for field in ("user", "role") if any(one.get(field) for one in options)]
    setters = _setters(of_pod, _names(of_containers))
    return "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(faults)}"


def _seccomp_type(part: JsonObject) -> str | None:
    profile = _context(part).get("seccompProfile")
    return None if profile is None else str(profile.get("type") or "")


_SECCOMP_TYPES: Final = ("Localhost", "RuntimeDefault")


def _explicit_seccomp(spec: JsonObject) -> Finding:
    of_pod = _seccomp_type(spec)
    pod_bad = of_pod is not None and of_pod not in _SECCOMP_TYPES
    bad = {
        one.get("name") or "": kind
        for one in _containers(spec)
        if (kind := _seccomp_type(one)) is not None and kind not in _SECCOMP_TYPES
    }
    if not pod_bad and not bad:
        return None
    values = sorted({*bad.values(), *([of_pod] if pod_bad and of_pod is not None else [])})
    detail = f"must not set securityContext.seccompProfile.type to {_quoted(values)}"
    return "seccompProfile", f"{_setters(pod_bad, list(bad))} {detail}"


def _seccomp_baseline(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 19:
        return _explicit_seccomp(spec)
    annotations = metadata.get("annotations") or {}
    keys = ["seccomp.security.alpha.kubernetes.io/pod"]
    keys += [f"container.seccomp.security.alpha.kubernetes.io/{name}" for name in _names(_containers(spec))]
    bad = sorted(
        {
            f'{key}="{annotations[key]}"'
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    return ("seccompProfile", f"forbidden {_word('annotation', len(bad))} {', '.join(bad)}") if bad else None


_SYSCTLS: Final = (
    (
        0,
        (
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
        ),
    ),
    (27, ("net.ipv4.ip_local_reserved_ports",)),
    (
        29,
        (
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
        ),
    ),
    (32, ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")),
)
"""Safe kernel settings, and the release that added them."""


def _sysctls(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    allowed = {name for since, names in _SYSCTLS if since <= minor for name in names}
    bad = [one.get("name") or "" for one in _context(spec).get("sysctls") or [] if one.get("name") not in allowed]
    return ("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    def bad(part: JsonObject) -> bool:
        return bool((_context(part).get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(bad(spec), _names(one for one in _containers(spec) if bad(one)))
    detail = "must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", f"{setters} {detail}") if setters else None


# --- restricted


def _escalation(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 25 and _windows(spec):
        return None
    bad = _names(one for one in _containers(spec) if _context(one).get("allowPrivilegeEscalation") is not False)
    if not bad:
        return None
    detail = f"{_blamed(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return "allowPrivilegeEscalation != false", detail


def _dropped_capabilities(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 25 and _windows(spec):
        return None
    kept: list[str] = []
    added: dict[str, set[str]] = {}
    for container in _containers(spec):
        name = container.get("name") or ""
        if "ALL" not in ((_context(container).get("capabilities") or {}).get("drop") or ()):
            kept.append(name)
        more = _added(container, ("NET_BIND_SERVICE",))
        if more:
            added[name] = more
    details = [f'{_blamed(kept)} must set securityContext.capabilities.drop=["ALL"]'] if kept else []
    if added:
        names = _quoted(sorted(set().union(*added.values())))
        details.append(f"{_blamed(list(added))} must not include {names} in securityContext.capabilities.add")
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


def _volume_types(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    bad: dict[str, str] = {}
    for volume in spec.get("volumes") or []:
        kinds = [key for key, source in volume.items() if key != "name" and source is not None]
        if not _VOLUMES.intersection(kinds):
            bad[volume.get("name") or ""] = kinds[0] if kinds else "unknown"
    if not bad:
        return None
    kinds = sorted({*bad.values()})
    subject = f"{_word('volume', len(bad))} {_quoted(bad)} {_word('uses', len(bad), 'use')}"
    return "restricted volume types", f"{subject} {_word('restricted volume type', len(kinds))} {_quoted(kinds)}"


def _non_root(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 35 and _own_users(spec):
        return None
    of_pod = _context(spec).get("runAsNonRoot")
    explicit = _names(one for one in _containers(spec) if _context(one).get("runAsNonRoot") is False)
    reason = "runAsNonRoot != true"
    if of_pod is False or explicit:
        return reason, f"{_setters(of_pod is False, explicit)} must not set securityContext.runAsNonRoot=false"
    silent = _names(one for one in _containers(spec) if _context(one).get("runAsNonRoot") is None)
    if of_pod or not silent:
        return None
    return reason, f"pod or {_blamed(silent)} must set securityContext.runAsNonRoot=true"


def _user_zero(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 35 and _own_users(spec):
        return None

    def bad(part: JsonObject) -> bool:
        return bool(_context(part).get("runAsUser") == 0)

    setters = _setters(bad(spec), _names(one for one in _containers(spec) if bad(one)))
    return ("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _seccomp_restricted(metadata: JsonObject, spec: JsonObject, minor: int) -> Finding:
    if minor >= 25 and _windows(spec):
        return None
    explicit = _explicit_seccomp(spec)
    if explicit is not None:
        return explicit
    silent = _names(one for one in _containers(spec) if _seccomp_type(one) is None)
    if _seccomp_type(spec) is not None or not silent:
        return None
    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return "seccompProfile", f"pod or {_blamed(silent)} {wanted}"


CHECKS: Final = (
    Check("appArmorProfile", BASELINE, 0, _app_armor),
    Check("capabilities_baseline", BASELINE, 0, _capabilities),
    Check("hostNamespaces", BASELINE, 0, _host_namespaces),
    Check("hostPathVolumes", BASELINE, 0, _host_paths),
    Check("hostPorts", BASELINE, 0, _host_ports),
    Check("hostProbesAndHostLifecycle", BASELINE, 34, _probe_hosts),
    Check("privileged", BASELINE, 0, _privileged),
    Check("procMount", BASELINE, 0, _proc_mount_baseline),
    Check("seLinuxOptions", BASELINE, 0, _selinux),
    Check("seccompProfile_baseline", BASELINE, 0, _seccomp_baseline),
    Check("sysctls", BASELINE, 0, _sysctls),
    Check("windowsHostProcess", BASELINE, 0, _host_process),
    Check("allowPrivilegeEscalation", RESTRICTED, 8, _escalation),
    Check("capabilities_restricted", RESTRICTED, 22, _dropped_capabilities, replaces="capabilities_baseline"),
    Check("procMount_restricted", RESTRICTED, 35, _proc_mount, replaces="procMount"),
    Check("restrictedVolumes", RESTRICTED, 0, _volume_types, replaces="hostPathVolumes"),
    Check("runAsNonRoot", RESTRICTED, 0, _non_root),
    Check("runAsUser", RESTRICTED, 23, _user_zero),
    Check("seccompProfile_restricted", RESTRICTED, 19, _seccomp_restricted, replaces="seccompProfile_baseline"),
)
"""In the order in which findings are reported."""
