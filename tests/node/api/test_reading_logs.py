"""What a container writes is what a reader gets, byte for byte."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.node.api import log_reader
from kohort.node.api.log_reader import InvalidLogOption, LogOptions, log_options, read_log
from kohort.node.runtimes.log_files import LONGEST_LINE, LogWriter, last_lines

LONG = b"x" * (LONGEST_LINE * 2 + 5)
ODD = [
    b"a\rb\n",
    b"  0%|\r 50%|\r100%|\n",
    b"dos\r\nunix\n",
    b"\x0b\x0c\x1c\x85\n",
    "line\u2028separator\u2029and\x85next\n".encode(),
    b"\xff\xfe not text\n",
    b"\n\n two  spaces \n",
    LONG + b"\n",
    LONG,
    b"no end",
]


def read(path: Path, options: LogOptions) -> bytes:
    async def all_of_it() -> bytes:
        return b"".join([chunk async for chunk in read_log(path, options, lambda: False)])

    return asyncio.run(all_of_it())


def written(path: Path, *chunks: bytes) -> Path:
    log = LogWriter(str(path))
    for chunk in chunks:
        log.write("stdout", chunk)
    log.close()
    return path


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize(
    "options",
    [LogOptions(), LogOptions(follow=True), LogOptions(tail=99), LogOptions(since="2020-01-01T00:00:00Z")],
    ids=["plain", "follow", "tail", "since"],
)
def test_bytes_come_through_unchanged(tmp_path: Path, text: bytes, options: LogOptions) -> None:
    assert read(written(tmp_path / "0.log", text), options) == text


def test_a_progress_bar_is_one_line_to_tail(tmp_path: Path) -> None:
    path = written(tmp_path / "0.log", b"first\n", b"1%\r2%\r", b"3%\n", b"last\n")
    assert read(path, LogOptions(tail=2)) == b"1%\r2%\r3%\nlast\n"


def test_a_time_stands_in_front_of_each_line_and_nowhere_else(tmp_path: Path) -> None:
    path = written(tmp_path / "0.log", b"a\rb\n" + LONG + b"\nend\n")
    lines = [line.partition(b" ") for line in read(path, LogOptions(timestamps=True)).split(b"\n")[:-1]]
    assert [text for _, _, text in lines] == [b"a\rb", LONG, b"end"]
    assert all(len(stamp) == len("2026-01-01T00:00:00.000000000Z") for stamp, _, _ in lines)


def test_what_is_added_is_followed_across_a_new_file(tmp_path: Path) -> None:
    """Nothing is told twice, nothing left out, and the part of a line that was there is joined with its rest."""
    path = tmp_path / "0.log"
    header = b"2026-01-01T00:00:00.000000000Z stdout F "
    path.write_bytes(header + b"one\r1\n" + header + b"tw")
    looked = 0

    def running() -> bool:
        """Things happen whenever somebody looks."""
        nonlocal looked
        looked += 1
        if looked == 1:
            path.write_bytes(path.read_bytes() + b"o\n")
        if looked == 2:
            path.rename(tmp_path / "0.log.1")
            path.write_bytes(header + b"three\n")
        return looked <= 3

    async def follow() -> bytes:
        return b"".join([chunk async for chunk in read_log(path, LogOptions(follow=True), running)])

    assert asyncio.run(follow()) == b"one\r1\ntwo\nthree\n"


def test_a_limit_counts_bytes(tmp_path: Path) -> None:
    assert read(written(tmp_path / "0.log", b"a\rb\ncd\n"), LogOptions(limit=5, follow=True)) == b"a\rb\nc"


def test_last_words_keep_their_carriage_returns(tmp_path: Path) -> None:
    path = written(tmp_path / "0.log", b"first\nbar 1%\rbar 2%\nfailed\n")
    assert last_lines(path.read_bytes(), 2) == b"bar 1%\rbar 2%\nfailed\n"


@pytest.mark.parametrize(
    "time", ["2026-01-01T02:00:00.5+02:00", "2026-01-01T00:00:00.500000000Z", "2025-12-31T19:00:00.5-05:00"]
)
def test_times_of_other_writers_have_zones_and_any_number_of_digits(tmp_path: Path, time: str) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(f"{time} stdout F a line\n{time} stdout P:more a part\n".encode())
    assert read(path, LogOptions(since="2026-01-01T00:00:00Z")) == b"a line\na part"
    assert read(path, LogOptions(since="2026-01-01T00:00:01Z")) == b""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, LogOptions()),
        ({"tailLines": ""}, LogOptions()),
        ({"tailLines": "0", "limitBytes": "1"}, LogOptions(tail=0, limit=1)),
        ({"sinceTime": "2026-01-01T00:00:00+02:00"}, LogOptions(since="2026-01-01T00:00:00+02:00")),
        ({"stream": "Stderr", "follow": "true"}, LogOptions(stream="Stderr", follow=True)),
    ],
)
def test_what_a_request_asks_for(query: dict[str, str], expected: LogOptions) -> None:
    assert log_options(query) == expected


@pytest.mark.parametrize(
    ("query", "status", "problem"),
    [
        ({"limitBytes": "x"}, 400, "limitBytes: 'x' is not a number"),
        ({"limitBytes": "9" * 30}, 400, "is not a number"),
        ({"limitBytes": "--5"}, 400, "is not a number"),
        ({"limitBytes": "0"}, 422, "limitBytes: must be at least 1, not 0"),
        ({"tailLines": "-1"}, 422, "tailLines: must be at least 0, not -1"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: must be at least 1"),
        ({"sinceTime": "garbage"}, 400, "sinceTime: 'garbage' is not a time"),
        ({"sinceTime": "2026-01-01"}, 400, "is not a time"),
        ({"sinceTime": "2026-01-01T00:00:00Z", "sinceSeconds": "5"}, 422, "at most one of"),
        ({"stream": "both"}, 422, "none of All, Stdout, Stderr"),
    ],
)
def test_what_a_request_cannot_ask_for(query: dict[str, str], status: int, problem: str) -> None:
    with pytest.raises(InvalidLogOption, match=problem) as refusal:
        log_options(query)
    assert refusal.value.status == status


def test_seconds_before_there_were_computers(tmp_path: Path) -> None:
    options = log_options({"sinceSeconds": str(1 << 60)})
    assert read(written(tmp_path / "0.log", b"a\n"), options) == b"a\n"


LINES = st.lists(
    st.builds(
        lambda stream, tag, text: b"2026-01-01T00:00:00Z %s %s %s\n" % (stream, tag, text),
        st.sampled_from([b"stdout", b"stderr"]),
        st.sampled_from([b"F", b"P"]),
        st.text("ab ", max_size=9).map(str.encode),
    ),
    max_size=12,
)


def expected_tail(lines: list[bytes], wanted: int | None, stream: str) -> bytes:
    """What the last lines are, by going through a list of them."""
    chosen = [line for line in lines if stream == "All" or line.split(b" ")[1] == stream.lower().encode()]
    kept: list[bytes] = []
    ends = 0
    for line in reversed(chosen):
        complete = line.split(b" ")[2] == b"F"
        ends += complete or not kept
        if wanted is not None and ends > wanted:
            break
        kept.append(line.split(b" ", 3)[3] if complete else line.split(b" ", 3)[3].removesuffix(b"\n"))
    return b"".join(reversed(kept))


@given(
    st.lists(LINES, min_size=1, max_size=3),
    st.none() | st.integers(0, 8),
    st.sampled_from(log_reader.STREAMS),
    st.integers(1, 60),
    st.booleans(),
)
def test_the_last_lines_of_several_files(
    parts: list[list[bytes]], wanted: int | None, stream: str, block: int, follow: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory, mock.patch.object(log_reader, "BLOCK", block):
        path = Path(directory, "0.log")
        for number, part in enumerate(reversed(parts)):
            path.with_name(f"0.log.{number}" if number else "0.log").write_bytes(b"".join(part))
        options = LogOptions(tail=wanted, stream=stream, follow=follow)
        assert read(path, options) == expected_tail([line for part in parts for line in part], wanted, stream)


MEASURED = """
import asyncio, resource, sys
from pathlib import Path
from kohort.node.api.log_reader import LogOptions, read_log

async def count(options):
    return sum([len(chunk) async for chunk in read_log(Path(sys.argv[1]), options, lambda: False)])

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = most()
wanted = (LogOptions(), LogOptions(tail=10**9), LogOptions(since="2027-01-01T00:00:00Z"))
print([asyncio.run(count(options)) for options in wanted], most() - before)
"""


@pytest.mark.parametrize("text", [b"x" * 99, b"x" * (30 << 20)], ids=["short", "long"])
def test_a_large_log_is_never_in_memory_as_a_whole(tmp_path: Path, text: bytes) -> None:
    """A container may write gigabytes before its log is set aside."""
    path, count = tmp_path / "0.log", (30 << 20) // len(text)
    path.write_bytes((b"2026-01-01T00:00:00Z stdout F " + text + b"\n") * count)
    found = subprocess.run([sys.executable, "-c", MEASURED, str(path)], check=True, capture_output=True, text=True)
    sizes, _, memory = found.stdout.rpartition(" ")
    assert sizes == str([(len(text) + 1) * count] * 2 + [0])
    assert int(memory) < 20 << 20


def test_a_line_that_is_longer_than_is_kept_together_is_one_line(tmp_path: Path) -> None:
    path, text = tmp_path / "0.log", b"x" * (3 * log_reader.LONGEST)
    path.write_bytes(b"2026-01-01T00:00:00Z stdout F " + text + b"\n2026-01-01T00:00:00Z stdout F last\n")
    assert read(path, LogOptions()) == text + b"\nlast\n"
    assert read(path, LogOptions(tail=1)) == b"last\n"
    assert read(path, LogOptions(tail=2, timestamps=True)).count(b"2026-") == 2


def test_a_log_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    """So it is for a moment while it is set aside; others must have their turn meanwhile."""
    path = tmp_path / "0.log"

    async def follow() -> bytes:
        running = [True]

        async def write_late() -> None:
            await asyncio.sleep(0.05)
            written(path, b"late\n")
            await asyncio.sleep(0.3)
            running.clear()

        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(write_late())
            return b"".join([chunk async for chunk in read_log(path, LogOptions(follow=True), lambda: bool(running))])

    assert asyncio.run(follow()) == b"late\n"
