"""Text of others, for terminals and for what is kept.

Logs, messages of containers and events come from the programs of users. What they contain may clear a terminal, change
its title, fill its clipboard or forge lines; and colours inside of a line hide from patterns what a reader sees.
"""

import re
from typing import Final

_SEQUENCES: Final = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, positions
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # titles, clipboard
    "|\x1b[ -/]*[0-~]?"
)
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200d\u2060-\u2064\ufeff]")


def without_control_sequences(text: str) -> str:
    """Only what a reader sees: no escape sequences, control characters or invisible characters.

    >>> without_control_sequences("\x1b[36mpass\x1b[0mword=1\x07")
    'password=1'
    """
    plain = _SEQUENCES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _INVISIBLE.sub("", _CONTROLS.sub("", plain))


def with_visible_controls(text: str) -> str:
    """The text with control characters spelled out; lines and tabs stay. JSON stays what it is.

    >>> with_visible_controls("\x1b[2Ja\tb")
    '\\u001b[2Ja\tb'
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
