"""Edits of others to an object that a release has changed: kept, and nothing of ours with them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.routes import VIRTUAL_SERVICES

from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.traffic import custom_scripts
from kohort.rollouts.traffic.foreign_edits import rebased
from kohort.rules.rollout_labels import ORIGINAL_SPEC, WRITTEN_SPEC

STABLE = {"destination": {"host": "llm"}}
WEIGHTED = [{"destination": {"host": "llm"}, "weight": 80}, {"destination": {"host": "llm-canary"}, "weight": 20}]
ORIGINAL: JsonObject = {"hosts": ["a"], "http": [{"route": [STABLE]}]}
WRITTEN: JsonObject = {"hosts": ["a"], "http": [{"route": WEIGHTED}]}
MATCHED: JsonObject = {
    "hosts": ["a"],
    "http": [{"match": [{}], "route": [{"destination": {"host": "llm-canary"}}]}, {"route": [STABLE]}],
}


@pytest.mark.parametrize(
    ("written", "live", "expected"),
    [
        (WRITTEN, WRITTEN, ORIGINAL),
        (WRITTEN, ORIGINAL, ORIGINAL),
        # beside what we changed
        (WRITTEN, WRITTEN | {"hosts": ["a", "b"]}, ORIGINAL | {"hosts": ["a", "b"]}),
        (WRITTEN, WRITTEN | {"gateways": ["g"]}, ORIGINAL | {"gateways": ["g"]}),
        (WRITTEN, {"http": WRITTEN["http"]}, {"http": ORIGINAL["http"]}),
        # inside the rule that we changed
        (
            WRITTEN,
            WRITTEN | {"http": [{"route": WEIGHTED, "timeout": "5s"}]},
            ORIGINAL | {"http": [{"route": [STABLE], "timeout": "5s"}]},
        ),
        # a rule more, beside one of ours
        (
            WRITTEN,
            WRITTEN | {"http": [{"route": WEIGHTED}, {"name": "theirs"}]},
            ORIGINAL | {"http": [{"route": [STABLE]}, {"name": "theirs"}]},
        ),
        # a rule of ours in front of theirs
        (
            MATCHED,
            MATCHED | {"http": [*MATCHED["http"], {"name": "theirs"}]},
            ORIGINAL | {"http": [{"route": [STABLE]}, {"name": "theirs"}]},
        ),
        # the manifest applied anew, with a change
        (
            MATCHED,
            ORIGINAL | {"http": [{"route": [STABLE], "timeout": "9s"}]},
            ORIGINAL | {"http": [{"route": [STABLE], "timeout": "9s"}]},
        ),
    ],
)
def test_what_comes_back(written: Json, live: Json, expected: Json) -> None:
    assert rebased(ORIGINAL, written, live) == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_without_edits_the_original_comes_back_byte_for_byte(original: Json, written: Json) -> None:
    assert rebased(original, written, written) == original
    assert rebased(original, written, original) == original


@given(VALUES, VALUES)
def test_what_we_never_changed_is_theirs(original: Json, live: Json) -> None:
    assert rebased(original, original, live) == live


def custom_object(spec: Json, original: Json, written: Json) -> JsonObject:
    kept = {ORIGINAL_SPEC: {"spec": original}, WRITTEN_SPEC: {"spec": written}}
    annotations = {name: msgspec.json.encode(value).decode() for name, value in kept.items()}
    metadata = {"name": "llm", "namespace": "default", "resourceVersion": "1", "annotations": annotations}
    return {"kind": "VirtualService", "metadata": metadata, "spec": spec}


def test_an_edit_that_would_keep_a_route_to_the_canary_is_refused_in_words() -> None:
    theirs = WRITTEN | {"http": [{"route": WEIGHTED, "timeout": "5s"}, {"name": "theirs"}]}
    plan = custom_scripts.plan_restore(custom_object(theirs, ORIGINAL, WRITTEN), VIRTUAL_SERVICES, "llm-canary")
    (write,), (event,) = plan.writes, plan.events
    assert write.body["spec"] == {"http": ORIGINAL["http"]}
    assert (event.reason, event.warning) == ("EditLost", True)
    assert "VirtualService default/llm" in event.message and "apply your edit again" in event.message
