"""Writes tokens into Secrets of type `kubernetes.io/service-account-token`, and deletes them with their account."""

import base64
from collections.abc import Iterable
from typing import Final

from kohort.kube.controller import Requeue
from kohort.kube.errors import NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import SECRETS, SERVICE_ACCOUNTS, Key
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject

TYPE: Final = well_known_names.SERVICE_ACCOUNT_TOKEN
NAME: Final = well_known_names.SERVICE_ACCOUNT_NAME
UID: Final = "kubernetes.io/service-account.uid"
_LIFETIME: Final = 10 * 365 * 24 * 3600


def register(manager: Manager, root_certificate: str) -> None:
    TokenSecrets(manager, root_certificate)


class TokenSecrets:
    def __init__(self, manager: Manager, root_certificate: str) -> None:
        self.client = manager.client
        self.root_certificate = root_certificate
        self.secrets = manager.informer(SECRETS, JsonObject, field_selector=f"type={TYPE}")
        self.accounts = manager.informer(SERVICE_ACCOUNTS, PartialObject, metadata_only=True)
        controller = manager.controller("service-account-tokens", self.reconcile)
        controller.watches(self.secrets)
        controller.watches(self.accounts, self._secrets_of)

    def _secrets_of(self, account: PartialObject) -> Iterable[Key]:
        metadata = account.metadata
        return [
            Key(metadata.namespace, one["metadata"]["name"])
            for one in self.secrets.list(metadata.namespace)
            if _account(one) == metadata.name
        ]

    async def reconcile(self, key: Key) -> Requeue | None:
        secret = self.secrets.get(key)
        if secret is None or "deletionTimestamp" in secret["metadata"]:
            return None
        account = await self.client.find(SERVICE_ACCOUNTS, _account(secret), key.namespace)
        claimed = secret["metadata"]["annotations"].get(UID)
        if account is None or claimed not in (None, account["metadata"]["uid"]):
            await self._delete(secret)
            return None
        missing = self._missing(secret)
        if "token" in missing:
            missing["token"] = await self._issue(key.namespace, account["metadata"]["name"])
        if missing or claimed is None:
            encoded = {name: base64.b64encode(text.encode()).decode() for name, text in missing.items()}
            body = {"metadata": {"annotations": {UID: account["metadata"]["uid"]}}, "data": encoded}
            await self.client.patch(SECRETS, key.name, key.namespace, body)
        return None

    def _missing(self, secret: JsonObject) -> dict[str, str]:
        wanted = {"ca.crt": self.root_certificate, "namespace": secret["metadata"]["namespace"], "token": ""}
        present: JsonObject = secret.get("data") or {}
        return {name: text for name, text in wanted.items() if not present.get(name)}

    async def _issue(self, namespace: str, account: str) -> str:
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": _LIFETIME},
        }
        made: JsonObject = await self.client.create(
            SERVICE_ACCOUNTS, request, namespace, name=account, subresource="token"
        )
        return str(made["status"]["token"])

    async def _delete(self, secret: JsonObject) -> None:
        metadata = secret["metadata"]
        try:
            await self.client.delete(SECRETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except NotFound:
            return


def _account(secret: JsonObject) -> str:
    return str((secret["metadata"].get("annotations") or {}).get(NAME, ""))
