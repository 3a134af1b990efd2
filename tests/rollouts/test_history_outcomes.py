"""How records of releases end: the table of `history`."""

import msgspec
import pytest
from tests.rollouts.observations import progress, rollout

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta
from kohort.rollouts.history import endings, last_writer
from kohort.rollouts.history_records import COMPLETED, RELEASED_BY, History, HistoryStatus
from kohort.rollouts.messages import ReleaseOutcome
from kohort.rollouts.release_state import State
from kohort.rollouts.rollout_types import Rollout, RolloutStatus
from kohort.rules import rollout_labels

SUPERSEDED = ReleaseOutcome.SUPERSEDED


def record(release: str, *, completed: bool = False) -> History:
    metadata = ObjectMeta(name=f"llm-{release}", labels={rollout_labels.ROLLOUT_ID: release})
    return History(metadata, HistoryStatus(phase=COMPLETED if completed else ""))


def at(phase: str, *, release: str = "2", succeeded: str = "", reason: str = "Completed", **more: str) -> Rollout:
    conditions = (Condition(type=rollout_labels.SUCCEEDED, status=succeeded, reason=reason),) if succeeded else ()
    found = progress(2, observed_rollout_id=release, **more)
    document = State(phase, "", conditions, found).document(1, blue_green=False)
    return msgspec.structs.replace(rollout(), status=msgspec.convert(document, RolloutStatus))


def outcomes(subject: Rollout, *records: History) -> list[tuple[str, ReleaseOutcome]]:
    return [(one.metadata.name, outcome) for one, outcome in endings(subject, records)]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (at("Progressing"), None),
        (at("Progressing", release="3"), ReleaseOutcome.SUPERSEDED),
        (at("Progressing", release="3", finalising_step="ResumeWorkload"), None),
        (at("Healthy", succeeded="True"), ReleaseOutcome.SUCCEEDED),
        (at("Healthy", succeeded="False"), ReleaseOutcome.ROLLED_BACK),
        (at("Healthy"), ReleaseOutcome.ROLLED_BACK),
        (at("Healthy", succeeded="False", reason="Disabled"), ReleaseOutcome.DISABLED),
        (at("Disabled", succeeded="False", reason="Disabled"), ReleaseOutcome.DISABLED),
        (at("Disabled", succeeded="True"), ReleaseOutcome.SUCCEEDED),
        (at("Initial"), ReleaseOutcome.DELETED),
        (at("Disabling"), None),
        (at("Terminating"), None),
    ],
)
def test_how_the_newest_record_ends(subject: Rollout, expected: ReleaseOutcome | None) -> None:
    assert outcomes(subject, record("2")) == ([] if expected is None else [("llm-2", expected)])


@pytest.mark.parametrize("phase", ["Progressing", "Healthy", "Initial", "Disabled", "Disabling"])
def test_older_open_records_were_superseded(phase: str) -> None:
    found = outcomes(at(phase), record("0", completed=True), record("1"), record("2"))
    assert found[0] == ("llm-1", SUPERSEDED)
    assert all(name != "llm-0" for name, _ in found)


def test_completed_records_stay_as_they_are() -> None:
    assert outcomes(at("Healthy", succeeded="True"), record("1", completed=True), record("2", completed=True)) == []


def managed(manager: str, time: str, *fields: str) -> JsonObject:
    return {"manager": manager, "time": time, "fieldsV1": {"f:spec": {field: {} for field in fields}}}


@pytest.mark.parametrize(
    ("fields", "writer"),
    [
        ([], ""),
        ([managed("kubectl", "1", "f:replicas")], ""),
        ([managed("kubectl", "1", "f:template")], "kubectl"),
        ([managed("a", "2", "f:template"), managed("b", "1", "f:template")], "a"),
        ([managed("a", "1", "f:leaderWorkerTemplate"), managed("b", "2", "f:replicas")], "a"),
        ([{"manager": "old", "time": "1"}], ""),
    ],
)
def test_who_wrote_the_template_last(fields: list[JsonObject], writer: str) -> None:
    assert last_writer({"metadata": {"managedFields": fields}}) == writer


def test_what_a_record_says_is_read_from_the_object_as_it_is_stored() -> None:
    document = {
        "metadata": {"labels": {rollout_labels.ROLLOUT_ID: "r-2"}, "annotations": {RELEASED_BY: "kubectl"}},
        "spec": {
            "rollout": {"rolloutID": "r-2", "data": {"outcome": "rolled_back"}},
            "workload": {"name": "web", "data": {"replicas": 3, "template": {"spec": {}}}},
        },
        "status": {"phase": COMPLETED, "canarySteps": [{"canaryStepIndex": 1, "pods": [{"name": "web-1"}]}]},
    }
    found = msgspec.convert(document, History)
    assert (found.release, found.released_by, found.outcome) == ("r-2", "kubectl", ReleaseOutcome.ROLLED_BACK)
    assert found.template == {"spec": {}}


def test_a_record_that_was_just_begun_has_neither_outcome_nor_template() -> None:
    found = msgspec.convert({"spec": {"rollout": {"rolloutID": "r-2", "name": "web"}, "workload": {}}}, History)
    assert (found.outcome, found.template) == ("", None)
