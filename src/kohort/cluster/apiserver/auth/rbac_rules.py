"""RBAC rules: what a rule allows, and whether some rules cover others. Pure."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kohort.cluster.apiserver.auth.model import AccessRequest


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] | None = ()
    resources: tuple[str, ...] | None = ()
    resource_names: tuple[str, ...] | None = ()
    non_resource_urls: tuple[str, ...] | None = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, request: AccessRequest) -> bool:
        if request.verb not in self.verbs and "*" not in self.verbs:
            return False
        if request.path:
            return any(_url_covers(url, request.path) for url in self.non_resource_urls or ())
        return (
            _has(self.api_groups, request.group)
            and _names_resource(self.resources or (), request.plural, request.subresource)
            and (not self.resource_names or request.name in self.resource_names)
        )

    def covers(self, simple: "Rule") -> bool:
        """Whether everything that `simple` (one verb, one resource, at most one name) allows is allowed by this."""
        return (
            _has_all(self.verbs, simple.verbs)
            and _has_all(self.api_groups, simple.api_groups)
            and all(_covers_resource(self.resources or (), resource) for resource in simple.resources or ())
            and (not self.resource_names or bool(simple.resource_names))
            and (not self.resource_names or set(simple.resource_names or ()) <= set(self.resource_names))
            and all(
                any(_url_covers(mine, url) for mine in self.non_resource_urls or ())
                for url in simple.non_resource_urls or ()
            )
        )

    def __str__(self) -> str:
        parts = (
            ("APIGroups", self.api_groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.non_resource_urls),
            ("ResourceNames", self.resource_names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"


def missing(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The parts of `wanted` that `held` does not cover, with the verbs of one resource put together again."""
    uncovered = [
        simple for rule in wanted for simple in breakdown(rule) if not any(mine.covers(simple) for mine in held)
    ]
    verbs: dict[Rule, list[str]] = {}
    for rule in uncovered:
        verbs.setdefault(msgspec.structs.replace(rule, verbs=()), []).extend(rule.verbs)
    together = [msgspec.structs.replace(rule, verbs=tuple(found)) for rule, found in verbs.items() if rule.resources]
    return together + [rule for rule in uncovered if not rule.resources]


def breakdown(rule: Rule) -> Iterator[Rule]:
    """The same permissions, one verb, one resource and one name at a time."""
    for verb in rule.verbs:
        for group in rule.api_groups or ():
            for resource in rule.resources or ():
                for name in rule.resource_names or (None,):
                    yield Rule((verb,), (group,), (resource,), (name,) if name is not None else ())
        for url in rule.non_resource_urls or ():
            yield Rule((verb,), non_resource_urls=(url,))


def permissions_in(rule: Rule) -> int:
    """How many rules `breakdown` would give."""
    resources = len(rule.api_groups or ()) * len(rule.resources or ()) * max(len(rule.resource_names or ()), 1)
    return len(rule.verbs) * (resources + len(rule.non_resource_urls or ()))


def quoted(values: Iterable[str]) -> str:
    """A list of strings as Go's `%q` prints it."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and (value in values or "*" in values)


def _has_all(values: Sequence[str] | None, wanted: Sequence[str] | None) -> bool:
    return "*" in (values or ()) or set(wanted or ()) <= set(values or ())


def _names_resource(resources: Sequence[str], plural: str, subresource: str) -> bool:
    if "*" in resources:
        return True
    if not subresource:
        return plural in resources
    return f"{plural}/{subresource}" in resources or f"*/{subresource}" in resources


def _covers_resource(resources: Sequence[str], wanted: str) -> bool:
    subresource = wanted.partition("/")[2]
    return "*" in resources or wanted in resources or bool(subresource and f"*/{subresource}" in resources)


def _url_covers(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))
