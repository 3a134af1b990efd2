"""Which requests a fault is about."""

from collections.abc import Callable

from kohort.kube.http import Request
from kohort.kube.resources import Resource

Match = Callable[[Request], bool]

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def anything(request: Request) -> bool:
    return True


def is_write(request: Request) -> bool:
    return request.method in _WRITES and not request.param("dryRun")


def is_watch(request: Request) -> bool:
    return request.method == "GET" and request.param("watch") in ("true", "1")


def writes(
    resource: Resource | None = None, *, method: str = "", name: str = "", subresource: str | None = None
) -> Match:
    """Requests that change something. `method` narrows to one of them, `subresource=""` to the object itself."""

    def match(request: Request) -> bool:
        return (
            is_write(request)
            and method in ("", request.method)
            and _concerns(request, resource, name)
            and subresource in (None, _subresource(request))
        )

    return match


def reads(resource: Resource | None = None, *, name: str = "") -> Match:
    """Gets and lists; watches are not among them."""

    def match(request: Request) -> bool:
        return request.method == "GET" and not is_watch(request) and _concerns(request, resource, name)

    return match


def watches(resource: Resource | None = None) -> Match:
    def match(request: Request) -> bool:
        return is_watch(request) and _concerns(request, resource, "")

    return match


def _concerns(request: Request, resource: Resource | None, name: str) -> bool:
    if resource is None:
        return True
    root, plural, rest = _place(request.path)
    if root != resource.path().rpartition("/")[0] or plural != resource.plural:
        return False
    return not name or rest[:1] == [name]


def _subresource(request: Request) -> str:
    _, _, rest = _place(request.path)
    return rest[1] if len(rest) > 1 else ""


def _place(path: str) -> tuple[str, str, list[str]]:
    """`/apis/apps/v1/namespaces/x/statefulsets/web/status` -> (`/apis/apps/v1`, `statefulsets`, [`web`, `status`])."""
    parts = path.strip("/").split("/")
    size = 2 if parts[0] == "api" else 3
    root, rest = "/" + "/".join(parts[:size]), parts[size:]
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    return root, rest[0] if rest else "", rest[1:]
