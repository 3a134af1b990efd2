"""Pods for tests of resizing, one line each: `sized(pod="100m/100Mi:200m/200Mi", c1="", c2="50m/50Mi:100m/100Mi")`.

A block is `requests:limits`, each `cpu/memory`, and a dash stands for what is not mentioned.
"""

from collections.abc import Mapping

from tests.builders import pod as build

from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodePod
from kohort.objects.pods import Pod, ResizePolicy, ResourceRequirements


def block(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for kind, part in zip(("requests", "limits"), text.split(":"), strict=False):
        amounts = {
            name: value
            for name, value in zip(("cpu", "memory"), part.split("/"), strict=False)
            if value not in ("-", "")
        }
        if amounts:
            found[kind] = amounts
    return found


def sized(
    uid: str = "u1",
    *,
    pod: str | None = None,
    policy: Mapping[str, str] | None = None,
    priority: int = 0,
    qos: str = "Burstable",
    generation: int = 1,
    **containers: str,
) -> NodePod:
    """A pod whose containers and own block are written as above; `policy` is the resize policy of all of them. A name
    that begins with `side` is a sidecar's, with `init` that of a regular init container."""
    policies = [{"resourceName": name, "restartPolicy": value} for name, value in (policy or {}).items()]
    specs: list[JsonObject] = [
        {"name": name, "image": "host", "resources": block(text), "resizePolicy": policies}
        for name, text in containers.items()
    ]
    early = [{**each, "restartPolicy": "Always"} if each["name"].startswith("side") else each for each in specs]
    document = build(uid).uid(uid).generation(generation).but("spec.priority", priority)
    document = document.containers(*(each for each in specs if not each["name"].startswith(("side", "init"))))
    if inits := [each for each in early if each["name"].startswith(("side", "init"))]:
        document = document.but("spec.initContainers", inits)
    if pod is not None:
        document = document.but("spec.resources", block(pod))
    return document.but("status.qosClass", qos).as_view(NodePod)


__all__ = ["Pod", "ResizePolicy", "ResourceRequirements", "block", "sized"]
