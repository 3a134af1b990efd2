"""Types of option values, with their checks. For lists of `name=value`, BadOption names the wrong item."""

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from kohort.up.startup_errors import BadOption


class SomePath(click.Path):
    """A path that is not empty: what `--data-dir "$UNSET"` gives is not meant to be the current directory."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class WholeNumber(click.IntRange):
    """A whole number; what is not one is refused with the limits that hold."""

    name = "number"

    def convert(self, value: int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number: int = super().convert(value, param, ctx)
        except click.BadParameter:
            limits = f"of {self.min} or more" if self.max is None else f"from {self.min} to {self.max}"
            self.fail(f"{str(value)!r} is not a whole number {limits}", param, ctx)
        return number


class Seconds(click.FloatRange):
    """A time that can be waited for: neither `inf` nor `nan`."""

    name = "seconds"

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds: float = super().convert(value, param, ctx)
        except click.BadParameter:
            seconds = math.nan
        if not math.isfinite(seconds):
            self.fail(f"{str(value)!r} is not a number of seconds of {self.min or 0:g} or more", param, ctx)
        return seconds


def listed(text: str) -> list[str]:
    """The parts of `a, b,c`; what is empty does not count."""
    return [part for item in text.split(",") if (part := item.strip())]


def pairs(option: str, items: Iterable[str]) -> dict[str, str]:
    """`a=1` and `b=2` as a mapping."""
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise BadOption(f"{option}: {item!r} is not of the form name=value")
        found[name.strip()] = value.strip()
    return found


def amounts(option: str, given: Mapping[str, str]) -> dict[str, str]:
    """Resources and how much there is of each."""
    from kohort.objects.quantity import ZERO, Quantity

    _check_keys(option, given)
    for name, amount in given.items():
        try:
            fits = Quantity.parse(amount) >= ZERO
        except ValueError:
            fits = False
        if not fits:
            raise BadOption(f"{option}: {amount!r} is not an amount of {name}; write for example 8, 500m or 64Gi")
    return dict(given)


def labels(option: str, given: Mapping[str, str]) -> dict[str, str]:
    from kohort.objects.names import label_value

    _check_keys(option, given)
    for name, value in given.items():
        if problems := label_value(value):
            raise BadOption(f"{option}: {value!r} cannot be the value of {name}: {problems[0]}")
    return dict(given)


def blocks(option: str, given: Mapping[str, str]) -> dict[str, int]:
    """Labels, and into how many equal blocks each divides the nodes."""
    _check_keys(option, given)
    for label, count in given.items():
        if not count.isdecimal() or int(count) < 1:
            raise BadOption(f"{option}: {label} must be divided into a number of blocks, not {count!r}")
    return {label: int(count) for label, count in given.items()}


def _check_keys(option: str, given: Mapping[str, str]) -> None:
    from kohort.objects.names import qualified_name

    for name in given:
        if problems := qualified_name(name):
            raise BadOption(f"{option}: {name!r} is not a valid name: {problems[0]}")


def check_runtime_options(runtime: str, endpoint: str, share: bool, credentials: Path | None) -> None:
    """Raises BadOption for options that have no effect with this runtime, and for a file of credentials that cannot be
    used: every pull that needs it would fail."""
    given = {"--runtime-endpoint": endpoint, "--share-runtime": share, "--registry-credentials": credentials}
    if runtime in ("process", "simulated") and (unused := [name for name, value in given.items() if value]):
        raise BadOption(f"{', '.join(unused)}: only for container runtimes, not with --runtime {runtime}")
    if credentials is not None:
        from kohort.node.runtimes.cri.image_names import keys_of_file

        try:
            keys_of_file(credentials.read_bytes())
        except OSError as problem:
            raise BadOption(f"--registry-credentials: cannot read {credentials}: {problem.strerror}") from problem
        except ValueError as problem:
            message = f"--registry-credentials: {credentials} is not a file as docker login writes it: {problem}"
            raise BadOption(message) from problem


runtime_endpoint = click.option(
    "--runtime-endpoint",
    default="",
    metavar="unix://PATH",
    help="Socket of the container runtime.  [default: where containerd and CRI-O have it]",
)
share_runtime = click.option(
    "--share-runtime", is_flag=True, help="Use a container runtime in which other agents have pods; never a kubelet's."
)
registry_credentials = click.option(
    "--registry-credentials",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with credentials for registries, as docker login writes it.",
)
device_plugins = click.option(
    "--device-plugins",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    metavar="DIR",
    help="Where device plugins register; theirs is /var/lib/kubelet/device-plugins.  [default: nowhere]",
)
