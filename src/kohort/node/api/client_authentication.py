"""How a node's API is served: under which name, with which certificate, and to whom it speaks at all.

Clients show a certificate that is signed by the cluster's authority, or a bearer token (`token_authentication`). What
its owner may do, `authorization` finds out.
"""

import asyncio
import contextlib
import socket
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Final

LOOKUP_SECONDS: Final = 1.0
LIFE: Final = timedelta(days=3650)


async def reachable_name(name: str, address: str) -> str:
    """What the node reports as its host name: its name if that resolves to this machine, else its address. API servers
    prefer the name by default, and could not reach the node if it did not resolve."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, TimeoutError):
        found = await asyncio.wait_for(loop.getaddrinfo(name, None, family=socket.AF_INET), LOOKUP_SECONDS)
        if any(entry[4][0] == address for entry in found):
            return name
    return address


def serving_context(directory: Path, host: str, name: str, authority: str) -> ssl.SSLContext:
    """Our own certificate, and the authority that signs those of clients. A client without one needs a token."""
    certificate, key = directory / "serving.crt", directory / "serving.key"
    if not certificate.exists():
        _self_signed(certificate, key, host, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority)
    return context


def _self_signed(certificate: Path, key: Path, host: str, name: str) -> None:
    from kohort.kube.certificate_issuing import Authority, new_authority
    from kohort.kube.private_files import write_private

    ourselves = f"system:node:{name}"[:64]
    authority = Authority(*new_authority(ourselves, LIFE))
    made, secret = authority.issue(
        name=ourselves, organizations=("system:nodes",), addresses=(host, name), life=LIFE, server=True
    )
    write_private(key, secret)
    write_private(certificate, made)
