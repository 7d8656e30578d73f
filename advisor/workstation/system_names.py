"""Names of complete machines as people write them: `DGX Spark`, `Mac Studio M3 Ultra 512GB`."""

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.schema.part import System
from advisor.workstation.card_names import find_card_name
from advisor.workstation.foreign_words import regex, word_table, write_in_one_form
from advisor.workstation.typed_line import TypedLine


def find_systems(text: str) -> tuple[System, ...]:
    """Return the complete machines whose name or other name stands in a line, whatever their memory."""
    words = [word for word in _words_of(text) if word not in _IGNORED]
    named = [
        (system, identity)
        for system in parts.systems()
        for identity in map(_identity, (system.name, *system.aliases))
        if identity and set(identity) <= set(words)
    ]
    # Words that stand together are a name; scattered ones may belong to several.
    together = [one for one in named if f" {' '.join(one[1])} " in f" {' '.join(words)} "] or named
    # A Mac mini M4 Pro is no Mac mini M4.
    longest = [one for one, own in together if not any(set(own) < set(other) for _, other in together)]
    found = tuple({system.id: system for system in longest}.values())
    # A product's name tells more than that of the chip, under which several makers sell machines.
    return tuple(system for system in found if system.manufacturer != "several") or found


def with_laptop_cards(lines: Sequence[TypedLine]) -> list[TypedLine]:
    """Return the lines of a list with the card of a laptop named as the laptop's: `Razer Blade 16`, `RTX 5090` is the
    laptop's RTX 5090. The line that names the laptop alone goes; its price is that of the machine.

    A card in an external dock is no card of the laptop, which may have its own too.
    """
    named = [line for line in lines if is_of_a_laptop(line.text)]
    if not named:
        return list(lines)
    inside = [line for line in lines if not regex("machine.external").search(line.text)]
    cards = [line for line in inside if find_systems(f"{line.what} laptop")]
    has_dock = len(inside) < len(lines)
    in_dock = any(find_card_name(line.what) for line in lines if regex("machine.external").search(line.text))
    # A dock in a line of its own holds the only card of the list.
    if len(cards) != 1 or (has_dock and not in_dock):
        return list(lines)
    alone = [line for line in named if line is not cards[0] and line.category in (None, "case", "gpu")]
    prices = [line.usd for line in (cards[0], *alone) if line.usd is not None]
    machine = replace(
        cards[0],
        what=f"{cards[0].what} laptop",
        category="system",
        usd=prices[0] if prices else None,
        is_included=cards[0].is_included and not prices,
    )
    return [machine if line is cards[0] else line for line in lines if line not in alone]


def is_of_a_laptop(text: str) -> bool:
    """Whether a text names a laptop, which has every part that its list leaves out."""
    return _laptop_lines().search(text) is not None


@functools.cache
def _laptop_lines() -> re.Pattern[str]:
    """Return the pattern of words that name a laptop."""
    words = map(re.escape, word_table("laptops")["lines"])
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)


def can_join(system: System) -> bool:
    """Whether the record states a network by which several of a complete machine work together."""
    record = accelerators.by_id(system.accelerator)
    return bool(record.scale_out_bytes_per_s) and record.accelerators_per_node == system.num_accelerators


def with_memory(text: str, systems: tuple[System, ...]) -> tuple[System, ...]:
    """Return the machines with the memory that a line states; all of them if it states none."""
    sizes = _sizes_of(text)
    return tuple(system for system in systems if not sizes or sizes & _sizes_of(system.name))


def with_other_memory(text: str, systems: tuple[System, ...]) -> tuple[System, ...]:
    """Return the machine with a memory that a line states, which its maker sells and no record has: the GPU may use the
    same fraction of it. Such a machine has no price."""
    sizes = [int(word.removesuffix("gb")) for word in _sizes_of(text)]
    for system in systems:
        for size in sizes:
            if size in system.other_memory_gb:
                recorded = next(int(word.removesuffix("gb")) for word in _sizes_of(system.name))
                changes = {
                    "id": f"{system.id}-with-{size}gb",
                    "name": re.sub(rf"\b{recorded}\s*GB", f"{size} GB", system.name),
                    "memory_bytes": system.memory_bytes * size / recorded,
                    "note": f"figures of {system.name}, with another memory",
                }
                return (system.model_copy(update=changes),)
    return ()


_IGNORED: Final = frozenset(("nvidia", "amd", "apple", "asus", "lenovo", "developer", "kit", "mac"))


def _identity(name: str) -> tuple[str, ...]:
    """Return the words of a name that tell its product line: without maker, memory and what stands in brackets."""
    bare = re.sub(r"\(.*?\)|^Used .*", " ", name)
    return tuple(
        word
        for word in _words_of(bare)
        if word not in _IGNORED and not regex("machine.memory").fullmatch(word)
    )


def _sizes_of(text: str) -> set[str]:
    return {word for word in _words_of(text) if regex("machine.memory").fullmatch(word)}


def _words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9+]+", write_in_one_form(text.lower(), "machine"))
