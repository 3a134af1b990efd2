"""The certificate in its Secret, on an API server in the same process and on virtual time."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

from kohort.admission.bundles import Bundle
from kohort.admission.certificates import issue
from kohort.admission.configurations import MUTATING, Address, configurations, names
from kohort.admission.craft import Here
from kohort.admission.rotation import Rotation, bundle_of, data_of, injection
from kohort.kube.client import Client
from kohort.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from kohort.kube.tasks import cancel_all
from kohort.objects.jsontypes import JsonObject
from kohort.testing import virtual_time
from kohort.testing.cluster import Cluster

SPACE, SECRET = "lws-system", "lws-webhook-server-cert"
DNS = ["lws-webhook-service.lws-system.svc"]
START = datetime(2030, 1, 1, tzinfo=UTC)


class Scene:
    """An installation, and a clock that can be turned."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.now = START
        self.used: list[Bundle] = []

    async def install(self) -> None:
        await self.client.create(NAMESPACES, {"metadata": {"name": SPACE}})
        await self.client.create(SECRETS, {"metadata": {"name": SECRET, "namespace": SPACE}})
        address = Address(b"", service=(SPACE, "lws-webhook-service"))
        for one in configurations(address, rollouts=False):
            mutating = one["kind"] == "MutatingWebhookConfiguration"
            await self.client.create(MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS, one)

    def rotation(self) -> Rotation:
        return Rotation(self.client, SPACE, SECRET, DNS, names(rollouts=False), now=lambda: self.now, craft=Here())

    async def stored(self) -> Bundle | None:
        return bundle_of(await self.client.get(SECRETS, SECRET, SPACE))

    async def trusted(self) -> set[bytes]:
        found = set()
        for resource, name in names(rollouts=False):
            hooks = (await self.client.get(resource, name))["webhooks"]
            found |= {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}
        return found


def test_two_replicas_agree_on_one_certificate() -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            scene = Scene(cluster.client)
            await scene.install()
            first, second = await asyncio.gather(scene.rotation().first(), scene.rotation().first())
            assert first == second == await scene.stored()
            assert await scene.trusted() == {first.ca_certificate}

    virtual_time.run(story())


def test_a_new_authority_is_trusted_before_it_is_used() -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            scene = Scene(cluster.client)
            await scene.install()
            rotation = scene.rotation()
            first = await rotation.first()
            following = asyncio.create_task(rotation.follow(scene.used.append))
            await asyncio.sleep(5)
            assert scene.used == []

            scene.now = START + timedelta(days=280)
            await asyncio.sleep(300)
            (renewed,) = scene.used
            assert renewed.ca_certificate == first.ca_certificate

            # The authority has less than a year left. Nobody may use the new one before it is trusted for a while.
            scene.now = START + timedelta(days=3400)
            async for event in scene.client.watch(SECRETS, SPACE):
                if bundle_of(event.object) != renewed:
                    break
            await asyncio.sleep(5)
            (trusted,) = await scene.trusted()
            assert trusted.count(b"BEGIN CERTIFICATE") == 2
            assert len(scene.used) == 1
            await asyncio.sleep(30)
            assert len(scene.used) == 2
            assert scene.used[-1].ca_certificate == trusted
            await cancel_all(following)

    virtual_time.run(story())


def test_a_certificate_of_others_making_is_used_and_nonsense_is_replaced() -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            scene = Scene(cluster.client)
            await scene.install()
            rotation = scene.rotation()
            await rotation.first()
            following = asyncio.create_task(rotation.follow(scene.used.append))
            await asyncio.sleep(1)
            swapped = issue(DNS, now=START)
            await scene.client.patch(SECRETS, SECRET, SPACE, {"data": data_of(swapped)})
            await asyncio.sleep(30)
            assert scene.used == [swapped]
            nonsense = {name: base64.b64encode(b"nonsense").decode() for name in data_of(swapped)}
            await scene.client.patch(SECRETS, SECRET, SPACE, {"data": nonsense})
            await asyncio.sleep(60)
            assert len(scene.used) == 2
            assert await scene.stored() == scene.used[-1] != swapped
            await cancel_all(following)

    virtual_time.run(story())


def configuration(annotations: dict[str, str] | None = None, ca: str = "") -> JsonObject:
    client = {"service": {"name": "s", "namespace": "n"}, **({"caBundle": ca} if ca else {})}
    metadata = {"name": MUTATING, "resourceVersion": "7", "annotations": annotations or {}}
    return {"metadata": metadata, "webhooks": [{"clientConfig": client}, {"clientConfig": {"url": "https://x"}}]}


def test_only_what_leads_to_the_service_is_changed() -> None:
    assert [one["path"] for one in injection(configuration(), "new")] == [
        "/metadata/resourceVersion",
        "/webhooks/0/clientConfig/caBundle",
    ]
    assert injection(configuration(ca="new"), "new") == []
    assert injection(configuration({"cert-manager.io/inject-ca-from": "a/b"}), "new") == []
