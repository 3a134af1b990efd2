"""What can go wrong with an expression: at compile time with a place in the text, at evaluation with a reason."""

from collections.abc import Sequence

import msgspec

MAX_REPORTED = 100


class CelError(Exception):
    """An evaluation that has no value: a missing key, an overflow, a division by zero.

    `&&`, `||`, `all` and `exists` absorb it when the rest of the expression decides the outcome.
    """


class NoOverload(CelError):
    """A call whose arguments fit no signature."""

    def __init__(self, message: str = "no such overload") -> None:
        super().__init__(message)


class BudgetExceeded(Exception):
    """The evaluation cost more than allowed. Not a `CelError`, because no operator may absorb it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Issue(msgspec.Struct, frozen=True):
    offset: int
    """Index of the character in the text, or -1 when the issue has no place."""
    message: str


class CompileError(Exception):
    """All that is wrong with an expression, in the display form that Kubernetes users see."""

    def __init__(self, source: str, issues: Sequence[Issue]) -> None:
        self.source = source
        self.issues = sorted(issues, key=lambda issue: issue.offset)
        super().__init__(self._display())

    def _display(self) -> str:
        shown = [_displayed(self.source, issue) for issue in self.issues[:MAX_REPORTED]]
        if len(self.issues) > MAX_REPORTED:
            shown.append(f"{len(self.issues) - MAX_REPORTED} more errors were truncated")
        return "\n".join(shown)


class InstantiationError(CompileError):
    """A well-typed expression that can never have a value, because a constant in it has none."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, ())
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def _displayed(source: str, issue: Issue) -> str:
    if issue.offset < 0:
        return f"ERROR: <input>:-1:0: {issue.message}"
    before = source[: issue.offset]
    number = before.count("\n") + 1
    column = issue.offset - (before.rfind("\n") + 1)
    line = source.split("\n")[number - 1].replace("\t", " ")
    return f"ERROR: <input>:{number}:{column + 1}: {issue.message}\n | {line}\n | {_pointer(line, column)}"


def _pointer(line: str, column: int) -> str:
    """Dots up to the place and a caret under it; both are full-width where the character above takes several bytes."""
    dots = "".join("．" if ord(char) > 127 else "." for char in line[:column])
    wide = column < len(line) and ord(line[column]) > 127
    return dots + ("＾" if wide else "^")
