"""The gang schedulers that can be chosen."""

from collections.abc import Callable, Mapping
from typing import Final

from kohort.groups.gang import GangProvider, Volcano
from kohort.groups.native_gang import KubernetesPodGroups

PROVIDERS: Final[Mapping[str, Callable[[], GangProvider]]] = {
    Volcano.name: Volcano,
    KubernetesPodGroups.name: KubernetesPodGroups,
}


def provider_named(name: str) -> GangProvider | None:
    """None when no gang scheduling is wanted."""
    if not name:
        return None
    if name not in PROVIDERS:
        raise ValueError(f"unknown gang scheduler {name!r}; known are: {', '.join(sorted(PROVIDERS))}")
    return PROVIDERS[name]()
