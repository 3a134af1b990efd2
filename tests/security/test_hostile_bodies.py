"""Bodies that are cheap to send are cheap to refuse or to accept: the work grows with their size and no faster, and no
depth ends in a crash or in an internal error.

Work is counted in calls of functions, which no other process on the machine can change. What the interpreter does
inside of one call (searching a list) does not count as calls; for that the processor time of this thread is compared,
with a bound that only quadratic growth exceeds.
"""

import sys
import time
from collections.abc import AsyncIterator
from types import FrameType

import pytest
from tests.security import hostile_bodies
from tests.security.hostile_bodies import (
    CONFIG_MAPS,
    DEFINITIONS,
    GROWING,
    NESTED,
    WIDGET_DEFINITION,
    WIDGETS,
    Attack,
    config_map,
    post,
)

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.endpoints.large_documents import LargeWork
from kohort.cluster.apiserver.schema import document_limits
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request, Response

GROWTH = 4
FEW_CALLS = 3000
"""Calls that a request may need whatever its size."""
SHORT = 0.02
"""Seconds of processor time below which growth cannot be distinguished from noise."""

pytestmark = pytest.mark.asyncio


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server, _ = await assemble(open_store(None))
    server.parts.large = LargeWork(large=sys.maxsize)  # all work is done, and counted, in this thread
    for wanted in (post(DEFINITIONS, WIDGET_DEFINITION, dry_run=False), post(CONFIG_MAPS, victim(), dry_run=False)):
        answer = await server.handle(wanted, ADMIN)
        assert answer.status == 201, answer.body
    yield server
    await server.close()


def victim() -> dict[str, object]:
    return {**config_map(data={"k": "v"}), "metadata": {"name": "victim"}}


async def answered(server: ApiServer, request: Request) -> Response:
    response = await server.handle(request, ADMIN)
    assert isinstance(response.body, bytes)
    return response


async def calls_for(server: ApiServer, request: Request) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    sys.setprofile(count)
    try:
        await answered(server, request)
    finally:
        sys.setprofile(None)
    return calls


async def seconds_for(server: ApiServer, request: Request) -> float:
    begun = time.thread_time()
    await answered(server, request)
    return time.thread_time() - begun


async def grows_too_fast(server: ApiServer, small: Request, large: Request) -> str:
    """The times of both, if the larger one takes too long each time; processors have bad moments."""
    seen = ""
    for _ in range(4):
        few, many = await seconds_for(server, small), await seconds_for(server, large)
        if many <= SHORT or many <= GROWTH * 2.5 * few:
            return ""
        seen += f"{few:.4f} s, for {GROWTH} times the size {many:.4f} s; "
    return seen


FAMILIES = sorted({attack.name.partition(":")[0] for attack in GROWING})


def of_family(attacks: list[Attack], family: str) -> list[Attack]:
    return [attack for attack in attacks if attack.name.partition(":")[0] == family]


@pytest.mark.parametrize("family", FAMILIES)
async def test_work_grows_with_the_size_and_no_faster(server: ApiServer, family: str) -> None:
    too_much = []
    for attack in of_family(GROWING, family):
        small, large = attack.build(attack.size // GROWTH), attack.build(attack.size)
        for one in (small, large):  # so that what is kept of earlier requests is kept of both
            await answered(server, one)
        few, many = await calls_for(server, small), await calls_for(server, large)
        if many > GROWTH * 1.3 * few + FEW_CALLS:
            too_much.append(f"{attack}: {few} calls, for {GROWTH} times the size {many}")
        if slow := await grows_too_fast(server, small, large):
            too_much.append(f"{attack}: {slow}")
    assert not too_much


@pytest.mark.parametrize("family", FAMILIES)
async def test_no_hostile_body_is_an_internal_error(server: ApiServer, family: str) -> None:
    for attack in of_family(GROWING, family):
        answer = await answered(server, attack.build(attack.size))
        assert isinstance(answer.body, bytes)
        assert b'"reason":"InternalError"' not in answer.body, (attack.name, answer.body[:300])


DEPTHS = (50, document_limits.MAX_DEPTH // 2, document_limits.MAX_DEPTH, 990, 3000, 25_000)


@pytest.mark.parametrize("attack", NESTED, ids=str)
async def test_depth_is_answered_and_never_a_crash(server: ApiServer, attack: Attack) -> None:
    for depth in DEPTHS:
        answer = await answered(server, attack.build(depth))
        assert isinstance(answer.body, bytes)
        assert b'"reason":"InternalError"' not in answer.body, depth
        if depth > 2 * document_limits.MAX_DEPTH and not attack.name.startswith(("expression", "definition: p")):
            assert answer.status in (400, 413, 422), (depth, answer.body)
    assert (await answered(server, Request("GET", f"{CONFIG_MAPS}/victim"))).status == 200


FIRST_TOO_DEEP = {
    "json: lists": 200,
    "json: objects": 199,
    "json: duplicate keys": 199,
    "json: not closed": 200,
    "json: broken inside": 200,
    "json: the body itself": 201,
    "json: managed fields": 196,
    "custom: open field": 199,
    "custom: apply": 199,
    "yaml: flow lists": 200,
    "yaml: flow lists not closed": 200,
    "yaml: flow maps": 201,
    "yaml: block lists": 200,
    "yaml: block maps": 201,
    "yaml: anchors in anchors": 200,
    "yaml: apply": 200,
    "protobuf: schemas": 195,
    "merge patch": 200,
    "strategic": 200,
    "json patch: value": 198,
    "delete options": 200,
    "definition: items": 193,
    "expression: brackets": 120,
    "expression: lists": 121,
    "expression: maps": 120,
    "expression: selections": 299,
    "expression: method calls": 299,
}
"""The least n that is refused: 200 levels in documents less what each attack puts around, 120 in the grammar of
expressions and 300 in their trees. Numbers and not the limits by name, so that a limit that is lifted is noticed."""
TOO_DEEP = {"yaml": b"yaml: exceeded max depth of 200", "expression": b"expression recursion limit exceeded"}


@pytest.mark.parametrize("name", FIRST_TOO_DEEP)
async def test_every_decoder_ends_at_its_limit_of_depth(server: ApiServer, name: str) -> None:
    (attack,) = (one for one in NESTED if one.name == name)
    least, words = FIRST_TOO_DEEP[name], TOO_DEEP.get(name.partition(":")[0], b"exceeded max depth")
    for depth, refused in ((least - 1, False), (least, True)):
        answer = await answered(server, attack.build(depth))
        assert isinstance(answer.body, bytes)
        assert (words in answer.body) is refused, (depth, answer.body[-300:])


async def test_a_patch_cannot_make_an_object_deeper_than_a_body_may_be(server: ApiServer) -> None:
    created = await answered(server, post(WIDGETS, hostile_bodies.widget(open={}), dry_run=False))
    assert created.status == 201
    for depth, status in ((127, 200), (255, 422)):
        copies = hostile_bodies.doubling(depth, "/open")
        patch = hostile_bodies.request("PATCH", f"{WIDGETS}/x", copies, hostile_bodies.JSON_PATCH)
        answer = await answered(server, patch)
        assert isinstance(answer.body, bytes)
        assert answer.status == status, answer.body
        assert (b"exceeded max depth" in answer.body) is (status == 422)


async def test_a_body_beyond_the_number_of_values_is_refused(server: ApiServer) -> None:
    body = b'{"metadata":{"name":"x"},"zz":[' + b"0," * document_limits.MAX_VALUES + b"0]}"
    answer = await answered(server, post(CONFIG_MAPS, body))
    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    assert b"must have at most 500000 values" in answer.body


async def test_aliases_that_stand_for_billions_of_values_are_refused(server: ApiServer) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    answer = await answered(server, post(CONFIG_MAPS, "\n".join(lines).encode(), hostile_bodies.YAML))
    assert answer.status == 400


async def test_aliases_of_a_long_text_are_refused_before_they_are_written_out(server: ApiServer) -> None:
    body = b"data:\n  a: &a " + b"x" * 100_000 + b"\n" + b"".join(b"  k%d: *a\n" % i for i in range(1000))
    answer = await answered(server, post(CONFIG_MAPS, body, hostile_bodies.YAML))
    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    assert b"excessive aliasing" in answer.body


async def test_an_object_cannot_grow_beyond_the_largest_body_by_patches(server: ApiServer) -> None:
    created = await answered(server, post(WIDGETS, hostile_bodies.widget(open={}), dry_run=False))
    assert created.status == 201
    statuses: list[int] = []
    for value in [*("x" * 1_000_000 for _ in range(4)), "small"]:
        change = {"open": {f"k{len(statuses)}": value}}
        patch = hostile_bodies.request("PATCH", f"{WIDGETS}/x", change, hostile_bodies.MERGE_PATCH)
        statuses.append((await answered(server, patch)).status)
    assert statuses == [200, 200, 200, 413, 200]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"a: &a [*a]", b"contains itself"),
        (b"a: *b", b"unknown anchor"),
        (b"? [a]\n: b", b"invalid map key"),
        (b"a: &a {b: c}\n? *a\n: d", b"invalid map key"),
        (b"<<: 1", b"map merge requires map"),
    ],
)
async def test_yaml_that_has_no_json_form_is_refused(server: ApiServer, text: bytes, problem: bytes) -> None:
    answer = await answered(server, post(CONFIG_MAPS, text, hostile_bodies.YAML))
    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    assert problem in answer.body
