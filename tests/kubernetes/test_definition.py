"""Our definition of LeaderWorkerSets beside that of a release: the same fields, types, defaults and list keys.

What the release has stored must look the same when it is read through our definition. A default more, and every set
with that field would seem edited, and roll.
"""

from collections.abc import Iterator

import pytest
from tests.kubernetes.upstream import released_definitions
from tools.lws import build

from kohort.groups.crd import NAME, definition
from kohort.objects.json_types import JsonObject

TEMPLATE = ".spec.leaderWorkerTemplate"
RETENTION = f"{TEMPLATE}.persistentVolumeClaimRetentionPolicy"
MORE = {
    (f"{TEMPLATE}.resizePolicy", "only ours"),
    (f"{TEMPLATE}.restartBudget", "only ours"),
    (f"{TEMPLATE}.schedulingPolicy", "only ours"),
    (".spec.rolloutStrategy.resourceUpdatePolicy", "only ours"),
    (".spec.rolloutStrategy.resourceUpdateDeadlineSeconds", "only ours"),
    (".status.resize", "only ours"),
    (".status.restarts", "only ours"),
    (".spec.disruptionBudget", "only ours"),
    (".status.disruptionsAllowed", "only ours"),
    (".status.disruptedGroups", "only ours"),
    (".status.updatedReadyReplicas", "only ours"),
    (".status.stableRevision", "only ours"),
    (".status.updateRevision", "only ours"),
    (".spec.replicas", "minimum"),
    (".spec.replicas", "maximum"),
    (f"{RETENTION}.whenDeleted", "enum"),
    (f"{RETENTION}.whenScaled", "enum"),
}
"""Fields of our own, and what the release refuses elsewhere: in its webhook, or at the StatefulSet."""
_APART = ("description", "properties", "items", "additionalProperties", "x-kubernetes-validations")


@pytest.fixture(scope="module")
def released() -> JsonObject:
    if build.find() is None:
        pytest.skip("no LeaderWorkerSet release to compare with: `make programs` builds one")
    documents = released_definitions()
    found: JsonObject = next(one["spec"] for one in documents if one["metadata"]["name"] == NAME)
    return found


def test_it_is_called_and_shown_the_same(released: JsonObject) -> None:
    ours = definition()["spec"]
    assert {key: ours[key] for key in ("group", "names", "scope")} == {
        key: released[key] for key in ("group", "names", "scope")
    }
    for part in ("name", "served", "storage", "subresources", "additionalPrinterColumns"):
        assert ours["versions"][0][part] == released["versions"][0][part]


def test_it_has_the_same_schema(released: JsonObject) -> None:
    schemas = (one["versions"][0]["schema"]["openAPIV3Schema"] for one in (released, definition()["spec"]))
    assert set(differences(*schemas)) == MORE


def differences(theirs: JsonObject, ours: JsonObject, path: str = "") -> Iterator[tuple[str, str]]:
    for word in (theirs.keys() | ours.keys()) - set(_APART):
        if _plain(theirs.get(word)) != _plain(ours.get(word)):
            yield path, word
    fields, own = theirs.get("properties") or {}, ours.get("properties") or {}
    for name in fields.keys() | own.keys():
        if name in fields and name in own:
            yield from differences(fields[name], own[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}", "only theirs" if name in fields else "only ours"
    for word in ("items", "additionalProperties"):
        if isinstance(theirs.get(word), dict) and isinstance(ours.get(word), dict):
            yield from differences(theirs[word], ours[word], f"{path}[]")
        elif theirs.get(word) != ours.get(word):
            yield path, word


def _plain(value: object) -> object:
    """Required fields in any order."""
    return sorted(value, key=str) if isinstance(value, list) else value
