"""Pages and source name the component and the act. Words that hide both, and metaphors, are found here."""

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(path for path in (ROOT / "examples").glob("*.yaml") if path.name != "language-model.yaml"),
]
ANONYMOUS = ("nobody", "somebody", "anybody", "everybody", "whoever", "anyone", "everyone")
FIGURES_OF_SPEECH = ("door", "heir", "furniture", "curtain", "lament", "astray", "twin", "twins", "giant", "forgiven")
TALKING_PROGRAMS = ("told", "tells", "heard")
WORDS = re.compile(rf"\b({'|'.join((*ANONYMOUS, *FIGURES_OF_SPEECH, *TALKING_PROGRAMS))})\b", re.IGNORECASE)


def prose(text: str) -> str:
    """Without code: names of tests and of fields are not prose."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_written_in_plain_words(page: Path) -> None:
    assert WORDS.findall(prose(page.read_text())) == []


SOURCES = [
    path
    for ending in ("*.py", "*.txt")
    for path in sorted((ROOT / "src").rglob(ending))
    if path.name != "model_server.py"  # the text that the demo's model has learned
]
ANONYMOUS_IN_SOURCE = re.compile(r"\b(nobody|somebody|anybody|everybody|whoever)\b", re.IGNORECASE)


def test_the_source_names_who_acts() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ANONYMOUS_IN_SOURCE.search(line)
    ]
    assert len(SOURCES) > 900
    assert found == []


def test_such_words_are_found() -> None:
    assert WORDS.findall(prose("Nobody is told; `nobody` is code.\n```\nwhoever\n```\n")) == ["Nobody", "told"]
