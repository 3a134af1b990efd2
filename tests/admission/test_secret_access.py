"""A ReleaseAnalysis does not make the operator send Secrets that its author may not read."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.rollouts.analysis.analyses import analysis_spec

from kohort import operator
from kohort.admission.webhook_host import InProcess, Loopback
from kohort.cluster.apiserver.auth.model import User
from kohort.install.install_kinds import ROLE_BINDINGS, ROLES
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, InternalError, Invalid, ServiceUnavailable
from kohort.kube.manager import Manager
from kohort.kube.resources import NAMESPACES, RELEASE_ANALYSES, SUBJECT_ACCESS_REVIEWS
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster, virtual_time
from kohort.testing.request_matching import writes

SPACE = "serving"
REF: JsonObject = {"name": "metrics-token", "key": "token"}


class Team:
    """Two service accounts that may write ReleaseAnalyses; only `owner` may get the Secret, and only there."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.writer, self.owner = (Client(cluster.transport(account(name))) for name in ("writer", "owner"))

    async def refused(self, attempt: Awaitable[JsonObject], kind: type[ApiError] = Forbidden) -> str:
        with pytest.raises(kind) as problem:
            await attempt
        return problem.value.message

    @property
    def spec(self) -> JsonObject:
        found: JsonObject = (self.cluster.find(RELEASE_ANALYSES, "slo", SPACE) or {})["spec"]
        return found


def account(name: str) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{SPACE}", "system:authenticated")
    return User(f"system:serviceaccount:{SPACE}:{name}", groups, uid=f"uid-{name}")


def analysis(**changes: Json) -> JsonObject:
    source = {"prometheus": {"address": "https://prometheus:9090", "preset": "vllm", "tokenSecretRef": REF}}
    spec = analysis_spec(**{"source": source, **changes})
    kind = {"apiVersion": RELEASE_ANALYSES.api_version, "kind": RELEASE_ANALYSES.kind}
    return {**kind, "metadata": {"name": "slo", "namespace": SPACE}, "spec": spec}


def address(value: str) -> JsonObject:
    return {"spec": {"source": {"prometheus": {"address": value}}}}


@asynccontextmanager
async def team(*, in_process: bool = True) -> AsyncIterator[Team]:
    def plug(manager: Manager) -> None:
        services = cluster.server.webhooks
        assert services is not None
        operator.register(manager, webhooks=InProcess(services) if in_process else Loopback())

    cluster = Cluster(extra={"operator": plug})
    async with cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": SPACE}})
        all_verbs = ["create", "get", "update", "patch", "delete"]
        rule: JsonObject = {"apiGroups": ["kohort.dev"], "resources": ["releaseanalyses"], "verbs": all_verbs}
        secret: JsonObject = {
            "apiGroups": [""],
            "resources": ["secrets"],
            "verbs": ["get"],
            "resourceNames": [REF["name"]],
        }
        await allow(cluster.client, "write", rule, "writer", "owner")
        await allow(cluster.client, "read", secret, "owner")
        yield Team(cluster)


async def allow(client: Client, name: str, rule: JsonObject, *accounts: str) -> None:
    await client.create(ROLES, {"metadata": {"name": name}, "rules": [rule]}, SPACE)
    subjects = [{"kind": "ServiceAccount", "name": one, "namespace": SPACE} for one in accounts]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    await client.create(ROLE_BINDINGS, {"metadata": {"name": name}, "subjects": subjects, "roleRef": role}, SPACE)


def on_a_cluster(story: Callable[[Team], Awaitable[None]], *, in_process: bool = True) -> None:
    async def run() -> None:
        async with team(in_process=in_process) as found:
            await story(found)

    virtual_time.run(run())


@pytest.mark.parametrize("in_process", [True, False])
def test_only_who_may_get_the_secret_names_it(in_process: bool) -> None:
    async def story(team: Team) -> None:
        text = await team.refused(team.writer.create(RELEASE_ANALYSES, analysis()))
        for part in (
            'ReleaseAnalysis.kohort.dev "slo" is forbidden: spec.source.prometheus.tokenSecretRef: Forbidden',
            "user 'system:serviceaccount:serving:writer' may not get Secret serving/metrics-token",
            "send it to https://prometheus:9090",
            "kubectl -n serving create role get-metrics-token --verb=get --resource=secrets",
        ):
            assert part in text
        await team.owner.create(RELEASE_ANALYSES, analysis())
        assert team.spec["source"]["prometheus"]["tokenSecretRef"] == REF

    on_a_cluster(story, in_process=in_process)


def test_the_right_to_get_another_secret_does_not_help() -> None:
    async def story(team: Team) -> None:
        hook = {"url": "https://mine", "on": ["failed"], "secretRef": {"name": "root", "key": "password"}}
        with pytest.raises(Forbidden) as problem:
            await team.owner.create(RELEASE_ANALYSES, analysis(notify=[hook]))
        assert problem.value.names_field("spec.notify[0].secretRef")
        assert not problem.value.names_field("spec.source.prometheus.tokenSecretRef")

    on_a_cluster(story)


def test_a_user_without_the_right_edits_the_rest_but_not_the_address() -> None:
    async def story(team: Team) -> None:
        await team.owner.create(RELEASE_ANALYSES, analysis())
        await team.writer.patch(RELEASE_ANALYSES, "slo", SPACE, {"spec": {"warmup": "30s"}})
        assert team.spec["warmup"] == "30s"
        text = await team.refused(team.writer.patch(RELEASE_ANALYSES, "slo", SPACE, address("https://mine")))
        assert "send it to https://mine" in text
        pods = {"prometheus": None, "scrape": {"port": 1, "preset": "vllm", "tokenSecretRef": REF}}
        await team.refused(team.writer.patch(RELEASE_ANALYSES, "slo", SPACE, {"spec": {"source": pods}}))
        await team.owner.patch(RELEASE_ANALYSES, "slo", SPACE, address("https://prometheus-2:9090"))
        none = {"spec": {"source": {"prometheus": {"tokenSecretRef": None, "address": "https://mine"}}}}
        await team.writer.patch(RELEASE_ANALYSES, "slo", SPACE, none)
        assert "tokenSecretRef" not in team.spec["source"]["prometheus"]

    on_a_cluster(story)


def test_an_analysis_that_is_being_deleted_is_no_way_around() -> None:
    async def story(team: Team) -> None:
        kept = analysis(source={"gateway": {}}, metrics=[{"name": "ttft", "quantile": 0.9, "maxRatio": 2}])
        kept["metadata"]["finalizers"] = ["example.com/kept"]
        await team.writer.create(RELEASE_ANALYSES, kept)
        await team.writer.delete(RELEASE_ANALYSES, "slo", SPACE)
        change = {"spec": {"source": {"gateway": None, **analysis()["spec"]["source"]}}}
        await team.refused(team.writer.patch(RELEASE_ANALYSES, "slo", SPACE, change))
        await team.writer.patch(RELEASE_ANALYSES, "slo", SPACE, {"metadata": {"finalizers": None}})
        assert team.cluster.find(RELEASE_ANALYSES, "slo", SPACE) is None

    on_a_cluster(story)


def test_nothing_is_allowed_while_the_cluster_does_not_answer() -> None:
    async def story(team: Team) -> None:
        faults = team.cluster.faults("operator")
        reviews = writes(SUBJECT_ACCESS_REVIEWS)
        faults.refuse(500, on=reviews, times=None)
        text = await team.refused(team.owner.create(RELEASE_ANALYSES, analysis()), ServiceUnavailable)
        assert "the cluster did not say whether user 'system:serviceaccount:serving:owner' may get" in text
        faults.clear()
        faults.time_out(on=reviews, times=None)
        text = await team.refused(team.owner.create(RELEASE_ANALYSES, analysis()), ServiceUnavailable)
        assert "no answer within 2 s" in text
        faults.clear()
        faults.refuse(500, on=reviews, times=1)
        # The answer asks clients to try again, and they do.
        await team.owner.create(RELEASE_ANALYSES, analysis())

    on_a_cluster(story)


def test_nothing_is_stored_while_no_operator_answers() -> None:
    async def story(team: Team) -> None:
        await team.cluster.parts["operator"].stop()
        await team.refused(team.owner.create(RELEASE_ANALYSES, analysis()), InternalError)

    on_a_cluster(story)


def test_what_is_wrong_with_an_analysis_is_said_before_any_right_is_asked_for() -> None:
    async def story(team: Team) -> None:
        team.cluster.faults("operator").refuse(500, on=writes(SUBJECT_ACCESS_REVIEWS), times=None)
        text = await team.refused(team.writer.create(RELEASE_ANALYSES, analysis(warmup="soon")), Invalid)
        assert "spec.warmup" in text

    on_a_cluster(story)
