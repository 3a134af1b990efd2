"""The volumes of pods as files."""

import os
from pathlib import Path

import pytest
from tests.builders import pod as build

from kohort.node.runtimes.interface import Mount
from kohort.node.volumes import (
    MountProblem,
    VolumeFile,
    common_user,
    mounts_of,
    read_in_volume,
    write_atomically,
)
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodePod


def test_content_is_swapped_in_one_step(tmp_path: Path) -> None:
    first_files = {"a": VolumeFile(b"1", 0o644), "sub/b": VolumeFile(b"2", 0o400)}
    write_atomically(tmp_path, first_files)
    assert (tmp_path / "a").read_bytes() == b"1" and (tmp_path / "sub/b").stat().st_mode & 0o777 == 0o400
    first = os.readlink(tmp_path / "..data")
    write_atomically(tmp_path, first_files)
    assert os.readlink(tmp_path / "..data") == first
    write_atomically(tmp_path, {"a": VolumeFile(b"3", 0o644)})
    assert (tmp_path / "a").read_bytes() == b"3" and os.readlink(tmp_path / "..data") != first
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["a"]
    assert not (tmp_path / first).exists()


def test_users_of_a_volume_may_enter_its_directories_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "v", {"sub/below/b": VolumeFile(b"2", 0o644)})
    finally:
        os.umask(before)
    content = (tmp_path / "v" / "..data").resolve()
    places = [content, content / "sub", content / "sub" / "below"]
    assert [place.stat().st_mode & 0o777 for place in places] == [0o755] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_files_belong_to_the_user_and_the_group_they_are_for(tmp_path: Path) -> None:
    write_atomically(tmp_path, {"token": VolumeFile(b"1", 0o600, 1234)})
    found = (tmp_path / "token").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (1234, 0o600)
    write_atomically(tmp_path, {"token": VolumeFile(b"1", 0o600)}, 4321)
    found = (tmp_path / "token").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, 4321, 0o640)


@pytest.mark.parametrize(
    ("whole", "own", "expected"),
    [
        ({}, [{}, {}], None),
        ({"runAsUser": 1000}, [{}, {}], 1000),
        ({"runAsUser": 1000}, [{}, {"runAsUser": 0}], None),
        ({"runAsUser": 1000}, [{"runAsUser": 7}, {"runAsUser": 7}], 7),
        ({}, [{"runAsUser": 7}, {}], None),
        ({"runAsUser": 0}, [{}, {}], 0),
    ],
)
def test_the_user_that_all_containers_have(whole: JsonObject, own: list[JsonObject], expected: int | None) -> None:
    containers = [{"name": f"c{number}", "securityContext": each} for number, each in enumerate(own)]
    pod = build("p").containers(*containers).but("spec.securityContext", whole).as_view(NodePod)
    assert common_user(pod) == expected


def pod_with(mount: JsonObject, **source: JsonObject) -> NodePod:
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/data", **mount}]}
    return build("p").containers(container).volume("v", **source).as_view(NodePod)


@pytest.mark.parametrize(
    ("mount", "source", "expected"),
    [
        ({}, {"emptyDir": {}}, ("", False)),
        ({"readOnly": True}, {"emptyDir": {}}, ("", True)),
        ({}, {"configMap": {"name": "x"}}, ("", True)),
        ({"subPath": "below"}, {"emptyDir": {}}, ("below", False)),
        ({}, {"image": {"reference": "model:v1"}}, ("", True)),
        ({"subPathExpr": "$(NAME)"}, {"emptyDir": {}}, ("me", False)),
    ],
)
def test_what_is_mounted(tmp_path: Path, mount: JsonObject, source: JsonObject, expected: tuple[str, bool]) -> None:
    pod = pod_with(mount, **source)
    assert pod.spec.containers is not None
    found = mounts_of(pod, pod.spec.containers[0], {"v": str(tmp_path)}, {"NAME": "me"})
    assert found == (Mount(str(tmp_path), "/data", expected[1], sub_path=expected[0]),)
    assert (tmp_path / expected[0]).is_dir()


def test_a_path_in_a_container_begins_at_its_root(tmp_path: Path) -> None:
    pod = pod_with({"mountPath": "data"}, emptyDir={})
    (mount,) = mounts_of(pod, (pod.spec.containers or ())[0], {"v": str(tmp_path)}, {})
    assert mount.target == "/data"


def test_nothing_is_made_in_an_image(tmp_path: Path) -> None:
    pod = pod_with({"subPath": "missing"}, image={"reference": "model:v1"})
    with pytest.raises(MountProblem, match="'missing' is not in the image"):
        mounts_of(pod, (pod.spec.containers or ())[0], {"v": str(tmp_path)}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["../out", "a/../../b"])
def test_a_sub_path_never_leads_out(tmp_path: Path, path: str) -> None:
    pod = pod_with({"subPath": path}, emptyDir={})
    assert pod.spec.containers is not None
    with pytest.raises(MountProblem, match="leads out"):
        mounts_of(pod, pod.spec.containers[0], {"v": str(tmp_path)}, {})


@pytest.mark.parametrize("path", ["link", "link/below", "inner/link"])
def test_a_sub_path_does_not_follow_links_out_of_its_volume(tmp_path: Path, path: str) -> None:
    """Whoever may write to the volume could have any file of the machine, and directories made anywhere."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (volume / "inner").mkdir(parents=True)
    outside.mkdir()
    for link in (volume / "link", volume / "inner" / "link"):
        link.symlink_to(outside)
    (volume / "good").symlink_to("inner")
    pod = pod_with({"subPath": path}, emptyDir={})
    with pytest.raises(MountProblem, match="leads out of its volume"):
        mounts_of(pod, (pod.spec.containers or ())[0], {"v": str(volume)}, {})
    assert list(outside.iterdir()) == []
    pod = pod_with({"subPath": "good"}, emptyDir={})
    (mount,) = mounts_of(pod, (pod.spec.containers or ())[0], {"v": str(volume)}, {})
    assert (mount.source, mount.sub_path) == (str(volume), "inner")


def test_parts_of_a_volume_have_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o2777)
    pod = pod_with({"subPath": "above/below"}, emptyDir={})
    mounts_of(pod, (pod.spec.containers or ())[0], {"v": str(tmp_path)}, {})
    made = [tmp_path / "above", tmp_path / "above" / "below"]
    assert [path.stat().st_mode & 0o7777 for path in made] == [0o2777, 0o2777]


def test_files_of_volumes_are_read_without_following_links_out(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "in").mkdir(parents=True)
    (volume / "in" / "file").write_text("A='1'")
    (volume / "link").symlink_to("in/file")
    (tmp_path / "secret").write_text("no")
    (volume / "out").symlink_to("../secret")
    os.mkfifo(volume / "pipe")
    assert read_in_volume(str(volume), "in/file", 10) == b"A='1'"
    assert read_in_volume(str(volume), "link", 10) == b"A='1'"
    for path, problem in (("out", "leads out"), ("../secret", "leads out"), ("pipe", "regular"), ("in", "directory")):
        with pytest.raises((ValueError, OSError), match=problem):
            read_in_volume(str(volume), path, 10)
    with pytest.raises(ValueError, match="larger than 3 bytes"):
        read_in_volume(str(volume), "in/file", 3)
    with pytest.raises(FileNotFoundError):
        read_in_volume(str(volume), "none", 10)
