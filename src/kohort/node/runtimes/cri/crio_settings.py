"""What CRI-O says of its own configuration.

The interface has no call for it, and the verbose status of CRI-O leaves out the network. CRI-O serves HTTP on the same
socket, for its command `crio status`: `GET /config` answers with the whole configuration as TOML.
"""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

NAME: Final = "cri-o"
"""What CRI-O calls itself."""
SYSTEMD: Final = "systemd"
SECONDS: Final = 10.0
_REQUEST: Final = b"GET /config HTTP/1.0\r\nHost: localhost\r\n\r\n"


class Network(msgspec.Struct, frozen=True):
    network_dir: str = ""
    plugin_dirs: tuple[str, ...] = ()


class Runtime(msgspec.Struct, frozen=True):
    cgroup_manager: str = ""


class Settings(msgspec.Struct, frozen=True):
    network: Network = Network()
    runtime: Runtime = Runtime()

    @property
    def uses_systemd(self) -> bool:
        return self.runtime.cgroup_manager == SYSTEMD


class _File(msgspec.Struct, frozen=True):
    crio: Settings = Settings()


async def read(socket: Path) -> Settings:
    """Empty where CRI-O does not say it."""
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(_REQUEST)
                answer = await reader.read(-1)
            finally:
                writer.close()
        head, _, content = answer.partition(b"\r\n\r\n")
        if head.split(b" ")[1:2] != [b"200"]:
            return Settings()
        return msgspec.toml.decode(content, type=_File).crio
    except (OSError, TimeoutError, msgspec.MsgspecError, UnicodeDecodeError):
        return Settings()
