"""The certificate in its Secret, on an API server in the same process and on virtual time."""

import asyncio
import base64
import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from kohort.admission.certificate_bundle import Bundle
from kohort.admission.certificate_maker import InProcessMaker
from kohort.admission.certificate_rotation import SETTLE_SECONDS, Rotation, authorities, bundle_of, data_of, injection
from kohort.admission.certificates import issue
from kohort.admission.webhook_configurations import MUTATING, Address, configurations, names
from kohort.kube.client import Client
from kohort.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject
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
        return Rotation(
            self.client, SPACE, SECRET, DNS, names(rollouts=False), now=lambda: self.now, maker=InProcessMaker()
        )

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


@pytest.mark.parametrize("usable", [True, False])
def test_an_exchange_fails_no_request_of_any_replica(usable: bool) -> None:
    """Somebody puts a pair of another authority into the Secret: one that can be used, or one for other names. Whatever
    a replica serves, and whenever it changes, the API servers have trusted it for a while."""

    async def story() -> None:
        async with Cluster() as cluster:
            scene = Scene(cluster.client)
            await scene.install()
            served: dict[str, list[tuple[float, Bundle]]] = {}
            clock = asyncio.get_running_loop().time

            async def replica(name: str) -> None:
                rotation = scene.rotation()
                served[name] = [(clock(), await rotation.first())]
                await rotation.follow(lambda bundle: served[name].append((clock(), bundle)))

            replicas = [asyncio.create_task(replica(name)) for name in ("one", "two")]
            await asyncio.sleep(200)
            exchanged = clock()
            foreign = issue(DNS if usable else ["elsewhere"], now=START)
            await scene.client.patch(SECRETS, SECRET, SPACE, {"data": data_of(foreign)})
            while clock() < exchanged + 30:
                await asyncio.sleep(0.5)
                for trusted in await scene.trusted():
                    assert all(is_trusted(history[-1][1], trusted) for history in served.values()), (
                        "the API server would refuse a replica"
                    )
            for (_, before), (changed, after) in served.values():
                assert changed - exchanged >= SETTLE_SECONDS
                assert authorities(after.ca_certificate)[0] == authorities(foreign.ca_certificate)[0]
                assert before != after

            await asyncio.sleep(300)
            (trusted,) = await scene.trusted()
            assert authorities(before.ca_certificate)[0] not in authorities(trusted), "an authority must retire"
            await cancel_all(*replicas)

    virtual_time.run(story())


def is_trusted(served: Bundle, trusted: bytes) -> bool:
    """Whether a client that trusts these authorities accepts the certificate."""
    certificate = x509.load_pem_x509_certificate(served.certificate)
    for one in x509.load_pem_x509_certificates(trusted):
        with contextlib.suppress(ValueError, InvalidSignature):
            certificate.verify_directly_issued_by(one)
            return True
    return False


def test_a_secret_that_is_gone_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            scene = Scene(cluster.client)
            await scene.install()
            rotation = scene.rotation()
            await rotation.first()
            following = asyncio.create_task(rotation.follow(scene.used.append))
            await scene.client.delete(SECRETS, SECRET, SPACE)
            await asyncio.sleep(600)
            assert scene.used == []
            await scene.client.create(SECRETS, {"metadata": {"name": SECRET, "namespace": SPACE}})
            await asyncio.sleep(60)
            assert [await scene.stored()] == scene.used
            await cancel_all(following)

    virtual_time.run(story())
    assert capsys.readouterr().err.count("apply the Secret again") == 1


def configuration(annotations: dict[str, str] | None = None, ca: str = "") -> JsonObject:
    client = {"service": {"name": "s", "namespace": "n"}, **({"caBundle": ca} if ca else {})}
    metadata = {"name": MUTATING, "resourceVersion": "7", "annotations": annotations or {}}
    return {"metadata": metadata, "webhooks": [{"clientConfig": client}, {"clientConfig": {"url": "https://x"}}]}


def test_only_what_leads_to_the_service_is_changed() -> None:
    new = issue(DNS, now=START).ca_certificate
    assert [one["path"] for one in injection(configuration(), new)] == [
        "/metadata/resourceVersion",
        "/webhooks/0/clientConfig/caBundle",
    ]
    assert injection(configuration(ca=base64.b64encode(new).decode()), new) == []
    assert injection(configuration({"cert-manager.io/inject-ca-from": "a/b"}), new) == []
