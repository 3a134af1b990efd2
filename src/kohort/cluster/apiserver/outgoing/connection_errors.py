"""What went wrong with a connection that was never made, in the words of Kubernetes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


def dial_problem(error: "aiohttp.ClientConnectorError") -> str:
    cause = error.os_error
    words = "connect: connection refused" if isinstance(cause, ConnectionRefusedError) else cause.strerror or cause
    return f"dial tcp {error.host}:{error.port}: {words}"
