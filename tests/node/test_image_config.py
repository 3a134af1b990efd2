"""What images say of their programs."""

import json
import os
from pathlib import Path

import pytest

from kohort.node.container_environment import ConfigProblem, command_line
from kohort.node.image_config import ImageConfig, read_image
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodeContainer

OF_IMAGE = {
    "config": {
        "Entrypoint": ["/serve"],
        "Cmd": ["--port", "80"],
        "Env": ["A=1=2", "broken"],
        "WorkingDir": "/srv",
        "User": "app",
        "StopSignal": "SIGQUIT",
    }
}
OF_BUNDLE = {"process": {"args": ["/serve"], "env": ["A=1"], "cwd": "/", "user": {"uid": 5, "gid": 6}}}
STOPPED = {**OF_BUNDLE, "annotations": {"org.opencontainers.image.stopSignal": "SIGRTMIN+3"}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (OF_IMAGE, ImageConfig(("/serve",), ("--port", "80"), {"A": "1=2"}, "/srv", "app", "SIGQUIT")),
        (OF_BUNDLE, ImageConfig(("/serve",), (), {"A": "1"}, "/", "5:6")),
        (STOPPED, ImageConfig(("/serve",), (), {"A": "1"}, "/", "5:6", "SIGRTMIN+3")),
        ({"config": {"Entrypoint": None, "Cmd": None}}, ImageConfig()),
        ({}, ImageConfig()),
    ],
)
def test_a_configuration_beside_the_files(tmp_path: Path, document: JsonObject, expected: ImageConfig) -> None:
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(document))
    for directory in (tmp_path, tmp_path / "rootfs"):
        found = read_image(directory)
        assert (found.root, found.config) == (str(tmp_path / "rootfs"), expected)


def test_a_plain_directory_is_the_root_and_a_broken_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("no JSON")
    assert read_image(tmp_path).root == str(tmp_path), "without rootfs it is a file like any other"
    (tmp_path / "rootfs").mkdir()
    with pytest.raises(ConfigProblem, match=r"configuration of the image cannot be read: .*config\.json"):
        read_image(tmp_path)


def test_users_are_read_from_files_of_the_image_only(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "etc" / "group")
    found = read_image(tmp_path)
    assert (found.passwd, found.group) == ("", "")


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ((), (), ("/serve", "--port", "80")),
        ((), ("-v",), ("/serve", "-v")),
        (("run",), (), ("run",)),
        (("run",), ("-v",), ("run", "-v")),
    ],
)
def test_the_command_of_a_container(command: tuple[str, ...], args: tuple[str, ...], expected: tuple[str, ...]) -> None:
    container = NodeContainer(command=command, args=args)
    assert command_line(container, {}, ("/serve",), ("--port", "80")) == expected
