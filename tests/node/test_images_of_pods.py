"""Pods with an image of their own, as real processes below `kohort up`."""

import json

import pytest
from tests.node.image_files import make_image
from tests.node.processes import Bench, bench, data, volume

__all__ = ["bench", "data"]
pytestmark = pytest.mark.e2e


async def test_an_image_with_a_configuration_runs_isolated(bench: Bench) -> None:
    image = bench.data / "node" / "images" / "small" / "v1"
    make_image(image / "rootfs")
    config = {"Entrypoint": ["sh", "-c"], "Cmd": ["echo unused"], "Env": ["PATH=/bin", "FROM=image"], "User": "app"}
    (image / "config.json").write_text(json.dumps({"config": config}))
    script = (
        "echo $FROM $$$$ $(id -u):$(id -g); cat /models/etc/group; grep Seccomp: /proc/self/status; touch /x || echo no"
    )
    await bench.run(
        "image",
        {
            "name": "c",
            "image": "small:v1",
            "args": [script],
            "volumeMounts": [volume("model", "/models")],
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "allowPrivilegeEscalation": False},
        },
        restartPolicy="Never",
        volumes=[{"name": "model", "image": {"reference": "small:v1"}}],
    )
    await bench.ended("image")
    said = (await bench.log("image")).splitlines()
    assert said[0] == "image 1 1000:55"
    assert said[1:4] == ["root:x:0:", "app:x:55:", "extra:x:77:app"]
    assert said[4].split() == ["Seccomp:", "2"] and "no" in said[5:], "its root belongs to root"
    assert not (image / "rootfs" / "models").exists()
