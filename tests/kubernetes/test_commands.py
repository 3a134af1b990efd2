"""Every command that people type at a cluster, typed at real Kubernetes, as a plugin of its kubectl."""

import asyncio
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from tests.children import environment
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.test_groups import running

from kohort.cli.connection import DIFFERENT, NOT_YET, REFUSED, TOO_LATE
from kohort.kube.client import Client
from kohort.kube.resources import NODES, PODS

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMESPACE = "commands"


class Terminal:
    """A person with kubectl and the plugin."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        plugin = folder / "kubectl-kohort"
        plugin.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kohort "$@"\n')
        plugin.chmod(0o755)
        self._kubectl = str(plane.binaries / "kubectl")
        self._environment = environment(PATH=f"{folder}:{os.environ['PATH']}", KUBECONFIG=str(plane.kubeconfig))

    async def type(self, line: str, text: str = "") -> tuple[int, str, str]:
        """Exit code, output and complaints of `kubectl ...`."""
        run = partial(
            subprocess.run, [self._kubectl, *line.split()], env=self._environment, input=text,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        done = await asyncio.to_thread(run)
        return done.returncode, done.stdout, done.stderr

    async def kohort(self, line: str, *, code: int = 0, text: str = "") -> str:
        """What `kubectl kohort ...` prints, on stderr if it is refused."""
        name, *rest = line.split()
        found, out, complaints = await self.type(" ".join(["kohort", name, "-n", NAMESPACE, *rest]), text)
        assert found == code, f"{line}: {out}{complaints}"
        return complaints if code in (REFUSED, TOO_LATE) else out

    async def apply(self, text: str) -> None:
        code, out, complaints = await self.type(f"apply -n {NAMESPACE} -f -", text)
        assert code == 0, out + complaints


@pytest.fixture
def terminal(kubernetes: ControlPlane, tmp_path: Path) -> Terminal:
    return Terminal(kubernetes, tmp_path)


@pytest.mark.timeout(300)
async def test_every_command(kubernetes: ControlPlane, terminal: Terminal) -> None:
    async with running(kubernetes, NAMESPACE) as client:
        await _room_on_all_nodes(client)
        await _looking(terminal)
        await _rolling(terminal)
        await _resizing(terminal, client)
        await _releasing(terminal)
        await _refusals(terminal)


async def _room_on_all_nodes(client: Client) -> None:
    """New nodes take no pods until the cluster has seen that they are ready."""
    async with asyncio.timeout(60):
        while len([node for node in (await client.list(NODES)).items if not node["spec"].get("taints")]) < 8:
            await asyncio.sleep(0.1)


async def _looking(user: Terminal) -> None:
    example = (EXAMPLES / "llm.yaml").read_text()
    code, out, _ = await user.type("kohort version")
    assert (code, out.startswith("kohort ")) == (0, True)
    assert "No LeaderWorkerSets in namespace" in await user.kohort("get")
    plan = await user.kohort("plan -f - --exit-code", code=DIFFERENT, text=example)
    assert "LeaderWorkerSet llm would be created." in plan
    assert "Room: it fits. Free now on 8 nodes" in plan
    await user.apply(example)
    assert "[########################]" in await user.kohort("status llm -w --timeout 90")
    text = await user.kohort("get llm")
    assert "2/2 groups ready" in text
    assert "│  ├─ llm-0    leader" in text
    wide = await user.kohort("get llm -o wide")
    leader, wide_leader = (next(row for row in shown.splitlines() if " llm-0 " in row) for shown in (text, wide))
    assert len(wide_leader.split()) == len(leader.split()) + 2 + 6
    assert "desired 100m/64Mi  allocated 100m/64Mi  actual 100m/64Mi" in wide_leader
    found = json.loads(await user.kohort("get llm -o json"))
    assert [len(group["pods"]) for group in found["groups"]] == [4, 4]
    assert yaml.safe_load(await user.kohort("get llm -o yaml"))["revision"] == 1
    assert "Everything is as wanted." in await user.kohort("explain llm")
    assert json.loads(await user.kohort("status llm -o json"))["done"] is True


async def _rolling(user: Terminal) -> None:
    example = (EXAMPLES / "llm.yaml").read_text()
    await user.kohort("pause llm")
    await user.apply(example.replace("image: host", "image: host:2"))
    assert "[rollout]" in await user.kohort("explain llm", code=NOT_YET)
    await user.kohort("resume llm")
    await user.kohort("status llm -w --timeout 90")
    assert [line.split()[0] for line in (await user.kohort("history llm")).splitlines()] == ["REVISION", "1", "*2"]
    assert "+        image: host:2" in (await user.kohort("diff llm --exit-code", code=DIFFERENT)).replace(
        "- image", "  image"
    )
    await user.apply(example.replace("image: host", "image: host:2").replace("cpu: 100m", "cpu: 500"))
    await user.kohort("status llm -w --timeout 3", code=TOO_LATE)
    assert "[scheduling]" in await user.kohort("explain llm", code=NOT_YET)
    assert "returns to revision 2" in await user.kohort("abort llm")
    await user.kohort("status llm -w --timeout 90")
    assert "returns to revision 1" in await user.kohort("undo llm --to 1")
    await user.kohort("status llm -w --timeout 90")
    assert "step by step" in await user.kohort("restart llm")
    await user.kohort("status llm -w --timeout 90")


async def _resizing(user: Terminal, client: Client) -> None:
    before = await client.get(PODS, "llm-0", NAMESPACE)
    assert "resourceUpdatePolicy is Recreate. Choose:" in await user.kohort("resize llm --cpu 150m", code=REFUSED)
    wanted = "resize llm --cpu 150m --policy InPlaceOrRecreate"
    assert "In place: groups 1, 0; 1 at a time" in await user.kohort(f"{wanted} --dry-run")
    assert "llm: resized in place: groups 0, 1" in await user.kohort(f"{wanted} --timeout 90")
    resized = await client.get(PODS, "llm-0", NAMESPACE)
    assert resized["metadata"]["uid"] == before["metadata"]["uid"]
    assert "in place" in await user.kohort("resize llm --cpu 200m --role leader --pods-only")
    assert "drift: containers[server].resources.requests.cpu" in await user.kohort("get llm -o wide")
    await user.kohort("status llm -w --timeout 60")
    after = await client.get(PODS, "llm-0", NAMESPACE)
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "--recreate" in await user.kohort("resize llm --size 2", code=REFUSED)
    await user.kohort("resize llm --size 2 --recreate")
    await user.kohort("status llm -w --timeout 90")
    found = json.loads(await user.kohort("get llm -o json"))
    assert [len(group["pods"]) for group in found["groups"]] == [2, 2]


async def _releasing(user: Terminal) -> None:
    documents = [one for one in yaml.safe_load_all((EXAMPLES / "canary-nginx.yaml").read_text()) if one]
    await user.apply(yaml.safe_dump_all(documents))
    await user.kohort("status canary -w --timeout 90")
    await user.apply(yaml.safe_dump_all(documents).replace("image: host", "image: host:2"))
    code, out, complaints = await user.type(
        f"wait -n {NAMESPACE} rollout canary --for jsonpath={{.status.currentStepState}}=StepPaused --timeout 60s"
    )
    assert code == 0, out + complaints
    assert "[rollout] Rollout canary: step 1 waits for approval" in await user.kohort("explain canary", code=NOT_YET)
    assert "Rollout canary: step 1 of" in await user.kohort("get canary")
    assert "step 1 of Rollout canary is approved" in await user.kohort("approve canary")
    await user.kohort("abort canary")
    await user.kohort("status canary -w --timeout 90")


async def _refusals(user: Terminal) -> None:
    assert "there is no LeaderWorkerSet lmm in namespace commands; there are: canary, llm" in await user.kohort(
        "get lmm", code=REFUSED
    )
    assert "does not wait for approval" in await user.kohort("approve canary", code=REFUSED)
    assert "no logs" in await user.kohort("logs llm --group 0", code=REFUSED)
    code, _, complaints = await user.type("kohort get --context nowhere")
    assert (code, "nowhere" in complaints) == (REFUSED, True)
