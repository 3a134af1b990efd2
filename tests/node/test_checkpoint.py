"""What was promised survives crashes and damaged files."""

from pathlib import Path

import msgspec
import pytest
from tests.node.resizing import sized

from kohort.node.checkpoint import Checkpoint, Corrupt
from kohort.objects.pods import ResourceRequirements
from kohort.rules.allocated_resources import Allocated, Desired, agrees


def held(text: str) -> Allocated:
    return Allocated.accepting(Desired.of(sized(c1=text).spec))


def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "a.json", Allocated).put("u1", held("100m"))
    assert Checkpoint(tmp_path / "a.json", Allocated).get("u1") == held("100m")


def test_w10_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "a.json", Allocated)
    checkpoint.put("u1", held("100m"))

    def full(kind: str, path: Path, content: str) -> None:
        raise OSError("no space left")

    checkpoint._observer = full
    with pytest.raises(OSError, match="no space"):
        checkpoint.put("u1", held("200m"))
    assert checkpoint.get("u1") == held("100m")


def test_a_damaged_file_gives_way_to_the_last_good_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    checkpoint = Checkpoint(path, Allocated)
    checkpoint.put("u1", held("100m"))
    checkpoint.put("u1", held("200m"))
    path.write_bytes(path.read_bytes()[:-9])
    again = Checkpoint(path, Allocated)
    assert again.get("u1") == held("100m") and again.recovered_from_previous


def test_when_both_are_damaged_nothing_is_guessed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    Checkpoint(path, Allocated).put("u1", held("100m"))
    document = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**document, "checksum": 1}))
    with pytest.raises(Corrupt, match="drain this node"):
        Checkpoint(path, Allocated)


def test_forgotten_pods_do_not_come_back(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "a.json", Allocated)
    checkpoint.put("u1", held("100m"))
    checkpoint.put("u2", held("100m"))
    checkpoint.drop({"u1"})
    assert Checkpoint(tmp_path / "a.json", Allocated).known() == ["u2"]


def test_w11_a_record_from_before_pod_level_resources_takes_the_spec_over() -> None:
    old = msgspec.json.decode(b'{"containers":{"c1":{"requests":{"cpu":"100m"}}}}', type=Allocated)
    pod = sized(pod="200m", c1="100m")
    assert agrees(Desired.of(pod.spec), old)
    assert old.completed(pod.spec).pod == ResourceRequirements({"cpu": "200m"}, {})
    assert old.applied_to(pod).spec.resources == pod.spec.resources
