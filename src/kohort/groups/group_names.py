"""Names and keys of groups, and what can be read back from them.

>>> group_key("default", "test-sample")
'95e88034e460983f51a9952fe128729fbc0663b5'
>>> parse_pod_name("llm-1-3")
PodName(parent='llm-1', ordinal=3)
"""

import hashlib
import re

import msgspec

_NAME = re.compile(r"(.*)-([0-9]+)")


class PodName(msgspec.Struct, frozen=True):
    parent: str
    ordinal: int


def parse_pod_name(name: str) -> PodName | None:
    """The set that a pod belongs to and its number there; None when the name has no number."""
    match = _NAME.fullmatch(name)
    if match is None or int(match[2]) >= 2**31:
        return None
    return PodName(match[1], int(match[2]))


def leader_name(set_name: str, index: int) -> str:
    return f"{set_name}-{index}"


def group_key(namespace: str, leader: str) -> str:
    """Stays the same when the group is restarted or rolled, because the leader's name does."""
    return hashlib.sha1(f"{namespace}/{leader}".encode()).hexdigest()


def subgroup_key(leader: str, subgroup: int | str) -> str:
    return hashlib.sha1(f"{leader}/{subgroup}".encode()).hexdigest()


def pod_group_name(set_name: str, index: int | str, revision: str) -> str:
    return f"{set_name}-{index}-{revision}"


def index_of(text: str | None) -> int | None:
    """A label that must hold decimal digits and nothing else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
