"""Many readers of one watch, in a separate process that uses little processor time.

Nothing is decoded. What the first reader to get so far has read is kept, and all others are compared with it: readers
of the same changes must see the same bytes, so that none of them lost, repeated or mixed up an event. Events are
counted by their newlines. HTTP chunks are taken off before: a server may put any number of events into one.
"""

import multiprocessing
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

from bench.raw_client import IDLE_SECONDS, READY_SECONDS, RECORD_BYTES, Target, receive_into


class Events:
    """What there is to read, and how much of it is wanted."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.bytes = bytearray()
        self.count = 0

    def agree(self, part: memoryview, position: int) -> bool:
        """Whether this is what is at a position; the first who comes there says what it is."""
        known = len(self.bytes) - position
        if known < len(part):
            news = part[known:].tobytes()
            self.bytes += news
            self.count += news.count(b"\n")
        return self.bytes.startswith(part, position)

    def read_by(self, position: int) -> int:
        return self.bytes.count(b"\n", 0, position)


class Reader:
    """One watch."""

    def __init__(self, target: Target, path: str, events: Events) -> None:
        self.socket = target.connect()
        self.socket.sendall(target.request("GET", path))
        self.socket.setblocking(False)
        self.position = 0
        """Bytes of events that were read."""
        self.same = True
        self.started = self.ended = False
        self.last = 0.0
        """When the last event came."""
        self._events = events
        self._left = 0
        """Bytes of the present chunk that have not arrived."""
        self._line = b""
        """What has arrived of a line of the head, or of one with the size of a chunk."""

    @property
    def complete(self) -> bool:
        return self._events.count >= self._events.wanted and self.position >= len(self._events.bytes)

    def read(self, record: bytearray) -> None:
        """Take in the next record."""
        size = receive_into(self.socket, record)
        position = 0
        with memoryview(record) as view:
            while position < size:
                if self._left:
                    part = view[position : min(position + self._left, size)]
                    self.same &= self._events.agree(part, self.position)
                    self.position += len(part)
                    self._left -= len(part)
                    self.last = time.monotonic()
                    position += len(part)
                else:
                    end = record.find(b"\n", position, size) + 1
                    self._line += record[position : end or size]
                    position = end or size
                    if end:
                        self._end_of_line()

    def _end_of_line(self) -> None:
        line, self._line = self._line.strip(), b""
        if self.started:
            if line:
                self._left = int(line, 16)
                self.ended = not self._left
        elif not line:
            self.started = True
        elif line.startswith(b"HTTP/") and b" 200 " not in line:
            raise RuntimeError(f"the watch was refused: {line.decode(errors='replace')}")


@dataclass(frozen=True, slots=True)
class Seen:
    """What all readers got."""

    counts: list[int]
    same: bool
    """All of them got the same bytes, as far as they got."""
    last: float
    """When the last event came, on the clock of `time.monotonic`."""
    cpu: float
    """Processor time of all readers, from the moment that all watches had begun."""


def _read_all(target: Target, path: str, count: int, wanted: int, pipe: Pipe) -> None:
    selector = selectors.DefaultSelector()
    events = Events(wanted)
    readers = [Reader(target, path, events) for _ in range(count)]
    for reader in readers:
        selector.register(reader.socket, selectors.EVENT_READ, reader)
    record = bytearray(RECORD_BYTES)
    begun = 0.0
    while selector.get_map() and (found := selector.select(IDLE_SECONDS)):
        for key, _ in found:
            _read(key.data, record)
            if key.data.complete or key.data.ended:
                selector.unregister(key.fileobj)
        if not begun and all(reader.started for reader in readers):
            begun = time.process_time()
            pipe.send("ready")
    counts = [events.read_by(reader.position) for reader in readers]
    same = all(reader.same for reader in readers)
    pipe.send(Seen(counts, same, max(reader.last for reader in readers), time.process_time() - begun))


def _read(reader: Reader, record: bytearray) -> None:
    try:
        reader.read(record)
    except ConnectionError:
        reader.ended = True


class Readers:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def result(self) -> Seen:
        seen: Seen = self._pipe.recv()
        return seen


@contextmanager
def reading(target: Target, path: str, count: int, wanted: int) -> Iterator[Readers]:
    """The body begins when all watches have begun; each ends after `wanted` events, or when the server ends it."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_read_all, args=(target, path, count, wanted, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(READY_SECONDS) or ours.recv() != "ready":
            raise RuntimeError("the watches did not begin")
        yield Readers(ours)
    finally:
        process.terminate()
        process.join()
