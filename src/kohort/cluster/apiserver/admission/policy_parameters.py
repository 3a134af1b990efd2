"""The objects that parameterise a policy."""

from collections.abc import Callable

from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.storage.model import Store, Stored
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import LabelSelector

FindKind = Callable[[str, str], Kind | None]
"""The served kind of an apiVersion and kind name."""


class ParameterProblem(Exception):
    """A binding whose parameters cannot be found out."""


class Parameters:
    def __init__(self, store: Store, find_kind: FindKind) -> None:
        self._store = store
        self._find_kind = find_kind

    def of(
        self, param_kind: JsonObject | None, param_ref: JsonObject | None, namespace: str
    ) -> list[JsonObject | None]:
        """One evaluation for each parameter; one without any when the policy or the binding has none."""
        if param_kind is None or param_ref is None:
            return [None]
        kind = self._find_kind(param_kind.get("apiVersion") or "", param_kind.get("kind") or "")
        if kind is None:
            shown = f"{param_kind.get('apiVersion')}, Kind={param_kind.get('kind')}"
            raise ParameterProblem(f"failed to find resource referenced by paramKind: '{shown}'")
        found = self._found(kind, param_ref, self._namespace(kind, param_ref, namespace))
        if not found and param_ref.get("parameterNotFoundAction") == "Deny":
            raise ParameterProblem("no params found for policy binding with `Deny` parameterNotFoundAction")
        return [_served(kind, stored) for stored in found]

    def _namespace(self, kind: Kind, param_ref: JsonObject, namespace: str) -> str:
        wanted = param_ref.get("namespace") or ""
        if not kind.resource.namespaced:
            if wanted:
                raise ParameterProblem("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
            return ""
        if not wanted and not namespace:
            raise ParameterProblem(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
        return wanted or namespace

    def _found(self, kind: Kind, param_ref: JsonObject, namespace: str) -> list[Stored]:
        name = param_ref.get("name") or ""
        if name:
            stored = self._store.get(kind.bucket, namespace, name)
            return [stored] if stored is not None else []
        try:
            selector = LabelSelector.from_object(param_ref.get("selector") or {})
        except ValueError as error:
            raise ParameterProblem(str(error)) from None
        return [one for one in self._store.list(kind.bucket, namespace) if selector.matches(one.labels)]


def _served(kind: Kind, stored: Stored) -> JsonObject:
    document = stored.decode()
    return kind.from_storage(document) if kind.from_storage is not None else document
