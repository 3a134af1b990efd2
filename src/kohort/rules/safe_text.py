"""How Kubernetes makes short names from content: a 32-bit hash, spelled in letters and digits that form no words."""

from typing import Final

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


def safe_text(text: str) -> str:
    """Each character replaced by one of the alphabet.

    >>> safe_text("3687927682")
    '7bdcf6cbd6'
    """
    return "".join(ALPHABET[ord(character) % len(ALPHABET)] for character in text)


def fnv1(data: bytes) -> int:
    """FNV-1, 32 bits: the hash in the names of ControllerRevisions.

    >>> fnv1(b""), fnv1(b"a")
    (2166136261, 84696446)
    """
    value = _FNV_OFFSET
    for byte in data:
        value = ((value * _FNV_PRIME) & 0xFFFFFFFF) ^ byte
    return value


def fnv1a(data: bytes) -> int:
    """FNV-1a, 32 bits: the hash in the names of ReplicaSets.

    >>> fnv1a(b""), fnv1a(b"a")
    (2166136261, 3826002220)
    """
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value
