"""Feature gates in flags: `Name=true,Name=false`. Each part of kohort defines its own names."""

from collections.abc import Iterable, Mapping


def parse(text: str) -> dict[str, bool]:
    """Read a flag; ValueError names an entry that is not `Name=true` or `Name=false`.

    >>> parse("A=true, B=False,")
    {'A': True, 'B': False}
    """
    found: dict[str, bool] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, value = part.partition("=")
        if value.lower() not in ("true", "false"):
            raise ValueError(f"feature gate {part!r} is not of the form Name=true or Name=false")
        found[name.strip()] = value.lower() == "true"
    return found


def check_known(gates: Iterable[str], known: Iterable[str]) -> None:
    """ValueError names a gate that does not exist."""
    for name in sorted(set(gates) - set(known)):
        raise ValueError(f"unknown feature gate {name!r}; known are {', '.join(known)}")


def with_needs(
    chosen: Mapping[str, bool], needs: Mapping[str, tuple[str, ...]], defaults: Mapping[str, bool]
) -> dict[str, bool]:
    """A gate is off when a gate that it needs is off; ValueError if it was switched on explicitly.

    >>> with_needs({"A": False}, {"B": ("A",)}, {"A": True, "B": True})
    {'A': False, 'B': False}
    """
    found = dict(chosen)
    for name, needed in needs.items():
        missing = [one for one in needed if not found.get(one, defaults[one])]
        if missing and found.get(name):
            raise ValueError(f"{name} needs {' and '.join(missing)}")
        if missing:
            found[name] = False
    return found
