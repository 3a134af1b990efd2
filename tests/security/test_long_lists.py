"""Every list of every kind, made long: the work grows with its length and no faster.

Generated from the specimens: each list of each of them, with many items that differ from one another. Lists that rules
compare item by item (usages, addresses, versions, names that must not repeat) are among them, whatever the kind.
"""

import copy
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import msgspec
import pytest
from tests.cluster.apiserver.kinds.specimens import NAMESPACE, SPECIMENS, Specimen
from tests.security.hostile_bodies import JSON, post, request
from tests.security.test_hostile_bodies import FEW_CALLS, GROWTH, answered, calls_for, grows_too_fast

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.endpoints.large_documents import LargeWork
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request
from kohort.objects.json_types import Json, JsonObject

LONGEST, VALUES = 4_000, 16_000
"""Items of a list, and values in all of them together."""

Path = tuple[str | int, ...]
DRY_RUN = (("dryRun", "All"),)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server, _ = await assemble(open_store(None))
    server.parts.large = LargeWork(large=sys.maxsize)  # all work is done, and counted, in this thread
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    answer = await server.handle(post("/api/v1/namespaces", namespace, dry_run=False), ADMIN)
    assert answer.status == 201, answer.body
    yield server
    await server.close()


def lists_in(value: Json, path: Path = ()) -> Iterator[Path]:
    """Where lists with items are; of several items of one list, the first stands for all."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from lists_in(one, (*path, name))
    elif isinstance(value, list) and value:
        yield path
        yield from lists_in(value[0], (*path, 0))


def leaves(value: Json) -> int:
    if isinstance(value, dict | list):
        return 1 + sum(map(leaves, value.values() if isinstance(value, dict) else value))
    return 1


def different(value: Json, number: int) -> Json:
    """The value with other texts and numbers in it, of the same form."""
    match value:
        case dict():
            return {name: different(one, number) for name, one in value.items()}
        case list():
            return [different(one, number) for one in value]
        case str():
            return f"{value}{number}"
        case bool() | None:
            return value
        case _:
            return value + number


def lengthened(source: JsonObject, path: Path, length: int) -> JsonObject:
    result = copy.deepcopy(source)
    place: Json = result
    for step in path[:-1]:
        place = place[step]
    item = place[path[-1]][0]
    place[path[-1]] = [different(item, number) for number in range(length)]
    return result


def at(source: Json, path: Path) -> Json:
    for step in path:
        source = source[step]
    return source


async def growing_too_fast(server: ApiServer, source: JsonObject, send: Callable[[JsonObject], Request]) -> list[str]:
    """What grows faster than the list that is made longer, of all lists in `source`."""
    too_much = []
    for path in lists_in(source):
        length = min(LONGEST, VALUES // leaves(at(source, path)[0]))
        small, large = (send(lengthened(source, path, count)) for count in (length // GROWTH, length))
        for one in (small, large):
            await answered(server, one)
        few, many = await calls_for(server, small), await calls_for(server, large)
        if many > GROWTH * 1.3 * few + FEW_CALLS:
            too_much.append(f"{path}: {few} calls, for {GROWTH} times the length {many}")
        if slow := await grows_too_fast(server, small, large):
            too_much.append(f"{path}: {slow}")
    return too_much


@pytest.mark.parametrize("specimen", SPECIMENS, ids=[one.name for one in SPECIMENS])
async def test_work_grows_with_the_length_of_a_list_and_no_faster(server: ApiServer, specimen: Specimen) -> None:
    assert not await growing_too_fast(server, specimen.object, lambda body: post(specimen.collection, body))


@pytest.mark.parametrize("status", [False, True], ids=["object", "status"])
@pytest.mark.parametrize("specimen", SPECIMENS, ids=[one.name for one in SPECIMENS])
async def test_nor_faster_when_it_is_changed(server: ApiServer, specimen: Specimen, status: bool) -> None:
    if status and not specimen.status:
        return
    created = await answered(server, post(specimen.collection, specimen.object, dry_run=False))
    if created.status != 201:
        pytest.skip("it needs another object")
    assert isinstance(created.body, bytes)
    stored: JsonObject = msgspec.json.decode(created.body)
    stored["metadata"].pop("managedFields", None)
    source = {**stored, "status": specimen.status} if status else stored
    path = f"{specimen.path}/status" if status else specimen.path
    assert (await answered(server, request("PUT", path, source, JSON, DRY_RUN))).status == 200
    assert not await growing_too_fast(server, source, lambda body: request("PUT", path, body, JSON, DRY_RUN))
