"""Advice to the user: text, and commands of kohort that can be typed as they are.

A command stays data until it is printed: `allowed_commands` checks whether the state of the workload permits it before
it is recommended, and a test can run it. Only this module makes text of it.
"""

from enum import Enum

import msgspec


class Verb(Enum):
    APPROVE = "approve"
    ABORT = "abort"
    RESUME = "resume"
    UNDO = "undo"
    RESTART = "restart"
    RETRY = "retry"
    RESIZE = "resize"
    LOGS = "logs"
    FAILURES = "failures"
    ANALYSIS = "analysis"
    OVERRIDE = "approve --override"
    STATUS = "status -w"
    EXPLAIN = "explain"


class Command(msgspec.Struct, frozen=True):
    verb: Verb
    subject: str
    """As it is typed: `llm`, `deployment/web`."""
    namespace: str
    options: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """
        >>> Command(Verb.RESTART, "llm", "default", ("--group", "1")).text
        'kohort restart llm -n default --group 1'
        """
        place = ("-n", self.namespace) if self.namespace else ()
        return " ".join(("kohort", self.verb.value, self.subject, *place, *self.options))


class Advice(msgspec.Struct, frozen=True):
    template: str
    """Words, with {} for each command."""
    commands: tuple[Command, ...] = ()

    @property
    def text(self) -> str:
        """
        >>> Advice("wait, or: {}", (Command(Verb.ABORT, "llm", "default"),)).text
        'wait, or: kohort abort llm -n default'
        """
        first, *others = self.template.split("{}") if self.commands else [self.template]
        return first + "".join(one.text + rest for one, rest in zip(self.commands, others, strict=True))


def alternatives(words: str, offers: list[tuple[str, Command]]) -> Advice:
    """Text, then the commands that can be run instead, each with its own text.

    >>> alternatives("wait", [("or go back", Command(Verb.ABORT, "llm", "default"))]).text
    'wait; or go back: kohort abort llm -n default'
    """
    template = "; ".join(filter(None, [words, *(f"{each}: {{}}" for each, _ in offers)]))
    return Advice(template, tuple(command for _, command in offers))
