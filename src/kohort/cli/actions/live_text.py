"""A text that changes: redrawn in place on a terminal, printed again elsewhere."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING

import click

from kohort.rules.terminal_text import with_visible_controls

if TYPE_CHECKING:
    from rich.live import Live


class Screen:
    def __init__(self, *, live: bool) -> None:
        """`live` has an effect only on a terminal."""
        self.live = live and sys.stdout.isatty()
        self._shown = ""
        self._view: Live | None = None

    def __enter__(self) -> "Screen":
        if self.live:
            from rich.live import Live

            self._view = Live(auto_refresh=False, vertical_overflow="ellipsis")
            self._view.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._view is not None:
            self._view.stop()

    def show(self, text: str) -> None:
        """What is shown already is not shown again."""
        text = with_visible_controls(text)
        if text == self._shown:
            return
        self._shown = text
        if self._view is None:
            click.echo(text)
            return
        from rich.text import Text

        self._view.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
