"""Mentions of parts in a text: where a text names a part, of which kind, by the longest name of the catalog or by the
grammar of figures (`32 GB DDR5-6000`, `1000 W`, `2 TB NVMe`)."""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog import models, parts
from advisor.catalog.cpu_names import CPU_WORDS, cpu_by_number, find_cpu, plain_words
from advisor.workstation.card_names import find_card_name
from advisor.workstation.foreign_words import word_table
from advisor.workstation.typed_line import MEMORY_LINES, RATES


@dataclass(frozen=True, slots=True)
class Mention:
    """Words of a text that name a part by its model or its figures."""

    start: int
    end: int
    kind: str
    """Category of the catalog."""


GENERIC: Final = re.compile(
    "motherboard|mainboard|board|power|supply|psu|certified|fully|full|semi|modular|80[+]?|bronze|silver|gold|"
    "platinum|titanium|solid|state|drive|ssd|nvme|m[.]2|2280|pcie|pci|express|x4|[3-5][.]0|internal|gen[3-5]|cooler|"
    "cooling|liquid|air|water|case|tower|mid|mini|e?atx|micro|computer|chassis|tempered|glass|am[45]|lga\\d{4}|"
    "pc|eeb|ceb|ssi|sp[356]|swrx8|str[45]|strx4|memory|ram|kit|video|ecc|reg|registered|[ru]?dimms?|sticks?|modules?|watts?"
)
"""Words that name the kind of a part, not the model."""
SIZE: Final = re.compile(r"\d+(?:\.\d+)?(?:x\d+)?(?:gb|tb|w)?|ddr[45]|cl\d\d")
SUPPLY_LINE: Final = re.compile(
    r"\b(?:hx|rm|ax|sf|cx|tx|px|gx)[- ]?(\d{3,4})[a-z]{0,2}\b"
    r"|\bevga\s+(\d{3,4})\s*(?:g[2-7st+]|t2|p[2-6]|b[1-5]|n1|ga|gm)\b"
    r"|\bws(\d{4})\b|\b(?:dps|meg ai|cooler master [vm])[- ]?(\d{3,4})[a-z]{0,2}\b"
    r"|\b(?:hela|leadex|toughpower|supernova|focus|prime|dark power|straight power|thor|edison|vertex|ion)\b"
    r".*?\b[a-z]{0,2}-?(\d{3,4})[a-z]{0,2}\b",
    re.IGNORECASE,
)
"""Product line of supplies, whose number is the rating [W]."""
BOARD_MODEL: Final = re.compile(
    r"\b(?:asus|asrock|gigabyte|msi|huananzhi|machinist|jingsha|supermicro|evga|biostar|tyan)\b.*"
    r"\b(?:[abhqxz]\d{2,3}[a-z]?|c\d{3}|[hx]\d{2}[a-z]{2,4}|m[zd]\d{2})(?:-|\b)"
    r"|\b(?:x(?:[89]|1[0-4])|h1[1-4])[a-z]{2,4}\w*-\w+|\b(?:romed|epycd|genoad|rome2d|mz[37]\d|mc62|x99)\w*-\w+",
    re.IGNORECASE,
)
"""Board by its maker and a chipset, such as `Huananzhi X99-F8D`, or by the number of a server's board alone, such as
`X10SRL-F`; no record of it may exist."""
COOLER_MODEL: Final = re.compile(
    r"\bnh-[a-z]\d|\bsnk-p\d|\bxe\d{2,3}-(?:tr|sp)\d"
    r"|\b(?:thermalright|deepcool ak\d|peerless assassin|dynatron|coolserver|liqtech|icegem|liquid freezer)\b",
    re.IGNORECASE,
)
CHIPSET: Final = re.compile(
    r"\b([ABCHQWXZ]\d{2,3}|T?RX\d{2}|WRX\d{2})(E?)(?:(I|M)(?![A-Za-z0-9])|A\b|(?=-[A-Za-z0-9])|(?<=\A[A-Z]\d{2})(?=\Z)|(?<=\A[A-Z]\d{3})(?=\Z)"
    r"|(?=\s(?:aorus|tomahawk|strix|tuf|prime|proart|taichi|steel|phantom|carbon|mortar|unify|godlike|apex|ud\d?|ds3h|gaming"
    r"|extreme4|killer|designare|vision|pro4|mobo|board)\b))",
    re.IGNORECASE,
)
"""Chipset in the name of a board, which a letter of its form factor, a hyphen or a line of boards continues: `B660M`,
`Z390-A`, `Z390 Aorus Pro`."""
GIGABYTES: Final = re.compile(r"(?:(\d{1,2})\s*[x×]\s*)?(\d{1,4}(?:\.\d+)?)\s*(GB|TB|GiB)\b", re.IGNORECASE)
WATTS: Final = re.compile(r"(?<![\d.])(\d{3,5})\s*W(?:att)?s?\b", re.IGNORECASE)
LEAST_SUPPLY_W: Final = 300.0
"""Rating of the smallest supply that a product's number is taken for [W]."""
MOST_SUPPLY_W: Final = 3300.0
"""Rating of the largest supply that is sold for one machine [W] (3,300 W, for miners and servers)."""
_SIZE: Final = r"\d{1,4}(?:\.\d+)?\s?[GT]i?B"
_MODULES: Final = r"\d{1,2}\s?[x×]\s?\d{1,3}\s?(?:GB)?"
_IN_A_KIT: Final = (
    rf"(?:of|kit|\(?{_MODULES}\)?|[A-Z][\w.]+|\d{{4,5}}|(?:dual|quad|octa|eight|\d{{1,2}})[- ]channel)"
)
"""Words between the size and the kind of memory."""
_OF_MEMORY: Final = (
    r"(?:l?p?ddr[345]x?|d?ram\b|memory\b|[lru]*-?dimms?\b|ecc\b|reg(?:istered)?\b|unified\b|system\b)"
)
_OF_A_DRIVE: Final = r"(?:nvme|ssds?|hdds?|m\.2|sata|hard\s+drives?|u\.2)\b"
_SIZE_ALONE: Final = re.compile(r"(?<![\w.])\d{1,4}\s?GB\b", re.IGNORECASE)
_MEMORY: Final = re.compile(
    rf"(?<![\w.$]){_SIZE}\s*\(\s*{_MODULES}\s*\)(?:\s*(?:ddr[345]\S*|ecc|[lru]*-?dimms?|\d{{4,5}})\b)*"
    rf"|(?<![\w.$])(?:\d{{1,2}}\s?[x×]\s?)?{_SIZE}s?\b(?:\s*[,(]?\s*{_IN_A_KIT}){{0,3}}\s*[,(]?\s*"
    rf"{_OF_MEMORY}(?:[- ]\d{{4,5}}\b)?"
    rf"|\b(?:ddr[345]|ram|memory)\b[- ]?(?:\d{{4,5}}\b)?[\s:,]*(?:\w+\s+){{0,2}}?(?:\d{{1,2}}\s?[x×]\s?)?{_SIZE}\b"
    rf"(?!\s*(?:\w+\s+)?{_OF_A_DRIVE})"
    rf"|(?<![\w.$])\d{{1,2}}\s?[x×]\s?\d{{1,3}}\s?GB\b(?!\s*(?:\w+\s+){{0,2}}(?:{_OF_A_DRIVE}|drive))"
    r"|\bddr[345][- ]?\d{4,5}\b(?:\s+CL\s?\d\d\b)?",
    re.IGNORECASE,
)
_MEMORY_BY_LINE: Final = re.compile(
    rf"(?<![\w.$]){_SIZE}\s+(?:(?:kit\s+)?{_MODULES}(?!\w)|(?:\w+\s+){{0,2}}?(?:{RATES}\b(?!\s*(?:rpm|mb))|{MEMORY_LINES}\b))"
    rf"|(?:\b{MEMORY_LINES}\b|(?<![\w.-]){RATES}\b)(?:\s+[\w.-]+){{0,4}}?\s+(?:\d{{1,2}}\s?[x×]\s?)?{_SIZE}\b",
    re.IGNORECASE,
)
"""Memory by its size with its modules, its transfer rate or its product line: `64GB 6000`, `Vengeance 32GB`."""
_DRIVE: Final = re.compile(
    rf"(?<![\w.$]){_SIZE}\b(?:\s+(?!and\b|with\b|of\b|{_SIZE})[\w.+/-]+){{0,3}}?\s*{_OF_A_DRIVE}"
    rf"|\b(?:nvme|ssd|hdd)\b[\s:]*{_SIZE}\b|\b(?:8[3-9]0|9[5-9]0|9100)\s+(?:evo|pro|qvo)\b|(?<![\w.$])\d{{1,2}}(?:\.\d+)?\s?TB\b",
    re.IGNORECASE,
)
_IS_NAMED_DRIVE: Final = re.compile(r"nvme|ssd|hdd|sata", re.IGNORECASE)
_SUPPLY: Final = re.compile(
    r"(?:(?<![\w.-])|(?<=\d[x×]))(?:[3-9]\d{2}|[1-3]\d{3})\s?W(?:att)?s?\b", re.IGNORECASE
)
_POWER_AHEAD: Final = re.compile(
    r"\b(?:limit\w*|cap\w*|held|undervolt\w*|tdp|draws?|pulls?|drawing|pulling|tgp|idle\w*|set|at|to|under|about|around)"
    r"(?:\s+(?:to|at|of|about|around))?\s*$",
    re.IGNORECASE,
)
"""Words before watts that are a power, and no rating of a supply."""
_POWER_BEHIND: Final = re.compile(
    r"\s*(?:(?:each|per\s+\w+)\s+)?(?:power[- ]?)?(?:limit|cap|tdp|tgp|max|under|at|from|draw)\b",
    re.IGNORECASE,
)
_SUPPLY_BEHIND: Final = re.compile(
    r"\s*(?:\w+\s+)?(?:psus?|power\s+suppl\w+|gold|platinum|titanium|bronze)\b", re.IGNORECASE
)
_CPU_FAMILY: Final = (
    r"(?:xeon|epyc|ryzen|threadripper|opteron|celeron|pentium|athlon|fx"
    r"|core\s+(?:i\d|ultra|m)|i[3579]|tr(?=\s+(?:pro\s+)?\d{4}))\b"
)
_CPU_WORDS: Final = (
    r"(?:[\s-]+(?:pro|threadripper|gold|silver|platinum|bronze|ai|max\+?|hx|scalable|gen(?:eration)?"
    r"|\d(?:st|nd|rd|th)(?:[\s-]+gen)?|naples|rome|milan|genoa|turin|[3579]|e[357]|w\d?|i[3579])(?![\w+]))*"
)
_CPU: Final = re.compile(
    rf"\b(?:(?:intel|amd)\s+)?{_CPU_FAMILY}{_CPU_WORDS}[\s-]*[A-Z]?\d{{3,5}}[A-Z]{{0,3}}\d?[A-Z]?\+?(?:[\s-]?v\d)?s?(?!\w)"
    r"|\b(?:gold|silver|platinum|bronze)\s+\d{4}[A-Z]{0,2}\b|\b(?:[5-9]\d{3}H[XS]|\d{3}HX)\b"
    r"|(?<![\w.$-])(?:e[357]-?\d{4}[A-Z]?(?:[\s-]?v\d)?s?|w[3579]?-\d{4}[A-Z]{0,2})\b",
    re.IGNORECASE,
)
_CPU_ALONE: Final = re.compile(
    r"(?<![\w.$/-])\d{4,5}(?:[A-Z]{1,3}(?:3D)?\d?|(?=[\s-]?v\d))(?:[\s-]?v\d)?\b", re.IGNORECASE
)
"""CPU by its number alone, with letters behind it: 5950X, 7800X3D."""
_CARD_BRAND: Final = (
    r"(?:(?:nvidia|geforce|amd|radeon|tesla|quadro|instinct|intel|rtx|gtx|rx|arc|titan|vega|cmp)[\s-]*)"
)
_CARD_WORDS: Final = (
    r"(?:ti|super|xtx?|gre|d|s|ada|max-?q|sxm\d?|pcie|nvl|fe|founders(?:\s+edition)?|laptop|mobile|sff|oc|hbm\d\w?"
    r"|blackwell|generation)s?\b"
)
_CARD: Final = re.compile(
    rf"(?<![\w.$€£+-]){_CARD_BRAND}*(?:(?:pro|ai)[\s-]+)*(?:(?<=\s)|\b|(?<=[a-z]))"
    rf"(?:[A-Z]{{0,3}}-?\d{{1,4}}[A-Z]{{0,4}}?|vii|xp|x|v)s?\b(?:[\s-]*(?:{_CARD_WORDS}"
    r"|\(?\d{1,3}\s?GB?s?\b\)?(?!\s*(?:ddr|d?ram\b|ecc|[lru]+dimm|nvme|ssd|memory\s+kit|of\b))))*",
    re.IGNORECASE,
)
_OF_A_BRAND: Final = re.compile(rf"{_CARD_BRAND}+\s*\w*\d{{3}}", re.IGNORECASE)
_TELLS_A_CARD: Final = re.compile(r"(?!x\d+$).*(?:\d|vii|titan)", re.IGNORECASE)
_IS_DRIVE: Final = re.compile(r"\s+(?:evo|pro|qvo)\b", re.IGNORECASE)
"""Words behind the number of a drive."""
_WORD: Final = re.compile(r"[A-Za-z0-9][\w.+/-]*", re.IGNORECASE)
_LEAST_NAME: Final = 2
"""Number of words of a name from which a text names a part of the catalog by it."""
_LEAST_LETTERS: Final = 5
"""Length of a word from which it may tell a product [characters]; shorter ones stand in many names."""


@functools.lru_cache(maxsize=4096)
def mentions_in(text: str) -> tuple[Mention, ...]:
    """Return what a text names, in its order; a longer name covers shorter ones."""
    text = _MONEY.sub(lambda amount: "\ue0ff" * len(amount.group()), text)
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
    for size in _SIZE_ALONE.finditer(text):
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
        watts = WATTS.fullmatch(words)
        if watts is None or _SUPPLY_BEHIND.match(text, one.end) or _APART.search(between):
            return False
        return (
            len(kinds) == 1 and float(watts[1]) <= _MOST_PART_W
        )  # beside parts of other kinds they are a supply's
    if one.kind == "storage" and place + 1 < len(found) and found[place + 1].kind == "ram":
        is_line = re.search(rf"\b{MEMORY_LINES}\b", words, re.IGNORECASE) is not None
        return is_line and re.fullmatch(r"[\w\s]*", text[one.end : found[place + 1].start]) is not None
    return False


_APART: Final = re.compile(r"[,;+&|/]|\s-\s|\b(?:and|with|w/|plus|on|in|psu)\b", re.IGNORECASE)
"""Signs and words that divide parts."""
_MOST_PART_W: Final = 600.0
"""Power of the card that takes the most [W] (RTX 5090, RTX PRO 6000 and H100 NVL take 400 to 600 W)."""
_MONEY: Final = re.compile(
    r"[$€£]\s?\d[\d.,]*(?:\s\d{3}(?!\d))*|\b\d[\d.,]*\s?(?:[€£$](?!\s?\d)|eur\b|usd\b)", re.IGNORECASE
)
"""Amounts of money, whose digits name no part."""


def _candidates(text: str) -> Iterator[Mention]:
    """Yield mentions, the surest kinds first."""
    for found in _DRIVE.finditer(text):
        if not _MEMORY.match(text, found.start()) or _IS_NAMED_DRIVE.search(found.group()):
            yield Mention(*found.span(), "storage")
    yield from (Mention(*found.span(), "system") for found in _systems().finditer(text))
    cards = list(_cards(text))
    yield from cards
    ends = {card.end for card in cards}
    starts = {len(text[: card.start].rstrip()) for card in cards}
    # A name directly behind or before that of a card is the card's edition: `RTX 5060 Ti Infinity 3`, `ASRock Creator
    # R9700`; one with a number before it is a part of its own.
    yield from (
        one
        for one in _find_names(text)
        if len(text[: one.start].rstrip()) not in ends
        and (one.end not in starts or any(map(str.isdigit, text[one.start : one.end])))
    )
    patterns = (
        (_MEMORY, "ram"),
        (_MEMORY_BY_LINE, "ram"),
        (BOARD_MODEL, "board"),
        (_CPU, "cpu"),
        (COOLER_MODEL, "cooler"),
    )
    for pattern, kind in patterns:
        yield from (Mention(*found.span(), kind) for found in pattern.finditer(text))
    for found in _CPU_ALONE.finditer(text):
        if find_cpu(found.group()) is not None or cpu_by_number(found.group()) is not None:
            yield Mention(*found.span(), "cpu")
    for found in SUPPLY_LINE.finditer(text):
        if supply_watts(found.group()):
            yield Mention(*found.span(), "psu")
    for found in _SUPPLY.finditer(text):
        is_power = _POWER_AHEAD.search(text, 0, found.start()) or _POWER_BEHIND.match(text, found.end())
        if not is_power or _SUPPLY_BEHIND.match(text, found.end()):
            yield Mention(*found.span(), "psu")
    for found in CHIPSET.finditer(text):
        if is_known_chipset(found.group()):
            yield Mention(*found.span(), "board")


_NEAR: Final = 24
"""Number of characters before a number in which the word stands that tells what it counts."""


def _cards(text: str) -> Iterator[Mention]:
    for found in _CARD.finditer(text):
        words = found.group().strip()
        if not _TELLS_A_CARD.match(words) or _IS_DRIVE.match(text, found.end()):
            continue
        # The word before a number tells what it counts: an OptiPlex 3060 is no card.
        before = text[max(0, found.start() - _NEAR) : found.start()].split()[-1:]
        is_named = (
            find_card_name(words) is not None and find_card_name(" ".join((*before, words))) is not None
        )
        if is_named or _OF_A_BRAND.match(words):
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
    words = list(_WORD.finditer(text))
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
        if length and match.string[words[length - 1].end() : match.start()].strip(" !"):
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
    own = {
        word
        for word in telling
        if not word.isdigit() and not GENERIC.fullmatch(word) and not SIZE.fullmatch(word)
    } - maker_words()
    is_named = any(len(word) >= _LEAST_LETTERS or is_model_number(word) for word in own)
    return length if is_named and len(telling) >= _LEAST_NAME else 0


def is_known_chipset(text: str) -> bool:
    """Whether a text is a chipset of which CPUs of the catalog are sold."""
    found = CHIPSET.search(text)
    names = {chipset for one in parts.cpu_series().values() for chipset in one.chipsets}
    return found is not None and f"{found[1]}{found[2]}".upper() in names


def supply_watts(text: str) -> float:
    """Rating of a supply that its product's number states [W], as `Corsair HX1500i` does; 0 if there is none."""
    found = SUPPLY_LINE.search(text)
    watts = float(next(filter(None, found.groups()))) if found else 0.0
    return watts if watts >= LEAST_SUPPLY_W and watts % 25 == 0 and watts <= MOST_SUPPLY_W else 0.0


def is_model_number(word: str) -> bool:
    """Whether a word is letters and digits, and no size."""
    mixed = any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    return mixed and not SIZE.fullmatch(word)


_MODEL_WORD: Final = re.compile(r"[\w.]*\w")
_LONGEST_MODEL: Final = 6
"""Largest number of words of a language model's name that is looked up: `Qwen2.5-Coder 32B Instruct AWQ`."""


@functools.lru_cache(maxsize=4096)
def language_models_in(text: str) -> tuple[str, ...]:
    """Return the language models that a text names outside its mentions of parts: at each place the longest name with a
    number that the catalog has."""
    parts_of_text = mentions_in(text)
    words = [
        word
        for word in _MODEL_WORD.finditer(text)
        if not any(one.start < word.end() and word.start() < one.end for one in parts_of_text)
    ]
    found = []
    place = 0
    while place < len(words):
        runs = (words[place : place + num] for num in range(_LONGEST_MODEL, 0, -1))
        names = ((len(run), text[run[0].start() : run[-1].end()]) for run in runs)
        length, name = next((one for one in names if _is_language_model(one[1])), (1, ""))
        place += length
        found += [name] if name else []
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _is_language_model(name: str) -> bool:
    record = models.find(name) if re.search(r"\d", name) else None
    return record is not None and record.workload == "decoder"
