"""What the target of a request says: a path, decoded segment by segment, and a query.

An encoded slash must not turn one segment into two: a check of the path before decoding would have seen another path.
"""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

from kohort.kube import errors

Query = tuple[tuple[str, str], ...]

_ORIGIN: Final = re.compile(r"\Ahttps?://[^/?#]+", re.IGNORECASE)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def split_target(target: str) -> tuple[str, Query]:
    """Path and query; 400 for a path that cannot be meant."""
    if not target.startswith("/"):
        target = without_origin(target)
    path, _, query = target.partition("?")
    return decoded_path(path), decoded_query(query.partition("#")[0]) if query else ()


def without_origin(target: str) -> str:
    """A target as clients of proxies write it, `https://host/path`: who the host is has been settled by connecting."""
    return _ORIGIN.sub("", target, count=1)


def decoded_path(raw: str) -> str:
    """The path with its segments decoded one by one. What decodes to something that is not a segment is refused."""
    if not raw.startswith("/"):
        raise errors.path_not_found()
    if "%" not in raw:
        return raw
    if _BAD_ESCAPE.search(raw):
        raise errors.bad_request("the path of the request has a percent sign that escapes nothing")
    segments = []
    for segment in raw.split("/"):
        try:
            decoded = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError:
            raise errors.bad_request("the path of the request is not valid UTF-8") from None
        if "/" in decoded or "\0" in decoded:
            raise errors.bad_request("a path segment may not contain an encoded slash")
        segments.append(decoded)
    return "/".join(segments)


SHORT_QUERY: Final = 256


def decoded_query(raw: str) -> Query:
    """Parameters in their order. Most clients send the same few queries again and again; those are kept."""
    return _short_query(raw) if len(raw) <= SHORT_QUERY else _parameters(raw)


def _parameters(raw: str) -> Query:
    """As in Kubernetes, a pair is left out that cannot be decoded, or has a semicolon that some take for its end."""
    if "%" in raw or ";" in raw:
        raw = "&".join(one for one in raw.split("&") if ";" not in one and not _BAD_ESCAPE.search(one))
    return tuple(parse_qsl(raw, keep_blank_values=True, errors="replace"))


_short_query: Final = lru_cache(maxsize=256)(_parameters)
