"""Creates what every namespace has: the `default` ServiceAccount and the ConfigMap `kube-root-ca.crt`."""

from collections.abc import Iterable

from kohort.kube.controller import Requeue
from kohort.kube.errors import NAMESPACE_TERMINATING, AlreadyExists, Forbidden, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Key, Resource
from kohort.objects.core import ConfigMap, Namespace
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject

ROOT_CA = "kube-root-ca.crt"
_NOTE = {"kubernetes.io/description": "The certificates with which this cluster's API server can be verified."}


def register(manager: Manager, root_certificate: str) -> None:
    NamespaceDefaults(manager, root_certificate)


class NamespaceDefaults:
    def __init__(self, manager: Manager, root_certificate: str) -> None:
        self.client = manager.client
        self.root_certificate = root_certificate
        self.namespaces = manager.informer(NAMESPACES, Namespace)
        self.accounts = manager.informer(
            SERVICE_ACCOUNTS, PartialObject, metadata_only=True, field_selector="metadata.name=default"
        )
        self.bundles = manager.informer(CONFIG_MAPS, ConfigMap, field_selector=f"metadata.name={ROOT_CA}")
        controller = manager.controller("namespace-defaults", self.reconcile, workers=2)
        controller.watches(self.namespaces)
        controller.watches(self.accounts, _namespace_of, when=lambda _, new: new is None)
        controller.watches(self.bundles, _namespace_of)

    async def reconcile(self, key: Key) -> Requeue | None:
        namespace = self.namespaces.get(key)
        if namespace is None or namespace.metadata.deleting:
            return None
        if Key(key.name, "default") not in self.accounts:
            await self._ensure(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": key.name}})
        bundle = self.bundles.get(Key(key.name, ROOT_CA))
        wanted = {"ca.crt": self.root_certificate}
        if bundle is None:
            metadata = {"name": ROOT_CA, "namespace": key.name, "annotations": _NOTE}
            await self._ensure(CONFIG_MAPS, {"metadata": metadata, "data": wanted})
        elif bundle.data != wanted:
            await self.client.patch(CONFIG_MAPS, ROOT_CA, key.name, {"data": {**dict.fromkeys(bundle.data), **wanted}})
        return None

    async def _ensure(self, resource: Resource, obj: JsonObject) -> None:
        try:
            await self.client.create(resource, obj)
        except (AlreadyExists, NotFound):
            return
        except Forbidden as problem:
            # A namespace that began to terminate since it was read rejects new objects and needs none.
            if not problem.caused_by(NAMESPACE_TERMINATING):
                raise


def _namespace_of(obj: PartialObject | ConfigMap) -> Iterable[Key]:
    return (Key("", obj.metadata.namespace),)
