"""The status of a pod: what a node reports, and what it may not take back."""

from collections.abc import Iterable, Sequence
from typing import Final

from kohort.cluster.apiserver.kinds.pod.security import check_id
from kohort.cluster.apiserver.schema.field_checks import Errors, dual_stack, immutable, ip_address, named, qualified
from kohort.kube import clock
from kohort.objects.field_errors import duplicate, forbidden, invalid
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_subdomain

_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")
_STATUS_LISTS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"


def gated_condition() -> JsonObject:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": GATED,
        "lastProbeTime": None,
        "lastTransitionTime": clock.timestamp(),
    }


def mirror_addresses(status: JsonObject) -> None:
    """Keep the single address and the list in step. Where they differ, the single one is what an old client meant."""
    address, listed = status.get("podIP"), status.get("podIPs")
    if address:
        if not listed or listed[0].get("ip") != address:
            status["podIPs"] = [{"ip": address}]
    elif listed:
        status["podIP"] = listed[0].get("ip") or ""


def preserve_generations(status: JsonObject, old: JsonObject) -> None:
    """A client that does not know observedGeneration must not erase it."""
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    remembered: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        remembered.setdefault(condition.get("type") or "", []).append(condition.get("observedGeneration") or 0)
    for condition in status.get("conditions") or ():
        left = remembered.get(condition.get("type") or "")
        was = left.pop(0) if left else 0
        if was and not condition.get("observedGeneration"):
            condition["observedGeneration"] = was


def check_status(errors: Errors, pod: JsonObject, old: JsonObject) -> None:
    status, before, spec = pod.get("status") or {}, old.get("status") or {}, old.get("spec") or {}
    _check_conditions(errors, "status.conditions", status.get("conditions") or ())
    _check_nomination(errors, status.get("nominatedNodeName"), before.get("nominatedNodeName"), spec)
    if (status.get("observedGeneration") or 0) < 0:
        detail = "must be a non-negative integer"
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], detail))
    immutable(errors, "status.qosClass", status.get("qosClass") or "", before.get("qosClass") or "")
    for field in _STATUS_LISTS:
        _check_transitions(errors, f"status.{field}", status.get(field) or (), before.get(field) or (), spec)
        _check_users(errors, f"status.{field}", status.get(field) or ())
    _check_claims(errors, status.get("resourceClaimStatuses") or (), spec)
    _check_addresses(errors, status, before)


def _check_users(errors: Errors, path: str, statuses: Sequence[JsonObject]) -> None:
    """The ids that a container runs with, as its node reports them."""
    for index, status in enumerate(statuses):
        user = (status.get("user") or {}).get("linux")
        if user is not None:
            here = f"{path}[{index}].user.linux"
            check_id(errors, f"{here}.uid", user.get("uid") or 0)
            check_id(errors, f"{here}.gid", user.get("gid") or 0)
            for position, group in enumerate(user.get("supplementalGroups") or ()):
                check_id(errors, f"{here}.supplementalGroups[{position}]", group)


def _check_conditions(errors: Errors, path: str, conditions: Sequence[JsonObject]) -> None:
    for index, condition in enumerate(conditions):
        if (condition.get("observedGeneration") or 0) < 0:
            detail = "must be a non-negative integer"
            errors.append(invalid(f"{path}[{index}].observedGeneration", condition["observedGeneration"], detail))
        kind = condition.get("type") or ""
        if kind not in _SYSTEM_CONDITIONS:
            qualified(errors, f"{path}[{index}].Type", kind)


def _check_nomination(errors: Errors, new: str | None, old: str | None, spec: JsonObject) -> None:
    if not new or new == old:
        return
    named(errors, "status.nominatedNodeName", new, dns1123_subdomain)
    if spec.get("nodeName"):
        detail = "may not be set on pods that are already bound to a node"
        errors.append(forbidden("status.nominatedNodeName", detail))


def _check_transitions(
    errors: Errors, path: str, new: Sequence[JsonObject], old: Sequence[JsonObject], spec: JsonObject
) -> None:
    """A container that ended for good stays ended."""
    ephemeral = path.endswith("ephemeralContainerStatuses")
    containers = {c.get("name"): c for f in ("containers", "initContainers") for c in spec.get(f) or ()}
    if not ephemeral and any(_restarts_all(container) for container in containers.values()):
        return
    for index, before in enumerate(old):
        ended = (before.get("state") or {}).get("terminated")
        if ended is None:
            continue
        after = next((status for status in new if status.get("name") == before.get("name")), None)
        if after is None or (after.get("state") or {}).get("terminated") is not None:
            continue
        container = containers.get(before.get("name"))
        if ephemeral or container is None or not _may_restart(container, spec, ended.get("exitCode") or 0):
            detail = "may not be transitioned to non-terminated state"
            errors.append(forbidden(f"{path}[{index}].state", detail))


def _restarts_all(container: JsonObject) -> bool:
    return any(rule.get("action") == "RestartAllContainers" for rule in container.get("restartPolicyRules") or ())


def _may_restart(container: JsonObject, spec: JsonObject, exit_code: int) -> bool:
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        listed = exit_code in (codes.get("values") or ())
        if listed == (codes.get("operator") == "In") and codes:
            return bool(rule.get("action") == "Restart")
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _check_claims(errors: Errors, statuses: Sequence[JsonObject], spec: JsonObject) -> None:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{index}]", status.get("name") or ""
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{path}.name", name, detail))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        if status.get("resourceClaimName") is not None:
            named(errors, f"{path}.resourceClaimName", status["resourceClaimName"], dns1123_subdomain)


def _check_addresses(errors: Errors, status: JsonObject, before: JsonObject) -> None:
    hosts = _addresses(status.get("hostIPs"))
    if hosts and (status.get("hostIP") or "") != hosts[0]:
        errors.append(invalid("status.hostIPs[0].ip", hosts[0], "must be equal to `hostIP`"))
    for field in ("podIPs", "hostIPs"):
        addresses, known = _addresses(status.get(field)), _addresses(before.get(field))
        for index, address in enumerate(addresses):
            ip_address(errors, f"status.{field}[{index}]", address, known)
        if len(addresses) > 1 and (len(addresses) > 2 or not dual_stack(addresses)):
            detail = "may specify no more than one IP for each IP family"
            errors.append(invalid(f"status.{field}", status[field], detail))


def _addresses(entries: Iterable[JsonObject] | None) -> list[str]:
    return [entry.get("ip") or "" for entry in entries or ()]
