"""The roles and bindings that a cluster has from the start.

`data/roles.txt` holds them, one rule a line, as a fresh Kubernetes 1.36 shows them (`tools/record_roles.py` writes it):

    ClusterRole system:basic-user
      create of authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
    ClusterRole edit part-of admin sum-of edit
    ClusterRoleBinding system:basic-user of ClusterRole system:basic-user
      to Group system:authenticated

A role that is `part-of admin` carries the label that the role which is the `sum-of admin` selects.
"""

from importlib import resources

from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

API_GROUP = "rbac.authorization.k8s.io"
AGGREGATE = well_known_names.AGGREGATE_TO


def bootstrap_objects() -> list[JsonObject]:
    """All bootstrap roles and bindings. What is missing in the store is to be created; nothing else is touched."""
    text = resources.files("kohort.cluster.apiserver.auth").joinpath("data/roles.txt").read_text()
    found: list[JsonObject] = []
    for line in text.splitlines():
        if not line.startswith(" "):
            found.append(_heading(line.split()))
        elif line.startswith("  to "):
            found[-1].setdefault("subjects", []).append(_subject(*line.split()[1:]))
        else:
            found[-1].setdefault("rules", []).append(_rule(line.split()))
    return found


def _heading(words: list[str]) -> JsonObject:
    kind, place = words[:2]
    namespace, _, name = place.rpartition("/")
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    metadata: JsonObject = {"name": name, "labels": labels}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    if namespace:
        metadata["namespace"] = namespace
    document: JsonObject = {"kind": kind, "apiVersion": f"{API_GROUP}/v1", "metadata": metadata}
    if kind.endswith("Binding"):
        document["roleRef"] = {"apiGroup": API_GROUP, "kind": words[3], "name": words[4]}
        return document
    for word, value in zip(words[2::2], words[3::2], strict=True):
        if word == "part-of":
            labels[AGGREGATE + value] = "true"
        else:
            selector = {"matchLabels": {AGGREGATE + value: "true"}}
            document.setdefault("aggregationRule", {}).setdefault("clusterRoleSelectors", []).append(selector)
    return document


def _rule(words: list[str]) -> JsonObject:
    verbs = words[0].split(",")
    if words[1] == "at":
        return {"verbs": verbs, "nonResourceURLs": words[2].split(",")}
    groups = ["" if group == "core" else group for group in words[2].split(",")]
    rule: JsonObject = {"verbs": verbs, "apiGroups": groups, "resources": words[3].split(",")}
    if len(words) > 4:
        rule["resourceNames"] = words[5].split(",")
    return rule


def _subject(kind: str, place: str) -> JsonObject:
    if kind == "ServiceAccount":
        namespace, _, name = place.partition("/")
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"kind": kind, "apiGroup": API_GROUP, "name": place}
