from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.runtimes.cri.fake_runtime import FakeRuntime

from kohort.node.grpc.status import Code, RpcError
from kohort.node.runtimes.cri import image_removal
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient
from kohort.node.runtimes.cri.image_removal import (
    LEAST_AGE,
    ImageRemoval,
    KnownImage,
    chosen_for_removal,
    excess_bytes,
    updated,
)

NOW = 10_000.0
IMAGES = st.lists(
    st.builds(
        KnownImage,
        id=st.uuids().map(str),
        size=st.integers(0, 100),
        first_seen=st.floats(0, NOW),
        last_used=st.floats(0, NOW),
        used=st.booleans(),
        pinned=st.booleans(),
    ),
    max_size=12,
)


@given(IMAGES, st.integers(-5, 500))
def test_only_unused_images_are_removed_and_no_more_than_needed(images: list[KnownImage], excess: int) -> None:
    going = chosen_for_removal(images, excess, NOW)
    assert all(not each.used and not each.pinned and NOW - each.first_seen >= LEAST_AGE for each in going)
    assert sum(each.size for each in going[:-1]) < max(excess, 1)
    staying = [each for each in images if each not in going]
    removable = [each for each in staying if not each.used and not each.pinned and NOW - each.first_seen >= LEAST_AGE]
    if removable and excess > 0:
        assert sum(each.size for each in going) >= excess
    assert all(old.last_used <= new.last_used for old in going for new in removable)


@pytest.mark.parametrize(
    ("capacity", "available", "excess"), [(0, 0, 0), (100, 16, 0), (100, 15, 5), (100, 0, 20), (1000, 900, 0)]
)
def test_how_much_must_go(capacity: int, available: int, excess: int) -> None:
    assert excess_bytes(capacity, available) == excess


def test_what_is_remembered_of_an_image() -> None:
    one = cri.Image("one", size=7)
    first = updated({}, [one], set(), 10.0)
    assert first == {"one": KnownImage("one", 7, 10.0, 10.0)}
    used = updated(first, [one], {"one"}, 20.0)
    assert used["one"].last_used == 20.0 and used["one"].used
    later = updated(used, [one], set(), 30.0)
    assert (later["one"].first_seen, later["one"].last_used, later["one"].used) == (10.0, 20.0, False)
    assert updated(later, [], set(), 40.0) == {}


async def test_an_image_that_cannot_be_removed_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_removal, "excess_bytes", lambda capacity, available: 1 << 30)
    monkeypatch.setattr(image_removal, "LEAST_AGE", 0.0)
    fake = FakeRuntime(tmp_path / "s")
    fake.images = {name: cri.Image(f"sha256:{name}", size=1) for name in "abc"}
    await fake.start()
    client = CriClient(fake.socket)
    try:
        fake.broken["RemoveImage"] = RpcError(Code.UNKNOWN, "the image is in use by a snapshot")
        assert await ImageRemoval(client).remove_unused() == ["sha256:b", "sha256:c"]
        assert list(fake.images) == ["a"]
        fake.broken["RemoveImage"] = RpcError(Code.UNAVAILABLE, "the runtime is away")
        with pytest.raises(RpcError, match="away"):
            await ImageRemoval(client).remove_unused()
    finally:
        await client.close()
        await fake.stop()
