"""Opening a web server on an address."""

import ssl

from aiohttp import web

Address = tuple[str, int]
"""Host and port; an empty host is every address of this machine, port 0 any free one."""


async def listen(
    application: web.Application, address: Address, tls: ssl.SSLContext | None = None
) -> tuple[web.AppRunner, int]:
    """The running server and its port."""
    host, port = address
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, host or None, port, ssl_context=tls).start()
    return runner, int(runner.addresses[0][1])
