"""Runs a part of a process: its informers, its controllers, and their start and stop.

Order of a start: preparations are made, informers fill, then controllers begin, so no reconcile ever sees half a cache.
With leader election, informers run on every candidate and controllers only on the leader, which therefore takes over at
once; writes that only the leader may make (`prepare_as_leader`) come before its controllers start. Order of a stop:
controllers finish the keys that they work on (for `grace` seconds), the lease is released, informers end, and clean-ups
run.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import cast

from kohort.kube.client import Client, Selection
from kohort.kube.controller import Controller, PacingOf, Reconcile, default_pacing
from kohort.kube.events import DEFAULT_EVENT_LIMIT, EventLimit, EventRecorder
from kohort.kube.informer import Index, Informer
from kohort.kube.leader_election import LeaderElection
from kohort.kube.log import Log
from kohort.kube.metrics import Metrics
from kohort.kube.object_identity import T
from kohort.kube.resources import Resource
from kohort.kube.shared_stores import SharedStores
from kohort.kube.tasks import as_coroutine, cancel_all
from kohort.objects.json_types import Json

_log = Log(module="kohort.kube.manager")

InformerKey = tuple[Selection, Json]


class Manager:
    def __init__(
        self,
        client: Client,
        *,
        name: str = "kohort",
        leader_election: LeaderElection | None = None,
        grace: float = 10.0,
        caches: SharedStores | None = None,
    ) -> None:
        """`caches` are shared with other managers of this process; without them the manager has its own."""
        self.client = client
        self.name = name
        if client.metrics is None:
            client.metrics = Metrics()
        self.metrics: Metrics = client.metrics
        self._caches = caches if caches is not None else SharedStores(client)
        self._leader_election = leader_election
        self._grace = grace
        self._informers: dict[InformerKey, Informer[Json]] = {}
        self._controllers: list[Controller] = []
        self._background: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._preparations: list[Callable[[], Awaitable[None]]] = []
        self._first_acts: list[Callable[[], Awaitable[None]]] = []
        self._clean_ups: list[Callable[[], Awaitable[None]]] = []
        self._recorders: dict[str, EventRecorder] = {}
        self._attached: dict[Informer[Json], asyncio.Task[None]] = {}
        self._background_tasks: list[asyncio.Task[None]] = []
        self._started = False
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._failed = asyncio.Event()
        self._failure: BaseException | None = None

    # Putting together

    def informer(
        self,
        resource: Resource,
        view: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        indexes: "dict[str, Index[T]] | None" = None,
    ) -> Informer[T]:
        """The cache of this selection as this view; equal requests get the same informer. One that is asked
        for while the manager runs starts at once: `await informer.wait_synced()` before trusting it."""
        selection = Selection(resource, namespace, label_selector, field_selector, metadata_only)
        found = self._informers.get((selection, view))
        if found is None:
            found = Informer(self._caches.store(selection, view))
            self._informers[selection, view] = found
            if self._started:
                self._attach(found)
        for name, function in (indexes or {}).items():
            found.add_index(name, function)
        return cast("Informer[T]", found)

    def drop(self, informer: Informer[T]) -> None:
        """Stop a cache that is no longer used and free its memory."""
        self._informers.pop((informer.selection, informer.view), None)
        self._detach(informer)

    def controller(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 1,
        max_delay: float = 60.0,
        pace: PacingOf = default_pacing,
    ) -> Controller:
        controller = Controller(name, reconcile, workers=workers, max_delay=max_delay, metrics=self.metrics, pace=pace)
        self._controllers.append(controller)
        return controller

    def prepare(self, run: Callable[[], Awaitable[None]]) -> None:
        """Something that must be done before the first cache fills, on every candidate: definitions installed, a server
        opened. Its failure ends the manager."""
        self._preparations.append(run)

    def prepare_as_leader(self, run: Callable[[], Awaitable[None]]) -> None:
        """Something that the leader must do before its controllers begin, such as registering webhooks. Its failure
        ends the manager."""
        self._first_acts.append(run)

    def clean_up(self, run: Callable[[], Awaitable[None]]) -> None:
        """Something to undo when the manager ends, in reverse order."""
        self._clean_ups.append(run)

    def background(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """A coroutine that runs beside the controllers (on the leader only); its failure ends the manager."""
        self._background.append((name, run))

    def recorder(
        self, component: str, allowance: EventLimit = DEFAULT_EVENT_LIMIT, instance: str = ""
    ) -> EventRecorder:
        """Events in the name of `component`, written while the manager runs; in the newer form with an `instance`."""
        found = self._recorders.get(component)
        if found is None:
            found = EventRecorder(self.client, component, allowance=allowance, instance=instance)
            self._recorders[component] = found
        return found

    # Running

    @property
    def synced(self) -> bool:
        """All caches have been complete once. True on standby candidates too."""
        return all(informer.synced for informer in self._informers.values())

    @property
    def ready(self) -> bool:
        """Controllers run. Without leader election: as soon as all caches are filled."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        await self._ready.wait()

    def stop(self) -> None:
        """Ask `run` to end in order."""
        self._stop.set()

    async def run(self) -> None:
        """Run once, until `stop` or cancellation. Raises when leadership is lost or a part fails."""
        try:
            if await self._prepared():
                await self._run()
        finally:
            for clean_up in reversed(self._clean_ups):
                await clean_up()

    async def _prepared(self) -> bool:
        """Whether everything was done that must come first; what takes long gives way to `stop`."""
        work = asyncio.create_task(self._prepare(), name=f"{self.name}-preparations")
        stopped = asyncio.create_task(self._stop.wait(), name=f"{self.name}-stop")
        try:
            await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            return work.done()
        finally:
            await cancel_all(work, stopped)

    async def _prepare(self) -> None:
        for preparation in self._preparations:
            await preparation()

    async def _run(self) -> None:
        self._started = True
        for informer in [*self._informers.values()]:
            self._attach(informer)
        work = asyncio.create_task(self._work(), name=f"{self.name}-work")
        stopped = asyncio.create_task(self._stop.wait(), name=f"{self.name}-stop")
        failed = asyncio.create_task(self._failed.wait(), name=f"{self.name}-failure")
        try:
            await asyncio.wait((work, stopped, failed), return_when=asyncio.FIRST_COMPLETED)
            await self._finish(work)
        finally:
            self._started = False
            self._ready.clear()
            await cancel_all(work, stopped, failed)
            for recorder in self._recorders.values():
                await recorder.close()
            ending = [self._detach(informer) for informer in [*self._attached]]
            await cancel_all(*(task for task in ending if task is not None))
        if self._failure is not None:
            raise self._failure

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[Manager]":
        """`async with manager.running():` the body begins when all is ready; the manager is stopped after it. A manager
        that fails meanwhile ends the body with its failure."""
        task = asyncio.create_task(self.run(), name=self.name)
        ready = asyncio.create_task(self.wait_ready(), name=f"{self.name}-ready")
        try:
            await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            with _ended_by(task):
                yield self
        finally:
            self.stop()
            await cancel_all(ready)
            await task

    def _attach(self, informer: Informer[Json]) -> None:
        task = self._caches.attach(informer.store)
        task.add_done_callback(self._store_ended)
        self._attached[informer] = task

    def _detach(self, informer: Informer[Json]) -> "asyncio.Task[None] | None":
        informer.close()
        task = self._attached.pop(informer, None)
        if task is None:
            return None
        task.remove_done_callback(self._store_ended)
        return self._caches.detach(informer.store)

    def _store_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._failure = problem
            self._failed.set()

    async def _work(self) -> None:
        for informer in [*self._informers.values()]:
            await informer.wait_synced()
        if self._leader_election is None:
            await self._operate()
        else:
            await self._leader_election.run(self._operate)

    async def _operate(self) -> None:
        for act in self._first_acts:
            await act()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._until_stopped(), name=f"{self.name}-until-stopped")
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)
            for name, run in self._background:
                self._background_tasks.append(group.create_task(as_coroutine(run), name=name))
            _log.info("controllers started", manager=self.name, controllers=[each.name for each in self._controllers])
            self._ready.set()

    async def _until_stopped(self) -> None:
        """A manager may have caches only; it still runs until `stop`."""
        await self._stop.wait()

    async def _finish(self, work: "asyncio.Task[None]") -> None:
        """The orderly end: reconciles in flight may complete, nothing new begins."""
        self._stop.set()
        for controller in self._controllers:
            controller.stop()
        for task in self._background_tasks:
            task.cancel()
        if self._ready.is_set() and not work.done():
            await asyncio.wait((work,), timeout=self._grace)
        if work.done() and not work.cancelled():
            work.result()


@contextmanager
def _ended_by(task: "asyncio.Task[None]") -> Iterator[None]:
    """The body is cancelled when `task` fails; awaiting the task then raises its failure."""
    body = asyncio.current_task()
    assert body is not None

    def ended(_: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            body.cancel()

    task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if not task.done() or body.uncancel() > 0:
            raise
    finally:
        task.remove_done_callback(ended)
