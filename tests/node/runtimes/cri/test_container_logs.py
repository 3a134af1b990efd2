from pathlib import Path

import pytest

from kohort.node.runtimes.cri.container_logs import is_full, set_aside


def test_a_log_file_is_set_aside_and_older_ones_move_along(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    for number in range(8):
        path.write_text(str(number))
        with set_aside(path):
            path.write_text("")  # the runtime has opened the file anew
    found = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert found == {"0.log": "", "0.log.1": "7", "0.log.2": "6", "0.log.3": "5", "0.log.4": "4"}


def test_without_another_file_everything_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    for number in range(4, 0, -1):
        path.with_name(f"0.log.{number}").write_text(str(number))
    path.write_text("current")
    before = {each.name: each.read_text() for each in tmp_path.iterdir()}
    with set_aside(path):
        pass  # the runtime did not answer
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == before
    with pytest.raises(KeyError), set_aside(path):
        raise KeyError
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == before


def test_when_a_file_is_full(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    assert not is_full(path, 10)
    path.write_text("x" * 9)
    assert not is_full(path, 10)
    path.write_text("x" * 10)
    assert is_full(path, 10)
