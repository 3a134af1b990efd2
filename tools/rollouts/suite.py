"""The end-to-end suite of Kruise Rollouts, run against kohort on its embedded cluster.

    python -m tools.rollouts.suite [arguments of the suite, such as -ginkgo.focus='Advanced Deployment']

The suite is compiled once from the Go module proxy into the cache folder. Its pods run on simulated nodes, which cannot
pull the images that its cases of failing versions name. Cases with Istio only need its kinds to be served: the suite
looks at the objects.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.released_suite import build_suite
from tools.rollouts.build import ROLLOUTS

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES
from kohort.objects.json_types import JsonObject
from kohort.operator import wait_established
from kohort.rules.simulation_labels import PREFIX

CLUSTER: Final = ("--port", "0", "--simulated-nodes", "8", "--simulated-start", "1")

ISTIO_KINDS: Final = ("VirtualService", "DestinationRule")
MISSING_IMAGES: Final = "echoserver:failed,failed_image:failed"


async def prepare_cluster(config: Path) -> None:
    """Serve the kinds of Istio, and order the simulated nodes to fail pulls of images that do not exist."""
    async with contextlib.AsyncExitStack() as stack:
        transport = kubeconfig.load(config)
        stack.push_async_callback(transport.close)
        client = Client(transport)
        for kind in ISTIO_KINDS:
            definition = istio_definition(kind)
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            await wait_established(client, definition["metadata"]["name"])
        for node in (await client.list(NODES)).items:
            order = {"metadata": {"annotations": {f"{PREFIX}missing-images": MISSING_IMAGES}}}
            await client.patch(NODES, node["metadata"]["name"], "", order)


def istio_definition(kind: str) -> JsonObject:
    """A kind of Istio with any content."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha3", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural, group = f"{kind.lower()}s", "networking.istio.io"
    names = {"kind": kind, "plural": plural}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def run_suite(arguments: list[str]) -> int:
    """The exit code of the suite, run against a cluster that exists for this run only."""
    program = build_suite(ROLLOUTS)
    with tempfile.TemporaryDirectory() as folder:
        data = ["--data-dir", folder]
        kohort = str(Path(sys.executable).with_name("kohort"))
        subprocess.run([kohort, "up", *data, *CLUSTER, "--detach"], check=True, stdout=subprocess.DEVNULL)
        try:
            asyncio.run(prepare_cluster(Path(folder) / "kubeconfig"))
            environment = {**os.environ, "KUBECONFIG": str(Path(folder) / "kubeconfig")}
            return subprocess.run(
                [str(program), *arguments], env=environment, cwd=program.parent, check=False
            ).returncode
        finally:
            subprocess.run([kohort, "down", *data], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        raise SystemExit(run_suite(sys.argv[1:]))
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the suite could not be run: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
