"""Lists as people write them, in several forms and languages: every part is read once, and none that is not there."""

import functools
import re
from pathlib import Path
from typing import Final

import pytest

from advisor.catalog.part_prices import price_book
from advisor.catalog.units import GIB
from advisor.workstation.foreign_words import write_in_english
from advisor.workstation.listing import Listing, read_listings
from advisor.workstation.mentions import mentions_in
from advisor.workstation.typed_line import write_units

LISTS: Final = Path(__file__).with_name("lists_as_written.txt")
"""Lists behind `=== title`, each with the parts behind `---` that a builder reads in it: kind, number and words of its
name; of memory the size [GiB] and the kind of module. Texts are own, after those of forums, shops and auctions."""
BLOCKS: Final = dict(
    block.split("\n", 1) for block in re.split(r"^=== ", LISTS.read_text(encoding="utf-8"), flags=re.M)[1:]
)
SPOKEN_OF: Final = ("other", "unknown")
"""Kinds that no rule reads: cables, rails, work of a shop, and what is named as not known."""


@functools.cache
def _read(title: str, folder: Path) -> Listing:
    text = BLOCKS[title].partition("\n---\n")[0]
    suffix = "json" if text.lstrip().startswith("{") else "csv" if text.startswith("Item,") else "txt"
    path = folder / f"list.{suffix}"
    path.write_text(text, encoding="utf-8")
    ((_, listing),) = read_listings(path, price_book())
    return listing


def _is_named(words: str, name: str) -> bool:
    return all(word in name.lower() for word in words.lower().split())


@pytest.mark.parametrize("title", BLOCKS)
def test_the_parts_of_a_list_are_those_that_a_builder_reads(title: str, tmp_path: Path) -> None:
    listing = _read(title, tmp_path)
    left = [(one.category, one.quantity, one.name) for one in listing.bill if one.category != "ram"]
    for row in BLOCKS[title].partition("\n---\n")[2].split("\n"):
        kind, number, words = (*row.split(" ", 2), "", "")[:3]
        if kind == "ram":
            memory = listing.machine.memory
            assert memory is not None
            assert (memory.capacity_bytes / GIB, memory.kit.ram_type) == (float(number), words)
        elif kind:
            found = [one for one in left if one[0] == kind and _is_named(words, one[2])]
            assert sum(one[1] for one in found) == int(number), (row, left)
            left = [one for one in left if one not in found]
    assert [one for one in left if one[0] not in SPOKEN_OF] == []


def _tells(word: str) -> tuple[bool, int]:
    """How well a word tells a part: by a digit, then by its length."""
    return (any(map(str.isdigit, word)), len(word))


@pytest.mark.parametrize("title", BLOCKS)
def test_no_name_of_a_part_is_lost_in_silence(title: str, tmp_path: Path) -> None:
    listing = _read(title, tmp_path)
    told = [line.text for line in listing.lines] + [line.name for line in listing.bill] + list(listing.notes)
    seen = re.sub(r"\W", "", write_units(write_in_english(" ".join(told))).lower())
    for row in BLOCKS[title].partition("\n---\n")[0].splitlines():
        text = write_units(write_in_english(row))
        lost = [
            text[one.start : one.end]
            for one in mentions_in(text)
            if one.kind
            not in ("ram", "storage")  # sizes are told twice, and of complete machines in their names
            and max(re.findall(r"\w+", text[one.start : one.end].lower()), key=_tells) not in seen
        ]
        assert lost == [], row
