"""Every cache of the operator may be filled with the installed rights: a kind that is added needs its rule."""

import pytest

from kohort.install.options import InstallOptions
from kohort.install.roles import MANAGER, access, rule, workload_rules
from kohort.kube.client import Client
from kohort.kube.http import Request, Response
from kohort.kube.manager import Manager
from kohort.kube.transport import InProcessTransport
from kohort.operator import register


async def _nobody(_: Request) -> Response:
    raise AssertionError("nothing is asked while an operator is put together")


@pytest.mark.parametrize("rollouts", [True, False])
async def test_all_caches_may_be_filled(rollouts: bool) -> None:
    manager = Manager(Client(InProcessTransport(_nobody)))
    register(manager, self_contained=False, rollouts=rollouts)
    cached = {selection.resource for selection, _ in manager._informers}
    assert cached
    rules = workload_rules(InstallOptions(rollouts=rollouts))
    granted = {
        (group, resource)
        for rule in rules
        if {"list", "watch"} <= {*rule["verbs"]}
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {(one.group, one.plural) for one in cached} - granted == set()


@pytest.mark.parametrize("namespaces", [(), ("serving",)])
def test_the_operator_may_ask_what_the_author_of_an_analysis_may_read(namespaces: tuple[str, ...]) -> None:
    """In the role of its controllers: that of its metrics may be taken away from an operator without metrics."""
    roles = {
        one["metadata"]["name"]: one
        for one in access(InstallOptions(namespaces=namespaces))
        if one["kind"] == "ClusterRole"
    }
    reviews = [one for one in roles[MANAGER]["rules"] if "subjectaccessreviews" in one["resources"]]
    assert reviews == [rule(["authorization.k8s.io"], ["subjectaccessreviews"], ["create"])]
