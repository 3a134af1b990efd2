"""The webhook certificate is renewed, its authority exchanged and its Secret emptied under load: no request fails."""

import asyncio
import base64
from pathlib import Path

import msgspec
from tests.builders import lws
from tests.kubernetes.controlplane import ControlPlane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words

from kohort.admission.certificate_bundle import Bundle
from kohort.admission.certificate_rotation import authorities, bundle_of, data_of
from kohort.admission.certificates import issue
from kohort.admission.webhook_configurations import MUTATING
from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, InternalError
from kohort.kube.resources import LEADER_WORKER_SETS, MUTATING_WEBHOOKS, SECRETS
from kohort.manager.certificates import METRICS_SERVICE
from kohort.manager.configuration import SECRET, SERVICE

SPACE = "rotation-system"


class Load:
    """Four clients that create a set again and again, without storing it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.answered = 0
        self.failures: list[str] = []

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._ask()) for _ in range(4)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self) -> None:
        while True:
            try:
                await self._client.create(LEADER_WORKER_SETS, lws("load", "rotation").size(2), dry_run=True)
                self.answered += 1
            except ApiError as problem:
                self.failures.append(problem.message)
            await asyncio.sleep(0.01)

    async def more(self, count: int = 50) -> None:
        wanted = self.answered + count
        async with asyncio.timeout(30):
            while self.answered < wanted:
                await asyncio.sleep(0.02)


async def test_rotation_under_load(kubernetes: ControlPlane, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    words = (*service_words(port, SPACE), "--no-rollouts")
    async with (
        administrator(kubernetes, "rotation") as client,
        installed(kubernetes, client, InstallOptions(namespace=SPACE, replicas=0, rollouts=False), port) as kubeconfig,
    ):
        with operator(kubeconfig, tmp_path / "operator.log", *words) as process:
            await process.says("controllers started")
            await _answers(client)
            async with Load(client) as load:
                await load.more()
                first = await _stored(client)

                # Another authority, as a replica that finds the old one about to expire writes it.
                new = issue([f"{one}.{SPACE}.svc" for one in (SERVICE, METRICS_SERVICE)])
                both = msgspec.structs.replace(new, ca_certificate=new.ca_certificate + first.ca_certificate)
                await _store(client, both)
                changed = await process.says("certificate changed")
                assert changed["expires"] == new.expires.isoformat()
                await load.more()
                assert await _stored(client) == both

                # Somebody empties the Secret: a new certificate of the same authority appears.
                await client.patch(SECRETS, SECRET, SPACE, {"data": None})
                async with asyncio.timeout(30):
                    while len([one for one in process.lines() if one["event"] == "certificate changed"]) < 2:
                        await asyncio.sleep(0.1)
                await load.more()
                last = await _stored(client)
                assert last.ca_key == new.ca_key
                assert last.certificate != new.certificate
                assert load.failures == []
            hooks = (await client.get(MUTATING_WEBHOOKS, MUTATING))["webhooks"]
            for one in hooks:
                trusted = authorities(base64.b64decode(one["clientConfig"]["caBundle"]))
                assert set(authorities(last.ca_certificate)) <= set(trusted)


async def _answers(client: Client) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await client.create(LEADER_WORKER_SETS, lws("load", "rotation").size(2), dry_run=True)
            except InternalError:
                await asyncio.sleep(0.05)
            else:
                return


async def _stored(client: Client) -> Bundle:
    found = bundle_of(await client.get(SECRETS, SECRET, SPACE))
    assert found is not None
    return found


async def _store(client: Client, bundle: Bundle) -> None:
    await client.patch(SECRETS, SECRET, SPACE, {"data": data_of(bundle)})
