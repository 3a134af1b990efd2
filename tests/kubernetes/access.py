"""What the operator's service account may do, and what it has done."""

import json
from pathlib import Path

from kohort.install.options import InstallOptions
from kohort.install.roles import ACCOUNT, cluster_rules, own_rules, workload_rules
from kohort.objects.json_types import JsonObject

Right = tuple[str, str, str]
"""Group, resource, verb."""


def installed_rights(options: InstallOptions) -> set[Right]:
    return rights([*workload_rules(options), *cluster_rules(options), *own_rules(options)])


def rights(rules: list[JsonObject]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def streamed(rights: set[Right]) -> set[Right]:
    """Lists that a current API server streams, so that only the watch is logged."""
    return {right for right in rights if right[2] == "list" and (right[0], right[1], "watch") in rights}


def asked_by_the_server(rights: set[Right]) -> set[Right]:
    """Who may block a deletion is a question that the API server itself asks; the fixture has it do so."""
    return {right for right in rights if right[1].endswith("/finalizers")}


class AccessLog:
    """The audit log of an API server, as far as it is about the operator of one installation."""

    def __init__(self, path: Path, namespace: str) -> None:
        self._path = path
        self._user = f"system:serviceaccount:{namespace}:{ACCOUNT}"

    def used(self) -> set[Right]:
        found = set()
        for event in self._events():
            reference = event["objectRef"]
            resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
            found.add((reference.get("apiGroup", ""), resource, event["verb"]))
        return found

    def refused(self) -> list[str]:
        return [f"{event['verb']} {event['requestURI']}" for event in self._events() if _is_refusal(event)]

    def _events(self) -> list[JsonObject]:
        events: list[JsonObject] = [json.loads(line) for line in self._path.read_text().splitlines()]
        ours = [event for event in events if event["user"]["username"] == self._user]
        return [event for event in ours if "resource" in (event.get("objectRef") or {})]


def _is_refusal(event: JsonObject) -> bool:
    """Not by a server that checks who may block a deletion but has yet to hear of the owner's kind: that takes it up to
    ten seconds, and the operator tries again."""
    status = event.get("responseStatus") or {}
    return status.get("code") == 403 and "cannot find RESTMapping" not in status.get("message", "")
