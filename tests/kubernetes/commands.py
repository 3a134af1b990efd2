"""`kohort` as a command, beside what runs in the process of the test."""

import asyncio
import os
import subprocess
import sys
from functools import partial

from tests.kubernetes.controlplane import ControlPlane


async def kohort(plane: ControlPlane, *words: str, refused: bool = False) -> str:
    """What it printed; it must have ended well, or not when it shall be `refused`."""
    command = [sys.executable, "-m", "kohort", words[0], "--kubeconfig", str(plane.kubeconfig), *words[1:]]
    environment = {**os.environ, "KOHORT_LOG": ""}
    run = partial(subprocess.run, command, capture_output=True, text=True, timeout=120, env=environment)
    done = await asyncio.to_thread(run)
    assert (done.returncode != 0) == refused, done.stderr
    return done.stderr if refused else done.stdout
