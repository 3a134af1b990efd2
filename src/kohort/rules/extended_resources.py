"""Resources that vendors define, such as `example.com/gpu`: counted in whole pieces, and outside Kubernetes' domain."""

from typing import Final

from kohort.objects.bounded_cache import remember_short
from kohort.objects.names import qualified_name

DEFAULT_DOMAIN: Final = "kubernetes.io/"


def is_native(name: str) -> bool:
    """In the domain of Kubernetes itself, where names without a domain are."""
    return "/" not in name or DEFAULT_DOMAIN in name


@remember_short(1024)
def is_extended(name: str) -> bool:
    """A quota names it with `requests.` before it, so it must be a name with that, too."""
    return not is_native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")
