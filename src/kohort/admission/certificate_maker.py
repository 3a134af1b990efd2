"""Making and judging certificates without keeping the tools.

The library for that takes ten megabytes of memory, for a few milliseconds a year. So an operator has the work done by a
process that ends at once (`Apart`). Whoever is short-lived, or cannot start processes, does it here (`Here`).
"""

import asyncio
import sys
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from kohort.admission.certificate_bundle import Bundle
from kohort.kube.log import Log

_log = Log(module="kohort.admission.certificate_maker")


class Verdict(msgspec.Struct, frozen=True):
    reason: str
    """Why another certificate is needed, or nothing."""
    expires: str = ""


class Craft(Protocol):
    async def judge(self, bundle: Bundle, names: list[str], now: datetime) -> Verdict: ...

    async def successor(self, before: Bundle | None, names: list[str], now: datetime) -> Bundle:
        """A certificate for these names, which clients that trust `before` can trust."""
        ...


class Here:
    async def judge(self, bundle: Bundle, names: list[str], now: datetime) -> Verdict:
        return _judge(bundle, names, now)

    async def successor(self, before: Bundle | None, names: list[str], now: datetime) -> Bundle:
        from kohort.admission import certificates

        return certificates.successor(before, names, now)


class Apart:
    async def judge(self, bundle: Bundle, names: list[str], now: datetime) -> Verdict:
        answer = await _ask(_Order("judge", names, now, bundle))
        return msgspec.json.decode(answer, type=Verdict) if answer else await Here().judge(bundle, names, now)

    async def successor(self, before: Bundle | None, names: list[str], now: datetime) -> Bundle:
        answer = await _ask(_Order("successor", names, now, before))
        return msgspec.json.decode(answer, type=Bundle) if answer else await Here().successor(before, names, now)


class _Order(msgspec.Struct, frozen=True):
    wanted: Literal["judge", "successor"]
    names: list[str]
    now: datetime
    bundle: Bundle | None


async def _ask(order: _Order) -> bytes:
    """What the other process says; nothing when there is none."""
    pipe = asyncio.subprocess.PIPE
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, stdin=pipe, stdout=pipe, stderr=pipe
        )
        answer, complaint = await child.communicate(msgspec.json.encode(order))
    except OSError as problem:
        _log.warning("certificates are made in this process", problem=str(problem))
        return b""
    if child.returncode != 0:
        _log.warning("certificates are made in this process", problem=complaint.decode(errors="replace")[-500:])
        return b""
    return answer


def _judge(bundle: Bundle, names: list[str], now: datetime) -> Verdict:
    from kohort.admission import certificates

    reason = certificates.problem_with(bundle, names, now)
    if reason:
        return Verdict(reason)
    return Verdict(
        "it expires soon" if certificates.must_renew(bundle, now) else "", expires=bundle.expires.isoformat()
    )


def _obey(order: _Order) -> Verdict | Bundle:
    from kohort.admission import certificates

    if order.wanted == "judge" and order.bundle is not None:
        return _judge(order.bundle, order.names, order.now)
    return certificates.successor(order.bundle, order.names, order.now)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_obey(msgspec.json.decode(sys.stdin.buffer.read(), type=_Order))))
