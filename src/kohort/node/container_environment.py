"""The environment, command and arguments of a container. Pure.

Later entries win, in this order: services, `envFrom`, `env`. `$(NAME)` is replaced by what stands before it, `$$` is a
dollar sign, and an unknown name stays as it is.

References multiply: each of twenty variables that names the one before it ten times makes more text than a machine can
hold. So do ConfigMaps that are named again and again under other prefixes. What is more than the kernel gives to any
program is refused while it is put together.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kohort.objects.core import Service
from kohort.objects.node_pods import EnvVar, FileKeySelector, NodeContainer, NodePod
from kohort.objects.quantity import Quantity
from kohort.objects.volumes import ObjectFieldSelector, ResourceFieldSelector

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_KIND_NAMES: Final = {"configmap": "ConfigMap", "secret": "Secret"}
_NAME: Final = re.compile(r"[ -<>-~]+")
"""Printable ASCII without `=`."""

LARGEST: Final = 8 << 20
"""Characters of an environment, and of a command. The kernel gives a program at most 6 MiB for both."""

Sources = Callable[[str, str], Mapping[str, str] | None]
"""The data of a ConfigMap (`configmap`) or Secret (`secret`) by name; None if there is none. Bytes that are not
text are decoded with `os.fsdecode`."""


EnvFiles = Callable[[str, str], str | None]
"""The text of a file by volume and path in it; None if it is not there. Raises ConfigProblem."""


def no_files(volume: str, path: str) -> str | None:
    return None


class ConfigProblem(Exception):
    """A container cannot be configured: something it refers to is missing."""


class _Size:
    """Counts characters, and refuses too many of them."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._used = 0

    def add(self, count: int) -> None:
        self._used += count
        if self._used > LARGEST:
            raise ConfigProblem(f"the {self._what} has more than {LARGEST >> 20} MiB, which no process can be given")


def expanded(text: str, known: Mapping[str, str]) -> str:
    """Raises ConfigProblem for more than `LARGEST`.

    >>> expanded("$(A)-$(B)-$$(A)", {"A": "1"})
    '1-$(B)-$(A)'
    """
    size = _Size("expanded text")

    def value(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        found = known.get(match.group(1), match.group(0))
        size.add(len(found))
        return found

    return _REFERENCE.sub(value, text)


def expanded_words(words: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """A command or its arguments. Raises ConfigProblem."""
    size, found = _Size("command"), []
    for word in words:
        found.append(expanded(word, known))
        size.add(len(found[-1]))
    return tuple(found)


def environment(
    pod: NodePod,
    container: NodeContainer,
    sources: Sources,
    services: Mapping[str, str],
    facts: Mapping[str, str],
    allocatable: Mapping[str, Quantity],
    files: EnvFiles = no_files,
) -> dict[str, str]:
    """`facts` are what only the node knows of a pod: `status.podIP`, `status.hostIP`. Raises ConfigProblem."""
    found, size = dict(services), _Size("environment")
    for source in container.env_from:
        kind, reference = (
            ("configmap", source.config_map_ref) if source.config_map_ref else ("secret", source.secret_ref)
        )
        if reference is None:
            continue
        data = sources(kind, reference.name)
        if data is None:
            if reference.optional:
                continue
            raise ConfigProblem(f'{kind} "{reference.name}" not found')
        added = {source.prefix + key: value for key, value in data.items() if _NAME.fullmatch(source.prefix + key)}
        size.add(sum(len(name) + len(value) for name, value in added.items()))
        found |= added
    for entry in container.env:
        if entry.value_from is not None and entry.value_from.file_key_ref is not None:
            value = _file_value(entry.value_from.file_key_ref, files)
        else:
            value = _value(pod, container, entry, sources, found, facts, allocatable)
        if value is not None:
            size.add(len(entry.name) + len(value))
            found[entry.name] = value
    for name, value in found.items():
        _check_possible(name, value)
    return found


def _check_possible(name: str, value: str) -> None:
    """Whether this can be an environment variable of a process."""
    if "\0" in value:
        raise ConfigProblem(f'environment variable "{name}" holds a NUL byte, which no process can be given')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigProblem(f'environment variable "{name}" holds bytes that are not text') from None


def command_line(
    container: NodeContainer,
    known: Mapping[str, str],
    entrypoint: tuple[str, ...] = (),
    command: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """`entrypoint` and `command` are the image's, used for what the container does not set. Raises ConfigProblem."""
    arguments = expanded_words(container.args, known)
    if container.command:
        return (*expanded_words(container.command, known), *arguments)
    return (*entrypoint, *(arguments or command))


def field_value(pod: NodePod, selector: ObjectFieldSelector, facts: Mapping[str, str]) -> str:
    """One field of a pod as text. Raises ConfigProblem."""
    path, metadata = selector.field_path, pod.metadata
    if match := _SUBSCRIPT.fullmatch(path):
        mapping = metadata.labels if match.group(1) == "labels" else metadata.annotations
        return mapping.get(match.group(2), "")
    if path in ("metadata.labels", "metadata.annotations"):
        mapping = metadata.labels if path.endswith("labels") else metadata.annotations
        return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(mapping.items()))
    known = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        **facts,
    }
    if path not in known:
        raise ConfigProblem(f"field path {path!r} is not known")
    return known[path]


def resource_value(
    pod: NodePod, container: NodeContainer, selector: ResourceFieldSelector, allocatable: Mapping[str, Quantity]
) -> str:
    """A request or limit, in units of the divisor, rounded up; a limit that is absent is the node's size. `pod` is the
    allocated one."""
    kind, _, name = selector.resource.partition(".")
    block = container.resources
    written = (block.limits if kind == "limits" else block.requests).get(name)
    if written is None and kind == "limits" and pod.spec.resources is not None:
        written = pod.spec.resources.limits.get(name)
    if written is not None:
        amount = Quantity.parse(written)
    else:
        amount = allocatable.get(name, Quantity.of(0)) if kind == "limits" else Quantity.of(0)
    divisor = Quantity.parse(selector.divisor) if selector.divisor else Quantity.of(1)
    if not divisor:
        divisor = Quantity.of(1)
    return str(-(-amount.nano // divisor.nano))


def service_environment(services: Iterable[Service], api_server: tuple[str, str]) -> dict[str, str]:
    """Variables with the addresses of the services of the namespace, and always of the API server."""
    found: dict[str, str] = {}
    for service in services:
        address = service.cluster_address
        if not address:
            continue
        name = service.metadata.name.upper().replace("-", "_")
        ports = service.spec.ports
        if not ports:
            continue
        found[f"{name}_SERVICE_HOST"] = address
        found[f"{name}_SERVICE_PORT"] = str(ports[0].port)
        for port in ports:
            if port.name:
                found[f"{name}_SERVICE_PORT_{port.name.upper().replace('-', '_')}"] = str(port.port)
            linked = _linked(name, address, str(port.port), (port.protocol or "TCP").lower())
            found |= {**linked, f"{name}_PORT": found.get(f"{name}_PORT", linked[f"{name}_PORT"])}
    host, number = api_server
    if host:
        found |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": number}
        found |= {"KUBERNETES_SERVICE_PORT_HTTPS": number, **_linked("KUBERNETES", host, number, "tcp")}
    return found


def _linked(name: str, address: str, port: str, protocol: str) -> dict[str, str]:
    """One port in the form of links between containers, which are older than services."""
    prefix, url = f"{name}_PORT_{port}_{protocol.upper()}", f"{protocol}://{address}:{port}"
    return {
        f"{name}_PORT": url,
        prefix: url,
        f"{prefix}_PROTO": protocol,
        f"{prefix}_PORT": port,
        f"{prefix}_ADDR": address,
    }


def _value(
    pod: NodePod,
    container: NodeContainer,
    entry: EnvVar,
    sources: Sources,
    known: Mapping[str, str],
    facts: Mapping[str, str],
    allocatable: Mapping[str, Quantity],
) -> str | None:
    source = entry.value_from
    if source is None:
        return expanded(entry.value, known)
    if source.field_ref is not None:
        return field_value(pod, source.field_ref, facts)
    if source.resource_field_ref is not None:
        chosen = next(
            (
                each
                for each in (*pod.spec.init_containers, *(pod.spec.containers or ()))
                if each.name == (source.resource_field_ref.container_name or container.name)
            ),
            container,
        )
        return resource_value(pod, chosen, source.resource_field_ref, allocatable)
    kind, reference = (
        ("configmap", source.config_map_key_ref) if source.config_map_key_ref else ("secret", source.secret_key_ref)
    )
    if reference is None:
        return ""
    data = sources(kind, reference.name)
    if data is None or reference.key not in data:
        if reference.optional:
            return None
        if data is None:
            raise ConfigProblem(f'{kind} "{reference.name}" not found')
        where = f"{_KIND_NAMES[kind]} {pod.metadata.namespace}/{reference.name}"
        raise ConfigProblem(f"couldn't find key {reference.key} in {where}")
    return data[reference.key]


def _file_value(reference: FileKeySelector, files: EnvFiles) -> str | None:
    """None leaves the variable out."""
    text = files(reference.volume_name, reference.path)
    value = env_file_value(text, reference.key) if text is not None else ""
    if value:
        return value
    if reference.optional:
        return None
    where = f'file "{reference.path}" of volume "{reference.volume_name}"'
    raise ConfigProblem(f'environment variable key "{reference.key}" not found in {where}')


def env_file_value(text: str, key: str) -> str:
    """The value of a variable in a file of lines `NAME='value'`, empty if it has none. Lines after the variable are not
    looked at. Raises ConfigProblem.

    >>> env_file_value("# colours\\nA='red' # or\\nB='x\\ny'", "B")
    'x\\ny'
    """
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        line = line.lstrip(" \t")
        if not line or line.startswith("#"):
            continue
        name, equals, rest = line.partition("=")
        if not equals or not name or name != name.rstrip(" \t"):
            raise ConfigProblem(f"couldn't parse env file: line {number} is not NAME='value'")
        if not rest or rest[0] in " \t":
            value = ""
        elif rest[0] != "'":
            raise ConfigProblem(f"couldn't parse env file: the value in line {number} is not in single quotes")
        else:
            value, quote, rest = rest[1:].partition("'")
            while not quote:
                _, following = next(lines, (0, None))
                if following is None:
                    raise ConfigProblem(f"couldn't parse env file: the quote in line {number} is not closed")
                more, quote, rest = following.partition("'")
                value += f"\n{more}"
            rest = rest.lstrip(" \t")
            if rest and not rest.startswith("#"):
                raise ConfigProblem(f"couldn't parse env file: unexpected text after the quote of line {number}")
        if name == key:
            return value
    return ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
