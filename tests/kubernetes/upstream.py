"""A released LeaderWorkerSet manager as a process on a control plane, with its definitions and webhooks."""

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from tests.kubernetes.controlplane import free_ports
from tools.lws import build

from kohort.admission.certificate_bundle import Bundle
from kohort.admission.certificates import issue
from kohort.admission.webhook_configurations import Address, configurations
from kohort.kube.client import Client
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kohort.objects.json_types import JsonObject
from kohort.operator import apply_webhooks, wait_established
from kohort.rules import group_labels


def released_definitions() -> list[JsonObject]:
    """As that release ships them. They have more than a megabyte each, for which PyYAML without C needs seconds."""
    files = sorted(build.definitions().iterdir())
    return [yaml.load(one.read_text(), Loader=yaml.CSafeLoader) for one in files]


class Upstream:
    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._kubeconfig = kubeconfig
        self._directory = directory
        (self._port,) = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None

    async def prepare(self, client: Client) -> None:
        """Definitions and webhooks as that release has them, at the address where it will listen."""
        for definition in released_definitions():
            await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager="upstream")
            await wait_established(client, definition["metadata"]["name"])
        bundle = self.certify()
        url = f"https://127.0.0.1:{self._port}"
        mutating, validating = configurations(Address(bundle.ca_certificate, url=url), rollouts=False)
        validating["webhooks"].append(_pod_validation(validating["webhooks"][0], url))
        for configuration in (mutating, validating):
            await apply_webhooks(client, configuration, "upstream")

    def certify(self) -> Bundle:
        """A certificate where it will look for one."""
        bundle = issue(["127.0.0.1", "localhost"])
        certificates = self._directory / "certificates"
        certificates.mkdir(parents=True, exist_ok=True)
        (certificates / "tls.crt").write_bytes(bundle.certificate)
        (certificates / "tls.key").write_bytes(bundle.key)
        return bundle

    def start(self) -> None:
        configuration = {
            "apiVersion": "config.lws.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "webhook": {"port": self._port, "host": "127.0.0.1", "certDir": str(self._directory / "certificates")},
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": "0"},
            "internalCertManagement": {"enable": False},
        }
        path = self._directory / "configuration.yaml"
        path.write_text(yaml.safe_dump(configuration))
        command = [str(build.program()), "--config", str(path), "--kubeconfig", str(self._kubeconfig)]
        with (self._directory / "manager.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--zap-log-level=info"], stdout=log, stderr=log, env={**os.environ}
            )

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=40)
        self.process = None


def _pod_validation(like: JsonObject, url: str) -> JsonObject:
    """It allows everything, but the release asks about every pod of a group."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
    return {
        **like,
        "name": "vpod.kb.io",
        "clientConfig": {**like["clientConfig"], "url": f"{url}/validate--v1-pod"},
        "rules": [rule],
        "objectSelector": {"matchExpressions": [{"key": group_labels.NAME, "operator": "Exists"}]},
    }


@asynccontextmanager
async def upstream(client: Client, kubeconfig: Path, directory: Path) -> AsyncIterator[Upstream]:
    manager = Upstream(kubeconfig, directory)
    await manager.prepare(client)
    manager.start()
    try:
        yield manager
    finally:
        manager.stop()
