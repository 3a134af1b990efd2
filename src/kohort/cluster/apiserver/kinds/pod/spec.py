"""The rules for a pod spec, of a pod or of a template."""

import re
from typing import Final

from kohort.cluster.apiserver.kinds.pod import scheduling, security
from kohort.cluster.apiserver.kinds.pod.annotations import check_annotations
from kohort.cluster.apiserver.kinds.pod.containers import (
    PodFacts,
    check_containers,
    check_ephemeral_containers,
    check_image_spacing,
    check_init_containers,
)
from kohort.cluster.apiserver.kinds.pod.resources import PLAIN, check_block, check_pod_block
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.kinds.pod.volumes import check_volumes
from kohort.cluster.apiserver.kinds.resource_names import check_container as check_container_resource
from kohort.cluster.apiserver.schema.field_checks import (
    MAX_INT32,
    Errors,
    dns_label,
    dns_subdomain,
    ip_address,
    labels,
    named,
    problems_of,
    qualified,
)
from kohort.cluster.apiserver.schema.metadata_rules import template_errors
from kohort.objects.field_errors import forbidden, invalid, not_found, not_supported, required, too_long
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_subdomain, in_range

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_NONE: Final = frozenset[str]()


def check_template(errors: Errors, path: str, template: JsonObject, rules: PodRules) -> None:
    """A PodTemplateSpec."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors += template_errors(meta, path)
    check_annotations(errors, f"{path}.annotations", meta, spec, rules)
    check_spec(errors, f"{path}.spec", spec, rules)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))


def check_spec(errors: Errors, path: str, spec: JsonObject, rules: PodRules) -> None:
    get = spec.get
    grace = get("terminationGracePeriodSeconds")
    if grace is None:
        errors.append(required(f"{path}.terminationGracePeriodSeconds"))
    volumes = check_volumes(errors, f"{path}.volumes", spec["volumes"], rules) if get("volumes") else {}
    claims = _claim_names(errors, path, spec, rules)
    host_users = get("hostUsers") is not False
    facts = PodFacts(spec, volumes, claims, grace, host_users, rules)
    check_containers(errors, f"{path}.containers", facts)
    if get("initContainers"):
        check_init_containers(errors, f"{path}.initContainers", facts)
    if get("ephemeralContainers"):
        check_ephemeral_containers(errors, f"{path}.ephemeralContainers", facts)
    if rules.pod_level and get("resources") is not None:
        check_pod_block(errors, path, spec, claims, rules)
    if get("hostNetwork"):
        _check_host_network_ports(errors, path, spec, rules)
    _check_choices(errors, path, spec)
    if get("nodeSelector"):
        labels(errors, f"{path}.nodeSelector", spec["nodeSelector"])
    if get("securityContext") or get("shareProcessNamespace"):
        security.check_pod_context(errors, f"{path}.securityContext", get("securityContext") or {}, spec)
    _check_scheduling(errors, path, spec, rules)
    _check_dns(errors, f"{path}.dnsConfig", get("dnsConfig"), get("dnsPolicy"))
    for index, gate in enumerate(get("readinessGates") or ()):
        qualified(errors, f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType") or "")
    security.check_host_processes(errors, path, spec)
    if not host_users:
        _check_user_namespace(errors, path, spec)
    _check_identity(errors, path, spec)
    if get("os") is not None:
        security.check_system(errors, path, spec)
    _check_file_keys(errors, path, spec)


def _claim_names(errors: Errors, path: str, spec: JsonObject, rules: PodRules) -> frozenset[str]:
    claims = spec.get("resourceClaims")
    if not claims:
        return _NONE
    scheduling.check_claims(errors, f"{path}.resourceClaims", claims, rules)
    return frozenset(claim["name"] for claim in claims if claim.get("name"))


def _check_choices(errors: Errors, path: str, spec: JsonObject) -> None:
    policy, dns = spec.get("restartPolicy"), spec.get("dnsPolicy")
    if policy not in RESTART_POLICIES:
        where = f"{path}.restartPolicy"
        errors.append(not_supported(where, policy, RESTART_POLICIES) if policy else required(where))
    if dns not in _DNS_POLICIES:
        where = f"{path}.dnsPolicy"
        errors.append(not_supported(where, dns, _DNS_POLICIES) if dns else required(where))


def _check_scheduling(errors: Errors, path: str, spec: JsonObject, rules: PodRules) -> None:
    get = spec.get
    if get("affinity"):
        scheduling.check_affinity(errors, f"{path}.affinity", spec["affinity"], rules)
    if get("schedulingGates"):
        scheduling.check_gates(errors, f"{path}.schedulingGates", spec["schedulingGates"])
    if get("topologySpreadConstraints"):
        constraints = spec["topologySpreadConstraints"]
        scheduling.check_spreading(errors, f"{path}.topologySpreadConstraints", constraints, rules)
    if get("tolerations"):
        scheduling.check_tolerations(errors, f"{path}.tolerations", spec["tolerations"], rules)


def _check_identity(errors: Errors, path: str, spec: JsonObject) -> None:
    """Names, deadlines and the like: fields that are checked one by one."""
    get = spec.get
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        value = get(field)
        if value and problems_of(dns1123_subdomain, value):
            dns_subdomain(errors, f"{path}.{field}", value)
    if get("runtimeClassName") == "":
        dns_subdomain(errors, f"{path}.runtimeClassName", "")
    deadline = get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, in_range(1, MAX_INT32)))
    for field in ("hostname", "subdomain"):
        if get(field):
            dns_label(errors, f"{path}.{field}", spec[field])
    _check_host_name(errors, path, spec)
    for index, alias in enumerate(get("hostAliases") or ()):
        here = f"{path}.hostAliases[{index}]"
        ip_address(errors, f"{here}.ip", alias.get("ip") or "")
        for position, name in enumerate(alias.get("hostnames") or ()):
            dns_subdomain(errors, f"{here}.hostnames[{position}]", name)
    preemption = get("preemptionPolicy")
    if preemption is not None and preemption not in PREEMPTION_POLICIES:
        where = f"{path}.preemptionPolicy"
        errors.append(not_supported(where, preemption, PREEMPTION_POLICIES) if preemption else required(where))
    if get("overhead"):
        check_block(errors, f"{path}.overhead", {}, spec["overhead"], check_container_resource, PLAIN, PodRules())


def _check_host_name(errors: Errors, path: str, spec: JsonObject) -> None:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    where = f"{path}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(where, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(where, "may not be specified when hostNetwork is true"))
    if len(name) > 64:
        errors.append(too_long(where, 64))
    dns_subdomain(errors, where, name)


def _check_host_network_ports(errors: Errors, path: str, spec: JsonObject, rules: PodRules) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (rules.is_pod or host) and host != (port.get("containerPort") or 0):
                where = f"{path}.containers[{index}].ports[{position}].hostPort"
                errors.append(invalid(where, host, "must match `containerPort` when `hostNetwork` is true"))


def _check_user_namespace(errors: Errors, path: str, spec: JsonObject) -> None:
    detail = "when `hostUsers` is false"
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            errors.append(forbidden(f"{path}.{shown}", detail))
    for here, container in security.all_containers(spec, path):
        if container.get("volumeDevices"):
            errors.append(forbidden(f"{here}.volumeDevices", detail))


def _check_dns(errors: Errors, path: str, config: JsonObject | None, policy: str | None) -> None:
    if policy == "None":
        if config is None:
            errors.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.append(required(f"{path}.nameservers", detail))
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if len(servers) > 3:
        errors.append(invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        ip_address(errors, f"{path}.nameservers[{index}]", server)
    if len(searches) > 32:
        errors.append(invalid(f"{path}.searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        detail = "must not have more than 2048 characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, detail))
    for index, search in enumerate(searches):
        if search != ".":
            named(errors, f"{path}.searches[{index}]", search.removesuffix("."), _search_domain)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))


_SEARCH_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH: Final = rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*"
_is_search = re.compile(_SEARCH).fullmatch
_BAD_SEARCH: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SEARCH}')"
)


def _search_domain(name: str) -> list[str]:
    problems = ["must be no more than 253 characters"] if len(name) > 253 else []
    return problems if _is_search(name) else [*problems, _BAD_SEARCH]


def _check_file_keys(errors: Errors, path: str, spec: JsonObject) -> None:
    """Variables that are read from a file need the file's volume to be an emptyDir."""
    volumes: dict[str, JsonObject] | None = None
    for here, container in security.all_containers(spec, path):
        for index, variable in enumerate(container.get("env") or ()):
            reference = variable.get("valueFrom") and variable["valueFrom"].get("fileKeyRef")
            if not reference:
                continue
            if volumes is None:
                volumes = {volume.get("name") or "": volume for volume in spec.get("volumes") or ()}
            name = reference.get("volumeName") or ""
            where = f"{here}.env[{index}].valueFrom.fileKeyRef.volumeName"
            volume = volumes.get(name)
            if volume is None:
                errors.append(not_found(where, name))
            elif "emptyDir" not in volume:
                errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))


def check_pod_only(errors: Errors, path: str, spec: JsonObject) -> None:
    """Rules that hold for pods and not for templates of pods."""
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    where = f"{path}.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                    errors.append(forbidden(where, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            check_image_spacing(errors, f"{path}.{field}[{index}]", container)
