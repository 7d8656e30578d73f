"""Text that may come from anywhere, as a terminal, a page or a document may show it."""

import re
from typing import Final

_COMMANDS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What terminals obey instead of showing it: control characters, changes of direction, lines that are none, and halves
of characters, which no encoding has. Tabs and line feeds stay."""


def legible(text: str) -> str:
    """The text with `?` for every character that a terminal would obey."""
    return _COMMANDS.sub("?", text)


def escaped(json_text: str) -> str:
    r"""The same JSON, in which such characters are written \\uXXXX."""
    return _COMMANDS.sub(lambda found: f"\\u{ord(found.group()):04x}", json_text)
