"""Every problem that a check can find has words, and advice or commands."""

import enum
from collections.abc import Iterator
from itertools import product

import msgspec
import pytest

from kohort.inspection import problems
from kohort.inspection.advice import Command, Verb
from kohort.inspection.messages import CREATION_PROBLEMS, WAITING_PROBLEMS, problem_advice, problem_text
from kohort.inspection.problems import ContainerExit, Problem

LOGS = Command(Verb.LOGS, "llm", "default", ("--pod", "llm-0"))
REASONS = {
    problems.ContainerNotCreated: tuple(CREATION_PROBLEMS),
    problems.ReportedWaiting: tuple(WAITING_PROBLEMS),
}
OFFERED = {
    problems.RolloutPaused,
    problems.StepWaitsForApproval,
    problems.StoppedByAnalysis,
    problems.HeldByPartition,
    problems.HeldWorkload,
    problems.ResizePending,
    problems.ResizeFails,
}
"""Their advice is a command that the state of the workload must permit, or it depends on what is around the pod."""


def values(owner: type[Problem], field: msgspec.structs.FieldInfo) -> tuple[object, ...]:
    """Some for a field; all for a choice."""
    if field.name == "reason" and owner in REASONS:
        return REASONS[owner]
    if isinstance(field.type, type) and issubclass(field.type, enum.Enum):
        return tuple(field.type)
    known: dict[object, tuple[object, ...]] = {
        str: ("word",),
        int: (3,),
        bool: (True, False),
        Command: (LOGS,),
        ContainerExit: (ContainerExit(1, "OOMKilled", "end"),),
        tuple[str, ...]: (("word",),),
        tuple[int, ...]: ((3,), (3, 4)),
        int | None: (3, None),
        ContainerExit | None: (ContainerExit(1, "", ""), None),
    }
    return known[field.type]


def instances() -> Iterator[Problem]:
    for one in Problem.__subclasses__():
        fields = msgspec.structs.fields(one)
        for chosen in product(*(values(one, field) for field in fields)):
            yield one(**{field.name: value for field, value in zip(fields, chosen, strict=True)})


@pytest.mark.parametrize("problem", list(instances()), ids=repr)
def test_a_problem_has_words_and_advice(problem: Problem) -> None:
    text, advice = problem_text(problem), problem_advice(problem)
    assert text and "None" not in text
    assert advice.text or type(problem) in OFFERED
    assert "{}" not in advice.text
