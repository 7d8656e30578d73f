"""Mentions of parts in a text: where a text names a part, of which kind, by the longest name of the catalog or by the
grammar of figures (`32 GB DDR5-6000`, `1000 W`, `2 TB NVMe`)."""

import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog import models, parts
from advisor.catalog.cpu_names import CPU_WORDS, cpu_by_number, find_cpu, plain_words
from advisor.catalog.schema.part import GpuCard
from advisor.catalog.units import GIGA
from advisor.simulator.graph.model import parameter_count
from advisor.workstation.card_names import DECORATION, find_card_name
from advisor.workstation.foreign_words import regex, whole, word_table
from advisor.workstation.typed_line import MEMORY_LINES


@dataclass(frozen=True, slots=True)
class Mention:
    """Words of a text that name a part by its model or its figures."""

    start: int
    end: int
    kind: str
    """Category of the catalog."""


LEAST_SUPPLY_W: Final = 300.0
"""Rating of the smallest supply that a product's number is taken for [W]."""
MOST_SUPPLY_W: Final = 3300.0
"""Rating of the largest supply that is sold for one machine [W] (3,300 W, for miners and servers)."""
_LEAST_NAME: Final = 2
"""Number of words of a name from which a text names a part of the catalog by it."""
_LEAST_LETTERS: Final = 5
"""Length of a word from which it may tell a product [characters]; shorter ones stand in many names."""


@functools.lru_cache(maxsize=4096)
def mentions_in(text: str) -> tuple[Mention, ...]:
    """Return what a text names, in its order; a longer name covers shorter ones."""
    text = regex("mention.money").sub(lambda amount: "\ue0ff" * len(amount.group()), text)
    found: list[Mention] = []
    for one in _candidates(text):
        across = [other for other in found if one.start < other.end and other.start < one.end]
        if all(other.kind == one.kind for other in across):
            found = [other for other in found if other not in across]
            spans = (one, *across)
            found.append(Mention(min(one.start for one in spans), max(one.end for one in spans), one.kind))
    found.sort(key=lambda one: one.start)
    found = [one for place, one in enumerate(found) if not _is_of_next_to(text, found, place)]
    # A size alone behind a CPU or a machine is that of its memory: `i7-6700 16GB`.
    for size in regex("mention.size_alone").finditer(text):
        ahead = [one for one in found if one.end <= size.start()]
        is_free = all(size.end() <= one.start or one.end <= size.start() for one in found)
        if (
            is_free
            and ahead
            and ahead[-1].kind in ("cpu", "board")
            and text[ahead[-1].end : size.start()].isspace()
        ):
            found = sorted((*found, Mention(*size.span(), "ram")), key=lambda one: one.start)
    return tuple(found)


def _is_of_next_to(text: str, found: Sequence[Mention], place: int) -> bool:
    """Whether a mention is a figure or a word of the part next to it: `7985WX 350W`, `FURY Renegade 64GB DDR5`."""
    one = found[place]
    words = text[one.start : one.end]
    if one.kind == "psu" and place and found[place - 1].kind in ("cpu", "gpu"):
        kinds = {other.kind for other in found if other.kind != "psu"}
        between = text[found[place - 1].end : one.start]
        if regex("mention.in_brackets").search(between) and text[one.end :][:1] == ")":
            return True
        watts = regex("mention.watts").fullmatch(words)
        if (
            watts is None
            or regex("mention.supply_behind").match(text, one.end)
            or regex("mention.apart").search(between)
        ):
            return False
        # Beside parts of other kinds they are a supply's.
        return len(kinds) == 1 and float(watts[1]) <= _MOST_PART_W
    if one.kind == "storage" and place + 1 < len(found) and found[place + 1].kind == "ram":
        is_line = re.search(rf"\b{MEMORY_LINES}\b", words, re.IGNORECASE) is not None
        return is_line and re.fullmatch(r"[\w\s(]*", text[one.end : found[place + 1].start]) is not None
    return False


_MOST_PART_W: Final = 600.0
"""Power of the card that takes the most [W] (RTX 5090, RTX PRO 6000 and H100 NVL take 400 to 600 W)."""


def _candidates(text: str) -> Iterator[Mention]:
    """Yield mentions, the surest kinds first."""
    for found in regex("mention.drive").finditer(text):
        if not regex("mention.memory").match(text, found.start()) or regex("mention.is_named_drive").search(
            found.group()
        ):
            yield Mention(*found.span(), "storage")
    yield from (Mention(*found.span(), "system") for found in _systems().finditer(text))
    cards = list(_cards(text))
    yield from cards
    ends = {card.end for card in cards}
    starts = {place for card in cards for place in _ends_before(text, card.start)}
    # A name directly behind or before that of a card is the card's edition: `RTX 5060 Ti Infinity 3`, `ASRock Creator
    # R9700`, `ROG STRIX GAMING OC GeForce RTX 4090`; one with a number before it is a part of its own.
    yield from (
        one
        for one in _find_names(text)
        if len(text[: one.start].rstrip()) not in ends
        and not _is_edition_in_brackets(text, one, ends)
        and (one.end not in starts or any(map(str.isdigit, text[one.start : one.end])))
    )
    for name, kind, is_kind in _FIGURES:
        for found in regex(f"mention.{name}").finditer(text):
            if is_kind is None or is_kind(found):
                yield Mention(*found.span(), kind)


def _is_edition_in_brackets(text: str, name: Mention, ends: Collection[int]) -> bool:
    """Whether a name stands in brackets behind a card, of which it tells the maker or the product line: `RTX 3070
    (Gigabyte Eagle)`."""
    ahead = text[: name.start].rstrip()
    is_behind = ahead[-1:] in ("(", "[") and len(ahead[:-1].rstrip()) in ends
    return is_behind and is_of_cards(text[name.start : name.end])


def _ends_before(text: str, start: int) -> Iterator[int]:
    """Yield where the words before a card end, with and without those that any card's name may have: `OC`."""
    end = len(text[:start].rstrip())
    yield end
    known = (words_of_cards() - PROPERTY_WORDS) | DECORATION
    while (word := re.search(r"[A-Za-z]+$", text[:end])) and word.group().lower() in known:
        end = len(text[: word.start()].rstrip())
        yield end


def _is_cpu(found: re.Match[str]) -> bool:
    return find_cpu(found.group()) is not None or cpu_by_number(found.group()) is not None


def _is_supply(found: re.Match[str]) -> bool:
    """Whether watts are the rating of a supply, and no power that a part takes."""
    is_power = regex("mention.power_ahead").search(found.string, 0, found.start())
    is_power = is_power or regex("mention.power_behind").match(found.string, found.end())
    return not is_power or regex("mention.supply_behind").match(found.string, found.end()) is not None


_FIGURES: Final[tuple[tuple[str, str, Callable[[re.Match[str]], bool] | None], ...]] = (
    ("cpu", "cpu", None),
    ("memory", "ram", None),
    ("memory_by_line", "ram", None),
    ("board_model", "board", None),
    ("cooler_model", "cooler", None),
    ("rack_case", "case", None),
    ("cpu_alone", "cpu", _is_cpu),
    ("supply_line", "psu", lambda found: supply_watts(found.group()) > 0.0),
    ("supply", "psu", _is_supply),
    ("chipset", "board", lambda found: is_known_chipset(found.group())),
)
"""Patterns of figures and numbers by the kind of part that they tell, the surest first, and what must hold beside."""
_NEAR: Final = 24
"""Number of characters before a number in which the word stands that tells what it counts."""


def _cards(text: str) -> Iterator[Mention]:
    for found in regex("mention.card").finditer(text):
        words = found.group().strip()
        is_chipset = is_known_chipset(words.split()[-1]) and find_card_name(words) is None
        is_drive = regex("mention.is_drive").match(text, found.end())
        if not regex("mention.tells_a_card").match(words) or is_drive or is_chipset:
            continue
        # The word before a number tells what it counts: an OptiPlex 3060 is no card.
        before = text[max(0, found.start() - _NEAR) : found.start()].split()[-1:]
        is_named = (
            find_card_name(words) is not None and find_card_name(" ".join((*before, words))) is not None
        )
        if is_named or regex("mention.of_a_brand").match(words):
            yield Mention(*found.span(), "gpu")


@functools.cache
def _systems() -> re.Pattern[str]:
    """Return the pattern of the names of complete machines, without their memory."""
    names = {
        re.sub(r"\(.*?\)|^Used |,.*|\b\d+\s*GB\b.*|\b(?:NVIDIA|AMD|Apple|ASUS|Lenovo) ", " ", name).strip()
        for system in parts.systems()
        for name in (system.name, *system.aliases)
    }
    patterns = (
        r"[\s-]*".join(map(re.escape, name.split())) for name in sorted(names, key=len, reverse=True) if name
    )
    return re.compile(rf"\b(?:{'|'.join(patterns)})s?(?![\w])(?:\s*\(?\d{{1,4}}\s?GB\b\)?)?", re.IGNORECASE)


@functools.cache
def _index() -> dict[str, tuple[frozenset[int], ...]]:
    """Return the numbers of the names that hold a word, by the word, for each kind that is known by its name."""
    found: dict[str, list[set[int]]] = {}
    for place, kind in enumerate(_NAMED_KINDS):
        for number, part in enumerate((*parts.all_parts()[kind], *parts.named_parts(kind))):
            for word in plain_words(f"{part.manufacturer} {part.name}").split():
                found.setdefault(word, [set() for _ in _NAMED_KINDS])[place].add(number)
    return {word: tuple(map(frozenset, sets)) for word, sets in found.items()}


_NAMED_KINDS: Final = ("board", "psu", "case", "cooler", "storage")
_COMMON: Final = frozenset(word_table("overlooked")["common"])
"""Words of many names, which alone tell no product."""
PROPERTY_WORDS: Final = frozenset(word_table("phrases")["property"])
"""Words that tell how a part is built or sold."""
_ARTICLES: Final = frozenset(("a", "an", "with", "for", "of", "and", "to", "on"))
_OTHER_LINES: Final = (
    CPU_WORDS | set(MEMORY_LINES.strip("(?:)").split("|")) | set(word_table("overlooked")["other_lines"])
)
"""Words of makers' other products, which also stand in names of boards, supplies and drives."""


@functools.cache
def maker_words() -> frozenset[str]:
    """Return the words of the names of makers."""
    names = (
        part.manufacturer
        for kind in ("gpu", *_NAMED_KINDS)
        for part in (*parts.all_parts()[kind], *parts.named_parts(kind))
    )
    return frozenset(word for name in names for word in plain_words(name).split() if word != "in")


def _find_names(text: str) -> Iterator[Mention]:
    """Yield the longest runs of words that stand together in one name of the catalog."""
    words = list(regex("mention.word").finditer(text))
    index = _index()
    place = 0
    while place < len(words):
        best: tuple[int, str] | None = None
        if words[place].group().lower() in _ARTICLES:
            place += 1
            continue
        for kind in range(len(_NAMED_KINDS)):
            length = _run_length(words[place:], index, kind)
            if length and (best is None or length > best[0]):
                best = (length, _NAMED_KINDS[kind])
        if best is None:
            place += 1
            continue
        last = words[place + best[0] - 1]
        yield Mention(words[place].start(), last.start() + len(last.group().rstrip("./-")), best[1])
        place += best[0]


def _run_length(
    words: Sequence[re.Match[str]], index: dict[str, tuple[frozenset[int], ...]], kind: int
) -> int:
    """Number of words from the first on that are all in one name, 0 if they are too few or too common to tell it."""
    names: frozenset[int] | None = None
    telling: set[str] = set()
    length = 0
    for match in words:
        before = words[length - 1] if length else None
        if before is not None:
            is_end = regex("mention.end_of_sentence").fullmatch(before.group()) is not None
            if is_end or match.string[before.end() : match.start()].strip(" !"):
                break  # other signs stand between two words
        plain = plain_words(match.group()).split()
        sets = [index[word][kind] if word in index else frozenset() for word in plain]
        if not plain:
            break
        both = frozenset.intersection(*sets, *([names] if names is not None else []))
        if not both:
            break
        names = both
        length += 1
        telling |= set(plain)
    telling -= _COMMON | _OTHER_LINES
    own = {word for word in telling if not word.isdigit() and not is_generic(word)} - maker_words()
    is_named = any(len(word) >= _LEAST_LETTERS or is_model_number(word) for word in own)
    if words and all(match.group().isalpha() and match.group().islower() for match in words[:length]):
        is_named = is_named and bool(telling & maker_words())  # `speed up` in a sentence is no drive
    return length if is_named and len(telling) >= _LEAST_NAME else 0


@functools.cache
def words_of_cards() -> frozenset[str]:
    names = (f"{card.manufacturer} {card.name}" for card in parts.planner_parts(GpuCard))
    return frozenset(word for name in names for word in plain_words(name).split())


def is_of_cards(text: str) -> bool:
    """Whether words stand in the names of cards, apart from those of any part: `WINDFORCE Cooling System`."""
    words = {word for word in plain_words(text).split() if not is_generic(word)} - PROPERTY_WORDS
    return bool(words) and words <= words_of_cards()


def kind_of_name(text: str) -> str | None:
    """Return the kind of the parts whose names alone bear a capital word, as people shorten them: `Torrent`; None if
    names of several kinds do, or none."""
    plain = plain_words(text)
    if not text.istitle() or len(plain) < _LEAST_LETTERS or plain in _COMMON | _OTHER_LINES | maker_words():
        return None
    kinds = [kind for kind, named in zip(_NAMED_KINDS, _index().get(plain, ()), strict=False) if named]
    return kinds[0] if len(kinds) == 1 else None


def is_known_chipset(text: str) -> bool:
    """Whether a text is a chipset of which CPUs of the catalog are sold."""
    found = regex("mention.chipset").search(text)
    names = {chipset for one in parts.cpu_series().values() for chipset in one.chipsets}
    return found is not None and f"{found[1]}{found[2]}".upper() in names


def supply_watts(text: str) -> float:
    """Rating of a supply that its product's number states [W], as `Corsair HX1500i` does; 0 if there is none."""
    found = regex("mention.supply_line").search(text)
    watts = float(next(filter(None, found.groups()))) if found else 0.0
    return watts if watts >= LEAST_SUPPLY_W and watts % 25 == 0 and watts <= MOST_SUPPLY_W else 0.0


def rated_watts(text: str) -> float:
    """Rating of a supply that a text states in watts or by its product's number [W]; 0 if it states none."""
    found = regex("mention.watts").search(text)
    return float(found[1]) if found is not None else supply_watts(text)


def is_generic(word: str) -> bool:
    """Whether a word names a kind of part or a size, not a product."""
    return any(one.fullmatch(word) for one in (regex("mention.generic"), regex("mention.size_word")))


def is_model_number(word: str) -> bool:
    """Whether a word is letters and digits, and no size."""
    mixed = any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    return mixed and not regex("mention.size_word").fullmatch(word)


_IMAGE_MODEL: Final = whole("image_model")
"""Usual names of image models without a number."""
_LONGEST_MODEL: Final = 6
"""Largest number of words of a language model's name that is looked up: `Qwen2.5-Coder 32B Instruct AWQ`."""


@functools.lru_cache(maxsize=4096)
def model_names_in(text: str) -> tuple[str, ...]:
    """Return the language and image models that a text names outside its mentions of parts: at each place the longest
    name with a number that the catalog has, or a usual name of an image model."""
    parts_of_text = mentions_in(text)
    words = [
        word
        for word in regex("mention.model_word").finditer(text)
        if not any(one.start < word.end() and word.start() < one.end for one in parts_of_text)
    ]
    found = []
    place = 0
    while place < len(words):
        runs = (words[place : place + num] for num in range(_LONGEST_MODEL, 0, -1))
        names = ((len(run), _model_name(text[run[0].start() : run[-1].end()])) for run in runs)
        length, name = next((one for one in names if one[1]), (1, ""))
        place += length
        found += [name] if name else []
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _model_name(text: str) -> str:
    """Return the name by which the catalog has the model that words name with a number, or with a size that is that of
    the model (`Mistral Large 123B`); empty if they name none."""
    size = regex("mention.size_of_model").fullmatch(text)
    if re.search(r"\d", text) or _IMAGE_MODEL.fullmatch(text):
        record = models.find(text)
        if record is not None:
            return text if record.workload in ("decoder", "diffusion") else ""
    if size is None or (record := models.find(size[1])) is None or record.workload != "decoder":
        return ""
    billions = parameter_count(record).total / GIGA
    return size[1] if abs(billions - float(size[2])) <= _SAME_SIZE * billions else ""


_SAME_SIZE: Final = 0.05
"""Largest difference of a model's weights and the size behind its name, over the first: names round it."""
