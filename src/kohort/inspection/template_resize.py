"""The templates of a set with other amounts of cpu and memory, as `kohort resize` writes them.

| amount | becomes |
|---|---|
| the request that is named | the new amount |
| its limit, equal to it before | the new amount: the quality of service stays |
| a limit without a request, which counts as both | the new amount, and still no request |
| its limit, higher, and still not outgrown | unchanged |
| its limit, lower than the new request | the new amount: the API server would refuse the edit otherwise |
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import PodSpec, ResourceRequirements, is_sidecar
from kohort.objects.quantity import Quantity
from kohort.rules.group_template import leader_field

RoleChoice = Literal["all", "leader", "worker"]

_OF_ROLES: Final[Mapping[RoleChoice, tuple[str, ...]]] = {
    "all": ("leaderTemplate", "workerTemplate"),
    "leader": ("leaderTemplate",),
    "worker": ("workerTemplate",),
}


class AmountRequest(msgspec.Struct, frozen=True):
    """What the user asks for."""

    amounts: Mapping[str, str]
    container: str = ""
    """Empty for the first one."""
    role: RoleChoice = "all"
    whole_pod: bool = False
    """Of each pod as a whole, rather than of a container."""

    @property
    def options(self) -> tuple[str, ...]:
        """As it is typed."""
        words = [word for key, value in self.amounts.items() for word in (f"--{key}", value)]
        words += ["--pod"] if self.whole_pod else []
        words += ["--container", self.container] if self.container else []
        return (*words, *(("--role", self.role) if self.role != "all" else ()))


class SharedTemplate(msgspec.Struct, frozen=True):
    """Leaders and workers are made of one template, so that it cannot be changed for one of them."""

    role: RoleChoice


class NoSuchContainer(msgspec.Struct, frozen=True):
    container: str
    known: tuple[str, ...]
    role: RoleChoice


class BoundByPod(msgspec.Struct, frozen=True):
    """Pods state these resources as a whole: a container cannot outgrow that."""

    resources: tuple[str, ...]


RequestProblem = SharedTemplate | NoSuchContainer | BoundByPod


def request_problem(template: JsonObject, request: AmountRequest) -> RequestProblem | None:
    """Why the templates cannot be edited like that."""
    if request.role != "all" and leader_field(template) != "leaderTemplate":
        return SharedTemplate(request.role)
    specs = [msgspec.convert(template[name].get("spec") or {}, PodSpec) for name in _templates(template, request)]
    if request.whole_pod:
        return None
    if request.container:
        known = tuple(dict.fromkeys(one.name for spec in specs for one in spec.lasting_containers))
        return None if request.container in known else NoSuchContainer(request.container, known, request.role)
    bound = resources_of_pods(specs, request.amounts)
    return BoundByPod(bound) if bound else None


def resources_of_pods(specs: Iterable[PodSpec], names: Iterable[str]) -> tuple[str, ...]:
    """Which of these resources pods state as a whole."""
    blocks = [one.resources for one in specs if one.resources is not None]
    return tuple(key for key in names if any(key in {*one.requests, *one.limits} for one in blocks))


def resized_template(template: JsonObject, request: AmountRequest) -> JsonObject:
    """`spec.leaderWorkerTemplate` with the amounts; the input is not changed."""
    result = copy.deepcopy(template)
    for name in _templates(template, request):
        spec = result[name].setdefault("spec", {})
        if request.whole_pod:
            _set_amounts(spec, request.amounts)
            continue
        containers = spec.get("containers") or []
        sidecars = [one for one in spec.get("initContainers") or () if is_sidecar(one)]
        named = [one for one in (*containers, *sidecars) if one.get("name") == request.container]
        chosen = named if request.container else containers[:1]
        for one in chosen:
            _set_amounts(one, request.amounts)
    return result


def _templates(template: JsonObject, request: AmountRequest) -> list[str]:
    return [name for name in _OF_ROLES[request.role] if template.get(name)]


def _set_amounts(holder: JsonObject, amounts: Mapping[str, str]) -> None:
    before = msgspec.convert(holder.get("resources") or {}, ResourceRequirements)
    limits = limits_that_follow(before, amounts)
    resources = holder.setdefault("resources", {}) or {}
    holder["resources"] = resources
    stated = {key: value for key, value in amounts.items() if key in before.requests or key not in limits}
    if stated:
        resources["requests"] = {**(resources.get("requests") or {}), **stated}
    if limits:
        resources["limits"] = {**(resources.get("limits") or {}), **limits}


def limits_that_follow(before: ResourceRequirements, amounts: Mapping[str, str]) -> dict[str, str]:
    """The limits that change with these requests."""
    return {key: wanted for key, wanted in amounts.items() if _follows(before, key, wanted)}


def _follows(before: ResourceRequirements, key: str, wanted: str) -> bool:
    if key not in before.limits:
        return False
    limit = Quantity.parse(before.limits[key])
    return Quantity.parse(wanted) > limit or limit == Quantity.parse(before.requests.get(key, before.limits[key]))
