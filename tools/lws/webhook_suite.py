"""LeaderWorkerSet's own cases of its webhooks, run against kohort's webhooks on an embedded API server.

    python -m tools.lws.webhook_suite [arguments of the suite, such as -ginkgo.v]

The cases are compiled once from the Go module proxy into the cache folder, with a start of their own (`webhooks/`): the
released one calls LeaderWorkerSet's webhooks instead of those of a cluster. As there, no controllers run, since they
would change what a case has created. The case of gang scheduling wants webhooks for Volcano, so there are two runs.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.lws.build import LWS
from tools.released_suite import build_suite

from kohort import operator
from kohort.admission.group_webhooks import GroupWebhooks
from kohort.admission.webhook_host import Loopback
from kohort.groups.gang import Volcano
from kohort.kube import kubeconfig
from kohort.kube.client import Client

SUITE: Final = "test/integration/webhooks"
START: Final = Path(__file__).resolve().parent / "webhooks" / "suite_test.go"
GANG: Final = "gang scheduling"


def run_suite(arguments: list[str]) -> int:
    """0, or the exit code of a run that failed."""
    program = build_suite(LWS, SUITE, START)
    without = run_cases(program, "", [f"-ginkgo.skip={GANG}", *arguments])
    return run_cases(program, Volcano.name, [f"-ginkgo.focus={GANG}", *arguments]) or without


def run_cases(program: Path, gang_scheduler: str, arguments: list[str]) -> int:
    """Run them against an API server that exists for this run only."""
    kohort = str(Path(sys.executable).with_name("kohort"))
    with tempfile.TemporaryDirectory() as folder:
        data = ["--data-dir", folder]
        up = [kohort, "up", *data, "--port", "0", "--parts", "apiserver", "--detach"]
        subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
        try:
            return asyncio.run(_run_with_webhooks(program, Path(folder) / "kubeconfig", gang_scheduler, arguments))
        finally:
            subprocess.run([kohort, "down", *data], check=False, stdout=subprocess.DEVNULL)


async def _run_with_webhooks(program: Path, config: Path, gang_scheduler: str, arguments: list[str]) -> int:
    transport, host = kubeconfig.load(config), Loopback()
    client = Client(transport)
    # The cases change the size of sets that have no resizePolicy.
    webhooks = GroupWebhooks(default_resize_policy="Recreate", gang_scheduler=gang_scheduler, client=client)
    try:
        address = await host.open(webhooks.endpoints())
        await operator.install_definitions(client, address, rollouts=False)
        await operator.install_webhooks(client, address, rollouts=False)
        process = await asyncio.create_subprocess_exec(
            program, *arguments, env={**os.environ, "KUBECONFIG": str(config)}
        )
        return await process.wait()
    finally:
        await host.close()
        await transport.close()


if __name__ == "__main__":
    try:
        raise SystemExit(run_suite(sys.argv[1:]))
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the suite could not be run: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
