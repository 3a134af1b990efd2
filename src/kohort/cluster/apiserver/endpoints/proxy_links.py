"""Links in what a proxied server answers.

A page that is read through `/api/v1/namespaces/ns/pods/p/proxy/` must not lead its reader to `/` of the API server. So
`Location` headers and the links in HTML that begin with a slash, or name the proxied server, are put below the path of
the proxy. Everything else stays as it is, byte for byte. Pages that are too large to be kept in memory, or compressed
in a way that is not known here, are passed on unchanged.
"""

import html
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from kohort.kube.http import Response

MAX_PAGE: Final = 4 * 1024 * 1024

_LINKS: Final = {
    "a": ("href",), "applet": ("codebase",), "area": ("href",), "audio": ("src",), "base": ("href",),
    "blockquote": ("cite",), "body": ("background",), "button": ("formaction",), "command": ("icon",),
    "del": ("cite",), "embed": ("src",), "form": ("action",), "frame": ("longdesc", "src"), "head": ("profile",),
    "html": ("manifest",), "iframe": ("longdesc", "src"), "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"), "ins": ("cite",), "link": ("href",),
    "object": ("classid", "codebase", "data", "usemap"), "q": ("cite",), "script": ("src",), "source": ("src",),
    "video": ("poster", "src"),
}  # fmt: skip
"""Attributes of HTML elements that hold addresses."""

_TOKEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<name>[a-zA-Z][^\s/>]*)(?P<attributes>(?:[^>\"']|\"[^\"]*\"|'[^']*')*)>",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(r"(?P<name>[^\s\"'>/=]+)(?P<equals>\s*=\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"'>]+)")
_TEXT_ONLY: Final = ("script", "style", "textarea", "title", "xmp")
"""Elements whose content is text, whatever it looks like."""


class LinkRewriter:
    """How addresses change on their way through a proxy."""

    def __init__(self, prefix: str, hosts: frozenset[str]) -> None:
        """`prefix` is the path of the proxy without a slash at its end; `hosts` name the proxied server."""
        self._prefix = prefix
        self._hosts = hosts

    def __call__(self, address: str) -> str:
        try:
            parts = urlsplit(address)
        except ValueError:
            return address
        if (parts.netloc and parts.netloc not in self._hosts) or not parts.path.startswith("/"):
            return address
        inside = parts.path == self._prefix or parts.path.startswith(f"{self._prefix}/")
        path = parts.path if inside else self._prefix + parts.path
        return urlunsplit(("", "", path, parts.query, parts.fragment))


def with_links(response: Response, links: LinkRewriter) -> Response:
    """The answer of a proxied server for a client of the proxy."""
    location = response.headers.get("location", "")
    if location:
        response.headers["location"] = links(location)
        return response
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = response.headers.get("content-encoding", "").lower()
    if media_type == "text/html" and coding in ("", "identity", "gzip", "deflate") and response.body:
        response.body = _page(response.body, coding, response.headers, links)
        if not isinstance(response.body, bytes) and coding in ("gzip", "deflate"):
            del response.headers["content-encoding"]
    return response


def _page(
    body: bytes | AsyncIterator[bytes], coding: str, headers: dict[str, str], links: LinkRewriter
) -> bytes | AsyncIterator[bytes]:
    if isinstance(body, bytes):
        return body if coding in ("gzip", "deflate") else rewritten(body, links)
    return _rewritten_stream(body, coding, links)


async def _rewritten_stream(chunks: AsyncIterator[bytes], coding: str, links: LinkRewriter) -> AsyncIterator[bytes]:
    unpack = _unpacker(coding)
    page = bytearray()
    try:
        async for chunk in chunks:
            page += unpack(chunk)
            if len(page) > MAX_PAGE:
                yield bytes(page)
                async for more in chunks:
                    yield unpack(more)
                return
        yield rewritten(bytes(page), links)
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


def _unpacker(coding: str) -> Callable[[bytes], bytes]:
    if coding in ("", "identity"):
        return bytes
    return zlib.decompressobj(zlib.MAX_WBITS | 16 if coding == "gzip" else zlib.MAX_WBITS).decompress


def rewritten(page: bytes, links: Callable[[str], str]) -> bytes:
    """HTML with its links changed. Every encoding that pages are written in looks like ASCII where links are."""
    text = page.decode("latin-1")
    parts, position = [], 0
    while (token := _TOKEN.search(text, position)) is not None:
        parts.append(text[position : token.start()])
        position = token.end()
        name = (token["name"] or "").lower()
        parts.append(_tag(token, name, links) if name in _LINKS else token[0])
        if name in _TEXT_ONLY:
            end = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, position)
            stop = end.start() if end is not None else len(text)
            parts.append(text[position:stop])
            position = stop
    parts.append(text[position:])
    return "".join(parts).encode("latin-1")


def _tag(token: re.Match[str], name: str, links: Callable[[str], str]) -> str:
    def attribute(match: re.Match[str]) -> str:
        if match["name"].lower() not in _LINKS[name]:
            return match[0]
        quoted = match["value"]
        quote = quoted[0] if quoted[0] in "\"'" else ""
        address = html.unescape(quoted[1:-1] if quote else quoted)
        changed = links(address)
        if changed == address or not _is_latin(changed):
            return match[0]
        return f'{match["name"]}{match["equals"]}"{html.escape(changed)}"'

    return f"<{token['name']}{_ATTRIBUTE.sub(attribute, token['attributes'])}>"


def _is_latin(text: str) -> bool:
    return all(ord(character) < 256 for character in text)
