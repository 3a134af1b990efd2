"""A cluster in one process: the embedded API server in memory, and the parts that a test needs.

    async with Cluster(parts=("workloads",)) as cluster:
        await cluster.client.create(DEPLOYMENTS, {...})
        await cluster.until(lambda: len(cluster.objects(PODS)) == 3)

Requests take the same path as over a socket, from the same bytes to the same bytes, only without the socket. Every part
is a client of its own with faults of its own, so a test can crash one part, hide events from another and see what the
rest of the cluster does. Faults never affect `cluster.client`, the client of the test itself.

Run it on virtual time (`kohort.testing.virtual_time`) unless you really want to wait.
"""

import asyncio
import inspect
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType, TracebackType

from kohort.cluster.apiserver.auth.authentication import Authenticator
from kohort.cluster.apiserver.auth.model import ADMIN, User
from kohort.cluster.apiserver.endpoints.large_documents import LargeWork
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.model import Stored
from kohort.cluster.apiserver.storage.store import store_with
from kohort.kube.client import Client
from kohort.kube.http import Request, Response
from kohort.kube.manager import Manager
from kohort.kube.resources import NAMESPACES, Resource
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import parts as known_parts
from kohort.testing.faults import Faults
from kohort.testing.listening_cluster import Address, listening
from kohort.testing.parts import Register
from kohort.testing.request_matching import is_write
from kohort.testing.write_storm import WriteStormDetector

_NOT_COUNTED = ("/leases", "/events")
_NOTHING: Mapping[str, Json] = MappingProxyType({})
_STEP = 0.1
SIMULATION = "simulation"
DEFAULT_TIMEOUT = 600.0
"""How many (virtual) seconds `until` waits."""


class Part:
    """One running set of controllers."""

    def __init__(self, name: str, register: Register, cluster: "Cluster") -> None:
        self.name = name
        self._register = register
        self._cluster = cluster
        self.faults = Faults()
        self.manager: Manager | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Returns when its caches are filled and its controllers run."""
        client = Client(self.faults.wrap(self._cluster.transport()), user_agent=f"{self.name}/test")
        self.manager = Manager(client, name=self.name)
        self._register(self.manager)
        self._task = asyncio.create_task(self.manager.run(), name=self.name)
        ready = asyncio.create_task(self.manager.wait_ready())
        await asyncio.wait((self._task, ready), return_when=asyncio.FIRST_COMPLETED)
        await cancel_all(ready)
        self.check()

    async def stop(self) -> None:
        """Stop in order: running reconciles finish."""
        if self.manager is not None and self._task is not None:
            self.manager.stop()
            await self._task

    async def crash(self) -> None:
        """Stop at once, as by SIGKILL: no reconcile finishes, no lease is released."""
        self.faults.crash()
        if self._task is not None:
            await cancel_all(self._task)

    async def restart(self, faults: Faults | None = None) -> None:
        """A new process after a crash or a stop: empty caches, empty queues, and no faults but those given."""
        if self.running:
            await self.crash()
        self.faults = faults or Faults()
        await self.start()

    def check(self) -> None:
        """Raises the exception that ended the part, if there was one."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()


class Cluster:
    def __init__(
        self,
        *,
        parts: Sequence[str] = (),
        nodes: int = 0,
        node_settings: Mapping[str, Json] = _NOTHING,
        extra: Mapping[str, Register] = _NOTHING,
        threads: bool = True,
        contents: Sequence[Stored] = (),
    ) -> None:
        """`parts` are parts of kohort (`workloads`, `scheduler`, `operator`), `nodes` is the number of simulated nodes,
        with `node_settings` as `kohort.cluster.simulation.registration.register` takes them (`capacity`, `labels`,
        `topology`, `start_latency`); `extra` are your own controllers, by any name. Without `threads` the server works
        on large documents in the event loop: with one PYTHONHASHSEED, a run on virtual time is repeated exactly.
        `contents` are objects to begin with, taken from another cluster by `contents()`: the server then starts as
        after a restart, and an operator whose definitions are among them starts in half the time."""
        simulated = {SIMULATION: known_parts.simulated_nodes(nodes, node_settings)} if nodes else {}
        self._registers = {name: known_parts.registration_of(name) for name in parts} | simulated | {**extra}
        self._token = secrets.token_urlsafe(16)
        self._threads = threads
        self._contents = contents
        self._authenticator: Authenticator
        self.server: ApiServer
        self.client: Client
        self.parts: dict[str, Part] = {}
        self.writes = 0
        """Successful writes of all clients, without leases and events."""
        self._storms: WriteStormDetector

    async def __aenter__(self) -> "Cluster":
        self._storms = WriteStormDetector()
        self.server, self._authenticator = await assemble(
            store_with(self._contents), tokens={self._token: ADMIN}, controllers="workloads" in self._registers
        )
        if not self._threads:
            self.server.parts.large = LargeWork(large=sys.maxsize)
        self.client = Client(self.transport(), field_manager="test", user_agent="test")
        try:
            await self._ensure_namespace("default")
            for name, register in self._registers.items():
                self.parts[name] = Part(name, register, self)
                await self.parts[name].start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if problem is None:
                for part in reversed(self.parts.values()):
                    await part.stop()
        finally:
            await self._end()

    async def _end(self) -> None:
        for part in self.parts.values():
            await part.crash()
        await self.server.close()

    def listening(self) -> AbstractAsyncContextManager[Address]:
        """The API on a loopback port, for programs that run in another process."""
        return listening(self.server, self._authenticator, self._token)

    async def _ensure_namespace(self, name: str) -> None:
        if self.find(NAMESPACES, name) is None:
            await self.client.create(NAMESPACES, {"metadata": {"name": name}})

    def transport(self, user: User = ADMIN) -> InProcessTransport:
        """A connection as `user`."""

        async def handle(request: Request) -> Response:
            response = await self.server.handle(request, user)
            if is_write(request) and response.status < 300 and not any(map(request.path.__contains__, _NOT_COUNTED)):
                self.writes += 1
                self._storms.record(request)
            return response

        return InProcessTransport(handle)

    def faults(self, part: str) -> Faults:
        """The faults between a part and the server; new after every restart of the part."""
        if part not in self.parts:
            raise ValueError(f"no part {part!r} runs; there are: {', '.join(self.parts) or 'none'}")
        return self.parts[part].faults

    # Reading the store

    def objects(self, resource: Resource, namespace: str = "") -> list[JsonObject]:
        """What is stored right now, without a request."""
        return [stored.decode() for stored in self.server.store.list(resource.qualified, namespace)]

    def contents(self) -> list[Stored]:
        """Everything that is stored right now, to begin another cluster with."""
        return [one for bucket in self.server.store.buckets() for one in self.server.store.list(bucket)]

    def find(self, resource: Resource, name: str, namespace: str = "") -> JsonObject | None:
        stored = self.server.store.get(resource.qualified, namespace if resource.namespaced else "", name)
        return None if stored is None else stored.decode()

    # Waiting

    async def until(self, condition: Callable[[], bool], timeout: float = DEFAULT_TIMEOUT) -> None:
        """Let time pass until `condition()` holds."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        while not condition():
            self._check_parts()
            if clock() > end:
                raise AssertionError(f"condition still false after {timeout:g} s: {_source(condition)}")
            await self._storms.pause(_STEP)

    async def settle(self, quiet: float = 60.0, timeout: float = 24 * 3600.0) -> None:
        """Let time pass until there was no write for `quiet` seconds, except of leases and events."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        seen, since = self.writes, clock()
        while clock() - since < quiet:
            self._check_parts()
            if clock() > end:
                raise AssertionError(f"there are still writes after {timeout:g} s")
            await self._storms.pause(1.0)
            if self.writes != seen:
                seen, since = self.writes, clock()

    def _check_parts(self) -> None:
        for part in self.parts.values():
            part.check()


def _source(condition: Callable[[], bool]) -> str:
    """The text of a condition, for the message of a failed wait."""
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
