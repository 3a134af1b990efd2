"""Documentation is executable: every command of README, CONTRIBUTING, tutorial and how-to pages is run."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.docs.pages import ROOT, Sandbox, blocks, commands_outside_sh_blocks, kohort_commands_in_text, script

DOCS = ROOT / "docs"
TOP = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
NEEDS_CONTAINERS = {"containers.md", "images.md"}
"""Followed in tests/containers/test_how_to.py and tests/image/test_how_to.py."""
HOW_TO = sorted(page.name for page in (DOCS / "how-to").glob("*.md") if page.name not in NEEDS_CONTAINERS)
BEFORE = "kohort up --simulated-nodes 8 --detach\nexport KUBECONFIG=~/.local/share/kohort/kubeconfig\n"


def follow(sandbox: Sandbox, text: str) -> str:
    result = sandbox.run(text)
    assert result.returncode == 0, f"{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
    return result.stdout


@pytest.mark.e2e
def test_the_tutorial(sandbox: Sandbox) -> None:
    out = follow(sandbox, script(blocks(DOCS / "tutorial.md")))
    for words in (
        "LeaderWorkerSet llm would be created.",
        "default/llm  Available  2/2 groups ready, 2 up to date, revision 1 (",
        "LeaderWorkerSet llm would be rolled",
        "2 groups recreated (8 pods); never fewer than 2 groups ready.",
        "Insufficient cpu",
        "llm returns to revision 2",
        "Everything is as wanted.",
        "stopped (pid",
    ):
        assert words in out


@pytest.mark.e2e
def test_the_readme(sandbox: Sandbox) -> None:
    out = follow(sandbox, script(blocks(ROOT / "README.md")))
    assert "2/2 groups ready" in out
    assert "stopped (pid" in out


@pytest.mark.e2e
def test_the_commands_for_developers(sandbox: Sandbox) -> None:
    follow(sandbox, script(blocks(ROOT / "CONTRIBUTING.md")))


def test_targets_in_the_text_exist() -> None:
    """`make site` and others, in the running text and in tables."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (page.name, target)
        for page in [*TOP, *DOCS.rglob("*.md")]
        for words in re.findall(r"`make ([a-z -]+?)`", page.read_text())
        for target in words.split()
    }
    assert len(named) > 10
    assert sorted(one for one in named if one[1] not in targets) == []


@pytest.mark.e2e
@pytest.mark.parametrize("name", HOW_TO)
def test_how_to(name: str, sandbox: Sandbox) -> None:
    commands = blocks(DOCS / "how-to" / name)
    assert commands, "a how-to shows how"
    follow(sandbox, script([BEFORE, *commands]))


PAGES = [
    ("running.md", "", "stopped (pid"),
    ("simulated-nodes.md", "", "sim-99"),
    ("resize.md", BEFORE, '"memory":"96Mi"'),
    ("node.md", "", "Linux"),
    ("traffic.md", "", '"tiny-v1"'),
]
"""Page, commands to run before it, and a text in its output."""


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "before", "seen"), PAGES)
def test_a_page_about_one_thing(name: str, before: str, seen: str, sandbox: Sandbox) -> None:
    """Pages with real processes need the programs that they name."""
    if name == "traffic.md" and shutil.which("curl") is None:
        pytest.skip("needs curl")
    out = follow(sandbox, script([before, *blocks(DOCS / name)]))
    assert seen in out


ELSEWHERE = {"install.md": "tests/kubernetes/test_install.py"}
"""Pages whose commands need a Kubernetes cluster, and the tests that run them."""
FOLLOWED = {"tutorial.md", *(name for name, _, _ in PAGES)}


def test_every_command_is_run_by_a_test() -> None:
    """No page has commands that no test runs, and none hides them in blocks that are not commands."""
    pages = [page for page in DOCS.rglob("*.md") if page.parent.name != "how-to"]
    assert {page.name for page in pages if blocks(page)} == FOLLOWED | set(ELSEWHERE)
    assert all((ROOT / test).exists() for test in ELSEWHERE.values())
    found = {page.name: commands_outside_sh_blocks(page) for page in [*TOP, *DOCS.rglob("*.md")]}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_commands_in_the_text_exist() -> None:
    """Their names and options, at least."""
    import click

    from kohort.cli.main import main

    context = click.Context(main)
    wrong = []
    for page in [*TOP, *DOCS.rglob("*.md")]:
        for text in kohort_commands_in_text(page):
            _, name, *words = text.split()
            command = main.get_command(context, name) if name.isalpha() and name.islower() else None
            known = {option for one in (command.params if command else ()) for option in one.opts + one.secondary_opts}
            options = {word.split("=")[0].rstrip(",.;") for word in words if word.startswith("-")} - {"--help", "-"}
            if name.isalpha() and name.islower() and (command is None or not options <= known):
                wrong.append(f"{page.name}: {text}")
    assert wrong == []


def test_exit_codes_are_checked(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, "kubectl")
    assert sandbox.run(script(["false  # exit 1", "true"])).returncode == 0
    assert sandbox.run(script(["true  # exit 1"])).returncode == 1
    assert sandbox.run(script(["false", "true"])).returncode == 1


def anchors(page: Path) -> set[str]:
    """Where links into a page may lead: its headings as mkdocs and GitHub name them, and explicit anchors."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("page", [*TOP, ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text())
    wrong = []
    for path, anchor in targets:
        if "://" in path:
            continue
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(f"{path}#{anchor}")
    assert wrong == []


def test_the_map_of_the_code_shows_every_folder() -> None:
    """Two levels deep, and the folders of the API server."""
    page = (DOCS / "architecture.md").read_text()
    source = ROOT / "src" / "kohort"
    folders = [init.parent.relative_to(source) for init in source.rglob("__init__.py")]
    wanted = [one for one in folders if 0 < len(one.parts) <= 2 or one.parent.name == "apiserver"]
    assert len(wanted) > 30
    assert [str(one) for one in wanted if f"`{one}`" not in page and f"`{one.name}`" not in page] == []


def test_what_is_made_from_code_is_in_step_with_it() -> None:
    from tools.reference.__main__ import FILES

    outdated = [name for name, text in FILES.items() if (ROOT / name).read_text() != text()]
    assert outdated == [], "run: make reference"


@pytest.mark.parametrize(("page", "least"), [("api.md", 250), ("metrics.md", 70)])
def test_every_entry_of_a_reference_has_an_address_of_its_own(page: str, least: int) -> None:
    text = (DOCS / "reference" / page).read_text()
    rows = [line for line in text.splitlines() if re.match(r"\| .*`", line)]
    found = re.findall(r'<a id="([^"]+)"', text)
    assert len(rows) > least
    assert [row for row in rows if not re.match(r'\| <a id="[\w.-]+"></a>`', row)] == []
    assert len(found) == len(set(found))


def test_names_of_fields_in_the_reference_are_short_enough_for_a_column() -> None:
    """A path such as `spec.leaderWorkerTemplate.size` is split: the heading names the object, the table the field."""
    names = re.findall(r"^\| <a [^>]+></a>`([^`]+)`", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE)
    assert [name for name in names if "." in name or len(name) > 40] == []


def test_every_field_of_our_kinds_is_explained() -> None:
    from tools.reference.api import definitions, fields

    kinds = {one["spec"]["names"]["kind"]: dict(fields(one)) for one in definitions()}
    assert sum(map(len, kinds.values())) > 200
    silent = [
        f"{kind} {path}"
        for kind, found in kinds.items()
        for path, field in found.items()
        if not field.get("description")
    ]
    assert silent == []


def test_every_meaning_is_that_of_a_field() -> None:
    from tools.reference.api import definitions, fields

    from kohort.groups.field_descriptions import MEANINGS
    from kohort.rollouts import field_descriptions
    from kohort.rollouts.analysis import crd as analysis
    from kohort.rollouts.crd import definitions as releases

    rollout, release, routing, history, *judging = releases({"url": "https://converter.example"})
    (groups, *_) = definitions()
    for definition, table in (
        (groups, MEANINGS),
        (rollout, field_descriptions.ROLLOUT),
        (release, field_descriptions.RELEASE),
        (routing, field_descriptions.ROUTING),
        (history, field_descriptions.HISTORY),
    ):
        paths = {"." + path.replace("[]", "") for path, _ in fields(definition)} | {".spec", ".status"}
        unused = [key for key in table if not any(path.endswith(f".{key}") for path in paths)]
        assert unused == []
    both = {"." + path.replace("[]", "") for one in judging for path, _ in fields(one)}
    assert [key for key in analysis.MEANINGS if not any(path.endswith(f".{key}") for path in both)] == []


def test_every_dependency_has_its_reasons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = [
        *project["project"]["dependencies"],
        *(one for group in project["dependency-groups"].values() for one in group if isinstance(one, str)),
    ]
    names = {re.split(r"[ <>=!~;\[]", one)[0].lower() for one in listed}
    page = (DOCS / "dependencies.md").read_text()
    explained = {name.lower() for name in re.findall(r"^\| ([\w-]+) \|", page, re.MULTILINE)} - {"library"}
    assert names == explained


def halves() -> dict[str, list[str]]:
    """The pages of each top-level entry of the contents."""

    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()
        return [page for value in values for page in pages(value)]

    contents = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    return {name: pages(entry) for half in contents for name, entry in half.items()}


def test_every_page_is_in_one_half_of_the_contents() -> None:
    found = halves()
    assert list(found) == ["Use kohort", "Develop kohort"]
    assert sorted(page for half in found.values() for page in half) == sorted(
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")
    )


@pytest.mark.parametrize("name", halves()["Use kohort"])
def test_pages_for_users_name_no_tests_and_no_source_files(name: str) -> None:
    """Tests belong on the page about traceability, source files on that about architecture."""
    text = (DOCS / name).read_text()
    assert re.findall(r"`(?:tests/\S+|test_\w+\S*|src/\S+|[\w/]+\.py)`", text) == []


PLANNED = ("published image", "judged by metrics", "restart", "CRI", "in place", "dashboard")


def test_what_is_planned_is_said_to_be_missing() -> None:
    page = (DOCS / "stability.md").read_text().split("## Planned, not there yet", 1)[1]
    assert [words for words in PLANNED if words not in page] == []


@pytest.mark.parametrize("page", ["docs/troubleshooting.md"])
def test_every_class_of_cause_is_in_the_troubleshooting(page: str) -> None:
    from kohort.inspection.cause import ORDER

    text = (ROOT / page).read_text()
    assert [kind for kind in ORDER if f"`[{kind}]`" not in text] == []


def test_exit_codes_are_documented() -> None:
    from kohort.cli import connection

    text = (ROOT / "docs/reference/commands.md").read_text()
    codes = {connection.REFUSED, connection.NOT_YET, connection.DIFFERENT, connection.PAUSED, connection.TOO_LATE}
    assert codes | {0, 2, 130} == set(connection.EXIT_CODES)
    assert [code for code, words in connection.EXIT_CODES.items() if f"| {code} | {words} |" not in text] == []


@pytest.mark.parametrize(
    ("command", "pages"),
    [("up", ("running.md", "simulated-nodes.md")), ("install", ("install.md",)), ("node", ("node.md",))],
)
def test_every_option_of_what_runs_for_long_is_on_its_page(command: str, pages: tuple[str, ...]) -> None:
    import click

    from kohort.cli.main import main

    found = main.get_command(click.Context(main), command)
    assert found is not None
    text = "".join((DOCS / page).read_text() for page in pages)
    options = [one for one in found.params if isinstance(one, click.Option) and not one.hidden]
    assert len(options) > 5
    assert [one.opts[0] for one in options if not any(word in text for word in one.opts + one.secondary_opts)] == []
