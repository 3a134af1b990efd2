"""Webhooks without sockets: configurations in a store, and services whose answers are functions of the request."""

import base64
from collections.abc import Callable

import msgspec

from kohort.cluster.apiserver.admission.model import Attributes, Operation
from kohort.cluster.apiserver.admission.webhook_client import WebhookClient
from kohort.cluster.apiserver.admission.webhooks import Webhooks
from kohort.cluster.apiserver.auth.model import AccessDecision, AccessRequest, User
from kohort.cluster.apiserver.kinds.model import Kind, Strategy
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.storage.model import Store
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject

V1 = Resource("example.com", "v1", "widgets", "Widget")
V2 = Resource("example.com", "v2", "widgets", "Widget")
ANYTHING = Node("object", preserve_unknown=True)


class Defaulting(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {}).setdefault("defaulted", True)


def renamed(api_version: str) -> Callable[[JsonObject], JsonObject]:
    return lambda obj: {**obj, "apiVersion": api_version}


KINDS = [
    Kind(V1, lambda: ANYTHING, Defaulting(), "widget", "WidgetList", custom=True),
    Kind(
        V2,
        lambda: ANYTHING,
        Defaulting(),
        "widget",
        "WidgetList",
        custom=True,
        from_storage=renamed("example.com/v2"),
        to_storage=renamed("example.com/v1"),
    ),
]
Answer = Callable[[JsonObject], JsonObject]


class World:
    """A store with configurations, and services whose answers tests write down as functions of the request."""

    def __init__(self) -> None:
        self.store: Store = open_store(None)
        self.client = WebhookClient(self._nowhere)
        self.webhooks = Webhooks(self.store, self.client, lambda _: KINDS, self._allow)
        self.asked: list[tuple[str, JsonObject]] = []

    def _nowhere(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        raise LookupError(f'service "{name}" not found')

    def _allow(self, request: AccessRequest) -> AccessDecision:
        return AccessDecision(request.verb == "get")

    def service(self, name: str, answer: Answer) -> None:
        async def handler(path: str, body: bytes) -> bytes:
            review = msgspec.json.decode(body)
            self.asked.append((name, review))
            response = {"uid": review["request"]["uid"], **answer(review["request"])}
            return msgspec.json.encode(
                {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}
            )

        self.client.register_local("hooks", name, handler)

    async def configure(self, kind: str, name: str, *entries: JsonObject) -> None:
        bucket = f"{kind}webhookconfigurations.admissionregistration.k8s.io"
        await self.store.write(bucket, "", name, {"metadata": {"name": name}, "webhooks": list(entries)}, expected=0)

    async def namespace(self, name: str, **labels: str) -> None:
        document = {"metadata": {"name": name, "labels": labels}}
        await self.store.write("namespaces", "", name, document, expected=0, labels=labels)

    def request(
        self,
        operation: Operation = "CREATE",
        obj: JsonObject | None = None,
        old: JsonObject | None = None,
        *,
        resource: Resource = V1,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Attributes:
        return Attributes(
            operation=operation,
            resource=resource,
            name="w",
            namespace="ns",
            user=User("jane", ("devs",), "u1", {"scope": ("a",)}),
            reader=NOTHING,
            object=widget() if obj is None and operation != "DELETE" else obj,
            old_object=old,
            subresource=subresource,
            options={"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            dry_run=dry_run,
        )

    def names_asked(self) -> list[str]:
        return [name for name, _ in self.asked]


class Nothing:
    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        return None

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        return []


NOTHING = Nothing()


def widget(**spec: Json) -> JsonObject:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "ns", "labels": {"app": "x"}},
        "spec": dict(spec),
    }


def hook(name: str, service: str = "", **fields: Json) -> JsonObject:
    return {
        "name": name,
        "clientConfig": {"service": {"namespace": "hooks", "name": service or name, "path": "/check"}},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["widgets"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def patching(*operations: JsonObject) -> Answer:
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    return lambda request: {"allowed": True, "patch": patch, "patchType": "JSONPatch"}


def allowing(request: JsonObject) -> JsonObject:
    return {"allowed": True}
