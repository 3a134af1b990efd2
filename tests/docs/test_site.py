"""The site works without a network, in light and dark, and says which version it describes."""

import tomllib
from pathlib import Path

import pytest
import yaml
from tests.docs.pages import ROOT
from tools.site_hooks import external_requests, on_config, on_post_build

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def test_the_version_is_that_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    config = on_config({})
    assert config["site_name"] == f"kohort {version}"
    assert version in config["copyright"]


def test_readers_can_choose_between_light_and_dark_and_turn_pages() -> None:
    theme = CONFIG["theme"]
    assert [palette["scheme"] for palette in theme["palette"]] == ["default", "slate"]
    assert all(palette["toggle"]["name"] for palette in theme["palette"])
    assert "navigation.footer" in theme["features"]
    assert (ROOT / "docs" / theme["logo"]).exists()
    assert (ROOT / "docs" / theme["favicon"]).exists()


def test_no_setting_makes_pages_ask_other_hosts() -> None:
    """Fonts come from Google, and figures about a repository from GitHub, unless they are turned off."""
    assert CONFIG["theme"]["font"] is False
    assert "repo_url" not in CONFIG
    assert "mermaid" not in "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    for sheet in (ROOT / "docs").rglob("*.css"):
        assert external_requests(sheet.read_text()) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<a href="https://example.com">a link</a>', []),
        ('<link rel="canonical" href="https://example.com/x">', []),
        ('<img src="kohort.svg">', []),
        ('<script src="https://cdn.example.com/x.js"></script>', ["https://cdn.example.com/x.js"]),
        ("<img src='//cdn.example.com/x.png'>", ["//cdn.example.com/x.png"]),
        ('<link rel="stylesheet" href=https://fonts.example.com/css>', ["https://fonts.example.com/css"]),
        ("@font-face { src: url(https://fonts.example.com/a.woff) }", ["https://fonts.example.com/a.woff"]),
    ],
)
def test_what_counts_as_a_request_to_another_host(text: str, found: list[str]) -> None:
    assert external_requests(text) == found


def test_a_page_that_loads_something_from_elsewhere_fails_the_build(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<a href="https://example.com">x</a>')
    on_post_build({"site_dir": str(tmp_path)})
    page.write_text('<script src="https://example.com/x.js"></script>')
    with pytest.raises(SystemExit, match=r"page\.html: https://example\.com/x\.js"):
        on_post_build({"site_dir": str(tmp_path)})
