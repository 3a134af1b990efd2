"""How Kubernetes spells a hash in a name or label: in letters and digits that form no words."""

from typing import Final

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def safe_text(text: str) -> str:
    """Each character replaced by one of the alphabet.

    >>> safe_text("3687927682")
    '7bdcf6cbd6'
    """
    return "".join(ALPHABET[ord(character) % len(ALPHABET)] for character in text)
