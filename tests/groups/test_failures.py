"""Groups that fail, with a budget of restarts, on a whole cluster in this process and on virtual time."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

import pytest
from tests.builders import LeaderWorkerSet, container, lws, pod
from tests.groups.test_disruption_budget import evict
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import NAMESPACE, create, groups_cluster, images, patch, pods, settled, status
from tests.installed import installed

from kohort.groups import failure_evidence
from kohort.groups.failure_evidence import ContainerFailure, GroupFailure, PodFailure, encoded, with_failure
from kohort.kube import clock
from kohort.kube.errors import InternalError, TooManyRequests
from kohort.kube.resources import CONFIG_MAPS, EVENTS, LEADER_WORKER_SETS, NAMESPACES, NODES, PODS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster
from kohort.testing.crashes import crash_at_every_write

ORDER = "simulation.kohort.dev/"
BUDGET = {"maxRestarts": 2, "windowSeconds": 3600, "backoffSeconds": 10, "maxBackoffSeconds": 60}


def budgeted(**changes: object) -> LeaderWorkerSet:
    return lws("llm").replicas(2).size(2).but("spec.leaderWorkerTemplate.restartBudget", {**BUDGET, **changes})


async def crash(cluster: Cluster, pod: str, code: int = 3) -> None:
    """The containers of a pod end once."""
    orders = {f"{ORDER}exit-code": str(code), f"{ORDER}crashes": "1", f"{ORDER}exit-after": "0s"}
    await cluster.client.patch(PODS, pod, NAMESPACE, {"metadata": {"annotations": orders}})


def uid(cluster: Cluster, name: str) -> str:
    pod = pods(cluster).get(name)
    return pod["metadata"]["uid"] if pod is not None else ""


def exhausted(cluster: Cluster) -> JsonObject:
    found = [one for one in status(cluster).get("conditions", []) if one["type"] == "GroupsExhausted"]
    return found[0] if found else {}


def kept(cluster: Cluster) -> list[JsonObject]:
    found = cluster.find(CONFIG_MAPS, "llm-failures", NAMESPACE)
    return json.loads(found["data"]["failures.json"]) if found is not None else []


async def recreated(cluster: Cluster, before: str) -> str:
    """Wait until group 1 has another leader than the one with this uid, and is ready."""
    await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before) and settled(cluster, 2))
    return uid(cluster, "llm-1")


async def fail_until_held(cluster: Cluster, pod: str = "llm-1-1", leader: str = "llm-1") -> list[float]:
    """Let a pod of a group fail whenever the group is back; returns when the group was recreated."""
    clock, moments = asyncio.get_running_loop().time, list[float]()
    while exhausted(cluster).get("status") != "True":
        before = uid(cluster, leader)
        await crash(cluster, pod)

        def held_or_back(before: str = before) -> bool:
            back = uid(cluster, leader) not in ("", before) and settled(cluster, 2)
            return back or exhausted(cluster).get("status") == "True"

        await cluster.until(held_or_back)
        if uid(cluster, leader) != before:
            moments.append(clock())
    return moments


async def test_a_group_is_held_when_its_budget_is_used_up_and_others_go_on() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        other = uid(cluster, "llm-0")
        moments = await fail_until_held(cluster)
        assert len(moments) == BUDGET["maxRestarts"]
        assert moments[1] - moments[0] >= 9.5
        held = uid(cluster, "llm-1")
        message = exhausted(cluster)["message"]
        assert exhausted(cluster)["reason"] == "RestartBudgetExhausted"
        assert "group 1: pod llm-1-1, container main ended with code 3, after 2 restarts within 3600 s" in message
        assert "kohort restart llm --group 1" in message
        assert any(one["reason"] == "GroupExhausted" for one in cluster.objects(EVENTS, NAMESPACE))
        await crash(cluster, "llm-0-1")
        await cluster.until(lambda: uid(cluster, "llm-0") not in ("", other))
        await asyncio.sleep(3700)
        assert uid(cluster, "llm-1") == held


async def test_failed_pods_stay_while_their_group_waits() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted(maxRestarts=9))
        await cluster.until(lambda: settled(cluster, 2))
        first = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", first) and settled(cluster, 2))
        before = {name: uid(cluster, name) for name in ("llm-1", "llm-1-1")}
        await crash(cluster, "llm-1-1")
        await asyncio.sleep(8)
        assert {name: uid(cluster, name) for name in before} == before
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before["llm-1"]), 5)


async def test_another_template_begins_afresh() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        await fail_until_held(cluster)
        await patch(cluster, "llm", new_image("new:2"))
        await cluster.until(lambda: settled(cluster, 2) and exhausted(cluster)["status"] == "False")
        await cluster.settle()
        assert not status(cluster).get("restarts")
        moments = await fail_until_held(cluster)
        assert len(moments) == BUDGET["maxRestarts"]


@pytest.mark.parametrize("path", ["another image", "other resources", "restart by a user", "its back-off is over"])
async def test_what_explains_a_failure_is_kept_whoever_deletes_the_pods(path: str) -> None:
    async with groups_cluster() as cluster:
        subject = budgeted(backoffSeconds=60).workers(template_with_cpu("100m"))
        await create(cluster, subject.but("spec.rolloutStrategy.resourceUpdatePolicy", "InPlaceOrRecreate"))
        await cluster.until(lambda: settled(cluster, 2))
        first = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1", 3)
        second = await recreated(cluster, first)
        await crash(cluster, "llm-1-1", 4)
        await cluster.until(lambda: status(cluster)["restarts"]["1"].get("due") is not None)
        match path:
            case "another image":
                await patch(cluster, "llm", new_image("new:2"))
            case "other resources":
                spec = template_with_cpu("200m")["spec"]
                await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": spec}}}})
            case "restart by a user":
                since = json.dumps({"1": clock.micro_timestamp()})
                note = {"metadata": {"annotations": {"kohort.dev/restarts-counted-since": since}}}
                await patch(cluster, "llm", note)
                await cluster.client.delete(PODS, "llm-1", NAMESPACE, propagation="Foreground")
        await recreated(cluster, second)
        codes = [one["pods"][0]["containers"][0]["exitCode"] for one in kept(cluster)]
        assert (codes, [one["leader"] for one in kept(cluster)]) == ([4, 3], [second, first])


@pytest.mark.parametrize("record", ["due", "exhausted"])
async def test_the_status_forgets_why_a_group_waited_that_a_user_restarts(record: str) -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted(backoffSeconds=60, maxRestarts=2 if record == "due" else 1))
        await cluster.until(lambda: settled(cluster, 2))
        first = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        second = await recreated(cluster, first)
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: status(cluster)["restarts"]["1"].get(record) is not None)
        since = json.dumps({"1": clock.micro_timestamp()})
        await patch(cluster, "llm", {"metadata": {"annotations": {"kohort.dev/restarts-counted-since": since}}})
        await cluster.client.delete(PODS, "llm-1", NAMESPACE, propagation="Foreground")
        await recreated(cluster, second)
        await cluster.settle(quiet=10)
        assert record not in status(cluster)["restarts"]["1"]


async def test_an_operator_that_starts_anew_knows_what_was_spent() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        before = uid(cluster, "llm-1")
        for _ in range(2):
            await crash(cluster, "llm-1-1")
            before = await recreated(cluster, before)
            await cluster.parts["operator"].crash()
            await cluster.parts["operator"].restart()
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: exhausted(cluster).get("status") == "True")
        await cluster.parts["operator"].crash()
        await cluster.parts["operator"].restart()
        await cluster.settle()
        assert uid(cluster, "llm-1") == before
        assert exhausted(cluster)["status"] == "True"


async def test_deletions_count_and_evictions_and_drains_do_not() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted(maxRestarts=1, backoffSeconds=0))
        await cluster.until(lambda: settled(cluster, 2))

        async def is_recreated_after(act: str) -> None:
            before = uid(cluster, "llm-1")
            if act == "evict":
                await cluster.client.create(
                    PODS, {"metadata": {"name": "llm-1-1"}}, NAMESPACE, subresource="eviction", name="llm-1-1"
                )
            else:
                await cluster.client.delete(PODS, "llm-1-1", NAMESPACE)
            await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before) and settled(cluster, 2))

        await is_recreated_after("evict")
        node = pods(cluster)["llm-1-1"]["spec"]["nodeName"]
        await cluster.client.patch(NODES, node, "", {"spec": {"unschedulable": True}})
        await is_recreated_after("delete")
        assert not status(cluster).get("restarts")
        await cluster.client.patch(NODES, node, "", {"spec": {"unschedulable": None}})
        await is_recreated_after("delete")
        assert len(status(cluster)["restarts"]["1"]["times"]) == 1
        before = uid(cluster, "llm-1")
        await cluster.client.delete(PODS, "llm-1-1", NAMESPACE)
        await cluster.until(lambda: exhausted(cluster).get("status") == "True")
        await cluster.settle()
        assert uid(cluster, "llm-1") == before
        assert "group 1: pod llm-1-1 was deleted" in exhausted(cluster)["message"]


async def test_a_budget_is_changed_and_removed_without_a_roll() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        before = {name: uid(cluster, name) for name in pods(cluster)}
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"restartBudget": BUDGET}}})
        await cluster.settle()
        assert {name: uid(cluster, name) for name in pods(cluster)} == before
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: "1" in status(cluster).get("restarts", {}))
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"restartBudget": None}}})
        await cluster.until(lambda: not status(cluster).get("restarts") and settled(cluster, 2))


# Evidence


async def test_what_explains_a_failure_is_kept() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        await crash(cluster, "llm-1-1", 137)
        await cluster.until(lambda: bool(kept(cluster)))
        (failure,) = kept(cluster)
        (pod,) = failure["pods"]
        (ended,) = pod["containers"]
        assert (failure["group"], failure["reason"], pod["pod"]) == (1, "restarted", "llm-1-1")
        assert (ended["container"], ended["exitCode"], ended["signal"]) == ("main", 137, 9)
        assert "simulated nodes" in ended["logNote"]
        assert pod["node"]
        assert any("Scheduled" in text for text in pod["events"])
        stored = cluster.find(CONFIG_MAPS, "llm-failures", NAMESPACE)
        assert stored is not None
        owner = stored["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"]) == ("LeaderWorkerSet", "llm")
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE)
        await cluster.until(lambda: cluster.find(CONFIG_MAPS, "llm-failures", NAMESPACE) is None)


async def test_a_node_that_does_not_answer_delays_a_restart_by_two_seconds_at_most() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        cluster.faults("operator").slow_down(60, on=lambda request: request.path.endswith("/log"))
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: pods(cluster)["llm-1-1"]["status"]["containerStatuses"][0]["restartCount"] == 1)
        await cluster.until(lambda: uid(cluster, "llm-1") != before, 2.1)
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before) and settled(cluster, 2))
        (ended,) = kept(cluster)[0]["pods"][0]["containers"]
        assert "did not send the log in time" in ended["logNote"]


async def test_a_record_that_cannot_be_stored_delays_a_restart_by_two_seconds_at_most() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        cluster.faults("operator").slow_down(60, on=lambda request: "/configmaps" in request.path)
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: pods(cluster)["llm-1-1"]["status"]["containerStatuses"][0]["restartCount"] == 1)
        await cluster.until(lambda: uid(cluster, "llm-1") != before, 2.1)


@pytest.mark.parametrize("path", ["/configmaps", "/log", "/events"])
async def test_rights_that_are_missing_do_not_keep_a_group_from_being_recreated(path: str) -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        cluster.faults("operator").refuse(403, on=lambda request: path in request.path, times=None)
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before) and settled(cluster, 2), 30)


async def test_a_config_map_of_a_user_is_left_alone() -> None:
    async with groups_cluster() as cluster:
        mine = {"metadata": {"name": "llm-failures"}, "data": {"mine": "yes"}}
        await cluster.client.create(CONFIG_MAPS, mine, NAMESPACE)
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before) and settled(cluster, 2), 30)
        found = cluster.find(CONFIG_MAPS, "llm-failures", NAMESPACE)
        assert found is not None
        assert found["data"] == {"mine": "yes"}
        texts = [one["note"] if "note" in one else one["message"] for one in cluster.objects(EVENTS, NAMESPACE)]
        assert any("Failures of groups are not kept: a ConfigMap llm-failures exists" in text for text in texts)


def failure(number: int, log: str = "") -> GroupFailure:
    ended = ContainerFailure("main", 1, log=log)
    return GroupFailure(
        0, f"t{number}", "restarted", f"leader-{number}", pods=(PodFailure("llm-0-1", containers=(ended,)),)
    )


def test_the_last_ten_failures_are_kept_the_newest_first() -> None:
    known: list[GroupFailure] = []
    for number in range(14):
        known = with_failure(known, failure(number))
        assert with_failure(known, failure(number)) == known
    assert [one.at for one in known] == [f"t{number}" for number in range(13, 3, -1)]


def test_a_large_record_loses_its_oldest_logs_first() -> None:
    log = 'a line with "quotes"\n' * 3000
    failures = [failure(number, log[: failure_evidence.LOG_BYTES]) for number in range(10)]
    wide = [GroupFailure(0, one.at, "restarted", one.leader, pods=one.pods * 4) for one in failures]
    text = encoded(wide)
    assert len(text.encode()) <= 900 * 1024
    found = failure_evidence.decoded(text)
    assert [one.at for one in found] == [one.at for one in wide]
    with_logs = [one.at for one in found if one.pods[0].containers[0].log]
    assert with_logs == [one.at for one in wide[: len(with_logs)]]
    assert with_logs
    huge = [GroupFailure(0, "t", "restarted", "x", pods=failures[0].pods * 40)]
    assert len(encoded(huge).encode()) <= 900 * 1024


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer abcdefghijklmnop",
        "POSTGRES_PASSWORD=abcdefghijklmnop",
        '{"api_key": "abcdefghijklmnop"}',
        "hf_token: abcdefghijklmnop",
        "https://user:abcdefghijklmnop@host/path",
        "using hf_abcdefghijklmnopqrstuv",
        "-----BEGIN RSA PRIVATE KEY-----\nabcdefghijklmnop\n-----END RSA PRIVATE KEY-----",
        "eyJhbGciOi.abcdefghijklmnop.abcdefghijklmnop",
        "the value is plain-in-the-environment",
        "serve --password abcdefghijklmnop --port 1",
        "login: passwd abcdefghijklmn0p",
        "MYSQL_PWD=abcdefghijklmnop",
        "Cookie: session=abcdefghijklmnop; other=abcdefghijklmnop",
        "Set-Cookie: sid=abcdefghijklmnop",
        "key AIzaSyabcdefghijklmnopqrstuvw",
        "the password is abcdefghijklmn0p",
        'client_secret: "abcdefgh abcdefghijklmnop"',
        "\x1b[36mpassword\x1b[0m=abcdefghijklmnop",
        "\x1b[36mtoken\x1b[0m=\x1b[35mabcdefghijklmnop\x1b[0m",
        "api_key\x1b[0m: 'abcdefghijklmnop'",
        "pass\u200bword=abcdefghijklmnop",
        "abcdefghijklmnop\n-----END RSA PRIVATE KEY-----",
        f"{'abcdefghijklmnop' * 4}\n" * 4,
    ],
)
def test_credentials_are_not_kept(line: str) -> None:
    variables = [{"name": "MODEL_TOKEN", "value": "plain-in-the-environment"}, {"name": "MODEL", "value": "value"}]
    document = {"spec": {"containers": [container("main") | {"env": variables}]}}
    found = failure_evidence.without_secrets(line, failure_evidence.secret_values(document, "main"))
    assert "abcdefghijklmnop" not in found
    assert "plain-in" not in found


def test_ordinary_lines_are_kept_as_they_are() -> None:
    text = "INFO 10:00 engine.py:12 loaded 24 tokens in 3.2s\nCUDA error: out of memory: tried 2 GiB\n"
    text += "serve --max-num-batched-tokens 8192 --tokenizer meta/llama\nPWD=/srv/model\ntoken is expired\n"
    assert failure_evidence.without_secrets(text) == text


def test_the_end_of_a_log() -> None:
    assert failure_evidence.end_of_log("".join(f"{number}\n" for number in range(500))).splitlines()[0] == "300"
    assert len(failure_evidence.end_of_log("é" * 200_000).encode()) <= failure_evidence.LOG_BYTES


# Lost nodes


@pytest.mark.parametrize("consent", [True, False])
async def test_pods_of_a_lost_node_are_deleted_by_force_only_by_consent(consent: bool) -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted(nodeLossSeconds=60, forceDeleteOnNodeLoss=consent))
        await cluster.until(lambda: settled(cluster, 2))
        lost, before = pods(cluster)["llm-1-1"]["spec"]["nodeName"], uid(cluster, "llm-1")
        elsewhere = [one for one in pods(cluster).values() if one["spec"]["nodeName"] != lost]
        assert elsewhere
        await cluster.client.patch(NODES, lost, "", {"metadata": {"annotations": {f"{ORDER}lost": "true"}}})

        def not_ready() -> bool:
            node = cluster.find(NODES, lost)
            assert node is not None
            return any(one["type"] == "Ready" and one["status"] != "True" for one in node["status"]["conditions"])

        await cluster.until(not_ready)
        if not consent:
            await asyncio.sleep(600)
            assert pods(cluster)["llm-1-1"]["metadata"].get("deletionTimestamp")
            return
        await asyncio.sleep(50)
        assert uid(cluster, "llm-1") == before
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before) and settled(cluster, 2), 20)
        assert all(one["spec"]["nodeName"] != lost for one in pods(cluster).values())
        record = next(one for one in kept(cluster) if one["group"] == 1)
        assert (record["reason"], [one["pod"] for one in record["pods"]][-1]) == ("node-lost", "llm-1-1")
        assert f"its node {lost} has not been ready since" in record["pods"][-1]["note"]
        assert not status(cluster).get("restarts"), "the loss of a node is no failure of the group"


async def test_a_node_that_returns_in_time_keeps_its_pods() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted(nodeLossSeconds=60, forceDeleteOnNodeLoss=True))
        await cluster.until(lambda: settled(cluster, 2))
        node, before = (
            pods(cluster)["llm-1-1"]["spec"]["nodeName"],
            {name: uid(cluster, name) for name in pods(cluster)},
        )
        for message in ("not reachable", None):
            await cluster.client.patch(NODES, node, "", {"metadata": {"annotations": {f"{ORDER}not-ready": message}}})
            await asyncio.sleep(40)
        await asyncio.sleep(100)
        assert {name: uid(cluster, name) for name in pods(cluster)} == before


# Crashes of the operator


async def two_failures(cluster: Cluster) -> None:
    async def made() -> bool:
        try:
            await create(cluster, budgeted(maxRestarts=1, backoffSeconds=0).replicas(1))
        except InternalError:
            await asyncio.sleep(0.5)
            return False
        return True

    while not await made():
        pass
    await cluster.until(lambda: settled(cluster, 1))
    first = uid(cluster, "llm-0")
    await crash(cluster, "llm-0-1")
    await cluster.until(lambda: uid(cluster, "llm-0") not in ("", first) and settled(cluster, 1))
    second = uid(cluster, "llm-0")
    await crash(cluster, "llm-0-1")
    await cluster.until(lambda: exhausted(cluster).get("status") == "True")
    await cluster.settle(quiet=10)
    assert uid(cluster, "llm-0") == second
    assert len(status(cluster)["restarts"]["0"]["times"]) == 1


@pytest.mark.timeout(600)
def test_the_operator_may_die_at_any_write_of_a_restart() -> None:
    points = crash_at_every_write(
        lambda: Cluster(parts=("workloads", "scheduler", "operator"), nodes=4, contents=installed("workloads")),
        "operator",
        two_failures,
        stride=12,
    )
    assert points >= 2


async def test_a_held_group_is_not_ready_even_if_its_pods_are_and_a_roll_frees_it() -> None:
    """The StatefulSet starts a deleted worker again, beside a leader that has served with another one."""
    async with groups_cluster() as cluster:
        await create(cluster, budgeted(maxRestarts=1, backoffSeconds=0))
        await cluster.until(lambda: settled(cluster, 2))
        for _ in range(2):
            await delete_and_wait(cluster, "llm-1-1")
        assert exhausted(cluster)["status"] == "True"
        conditions = {one["type"]: one["status"] for one in status(cluster)["conditions"]}
        assert (status(cluster)["readyReplicas"], conditions["Available"]) == (1, "False")
        await patch(cluster, "llm", new_image("new:2"))
        await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})
        assert exhausted(cluster)["status"] == "False"


async def delete_and_wait(cluster: Cluster, pod: str) -> None:
    before = uid(cluster, pod)
    await cluster.client.delete(PODS, pod, NAMESPACE)
    await cluster.until(lambda: uid(cluster, pod) not in ("", before))
    await cluster.settle(quiet=20)


# Groups that wait for their back-off


def guarded(**changes: object) -> LeaderWorkerSet:
    """Three groups, of which one may be away."""
    return budgeted(**{"maxRestarts": 5, **changes}).replicas(3).but("spec.disruptionBudget", {"maxUnavailable": 1})


async def fail_twice(cluster: Cluster, group: int) -> None:
    """The second failure waits for the back-off; the container runs again meanwhile."""
    leader = f"llm-{group}"
    before = uid(cluster, leader)
    await crash(cluster, f"{leader}-1")
    await cluster.until(lambda: uid(cluster, leader) not in ("", before) and settled(cluster, 3))
    await crash(cluster, f"{leader}-1")
    await cluster.until(lambda: bool(due(cluster, group)))
    await cluster.until(lambda: all(pod_is_ready(pods(cluster)[name]) for name in (leader, f"{leader}-1")))


def pod_is_ready(pod: JsonObject) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))


def due(cluster: Cluster, group: int) -> JsonObject:
    return status(cluster).get("restarts", {}).get(str(group), {}).get("due") or {}


async def test_a_group_that_waits_for_its_back_off_is_away() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, guarded(backoffSeconds=60))
        await cluster.until(lambda: settled(cluster, 3))
        await fail_twice(cluster, 2)
        await asyncio.sleep(5)
        found = status(cluster)
        conditions = {one["type"]: one for one in found["conditions"]}
        assert (found["readyReplicas"], found["disruptionsAllowed"]) == (2, 0)
        assert conditions["Available"]["status"] == "False"
        assert conditions["Waiting"]["reason"] == "GroupFailing"
        assert due(cluster, 2)["at"] in conditions["Waiting"]["message"]
        assert due(cluster, 2)["failed"] == {"pod": "llm-2-1", "container": "main", "exitCode": 3, "reason": "Error"}
        with pytest.raises(TooManyRequests, match=r"group 2 \(failed, and waiting to be restarted\)"):
            await evict(cluster, "llm-0-1")
        await evict(cluster, "llm-2-1")
        await cluster.until(lambda: settled(cluster, 3))
        assert not due(cluster, 2)
        assert status(cluster)["disruptionsAllowed"] == 1


async def test_a_due_restart_is_carried_out_when_it_is_said() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, guarded(backoffSeconds=30))
        await cluster.until(lambda: settled(cluster, 3))
        await fail_twice(cluster, 1)
        before, at = uid(cluster, "llm-1"), datetime.fromisoformat(due(cluster, 1)["at"])
        await cluster.until(lambda: uid(cluster, "llm-1") != before)
        assert abs((clock.now() - at).total_seconds()) < 5
        await cluster.until(lambda: settled(cluster, 3))
        assert not due(cluster, 1)


async def test_a_set_without_budgets_counts_its_groups_as_it_always_did() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        first = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        await recreated(cluster, first)
        await crash(cluster, "llm-1-1")
        await asyncio.sleep(5)
        assert "restarts" not in status(cluster)


# A new template for groups that have failed


class Witness:
    """Sees how many groups are ready, and with which images a leader is made, at every change."""

    def __init__(self, cluster: Cluster, leader: str) -> None:
        self.fewest = 99
        self.images: list[str] = []
        self._cluster, self._leader = cluster, leader
        self._known = uid(cluster, leader)

    def look(self) -> None:
        found = pods(self._cluster).get(self._leader)
        if found is not None and found["metadata"]["uid"] != self._known:
            self._known = found["metadata"]["uid"]
            self.images.append(found["spec"]["containers"][0]["image"])
        self.fewest = min(self.fewest, status(self._cluster).get("readyReplicas", 0))


async def hold_group(cluster: Cluster, group: int, replicas: int) -> None:
    await create(cluster, budgeted(maxRestarts=0).replicas(replicas))
    await cluster.until(lambda: settled(cluster, replicas))
    await crash(cluster, f"llm-{group}-1")
    await cluster.until(lambda: exhausted(cluster).get("status") == "True")


def update_strategy(cluster: Cluster) -> JsonObject:
    leader_set = cluster.find(STATEFUL_SETS, "llm", NAMESPACE)
    assert leader_set is not None
    strategy: JsonObject = leader_set["spec"]["updateStrategy"]
    return strategy


async def rolled_with(cluster: Cluster, witness: Witness, replicas: int) -> bool:
    def done() -> bool:
        witness.look()
        return settled(cluster, replicas) and images(cluster) == {"new:2"}

    await cluster.until(done)
    return True


@pytest.mark.parametrize("group", [0, 1, 2])
async def test_a_new_template_reaches_a_held_group_first(group: int) -> None:
    async with groups_cluster() as cluster:
        await hold_group(cluster, group, 3)
        witness = Witness(cluster, f"llm-{group}")
        await patch(cluster, "llm", new_image("new:2"))
        await rolled_with(cluster, witness, 3)
        assert witness.images == ["new:2"]
        assert witness.fewest >= 1
        strategy = update_strategy(cluster)
        assert (strategy["type"], strategy["rollingUpdate"]["partition"]) == ("RollingUpdate", 0)
        assert exhausted(cluster)["status"] == "False"


async def test_a_new_template_reaches_a_group_that_waits_for_its_back_off_first() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, guarded(backoffSeconds=300, maxBackoffSeconds=300))
        await cluster.until(lambda: settled(cluster, 3))
        await fail_twice(cluster, 0)
        witness, began = Witness(cluster, "llm-0"), asyncio.get_running_loop().time()
        await patch(cluster, "llm", new_image("new:2"))
        await rolled_with(cluster, witness, 3)
        assert witness.images == ["new:2"]
        assert asyncio.get_running_loop().time() - began < 200


async def test_a_held_group_below_the_partition_keeps_its_template() -> None:
    async with groups_cluster() as cluster:
        await hold_group(cluster, 0, 3)
        held = uid(cluster, "llm-0")
        await patch(cluster, "llm", {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": 1}}}})
        await patch(cluster, "llm", new_image("new:2"))
        await cluster.settle(quiet=60)
        assert uid(cluster, "llm-0") == held
        assert exhausted(cluster)["status"] == "True"


async def a_held_group_is_rolled(cluster: Cluster) -> None:
    async def attempt(act: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await act()
            except InternalError:
                await asyncio.sleep(0.5)
                continue
            return

    await attempt(lambda: create(cluster, budgeted(maxRestarts=0)))
    await cluster.until(lambda: settled(cluster, 2))
    await crash(cluster, "llm-0-1")
    await cluster.until(lambda: exhausted(cluster).get("status") == "True")
    await attempt(lambda: patch(cluster, "llm", new_image("new:2")))
    await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})
    await cluster.settle(quiet=10)
    assert update_strategy(cluster)["type"] == "RollingUpdate"


@pytest.mark.timeout(600)
def test_the_operator_may_die_at_any_write_while_a_held_group_is_rolled() -> None:
    points = crash_at_every_write(
        lambda: Cluster(parts=("workloads", "scheduler", "operator"), nodes=4, contents=installed("workloads")),
        "operator",
        a_held_group_is_rolled,
        stride=6,
    )
    assert points >= 4


def another_leader(cluster: Cluster, leader: str, known: set[str]) -> bool:
    return uid(cluster, leader) not in known and settled(cluster, 2)


async def test_evictions_do_not_replace_what_was_kept_of_failures() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        await recreated(cluster, before)
        for name in ("llm-0-1", "llm-0", "llm-0-1"):
            known = {uid(cluster, "llm-0"), ""}
            await evict(cluster, name)
            await cluster.until(partial(another_leader, cluster, "llm-0", known))
        assert [one["group"] for one in kept(cluster)] == [1]


async def test_failures_of_one_namespace_do_not_delay_the_groups_of_others() -> None:
    async with groups_cluster() as cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        orders = {f"{ORDER}exit-code": "3", f"{ORDER}crashes": "1", f"{ORDER}exit-after": "0s"}
        failing = budgeted(maxRestarts=0).replicas(60).size(1)
        template = "spec.leaderWorkerTemplate.workerTemplate.metadata"
        await create(cluster, failing.but(template, {"annotations": orders}))
        cluster.faults("operator").slow_down(60, on=lambda request: request.path.endswith("/log"))
        await cluster.until(lambda: exhausted(cluster).get("status") == "True")
        began = asyncio.get_running_loop().time()
        document = lws("small").replicas(3).size(2).namespaced("other")
        await cluster.client.create(LEADER_WORKER_SETS, document, "other")

        def small() -> bool:
            found = cluster.find(LEADER_WORKER_SETS, "small", "other")
            return found is not None and found.get("status", {}).get("readyReplicas") == 3

        await cluster.until(small)
        assert asyncio.get_running_loop().time() - began < 8
        await cluster.until(lambda: len(status(cluster).get("restarts", {})) == 60)


@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])
async def test_a_change_of_resources_reaches_a_held_group(policy: str) -> None:
    async with groups_cluster() as cluster:
        subject = budgeted(maxRestarts=0).replicas(3).workers(template_with_cpu("100m"))
        await create(cluster, subject.but("spec.rolloutStrategy.resourceUpdatePolicy", policy))
        await cluster.until(lambda: settled(cluster, 3))
        await crash(cluster, "llm-0-1")
        await cluster.until(lambda: exhausted(cluster).get("status") == "True")
        change = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": template_with_cpu("200m")["spec"]}}}}
        await patch(cluster, "llm", change)

        def requests() -> set[str]:
            return {one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in pods(cluster).values()}

        await cluster.until(lambda: settled(cluster, 3) and requests() == {"200m"})
        assert exhausted(cluster)["status"] == "False"


def template_with_cpu(cpu: str) -> JsonObject:
    return pod().containers({"name": "main", "image": "model:1", "resources": {"requests": {"cpu": cpu}}})


async def test_rolls_and_scaling_do_not_count_against_the_budget() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted(maxRestarts=1))
        await cluster.until(lambda: settled(cluster, 2))
        await patch(cluster, "llm", new_image("new:2"))
        await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})
        for replicas in (4, 1, 2):
            await patch(cluster, "llm", {"spec": {"replicas": replicas}})
            await cluster.until(partial(settled, cluster, replicas))
        assert not status(cluster).get("restarts")
        assert not kept(cluster)


async def test_a_held_group_counts_in_evictions_and_is_named() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, guarded(maxRestarts=0))
        await cluster.until(lambda: settled(cluster, 3))
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: status(cluster).get("disruptionsAllowed") == 0)
        for name in ("llm-0", "llm-0-1", "llm-2"):
            with pytest.raises(TooManyRequests, match=r"group 1 \(held, .*kohort restart llm -n default --group 1"):
                await evict(cluster, name)
        await evict(cluster, "llm-1-1")
        await cluster.settle(quiet=30)
        assert exhausted(cluster)["status"] == "True"
        await evict(cluster, "llm-1")
        await cluster.until(lambda: settled(cluster, 3) and status(cluster)["disruptionsAllowed"] == 1)
        assert exhausted(cluster)["status"] == "False"
