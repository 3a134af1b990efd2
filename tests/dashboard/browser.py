"""Chromium, driven by playwright, with what every page must fulfil."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.docs.pages import ROOT
from tools import browser

from kohort.dashboard.running import RunningDashboard
from kohort.objects.json_types import Json

FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PICTURES: Final = ROOT / "docs" / "assets" / "dashboard"
"""Pictures of the documentation; written when KOHORT_SCREENSHOTS is set."""
SHOTS: Final = os.environ.get("KOHORT_ALL_SCREENSHOTS", "")
"""A folder for pictures of every view, to be looked at."""
_ANSWERED: Final = "Failed to load resource: the server responded with a status of"
WIDE, PHONE = (1200, 760), (390, 800)


class Window:
    """A browser window with a session of its own."""

    def __init__(self, context: Json, page: Json, running: RunningDashboard) -> None:
        self.context = context
        self.page = page
        self.running = running
        self.base = f"http://127.0.0.1:{running.port}"
        self.problems: list[str] = []
        """Console errors, exceptions of scripts, answers that are errors, requests to other hosts."""
        page.on("console", lambda one: self._said(one.type, one.text))
        page.on("pageerror", lambda one: self._report("exception", str(one)))
        page.on("request", self._requested)
        page.on("response", self._answered)

    def _report(self, kind: str, text: str) -> None:
        self.problems.append(f"{kind}: {text}")

    def _said(self, kind: str, text: str) -> None:
        """Answers that are errors are reported as such, and the console names them at any later time."""
        if kind in ("error", "warning") and not text.startswith(_ANSWERED):
            self._report("console", text)

    def _requested(self, request: Json) -> None:
        if not request.url.startswith((f"{self.base}/", "data:")):
            self._report("request to another host", request.url)

    def _answered(self, response: Json) -> None:
        if response.status >= 400:
            self._report("answer", f"{response.status} {response.url}")

    def take_answers(self) -> list[str]:
        """Answers that are errors, and are meant to be: they are no problem any more."""
        found = [one for one in self.problems if one.startswith("answer: ")]
        self.problems = [one for one in self.problems if one not in found]
        return [one.removeprefix("answer: ").replace(self.base, "") for one in found]

    async def look(self, *, dark: bool, size: tuple[int, int]) -> None:
        await self.page.emulate_media(color_scheme="dark" if dark else "light")
        await self.page.set_viewport_size({"width": size[0], "height": size[1]})

    async def open(self, path: str) -> None:
        await self.page.goto(f"{self.base}{path}", wait_until="load")

    async def live(self) -> None:
        """Until the page is followed."""
        await self.page.wait_for_selector("#live[data-tone=ok]", timeout=10_000)

    async def violations(self) -> list[str]:
        """What axe-core finds, of serious or critical impact."""
        script = browser.axe()
        assert script is not None
        source = script.read_text()
        found = await self.page.evaluate(f"async () => {{ {source}; return (await axe.run()).violations; }}")
        return [
            f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    async def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        width: int = await self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return max(0, width)

    async def picture(self, name: str, height: int | None = None) -> None:
        """A picture for the documentation: what the window shows, or more of the page."""
        if height is not None:
            await self.page.set_viewport_size({"width": self.page.viewport_size["width"], "height": height})
        taken: bytes = await self.page.screenshot()
        assert taken.startswith(b"\x89PNG")
        if SHOTS:
            whole: bytes = await self.page.screenshot(full_page=True)
            _keep(name, whole)
        elif os.environ.get("KOHORT_SCREENSHOTS"):
            PICTURES.mkdir(parents=True, exist_ok=True)
            (PICTURES / f"{name}.png").write_bytes(taken)


def _keep(name: str, picture: bytes) -> None:
    Path(SHOTS).mkdir(parents=True, exist_ok=True)
    (Path(SHOTS) / f"{name}.png").write_bytes(picture)


@asynccontextmanager
async def window(of: RunningDashboard, *, dark: bool = False, size: tuple[int, int] = WIDE) -> AsyncIterator[Window]:
    """Opens the one-time link in a new browser."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=browser.chromium(), args=list(FLAGS))
        context = await chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        page = await context.new_page()
        made = Window(context, page, of)
        if of.link():
            await made.open(of.link())
        try:
            yield made
        finally:
            await chromium.close()
        assert made.problems == [], made.problems


def needs_browser() -> pytest.MarkDecorator:
    lacking = browser.missing()
    return pytest.mark.skipif(bool(lacking), reason=f"{lacking}: make test-browser installs it")
