"""NamespaceLifecycle: nothing is made in a namespace that is missing or on its way out."""

from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep, refusal
from kohort.cluster.apiserver.storage.model import Store, Stored
from kohort.kube import errors
from kohort.kube.errors import StatusCause

IMMORTAL: Final = frozenset(("default", "kube-system", "kube-public"))


class NamespaceLifecycle(AdmissionStep):
    name = "NamespaceLifecycle"

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation == "CONNECT":
            return False
        if attributes.resource.kind == "Namespace" and not attributes.resource.group:
            return attributes.operation == "DELETE"
        if not attributes.namespace or attributes.operation == "DELETE":
            return False
        return attributes.resource.plural != "localsubjectaccessreviews"

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.operation == "DELETE":
            if attributes.name in IMMORTAL:
                raise errors.forbidden("namespaces", attributes.name, "this namespace may not be deleted")
            return
        name = attributes.namespace
        namespace = self._store.get("namespaces", "", name)
        if namespace is None:
            raise errors.not_found("namespaces", name)
        if attributes.operation == "CREATE" and _phase(namespace) == "Terminating":
            cause = StatusCause(
                reason="NamespaceTerminating",
                message=f"namespace {name} is being terminated",
                field="metadata.namespace",
            )
            detail = f"unable to create new content in namespace {name} because it is being terminated"
            raise refusal(attributes, detail, (cause,))


def _phase(namespace: Stored) -> str:
    """A selectable field, and therefore known without decoding the object, which every write would do here."""
    known = namespace.fields.get("status.phase")
    return known if known is not None else (namespace.decode().get("status") or {}).get("phase") or ""
