"""Complete names of images, and which credentials fit them. Pure.

| written                  | complete                                  |
|--------------------------|-------------------------------------------|
| `nginx`                  | `docker.io/library/nginx:latest`          |
| `team/app:1`             | `docker.io/team/app:1`                    |
| `localhost/app`          | `localhost/app:latest`                    |
| `10.0.0.1:5000/a/b@sha…` | as it is                                  |

Runtimes complete short names each in their own way; the agent does it before, so that looking up, credentials and
status agree.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.objects import well_known_names

DEFAULT_REGISTRY: Final = "docker.io"
_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
LONGEST_NAME: Final = 255
LONGEST_REFERENCE: Final = 1024
"""With tag and digest; the longest digest in use has 135 characters."""


class InvalidImageName(ValueError):
    """A text that names no image."""


class ImageName(msgspec.Struct, frozen=True):
    repository: str
    """With the registry."""
    tag: str = ""
    digest: str = ""

    @property
    def registry(self) -> str:
        return self.repository.partition("/")[0]

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return self.repository + tag + (f"@{self.digest}" if self.digest else "")


def image_name(text: str) -> ImageName:
    """Raises InvalidImageName."""
    if len(text) > LONGEST_REFERENCE:
        raise InvalidImageName(f"the name of an image has {len(text)} characters; {LONGEST_NAME} are permitted")
    match = _NAME.fullmatch(text)
    if match is None:
        raise InvalidImageName(f'"{text}" is not the name of an image: NAME[:TAG][@DIGEST], the name in lower case')
    name, tag, digest = match["name"], match["tag"] or "", match["digest"] or ""
    first, slash, rest = name.partition("/")
    if not slash:
        name = f"{DEFAULT_REGISTRY}/library/{name}"
    elif "." not in first and ":" not in first and first != "localhost" and first.lower() == first:
        name = f"{DEFAULT_REGISTRY}/{name}"
    elif first == f"index.{DEFAULT_REGISTRY}":
        name = f"{DEFAULT_REGISTRY}/{rest}"
    if name.startswith(f"{DEFAULT_REGISTRY}/") and name.count("/") == 1:
        name = name.replace("/", "/library/")
    if len(name) > LONGEST_NAME:
        raise InvalidImageName(f"the name of an image has {len(name)} characters; {LONGEST_NAME} are permitted")
    return ImageName(name, tag if tag or digest else "latest", digest)


class Credentials(msgspec.Struct, frozen=True):
    username: str = ""
    password: str = ""
    identity_token: str = ""


class _Entry(msgspec.Struct, rename="lower"):
    username: str = ""
    password: str = ""
    auth: str = ""
    identity_token: str = ""


class _DockerConfig(msgspec.Struct):
    auths: dict[str, _Entry] = {}


Keys = tuple[tuple[str, Credentials], ...]
"""Where credentials fit: host, or host and beginning of the repository; and the credentials."""


def keys_of_secret(kind: str, data: Mapping[str, bytes]) -> Keys:
    """The credentials in a pull secret; none in one of another type. Raises ValueError if it cannot be read."""
    if kind == well_known_names.DOCKER_CONFIG_JSON or ".dockerconfigjson" in data:
        return keys_of_file(data.get(".dockerconfigjson", b"{}"))
    if kind == well_known_names.DOCKER_CONFIG or ".dockercfg" in data:
        entries = msgspec.json.decode(data.get(".dockercfg", b"{}"), type=dict[str, _Entry])
        return _keys(entries)
    return ()


def keys_of_file(content: bytes) -> Keys:
    """The credentials in a file as `docker login` writes it. Raises ValueError."""
    return _keys(msgspec.json.decode(content, type=_DockerConfig).auths)


def fitting(name: ImageName, keys: Iterable[tuple[str, Credentials]]) -> list[Credentials]:
    """All credentials for an image, those with the longest fitting path first."""
    found = [(len(place), found) for place, found in keys if _fits(place, name.repository)]
    return list(dict.fromkeys(each for _, each in sorted(found, key=lambda each: -each[0])))


def _keys(entries: Mapping[str, _Entry]) -> Keys:
    return tuple((place, _credentials(entry)) for place, entry in entries.items())


def _credentials(entry: _Entry) -> Credentials:
    username, password = entry.username, entry.password
    if entry.auth:
        try:
            decoded = base64.b64decode(entry.auth.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as problem:
            raise ValueError("the field auth is not base64 of USER:PASSWORD") from problem
        username, _, password = decoded.partition(":")
    return Credentials(username, password.rstrip("\0"), entry.identity_token)


def _fits(place: str, repository: str) -> bool:
    wanted = re.sub(r"^https?://", "", place).removesuffix("/")
    wanted = re.sub(r"/v[12]$", "", wanted)
    host, _, path = wanted.partition("/")
    own_host, _, own_path = repository.partition("/")
    if host in (f"index.{DEFAULT_REGISTRY}", f"registry-1.{DEFAULT_REGISTRY}"):
        host = DEFAULT_REGISTRY
    return _same_host(host, own_host) and (not path or own_path == path or own_path.startswith(f"{path}/"))


def _same_host(pattern: str, host: str) -> bool:
    """Label by label; `*` stands for any part of one label. Ports must be equal."""
    name, _, port = pattern.partition(":")
    own, _, own_port = host.partition(":")
    wanted, labels = name.split("."), own.split(".")
    return (
        port == own_port
        and len(wanted) == len(labels)
        and all(_matches(each, label) for each, label in zip(wanted, labels, strict=True))
    )


def _matches(pattern: str, label: str) -> bool:
    """The author of a pull secret chooses both: a regular expression with many wildcards could take for ever."""
    first, *rest = pattern.split("*")
    if not rest:
        return first == label
    *middle, last = rest
    if len(label) < len(first) + len(last) or not label.startswith(first) or not label.endswith(last):
        return False
    position, end = len(first), len(label) - len(last)
    for part in middle:  # the earliest place of each part leaves most room for the next
        found = label.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
