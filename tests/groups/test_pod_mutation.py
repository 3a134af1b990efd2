"""The pod webhook, row by row (PW1 to PW28 of the behaviour)."""

from collections.abc import Callable

import pytest

from kohort.admission.group_webhooks import VALIDATE_POD, GroupWebhooks
from kohort.groups.gang import Volcano
from kohort.groups.pod_mutation import PodRefused, missing_from, mutated
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import subgroup_key

TPU = {"limits": {"google.com/tpu": "4"}}


def leader(name: str = "test-1", size: int = 2, **annotations: str) -> JsonObject:
    return pod(name, size, worker=False, **annotations)


def worker(name: str = "test-1-1", size: int = 2, **annotations: str) -> JsonObject:
    return pod(name, size, worker=True, **annotations)


def pod(name: str, size: int, *, worker: bool, **annotations: str) -> JsonObject:
    keys = {key: getattr(group_labels, key.upper()) for key in annotations}
    labels = {group_labels.NAME: "test", group_labels.REVISION: "1"}
    notes = {group_labels.SIZE: str(size), **{keys[key]: value for key, value in annotations.items()}}
    if worker:
        parent = name.rpartition("-")[0]
        labels |= {group_labels.GROUP_INDEX: parent.rpartition("-")[2], group_labels.GROUP_KEY: "k"}
        notes[group_labels.LEADER_NAME] = parent
    else:
        labels[group_labels.WORKER_INDEX] = "0"
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": notes},
        "spec": {"subdomain": "default", "containers": [{"name": "main", "image": "x"}]},
    }


def with_tpus(subject: JsonObject, *more: JsonObject) -> JsonObject:
    subject["spec"]["containers"][0]["resources"] = TPU
    subject["spec"]["containers"] += more
    return subject


def env(subject: JsonObject, container: int = 0) -> dict[str, str]:
    return {
        one["name"]: one.get("value", "") for one in mutated(subject, "default")["spec"]["containers"][container]["env"]
    }


def labels(subject: JsonObject) -> JsonObject:
    found: JsonObject = mutated(subject, "default")["metadata"]["labels"]
    return found


def test_pw1_a_pod_outside_any_group_is_left_alone() -> None:
    foreign = {"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"containers": []}}
    assert mutated(foreign, "default") is foreign


def test_pw2_a_worker_learns_its_index() -> None:
    before = worker("test-1-1")["metadata"]["labels"]
    assert labels(worker("test-1-1")) == {**before, group_labels.WORKER_INDEX: "1"}


def test_pw3_a_leader_learns_its_group() -> None:
    found = labels(leader("test-1"))
    assert found[group_labels.GROUP_INDEX] == "1"
    assert len(found[group_labels.GROUP_KEY]) == 40


@pytest.mark.parametrize(
    ("subject", "index"),
    [
        pytest.param(lambda: with_tpus(leader(size=5, subgroup_size="4")), "0", id="PW4"),
        pytest.param(
            lambda: with_tpus(worker("test-1-3", 4, subgroup_size="2", leader_requests_tpus="true")), "1", id="PW5"
        ),
        pytest.param(lambda: with_tpus(worker("test-1-4", 5, subgroup_size="2")), "1", id="PW6"),
    ],
)
def test_subgroups(subject: Callable[[], JsonObject], index: str) -> None:
    found = labels(subject())
    assert found[group_labels.SUBGROUP_INDEX] == index
    assert found[group_labels.SUBGROUP_KEY] == subgroup_key("test-1", index)


def test_a_leader_may_be_in_no_subgroup() -> None:
    assert group_labels.SUBGROUP_INDEX not in labels(
        leader(size=5, subgroup_size="2", subgroup_policy="LeaderExcluded")
    )


def test_pw7_a_tpu_pod_outside_any_group_gets_no_variables() -> None:
    foreign = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "main", "resources": TPU}]}}
    assert mutated(foreign, "default") is foreign


def test_pw8_a_leader_without_tpus_has_no_tpu_variables() -> None:
    assert not any(name.startswith("TPU") for name in env(leader()))


def test_pw9_a_worker_without_tpus_has_no_tpu_variables() -> None:
    assert not any(name.startswith("TPU") for name in env(worker()))


def hosts(subject: JsonObject) -> list[str]:
    return env(with_tpus(subject))["TPU_WORKER_HOSTNAMES"].split(",")


def test_pw10_a_leader_with_tpus_comes_first() -> None:
    found = env(with_tpus(leader(size=5)))
    assert found["TPU_WORKER_HOSTNAMES"].split(",") == [
        "test-1.default",
        *(f"test-1-{number}.default" for number in range(1, 5)),
    ]
    assert (found["TPU_WORKER_ID"], found["TPU_NAME"], found["TPU_PROCESS_PORT"]) == ("0", "test-1", "8476")
    assert found["TPU_PROCESS_ADDRESSES"].startswith("test-1.default:8476,test-1-1.default:8476")


def test_pw11_a_subdomain_per_replica() -> None:
    found = env(with_tpus(leader(size=2, subdomain_policy="UniquePerReplica")))
    assert found["TPU_WORKER_HOSTNAMES"] == "test-1.test-1,test-1-1.test-1"
    assert found["LWS_LEADER_ADDRESS"] == "test-1.test-1.default"


def named(*workers: int, leader: bool = False) -> list[str]:
    return [*(["test-1.default"] if leader else []), *(f"test-1-{number}.default" for number in workers)]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(leader(size=5, subgroup_size="5"), named(1, 2, 3, 4, leader=True), id="PW12"),
        pytest.param(worker("test-1-3", 5, leader_requests_tpus="true"), named(1, 2, 3, 4, leader=True), id="PW13"),
        pytest.param(
            worker("test-1-3", 10, subgroup_size="5", leader_requests_tpus="true"),
            named(1, 2, 3, 4, leader=True),
            id="PW14",
        ),
        pytest.param(worker("test-1-3", 5), named(1, 2, 3, 4), id="PW15"),
        pytest.param(worker("test-1-7", 11, subgroup_size="5"), named(6, 7, 8, 9, 10), id="PW16"),
        pytest.param(worker("test-1-1", 2, leader_requests_tpus="true"), named(1, leader=True), id="PW17"),
        pytest.param(leader(size=1), named(leader=True), id="PW18"),
        pytest.param(
            worker("test-1-7", 8, subgroup_size="4", leader_requests_tpus="true"), named(4, 5, 6, 7), id="4.14-g4-w7-T"
        ),
        pytest.param(worker("test-1-5", 9, subgroup_size="4"), named(5, 6, 7, 8), id="4.14-g4-w5"),
        pytest.param(worker("test-1-2", 3, subgroup_size="1"), named(2), id="4.14-g1-w2"),
        pytest.param(
            worker("test-1-2", 3, subgroup_size="1", leader_requests_tpus="true"), named(2), id="4.14-g1-w2-T"
        ),
    ],
)
def test_hosts_of_groups_and_subgroups(subject: JsonObject, expected: list[str]) -> None:
    assert hosts(subject) == expected


def test_tpu_numbers_by_the_table() -> None:
    rows = [
        (worker("test-1-1", 2, leader_requests_tpus="true"), "1"),
        (worker("test-1-1", 2), "0"),
        (worker("test-1-3", 10, subgroup_size="5", leader_requests_tpus="true"), "3"),
        (worker("test-1-7", 8, subgroup_size="4", leader_requests_tpus="true"), "3"),
        (worker("test-1-5", 9, subgroup_size="4"), "0"),
        (worker("test-1-7", 11, subgroup_size="5"), "1"),
        (worker("test-1-2", 3, subgroup_size="1"), "0"),
    ]
    for subject, identity in rows:
        assert env(with_tpus(subject))["TPU_WORKER_ID"] == identity


def test_pw19_only_containers_with_tpus_get_tpu_variables() -> None:
    subject = with_tpus(leader(), {"name": "side", "image": "x"})
    assert "TPU_NAME" in env(subject, 0)
    assert "TPU_NAME" not in env(subject, 1)


def test_two_tpu_containers_are_two_processes_per_host() -> None:
    subject = with_tpus(leader(size=2), {"name": "second", "image": "x", "resources": TPU})
    first, second = env(subject, 0), env(subject, 1)
    assert first["TPU_WORKER_HOSTNAMES"] == "test-1.default,test-1.default,test-1-1.default,test-1-1.default"
    assert (first["TPU_WORKER_ID"], second["TPU_WORKER_ID"]) == ("0", "1")
    assert (first["TPU_PROCESS_PORT"], second["TPU_PROCESS_PORT"]) == ("8476", "8477")


def terms(subject: JsonObject, kind: str = "podAffinity") -> list[tuple[str, str]]:
    affinity = mutated(subject, "default")["spec"].get("affinity") or {}
    found = affinity.get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return [(one["topologyKey"], one["labelSelector"]["matchExpressions"][0]["key"]) for one in found]


BOTH = {"exclusive": "rack", "subgroup_exclusive": "host", "subgroup_size": "2"}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(leader(exclusive="rack"), [("rack", group_labels.GROUP_KEY)], id="PW20"),
        pytest.param(
            leader(size=4, **BOTH), [("rack", group_labels.GROUP_KEY), ("host", group_labels.SUBGROUP_KEY)], id="PW21"
        ),
        pytest.param(worker("test-1-1", 4, **BOTH), [("host", group_labels.SUBGROUP_KEY)], id="PW22"),
        pytest.param(leader(), [], id="PW23"),
    ],
)
def test_exclusive_placement(subject: JsonObject, expected: list[tuple[str, str]]) -> None:
    assert terms(subject) == expected
    assert terms(subject, "podAntiAffinity") == expected


def test_pw24_a_second_pass_changes_nothing() -> None:
    once = mutated(with_tpus(leader(exclusive="rack", unique_node_selector="pool")), "default")
    assert mutated(once, "default") == once
    assert terms(once) == [("rack", group_labels.GROUP_KEY)]


def test_pw25_the_users_own_affinity_is_kept() -> None:
    own = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "topologyKey": "zone"}
    subject = leader(exclusive="rack")
    subject["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    assert terms(subject) == [("zone", "app"), ("rack", group_labels.GROUP_KEY)]
    assert terms(subject, "podAntiAffinity") == [("rack", group_labels.GROUP_KEY)]


def test_pw26_our_variables_come_first_in_every_container() -> None:
    subject = leader()
    subject["spec"]["containers"][0]["env"] = [
        {"name": "MODEL", "value": "$(LWS_LEADER_ADDRESS)"},
        {"name": "LWS_GROUP_SIZE", "value": "9"},
    ]
    subject["spec"]["initContainers"] = [{"name": "init", "image": "x"}]
    result = mutated(subject, "default")["spec"]
    names = [one["name"] for one in result["containers"][0]["env"]]
    assert names == ["LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "MODEL"]
    assert result["containers"][0]["env"][1]["value"] == "2"
    assert result["initContainers"][0]["env"][0] == {"name": "LWS_LEADER_ADDRESS", "value": "test-1.default.default"}


def test_pw27_validation_of_a_foreign_pod_allows_it() -> None:
    foreign = {"metadata": {"name": "x"}, "spec": {"containers": []}}
    assert GroupWebhooks().endpoints()[VALIDATE_POD]({"uid": "1", "object": foreign}) == {"allowed": True}


def test_pw28_a_pod_joins_its_pod_group() -> None:
    annotations = mutated(leader("test-0"), "default", gang=Volcano())["metadata"]["annotations"]
    assert annotations[group_labels.POD_GROUP] == "test-0-1"


def test_what_cannot_belong_to_a_group_is_refused() -> None:
    no_size = leader()
    del no_size["metadata"]["annotations"][group_labels.SIZE]
    with pytest.raises(PodRefused, match="size annotation is unexpectedly missing for pod test-1"):
        mutated(no_size, "default")
    with pytest.raises(PodRefused, match="parsing pod ordinal for pod test"):
        mutated(leader("test"), "default")


def test_a_pod_that_missed_the_webhook_is_noticed() -> None:
    assert missing_from(mutated(leader(), "default"), "default") == []
    assert missing_from(leader(), "default") == [
        f"label {group_labels.GROUP_INDEX}",
        f"label {group_labels.GROUP_KEY}",
        "variables or placement rules in its spec",
    ]
