"""Where the certificate of an operator's servers comes from.

| webhooks are reached | certificate |
|---|---|
| through a Service | in a Secret, made and renewed by the operators themselves |
| through a Service, without internal certificates | mounted: cert-manager, say, looks after it |
| on this machine, or not at all | made at the start, and gone with the process |
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, Protocol

from kohort.admission.certificate_bundle import Bundle
from kohort.admission.certificate_maker import SubprocessMaker
from kohort.admission.certificate_rotation import Rotation
from kohort.admission.mounted_certificate import Mounted
from kohort.admission.webhook_configurations import names as webhook_names
from kohort.kube.client import Client
from kohort.manager.configuration import Configuration

Reach = Literal["service", "loopback", "none"]
METRICS_SERVICE: Final = "lws-controller-manager-metrics-service"


class Certificates(Protocol):
    async def first(self) -> Bundle: ...
    async def follow(self, use: Callable[[Bundle], None]) -> None: ...


class _InProcessCertificate:
    """A certificate that lives as long as the process."""

    async def first(self) -> Bundle:
        return await SubprocessMaker().successor(None, ["127.0.0.1", "localhost"], datetime.now(UTC))

    async def follow(self, use: Callable[[Bundle], None]) -> None:
        await asyncio.Event().wait()


def certificates(client: Client, configuration: Configuration, reach: Reach, namespace: str) -> Certificates:
    """`namespace` is the operator's own."""
    if reach != "service":
        return _InProcessCertificate()
    internal = configuration.internal_cert_management
    if not internal.enable:
        return Mounted(Path(configuration.webhook.cert_dir))
    names = [f"{service}.{namespace}.svc" for service in (internal.webhook_service_name, METRICS_SERVICE)]
    return Rotation(
        client, namespace, internal.webhook_secret_name, names, webhook_names(rollouts=configuration.rollouts)
    )
