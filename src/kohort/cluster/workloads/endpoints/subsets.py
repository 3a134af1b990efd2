"""Subsets of Endpoints: which addresses offer which ports.

Two ports are in one subset only if the same addresses offer both, with the same readiness. Where one Service leads to
two numbers of a named port, each number is a subset, and the ports that all addresses share are another one:

| addresses | http | metrics | subsets |
|---|---|---|---|
| a | 8000 | 90 | {a: http 8000} {b: http 8001} {a, b: metrics 90} |
| b | 8001 | 90 | |

The order of the ports in a subset is that of Kubernetes: by the hash of how Go prints them.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Final

from kohort.objects.json_types import JsonObject

READINESS: Final = (("addresses", True), ("notReadyAddresses", False))


def repacked(subsets: Iterable[JsonObject]) -> list[JsonObject]:
    """The same addresses and ports, with ports that have the same addresses together. An address that is ready for a
    port in one subset is ready for it."""
    ports: dict[str, JsonObject | None] = {}
    members: dict[str, dict[tuple[str, str], tuple[JsonObject, bool]]] = {}
    for subset in subsets:
        for port in subset.get("ports") or [None]:
            key = json.dumps(port, sort_keys=True)
            ports.setdefault(key, port)
            table = members.setdefault(key, {})
            for name, ready in READINESS:
                for address in subset.get(name) or []:
                    target = (address["ip"], (address.get("targetRef") or {}).get("uid") or "")
                    if ready or target not in table:
                        table[target] = (address, ready)
    groups: dict[frozenset[tuple[tuple[str, str], bool]], list[str]] = {}
    for key, table in members.items():
        groups.setdefault(frozenset((target, ready) for target, (_, ready) in table.items()), []).append(key)
    return [
        _without_empty(
            {name: [one for one, state in members[keys[0]].values() if state == ready] for name, ready in READINESS}
            | {"ports": sorted((port for key in keys if (port := ports[key]) is not None), key=_hash)}
        )
        for keys in groups.values()
    ]


def _hash(port: JsonObject) -> bytes:
    name, number, protocol = port.get("name") or "", port.get("port") or 0, port.get("protocol") or ""
    application = port.get("appProtocol") or "<nil>"
    printed = (
        f"(v1.EndpointPort){{Name:(string){name} Port:(int32){number} Protocol:(v1.Protocol){protocol} "
        f"AppProtocol:(*string){application}}}"
    )
    return hashlib.md5(printed.encode(), usedforsecurity=False).digest()


def _without_empty(subset: JsonObject) -> JsonObject:
    return {name: values for name, values in subset.items() if values}
