"""What a container writes is what a reader gets, byte for byte."""

import asyncio
from pathlib import Path

import pytest

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
