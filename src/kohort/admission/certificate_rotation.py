"""The webhook certificate of an installed operator: kept in a Secret, renewed in time, trusted before it is used.

All replicas watch the same Secret. A replica that finds no usable certificate in it, or one that expires soon, writes a
new one; the resource version decides between two that do so at once.

The order of a change is what keeps requests from failing:

1. the Secret gets the new certificate; when the authority is new as well, its `ca.crt` holds both;
2. every replica makes the webhook configurations trust all of `ca.crt`, besides what they trusted before: other
   replicas still serve the old certificate;
3. a replica that serves already goes on with the old certificate for `settle` seconds, in which all API servers learn
   what to trust, and then uses the new one for new connections. Open connections are not touched. A replica cannot
   know when another one has changed the configurations, so it waits whenever an authority is new to it;
4. when a certificate has been in use for `RETIRE_SECONDS`, only what its Secret names is trusted.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from kohort.admission.certificate_bundle import Bundle
from kohort.admission.certificate_maker import CertificateCheck, CertificateMaker, SubprocessMaker
from kohort.kube import errors
from kohort.kube.client import Client, PatchType
from kohort.kube.log import Log
from kohort.kube.resources import SECRETS, Resource
from kohort.objects.json_types import JsonObject

SETTLE_SECONDS: Final = 10.0
CHECK_SECONDS: Final = 60
RETIRE_SECONDS: Final = 150.0
"""Longer than any replica needs to see a new certificate, wait, and use it."""
JUDGE_AGAIN: Final = timedelta(hours=12)
_PAUSE: Final = 2.0
_FIELDS: Final = {"ca.crt": "ca_certificate", "ca.key": "ca_key", "tls.crt": "certificate", "tls.key": "key"}
_INJECTED_BY_OTHERS: Final = "cert-manager.io/inject-ca-from"
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)

_log = Log(module="kohort.admission.certificate_rotation")


class Rotation:
    def __init__(
        self,
        client: Client,
        namespace: str,
        secret: str,
        names: Sequence[str],
        configurations: Sequence[tuple[Resource, str]],
        *,
        settle: float = SETTLE_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        maker: CertificateMaker | None = None,
    ) -> None:
        self._client = client
        self._namespace, self._secret = namespace, secret
        self._names = [*names]
        self._configurations = configurations
        self._settle = settle
        self._now = now
        self._maker = maker or SubprocessMaker()
        self._current: Bundle | None = None
        self._since = 0.0
        """When it came into use, by the clock of the loop."""
        self._logged = ""
        """The problem that was logged last."""
        self._judged: tuple[Bundle, datetime, CertificateCheck] | None = None

    async def first(self) -> Bundle:
        """The certificate to start with, trusted by the webhook configurations that exist."""
        bundle = await self._agreed()
        await self._inject(bundle)
        self._keep(bundle)
        return bundle

    async def follow(self, use: Callable[[Bundle], None]) -> None:
        """Call `use` with every later certificate. Runs until cancelled."""
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS + 30):
                    await self._watch_once(use)
                self._logged = ""
            except (errors.ApiError, TimeoutError) as problem:
                self._log_once(problem)
                await asyncio.sleep(_PAUSE)

    def _log_once(self, problem: Exception) -> None:
        """A problem that lasts is logged once."""
        words = str(problem) or type(problem).__name__
        if isinstance(problem, errors.NotFound):
            words += "; the certificate in use goes on, but the next operator to start has none: apply the Secret again"
        if words != self._logged:
            _log.warning("certificate not checked", secret=self._secret, problem=words)
        self._logged = words

    async def _watch_once(self, use: Callable[[Bundle], None]) -> None:
        await self._check(use)
        selector = f"metadata.name={self._secret}"
        async for _ in self._client.watch(
            SECRETS, self._namespace, field_selector=selector, timeout_seconds=CHECK_SECONDS
        ):
            await self._check(use)

    async def _check(self, use: Callable[[Bundle], None]) -> None:
        bundle = await self._agreed()
        trusted_now = await self._inject(bundle)
        if bundle == self._current:
            return
        if trusted_now or self._is_news(bundle):
            _log.info("certificate will be used when it is trusted everywhere", seconds=self._settle)
            await asyncio.sleep(self._settle)
        use(bundle)
        self._keep(bundle)
        _log.info("certificate changed", expires=(await self._checked(bundle)).expires)

    def _is_news(self, bundle: Bundle) -> bool:
        """Whether it names an authority that was not trusted when the present certificate came into use."""
        known = authorities(self._current.ca_certificate) if self._current is not None else []
        return not set(authorities(bundle.ca_certificate)) <= set(known)

    def _keep(self, bundle: Bundle) -> None:
        self._current, self._since = bundle, asyncio.get_running_loop().time()

    # The Secret

    async def _agreed(self) -> Bundle:
        """What the Secret holds, after writing a new one into it if need be."""
        while True:
            secret = await self._client.get(SECRETS, self._secret, self._namespace)
            found = bundle_of(secret)
            reason = (await self._checked(found)).reason if found is not None else "there was none"
            if found is not None and not reason:
                return found
            new = await self._maker.successor(found or self._current, self._names, self._now())
            try:
                await self._client.update(SECRETS, {**secret, "data": data_of(new)})
            except errors.Conflict:
                continue
            _log.info("certificate issued", secret=self._secret, reason=reason)
            return new

    async def _checked(self, bundle: Bundle) -> CertificateCheck:
        """Judged when it is new, and twice a day."""
        now = self._now()
        if self._judged is not None and self._judged[0] == bundle and now - self._judged[1] < JUDGE_AGAIN:
            return self._judged[2]
        check = await self._maker.check(bundle, self._names, now)
        self._judged = (bundle, now, check)
        return check

    # The configurations

    async def _inject(self, bundle: Bundle) -> bool:
        """True when a configuration did not trust the bundle until now."""
        settled = bundle == self._current and asyncio.get_running_loop().time() - self._since > RETIRE_SECONDS
        changed = False
        for resource, name in self._configurations:
            while True:
                found = await self._client.find(resource, name)
                operations = (
                    injection(found, bundle.ca_certificate, self._namespace, retire=settled)
                    if found is not None
                    else []
                )
                if not operations:
                    break
                try:
                    await self._client.patch(resource, name, "", operations, PatchType.JSON)
                except (errors.Conflict, errors.Invalid):
                    continue
                changed = True
                break
        return changed


def injection(
    configuration: JsonObject, wanted: bytes, namespace: str = "", *, retire: bool = False
) -> list[JsonObject]:
    """A JSON patch that makes a configuration, or the conversion of a definition, trust `wanted`, and no other
    authority if the others shall `retire`; none when it does, or when cert-manager injects it. The chart that brings a
    definition cannot know the `namespace` of the operator; the patch corrects that too."""
    metadata = configuration["metadata"]
    if _INJECTED_BY_OTHERS in (metadata.get("annotations") or {}):
        return []
    changes: list[JsonObject] = []
    for path, client in _clients(configuration):
        if "service" in client:
            trusted = _decoded(client.get("caBundle") or "")
            bundle = wanted if retire else trusting(trusted, wanted)
            if bundle != trusted:
                value = base64.b64encode(bundle).decode()
                changes.append({"op": "add", "path": f"{path}/caBundle", "value": value})
        if (
            path.startswith("/spec")
            and namespace
            and client.get("service", {}).get("namespace", namespace) != namespace
        ):
            changes.append({"op": "add", "path": f"{path}/service/namespace", "value": namespace})
    if not changes:
        return []
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}, *changes]


def trusting(trusted: bytes, wanted: bytes) -> bytes:
    """A bundle of all authorities of both, the wanted ones first; the one that is there if it has them already."""
    known = authorities(trusted)
    if known and set(authorities(wanted)) <= set(known):
        return trusted
    return b"".join([wanted, *(b"%s\n" % one for one in known if one not in authorities(wanted))])


def authorities(pem: bytes) -> list[bytes]:
    return _BLOCK.findall(pem)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _clients(configuration: JsonObject) -> list[tuple[str, JsonObject]]:
    """The client configurations in it, with their JSON paths."""
    hooks = configuration.get("webhooks") or []
    found = [(f"/webhooks/{number}/clientConfig", hook["clientConfig"]) for number, hook in enumerate(hooks)]
    converter = ((configuration.get("spec") or {}).get("conversion") or {}).get("webhook")
    return [*found, ("/spec/conversion/webhook/clientConfig", converter["clientConfig"])] if converter else found


def bundle_of(secret: JsonObject) -> Bundle | None:
    """The certificate in a Secret; None when a part of it is missing."""
    data = secret.get("data") or {}
    try:
        values = {field: base64.b64decode(data[key]) for key, field in _FIELDS.items()}
    except (KeyError, binascii.Error):
        return None
    return Bundle(**values) if all(values.values()) else None


def data_of(bundle: Bundle) -> JsonObject:
    return {key: base64.b64encode(getattr(bundle, field)).decode() for key, field in _FIELDS.items()}
