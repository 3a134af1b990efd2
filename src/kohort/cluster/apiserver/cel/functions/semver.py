"""Semantic versions."""

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.values import Extension

_LIMIT = 2**64


class Version(Extension):
    __slots__ = ("numbers", "release")
    type_name = "kubernetes.Semver"

    def __init__(self, numbers: tuple[int, int, int], release: tuple[str, ...]) -> None:
        self.numbers = numbers
        self.release = release
        """The parts after the dash; a version that has them comes before the one that does not."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and compare(self, other) == 0

    def __hash__(self) -> int:
        return hash((self.numbers, self.release))


def _parsed(text: str, normalize: bool) -> Version:
    text = _normalized(text) if normalize else text
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    patch, plus, build = parts[2].partition("+")
    patch, dash, release = patch.partition("-")
    numbers = (_number("Major", parts[0]), _number("Minor", parts[1]), _number("Patch", patch))
    release_parts = tuple(release.split(".")) if dash else ()
    for part in release_parts:
        _check_release(part)
    for part in build.split(".") if plus else ():
        if not part:
            raise ValueError("Build meta data is empty")
        if not _is_plain(part):
            raise ValueError(f'Invalid character(s) found in build meta data "{part}"')
    return Version(numbers, release_parts)


def _number(what: str, text: str) -> int:
    if not all(char in "0123456789" for char in text):
        raise ValueError(f'Invalid character(s) found in {what.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'{what} number must not contain leading zeroes "{text}"')
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if int(text) >= _LIMIT:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _check_release(part: str) -> None:
    if not part:
        raise ValueError("Prerelease is empty")
    if part.isascii() and part.isdigit():
        if len(part) > 1 and part[0] == "0":
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{part}"')
    elif not _is_plain(part):
        raise ValueError(f'Invalid character(s) found in prerelease "{part}"')


def _is_plain(part: str) -> bool:
    return part.isascii() and part.replace("-", "a").isalnum()


def _normalized(text: str) -> str:
    """Without a leading v, with three numbers, without leading zeros."""
    text = text.removeprefix("v")
    core, mark, rest = text.partition(next((char for char in text if char in "+-"), "\0"))
    parts = core.split(".", 2)
    if len(parts) > 1 or core:
        parts = [part.lstrip("0") or ("0" if part else part) for part in parts]
    if len(parts) < 3 and mark:
        raise ValueError("Short version cannot contain PreRelease/Build meta data")
    parts += ["0"] * (3 - len(parts))
    return ".".join(parts) + mark + rest


def to_version(text: str, normalize: bool = False) -> Version:
    try:
        return _parsed(text, normalize)
    except ValueError as error:
        raise CelError(str(error)) from None


def is_version(text: str, normalize: bool = False) -> bool:
    try:
        _parsed(text, normalize)
    except ValueError:
        return False
    return True


def compare(one: Version, two: Version) -> int:
    if one.numbers != two.numbers:
        return 1 if one.numbers > two.numbers else -1
    if not one.release or not two.release:
        return bool(two.release) - bool(one.release)
    for left, right in zip(one.release, two.release, strict=False):
        if left != right:
            return _compare_parts(left, right)
    return (len(one.release) > len(two.release)) - (len(one.release) < len(two.release))


def _compare_parts(left: str, right: str) -> int:
    """Numbers come before words."""
    if left.isdigit() and right.isdigit():
        return 1 if int(left) > int(right) else -1
    if left.isdigit() != right.isdigit():
        return -1 if left.isdigit() else 1
    return 1 if left > right else -1


LIBRARY = Library(
    (
        Function("semver(string): semver", to_version),
        Function("semver(string, bool): semver", to_version),
        Function("isSemver(string): bool", is_version),
        Function("isSemver(string, bool): bool", is_version),
        Function("semver::isGreaterThan(semver): bool", lambda one, two: compare(one, two) > 0),
        Function("semver::isLessThan(semver): bool", lambda one, two: compare(one, two) < 0),
        Function("semver::compareTo(semver): int", compare),
        Function("semver::major(): int", lambda version: version.numbers[0]),
        Function("semver::minor(): int", lambda version: version.numbers[1]),
        Function("semver::patch(): int", lambda version: version.numbers[2]),
    ),
    {"semver": "kubernetes.Semver"},
)
