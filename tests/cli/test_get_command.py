"""`kohort get` of several namespaces, and of none that has anything."""

import json
from collections.abc import Callable

from click.testing import CliRunner
from tests.builders import lws

from kohort.cli.actions import show
from kohort.cli.connection import REFUSED
from kohort.cli.main import main
from kohort.kube.resources import LEADER_WORKER_SETS, NAMESPACES
from kohort.objects.json_types import Json


async def test_sets_of_all_namespaces(story: Callable[..., Json]) -> None:
    async with story() as user:
        text, code = await user.run(lambda client, _: show.get(client, "", None, "text", False))
        assert (text, code) == (
            "No LeaderWorkerSets in any namespace. Try: kubectl apply -f examples/llm.yaml\n",
            0,
        )
        await user.cluster.client.create(NAMESPACES, {"metadata": {"name": "team"}})
        for namespace in ("team", "default"):
            subject = lws("llm", namespace).replicas(1).size(1)
            await user.cluster.client.create(LEADER_WORKER_SETS, subject, namespace)
        await user.cluster.settle()
        text, _ = await user.run(lambda client, _: show.get(client, "", None, "json", False))
        assert [(one["namespace"], one["name"], one["ready"]) for one in json.loads(text)] == [
            ("default", "llm", 1),
            ("team", "llm", 1),
        ]


def test_one_set_is_not_in_all_namespaces() -> None:
    result = CliRunner().invoke(main, ["get", "llm", "-A"])
    assert result.exit_code == 2
    assert "-A shows all sets: leave the name out, or name the namespace with -n" in result.stderr


async def test_what_is_suggested_for_an_empty_namespace(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.cluster.client.create(NAMESPACES, {"metadata": {"name": "team"}})
        text, code = await user.run(lambda client, _: show.get(client, "team", None, "text", False))
        assert (text, code) == (
            "No LeaderWorkerSets in namespace team. Try: kubectl apply -n team -f examples/llm.yaml\n",
            0,
        )
        _, code = await user.run(lambda client, _: show.get(client, "team", "llm", "text", False))
        assert (code, user.complaint) == (
            REFUSED,
            "kohort: there is no LeaderWorkerSet llm in namespace team, nor any other; "
            "kubectl apply -n team -f examples/llm.yaml makes one\n",
        )


async def test_a_namespace_that_does_not_exist(story: Callable[..., Json]) -> None:
    async with story() as user:
        for name in (None, "llm"):
            _, code = await user.run(lambda client, _, name=name: show.get(client, "nope", name, "text", False))
            complaint = "kohort: there is no namespace nope; there are: kubectl get namespaces\n"
            assert (code, user.complaint) == (REFUSED, complaint)
