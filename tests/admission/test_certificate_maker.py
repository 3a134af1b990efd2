"""Certificates made and judged by another process are those that are made here."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from kohort.admission.certificate_maker import CertificateMaker, InProcessMaker, SubprocessMaker
from kohort.admission.certificates import problem_with

NAMES = ["lws-webhook-service.lws-system.svc", "127.0.0.1"]
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("maker", [SubprocessMaker(), InProcessMaker()])
async def test_made_and_judged(maker: CertificateMaker) -> None:
    bundle = await maker.successor(None, NAMES, NOW)
    assert problem_with(bundle, NAMES, NOW) == ""
    verdict = await maker.check(bundle, NAMES, NOW)
    assert (verdict.reason, verdict.expires) == ("", bundle.expires.isoformat())
    assert (await maker.check(bundle, NAMES, NOW + timedelta(days=300))).reason == "it expires soon"
    assert (await maker.check(bundle, ["other.svc"], NOW)).reason == "the certificate is not for other.svc"
    following = await maker.successor(bundle, NAMES, NOW)
    assert following.ca_key == bundle.ca_key
    assert following.certificate != bundle.certificate


async def test_without_another_process_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    bundle = await SubprocessMaker().successor(None, NAMES, NOW)
    assert problem_with(bundle, NAMES, NOW) == ""
