"""Warnings about pod specs that are accepted but probably not intended."""

from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.kinds.pod.annotations import profile_warnings
from kohort.cluster.apiserver.kinds.pod.scheduling import PREFERRED, REQUIRED
from kohort.cluster.apiserver.kinds.pod.security import all_containers
from kohort.cluster.apiserver.kinds.pod.volume_path_overlaps import overlapping_paths
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity

DEPRECATED_LABELS: Final = {
    well_known_names.BETA_ARCH: 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    well_known_names.BETA_OS: 'deprecated since v1.14; use "kubernetes.io/os" instead',
    well_known_names.BETA_REGION: 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    well_known_names.BETA_ZONE: 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    well_known_names.BETA_INSTANCE_TYPE: 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_DEPRECATED_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_DEPRECATED_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
NO_SELECTOR: Final = "a null labelSelector results in matching no pod"


def spec_warnings(meta: JsonObject, spec: JsonObject, path: str = "") -> list[str]:
    """`path` is where the template stands, empty for a pod."""
    head = f"{path}." if path else ""
    found = [*_placement(spec, f"{head}spec"), *_annotations(meta, f"{head}metadata.annotations")]
    found += profile_warnings(meta, spec, f"{head}metadata.annotations", template=bool(path))
    volumes: list[JsonObject] = spec.get("volumes") or []
    if volumes:
        found += _volumes(spec, f"{head}spec.volumes")
        found += overlapping_paths(volumes)
    found += _repeated(spec, f"{head}spec")
    for here, container in all_containers(spec, f"{head}spec"):
        found += _fractions(container, here)
        found += _hidden_variables(container, here)
    found += _ports(spec, f"{head}spec")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        detail = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{head}spec.terminationGracePeriodSeconds: {detail}")
    found += _affinity_selectors(spec, f"{head}spec.affinity")
    return found


def _placement(spec: JsonObject, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in DEPRECATED_LABELS:
            yield f"{path}.nodeSelector[{key}]: {DEPRECATED_LABELS[key]}"
    node = (spec.get("affinity") or {}).get("nodeAffinity")
    if node:
        here = f"{path}.affinity.nodeAffinity"
        for index, term in enumerate((node.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
            yield from term_warnings(term, f"{here}.{REQUIRED}.nodeSelectorTerms[{index}]")
        for index, preferred in enumerate(node.get(PREFERRED) or ()):
            yield from term_warnings(preferred.get("preference") or {}, f"{here}.{PREFERRED}[{index}].preference")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        here, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey")
        if key in DEPRECATED_LABELS:
            yield f"{here}.topologyKey: {key} is {DEPRECATED_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{here}.labelSelector: {NO_SELECTOR}"


def term_warnings(term: JsonObject, path: str) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key")
        if key in DEPRECATED_LABELS:
            yield f"{path}.matchExpressions[{index}].key: {key} is {DEPRECATED_LABELS[key]}"


def _annotations(meta: JsonObject, path: str) -> Iterator[str]:
    annotations = meta.get("annotations") or {}
    for key, text in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"{path}[{key}]: {text}"


def _volumes(spec: JsonObject, path: str) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from source_warnings(volume, f"{path}[{index}]")
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim:
            here = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from claim_spec_warnings(claim.get("spec") or {}, here)


def source_warnings(holder: JsonObject, path: str) -> Iterator[str]:
    """`holder` has a volume source for one of its fields."""
    for source in holder:
        if source in _DEPRECATED_VOLUMES:
            shown = "storageOS" if source == "storageos" else source
            yield f"{path}.{shown}: {_DEPRECATED_VOLUMES[source]}"


def claim_spec_warnings(spec: JsonObject, path: str) -> Iterator[str]:
    resources = spec.get("resources") or {}
    for side in ("requests", "limits"):
        yield from fraction_warnings((resources.get(side) or {}).get("storage"), f"{path}.resources.{side}[storage]")


def _repeated(spec: JsonObject, path: str) -> Iterator[str]:
    for field, key, word in (("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(field) or ()):
            value = item.get(key) or ""
            if value in seen:
                yield f'{path}.{field}[{index}].{key}: duplicate {word} "{value}"'
            seen.add(value)
    for index, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _fractions(container: JsonObject, path: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for side in ("limits", "requests"):
            yield from fraction_warnings((resources.get(side) or {}).get(name), f"{path}.resources.{side}[{name}]")


def fraction_warnings(amount: str | None, path: str) -> Iterator[str]:
    """Of an amount of bytes."""
    if amount is not None and amount.endswith("m") and Quantity.parse(amount).milli % 1000:
        yield f'{path}: fractional byte value "{amount}" is invalid, must be an integer'


def _hidden_variables(container: JsonObject, path: str) -> Iterator[str]:
    variables = container.get("env") or ()
    if len({variable.get("name") for variable in variables}) == len(variables):
        return
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        if name in seen and (variable.get("valueFrom") is not None or value == reference or reference not in value):
            detail = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{path}.env[{index}]: {detail}"
        seen.add(name)


def _ports(spec: JsonObject, path: str) -> list[str]:
    taken: dict[tuple[int, str], list[tuple[str, JsonObject]]] = {}
    names: dict[str, str] = {}
    found: list[str] = []
    named: list[str] = []
    for here, container in all_containers(spec, path):
        for index, port in enumerate(container.get("ports") or ()):
            where = f"{here}.ports[{index}]"
            if port.get("hostIP") and not port.get("hostPort"):
                found.append(f"{where}: hostIP set without hostPort: {_as_go_prints(port)}")
            key = (port.get("containerPort") or 0, port.get("protocol") or "")
            others = taken.setdefault(key, [])
            found += [text for place, other in others if (text := _overlap(where, port, place, other))]
            others.append((where, port))
            name = port.get("name")
            if name in names:
                detail = f"services and probes that select ports by name will use {names[name]}"
                named.append(f'{where}: duplicate port name "{name}" with {names[name]}, {detail}')
            elif name:
                names[name] = where
    return found + named


def _as_go_prints(port: JsonObject) -> str:
    shown = (port.get("name") or "", port.get("containerPort") or 0, port.get("protocol") or "", port["hostIP"])
    return "{{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{}}}".format(*shown)


def _overlap(where: str, port: JsonObject, place: str, other: JsonObject) -> str:
    address, number = port.get("hostIP") or "", port.get("hostPort") or 0
    other_address, other_number = other.get("hostIP") or "", other.get("hostPort") or 0
    if (address, number) == (other_address, other_number):
        return f"{where}: duplicate port definition with {place}"
    if not number or not other_number:
        return f"{where}: overlapping port definition with {place}"
    if number == other_number and (not address) != (not other_address):
        return f"{where}: dangerously ambiguous port definition with {place}"
    return ""


def _affinity_selectors(spec: JsonObject, path: str) -> Iterator[str]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for index, term in enumerate(pods.get(REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{kind}.{REQUIRED}[{index}].labelSelector: {NO_SELECTOR}"
        for index, weighted in enumerate(pods.get(PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{kind}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {NO_SELECTOR}"
