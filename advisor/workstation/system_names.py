"""Names of complete machines as people write them: `DGX Spark`, `Mac Studio M3 Ultra 512GB`."""

import re
from typing import Final

from advisor.catalog import parts
from advisor.catalog.schema.part import System

_MEMORY: Final = re.compile(r"(\d{2,4})gb")


def find_systems(text: str) -> tuple[System, ...]:
    """Return the complete machines whose name or other name stands in a line, whatever their memory."""
    words = set(_words_of(text))
    found = tuple(
        system
        for system in parts.systems()
        if any(_identity(name) and _identity(name) <= words for name in (system.name, *system.aliases))
    )
    # A product's name tells more than that of the chip, under which several makers sell machines.
    return tuple(system for system in found if system.manufacturer != "several") or found


def with_memory(text: str, systems: tuple[System, ...]) -> tuple[System, ...]:
    """Return the machines with the memory that a line states; all of them if it states none."""
    sizes = _sizes_of(text)
    return tuple(system for system in systems if not sizes or sizes & _sizes_of(system.name))


def _identity(name: str) -> set[str]:
    """Return the words of a name that tell its product line: without maker, memory and what stands in brackets."""
    bare = re.sub(r"\(.*?\)|^Used .*", " ", name)
    ignored = {"nvidia", "amd", "apple", "developer", "kit"}
    return {word for word in _words_of(bare) if word not in ignored and not _MEMORY.fullmatch(word)}


def _sizes_of(text: str) -> set[str]:
    return {word for word in _words_of(text) if _MEMORY.fullmatch(word)}


def _words_of(text: str) -> list[str]:
    plain = re.sub(r"\b(\d{2,4})\s*(?:gb|gib|g)\b", r"\1gb", text.lower())
    return re.findall(r"[a-z0-9+]+", plain)
