"""A view: what one path shows, as data and as sections of HTML.

Sections are what live updates are made of: a section whose HTML has changed is sent again, under its id. A long
section may name parts, such as the rows of a table: while the rest of it stays the same, only parts that changed are
sent.
"""

import msgspec

from kohort.dashboard.html import Html
from kohort.kube.resources import Key


class SectionPart(msgspec.Struct, frozen=True):
    id: str
    html: Html


class Section(msgspec.Struct, frozen=True):
    id: str
    html: Html
    """An element with this id, its parts included."""
    parts: tuple[SectionPart, ...] = ()
    """In the order in which they are in `html`."""

    @property
    def frame(self) -> str:
        """What `html` has besides its parts, and which parts those are.

        >>> parts = (SectionPart("a", Html("<i>1</i>")), SectionPart("b", Html("<i>2</i>")))
        >>> Section("all", Html("<p>two: <i>1</i> <i>2</i></p>"), parts).frame
        '<p>two: <a> <b></p>'
        """
        found, end = [], 0
        for part in self.parts:
            start = self.html.index(part.html, end)
            found += [self.html[end:start], f"<{part.id}>"]
            end = start + len(part.html)
        return "".join((*found, self.html[end:]))


class View(msgspec.Struct, frozen=True):
    title: str
    place: str
    """Which entry of the navigation it belongs to."""
    model: msgspec.Struct
    sections: tuple[Section, ...]
    about: frozenset[Key] = frozenset()
    """The sets that it shows; empty for all of them."""
    unseen: frozenset[str] = frozenset()
    """Namespaces whose changes are not to be noticed, if it shows all sets: the user may see nothing of them."""
    refreshes: bool = True
    """Whether it changes with the cluster."""


class NoSuchPage(Exception):
    """The message says what does not exist, or may not be seen: a user who may not see a set cannot tell which."""


class NoSuchWorkload(NoSuchPage):
    """Nor any page below it."""


class BadParameter(Exception):
    """The message names the parameter, what was given and what is allowed."""
