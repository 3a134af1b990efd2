"""Which edits of a ReleaseAnalysis need the right to read a Secret."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.analysis.analyses import analysis_spec

from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.analysis.analysis_types import AnalysisSpec
from kohort.rollouts.analysis.secret_uses import secret_uses, uses_to_review

TOKEN: JsonObject = {"name": "metrics", "key": "token"}
AUTHORITY: JsonObject = {"name": "authority", "key": "ca.crt"}
HOOK: JsonObject = {"url": "https://hooks/a", "on": ["failed"], "secretRef": {"name": "hook", "key": "token"}}
OTHER_HOOK: JsonObject = {"url": "https://hooks/b", "on": ["failed"], "secretRef": {"name": "hook", "key": "token"}}
SCRAPE_TOKEN, SCRAPE_CA = "spec.source.scrape.tokenSecretRef", "spec.source.scrape.tls.caSecretRef"
PROMETHEUS_TOKEN = "spec.source.prometheus.tokenSecretRef"


def spec(**changes: Json) -> AnalysisSpec:
    return msgspec.convert(analysis_spec(**changes), AnalysisSpec)


def scrape(**changes: Json) -> JsonObject:
    tls = {"caSecretRef": AUTHORITY, "serverName": "model"}
    source = {"port": 8080, "scheme": "https", "path": "/metrics", "tls": tls, "tokenSecretRef": TOKEN, **changes}
    return {"scrape": source}


def prometheus(**changes: Json) -> JsonObject:
    return {"prometheus": {"address": "https://prometheus:9090", "tokenSecretRef": TOKEN, **changes}}


def reviewed(new: AnalysisSpec, old: AnalysisSpec | None) -> list[tuple[str, str]]:
    return [(use.field, use.secret.name) for use in uses_to_review(new, old)]


def test_everything_that_a_new_analysis_names_is_reviewed() -> None:
    assert reviewed(spec(source=scrape(), notify=[HOOK]), None) == [
        (SCRAPE_TOKEN, "metrics"),
        (SCRAPE_CA, "authority"),
        ("spec.notify[0].secretRef", "hook"),
    ]
    assert reviewed(spec(source=prometheus()), None) == [(PROMETHEUS_TOKEN, "metrics")]
    assert reviewed(spec(source={"gateway": {}}, notify=[{"url": "https://hooks/a", "on": ["failed"]}]), None) == []


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        # neither a reference nor where it is sent
        ({"source": scrape()}, {"source": scrape(), "warmup": "10s", "mode": "Gate"}, []),
        ({"source": scrape()}, {"source": scrape(preset="vllm")}, []),
        ({"source": prometheus()}, {"source": prometheus(step="1m", podLabel="instance")}, []),
        ({"source": scrape()}, {"source": {"scrape": {"port": 1}}}, []),
        ({"source": scrape()}, {"source": scrape(), "notify": [{"url": "https://mine", "on": ["failed"]}]}, []),
        ({"notify": [HOOK, OTHER_HOOK]}, {"notify": [OTHER_HOOK, HOOK]}, []),
        ({"notify": [HOOK]}, {"notify": [{**HOOK, "on": ["failed", "promoted"]}]}, []),
        ({"notify": [HOOK, OTHER_HOOK]}, {"notify": [OTHER_HOOK]}, []),
        # a reference
        ({}, {"source": scrape()}, [SCRAPE_TOKEN, SCRAPE_CA]),
        ({"source": scrape()}, {"source": scrape(tokenSecretRef={**TOKEN, "name": "root"})}, [SCRAPE_TOKEN]),
        ({"source": scrape()}, {"source": scrape(tokenSecretRef={**TOKEN, "key": "password"})}, [SCRAPE_TOKEN]),
        ({"notify": [HOOK]}, {"notify": [{**HOOK, "secretRef": TOKEN}]}, ["spec.notify[0].secretRef"]),
        # where it is sent
        ({"source": scrape()}, {"source": scrape(port=9999)}, [SCRAPE_TOKEN]),
        ({"source": scrape()}, {"source": scrape(path="/echo")}, [SCRAPE_TOKEN]),
        ({"source": scrape()}, {"source": scrape(scheme="http")}, [SCRAPE_TOKEN]),
        ({"source": prometheus()}, {"source": prometheus(address="https://mine")}, [PROMETHEUS_TOKEN]),
        ({"notify": [HOOK]}, {"notify": [{**HOOK, "url": "https://mine"}]}, ["spec.notify[0].secretRef"]),
        ({"notify": [HOOK]}, {"notify": [HOOK, {**HOOK, "url": "https://mine"}]}, ["spec.notify[1].secretRef"]),
        # who can pass for the server
        (
            {"source": prometheus()},
            {"source": prometheus(tls={"insecureSkipVerify": True})},
            [PROMETHEUS_TOKEN],
        ),
        (
            {"source": scrape()},
            {"source": scrape(tls={"caSecretRef": AUTHORITY, "serverName": "mine"})},
            [SCRAPE_TOKEN],
        ),
        (
            {"source": scrape()},
            {"source": scrape(tls={"caSecretRef": {"name": "mine", "key": "ca"}, "serverName": "model"})},
            [SCRAPE_TOKEN, SCRAPE_CA],
        ),
        # another kind of recipient, though the address reads the same
        (
            {"source": scrape(tls=None)},
            {"source": prometheus(address="https://POD:8080/metrics")},
            [PROMETHEUS_TOKEN],
        ),
        (
            {"source": prometheus()},
            {"source": {"gateway": {}}, "notify": [{**HOOK, "url": "https://prometheus:9090", "secretRef": TOKEN}]},
            ["spec.notify[0].secretRef"],
        ),
    ],
)
def test_an_edit_is_reviewed_for_what_it_sends_elsewhere(old: JsonObject, new: JsonObject, fields: list[str]) -> None:
    assert [field for field, _ in reviewed(spec(**new), spec(**old))] == fields


references = st.none() | st.builds(lambda name, key: {"name": name, "key": key}, *[st.sampled_from("abc")] * 2)
tls_settings = st.none() | st.builds(
    lambda ca, name, skip: {"caSecretRef": ca, "serverName": name, "insecureSkipVerify": skip},
    references,
    st.sampled_from(["", "x"]),
    st.booleans(),
)
sources = st.one_of(
    st.just({"gateway": {}}),
    st.builds(
        lambda port, tls, token: {"scrape": {"port": port, "tls": tls, "tokenSecretRef": token}},
        st.integers(1, 3),
        tls_settings,
        references,
    ),
    st.builds(
        lambda address, tls, token: {"prometheus": {"address": address, "tls": tls, "tokenSecretRef": token}},
        st.sampled_from(["http://a", "http://b"]),
        tls_settings,
        references,
    ),
)
hooks = st.builds(
    lambda url, ref: {"url": url, "on": ["failed"], "secretRef": ref},
    st.sampled_from(["http://a", "http://b"]),
    references,
)
specs = st.builds(lambda source, notify: spec(source=source, notify=notify), sources, st.lists(hooks, max_size=4))


@given(specs, specs)
def test_what_is_not_reviewed_was_there_before(new: AnalysisSpec, old: AnalysisSpec) -> None:
    before = {(use.secret, use.recipient) for use in secret_uses(old)}
    unreviewed = set(secret_uses(new)) - set(uses_to_review(new, old))
    assert {(use.secret, use.recipient) for use in unreviewed} <= before


@given(specs, st.randoms())
def test_an_edit_of_nothing_else_than_order_is_not_reviewed(one: AnalysisSpec, rng: random.Random) -> None:
    shuffled = tuple(rng.sample(one.notify, len(one.notify)))
    edited = msgspec.structs.replace(one, notify=shuffled, warmup="1s")
    assert uses_to_review(edited, one) == ()


@given(specs)
def test_a_new_analysis_is_reviewed_for_each_use(one: AnalysisSpec) -> None:
    assert uses_to_review(one, None) == secret_uses(one)
