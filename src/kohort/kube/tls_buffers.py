"""Limits the memory of an open TLS connection.

asyncio gives each one a buffer of 256 KB for what comes from the socket, and touches all of it. Servers and operators
hold dozens of connections that are silent most of the time: 64 of them were 21 MB, and with 32 KB each they are 6 MB,
at the same processor time. A record of TLS has 16 KB at most, and that is all that one call of OpenSSL gives back.
"""

from asyncio import sslproto
from typing import Final

SIZE: Final = 32 * 1024


def limit_tls_buffers() -> None:
    """For all connections that this process opens or accepts from now on."""
    sslproto.SSLProtocol.max_size = SIZE
