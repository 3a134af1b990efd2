"""The second round: who is asked again when a webhook has changed the object."""

import pytest
from tests.cluster.apiserver.admission.webhookworld import World, allowing, hook, patching

from kohort.cluster.apiserver.admission.chain import Chain
from kohort.cluster.apiserver.admission.model import Attributes


@pytest.fixture
def world() -> World:
    return World()


class Counting:
    """A built-in step that notes its runs and puts a label on the object in the second."""

    name = "Counting"

    def __init__(self, *, label: bool = False) -> None:
        self.runs = 0
        self._label = label

    def handles(self, attributes: Attributes) -> bool:
        return True

    async def mutate(self, attributes: Attributes) -> None:
        self.runs += 1
        if self._label and self.runs == 2:
            assert attributes.object is not None
            attributes.object["metadata"]["labels"]["again"] = "yes"

    async def validate(self, attributes: Attributes) -> None:
        return None


async def test_nothing_runs_twice_when_nothing_changed(world: World) -> None:
    world.service("a", allowing)
    await world.configure("mutating", "c", hook("a", reinvocationPolicy="IfNeeded"))
    step = Counting()
    await Chain([step], None, world.webhooks).mutate(world.request())
    assert (step.runs, world.names_asked()) == (1, ["a"])


async def test_a_change_reruns_built_in_steps_and_the_webhooks_that_asked_for_it(world: World) -> None:
    world.service("a", allowing)
    world.service("b", allowing)
    world.service("c", patching({"op": "add", "path": "/spec/size", "value": 1}))
    world.service("d", allowing)
    await world.configure(
        "mutating",
        "m",
        hook("a", reinvocationPolicy="IfNeeded"),
        hook("b"),
        hook("c", reinvocationPolicy="IfNeeded"),
        hook("d", reinvocationPolicy="IfNeeded"),
    )
    step = Counting()
    await Chain([step], None, world.webhooks).mutate(world.request())
    assert step.runs == 2
    assert world.names_asked() == ["a", "b", "c", "d", "a"]


async def test_a_change_by_a_built_in_step_reinvokes_all_webhooks_that_want_it(world: World) -> None:
    world.service("a", allowing)
    world.service("c", patching({"op": "add", "path": "/spec/size", "value": 1}))
    world.service("d", allowing)
    every = {"reinvocationPolicy": "IfNeeded"}
    await world.configure("mutating", "m", hook("a", **every), hook("c", **every), hook("d", **every))
    await Chain([Counting(label=True)], None, world.webhooks).mutate(world.request())
    assert world.names_asked() == ["a", "c", "d", "a", "c", "d"]
