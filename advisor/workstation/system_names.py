"""Names of complete machines as people write them: `DGX Spark`, `Mac Studio M3 Ultra 512GB`."""

import re
from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.schema.part import System

_LEAST_RATIO: Final = 0.25
"""Smallest ratio of two memories of one product line."""
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


def sized_system(text: str, systems: tuple[System, ...]) -> tuple[System, ...]:
    """Return the machine with the memory that a line states, derived from the record whose memory is nearest: the GPU
    may use the same fraction. Nothing if the line states no size, or the machines do not share one memory with their
    GPU.

    Assumes: the maker sells that size.
    """
    sizes = [int(size.removesuffix("gb")) for size in _sizes_of(text)]
    shared = [
        one for one in systems if _sizes_of(one.name) and accelerators.by_id(one.accelerator).unified_memory
    ]
    if len(sizes) != 1 or not shared or len({one.manufacturer for one in shared}) > 1:
        return ()

    def size_of(system: System) -> int:
        return int(min(_sizes_of(system.name)).removesuffix("gb"))

    nearest = min(shared, key=lambda one: (abs(size_of(one) - sizes[0]), one.id))
    factor = sizes[0] / size_of(nearest)
    if not _LEAST_RATIO <= factor <= 1.0 / _LEAST_RATIO:
        return ()
    name = nearest.name.replace(f"{size_of(nearest)} GB", f"{sizes[0]} GB")
    figures = {"id": "typed-system", "name": name, "memory_bytes": nearest.memory_bytes * factor}
    return (nearest.model_copy(update=figures),)


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
