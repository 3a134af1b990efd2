"""Names and uids that the server generates."""

import random
from typing import Final

from kohort.rules.safe_text import ALPHABET

NAME_LIMIT: Final = 63
SUFFIX_LENGTH: Final = 5


def generated_name(base: str) -> str:
    return base[: NAME_LIMIT - SUFFIX_LENGTH] + "".join(random.choices(ALPHABET, k=SUFFIX_LENGTH))


_VERSION_AND_VARIANT: Final = (0xF << 76) | (0x3 << 62)
_FOUR: Final = (0x4 << 76) | (0x2 << 62)


def random_uid() -> str:
    """A random UUID; the class for them is slow, and every request has an id."""
    text = f"{random.getrandbits(128) & ~_VERSION_AND_VARIANT | _FOUR:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
