"""Names of parts: which part of the catalog typed words mean, by the words that distinguish it, and near misses
otherwise."""

import difflib
import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, TypeVar

from advisor.catalog import accelerators, parts
from advisor.catalog.cpu_names import CPU_WORDS, cpu_by_number, find_cpu, plain_words
from advisor.catalog.errors import InputFileError
from advisor.catalog.schema.part import (
    FIGURES_ASSUMED,
    GRADE_UNKNOWN,
    PLUGS_UNKNOWN,
    Board,
    Cpu,
    CpuSeries,
    DisplayCard,
    GpuCard,
    Part,
    Psu,
    RamKit,
    Riser,
    Slot,
    board_tier,
)
from advisor.catalog.units import GIB
from advisor.workstation.assembly import EFFICIENCY, SERVER, TYPICAL
from advisor.workstation.card_names import DECORATION, find_card_name, usual_of
from advisor.workstation.foreign_words import regex, whole, word_table
from advisor.workstation.mentions import (
    LEAST_SUPPLY_W,
    MOST_SUPPLY_W,
    is_model_number,
    maker_words,
    mentions_in,
)
from advisor.workstation.system_names import find_systems
from advisor.workstation.typed_line import TypedLine, read_line

FILLER: Final = frozenset(word_table("overlooked")["filler"])
_ROMAN: Final = {"ii": "2", "iii": "3", "iv": "4"}
"""Numbers of a product's versions: makers and shops write either."""
PartT = TypeVar("PartT", bound=Part)
_KIND_WORDS: Final = word_table("kinds")
WORDS: Final = {kind: words for kind, words in _KIND_WORDS.items() if kind not in ("gpu", "other")}
_USUAL_PORTS: Final = 4
"""Number of cards on a switch board whose line states none."""
_SPOKEN: Final = whole("spoken")
"""Words of a title that no name of a part has."""
_LEAST_DDR5_MTS: Final = 4800.0
"""Lowest transfer rate at which modules of DDR5 are sold [MT/s] (JEDEC)."""
_USUAL_MTS: Final = {"DDR3": 1600.0, "DDR4": 3200.0, "DDR5": 4800.0}
"""Speed of modules of which only the size is named, by kind [MT/s]; every board runs it."""
_MOST_MODULES: Final = 48
"""Largest number of memory modules of a board: two sockets with twelve channels and two modules each."""
_LARGEST_MODULE: Final = {"DDR3": 8 * GIB, "DDR4": 32 * GIB, "DDR5": 64 * GIB}
"""Largest unbuffered module by kind [bytes]; registered ones have two to four times as much."""


def by_words(
    text: str, found: Iterable[PartT], *, strict: bool = False, of_one_series: bool = False
) -> PartT | None:
    """Return the part whose name contains every distinguishing word of the text, of several the one whose name
    adds the fewest words, with `of_one_series` first of other product lines, then the shortest; None if there is none.

    Words that no part of the pool bears are overlooked unless `strict`: shops add what a maker's name does not have.
    """
    sizes = set(regex("name.of_a_size").findall(text.lower()))
    return min(
        all_by_words(text, found, strict=strict),
        key=lambda part: (
            len(set(regex("name.of_a_size").findall(part.name.lower())) - sizes),
            of_one_series and len(other_series(part, text)),
            num_extra_words(part, text),
            len(part.name),
            part.name,
        ),
        default=None,
    )


def all_by_words(text: str, found: Iterable[PartT], *, strict: bool = False) -> list[PartT]:
    """Return every part that the words of a text may mean."""
    words = _telling(text)
    if not _tell_a_part(words):
        return []
    pool = [(part, _telling_of_name(f"{part.manufacturer} {part.name}")) for part in found]
    known: set[str] = set().union(*(names for _, names in pool))
    sizes = set(regex("name.of_a_size").findall(text.lower()))
    spellings = [words, _join_numbers(words, known)]
    # A shop's words for colours and kinds may stand in the name of another product alone.
    spellings += [] if strict else [[one for one in words if one not in _NO_SERIES]]
    for spelled in spellings:
        told = [
            one for one in spelled if strict or one in known or len(one) < 3 or any(map(str.isdigit, one))
        ]
        named = [
            part
            for part, names in pool
            if set(told) <= names and sizes <= set(plain_words(part.name).split()) and _tell_a_part(told)
        ]
        if named:
            return named
    return []


def _join_numbers(words: Sequence[str], known: AbstractSet[str]) -> list[str]:
    """Return words in which those that make one word of a name stand together: people write a space inside some
    numbers, such as `HS 420` and `NH-U12DX i4`."""
    found: list[str] = []
    for word in words:
        is_number = bool(found) and (word.isdigit() or any(map(str.isdigit, found[-1])))
        if is_number and f"{found[-1]}{word}" in known and not {found[-1], word} <= known:
            found[-1] += word
        else:
            found.append(word)
    return found


def _tell_a_part(words: Sequence[str]) -> bool:
    """Whether words are enough to tell a part: two, or a long model number, and letters in one that is no size."""
    is_model = any(len(word) >= 5 and is_model_number(word) for word in words)
    has_name = any(
        any(c.isalpha() for c in word) and not regex("mention.size_word").fullmatch(word) for word in words
    )
    return has_name and (len(words) > 1 or is_model)


def num_extra_words(part: Part, text: str) -> int:
    """Number of distinguishing words of a part's name that a text does not have, its maker apart."""
    bare = part.name.lower().removeprefix(part.manufacturer.lower())
    return len(set(_telling(bare)) - set(_telling(text)))


def other_series(part: Part, text: str) -> tuple[str, ...]:
    """Return the words of a part's name that a text does not have and that make it another product of its maker's
    line, as Slim in Pure Rock Slim 2 does: none of colours, sizes and forms."""
    others = {*_telling(text), *maker_words()}
    return tuple(word for word in _telling(part.name) if word not in others and _is_of_series(word))


def series_without_record(text: str, part: Part, kind: str) -> tuple[str, ...]:
    """Return the words of a text that stand in names of the catalog's parts of a kind, and not in that of the part:
    a product line of which no record was found. Without a maker, names have capitals."""
    known = _words_of_kind(kind) - _telling_of_name(f"{part.manufacturer} {part.name}") - maker_words()
    told = (
        text if maker_words() & set(plain_words(text).split()) else " ".join(re.findall(r"\b[A-Z]\w*", text))
    )
    return tuple(word for word in _telling(told) if word in known and _is_of_series(word))


def _is_of_series(word: str) -> bool:
    """Whether a word can name a product line: it has letters and at most the number of its version behind them (FTW3),
    and is no colour, form or size."""
    return regex("name.of_a_series").fullmatch(word) is not None and word not in _NO_SERIES


_NO_SERIES: Final = frozenset(
    (
        *word_table("phrases")["property"],
        *word_table("overlooked")["no_series"],
        *word_table("cards")["decoration"],
    )
)
"""Words of colours, forms, connectors and terms of sale, which many names have in every product line."""


@functools.cache
def _words_of_kind(kind: str) -> frozenset[str]:
    """Return the distinguishing words of the names of all parts of a kind."""
    pool = (*parts.all_parts()[kind], *parts.named_parts(kind))
    return frozenset[str]().union(*(_telling_of_name(part.name) for part in pool))


@functools.cache
def _telling_of_name(name: str) -> frozenset[str]:
    """Return the words that distinguish a part of the catalog; every line of a list asks for them again."""
    return frozenset(_telling(name))


def _telling(text: str) -> list[str]:
    """Return the words that distinguish a part from others of its kind; a size is one word with its unit."""
    joined = regex("name.joined_unit").sub(
        r"\1\2", regex("name.measure").sub(" ", regex("name.grade_mark").sub(" ", text))
    )
    return [
        _ROMAN.get(word, word.strip("."))
        for word in plain_words(joined).split()
        if word not in FILLER and not regex("mention.generic").fullmatch(word)
    ]


def is_title(line: TypedLine, *, is_labelled: bool = False) -> bool:
    """Whether a line names no part that is known, no price and no number of pieces, but what the list is about; above
    labelled rows (`is_labelled`) it may name one and a sum: `My dual 3090 build for 70B (total ~$2,600)`."""
    if line.category is not None or not regex("name.title").search(line.what):
        return False
    if is_labelled and _SPOKEN.search(line.text):
        return True
    if line.usd is not None or line.quantity > 1:
        return False
    return find_category(line) is None


def names_a_model(text: str, *allowed: str) -> bool:
    """Whether a line names a product, not only a kind and its size."""
    return any(
        not regex("mention.size_word").fullmatch(word) and word not in allowed for word in _telling(text)
    )


def category_of(line: TypedLine) -> str:
    """Return the kind of part that a line names.

    Raises: UnknownPartError: nothing in it is known; near misses are in the hint.
    """
    category = find_category(line)
    if category is not None:
        return category
    if _names_unknown_card(line):
        raise unknown_part(line, "card", gpu_names())
    names = [part.name for found in parts.all_parts().values() for part in found]
    raise unknown_part(line, "part", [*gpu_names(), *names])


def _names_unknown_card(line: TypedLine) -> bool:
    """Whether a line names a card by a number that is in no record."""
    words = set(re.findall(r"[a-z0-9.\-]+", line.what.lower()))
    return regex("name.model_number").search(line.what) is not None and not words & CPU_WORDS


def find_category(line: TypedLine) -> str | None:
    """Return the kind of part that a line names; None if nothing in it is known.

    Memory comes before processors and cards, since the speed of a module is also the number of a CPU (DDR5-5600).
    """
    text = regex("name.not_of_this_kind").sub(" ", line.what.lower())
    words = {word.strip(".") for word in re.findall(r"[a-z0-9.\-]+", text)}
    words |= set(re.findall(r"\b(?:ddr[345]|rdimms?|udimm)|[a-z0-9.]+", text))
    if regex("name.for_a_card").search(line.what):
        return "other"
    category = _category_by_model(line, words)
    if category is not None or _names_unknown_card(line):
        return category
    category = _category_by_words(line.what, words)
    if category is not None:
        return category
    plain = regex("name.revision").sub(" ", line.what)
    for category, found in parts.all_parts().items():
        pool = (*found, *parts.named_parts(category))
        if category in ("gpu", "cpu", *WORDS) and by_words(plain, pool, strict=True) is not None:
            return category
    named = mentions_in(line.what)
    return named[0].kind if named and named[0].kind != "gpu" else None


def _category_by_model(line: TypedLine, words: set[str]) -> str | None:
    """Return the kind of part by models, sizes and ratings that a line names; None if it names none."""
    for category in ("bridge", "riser", "link"):
        if words & set(WORDS[category]) and not regex("name.is_no_link").search(line.what):
            return (
                "gpu" if category == "riser" and regex("name.card_on_riser").search(line.what) else category
            )
    if regex("name.cable").search(line.what) and not mentions_in(line.what):
        return "other"
    if regex("name.carrier").search(line.what) and find_card_name(line.what) is None:
        return "bridge"
    if regex("name.switch").search(line.what) and find_card_name(line.what) is None:
        return "riser"
    if find_systems(line.what):
        return "system"
    if server_in(line.what) is not None:
        return "board"
    is_board = bool(words & set(WORDS["board"])) or board_by_chipset(line.what) is not None
    kinds = {one.kind for one in mentions_in(line.what)}
    is_memory = "ram" in kinds or bool(
        words & set(WORDS["ram"]) and regex("mention.gigabytes").search(line.what)
    )
    has_card = find_card_name(regex("name.plug_claim").sub(" ", line.what)) is not None
    # `Memory` stands in the names of cards too (24 GB Memory).
    if (
        is_memory
        and not is_board
        and (not has_card or words & (set(WORDS["ram"]) - {"ram", "memory", "ecc"}))
    ):
        return "ram"
    if has_card:
        return "gpu"
    if _names_unknown_card(line):
        return None
    if regex("mention.watts").search(line.what) and words & set(WORDS["psu"]):
        return "psu"
    if "cpu" in kinds or find_cpu(line.what) or cpu_by_number(line.what):
        return "cpu"
    return "psu" if "psu" in kinds and not words & set(WORDS["cooler"]) else None


_OF_A_SERVER: Final = whole("of_a_server")
"""Controllers of drives, remote management and rails with which used servers are sold."""
SERVICE_WORDS: Final = whole("service")
"""Work and terms that shops put on an invoice beside the parts."""


def _category_by_words(text: str, words: set[str]) -> str | None:
    """Return the kind of part by the words of a line that names no model that is known; None if no word tells."""
    if regex("mention.board_model").search(text):
        return "board"
    if regex("mention.cooler_model").search(text) or regex("name.loop_words").search(text):
        return "cooler"
    if regex("name.dock_adapter").search(text):
        return "other"
    if regex("name.bench").search(text) or regex("name.frame_words").search(text):
        return "case"
    if "breakout" in words:
        return "other"
    for category in ("board", "ram", "storage", "psu", "cooler", "case", "nic"):
        if words & set(WORDS[category]):
            # A kind of modules beside a chipset is a board's: `B760 DDR4`.
            is_board = (
                category == "ram"
                and not regex("mention.gigabytes").search(text)
                and board_by_chipset(text) is not None
            )
            return "board" if is_board else category
    if board_by_chipset(text) is not None or board_by_number(text) is not None:
        return "board"
    if words & set(_KIND_WORDS["other"]) or any(
        one.search(text)
        for one in (regex("name.is_no_link"), regex("name.fan_model"), _OF_A_SERVER, SERVICE_WORDS)
    ):
        return "other"
    if regex("name.dock").search(text):
        return "riser"
    if words & set(_KIND_WORDS["gpu"]):
        return "gpu"
    size = regex("mention.gigabytes").search(text)
    if size is not None and size.group(3).lower() == "tb":
        # Modules of a terabyte are named as memory, or by their transfer rate.
        return "ram" if regex("name.memory_speed").search(text) else "storage"
    return None


_LEAST_OWN_NUMBER: Final = 5
"""Shortest model number that belongs to one machine alone; a P620 is a card too, unless the line names its maker."""


def server_in(text: str) -> Board | None:
    """Return the server or the workstation, sold whole, whose model numbers stand in a line; None if there is none."""
    words = set(re.findall(r"[a-z0-9]+", _write_out(text)))
    matches = []
    for numbers, names, board in _servers():
        is_own = (
            len(numbers) > 1
            or any(len(number) >= _LEAST_OWN_NUMBER for number in numbers)
            or any(regex("name.server_number").fullmatch(number) for number in numbers)
        )
        if numbers and numbers <= words and (is_own or names & words):
            matches.append((len(numbers), len(names & words), board))
    # An EliteDesk 800 G5 is sold as a small one and as a tower.
    return max(matches, key=lambda match: match[:2])[2] if matches else None


def _write_out(text: str) -> str:
    """Return a text with the numbers of towers, generations of servers and towers' own word in one spelling."""
    plain = (
        regex("name.hpe_generation").sub(r"\1 gen\2", regex("name.tower_number").sub(r"T\1", text)).lower()
    )
    return re.sub(r"\b(?:mini[- ]?tower|c?mt|twr)\b", "tower", plain)


@functools.cache
def _servers() -> tuple[tuple[frozenset[str], frozenset[str], Board], ...]:
    """Return the words with a digit, and the others, of the name of each machine that is sold whole."""
    found = []
    for board in parts.planner_parts(Board):
        if SERVER in board.flags:
            words = re.findall(r"[a-z0-9]+", _write_out(board.name))
            numbers = frozenset(word for word in words if any(map(str.isdigit, word)))
            found.append((numbers, frozenset(words) - numbers, board))
    return tuple(found)


def link_in(text: str, cable: Riser) -> Riser | None:
    """Return the external dock or the switch board that a line names, with the other figures of a cable; None if it
    names neither.

    Source: OCuLink and Thunderbolt 5 carry PCIe 4.0 x4, Thunderbolt 3 and 4 and USB4 PCIe 3.0 x4 (32 Gbit/s).
    """
    switch = regex("name.switch").search(text)
    if switch is not None:
        ports = regex("name.switch_ports").search(text)
        num = int(ports.group(1) or ports.group(2)) if ports else _USUAL_PORTS
        generation = 3 if switch.group(1) in (None, "87") else 4
        figures = {"name": f"PCIe {generation}.0 switch board for {num} cards", "ports": min(num, 16)}
        return cable.model_copy(update={**figures, "pcie_generation": generation, "id": "typed-switch"})
    dock = regex("name.dock").search(text)
    if dock is None:
        return None
    is_newer = re.search(r"oculink|deg[12]|ag0[12]", text, re.IGNORECASE) is not None or dock.group(1) == "5"
    stated = regex("name.stated_link").search(text)
    generation = int(stated[1]) if stated is not None else 4 if is_newer else 3
    name = f"external dock, PCIe {generation}.0 x4"
    return cable.model_copy(
        update={"name": name, "lanes": 4, "pcie_generation": generation, "id": "typed-dock"}
    )


def usual_riser(*, is_narrow: bool = False) -> Riser:
    """Return a cable with all lanes, or one with a single lane over USB cables."""
    return next(one for one in parts.planner_parts(Riser) if (one.lanes == 1) == is_narrow)


def with_fans(card: GpuCard) -> GpuCard:
    """Return a card without fans with a blower at its end; any other card as it is."""
    return card.model_copy(update={"cooling": "blower"}) if card.cooling == "passive" else card


def names_something(text: str) -> bool:
    """Whether a text bears the marks of a product's name: a number, a capital letter behind its first word, a maker."""
    marks = r"\d" if text.isupper() else r"\d|\s[A-Z][A-Za-z]"
    return re.search(marks, text) is not None or _makers().search(text) is not None


def names_no_product(text: str) -> bool:
    """Whether a text bears no mark of a part: no maker, no family of CPUs or cards, and no number but of orders, dates
    and what it counts."""
    words = set(plain_words(text).split())
    if words & (CPU_WORDS | DECORATION | _FAMILIES) or _makers().search(text) is not None:
        return False
    return re.search(r"\d", regex("name.of_no_product").sub(" ", text)) is None


_FAMILIES: Final = frozenset(("rtx", "gtx", "rx", "arc"))
_MADE_KINDS: Final = ("board", "psu", "case", "cooler", "storage", "ram")
"""Kinds of part that people name by their makers; a card's maker stands beside the number that tells."""


def is_known(text: str) -> bool:
    """Whether a text names a kind of part that is known."""
    return kind_in(text) is not None


@functools.lru_cache(maxsize=4096)
def kind_in(text: str) -> str | None:
    """Return the kind of part that a text names; None if it names none."""
    try:
        return find_category(read_line(text, ""))
    except InputFileError:
        return None


@functools.cache
def _makers() -> re.Pattern[str]:
    """Return the pattern of the names of makers of boards, supplies, cases, coolers, drives and modules."""
    names = {
        part.manufacturer
        for kind in _MADE_KINDS
        for part in (*parts.all_parts()[kind], *parts.named_parts(kind))
    }
    ordered = sorted(filter(None, names), key=len, reverse=True)
    # Shops and people shorten the names of some makers to the first word.
    firsts = {name.split()[0] for name in ordered if len(name.split()[0]) > 4}
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, (*ordered, *sorted(firsts))))})(?!\w)", re.IGNORECASE)


def as_described(card: GpuCard, text: str) -> GpuCard:
    """Return a card with the width, the cooling and the height that a line states: a water block makes it narrower."""
    changes: dict[str, object] = {}
    width = regex("name.card_width").search(text)
    if width is not None:
        word = width.group(1).lower()
        changes["slots"] = float(word) if word.isdecimal() else {"single": 1.0, "one": 1.0}.get(word, 2.0)
    if regex("name.water").search(text):  # blocks and coolers with a radiator are two slots wide at most
        changes |= {"cooling": "liquid", "slots": changes.get("slots", min(card.slots, 2.0))}
    elif regex("name.blower").search(text):  # such coolers are two slots wide
        changes |= {"cooling": "blower", "slots": changes.get("slots", min(card.slots, 2.0))}
    if regex("name.low_profile").search(text) and not card.is_low_profile:
        changes |= {"is_low_profile": True, "length_m": min(card.length_m, HALF_LENGTH_M)}
    return card.model_copy(update=changes)


HALF_LENGTH_M: Final = 0.168
"""Length up to which most cards of half height are built [m] (PCIe card electromechanical specification, MD2)."""


def _alternatives_in(text: str) -> tuple[str, ...]:
    """Return the accelerators that a line names as alternatives; empty if it names one card."""
    found = regex("name.alternatives").search(text)
    named = [find_card_name(piece) for piece in found.group().split("/")] if found else []
    return tuple(dict.fromkeys(one for name in named if name is not None for one in name.accelerators))


def accelerator_of(line: TypedLine) -> str:
    """Return the accelerator of the graphics card that a line names; the smallest if the line leaves the memory open
    (`8GB or 12GB`).

    Raises: UnknownPartError: it names none, one that is in no record, or one of several.
    """
    named = find_card_name(line.what)
    several = _alternatives_in(line.text)
    if named is not None and len(several) > 1:
        named = replace(named, accelerators=several)
    if named is not None and len(named.accelerators) == 1:
        return named.accelerators[0]
    memory = {accelerators.by_id(name).memory_bytes for name in (named.accelerators if named else ())}
    if (
        named is not None
        and len(several) < 2
        and (len(memory) == 1 or (memory and regex("line.in_doubt").search(line.what)))
    ):
        return usual_of(named.accelerators)
    if named is not None and named.accelerators:
        raise ambiguous_part(line, "card", [accelerators.by_id(name).name for name in named.accelerators])
    why = ""
    if named is not None and named.is_module:
        why = f"{named.words} is a module for the board of a server, and no card"
    elif named is not None:
        sizes = " or ".join(f"{size} GB" for size in named.other_sizes_gb)
        why = f"{named.words} is in no record" + (f"; a card of this number has {sizes}" if sizes else "")
    raise unknown_part(line, "card", gpu_names(), why=why)


def pair_of(cpu: Cpu) -> Cpu:
    """Return two equal CPUs as one: cores, power, memory channels and lanes of both; two EPYCs keep half of their lanes
    for the link between them."""
    series = cpu.series
    shares_lanes = series.socket in ("SP3", "SP5")
    both = series.model_copy(
        update={
            "name": f"two {series.name}",
            "num_cpus": 2,
            "channels": 2 * series.channels,
            "slot_lanes": series.slot_lanes * (1 if shares_lanes else 2),
        }
    )
    figures = {"name": f"2 x {cpu.name}", "cores": 2 * cpu.cores, "power_w": 2 * cpu.power_w, "series": both}
    return cpu.model_copy(update={**figures, "max_ram_bytes": 2 * cpu.max_ram_bytes})


def display_card_in(line: TypedLine) -> DisplayCard | None:
    """Return the card for a screen that a line names; behind a label its number is enough, whose longest name counts.
    None of a card that runs models."""
    if find_card_name(line.what) is not None:
        return None
    words = set(re.findall(r"[a-z0-9]+", line.what.lower()))
    found = [
        card
        for card in parts.planner_parts(DisplayCard)
        if {
            word
            for word in card.name_words
            if line.category != "gpu" or any(map(str.isdigit, word)) or word == "ti"
        }
        <= words
    ]
    return max(found, key=lambda card: len(card.words), default=None)


def typical_card(cards: Sequence[GpuCard]) -> GpuCard:
    """Return the card in the middle of its kind by width, then by length: the most likely one if a line names no
    model. One that its maker clocks beyond the rated power of the accelerator is named by those who have it."""
    ordered = sorted(cards, key=lambda card: (card.slots, card.length_m, card.name))
    usual = ordered[len(ordered) // 2]
    rated = [card for card in ordered if card.power_w <= _rated_w(card)]
    return usual if usual in rated or not rated else rated[len(rated) // 2]


def _rated_w(card: GpuCard) -> float:
    """Rated power of the accelerator of a card [W]; that of the card if no source states it."""
    return accelerators.by_id(card.accelerator).tdp_w or card.power_w


@functools.cache
def _boards_by_chipset() -> dict[str, list[tuple[int, Board]]]:
    """Return the desktop boards by chipset, with their place among all; the socket SP names no chipset."""
    found: dict[str, list[tuple[int, Board]]] = {}
    for place, board in enumerate((*parts.planner_parts(Board), *parts.parts_for_lists(Board))):
        if not board.chipset.startswith("SP") and SERVER not in board.flags:
            found.setdefault(board.chipset, []).append((place, board))
    return found


def board_by_chipset(text: str, ram_type: str = "") -> Board | None:
    """Return, of the named chipset, the board that knows the lanes of most cards; one for the kind of modules that the
    list names, if there is one."""
    words = set(plain_words(regex("name.case_number").sub(" ", text)).upper().split())
    # A board of a smaller form factor writes it behind its chipset: A520M, B650I.
    words |= {word[:-1] for word in words if re.fullmatch(r"[ABHXZ]\d{3}[MI]", word)}
    placed = {place: board for word in words for place, board in _boards_by_chipset().get(word, ())}
    found = [board for _, board in sorted(placed.items())]
    alike = [board for board in found if board.ram_type == ram_type] or found
    chosen = max(
        [board for board in alike if board.id] or alike,
        key=lambda board: (
            board.max_cards,
            board_tier(board.name) != "flagship",
            -len(board.flags),
            board.ram_max_bytes,
        ),
        default=None,
    )
    if chosen is None:
        return None
    chosen = chosen.model_copy(update={"flags": (*chosen.flags, TYPICAL)})
    if not ram_type or chosen.ram_type == ram_type:
        return chosen
    kinds = {
        kind
        for series in parts.cpu_series().values()
        if chosen.chipset in series.chipsets
        for kind in series.ram_types
    }
    # Boards of one chipset are sold for either kind where its CPUs take both.
    return chosen.model_copy(update={"ram_type": ram_type}) if ram_type in kinds else chosen


_GIB_A_SLOT: Final = {"DDR3": 16, "DDR4": 32, "DDR5": 48}
"""Memory that a slot of a desktop board takes, by kind of module [GiB]."""
_ONE_MODULE_A_CHANNEL: Final = ("H61", "H81", "H110", "H310", "H410", "H510", "H610")
"""Chipsets that take one module a channel, others two (Intel ARK, "# of DIMMs per Channel")."""


def board_by_number(text: str, ram_type: str = "") -> Board | None:
    """Return a desktop board that no record holds, by the chipset in its name: socket, form factor and kind of module,
    which the name states or the list's memory tells; None if its chipset is of no series.

    Source: makers' numbering; flagged `figures_assumed`.
    """
    for found in regex("mention.chipset").finditer(regex("name.case_number").sub(" ", text)):
        chipset = f"{found[1]}{found[2]}".upper()
        known = [one for one in parts.cpu_series().values() if chipset in one.chipsets and not one.registered]
        if not known:
            continue
        kinds = {kind for series in known for kind in series.ram_types}
        named = regex("name.kind_in_name").search(text)
        stated = f"DDR{named[1] or named[2]}" if named else ""
        kind = next((one for one in (stated, ram_type) if one in kinds), max(kinds))
        size = (found[3] or "").upper()
        a_channel = 1 if size == "I" or chipset in _ONE_MODULE_A_CHANNEL else 2
        num_slots = a_channel * max(series.channels for series in known)
        board = Board(
            name=" ".join(text.split()),
            socket=known[0].socket,
            chipset=chipset,
            form_factor={"I": "Mini-ITX", "M": "Micro ATX"}.get(size, "ATX"),
            ram_type=kind,
            registered=False,
            ram_max_bytes=num_slots * _GIB_A_SLOT[kind] * GIB,
            ram_slots=num_slots,
            slots=(Slot(position=1, pcie_generation=_usual_generation(chipset, kind, known)),),
            lane_modes=((16,),),
            slots_known=size == "I",
            num_long_slots=1 if size else 2,
            m2_slots=1,
            flags=(FIGURES_ASSUMED, "layout_assumed"),
            source="chipset in the name",
        )
        return parts.with_line_lanes(board)
    return None


def _usual_generation(chipset: str, ram_type: str, known: Sequence[CpuSeries]) -> int:
    """Return the PCIe generation of the first slot of most boards with a chipset, or with its socket if no record has
    one, that take a kind of module; that of its CPUs if there is none. Makers wire it below what the CPU gives."""
    sold = (*parts.planner_parts(Board), *parts.parts_for_lists(Board))
    socket = known[0].socket
    alike = [one for one in sold if (one.socket, one.ram_type) == (socket, ram_type) and one.slots]
    same = [one for one in alike if one.chipset == chipset] or alike
    counts = Counter(one.slots[0].pcie_generation for one in same)
    given = max(series.pcie_generation for series in known)
    return min(given, max(counts, key=lambda generation: (counts[generation], -generation), default=given))


def grades_in(text: str) -> list[str]:
    """Return the grades of supplies that a text states; a maker's name (SilverStone) is none."""
    return [grade for grade in EFFICIENCY if re.search(rf"\b{grade}\b", text, re.IGNORECASE)]


def named_supply(watts: float, line: TypedLine) -> Psu:
    """Return a supply that no record holds, with the size of the line; its plugs are those of its product line, or
    unknown."""
    if watts > MOST_SUPPLY_W:
        raise UnknownPartError(
            line.where,
            f"supply {line.what!r}",
            why=f"no supply of a workstation has {watts:,.0f} W; one of {MOST_SUPPLY_W:,.0f} W is the largest",
            fix="write the rating of one supply, and their number before it: 2x 1600W",
        )
    stated = next(iter(grades_in(line.what)), None)
    psu = Psu(
        id="typed-supply",
        name=line.what,
        power_w=watts,
        grade=stated or "bronze",
        num_eps=0,
        flags=(PLUGS_UNKNOWN,) if stated else (PLUGS_UNKNOWN, GRADE_UNKNOWN),
        source="your list",
    )
    return parts.with_line_figures(psu)


def watts_of_label(text: str) -> float:
    """Rating in a line that a label names as a supply [W]: `PSU: EVGA 2000 G+`; 0 if no number can be one."""
    # A rating alone counts before one in a maker's number: `SF-2000F14HP`, `SSP-600ES2`.
    patterns = (r"(?<![\w.-])(\d{3,4})(?![\w.])", r"\b[A-Z]{2,4}-?(\d{3,4})(?=[A-Z])")
    found = [float(number) for pattern in patterns for number in re.findall(pattern, text)]
    return next(
        (watts for watts in found if watts % 50 == 0 and LEAST_SUPPLY_W <= watts <= MOST_SUPPLY_W), 0.0
    )


def psu_of(watts: float, line: TypedLine) -> Psu:
    """Return a usual supply of that size and grade; one with unknown plugs if the catalog has no supply of that size.

    Raises: UnknownPartError: no supply is so large.
    """
    same = [psu for psu in parts.planner_parts(Psu) if psu.power_w == watts]
    if not same:
        return named_supply(watts, line)
    grades = grades_in(line.what)
    graded = [psu for psu in same if psu.grade in grades]
    if not graded and grades:
        return named_supply(watts, line)  # no record of that grade, and another grade is another supply
    pool = graded or [psu for psu in same if psu.grade in ("gold", "platinum")] or same
    # New supplies of this size are ATX 3; the note says which one was taken.
    current = [psu for psu in pool if psu.is_atx3] or pool
    current = [psu for psu in current if f"{watts:.0f}W" in psu.name] or current
    ordered = sorted(current, key=lambda psu: (psu.num_eps, psu.num_16_pin, psu.num_8_pin, psu.name))
    usual = ordered[len(ordered) // 2]
    return usual.model_copy(update={"flags": (*usual.flags, TYPICAL)})


def _no_memory(line: TypedLine) -> InputFileError:
    return InputFileError(
        f"{line.what!r} is no memory of one machine",
        why=f"a board takes 1 to {_MOST_MODULES} modules",
        fix="correct it, e.g. 2x32GB DDR5",
    )


def kit_of(line: TypedLine, board: Board | None, cpu: Cpu | None) -> RamKit | None:
    """Return memory of the capacity that is named; anything else follows board and CPU."""
    sizes = list(regex("mention.gigabytes").finditer(line.what))
    if not sizes:
        return None
    match = next((size for size in sizes if size.group(1)), sizes[0])
    text = line.what.lower()
    size = float(match.group(2)) * (1024 if match.group(3).lower() == "tb" else 1) * GIB
    channels = cpu.series.channels if cpu else 2
    stated = int(match.group(1)) if match.group(1) else 1
    usual = board.ram_type if board else cpu.series.ram_types[0] if cpu else "DDR5"
    speed = regex("name.memory_speed").search(text)
    stated_mts = float(speed.group(1) or speed.group(2) or speed.group(3)) if speed else 0.0
    if not board and stated_mts:
        usual = _kind_at(stated_mts, cpu.series.ram_types if cpu else ("DDR4", "DDR5"))
    kind = next((k.upper() for k in ("ddr5", "ddr4", "ddr3") if k in text), usual)
    if not 1 <= stated <= _MOST_MODULES or not 0 < size <= 4 * _MOST_MODULES * _LARGEST_MODULE[kind]:
        raise _no_memory(line)
    needs = board.registered if board else cpu.series.registered if cpu else False
    num_stated = stated * line.quantity
    needs = needs or (board is None and cpu is None and num_stated > _MOST_UNBUFFERED)
    is_registered = regex("name.registered").search(text) is not None
    registered = is_registered or (needs and regex("name.unbuffered").search(text) is None)
    largest = _LARGEST_MODULE[kind] * (2 if registered else 1)
    coded = regex("name.kit_code").search(line.what)
    modules = _modules_in(line.what, size)
    if match.group(1):
        modules = stated
        size *= stated
    elif not modules and coded is not None:
        modules = int(next(filter(None, coded.groups())))
    elif not modules and line.quantity > 1 and "kit" not in text:
        modules = 1  # several of one size are that many modules
    modules = modules or _usual_modules(size, channels, kind, largest)
    if modules > _MOST_MODULES:
        raise _no_memory(line)
    module = size / modules
    is_plain = regex("name.without_ecc").search(text) is not None
    ecc = is_registered or (not is_plain and re.search(r"(?<!on-die )\becc\b", text) is not None)
    mts = stated_mts or _USUAL_MTS[kind]
    name = f"{modules} x {module / GIB:.0f} GB {kind}{' ECC' if ecc or registered else ''}"
    return RamKit(
        id="typed-memory",
        name=f"{name} {'RDIMM' if registered else 'UDIMM'}",
        ram_type=kind,
        registered=registered,
        ecc=ecc or registered,
        modules=modules,
        module_bytes=module,
        speed_mts=mts,
        source="your list",
    )


def _usual_modules(size: float, channels: int, kind: str, largest: float) -> int:
    """Number of modules of a kit that states only its size: as near to one in every channel as modules are sold."""
    sold = _SOLD_SIZES if kind == "DDR5" else _SOLD_SIZES - _DDR5_SIZES
    tried = (channels, *(2**power for power in range(6)), 6, 12, 24, 48)
    usable = [num for num in tried if size / num in sold and (8 * GIB <= size / num <= largest or num == 1)]
    wanted = max(2, channels)
    # Of two numbers that are as near, modules in every channel are the usual choice.
    modules = min(usable, key=lambda num: (abs(num - wanted), -num), default=wanted)
    while size / modules > largest:
        modules *= 2
    return modules


def kit_bytes(text: str) -> float:
    """Size of the memory that a text states with the number of its modules [bytes]; 0 if it states none."""
    found = regex("mention.gigabytes").search(text)
    if found is None:
        return 0.0
    scale = GIB if found.group(3).lower() != "tb" else 1024 * GIB
    return int(found.group(1) or 1) * float(found.group(2)) * scale


_DDR5_SIZES: Final = frozenset(size * GIB for size in (24, 48, 96))
"""Sizes of modules that only DDR5 has [bytes]."""
_SOLD_SIZES: Final = frozenset(size * GIB for size in (4, 8, 16, 32, 64, 128, 256)) | _DDR5_SIZES
"""Sizes in which modules are sold [bytes]."""
_MOST_UNBUFFERED: Final = 8
"""Most unbuffered modules that a board takes (LGA2011); more of them are registered ones."""


def module_kind(line: TypedLine) -> str:
    """Return the kind of module that a line names, or that is sold with the transfer rate of its memory; empty if it
    tells neither."""
    named = regex("list.ram_type").search(line.what)
    if named is not None:
        return named.group().upper()
    speed = regex("name.memory_speed").search(line.what.lower())
    is_memory = speed is not None and regex("mention.gigabytes").search(line.what) is not None
    if speed is None or not is_memory or (line.category or kind_in(line.what)) != "ram":
        return ""
    return _kind_at(float(next(filter(None, speed.groups()))), ("DDR4", "DDR5"))


def _kind_at(mts: float, kinds: Sequence[str]) -> str:
    """Return the kind of module that is sold with a transfer rate, among those that a CPU takes."""
    wanted = "DDR5" if mts >= _LEAST_DDR5_MTS else "DDR4"
    return wanted if wanted in kinds else kinds[0]


def _modules_in(text: str, size_bytes: float) -> int:
    """Return the number of modules of a kit whose line says `32GB 2x16` or `4 sticks`, 0 if none add up to it."""
    for found in regex("name.modules").finditer(text):
        modules = int(found.group(1))
        gigabytes = int(found.group(2))
        if modules and math.isclose(modules * gigabytes * GIB, size_bytes):
            return modules
    counted = regex("name.num_sticks").search(text)
    if counted is not None and size_bytes / int(counted[1]) in _SOLD_SIZES:
        return int(counted[1])
    return 0


def is_bare(text: str, category: str) -> bool:
    """Whether a line names nothing but the kind of part."""
    generic = word_table("overlooked")["of_a_kind"]
    generic += word_table("overlooked")["of_a_cooler"] if category == "cooler" else ()
    return set(re.findall(r"[a-z]+", text.lower())) <= {*WORDS[category], *FILLER, *generic}


def gpu_names() -> list[str]:
    """Return the accelerators of which the catalog has cards."""
    return sorted(
        {record.id for record in accelerators.all_accelerators()}
        & {c.accelerator for c in parts.planner_parts(GpuCard)}
    )


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Return names that look like `name`, the nearest first."""
    by_plain = {plain_words(candidate): candidate for candidate in names}
    wanted = plain_words(name).replace(" ", "")
    joined = {plain.replace(" ", ""): candidate for plain, candidate in by_plain.items()}
    close = difflib.get_close_matches(wanted, joined, n=5, cutoff=0.5)
    return [joined[key] for key in close]


class UnknownPartError(InputFileError):
    """Line that names a part of which there is no record, or several."""

    def __init__(self, where: str, part: str, *, why: str, fix: str, hint: str = "") -> None:
        super().__init__(f"{where}: {part}", why=why, fix=fix, hint=hint)
        self.part = part


def ambiguous_part(line: TypedLine, kind: str, names: Iterable[str]) -> UnknownPartError:
    """Return the error for a line that can mean parts with different figures."""
    return UnknownPartError(
        line.where,
        f"{kind} {line.what!r} can mean several",
        why="parts with unlike figures are called so",
        fix="write its full name",
        hint=", ".join(sorted(set(names), key=lambda name: (len(name), name))[:4]),
    )


def unknown_part(line: TypedLine, kind: str, names: Iterable[str], *, why: str = "") -> UnknownPartError:
    """Return the error for a line that names nothing known, with near misses."""
    close = near_names(line.what, names)
    return UnknownPartError(
        line.where,
        f"unknown {kind} {line.what!r}",
        why=why or "no part of the catalog is called so",
        fix="advisor catalog parts lists them; a kind alone (case $300) is priced, not judged",
        hint=f"did you mean: {', '.join(close)}" if close else "",
    )
