"""The termination message of a container stays with the attempt that wrote it."""

import asyncio
from pathlib import Path

from tests.node.agent.node_bench import Bench, node


async def restarted(bench: Bench) -> None:
    """A container that has said `bye`, failed, and runs again."""
    uid = await bench.create()
    await bench.until(lambda: bench.running() == ["c_0"])
    bench.agent.files.termination_message(uid, "c", 0).write_text("bye")
    bench.runtime.end(f"{uid}_c_0", 3)
    await bench.until(lambda: bench.running() == ["c_1"] and "running" in bench.status().get("state", {}))


async def test_the_message_is_in_the_last_state_while_the_next_attempt_runs(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await restarted(bench)
        last = bench.status()["lastState"]["terminated"]
        assert (last["exitCode"], last["message"]) == (3, "bye")
        assert "running" in bench.status()["state"]


async def test_the_next_agent_knows_the_message(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await restarted(bench)
        await bench.crash()
        await bench.restart()
        await asyncio.sleep(60)
        assert bench.status()["lastState"]["terminated"]["message"] == "bye"
