"""Starting the demo's cluster leaves nothing for the event loop to clean up after its end."""

import subprocess
import sys

from tests.children import environment

STORY = """
import asyncio, gc, os
from kohort.demo.demo_cluster import first_line

async def scenario():
    reading, writing = os.pipe()
    # A process of the pods may outlive `kohort up` and still have its output.
    child = await asyncio.create_subprocess_exec("sh", "-c", "sleep 5 & echo ready; exec true", stdout=writing)
    os.close(writing)
    print(await first_line(reading))
    await child.wait()

asyncio.run(scenario(), debug=True)
gc.collect()
"""


def test_a_pipe_that_others_hold_open_is_closed_before_the_loop() -> None:
    command = [sys.executable, "-W", "error", "-c", STORY]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "b'ready\\n'\n"
    assert "Event loop is closed" not in done.stderr
    assert "unclosed" not in done.stderr
