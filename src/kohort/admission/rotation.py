"""The webhook certificate of an installed operator: kept in a Secret, renewed in time, trusted before it is used.

All replicas follow the same Secret. Whoever finds that it holds no usable certificate, or one that expires soon, writes
a new one; the resource version decides between two that do so at once.

The order of a change is what keeps requests from failing:

1. the Secret gets the new certificate; when the authority is new as well, its `ca.crt` holds both;
2. every replica sees to it that the webhook configurations trust all of `ca.crt`;
3. a replica that serves already goes on with the old certificate for `settle` seconds, in which all API servers learn
   what to trust, and then uses the new one for new connections. Open connections are not touched.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from kohort.admission.bundles import Bundle
from kohort.admission.craft import Apart, Craft, Verdict
from kohort.kube import errors
from kohort.kube.client import Client, PatchType
from kohort.kube.log import Log
from kohort.kube.resources import SECRETS, Resource
from kohort.objects.jsontypes import JsonObject

SETTLE_SECONDS: Final = 10.0
CHECK_SECONDS: Final = 60
JUDGE_AGAIN: Final = timedelta(hours=12)
_PAUSE: Final = 2.0
_FIELDS: Final = {"ca.crt": "ca_certificate", "ca.key": "ca_key", "tls.crt": "certificate", "tls.key": "key"}
_INJECTED_BY_OTHERS: Final = "cert-manager.io/inject-ca-from"

_log = Log(module="kohort.admission.rotation")


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
        craft: Craft | None = None,
    ) -> None:
        self._client = client
        self._namespace, self._secret = namespace, secret
        self._names = [*names]
        self._configurations = configurations
        self._settle = settle
        self._now = now
        self._craft = craft or Apart()
        self._current: Bundle | None = None
        self._judged: tuple[Bundle, datetime, Verdict] | None = None

    async def first(self) -> Bundle:
        """The certificate to start with, trusted by the webhook configurations that exist."""
        bundle = await self._agreed()
        await self._inject(bundle)
        self._current = bundle
        return bundle

    async def follow(self, use: Callable[[Bundle], None]) -> None:
        """Call `use` with every later certificate. Runs until cancelled."""
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS + 30):
                    await self._watch_once(use)
            except (errors.ApiError, TimeoutError) as problem:
                _log.warning("certificate not checked", secret=self._secret, problem=str(problem))
                await asyncio.sleep(_PAUSE)

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
        if trusted_now:
            _log.info("certificate will be used when it is trusted everywhere", seconds=self._settle)
            await asyncio.sleep(self._settle)
        use(bundle)
        self._current = bundle
        _log.info("certificate changed", expires=(await self._verdict(bundle)).expires)

    # The Secret

    async def _agreed(self) -> Bundle:
        """What the Secret holds, after writing a new one into it if need be."""
        while True:
            secret = await self._client.get(SECRETS, self._secret, self._namespace)
            found = bundle_of(secret)
            reason = (await self._verdict(found)).reason if found is not None else "there was none"
            if found is not None and not reason:
                return found
            new = await self._craft.successor(found or self._current, self._names, self._now())
            try:
                await self._client.update(SECRETS, {**secret, "data": data_of(new)})
            except errors.Conflict:
                continue
            _log.info("certificate issued", secret=self._secret, reason=reason)
            return new

    async def _verdict(self, bundle: Bundle) -> Verdict:
        """Judged when it is new, and twice a day."""
        now = self._now()
        if self._judged is not None and self._judged[0] == bundle and now - self._judged[1] < JUDGE_AGAIN:
            return self._judged[2]
        verdict = await self._craft.judge(bundle, self._names, now)
        self._judged = (bundle, now, verdict)
        return verdict

    # The configurations

    async def _inject(self, bundle: Bundle) -> bool:
        """True when a configuration did not trust the bundle until now."""
        wanted = base64.b64encode(bundle.ca_certificate).decode()
        changed = False
        for resource, name in self._configurations:
            while True:
                found = await self._client.find(resource, name)
                operations = injection(found, wanted, self._namespace) if found is not None else []
                if not operations:
                    break
                try:
                    await self._client.patch(resource, name, "", operations, PatchType.JSON)
                except (errors.Conflict, errors.Invalid):
                    continue
                changed = True
                break
        return changed


def injection(configuration: JsonObject, wanted: str, namespace: str = "") -> list[JsonObject]:
    """A JSON patch that makes a configuration, or the conversion of a definition, trust `wanted`; none when it does, or
    when somebody else sees to it. A definition comes from a chart that could not know in which `namespace` it would be
    installed; that is put right on the way."""
    metadata = configuration["metadata"]
    if _INJECTED_BY_OTHERS in (metadata.get("annotations") or {}):
        return []
    changes: list[JsonObject] = []
    for path, client in _clients(configuration):
        if "service" in client and client.get("caBundle") != wanted:
            changes.append({"op": "add", "path": f"{path}/caBundle", "value": wanted})
        if (
            path.startswith("/spec")
            and namespace
            and client.get("service", {}).get("namespace", namespace) != namespace
        ):
            changes.append({"op": "add", "path": f"{path}/service/namespace", "value": namespace})
    if not changes:
        return []
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}, *changes]


def _clients(configuration: JsonObject) -> list[tuple[str, JsonObject]]:
    """Where it says whom to ask."""
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
