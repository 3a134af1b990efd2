"""Whether a change of a LeaderWorkerSet makes a new revision, and what the key of a revision is.

A revision holds the part of a set that makes pods: the template and the network configuration. Groups are rolled, and
releases are started, only when that part changes in its canonical form:

| edit | new revision |
|---|---|
| another image, size, environment, ... | yes |
| a quantity spelled differently (`1000m` and `1`) | no |
| a field set to the value that Go leaves out (`hostNetwork: false`) | no |
| `networkConfig` added with `subdomainPolicy: Shared` | no |
| `resizePolicy`, `restartBudget`, replicas, strategies | no: they do not make pods |

The key is a hash of the canonical text, so that tools written in other languages compute the same key. Two revisions
are the same when their content is, not when their keys are: the hash has 32 bits, and the same content may carry a key
that another version of the software gave it.
"""

import hashlib
from typing import Final, Literal

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.rules.canonical_form import CLAIM, POD_TEMPLATE, canonical_struct, encode, without_nulls
from kohort.rules.safe_text import fnv1, safe_text

NOT_IN_REVISIONS: Final = frozenset({"resizePolicy", "restartBudget"})
"""Parts of the template that do not make pods: changing them must not roll any."""
RECREATE_ON_RESTART: Final = "RecreateGroupOnPodRestart"
SHARED: Final = "Shared"


def leader_field(template: JsonObject) -> Literal["leaderTemplate", "workerTemplate"]:
    """The field of `spec.leaderWorkerTemplate` that leaders are made from. Without a template of their own they are
    made like workers; an empty one counts as none."""
    return "leaderTemplate" if template.get("leaderTemplate") else "workerTemplate"


def leader_template(template: JsonObject) -> JsonObject:
    """The pod template of leaders."""
    found: JsonObject = template.get(leader_field(template)) or {}
    return found


def revision_content(spec: JsonObject) -> JsonObject:
    """What a revision of a set with this spec stores, in canonical form."""
    template = {
        key: value for key, value in (spec.get("leaderWorkerTemplate") or {}).items() if key not in NOT_IN_REVISIONS
    }
    return {
        "spec": {
            "leaderWorkerTemplate": {"$patch": "replace", **canonical_template(template)},
            "networkConfig": {"$patch": "replace", **canonical_network(spec.get("networkConfig"))},
        }
    }


def same_revision(one: JsonObject, other: JsonObject) -> bool:
    """Whether sets with these specs have the same revision."""
    return revision_content(one) == revision_content(other)


def revision_key(spec: JsonObject) -> str:
    """The key that a set with this spec gets, unless that is taken by other content."""
    return content_hash(revision_content(spec))


def content_hash(content: JsonObject, salt: bytes = b"") -> str:
    """The key of some content: FNV-1 over its canonical text, each decimal digit spelled as a letter."""
    return safe_text(str(fnv1(encode(content) + salt)))


def revision_fingerprint(spec: JsonObject) -> str:
    """Ten letters that two specs share when they have the same revision. It has 40 bits and never leaves a status."""
    return _digest(encode(revision_content(spec)))


def earlier_fingerprint(spec: JsonObject) -> str:
    """The fingerprint that earlier versions of kohort wrote, which also depended on spelling. Releases that were begun
    by those versions are recognised by it."""
    network = dict(spec.get("networkConfig") or {})
    network.setdefault("subdomainPolicy", SHARED)
    content = {"leaderWorkerTemplate": without_nulls(spec.get("leaderWorkerTemplate") or {}), "networkConfig": network}
    return _digest(msgspec.json.encode(content, order="sorted"))


def has_fingerprint(spec: JsonObject, recorded: str) -> bool:
    """Whether a fingerprint that was recorded, perhaps by an earlier version, is that of this spec."""
    return bool(recorded) and recorded in (revision_fingerprint(spec), earlier_fingerprint(spec))


def _digest(text: bytes) -> str:
    return safe_text(hashlib.sha256(text).hexdigest()[:10])


def with_default_template(spec: JsonObject) -> JsonObject:
    """The spec with the defaults that admission gives to the part that makes pods; the input is not changed.

    | field | absent | becomes |
    |---|---|---|
    | leaderWorkerTemplate.restartPolicy | or empty | RecreateGroupOnPodRestart |
    | leaderWorkerTemplate.restartPolicy | Default | None |
    | networkConfig, its subdomainPolicy | yes | Shared |
    """
    template, network = spec.get("leaderWorkerTemplate") or {}, spec.get("networkConfig") or {}
    policy = template.get("restartPolicy")
    policy = {"": RECREATE_ON_RESTART, "Default": "None"}.get(policy or "", policy)
    return {
        **spec,
        "leaderWorkerTemplate": {**template, "restartPolicy": policy},
        "networkConfig": {**network, "subdomainPolicy": network.get("subdomainPolicy") or SHARED},
    }


def canonical_template(template: JsonObject) -> JsonObject:
    """`spec.leaderWorkerTemplate` in canonical form."""
    result: JsonObject = {}
    for key, value in template.items():
        if value is None:
            continue
        if key in ("leaderTemplate", "workerTemplate"):
            result[key] = canonical_struct(value, POD_TEMPLATE)
        elif key == "volumeClaimTemplates":
            if value:
                result[key] = [canonical_struct(claim, CLAIM) for claim in value]
        elif value != "" or key == "restartPolicy":
            result[key] = without_nulls(value)
    return result


def canonical_network(network: JsonObject | None) -> JsonObject:
    """`spec.networkConfig` in canonical form; absent is Shared, as the webhook would have said."""
    found: JsonObject = without_nulls(network or {})
    found.setdefault("subdomainPolicy", SHARED)
    return found
