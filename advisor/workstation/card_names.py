"""Names of graphics cards as people write them: `2x 3090Ti`, `A100 80GB`, `RTX PRO 6000 Max-Q`."""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.cpu_names import CPU_WORDS
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.part import GpuCard
from advisor.catalog.units import GB, GIB
from advisor.workstation.foreign_words import regex, word_table, write_in_one_form

_WORDS: Final = {name: frozenset(words) for name, words in word_table("cards").items()}
DECORATION: Final = _WORDS["decoration"]
"""Words that makers and shops add and that tell no two accelerators apart."""
_EDITIONS: Final = _WORDS["editions"]
"""Words of another product under the same number: a line with such a word means no accelerator without it."""
_ALWAYS_NAMED: Final = _WORDS["always_named"]
"""Editions that a line names where it means them: the plain number is that of the full card."""
_MAKERS_WORDS: Final = frozenset(("sff",))
"""Editions whose word makers of boards use too: an `RTX 5070 Ti WINDFORCE OC SFF` is a short RTX 5070 Ti."""
_HINTS: Final = frozenset(("pcie", "ws", "workstation"))
"""Words that prefer an accelerator, and that the names of other products bear too (`PCIe 4.0`)."""
_SUFFIXES: Final = _WORDS["suffixes"]
"""Words after a number that make it another model: an RTX 3060 Ti is no RTX 3060."""
_DRIVE_WORDS: Final = _WORDS["drives"]
"""Words behind the number of a drive, which is also that of a card: a 970 EVO is no GTX 970."""
_NUMBERED_OTHERWISE: Final = _WORDS["others"]
"""Families of CPUs and lines of desktops whose numbers are those of cards too: an i7-6700 is no card."""
_MODIFIED: Final = "modified"
_NEAR_GB: Final = 0.8
"""Largest difference between two sizes of memory that count as one [GB]: a record may count 24 GB or 24 GiB."""


@dataclass(frozen=True, slots=True)
class CardName:
    """Mention of a graphics card in a line."""

    accelerators: tuple[str, ...]
    """Accelerators that the words can mean, by id; empty if the words name a model that is in no record."""
    words: str
    """Words of the line that name the card."""
    other_sizes_gb: tuple[int, ...] = ()
    """Memory sizes of the records [GB], if the size in the line is the reason why none fits."""
    is_module: bool = False
    """Whether the words name a module for the board of a server, which is no card."""


def find_card_name(text: str) -> CardName | None:
    """Return the graphics card that a line names; None if it names none.

    Of several numbers, the longest known name counts. A word after it that makes another model (Ti, Super, D, ...), an
    edition (Max-Q, SXM, ...) or a size of memory is never dropped: if no record bears it, no accelerator is returned.
    """
    words = _words_of(text)
    known = _families()
    bare = [
        word for word in words if not _is_edition_or_size(word)
    ]  # RTX 4000 SFF Ada: the number goes on behind SFF
    for length in range(min(6, len(bare)), 0, -1):
        for start in range(len(bare) - length + 1):
            window = bare[start : start + length]
            family = known.get(tuple(sorted(window)))
            is_bare = length == 1 and window[0].isdigit()
            following = bare[start + length] if start + length < len(bare) else ""
            # Round thousands are also rates, cases and professional cards, whose family is written: 4000D, RTX 5000.
            is_drive = start > 0 and bare[start - 1] in _WORDS["drive_makers"]  # a Kingston A2000
            is_other = is_bare and (
                CPU_WORDS & set(words)
                or (start > 0 and bare[start - 1] in _NUMBERED_OTHERWISE)
                or following in _DRIVE_WORDS
                or regex("card.rates").fullmatch(window[0])
                or window[0].endswith("000")
            )
            if family is None or is_other or is_drive:
                continue
            return _module_by_memory(words, window) or _among(family, words, following, " ".join(window))
    return None


def _module_by_memory(words: list[str], window: list[str]) -> CardName | None:
    """Return the module of a server that a number means with the kind and the size of its memory; None if the line
    names no kind, or a card has it too."""
    kinds = {word for word in words if regex("card.memory_kind").fullmatch(word)}
    sizes = {int(found.group(1)) for word in words if (found := regex("card.memory").fullmatch(word))}
    identity = tuple(sorted(window))
    meant = [
        record
        for record in map(accelerators.by_id, _families(only_cards=False)[identity])
        if record.memory_type.lower() in kinds
        and _EDITIONS & set(words) <= _all_words(record)
        and (not sizes or any(_has_memory(record, size) for size in sizes))
    ]
    modules = [record for record in meant if record.id not in _families()[identity]]
    # An edition that the line does not name is not meant: HBM3 alone is no H100 NVL.
    if not modules or any(_EDITIONS & _all_words(record) <= set(words) for record in meant):
        return None
    return CardName((), modules[0].name, is_module=True)


def _among(family: tuple[str, ...], words: list[str], following: str, name: str) -> CardName:
    """Return the members of a family that the other words of a line allow, and the word behind the number."""
    if following in _SUFFIXES:
        return CardName((), f"{name} {following}")
    records = [accelerators.by_id(name) for name in family]
    # SFF is also a board maker's word for a short card: it tells a product only where its maker sells one.
    sold = frozenset[str]().union(*map(_all_words, records))
    editions = (_EDITIONS & set(words)) - (_MAKERS_WORDS - sold)
    if editions:
        records = [record for record in records if editions <= _all_words(record)]
        name = " ".join((name, *sorted(editions)))
    else:
        # A module for a carrier board is named as one; the plain number is the card's.
        records = [record for record in records if not _ALWAYS_NAMED & _all_words(record)] or records
    sizes = {int(found.group(1)) for word in words if (found := regex("card.memory").fullmatch(word))}
    fitting = [record for record in records if any(_has_memory(record, size) for size in sizes)]
    if sizes and records and not fitting:
        have = sorted({_round_size(record.memory_bytes or 0.0) for record in records})
        return CardName((), f"{name} {min(sizes)} GB", tuple(have))
    # A card whose memory was changed after sale is named by its size.
    records = fitting or [record for record in records if _MODIFIED not in _all_words(record)] or records
    if not sizes:
        # A number that its maker also sells with another memory, and names with its size, is the one without it.
        records = [
            record for record in records if not regex("card.memory").search(" ".join(_words_of(record.name)))
        ] or records
    hinted = [record for record in records if _HINTS & set(words) & _all_words(record)]
    return CardName(tuple(record.id for record in hinted or records), name)


def usual_of(names: Sequence[str]) -> str:
    """Return the accelerator that a bare name usually means: the one whose name has no edition, of these the one
    with the least memory, which promises nothing that another has not."""
    records = map(accelerators.by_id, names)
    return min(records, key=lambda one: (len(_EDITIONS & _all_words(one)), one.memory_bytes or 0.0)).id


def _is_edition_or_size(word: str) -> bool:
    return word in _EDITIONS or word in _HINTS or regex("card.memory").fullmatch(word) is not None


def _has_memory(record: Accelerator, size_gb: int) -> bool:
    memory = record.memory_bytes or 0.0
    return min(abs(memory / GB - size_gb), abs(memory / GIB - size_gb)) < _NEAR_GB


def _round_size(memory_bytes: float) -> int:
    """Return a size as its maker names it [GB]: 16 GiB are sold as 16 GB."""
    binary = memory_bytes / GIB
    return round(binary if abs(binary - round(binary)) < 0.02 else memory_bytes / GB)


@functools.cache
def _families(*, only_cards: bool = True) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the accelerators by the sorted words of their number, all or those of which there are cards: an A100 has
    two sizes."""
    carded = {card.accelerator for card in parts.planner_parts(GpuCard)}
    found: dict[tuple[str, ...], list[str]] = {}
    for record in accelerators.all_accelerators():
        if only_cards and record.id not in carded:
            continue
        for identity in _identities(record):
            family = found.setdefault(tuple(sorted(identity)), [])
            if record.id not in family:
                family.append(record.id)
    return {identity: tuple(ids) for identity, ids in found.items()}


def _identities(record: Accelerator) -> Iterable[tuple[str, ...]]:
    """Yield the words of each name of an accelerator without size and edition, with and without RTX or RX."""
    for name in (record.id, record.name, *record.aliases):
        words = tuple(word for word in _words_of(name) if not _is_edition_or_size(word))
        if len(words) > 1 or any(character.isdigit() for word in words for character in word):
            yield words
            if words[0] in ("rtx", "gtx", "rx") and len(words) > 1:
                yield words[1:]


def _all_words(record: Accelerator) -> frozenset[str]:
    """Return the words of all names of an accelerator."""
    return frozenset(word for name in (record.id, record.name, *record.aliases) for word in _words_of(name))


def _words_of(text: str) -> list[str]:
    """Return the words of a name in the form in which they are compared: `RTX3090Ti 24 GB` is rtx, 3090, ti, 24gb."""
    words = (word.strip(".") for word in re.findall(r"[a-z0-9.]+", write_in_one_form(text.lower(), "card")))
    return [word for word in words if word and word not in DECORATION]
