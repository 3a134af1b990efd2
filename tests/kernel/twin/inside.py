"""Runs on a pure cgroup v2 kernel: the cases, on one node after the other. `inside.py RESULT NODE[,NODE] [CASE...]`.

The records of every node are written to the file RESULT as one JSON object: node, case, list of records.
"""

import asyncio
import contextlib
import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.containers.containerd import image_archive, pause_archive
from tests.kernel.twin.cases import CASES, FOREVER, IMAGE, NAMED_USER_IMAGE, USER_IMAGE, Case, Step, gone
from tests.kernel.twin.nodes import NAME, PARENTS, Machine, Node
from tests.kernel.twin.records import Recorder, status

from kohort.kube.client import Client, PatchType
from kohort.kube.errors import AlreadyExists, ApiError, NotFound
from kohort.kube.resources import CONFIG_MAPS, PODS, SECRETS
from kohort.node.runtimes.cri.client import CriClient
from kohort.objects.json_types import JsonObject

PLACE = Path("/run/twin")
AT_ONCE = 4
SECONDS = 300.0
STEADY_SECONDS = 1.5
POLL_SECONDS = 0.1
KINDS = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


class Runner:
    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def run(self, case: Case) -> list[JsonObject]:
        async with self._turn:
            begun = time.monotonic()
            records: list[JsonObject] = []
            try:
                await self._create(case)
                for step in case.steps:
                    record = await self._step(case, step)
                    records.append(record)
            except Exception:
                records.append({"problem": traceback.format_exc()})
            finally:
                await self._delete(case.name)
            print(f"INFO {case.name}: {time.monotonic() - begun:.1f} s", flush=True)
            return records

    async def _create(self, case: Case) -> None:
        for each in case.objects:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(KINDS[each["kind"]], each, "default")
        metadata = {"name": case.name, "namespace": "default", **case.metadata}
        if any(step.delete is not None for step in case.steps):
            metadata["finalizers"] = ["twin.test/recorded"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": NAME, **case.spec}}
        await self._client.create(PODS, pod, "default")

    async def _step(self, case: Case, step: Step) -> JsonObject:
        answer = await self._act(case.name, step)
        pod, timely = await self._until(case.name, step)
        record = await self._recorder.take(case, pod)
        if answer:
            record["answer"] = answer
        if not timely:
            record["problem"] = "the step did not come to its end"
        return record

    async def _act(self, name: str, step: Step) -> str:
        """The reason for which the API server refuses; empty if it does not."""
        if step.shell is not None:
            pod = await self._client.get(PODS, name, "default")
            await self._recorder.run(pod["metadata"]["uid"], *step.shell)
        if step.delete is not None:
            await self._client.delete(PODS, name, "default", grace_seconds=step.delete)
        if step.ephemeral is not None:
            patch = {"spec": {"ephemeralContainers": [step.ephemeral]}}
            await self._client.patch(PODS, name, "default", patch, PatchType.STRATEGIC, "ephemeralcontainers")
        if step.resize is None:
            return ""
        try:
            patch = {"spec": step.resize}
            await self._client.patch(PODS, name, "default", patch, PatchType.STRATEGIC, "resize")
        except ApiError as refusal:
            return type(refusal).__name__
        return ""

    async def _until(self, name: str, step: Step) -> tuple[JsonObject, bool]:
        """The pod, once the condition holds and its status has been the same for a while."""
        deadline = time.monotonic() + SECONDS
        before: JsonObject = {}
        since = time.monotonic()
        while True:
            pod = await self._find(name)
            now = time.monotonic()
            seen = status(pod) if pod else {}
            if seen != before or not step.until(pod):
                before, since = seen, now
            elif now - since >= STEADY_SECONDS:
                return pod, True
            if now > deadline:
                return pod, False
            await asyncio.sleep(POLL_SECONDS)

    async def _find(self, name: str) -> JsonObject:
        try:
            return dict(await self._client.get(PODS, name, "default"))
        except NotFound:
            return {}

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._client.patch(PODS, name, "default", {"metadata": {"finalizers": None}}, PatchType.MERGE)
            await self._client.delete(PODS, name, "default", grace_seconds=0)
        deadline = time.monotonic() + SECONDS
        while True:
            if gone(await self._find(name)) or time.monotonic() > deadline:
                return
            await asyncio.sleep(POLL_SECONDS)


async def record(node: Node, client: Client, cases: list[Case], note: Callable[[str, list[JsonObject]], None]) -> None:
    async def noted(case: Case) -> None:
        note(case.name, await runner.run(case))

    await node.start(client)
    runtime = CriClient(node.socket)
    try:
        runner = Runner(client, Recorder(node, client, runtime))
        await asyncio.gather(*(noted(case) for case in cases))
    finally:
        await runtime.close()
        await node.stop(client)


async def compare(machine: Machine, result: Path, kinds: list[str], names: list[str]) -> None:
    cases = [case for case in CASES if not names or case.name in names]
    records: dict[str, dict[str, list[JsonObject]]] = {}

    def note(kind: str, case: str, found: list[JsonObject]) -> None:
        """What was recorded before a failure is not lost."""
        records.setdefault(kind, {})[case] = found
        write(result, records)

    try:
        client = await machine.start()
        machine.containerd.load(pause_archive())
        machine.containerd.load(image_archive(IMAGE, command=FOREVER))
        machine.containerd.load(image_archive(USER_IMAGE, entrypoint=["sh"], user="1234", directory="/data", mark="u"))
        machine.containerd.load(image_archive(NAMED_USER_IMAGE, command=FOREVER, user="server", mark="n"))
        for kind in PARENTS:
            if kind in kinds:
                begun = time.monotonic()
                await record(Node(kind, machine), client, cases, partial(note, kind))
                print(f"INFO {kind} took {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        machine.stop()


def write(result: Path, records: dict[str, dict[str, list[JsonObject]]]) -> None:
    result.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")


def main(result: str, kinds: str, *names: str) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    asyncio.run(compare(Machine(PLACE), Path(result), kinds.split(","), list(names)))


if __name__ == "__main__":
    main(*sys.argv[1:])
