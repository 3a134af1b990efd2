"""A name that parts agree on by its spelling is spelled in one module: two spellings can come to differ unnoticed."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import kohort

SOURCE = Path(kohort.__file__).parent
KEY = re.compile(r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|kruise\.io|kohort\.dev)/(?!v\d)[A-Za-z][\w./-]*")
"""Labels, annotations and finalizers; not group versions, as in `apps.example.k8s.io/v1`."""
SERIES = re.compile(r"kohort_[a-z_]+")


def literals(path: Path) -> Iterator[str]:
    """Texts of a module that are not prose."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def homes(pattern: re.Pattern[str]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        place = str(path.relative_to(SOURCE))
        for text in literals(path):
            if pattern.fullmatch(text):
                found[text].add(place)
    return found


def test_a_label_or_annotation_is_spelled_in_one_module() -> None:
    found = homes(KEY)
    assert len(found) > 100
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_a_metric_is_spelled_in_one_module() -> None:
    found = homes(SERIES)
    assert len(found) > 20
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
