"""Protocols of exec, attach and port-forward. The API server offers clients what nodes speak, and passes it on."""

from typing import Final

SPDY_VERSIONS: Final = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
"""The newest first."""
CHANNELS: Final = ("v5.channel.k8s.io", *SPDY_VERSIONS, "v4.base64.channel.k8s.io", "base64.channel.k8s.io")
"""Of exec and attach over WebSockets, the preferred first."""
SPDY_TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
"""SPDY within a WebSocket, for port-forward."""
FORWARD_CHANNELS: Final = "v4.channel.k8s.io"
"""Channels within a WebSocket, for port-forward: two for each port."""
PORT_FORWARD: Final = (SPDY_TUNNEL, FORWARD_CHANNELS)
"""Of port-forward over WebSockets, the preferred first."""
UPGRADE_REQUIRED: Final = "Upgrade request required"
"""A node's answer with code 400 to a request for streams that asks for none of these protocols."""
_UPGRADE_MISSING: Final = (UPGRADE_REQUIRED, "unable to upgrade: missing upgrade headers in request")


def misses_upgrade(message: str) -> bool:
    """Whether a node, ours or a kubelet, has nothing against a request but that it asks for no other protocol. The code
    400 alone does not say so: wrong parameters have it too."""
    return message.strip().startswith(_UPGRADE_MISSING)
