"""Somebody who follows every advice: all commands that `explain` and `plan` recommend are run as they are printed.

They are run through the command line itself, on a client that turns every write into a dry run: the server and its
webhooks say whether they would accept it, and the story goes on as if nothing had happened.
"""

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from msgspec.structs import replace
from tests.cli.terminal import NAMESPACE, Story

from kohort.cli.actions import show
from kohort.cli.connection import Action, CommandTarget, guarded
from kohort.cli.main import main
from kohort.kube.client import Client
from kohort.kube.http import Request, Response, Stream, Transport

RECOMMENDED = re.compile(r"kohort (?:approve|abort|resume|undo|restart|retry|resize|logs|status|explain)\b[^;()\n]*")
PATIENCE = 30.0
WITHOUT_LOGS = "simulated nodes only pretend"


class DryRun:
    """A transport that writes nothing."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        if request.method == "GET":
            return await self._inner.send(request)
        query = tuple(one for one in request.query if one[0] != "dryRun")
        return await self._inner.send(replace(request, query=(*query, ("dryRun", "All"))))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        """The inner transport belongs to the cluster."""


def action_of(command: str) -> Action:
    """What a command line would do, as click reads it."""
    found: list[Action] = []

    def keep(target: CommandTarget, action: Action) -> int:
        assert target.namespace == NAMESPACE, f"{command}: the namespace is part of the advice"
        found.append(action)
        return 0

    try:
        main.main(shlex.split(command)[1:], prog_name="kohort", obj=keep, standalone_mode=False)
    except SystemExit as end:
        assert not end.code, command
    (action,) = found
    return action


class Follower:
    def __init__(self, user: Story) -> None:
        self._user = user
        self._client = Client(DryRun(user.cluster.client.transport), field_manager="kohort-cli", user_agent="tests")
        self.followed: set[str] = set()

    async def explain(self, name: str) -> list[str]:
        """Follow what `explain` recommends now. A command that is refused because the state has moved on meanwhile is
        not recommended any more."""
        for command in await self._recommended(name):
            code, complaint = await self._run(command)
            if code == 1 and WITHOUT_LOGS not in complaint and command in await self._recommended(name):
                code, complaint = await self._run(command)
                assert code != 1 or command not in await self._recommended(name), f"{command}: {complaint}"
            self.followed.add(" ".join(shlex.split(command)[:2]))
        return sorted(self.followed)

    async def read(self, text: str) -> list[str]:
        """Follow what a printed text recommends."""
        commands = [one.strip() for one in RECOMMENDED.findall(text) if "..." not in one and "-w" not in one]
        for command in commands:
            code, complaint = await self._run(command)
            assert code != 1, f"{command}: {complaint}"
        return commands

    async def _recommended(self, name: str) -> list[str]:
        text, _ = await self._user.run(show.explain, name, "json")
        causes = json.loads(text)
        words = "\n".join(one["action"] for one in causes)
        commands: list[str] = [command for one in causes for command in one["commands"]]
        assert all(one.strip() in commands for one in RECOMMENDED.findall(words) if "..." not in one), words
        return commands

    async def _run(self, command: str) -> tuple[int, str]:
        """A command that follows what it has begun never sees an end of it here, because nothing is written."""
        code = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                code = await guarded(action_of(command), self._client, NAMESPACE)
        return code, self._user.printed().err
