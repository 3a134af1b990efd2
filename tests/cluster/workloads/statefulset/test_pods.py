"""The pods of a StatefulSet: names, labels, claims."""

from kohort.cluster.workloads.statefulset.pods import Owner, build_claims, build_pod, claim_owners, ordinal_of
from kohort.objects.json_types import JsonObject

SET = Owner("apps/v1", "StatefulSet", "web", "set-uid")
POD = Owner("v1", "Pod", "web-1", "pod-uid")


def stateful_set() -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "ns", "uid": "set-uid"},
        "spec": {
            "serviceName": "peers",
            "selector": {"matchLabels": {"app": "web"}},
            "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"tier": "x"}}, "spec": {"a": 1}}],
        },
    }


TEMPLATE: JsonObject = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {
        "containers": [{"name": "c"}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
    },
}


def test_a_pod_carries_its_identity() -> None:
    pod = build_pod(stateful_set(), TEMPLATE, 1, "web-abc")
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": "web-abc",
        "statefulset.kubernetes.io/pod-name": "web-1",
        "apps.kubernetes.io/pod-index": "1",
    }
    assert pod["metadata"]["annotations"] == {"note": "x"}
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "peers")
    assert pod["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_claim_template_replaces_a_volume_of_the_same_name() -> None:
    pod = build_pod(stateful_set(), TEMPLATE, 1, "web-abc")
    assert pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    assert TEMPLATE["spec"]["volumes"][0] == {"name": "data", "emptyDir": {}}


def test_claims_carry_the_labels_of_template_and_selector() -> None:
    (claim,) = build_claims(stateful_set(), 1)
    assert claim["metadata"] == {"name": "data-web-1", "namespace": "ns", "labels": {"tier": "x", "app": "web"}}


def test_names_that_the_set_gives() -> None:
    cases = {
        "web-0": 0,
        "web-12": 12,
        "web-01": None,
        "web-": None,
        "web-a-1": None,
        "other-1": None,
        "web-9999999999": None,
    }
    assert {name: ordinal_of(name, "web") for name in cases} == cases


def owners(references: list[JsonObject], deleted: str, scaled: str, condemned: bool = False) -> list[str]:
    found = claim_owners(references, SET, POD, when_deleted=deleted, when_scaled=scaled, condemned=condemned)
    return [one["kind"] for one in found]


def test_who_owns_a_claim() -> None:
    assert owners([], "Retain", "Retain") == []
    assert owners([], "Delete", "Retain") == ["StatefulSet"]
    assert owners([], "Retain", "Delete") == []
    assert owners([], "Retain", "Delete", condemned=True) == ["Pod"]
    assert owners([], "Delete", "Delete") == ["StatefulSet"]
    assert owners([SET.reference()], "Delete", "Delete", condemned=True) == ["Pod"]
    assert owners([SET.reference()], "Retain", "Retain") == []


def test_a_claim_of_an_earlier_set_is_left_alone() -> None:
    stale = {**SET.reference(), "uid": "older"}
    assert claim_owners([stale], SET, POD, when_deleted="Delete", when_scaled="Delete", condemned=True) == [stale]


def test_a_claim_of_another_controller_is_not_taken_over() -> None:
    other = {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "u", "controller": True}
    assert owners([other], "Delete", "Retain") == ["Thing"]
