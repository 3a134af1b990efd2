"""The webhook certificate as files, when cert-manager (or a person) makes it and the kubelet mounts it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kohort.admission.certificate_bundle import Bundle
from kohort.kube.log import Log

LOOK_SECONDS: Final = 10.0

_log = Log(module="kohort.admission.mounted_certificate")


class MissingCertificate(Exception):
    """There is no certificate at the place that the configuration names."""


class Mounted:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._current: Bundle | None = None

    async def first(self) -> Bundle:
        try:
            self._current = self._read()
        except OSError as problem:
            raise MissingCertificate(
                f"no certificate in {self._directory}: {problem}; cert-manager must write it, or switch on "
                "internalCertManagement"
            ) from problem
        return self._current

    async def follow(self, use: Callable[[Bundle], None]) -> None:
        """Call `use` with every later certificate. Runs until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                found = self._read()
                if found != self._current:
                    use(found)
                    self._current = found
                    _log.info("certificate changed", expires=found.expires.isoformat())
            except (OSError, ValueError) as problem:
                # The files are being replaced one after the other; the next look sees both.
                _log.warning("certificate not read", directory=str(self._directory), problem=str(problem))

    def _read(self) -> Bundle:
        certificate = (self._directory / "tls.crt").read_bytes()
        return Bundle(b"", b"", certificate, (self._directory / "tls.key").read_bytes())
