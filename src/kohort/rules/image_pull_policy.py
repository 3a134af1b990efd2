"""When is an image pulled, if the container does not say so?

| image | policy |
|---|---|
| with the tag `latest`, with a digest too | Always |
| without tag and digest: `latest` is meant | Always |
| with another tag, or with a digest alone | IfNotPresent |
| a text that names no image | IfNotPresent |

The API server stores the policy with the pod; a node decides it for pods that have none.
"""

import re
from typing import Final

from kohort.objects.bounded_cache import remember_short

_LONGEST_NAME: Final = 255
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN: Final = r"(?:[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*(?::[0-9]+)?/)?"
_REFERENCE = re.compile(
    rf"(?P<name>{_DOMAIN}{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[A-Za-z][A-Za-z0-9+.-]*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
).fullmatch


def _full_name(name: str) -> str:
    """The name of a repository with the registry and project that are meant when none is given."""
    registry, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in registry or ":" in registry or registry == "localhost" else f"docker.io/{name}"


@remember_short(4096)
def default_pull_policy(image: str) -> str:
    """`Always` for what is or may become another image under the same name, else `IfNotPresent`."""
    reference = _REFERENCE(image)
    if reference is None or len(_full_name(reference["name"])) > _LONGEST_NAME:
        return "IfNotPresent"
    tag = reference["tag"] or ("" if reference["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"
