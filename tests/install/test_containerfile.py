"""The image keeps to what the Deployment demands of it. Nothing is built here: no registry, no base image."""

import re
from pathlib import Path

from kohort.install.operator_deployment import deployment
from kohort.install.options import InstallOptions

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "Containerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", " ", TEXT)
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def final_stage() -> list[tuple[str, str]]:
    found = instructions()
    last = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return found[last:]


def test_it_runs_as_the_user_of_the_deployment_and_not_as_root() -> None:
    (user,) = [rest for word, rest in final_stage() if word == "USER"]
    (container,) = deployment(InstallOptions())["spec"]["template"]["spec"]["containers"]
    number = container["securityContext"]["runAsUser"]
    assert user == f"{number}:{number}" != "0:0"


def test_nothing_is_built_or_fetched_in_the_final_stage() -> None:
    words = [word for word, _ in final_stage()]
    assert set(words) <= {"FROM", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert all(rest.startswith("--from=build ") for word, rest in final_stage() if word == "COPY")


def test_base_images_are_named_in_full_and_with_a_version() -> None:
    """One argument names it for all stages, so that a build can name a digest instead."""
    assert {rest.split()[0] for word, rest in instructions() if word == "FROM"} == {"${BASE}"}
    images = [rest.removeprefix("BASE=") for word, rest in instructions() if word == "ARG"]
    assert len(images) == 1
    for image in images:
        assert re.fullmatch(r"[a-z.]+/[a-z/]+:\d+\.\d+[\w.-]*", image), image


def test_what_is_copied_is_there() -> None:
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            assert [one for one in sources if not (ROOT / one).exists()] == []


def test_the_command_is_that_of_the_deployment() -> None:
    said = {word: rest for word, rest in final_stage() if word in ("ENTRYPOINT", "CMD")}
    (container,) = deployment(InstallOptions())["spec"]["template"]["spec"]["containers"]
    assert said["ENTRYPOINT"] == '["kohort"]'
    assert said["CMD"] == '["operator"]'
    assert container["command"] == ["kohort", "operator"]
    assert "PYTHONDONTWRITEBYTECODE=1" in TEXT, "its root is read-only"
