"""Messages whose numbers and nouns agree."""

import ast
from collections.abc import Iterator
from pathlib import Path

import kohort

SOURCE = Path(kohort.__file__).parent
PACKAGES = ("cli", "dashboard", "groups", "inspection", "install", "operator.py", "rollouts", "rules", "up")
NOUNS = {
    *("claims", "containers", "errors", "events", "failures", "files", "groups", "nodes", "objects", "pods"),
    *("replicas", "requests", "restarts", "revisions", "samples", "sets", "steps", "times", "writes"),
}
WORDS_OF_OTHERS = {
    ("groups/messages.py", "groups"): "an event of LeaderWorkerSet",
    ("rollouts/messages.py", "seconds"): "a message of Kruise Rollouts",
}
NEVER_ONE = {
    ("cli/actions/cluster_parts.py", "times"): "a constant, and once for one",
    ("groups/messages.py", "times"): "once for one",
    ("inspection/messages.py", "times"): "once for one",
    ("up/process_supervisor.py", "restarts"): "a constant",
    ("dashboard/pages/set.py", "nodes"): "the name of the node for one",
    ("dashboard/pages/set.py", "pods"): "only of more pods than a page shows",
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
