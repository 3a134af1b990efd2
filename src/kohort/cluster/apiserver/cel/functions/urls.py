"""URLs as Go understands them: `url()` takes an absolute URI or an absolute path.

Python's own parser accepts nearly everything, so the rules for what is a URL are written out here.
"""

import re
from urllib.parse import quote, unquote_to_bytes

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.values import Extension
from kohort.objects.json_types import Json

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"]|%[89a-fA-F][0-9a-fA-F]|[^\x00-\x7f])*")
_PORT = re.compile(r"(?::[0-9]*)?")
_PATH_SAFE = "/$&+,:;=@-_.~!'()*"
_ENCODED_PATH = re.compile(r"(?:[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]]|%[0-9a-fA-F]{2})*")


class Url(Extension):
    __slots__ = ("host", "path", "query", "scheme", "text")
    type_name = "kubernetes.URL"

    def __init__(self, text: str, scheme: str, host: str, path: str, query: str) -> None:
        self.text = text
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and _parts(self) == _parts(other)

    def __hash__(self) -> int:
        return hash(_parts(self))


def _parts(url: Url) -> tuple[str, ...]:
    return url.scheme, url.host, url.path, url.query


def parse(text: str, *, fragments: bool) -> Url:
    """The URL in `text`; ValueError with the reason when it is none."""
    rest = text.partition("#")[0] if fragments else text
    if any(char < " " or char == "\x7f" for char in rest):
        raise _problem(text, "net/url: invalid control character in URL")
    if not rest:
        raise _problem(text, "empty url")
    if rest.startswith(":"):
        raise _problem(text, "missing protocol scheme")
    match = _SCHEME.match(rest)
    scheme = match[1].lower() if match else ""
    rest = rest[match.end() :] if match else rest
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(text, scheme, "", "", query)
        raise _problem(text, "invalid URI for request")
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        host = _host(text, authority)
        rest = slash + tail
    if bad := _BAD_ESCAPE.search(rest):
        raise _problem(text, f'invalid URL escape "{rest[bad.start() : bad.start() + 3]}"')
    return Url(text, scheme, host, rest, query)


def _host(text: str, authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise _problem(text, "net/url: invalid userinfo")
    if host.startswith("["):
        inside, bracket, port = host.rpartition("]")
        if not bracket:
            raise _problem(text, "missing ']' in host")
    else:
        inside, colon, digits = host.rpartition(":")
        port = colon + digits if colon else ""
        inside = inside if colon else host
    if not _PORT.fullmatch(port):
        raise _problem(text, f'invalid port "{port}" after host')
    if not _HOST.fullmatch(host):
        bad = next(char for char in host if not _HOST.fullmatch(char))
        raise _problem(text, f'invalid character "{bad}" in host name')
    return unquote_to_bytes(host).decode(errors="replace")


def _problem(text: str, reason: str) -> ValueError:
    return ValueError(f'parse "{text}": {reason}')


def to_url(text: str) -> Url:
    try:
        parse(text, fragments=False)
        return parse(text, fragments=True)
    except ValueError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


def url_problem(text: str) -> str:
    """Why `text` is not a URL; empty when it is."""
    try:
        parse(text, fragments=False)
    except ValueError as error:
        return str(error)
    return ""


def is_url(text: str) -> bool:
    return not url_problem(text)


def host_name(url: Url) -> str:
    host = url.host
    if host.startswith("["):
        return host[1 : host.rindex("]")]
    return host.rpartition(":")[0] if ":" in host else host


def port(url: Url) -> str:
    tail = url.host.rpartition("]")[2]
    return tail.rpartition(":")[2] if ":" in tail else ""


def escaped_path(url: Url) -> str:
    if _ENCODED_PATH.fullmatch(url.path):
        return url.path
    return quote(unquote_to_bytes(url.path), safe=_PATH_SAFE)


def query_values(url: Url) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for part in url.query.split("&"):
        if not part or ";" in part or _BAD_ESCAPE.search(part):
            continue
        key, _, value = part.partition("=")
        values.setdefault(_plain(key), []).append(_plain(value))
    return values


def _plain(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")


LIBRARY = Library(
    (
        Function("url(string): url", to_url),
        Function("isURL(string): bool", is_url),
        Function("url::getScheme(): string", lambda url: url.scheme),
        Function("url::getHost(): string", lambda url: url.host),
        Function("url::getHostname(): string", host_name),
        Function("url::getPort(): string", port),
        Function("url::getEscapedPath(): string", escaped_path),
        Function("url::getQuery(): map<string, list<string>>", query_values),
    ),
    {"url": "kubernetes.URL"},
)
