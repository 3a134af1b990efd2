"""Protocols of exec, attach and port-forward. The API server offers clients what nodes speak, and passes it on."""

from typing import Final

SPDY_VERSIONS: Final = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
"""The newest first."""
CHANNELS: Final = ("v5.channel.k8s.io", *SPDY_VERSIONS, "v4.base64.channel.k8s.io", "base64.channel.k8s.io")
"""Over WebSockets, the preferred first."""
SPDY_TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
"""SPDY within a WebSocket, for port-forward."""
