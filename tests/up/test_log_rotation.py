"""The size bound of the log of a detached process."""

from pathlib import Path

import pytest

from kohort.up.log_rotation import LogBound, rotate, rotated_log

BOUND = LogBound(bytes=10)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "kohort.log"


def test_a_log_below_its_bound_is_left_alone(log: Path) -> None:
    log.write_text("123456789")
    assert not rotate(log, BOUND)
    assert log.read_text() == "123456789"
    assert not rotated_log(log).exists()


def test_a_log_at_its_bound_starts_anew_and_the_text_is_kept_once(log: Path) -> None:
    with log.open("a") as writer:
        for text in ("first text", "second text"):
            writer.write(text)
            writer.flush()
            assert rotate(log, BOUND)
            assert (log.read_text(), rotated_log(log).read_text()) == ("", text)


def test_the_copy_is_private(log: Path) -> None:
    log.write_text("1234567890")
    assert rotate(log, BOUND)
    assert rotated_log(log).stat().st_mode & 0o777 == 0o600


def test_a_log_is_kept_while_it_cannot_be_copied(log: Path) -> None:
    log.write_text("1234567890")
    rotated_log(log).mkdir()
    assert not rotate(log, BOUND)
    assert log.read_text() == "1234567890"


def test_a_process_without_a_log_has_nothing_to_rotate(log: Path) -> None:
    assert not rotate(log, BOUND)
