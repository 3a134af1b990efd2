"""Names of images.

An API server accepts any text as an image, and the mistake shows only when a node fails to pull it. Commands that are
given a name refuse what no registry could have.

    host:port/path/of/image:tag@algorithm:digest

Paths are in lower case; a host, a tag and an algorithm may have capitals.
"""

import re
from typing import Final

_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}"
_REFERENCE: Final = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@{_DIGEST})?")


def is_image_reference(text: str) -> bool:
    """
    >>> [is_image_reference(one) for one in ("model:2", "localhost:5000/llm/a_b--c:V1", "[::1]:5000/model")]
    [True, True, True]
    >>> [is_image_reference(one) for one in ("UPPER CASE", "Model:2", "model:", "", "model:2 ", "model@sha256:12")]
    [False, False, False, False, False, False]
    """
    return _REFERENCE.fullmatch(text) is not None
