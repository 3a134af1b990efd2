"""Pods as the checks look at them, and the words they use."""

from collections.abc import Callable, Iterable, Iterator

from kohort.objects.json_types import JsonObject

Finding = tuple[str, str] | None
"""The reason of a refusal, and its detail."""
Examine = Callable[[JsonObject, JsonObject, int], Finding]
"""From metadata and spec of a pod, and the minor version, to what is wrong."""


def containers_of(spec: JsonObject) -> Iterator[JsonObject]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def context_of(part: JsonObject) -> JsonObject:
    return part.get("securityContext") or {}


def is_windows(spec: JsonObject) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def has_own_users(spec: JsonObject) -> bool:
    """Whether root in the pod is an unprivileged user outside of it."""
    return spec.get("hostUsers") is False


def quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def singular_or_plural(singular: str, count: int, plural: str = "") -> str:
    return singular if count == 1 else plural or f"{singular}s"


def container_names(containers: list[str]) -> str:
    return f"{singular_or_plural('container', len(containers))} {quoted(containers)}"


def setters_of(pod: bool, containers: list[str]) -> str:
    return " and ".join([*(["pod"] if pod else []), *([container_names(containers)] if containers else [])])


def names_of(containers: Iterable[JsonObject]) -> list[str]:
    return [container.get("name") or "" for container in containers]
