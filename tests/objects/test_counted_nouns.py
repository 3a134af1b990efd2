"""Messages whose numbers and nouns agree."""

import ast
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import kohort
import kohort.groups.messages
import kohort.inspection.failure_messages
import kohort.inspection.messages
import kohort.node.pod_sandbox
import kohort.rollouts.messages
from kohort.inspection import problems

SOURCE = Path(kohort.__file__).parent
PACKAGES = (
    *("cli", "dashboard", "demo", "groups", "inspection", "install", "node", "operator.py", "rollouts", "rules", "up"),
)
NOUNS = {
    *("claims", "containers", "errors", "events", "failures", "files", "groups", "nodes", "objects", "pods"),
    *("replicas", "requests", "restarts", "revisions", "samples", "sets", "steps", "times", "writes"),
    *("matches", "processes", "versions", "workers"),
}
WORDS_OF_OTHERS = {
    ("groups/messages.py", "groups"): "an event of LeaderWorkerSet",
    ("rollouts/messages.py", "seconds"): "a message of Kruise Rollouts",
}
NEVER_ONE = {
    ("cli/actions/cluster_parts.py", "times"): "a constant",
    ("demo/chapters.py", "groups"): "a constant",
    ("demo/chapters.py", "processes"): "those of several groups",
    ("node/runtimes/cri/discovery.py", "pods"): "the name of the pod for one",
    ("rollouts/traffic/ingress.py", "matches"): "only of more than one",
    ("rollouts/workloads/update_admission.py", "versions"): "only of more than one",
    ("up/process_supervisor.py", "restarts"): "a constant",
    ("dashboard/pages/set.py", "nodes"): "the name of the node for one",
    ("dashboard/pages/set.py", "pods"): "only of more pods than a page shows",
    ("dashboard/pages/fleet.py", "matches"): "a verb",
    ("dashboard/pages/fleet.py", "pods"): "a case of its own for one",
}


def modules() -> Iterator[Path]:
    for name in PACKAGES:
        path = SOURCE / name
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def counted_by_hand(tree: ast.AST) -> Iterator[str]:
    """Nouns in the plural right behind a number that is filled in, unless it is a ratio such as 1/2."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        parts = ["{}" if isinstance(part, ast.FormattedValue) else _text(part) for part in node.values]
        for position in range(1, len(parts)):
            words = parts[position].split()
            ratio = position > 1 and parts[position - 2].endswith("/")
            if parts[position - 1] == "{}" and parts[position].startswith(" ") and words and not ratio:
                noun = words[1] if words[0] in ("more", "other") and len(words) > 1 else words[0]
                if noun.strip(",.;:()") in NOUNS:
                    yield noun.strip(",.;:()")


def _text(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""


def test_nouns_behind_numbers_are_made_by_one_function() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), noun)
        for path in modules()
        for noun in counted_by_hand(ast.parse(path.read_text()))
    }
    assert found - set(WORDS_OF_OTHERS) - set(NEVER_ONE) == set(), "use kohort.objects.counted_nouns"


def test_the_search_finds_what_it_looks_for() -> None:
    text = 'f"{n} pods", f"{a}/{b} pods", f"{a} of {b} groups", f"{n} more pods", f"{name} releases it", f"{n} s"'
    assert sorted(counted_by_hand(ast.parse(text))) == ["groups", "pods", "pods"]


class CannotBuild(Exception):
    """A type that no example can be made of."""


def example(kind: object, count: int) -> object:
    """A value of a type, in which every number is `count`, and every list has so many entries."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if type(None) in arguments else example(arguments[0], count)
    if origin is tuple:
        return tuple(example(arguments[0], count) for _ in range(count))
    if origin is not None and issubclass(origin, list | typing.Sequence):
        return [example(arguments[0], count) for _ in range(count)]
    if not isinstance(kind, type):
        raise CannotBuild(kind)
    if kind is bool:
        return False
    if kind in (int, float):
        return count
    if kind is str:
        return "text"
    if issubclass(kind, enum.Enum):
        return next(iter(kind))
    if issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return kind(**{field.name: example(field.type, count) for field in fields})
    raise CannotBuild(kind)


_MANY = "|".join(sorted(NOUNS))
_ONE = "|".join(sorted(noun.removesuffix("s") for noun in NOUNS - {"matches", "processes"}))
DISAGREEING = re.compile(rf"(?<![/\d.])\b(1 (?:more )?(?:{_MANY})|[02-9] (?:more )?(?:{_ONE}))\b")
MODULES = (
    kohort.groups.messages,
    kohort.rollouts.messages,
    kohort.inspection.messages,
    kohort.inspection.failure_messages,
)


def functions_of_counts() -> Iterator[tuple[str, Callable[..., object], dict[str, object]]]:
    """Functions that make text, and take numbers or something with numbers in it."""
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                hints = typing.get_type_hints(function)
                hints.pop("return", None)
                yield f"{module.__name__.removeprefix('kohort.')}.{name}", function, hints
    yield (
        "node.pod_sandbox.sandbox_backoff_message",
        kohort.node.pod_sandbox.sandbox_backoff_message,
        {
            "times": int,
            "image": str,
        },
    )


def texts(count: int) -> Iterator[tuple[str, str]]:
    """What each function says of so many things."""
    for name, function, hints in functions_of_counts():
        if name == "groups.messages.groups_ready":
            continue  # words of LeaderWorkerSet
        try:
            given = {parameter: example(kind, count) for parameter, kind in hints.items()}
            yield name, str(function(**given))
        except (CannotBuild, TypeError, ValueError, AttributeError, IndexError, AssertionError):
            continue
    for name, kind in inspect.getmembers(problems, inspect.isclass):
        if issubclass(kind, msgspec.Struct) and kind.__module__ == problems.__name__:
            try:
                yield name, kohort.inspection.messages.problem_text(typing.cast(problems.Problem, example(kind, count)))
            except (CannotBuild, TypeError, ValueError, AttributeError, IndexError, AssertionError):
                continue


@pytest.mark.parametrize("count", [0, 1, 2])
def test_numbers_in_messages_agree(count: int) -> None:
    said = dict(texts(count))
    assert len(said) > 60
    assert {name: text for name, text in said.items() if DISAGREEING.search(text)} == {}


def test_disagreeing_numbers_are_found() -> None:
    wrong = ("has 1 groups", "2 group left", "0 pod", "1 of 1 workers", "1 more pods", "ended 1 times")
    right = ("1 group", "0/1 groups ready", "2 groups", "1 of 4 groups", "0 more pods", "11 groups", "step 1 of 3")
    assert [text for text in wrong if not DISAGREEING.search(text)] == []
    assert [text for text in right if DISAGREEING.search(text)] == []
