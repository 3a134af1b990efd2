"""What can be chosen about an installation."""

from typing import Final

import msgspec

from kohort import __version__
from kohort.manager.configuration import NAMESPACE

IMAGE: Final = f"ghcr.io/kohort/kohort:{__version__}"


class Options(msgspec.Struct, frozen=True, kw_only=True):
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
