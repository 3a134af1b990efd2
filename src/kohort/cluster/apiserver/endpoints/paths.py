"""The path grammar of the Kubernetes API.

A path names either an object or collection (`ResourcePath`) or something that is not a resource (None here). Decoding
of percent escapes has happened before (`http/targets`), where no segment may hide a slash. `check_segments` refuses
what else a path may never contain, so nothing behind this module has to think about traversal.
"""

import re

import msgspec

from kohort.kube import errors
from kohort.objects import names

NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class ResourcePath(msgspec.Struct, frozen=True):
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """What follows the subresource, for proxies, with its trailing slash; begins with a slash unless empty."""
    watch: bool = False
    """The deprecated `/watch/` prefix was used."""


def parse(path: str) -> ResourcePath | None:
    """The resource that a path names, None for paths that name none.

    | path | group, version, namespace, plural, name, subresource |
    |---|---|
    | /api/v1/pods | "", v1, "", pods, "", "" |
    | /api/v1/namespaces/a/pods/p/log | "", v1, a, pods, p, log |
    | /api/v1/namespaces/a | "", v1, a, namespaces, a, "" |
    | /api/v1/namespaces/a/finalize | "", v1, a, namespaces, a, finalize |
    | /apis/apps/v1/watch/deployments | apps, v1, "", deployments, "", "" (watch) |
    | /apis/apps/v1 | None: discovery |
    """
    parts = path[1:].rstrip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, parts = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    if not group and path.startswith("/apis"):
        raise errors.path_not_found()
    watch = parts[0] == "watch" and len(parts) >= 2
    if watch:
        parts = parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) >= 2:
        namespace = parts[1]
        if len(parts) >= 3 and parts[2] not in NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    if "" in parts[:3]:
        raise errors.path_not_found()
    plural = parts[0]
    name = parts[1] if len(parts) >= 2 else ""
    subresource = parts[2] if len(parts) >= 3 else ""
    rest = "/" + "/".join(parts[3:]) if len(parts) > 3 else ""
    if subresource == "proxy":
        rest = path.rstrip("/").removesuffix(rest)
        rest = path[len(rest) :]
    return ResourcePath(group, version, plural, namespace, name, subresource, rest, watch)


_AMBIGUOUS = re.compile(r"[\x00-\x1f\\]|(?:^|/)\.\.?(?:/|\Z)")


def check_segments(path: str) -> None:
    """Refuse what could mean one thing here and another thing elsewhere."""
    if path[:1] == "/" and "/." not in path and "%" not in path and "\\" not in path and path.isprintable():
        return
    ambiguous = _AMBIGUOUS.search(path)
    if not ambiguous and "%" not in path:
        return
    found = parse(path)
    if found is not None and (problems := names.path_segment(found.name)):
        raise errors.bad_request(f'Name parameter invalid: "{found.name}": {problems[0]}')
    if ambiguous:
        raise errors.path_not_found()


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_PROXIED_VERBS = {**_VERBS, "HEAD": "get", "OPTIONS": "get"}
"""What is proxied may be asked with any method; reading is what these two come down to."""


def verb_of(method: str, path: ResourcePath, *, watch: bool) -> str:
    """The verb that authorization and metrics know a request by; empty for methods that no resource has."""
    verb = (_PROXIED_VERBS if path.subresource == "proxy" else _VERBS).get(method, "")
    if verb == "get" and (path.watch or (watch and not path.name)):
        return "watch"
    if verb == "get" and not path.name:
        return "list"
    if verb == "delete" and not path.name:
        return "deletecollection"
    return verb
