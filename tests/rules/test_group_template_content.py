"""What a revision of a set holds, its key, its fingerprint, and the defaults of its template."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import Json, JsonObject
from kohort.rules.group_template import (
    RECREATE_ON_RESTART,
    SHARED,
    canonical_network,
    canonical_template,
    content_hash,
    earlier_fingerprint,
    has_fingerprint,
    revision_content,
    revision_fingerprint,
    revision_key,
    same_revision,
    with_default_template,
)
from kohort.rules.safe_text import ALPHABET


def spec(**template: Json) -> JsonObject:
    worker = {"spec": {"containers": [{"name": "main", "image": "model:1"}]}}
    return {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": worker, **template}}


@pytest.mark.parametrize(
    ("given_policy", "policy"),
    [
        (None, RECREATE_ON_RESTART),
        ("", RECREATE_ON_RESTART),
        ("Default", "None"),
        ("None", "None"),
        ("RecreateGroupAfterStart", "RecreateGroupAfterStart"),
        (RECREATE_ON_RESTART, RECREATE_ON_RESTART),
    ],
)
def test_restart_policies_are_defaulted_by_the_table(given_policy: str | None, policy: str) -> None:
    found = with_default_template(spec(restartPolicy=given_policy))
    assert found["leaderWorkerTemplate"]["restartPolicy"] == policy


@pytest.mark.parametrize(
    ("network", "policy"),
    [
        (None, SHARED),
        ({}, SHARED),
        ({"subdomainPolicy": None}, SHARED),
        ({"subdomainPolicy": ""}, SHARED),
        ({"subdomainPolicy": "UniquePerReplica"}, "UniquePerReplica"),
    ],
)
def test_the_subdomain_is_shared_unless_the_set_says_otherwise(network: JsonObject | None, policy: str) -> None:
    found = with_default_template({**spec(), "networkConfig": network})
    assert found["networkConfig"]["subdomainPolicy"] == policy


def test_defaulting_leaves_the_spec_and_its_other_fields_alone() -> None:
    before = {**spec(), "startupPolicy": "LeaderReady"}
    kept = copy.deepcopy(before)
    after = with_default_template(before)
    assert before == kept
    assert (after["startupPolicy"], after["replicas"]) == ("LeaderReady", 2)
    assert with_default_template(after) == after


def test_a_revision_holds_template_and_network_and_nothing_else() -> None:
    found = revision_content({**spec(), "rolloutStrategy": {"type": "RollingUpdate"}, "startupPolicy": "LeaderReady"})
    assert list(found) == ["spec"]
    assert sorted(found["spec"]) == ["leaderWorkerTemplate", "networkConfig"]
    assert all(part["$patch"] == "replace" for part in found["spec"].values())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"replicas": 9}, id="replicas"),
        pytest.param({"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": 1}}}, id="partition"),
        pytest.param({"networkConfig": {"subdomainPolicy": "Shared"}}, id="shared subdomain"),
        pytest.param({"networkConfig": None}, id="no network"),
    ],
)
def test_edits_of_other_fields_make_no_revision(other: JsonObject) -> None:
    assert same_revision(spec(), {**spec(), **other})
    assert revision_key(spec()) == revision_key({**spec(), **other})


def test_another_subdomain_makes_a_revision() -> None:
    assert not same_revision(spec(), {**spec(), "networkConfig": {"subdomainPolicy": "UniquePerReplica"}})


def test_empty_parts_of_a_template_are_left_out() -> None:
    assert canonical_template({"size": 2, "leaderTemplate": None, "volumeClaimTemplates": []}) == {"size": 2}
    assert canonical_template({"restartPolicy": "", "resizePolicy": ""}) == {"restartPolicy": ""}


def test_claims_of_a_template_are_canonical() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}
    (found,) = canonical_template({"volumeClaimTemplates": [claim]})["volumeClaimTemplates"]
    assert found["spec"]["resources"]["requests"]["storage"] == "1Gi"


def test_a_network_without_policy_is_shared() -> None:
    assert canonical_network(None) == canonical_network({}) == canonical_network({"subdomainPolicy": None})
    assert canonical_network(None) == {"subdomainPolicy": SHARED}


def test_a_salt_makes_another_key_of_the_same_content() -> None:
    content = revision_content(spec())
    keys = {content_hash(content), content_hash(content, b"a"), content_hash(content, b"b")}
    assert len(keys) == 3
    assert all(set(key) <= set(ALPHABET) for key in keys)


def test_fingerprints_are_recognised_in_both_forms() -> None:
    assert has_fingerprint(spec(), revision_fingerprint(spec()))
    assert has_fingerprint(spec(), earlier_fingerprint(spec()))
    assert not has_fingerprint(spec(), "")
    assert not has_fingerprint(spec(size=3), revision_fingerprint(spec()))


def test_the_earlier_fingerprint_depends_on_spelling_and_the_present_one_does_not() -> None:
    def asking(cpu: str) -> JsonObject:
        container = {"name": "main", "image": "model:1", "resources": {"limits": {"cpu": cpu}}}
        return spec(workerTemplate={"spec": {"containers": [container]}})

    assert revision_fingerprint(asking("1")) == revision_fingerprint(asking("1000m"))
    assert earlier_fingerprint(asking("1")) != earlier_fingerprint(asking("1000m"))


@given(st.integers(1, 64), st.integers(1, 64))
def test_sizes_make_a_revision_exactly_when_they_differ(one: int, other: int) -> None:
    same = same_revision(spec(size=one), spec(size=other))
    assert same == (one == other)
    assert (revision_fingerprint(spec(size=one)) == revision_fingerprint(spec(size=other))) == same
