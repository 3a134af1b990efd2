"""Rules for containers of the three sorts: regular, init, ephemeral."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from kohort.cluster.apiserver.kinds.pod.environment import check_env, check_env_from
from kohort.cluster.apiserver.kinds.pod.mounts import check_devices, check_mounts
from kohort.cluster.apiserver.kinds.pod.probes import check_lifecycle, check_probes
from kohort.cluster.apiserver.kinds.pod.resources import check_container_block, check_resize_policy
from kohort.cluster.apiserver.kinds.pod.security import check_container_context
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.kinds.pod.volumes import PULL_POLICIES
from kohort.cluster.apiserver.schema.field_checks import PROTOCOLS, Errors, dns_label, named, port_number, problems_of
from kohort.objects.field_errors import duplicate, forbidden, invalid, not_found, not_supported, required, too_many
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label, port_name
from kohort.objects.pods import RESTART_CONTAINER, is_sidecar

_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RULE_ACTIONS: Final = ("Restart", "RestartAllContainers")


@dataclass(slots=True)
class PodFacts:
    """What a container must know of its pod to be judged."""

    spec: JsonObject
    volumes: Mapping[str, JsonObject]
    claims: Set[str]
    grace: int | None
    host_users: bool
    rules: PodRules


def check_containers(errors: Errors, path: str, facts: PodFacts) -> None:
    containers = facts.spec.get("containers")
    if not containers:
        errors.append(required(path))
        return
    names: set[str] = set()
    host_ports: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        _check_common(errors, here, container, facts)
        name = container.get("name") or ""
        if name in names:
            errors.append(duplicate(f"{here}.name", name))
        names.add(name)
        _check_running(errors, here, container, facts)
        _check_restart_rules(errors, here, container)
    for index, container in enumerate(containers):
        _check_host_ports(errors, f"{path}[{index}]", container, host_ports)


def check_init_containers(errors: Errors, path: str, facts: PodFacts) -> None:
    names = {container.get("name") for container in facts.spec.get("containers") or ()}
    for index, container in enumerate(facts.spec.get("initContainers") or ()):
        here = f"{path}[{index}]"
        _check_common(errors, here, container, facts)
        sidecar = is_sidecar(container)
        _check_restart_rules(errors, here, container, init=True)
        name = container.get("name") or ""
        if name in names:
            errors.append(duplicate(f"{here}.name", name))
        elif name:
            names.add(name)
        _check_host_ports(errors, f"{path}[0]", container, set())
        if sidecar:
            _check_running(errors, here, container, facts)
            continue
        for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(field) is not None:
                detail = "may not be set for init containers without restartPolicy=Always"
                errors.append(forbidden(f"{here}.{field}", detail))
        if not facts.rules.tolerate_init_restart_policy:
            _check_init_resize_policy(errors, here, container)


def _check_init_resize_policy(errors: Errors, path: str, container: JsonObject) -> None:
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        if policy.get("restartPolicy") == RESTART_CONTAINER:
            where = f"{path}.resizePolicy[{index}].restartPolicy"
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            errors.append(invalid(where, RESTART_CONTAINER, detail))


_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_SET_WHEN_EMPTY: Final = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def check_ephemeral_containers(errors: Errors, path: str, facts: PodFacts) -> None:
    spec = facts.spec
    others = {c.get("name") for field in ("containers", "initContainers") for c in spec.get(field) or ()}
    names = set(others)
    detail = "cannot be set for an Ephemeral Container"
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        here, name = f"{path}[{index}]", container.get("name") or ""
        _check_common(errors, here, container, facts)
        check_image_spacing(errors, here, container)
        if name in names:
            errors.append(duplicate(f"{here}.name", name))
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(not_found(f"{here}.targetContainerName", target))
        for field in _NOT_EPHEMERAL:
            if container.get(field) or (field in _SET_WHEN_EMPTY and container.get(field) is not None):
                errors.append(forbidden(f"{here}.{field}", detail))
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    errors.append(forbidden(f"{here}.volumeMounts[{position}].{field}", detail))


def check_image_spacing(errors: Errors, path: str, container: JsonObject) -> None:
    """Pods only: templates may hold an image that is yet to be filled in."""
    image = container.get("image") or ""
    if image != image.strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))


def _check_common(errors: Errors, path: str, container: JsonObject, facts: PodFacts) -> None:
    get = container.get
    name = get("name")
    if not name:
        errors.append(required(f"{path}.name"))
    elif problems_of(dns1123_label, name):
        dns_label(errors, f"{path}.name", name)
    if not get("image"):
        errors.append(required(f"{path}.image"))
    policy = get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        where = f"{path}.terminationMessagePolicy"
        errors.append(not_supported(where, policy, _MESSAGE_POLICIES) if policy else required(where))
    if get("ports"):
        _check_ports(errors, f"{path}.ports", container["ports"])
    if get("env"):
        check_env(errors, f"{path}.env", container["env"])
    if get("envFrom"):
        check_env_from(errors, f"{path}.envFrom", container["envFrom"])
    if get("volumeMounts"):
        check_mounts(errors, f"{path}.volumeMounts", container, facts.volumes)
    if get("volumeDevices"):
        check_devices(errors, f"{path}.volumeDevices", container, facts.volumes)
    pull = get("imagePullPolicy")
    if pull not in PULL_POLICIES:
        where = f"{path}.imagePullPolicy"
        errors.append(not_supported(where, pull, PULL_POLICIES) if pull else required(where))
    if get("resources"):
        check_container_block(errors, f"{path}.resources", container["resources"], facts.claims, facts.rules)
    if get("resizePolicy"):
        restart = facts.spec.get("restartPolicy") or ""
        check_resize_policy(errors, f"{path}.resizePolicy", container["resizePolicy"], restart)
    if get("securityContext"):
        check_container_context(errors, f"{path}.securityContext", container["securityContext"], facts.host_users)


def _check_running(errors: Errors, path: str, container: JsonObject, facts: PodFacts) -> None:
    """What only containers that keep running may have."""
    if container.get("lifecycle") is not None:
        check_lifecycle(errors, f"{path}.lifecycle", container["lifecycle"], facts.grace)
    check_probes(errors, path, container, facts.grace)


def _check_ports(errors: Errors, path: str, ports: list[JsonObject]) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        name, number = port.get("name"), port.get("containerPort") or 0
        if name:
            if problems_of(port_name, name):
                named(errors, f"{path}[{index}].name", name, port_name)
            elif name in names:
                errors.append(duplicate(f"{path}[{index}].name", name))
            else:
                names.add(name)
        if not number:
            errors.append(required(f"{path}[{index}].containerPort"))
        elif not 1 <= number <= 65535:
            port_number(errors, f"{path}[{index}].containerPort", number)
        if port.get("hostPort"):
            port_number(errors, f"{path}[{index}].hostPort", port["hostPort"])
        protocol = port.get("protocol")
        if protocol not in PROTOCOLS:
            where = f"{path}[{index}].protocol"
            errors.append(not_supported(where, protocol, PROTOCOLS) if protocol else required(where))


def _check_host_ports(errors: Errors, path: str, container: JsonObject, taken: set[str]) -> None:
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("hostPort")
        if not number:
            continue
        key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{number}"
        if key in taken:
            errors.append(duplicate(f"{path}.ports[{index}].hostPort", key))
        taken.add(key)


def _check_restart_rules(errors: Errors, path: str, container: JsonObject, *, init: bool = False) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if not rules:
            return
        detail = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", detail))
        if init:
            return
    elif policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > 20:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        here = f"{path}.restartPolicyRules[{index}]"
        if rule.get("action") not in _RULE_ACTIONS:
            errors.append(not_supported(f"{here}.action", rule.get("action") or "", _RULE_ACTIONS))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{here}.exitCodes", "must be specified"))
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            errors.append(not_supported(f"{here}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn")))
        if len(codes.get("values") or ()) > 255:
            errors.append(too_many(f"{here}.exitCodes.values", len(codes["values"]), 255))
