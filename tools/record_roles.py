"""Write the bootstrap roles and bindings of a running Kubernetes cluster as the text that `auth/roles.py` reads.

    kubectl get clusterroles,clusterrolebindings,roles,rolebindings -A -o json | python -m tools.record_roles

Run it against a fresh cluster of a new Kubernetes release and put the output into `auth/data/roles.txt`.
"""

import json
import sys
from typing import Any

BOOTSTRAP = "kubernetes.io/bootstrapping"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def rule_line(rule: dict[str, list[str]]) -> str:
    verbs = ",".join(rule["verbs"])
    if "nonResourceURLs" in rule:
        return f"  {verbs} at {','.join(rule['nonResourceURLs'])}"
    groups = ",".join(group or "core" for group in rule["apiGroups"])
    names = f" named {','.join(rule['resourceNames'])}" if rule.get("resourceNames") else ""
    return f"  {verbs} of {groups} {','.join(rule['resources'])}{names}"


def subject_line(subject: dict[str, str]) -> str:
    place = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"  to {subject['kind']} {place}{subject['name']}"


def heading(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    words = [item["kind"], f"{place}{metadata['name']}"]
    if "roleRef" in item:
        words += ["of", item["roleRef"]["kind"], item["roleRef"]["name"]]
    for label in metadata["labels"]:
        if label.startswith(AGGREGATE):
            words += ["part-of", label.removeprefix(AGGREGATE)]
    for selector in (item.get("aggregationRule") or {}).get("clusterRoleSelectors", []):
        for label in selector["matchLabels"]:
            words += ["sum-of", label.removeprefix(AGGREGATE)]
    return " ".join(words)


def main() -> None:
    for item in json.load(sys.stdin)["items"]:
        if BOOTSTRAP not in item["metadata"].get("labels", {}):
            continue
        print(heading(item))
        for rule in item.get("rules") or []:
            print(rule_line(rule))
        for subject in item.get("subjects") or []:
            print(subject_line(subject))


if __name__ == "__main__":
    main()
