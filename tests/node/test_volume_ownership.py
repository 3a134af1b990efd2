"""Volumes that belong to the group of a pod."""

import os
from pathlib import Path

import pytest

from kohort.node.volume_ownership import ON_ROOT_MISMATCH, belongs_to, give_to_group

GROUP = 4321
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to a group")


def made(directory: Path) -> Path:
    volume = directory / "volume"
    (volume / "below").mkdir(parents=True)
    for path in (volume, volume / "below"):
        path.chmod(0o755)
    (volume / "below" / "file").write_text("x")
    (volume / "below" / "file").chmod(0o604)
    return volume


def group_and_mode(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_gid, found.st_mode & 0o7777


def test_the_group_may_write_everything(tmp_path: Path) -> None:
    volume = made(tmp_path)
    give_to_group(str(volume), GROUP)
    assert group_and_mode(volume) == group_and_mode(volume / "below") == (GROUP, 0o2775)
    assert group_and_mode(volume / "below" / "file") == (GROUP, 0o664)
    assert belongs_to(str(volume), GROUP)


def test_links_lead_nowhere(tmp_path: Path) -> None:
    """A pod may have put them there: files of the machine must not become writable."""
    volume, outside = made(tmp_path), tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    before = group_and_mode(outside), group_and_mode(outside / "secret")
    (volume / "directory").symlink_to(outside)
    (volume / "file").symlink_to(outside / "secret")
    (volume / "dangling").symlink_to("nothing")
    give_to_group(str(volume), GROUP)
    assert (group_and_mode(outside), group_and_mode(outside / "secret")) == before
    assert {(volume / name).lstat().st_gid for name in ("directory", "file", "dangling")} == {GROUP}


@pytest.mark.parametrize(
    ("policy", "root_is_right", "expected"),
    [(None, True, GROUP), ("Always", True, GROUP), (ON_ROOT_MISMATCH, True, 0), (ON_ROOT_MISMATCH, False, GROUP)],
)
def test_a_root_that_is_right_may_stand_for_the_rest(
    tmp_path: Path, policy: str | None, root_is_right: bool, expected: int
) -> None:
    volume = made(tmp_path)
    if root_is_right:
        os.chown(volume, -1, GROUP)
        volume.chmod(0o2775)
    give_to_group(str(volume), GROUP, policy)
    assert (volume / "below" / "file").stat().st_gid == expected
