"""Committed objects, decoded."""

from collections.abc import Iterable
from typing import Protocol

from kohort.cluster.apiserver.storage.model import Store
from kohort.objects.json_types import JsonObject


class Reader(Protocol):
    """Read access to committed objects. What it returns are private copies."""

    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None: ...

    def list(self, bucket: str, namespace: str = "") -> Iterable[JsonObject]: ...


class StoreReader:
    """Objects of a store, in their storage form."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        stored = self._store.get(bucket, namespace, name)
        return stored.decode() if stored is not None else None

    def list(self, bucket: str, namespace: str = "") -> Iterable[JsonObject]:
        return (stored.decode() for stored in self._store.list(bucket, namespace))
