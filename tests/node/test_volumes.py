"""The volumes of pods as files."""

import os
from pathlib import Path

import pytest
from tests.builders import pod as build

from kohort.node.runtimes.interface import Mount
from kohort.node.volumes import MountProblem, mounts_of, write_atomically
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodePod


def test_content_is_swapped_in_one_step(tmp_path: Path) -> None:
    write_atomically(tmp_path, {"a": (b"1", 0o644), "sub/b": (b"2", 0o400)})
    assert (tmp_path / "a").read_bytes() == b"1" and (tmp_path / "sub/b").stat().st_mode & 0o777 == 0o400
    first = os.readlink(tmp_path / "..data")
    write_atomically(tmp_path, {"a": (b"1", 0o644), "sub/b": (b"2", 0o400)})
    assert os.readlink(tmp_path / "..data") == first
    write_atomically(tmp_path, {"a": (b"3", 0o644)})
    assert (tmp_path / "a").read_bytes() == b"3" and os.readlink(tmp_path / "..data") != first
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["a"]
    assert not (tmp_path / first).exists()


def pod_with(mount: JsonObject, **source: JsonObject) -> NodePod:
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/data", **mount}]}
    return build("p").containers(container).volume("v", **source).as_view(NodePod)


@pytest.mark.parametrize(
    ("mount", "source", "expected"),
    [
        ({}, {"emptyDir": {}}, ("", False)),
        ({"readOnly": True}, {"emptyDir": {}}, ("", True)),
        ({}, {"configMap": {"name": "x"}}, ("", True)),
        ({"subPath": "below"}, {"emptyDir": {}}, ("/below", False)),
        ({}, {"image": {"reference": "model:v1"}}, ("", True)),
        ({"subPathExpr": "$(NAME)"}, {"emptyDir": {}}, ("/me", False)),
    ],
)
def test_what_is_mounted(tmp_path: Path, mount: JsonObject, source: JsonObject, expected: tuple[str, bool]) -> None:
    pod = pod_with(mount, **source)
    assert pod.spec.containers is not None
    found = mounts_of(pod, pod.spec.containers[0], {"v": str(tmp_path)}, {"NAME": "me"})
    assert found == (Mount(f"{tmp_path}{expected[0]}", "/data", expected[1]),)


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
    assert mount.source == str(volume / "inner")
