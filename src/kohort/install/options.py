"""What can be chosen about an installation."""

from importlib import resources
from typing import Final

import msgspec

from kohort import __version__
from kohort.manager.configuration import NAMESPACE

TAGGED: Final = f"ghcr.io/kohort/kohort:{__version__}"
DIGEST_FILE: Final = "image.digest"
"""Only a released package has it: an image cannot contain its own digest, nor a checkout that of its image."""


def released_digest() -> str:
    """Of the image that was released together with this package; empty in a checkout."""
    file = resources.files("kohort.install") / DIGEST_FILE
    return file.read_text().strip() if file.is_file() else ""


def with_digest(name: str, digest: str) -> str:
    """The tag says what it is, the digest decides what is pulled."""
    return f"{name}@{digest}" if digest else name


IMAGE: Final = with_digest(TAGGED, released_digest())


class InstallOptions(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = NAMESPACE
    image: str = IMAGE
    replicas: int = 2
    namespaces: tuple[str, ...] = ()
    """Confine the operator to these; then it has Roles there and no ClusterRole over workloads."""
    rollouts: bool = True
    """Whether the operator looks after Rollouts; not where another one does."""
    cert_manager: bool = False
    """cert-manager makes the webhook certificate, instead of the operator itself."""
    service_monitor: bool = False
    gang_scheduler: str = ""
    default_resize_policy: str = "None"
    dashboard: bool = False
    """Install the dashboard, too."""
    dashboard_actions: bool = False
    """Its users may act, each with the own rights."""
    dashboard_hosts: tuple[str, ...] = ()
    """Names by which browsers reach it, besides localhost."""
    dashboard_tls_secret: str = ""
    """A Secret with tls.crt and tls.key: it serves HTTPS with them, and users may show client certificates."""
