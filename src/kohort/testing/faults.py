"""A transport with injected faults.

    faults = Faults()
    client = Client(faults.wrap(transport))
    faults.refuse(429, on=writes(PODS), times=3)
    faults.crash_at_write(7)

The wrapped transport does exactly what a network and a server can do to a client, no more:

| switch                      | what the client meets                                                                  |
|-----------------------------|----------------------------------------------------------------------------------------|
| `refuse(error)`             | the server answers 409, 429, 500 ...; nothing was written                              |
| `lose_answer()`             | the server acted, the answer never came back                                           |
| `time_out(seconds)`         | the request never reached the server                                                   |
| `slow_down(seconds)`        | the request takes that much longer                                                     |
| `crash_at_write(k)`         | at the k-th write the process dies: before the server acted, or after                  |
| `drop_events(every)`        | the connection breaks, and an event with it; a client that resumes properly gets it    |
| `duplicate_events(every)`   | an event arrives twice                                                                 |
| `delay_events(seconds)`     | events come late, in order                                                             |
| `hold(resource)`            | the client's caches of a resource stand still until `release`                          |
| `disconnect()`              | every open watch breaks now                                                            |
| `expire_history()`          | every open watch breaks, and its attempt to resume is answered with 410                |
| `chaos(rate)`               | all of the above that a client must survive, at random                                 |

A single event that vanishes from a living connection is not in the list: TCP does not do that, and no client could
notice it.

A crash raises nothing into the program under test: a program could catch that and go on, which a dead process cannot.
Instead its requests never return and its events stop; `await faults.crashed.wait()`, cancel its tasks and start it anew
with fresh faults.
"""

import asyncio
import random
from collections import Counter, deque
from typing import Literal

import msgspec

from kohort.kube import errors
from kohort.kube.http import Request, Transport
from kohort.kube.resources import Resource
from kohort.testing.faulty_transport import FaultyStream, FaultyTransport, InjectedFault
from kohort.testing.request_matching import Match, anything, is_watch, is_write, watches

_ANY_WATCH = watches()
KEPT_WRITES = 10_000


class _Rule(msgspec.Struct):
    on: Match
    fault: InjectedFault
    times: int | None
    skip: int

    def catches(self, request: Request) -> bool:
        if self.times == 0 or not self.on(request):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class _EventRule(msgspec.Struct):
    """Every n-th event of matching watches, counted over all of them."""

    on: Match
    every: int
    fault: Literal["drop", "duplicate"]
    seen: int = 0

    def catches(self, request: Request) -> bool:
        if not self.on(request):
            return False
        self.seen += 1
        return self.seen % self.every == 0


class Faults:
    def __init__(self, *, keep_writes: int = KEPT_WRITES) -> None:
        """`keep_writes`: how many of the latest writes are kept in `writes`."""
        self.crashed = asyncio.Event()
        self.writes: deque[Request] = deque(maxlen=keep_writes)
        """The last writes that were attempted, in order."""
        self.write_count = 0
        """Of all attempted writes."""
        self._rules: list[_Rule] = []
        self._event_rules: list[_EventRule] = []
        self._delays: list[tuple[Match, float]] = []
        self._held: list[Match] = []
        self._expired: Counter[tuple[str, ...]] = Counter()
        self._streams: set[FaultyStream] = set()
        self._writes_left: int | None = None
        self._crash_after_effect = False
        self._crash_on: Match = anything
        self._chaos: tuple[random.Random, float] | None = None

    def writes_since(self, count: int) -> list[Request]:
        """The writes that were attempted after `write_count` was `count`. ValueError when some are no longer kept."""
        made = self.write_count - count
        if made > len(self.writes):
            raise ValueError(
                f"{made} writes were attempted, and only the last {len(self.writes)} are kept: give Faults a larger "
                "keep_writes, or ask sooner"
            )
        return list(self.writes)[len(self.writes) - made :]

    def wrap(self, transport: Transport) -> FaultyTransport:
        return FaultyTransport(transport, self)

    # Requests

    def refuse(
        self, error: errors.ApiError | int, *, on: Match = anything, times: int | None = 1, skip: int = 0
    ) -> None:
        """Answer `error`, or an error with this code, to the next `times` requests that match (None: to all), after
        letting `skip` pass."""
        self._rules.append(_Rule(on, InjectedFault(_error(error)), times, skip))

    def lose_answer(self, *, on: Match, times: int | None = 1, skip: int = 0) -> None:
        self._rules.append(_Rule(on, InjectedFault(_RESET, reaches_server=True), times, skip))

    def time_out(self, seconds: float = 30.0, *, on: Match, times: int | None = 1, skip: int = 0) -> None:
        error = errors.Unreachable(f"no answer in {seconds:g} s")
        self._rules.append(_Rule(on, InjectedFault(error, delay=seconds), times, skip))

    def slow_down(self, seconds: float, *, on: Match = anything, times: int | None = None) -> None:
        self._rules.append(_Rule(on, InjectedFault(reaches_server=True, delay=seconds), times, 0))

    def crash_at_write(self, number: int, *, after_effect: bool = False, of: Match = anything) -> None:
        """Crash at the write with this number among those `of` a kind, counted from now (the next one is 1): before it
        reaches the server, or with `after_effect` when the server has done it and the answer is on its way."""
        self._writes_left = _counted("number", number)
        self._crash_after_effect = after_effect
        self._crash_on = of

    def crash(self) -> None:
        """Crash now."""
        self.crashed.set()
        self._notify_streams()

    # Watches

    def drop_events(self, every: int, *, on: Match = _ANY_WATCH) -> None:
        self._event_rules.append(_EventRule(on, _counted("every", every), "drop"))

    def duplicate_events(self, every: int = 1, *, on: Match = _ANY_WATCH) -> None:
        self._event_rules.append(_EventRule(on, _counted("every", every), "duplicate"))

    def delay_events(self, seconds: float, *, on: Match = _ANY_WATCH) -> None:
        self._delays.append((on, seconds))
        self._notify_streams()

    def hold(self, resource: Resource | None = None) -> Match:
        """Caches of this resource (None: all caches) get no events until `release` of what this returns."""
        held = watches(resource)
        self._held.append(held)
        return held

    def release(self, held: Match | None = None) -> None:
        """Deliver what was held back (None: by any `hold`)."""
        self._held = [each for each in self._held if held is not None and each is not held]
        self._notify_streams()

    def disconnect(self, resource: Resource | None = None) -> None:
        on = watches(resource)
        for stream in [*self._streams]:
            if on(stream.request):
                stream.cut()

    def expire_history(self, resource: Resource | None = None) -> None:
        on = watches(resource)
        self._expired.update(_subject(stream.request) for stream in self._streams if on(stream.request))
        self.disconnect(resource)

    # Random faults

    def chaos(self, rate: float = 0.05, *, seed: int = 0) -> None:
        """Each request and each event fails with probability `rate`, in one of the ways that a client must survive."""
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must be a probability from 0 to 1, not {rate:g}")
        self._chaos = (random.Random(seed), rate)

    def clear(self) -> None:
        """No more faults from now on, except a crash that has happened. What was held or delayed is delivered."""
        self._rules.clear()
        self._event_rules.clear()
        self._delays.clear()
        self._held.clear()
        self._expired.clear()
        self._writes_left = None
        self._chaos = None
        self._notify_streams()

    # Decisions that the transport asks for

    def fault_for(self, request: Request) -> InjectedFault:
        """What happens to this request."""
        for rule in self._rules:
            if rule.catches(request):
                return rule.fault
        if is_watch(request) and request.param("resourceVersion") and self._expired[_subject(request)] > 0:
            self._expired[_subject(request)] -= 1
            return InjectedFault(errors.expired("too old resource version: the history is gone"))
        return self._random_fault(request)

    def crash_point(self, request: Request) -> Literal["before", "after"] | None:
        """Record a write; whether the part crashes before or after it, None if it does not crash."""
        if not is_write(request):
            return None
        self.write_count += 1
        self.writes.append(request)
        if self._writes_left is None or not self._crash_on(request):
            return None
        self._writes_left -= 1
        if self._writes_left != 0:
            return None
        return "after" if self._crash_after_effect else "before"

    def event_fault(self, request: Request) -> Literal["drop", "duplicate"] | None:
        """What happens to an event of a watch."""
        caught = [rule.fault for rule in self._event_rules if rule.catches(request)]
        if caught:
            return "drop" if "drop" in caught else "duplicate"
        if self._chaos is not None and self._chaos[0].random() < self._chaos[1]:
            return self._chaos[0].choice(("drop", "duplicate"))
        return None

    def delay_of(self, request: Request) -> float:
        return max((seconds for on, seconds in self._delays if on(request)), default=0.0)

    def holds(self, request: Request) -> bool:
        return any(held(request) for held in self._held)

    def opened(self, stream: FaultyStream) -> None:
        self._streams.add(stream)

    def closed(self, stream: FaultyStream) -> None:
        self._streams.discard(stream)

    def _random_fault(self, request: Request) -> InjectedFault:
        if self._chaos is None:
            return _PASS
        chance, rate = self._chaos
        if chance.random() >= rate:
            return _PASS
        choices = [
            _BUSY,
            _BROKEN,
            InjectedFault(_RESET),
            InjectedFault(_RESET, reaches_server=True),
            InjectedFault(delay=chance.random()),
        ]
        if request.method in ("PUT", "PATCH"):
            choices.append(InjectedFault(errors.conflict("objects", "it", errors.STALE)))
        chosen = chance.choice(choices)
        return msgspec.structs.replace(chosen, reaches_server=True) if chosen.error is None else chosen

    def _notify_streams(self) -> None:
        for stream in self._streams:
            stream.notify()


_PASS = InjectedFault(reaches_server=True)
_RESET = errors.Unreachable("connection reset")
_BUSY = InjectedFault(errors.too_many_requests("the server is busy"))
_BROKEN = InjectedFault(errors.internal("injected internal error"))


def _error(error: errors.ApiError | int) -> errors.ApiError:
    if isinstance(error, errors.ApiError):
        return error
    if not 400 <= error < 600:
        raise ValueError(f"expected an ApiError or an HTTP status from 400 to 599, not {error}")
    # With Retry-After, as a busy server answers.
    return errors.too_many_requests("the server is busy") if error == 429 else errors.from_response(error, b"")


def _counted(name: str, number: int) -> int:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, not {number}")
    return number


def _subject(request: Request) -> tuple[str, ...]:
    """What a watch is about, however often it is opened."""
    return (request.path, request.param("labelSelector"), request.param("fieldSelector"))
