"""Templates that the cluster would not take are refused when the set is written, at the set's own fields. What is wrong
with a pod is what the API server of Kubernetes says about a StatefulSet with that template."""

import pytest
from tests.groups.test_lifecycle import groups_cluster

from kohort.groups.template_dry_run import dry_runs, errors_at_set_fields
from kohort.kube import errors
from kohort.kube.errors import Forbidden, StatusCause
from kohort.kube.http import Request
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

ROOT = "spec.leaderWorkerTemplate"


def pod(**values: Json) -> JsonObject:
    return {"spec": {"containers": [{"name": "main", "image": "nginx", **values}]}}


def group_set(size: int = 2, **templates: Json) -> JsonObject:
    template = {"size": size, "workerTemplate": pod(), **templates}
    return {"metadata": {"name": "llm", "namespace": "default"}, "spec": {"leaderWorkerTemplate": template}}


def asked(new: JsonObject, old: JsonObject | None = None) -> list[str]:
    return [dict(dry_run.places)["spec.template"].removeprefix(f"{ROOT}.") for dry_run in dry_runs(new, old)]


def test_every_template_that_is_used_is_tried_once() -> None:
    assert asked(group_set()) == ["workerTemplate"]
    assert asked(group_set(leaderTemplate=pod())) == ["leaderTemplate", "workerTemplate"]
    assert asked(group_set(1, leaderTemplate=pod())) == ["leaderTemplate"], "nobody makes workers"


def test_of_an_update_only_what_changed() -> None:
    before = group_set(leaderTemplate=pod())
    assert asked(group_set(leaderTemplate=pod()), before) == []
    written_out = group_set(leaderTemplate=pod(resources={}))
    assert asked(written_out, before) == [], "as other implementations store it"
    assert asked(group_set(leaderTemplate=pod(tty=True)), before) == ["leaderTemplate"]
    assert asked(group_set(), before) == [], "leaders get the template of workers, which is the same"


def test_what_is_said_about_a_stateful_set_is_said_about_the_set() -> None:
    (dry_run,) = dry_runs(group_set(), None)
    causes = [
        StatusCause(reason="FieldValueRequired", message="Required value", field="spec.template.spec.containers"),
        StatusCause(reason="FieldValueInvalid", message="no", field="spec.volumeClaimTemplates[0].spec"),
        StatusCause(reason="FieldValueInvalid", message="no", field="spec.templates"),
        StatusCause(reason="FieldValueInvalid", message="no", field="metadata.name"),
    ]
    assert [error.field for error in errors_at_set_fields(dry_run, causes)] == [
        f"{ROOT}.workerTemplate.spec.containers",
        f"{ROOT}.volumeClaimTemplates[0].spec",
    ]


async def refusal(cluster: Cluster, subject: JsonObject) -> str:
    with pytest.raises(Forbidden) as found:
        await cluster.client.create(LEADER_WORKER_SETS, subject, "default")
    return found.value.message.partition("denied the request: ")[2]


CLAIM: JsonObject = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
MOUNT = [{"name": "data", "mountPath": "/data"}]
BETWEEN = "must be between 1 and 65535, inclusive"


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        (
            {"leaderTemplate": pod(), "workerTemplate": pod(ports=[{"containerPort": 70000}])},
            f"workerTemplate.spec.containers[0].ports[0].containerPort: Invalid value: 70000: {BETWEEN}",
        ),
        (
            {"leaderTemplate": {"spec": {"containers": [{"name": "main"}]}}},
            "leaderTemplate.spec.containers[0].image: Required value",
        ),
        ({"workerTemplate": {"spec": {"containers": []}}}, "workerTemplate.spec.containers: Required value"),
        ({"workerTemplate": {}}, "workerTemplate.spec.containers: Required value"),
        (
            {"workerTemplate": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}},
            'workerTemplate.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        ),
        (
            {"workerTemplate": pod(volumeMounts=MOUNT)},
            'workerTemplate.spec.containers[0].volumeMounts[0].name: Not found: "data"',
        ),
        (
            {"workerTemplate": pod(volumeMounts=MOUNT), "volumeClaimTemplates": [CLAIM]},
            "volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
        ),
    ],
)
async def test_a_template_that_no_server_takes(templates: JsonObject, expected: str) -> None:
    async with groups_cluster() as cluster:
        assert await refusal(cluster, group_set(**templates)) == f"{ROOT}.{expected}"


def asks(request: Request) -> bool:
    return bool(request.param("dryRun")) and request.path.endswith("/statefulsets")


async def test_nothing_else_is_a_reason_to_refuse_a_set() -> None:
    """Not what others say about StatefulSets, and not a server that fails."""
    async with groups_cluster() as cluster:
        for problem in (errors.forbidden("statefulsets", "dry_run", "exceeded quota"), errors.internal("no answer")):
            cluster.faults("operator").refuse(problem, on=asks, times=1)
            subject = group_set(workerTemplate=pod(ports=[{"containerPort": 70000}]))
            await cluster.client.create(LEADER_WORKER_SETS, subject, "default", dry_run=True)


async def test_a_template_that_was_there_before_is_no_reason_to_refuse_another_change() -> None:
    async with groups_cluster() as cluster:
        cluster.faults("operator").refuse(errors.internal("no answer"), on=asks, times=1)
        subject = group_set(workerTemplate=pod(ports=[{"containerPort": 70000}]))
        await cluster.client.create(LEADER_WORKER_SETS, subject, "default")
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 3}})


MOUNTED: JsonObject = {"metadata": {"name": "data"}, "spec": {**CLAIM["spec"], "accessModes": ["ReadWriteOnce"]}}
EDITS: dict[str, JsonObject] = {
    "another image": {"workerTemplate": pod(volumeMounts=MOUNT, image="new:2")},
    "a restart": {
        "workerTemplate": pod(volumeMounts=MOUNT)
        | {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01"}}}
    },
    "another leader": {"leaderTemplate": pod(volumeMounts=MOUNT, image="new:2")},
    "another size": {"size": 3, "resizePolicy": "Recreate"},
}


@pytest.mark.parametrize("leader", [None, pod(), pod(volumeMounts=MOUNT)], ids=["none", "plain", "mounting"])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_templates_that_mount_claims_can_be_created_and_edited(leader: JsonObject | None, dry_run: bool) -> None:
    """The claims are no volumes of the template: only a StatefulSet that has them too may mount them."""
    templates: JsonObject = {"workerTemplate": pod(volumeMounts=MOUNT), "volumeClaimTemplates": [MOUNTED]}
    templates |= {"leaderTemplate": leader} if leader else {}
    async with groups_cluster() as cluster:
        subject = group_set(2, **templates)
        await cluster.client.create(LEADER_WORKER_SETS, subject, "default", dry_run=True)
        await cluster.client.create(LEADER_WORKER_SETS, subject, "default")
        for edit in EDITS.values():
            body = {"spec": {"leaderWorkerTemplate": edit}}
            await cluster.client.patch(LEADER_WORKER_SETS, "llm", "default", body, dry_run=dry_run)


def test_claims_that_were_there_before_are_no_reason_to_refuse_another_change() -> None:
    before = group_set(workerTemplate=pod(volumeMounts=MOUNT), volumeClaimTemplates=[CLAIM])
    (dry_run,) = dry_runs(
        group_set(workerTemplate=pod(volumeMounts=MOUNT, tty=True), volumeClaimTemplates=[CLAIM]), before
    )
    cause = StatusCause(reason="FieldValueRequired", message="no", field="spec.volumeClaimTemplates[0].spec")
    assert dry_run.stateful_set["spec"]["volumeClaimTemplates"] == [CLAIM]
    assert errors_at_set_fields(dry_run, [cause]) == []
