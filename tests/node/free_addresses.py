"""Addresses for tests that change the network of this machine, where other tests and clusters run, too."""

from ipaddress import IPv4Network
from pathlib import Path

from kohort.node.address_blocks import ASSIGNED_POOL, claim


def free_block(directory: Path) -> IPv4Network:
    """A block that nothing on this machine uses. It has no owner, as after an agent that has cleaned up."""
    found = claim(ASSIGNED_POOL, str(directory), directory)
    found.release()
    return found.network
