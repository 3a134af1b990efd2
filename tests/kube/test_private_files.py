"""Directories and files that only their owner may read."""

import os
import stat
from pathlib import Path

import pytest

from kohort.kube.private_files import (
    NotPrivate,
    make_private_directory,
    open_private,
    private_directory,
    write_durably,
    write_private,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    private_directory(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700


def test_making_a_directory_twice_keeps_it(tmp_path: Path) -> None:
    make_private_directory(tmp_path / "a")
    (tmp_path / "a" / "file").touch()
    make_private_directory(tmp_path / "a")
    assert (tmp_path / "a" / "file").exists()


@pytest.mark.parametrize(
    ("before", "files", "after"),
    [
        (0o700, [], 0o700),
        (0o700, ["foreign"], 0o700),
        (0o755, [], 0o700),
        (0o777, ["kohort.db"], 0o700),
        (0o750, ["kohort.db", "foreign"], 0o700),
        (0o755, ["foreign"], None),
        (0o710, ["foreign"], None),
    ],
)
def test_an_existing_directory(tmp_path: Path, before: int, files: list[str], after: int | None) -> None:
    """The table of the module; None stands for an error."""
    for name in files:
        (tmp_path / name).touch()
    tmp_path.chmod(before)
    if after is None:
        with pytest.raises(NotPrivate, match=rf"has mode {before:04o}.*holds files of other programs.*chmod 700"):
            private_directory(tmp_path, markers=("kohort.db",))
        assert mode(tmp_path) == before, "a directory of other programs stays as it is"
    else:
        private_directory(tmp_path, markers=("kohort.db",))
        assert mode(tmp_path) == after


def test_a_directory_of_another_user_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(NotPrivate, match=r"belongs to uid .* choose another directory"):
        private_directory(tmp_path)


def test_a_file_is_private_from_its_first_moment(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        os.close(open_private(tmp_path / "secret"))
    finally:
        os.umask(before)
    assert mode(tmp_path / "secret") == 0o600


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    os.close(open_private(path))
    assert (mode(path), path.read_text()) == (0o600, "")


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(tmp_path / "link")
    assert (tmp_path / "victim").read_text() == "untouched"


def test_writing_replaces_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_private(path, b"new")
        assert reader.read() == b"old", "a reader of the old file is not disturbed"
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"], "no scratch file is left"


def test_content_and_name_are_on_the_disk_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power failure there is the old file or the new one, complete."""
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        steps.append(f"sync {path.name} {mode(path):o} {path.read_text()}" if path.is_file() else "sync directory")
        sync(descriptor)

    def renamed(source: Path, target: Path) -> None:
        steps.append(f"rename {source.name} to {target.name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_durably(tmp_path / "plugin", b"script", 0o755)
    assert steps == ["sync .plugin.new 755 script", "rename .plugin.new to plugin", "sync directory"]
