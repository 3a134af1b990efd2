"""The same server as for the kinds: all built-in admission, in memory."""

from tests.cluster.apiserver.kinds.conftest import admitting

__all__ = ["admitting"]
