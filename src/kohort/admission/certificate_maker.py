"""Issues and checks certificates without keeping the library for that in memory.

The library takes ten megabytes of memory, for a few milliseconds a year. So an operator does this work in a process
that ends at once (`InSubprocess`). Short-lived processes, and those that cannot start others, do it themselves
(`InProcess`).
"""

import asyncio
import sys
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from kohort.admission.certificate_bundle import Bundle
from kohort.kube.log import Log
from kohort.rules.python_command import python_command

_log = Log(module="kohort.admission.certificate_maker")


class CertificateCheck(msgspec.Struct, frozen=True):
    reason: str
    """Why another certificate is needed, or nothing."""
    expires: str = ""


class CertificateMaker(Protocol):
    async def check(self, bundle: Bundle, names: list[str], now: datetime) -> CertificateCheck: ...

    async def successor(self, before: Bundle | None, names: list[str], now: datetime) -> Bundle:
        """A certificate for these names, which clients that trust `before` can trust."""
        ...


class InProcessMaker:
    async def check(self, bundle: Bundle, names: list[str], now: datetime) -> CertificateCheck:
        return _check_bundle(bundle, names, now)

    async def successor(self, before: Bundle | None, names: list[str], now: datetime) -> Bundle:
        from kohort.admission import certificates

        return certificates.successor(before, names, now)


class SubprocessMaker:
    async def check(self, bundle: Bundle, names: list[str], now: datetime) -> CertificateCheck:
        answer = await _ask(_Task("check", names, now, bundle))
        return (
            msgspec.json.decode(answer, type=CertificateCheck)
            if answer
            else await InProcessMaker().check(bundle, names, now)
        )

    async def successor(self, before: Bundle | None, names: list[str], now: datetime) -> Bundle:
        answer = await _ask(_Task("successor", names, now, before))
        return (
            msgspec.json.decode(answer, type=Bundle) if answer else await InProcessMaker().successor(before, names, now)
        )


class _Task(msgspec.Struct, frozen=True):
    wanted: Literal["check", "successor"]
    names: list[str]
    now: datetime
    bundle: Bundle | None


async def _ask(task: _Task) -> bytes:
    """The answer of the subprocess; empty when it could not be started or failed."""
    pipe = asyncio.subprocess.PIPE
    try:
        child = await asyncio.create_subprocess_exec(*python_command(__name__), stdin=pipe, stdout=pipe, stderr=pipe)
        answer, complaint = await child.communicate(msgspec.json.encode(task))
    except OSError as problem:
        _log.warning("certificates are made in this process", problem=str(problem))
        return b""
    if child.returncode != 0:
        _log.warning("certificates are made in this process", problem=complaint.decode(errors="replace")[-500:])
        return b""
    return answer


def _check_bundle(bundle: Bundle, names: list[str], now: datetime) -> CertificateCheck:
    from kohort.admission import certificates

    reason = certificates.problem_with(bundle, names, now)
    if reason:
        return CertificateCheck(reason)
    return CertificateCheck(
        "it expires soon" if certificates.must_renew(bundle, now) else "", expires=bundle.expires.isoformat()
    )


def _carry_out(task: _Task) -> CertificateCheck | Bundle:
    from kohort.admission import certificates

    if task.wanted == "check" and task.bundle is not None:
        return _check_bundle(task.bundle, task.names, task.now)
    return certificates.successor(task.bundle, task.names, task.now)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_carry_out(msgspec.json.decode(sys.stdin.buffer.read(), type=_Task))))
