"""User's parts list, as free text or fields, turned into a machine with its bill."""

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from advisor.catalog import accelerators, parts
from advisor.catalog.cpu_names import cpu_by_number, find_cpu, plain_words
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_json, read_toml
from advisor.catalog.part_prices import PriceBook, price_of
from advisor.catalog.schema.part import (
    PLUGS_UNKNOWN,
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    GpuCard,
    Nic,
    Part,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
    System,
)
from advisor.catalog.units import GB
from advisor.workstation.assembly import (
    SERVER,
    Assembly,
    Cards,
    Circuit,
    Memory,
    Risers,
    Supplies,
)
from advisor.workstation.card_names import find_card_name
from advisor.workstation.foreign_words import write_in_english
from advisor.workstation.list_remarks import (
    split_alternatives,
    split_off_additions,
    split_off_circuit,
    split_off_swaps,
    with_additions,
    with_shared_names,
    with_swaps,
)
from advisor.workstation.part_names import (
    FRAME_WORDS,
    GIGABYTES,
    HAS_FANS,
    LOOP_WORDS,
    PLUG_CLAIM,
    REVISION,
    WATTS,
    WORDS,
    UnknownPartError,
    accelerator_of,
    all_by_words,
    ambiguous_part,
    as_described,
    board_by_chipset,
    board_by_number,
    by_words,
    category_of,
    from_start,
    grades_in,
    is_bare,
    is_known,
    is_title,
    kit_of,
    link_in,
    named_supply,
    names_a_model,
    names_something,
    num_extra_words,
    pair_of,
    psu_of,
    server_in,
    supply_watts,
    typical_card,
    unknown_part,
    watts_of_label,
    with_fans,
    without_words,
    write_out,
)
from advisor.workstation.picker_text import read_picker_text, read_table_text
from advisor.workstation.plan import PartLine, part_line, total_of
from advisor.workstation.system_names import (
    can_join,
    find_systems,
    with_laptop_cards,
    with_memory,
    with_other_memory,
)
from advisor.workstation.typed_line import (
    LABELS,
    NUMBER_WORDS,
    TypedLine,
    check_length,
    price_number,
    read_line,
    with_factor,
    write_units,
)

_DISK: Final = re.compile(r"\brpm\b|hard drive|\bhdd\b|\bsata\b|2\.5\"", re.IGNORECASE)
MOST_PARTS: Final = 256
"""Largest number of parts in one list. A tower of eight cards has about 40."""
MOST_CARDS: Final = 20
"""Largest number of cards in one list. Boards with the most slots, for mining, have 19."""
_BRIDGE_WORDS: Final = re.compile(r"\b(?:nv-?link(?:ed)?|bridged?s?|bridges)\b", re.IGNORECASE)
_NO_BRIDGE: Final = re.compile(
    r"\b(?:no|without|w/o)\s+(?:nv-?link|bridge)\w*|\bnv-?link[- ](?:capable|ready|support\w*)", re.IGNORECASE
)
_BRIDGE_ALONE: Final = re.compile(
    r"^\W*(?:nv-?link|bridge)\b|\bbridge\b.*\bfor\b|\bnv-?link\s+(?:hb\s+)?bridges?\b(?!\s*d)", re.IGNORECASE
)
_ARE_BRIDGED: Final = re.compile(r"\bbridged\b|nv-?linked", re.IGNORECASE)
_JOINED: Final = re.compile(
    r"\s+(?:\+|&|with|w/|and|plus|under|beneath|inside|into|cooled\s+by|powered\s+by|fed\s+by|housed\s+in"
    r"|in(?=\s+(?:an?|my|the|our)\s+[A-Z]))\s+",
    re.IGNORECASE,
)
_OWN_PART: Final = re.compile(
    r"\s(?i:and|with|plus|in|inside|into|under|beneath|by)\s+(?i:an?|my|the|our)\s+(?=[A-Z])"
)
"""Words before a part with an article and a name, which is a part of its own whether a record holds it or not."""
_JOINED_KINDS: Final = ("gpu", "psu")
"""Kinds of which one line may join several unlike parts: `RTX 3090 Ti + RTX 4090`, `EVGA 1600W + Corsair RM750x`."""
_LISTED: Final = re.compile(
    r"\s*[,;]\s+|(?<=\w)\?+\s+(?=[A-Za-z0-9])|\s+/\s+|\s+\|\s+|\s[-–—]\s(?=\d{1,2}\s?[x×]\s)|(?<=[A-Za-z0-9)])\.\s+(?=[A-Z])"
    r"|(?<=[A-Za-z0-9)]{3})(?i:(?<!incl)(?<!approx)(?<!max)(?<!min)(?<!rev)(?<!ver)(?<!pos)(?<!qty))\.\s+(?=[a-z\d])"
)
_BRACKETED_TEXT: Final = re.compile(r"[(\[][^)\]]*[)\]]")
_HIDE_COMMAS: Final = str.maketrans(",;/|", "\ue000\ue001\ue002\ue003")
_SHOW_COMMAS: Final = str.maketrans("\ue000\ue001\ue002\ue003", ",;/|")
_APART: Final = re.compile(r"\s[-–—]\s|(?<=[a-z0-9)])\.\s+(?=[A-Z])|\s(?=on\s+an?\s+[A-Z])")
"""Dashes, and ends of sentences, between the parts of one line."""
_ARTICLE: Final = re.compile(r"^(?:an?|my|the|our)\s+", re.IGNORECASE)
_LEAD_IN: Final = re.compile(
    r"^(?:on\s+an?|(?:I|we)\b[^\d\n]*?\b(?:have|got|bought|own|run|add|use|buy|get|with|running|using|adding"
    r"|(?:drop(?:ping)?|put(?:ting)?|throw(?:ing)?|stick(?:ing)?)\s+in|pick(?:ed|ing)?\s+up|grabbed|scored|found|built|ordered)"
    r"|(?:it|the\s+\w+)\s+(?:has|is|runs)"
    r"|(?:want|plan|hope|going|planning|thinking|looking|gonna)\s+(?:(?:to|of|on)\s+)?(?:add|put|drop|use|get|buy|run|throw|install)\w*(?:\s+in)?"
    r"|(?:adding|added|bought|got|using|running|plus|then))\s+(?:an?\s+|the\s+|my\s+)?(?:used\s+|old\s+|refurb\w*\s+)?",
    re.IGNORECASE,
)
"""Words of a sentence before the part that it names: `I want to run two 3090s`."""
_LABELS_OF_A_LIST: Final = 3
"""Number of labelled rows from which a row without a label that speaks of a build is the title, whatever it names."""
_LEAST_SUMMANDS: Final = 3
"""Number of parts from which a line with plus signs is a list; two may be a part and what it comes with."""
_ABSENT: Final = re.compile(
    r"^(?:none|budget|everything\s+else|the\s+rest)\b"
    r"|^(?:boxed\s+|tray\s+|bulk\s*)?(?:no|without(?:\s+an?)?|w/o|(?:still\s+)?needs?(?:\s+an?)?)\s+(?:d?gpus?|graphics|video|case|ssd|drives?|cards?"
    r"|os|psus?|power\s+supply|supply|cooler|memory|ram|cpu|(?:mother)?board)\b"
    r"|^(?:case|gpu|cpu|ssd|psu|ram|cooler|board)\s+(?:tbd|none|n/?a|later|not\s+yet)$"
    r"|^(?:boxed|tray|bulk)$|^(?:none|n/?a|tbd|missing|nothing|not\s+yet|later|cpu[- ]only(?:\s+\w+)?)$",
    re.IGNORECASE,
)
"""Part that a list says is not there."""
_LIMIT_ALONE: Final = re.compile(
    r"^(?:(?:all|each|both)\s+)?(?:power[- ]?)?(?:limit(?:ed)?|capped|undervolted|held)\b[^\d]{0,12}\d{2,3}\s*W\b",
    re.IGNORECASE,
)
"""Power limit of cards in a piece of its own, behind a comma."""
_OF_A_QUESTION: Final = re.compile(
    r"(?:is|are|good|ok(?:ay)?|enough|worth|will|would|can|could|should|does|do|what|which|how|why|where|any(?:one|body|thing)?|thoughts|help|thanks|thank"
    r"|cheers|tia|please|looking\s+for|hi|hey|hello|edit|update|let\s+me\s+know|currently|my\s+(?:current|build|setup|specs?|rig))\b"
    r"(?!\s*[:=])",
    re.IGNORECASE,
)
"""First words of questions and greetings around a list."""
_MODEL: Final = re.compile(r"\b(?:qwen|llama|deepseek|gemma|gpt-oss|\d{1,3}b)\b", re.IGNORECASE)
"""Language models, by name or size, of which lists say that a machine shall run them."""
_POWER_LIMIT: Final = re.compile(
    r"\b(?:limit(?:ed)?|capped|cap|pl|held|undervolted)\b[^,;)\d]{0,20}(\d{2,3})\s*W\b|(\d{2,3})\s*W\s*(?:each\s+)?(?:power\s+)?(?:limit|cap)\b",
    re.IGNORECASE,
)
"""Power limit that a line states for each card [W]."""
_BARE_SIZE: Final = re.compile(r"(?:\d{1,2}\s?[x×]\s?)?\d{1,4}\s*(?:GB|GiB|TB)", re.IGNORECASE)
_NO_CASE: Final = re.compile(
    r"\btest\s*(?:bench|bed)\b|^(?:none|no case|on the desk|cardboard.*)$", re.IGNORECASE
)
_FRAME_CARDS: Final = re.compile(r"\b(\d{1,2})[- ]?(?:gpus?|cards?|slots?)\b", re.IGNORECASE)
_GENERATION: Final = re.compile(r"\b(?:pcie?|gen)\.?\s*([2-6])(?:\.0)?\b", re.IGNORECASE)
_ONE_LANE: Final = re.compile(r"\busb\b|\bx\s?1\b(?!\d)|\b1x\b", re.IGNORECASE)
_RAM_TYPE: Final = re.compile(r"\bddr[345]", re.IGNORECASE)
_SEVERAL_RISERS: Final = re.compile(r"\brisers\b|\bcables\b", re.IGNORECASE)
_ON_RISERS: Final = re.compile(r"\brisers?\b", re.IGNORECASE)
_LENGTH: Final = re.compile(r"(\d{2,4})\s*(mm|cm)\b", re.IGNORECASE)
_NUM_BRIDGES: Final = re.compile(r"(?<![\w.-])([1-9]\d?)\s*[x×]?\s*(?:nv-?link|bridges?)\b", re.IGNORECASE)
_BRIDGE_SPACING: Final = re.compile(r"\b([2-4])[- ]?slots?\b", re.IGNORECASE)
WHOLE_PRICE_IS_DOUBTFUL_BELOW: Final = 0.4
"""Take the price of several parts as that of each if, divided by their number, it is below 40 % of the catalog's, and
undivided it is within a factor of two. Used cards cost 50 to 100 % of the catalog's price; own choice."""
PRICE_OF_EACH_IS_LIKELY_BELOW: Final = 0.55
"""Take the price of several parts as that of each also below this fraction, if undivided it is within a quarter of the
catalog's; own choice."""
PAIRED_SOCKETS: Final = frozenset(("SP3", "SP5", "LGA2011", "LGA2011-3", "LGA3647", "LGA4189", "LGA4677"))
"""Sockets of which boards with two are sold."""
FIELDS: Final = ("category", "name", "quantity", "price_usd", "claims")


@dataclass(frozen=True, slots=True)
class Listing:
    """Parts list as understood."""

    machine: Assembly
    bill: tuple[PartLine, ...]
    lines: tuple[TypedLine, ...]
    """Lines in the order of the bill."""
    catalog_usd: tuple[float | None, ...]
    """Price from the catalog for each line [USD]; None if it has none."""
    notes: tuple[str, ...]
    unjudged: tuple[str, ...]
    """Lines that name a kind of part but no model: priced, not judged."""
    unknown: tuple[UnknownPartError, ...]
    """Lines whose part is in no record, or in several: named, priced, judged unknown."""
    claims: dict[str, int]
    """Numbers that the list states about its CPU: channels, lanes."""
    num_cpus: int = 0
    """Number of CPUs in the list, known or not."""
    system: System | None = None
    """Complete machine, if the list is one."""
    num_systems: int = 0
    """Number of such machines in the list."""
    circuit: Circuit | None = None
    """Wall circuit that the list states; None if it states none."""

    @property
    def total_usd(self) -> float:
        return total_of(self.bill)


def read_listing(path: Path | None, book: PriceBook, texts: Sequence[str] = ()) -> Listing:
    """Return the machine of a list in a file, and of further lines as typed; of a list that names machines to choose
    between, the first one.

    Raises: InputFileError: as `read_listings`.
    """
    return next(iter(read_listings(path, book, texts)))[1]


def read_listings(
    path: Path | None, book: PriceBook, texts: Sequence[str] = ()
) -> tuple[tuple[str, Listing], ...]:
    """Return the machines of a list in a file, and of further lines as typed, with their names: one without a name, or
    each of those that a question names to choose between (`DGX Spark vs. 2x RTX 3090`).

    A TOML or JSON file has `parts = ["2x RTX 5090 $4500", ...]`, or tables [[part]] with category, name, quantity and
    price_usd; a text file has a part in each row, as PCPartPicker writes it; CSV is a table of any columns that name
    parts.

    Raises: InputFileError: the file cannot be read, lists nothing, or nothing that the catalog holds.
    """
    lines = [read_line(text, f"--part {i}") for i, text in enumerate(texts, 1)]
    if path is not None and path.suffix.lower() in (".txt", ".md"):
        lines += read_picker_text(path)
    elif path is not None and path.suffix.lower() in (".csv", ".tsv"):
        lines += read_table_text(path)
    elif path is not None:
        is_json = path.suffix.lower() == ".json"
        content = read_json(path, 'e.g. {"parts": ["2x RTX 5090 $4500"]}') if is_json else read_toml(path)
        content = content if isinstance(content, dict) else {"parts": content}
        entries = content.get("parts", [])
        is_tables = (
            isinstance(entries, list) and bool(entries) and all(isinstance(one, dict) for one in entries)
        )
        entries = entries or _by_kind(content)
        lines += _table_lines(path, entries) if is_tables else _free_lines(path, entries)
        lines += _table_lines(path, content.get("part", []))
    if not lines:
        raise InputFileError(
            f"{path or 'nothing'}: lists no parts",
            why="neither parts = [...] nor [[part]]",
            fix='e.g. parts = ["2x RTX 5090 $4500", "Ryzen 9 9950X", "128 GB DDR5"]',
        )
    num_parts = sum(line.quantity for line in lines)
    if num_parts > MOST_PARTS:
        raise InputFileError(
            f"{path or '--part'}: lists {num_parts:,} parts",
            why=f"a list is of one machine, of at most {MOST_PARTS} parts",
            fix="list one machine",
        )
    choices = split_alternatives(lines)
    return tuple((name, _ListingReader(book).read(chosen)) for name, chosen in choices)


def _by_kind(content: dict[str, Any]) -> list[str]:
    """Return the parts of a table whose keys are kinds of part: `{"cpu": "Ryzen 9 9950X", "gpu": ["RTX 4090"]}`."""
    found = []
    for key, value in content.items():
        values = value if isinstance(value, list) else [value]
        if key.replace("_", " ").lower() in LABELS and all(isinstance(one, str) for one in values):
            found += [f"{key.replace('_', ' ')}: {one}" for one in values]
    return found


def _free_lines(path: Path, entries: Any) -> list[TypedLine]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise InputFileError(f"{path}: parts is no list of texts", fix='e.g. parts = ["2x RTX 5090 $4500"]')
    return [read_line(entry, f"{path}: part {i}") for i, entry in enumerate(entries, 1)]


def _table_lines(path: Path, entries: Any) -> list[TypedLine]:
    if not isinstance(entries, list):
        raise InputFileError(f"{path}: part is no array of tables", fix="write each part under [[part]]")
    return [_table_line(entry, f"{path}: [[part]] {i}") for i, entry in enumerate(entries, 1)]


def _table_line(entry: dict[str, Any], where: str) -> TypedLine:
    unknown = [key for key in entry if key not in FIELDS]
    if unknown:
        near = difflib.get_close_matches(unknown[0], FIELDS, n=1)
        raise InputFileError(
            f"{where}: field {unknown[0]}",
            why=f"fields are {', '.join(FIELDS)}",
            fix="correct it",
            hint=f"did you mean: {near[0]}" if near else "",
        )
    if not isinstance(entry.get("name"), str) or not entry["name"].strip():
        raise InputFileError(
            f"{where}: field name: missing", why="a part needs a name", fix='name = "RTX 5090"'
        )
    check_length(entry["name"], where)
    category = entry.get("category")
    if category is not None and category not in ("gpu", "cpu", *WORDS):
        near = difflib.get_close_matches(str(category), ("gpu", "cpu", *WORDS), n=1)
        raise InputFileError(
            f"{where}: field category: {category!r}",
            why=f"categories are gpu, cpu, {', '.join(WORDS)}",
            fix="correct it, or leave it out",
            hint=f"did you mean: {near[0]}" if near else "",
        )
    quantity = entry.get("quantity", 1)
    if not isinstance(quantity, int) or isinstance(quantity, bool) or not 1 <= quantity <= 16:
        raise InputFileError(
            f"{where}: field quantity: {quantity!r}", why="a number from 1 to 16", fix="correct it"
        )
    line = replace(read_line(entry["name"], where), quantity=quantity, category=category)
    if "price_usd" in entry:
        line = replace(line, usd=price_number(str(entry["price_usd"]), where))
    return line


_FRAME_TERMS: Final = (
    "open",
    "custom",
    "frame",
    "mining",
    "rig",
    "bench",
    "test",
    "gpu",
    "aluminium",
    "aluminum",
    "steel",
    "style",
    "diy",
    "2020",
    "extrusion",
    "extrusions",
    "profile",
    "profiles",
    "wood",
    "wooden",
)
"""Words of an open frame that name no model."""
_CARDS_OF_A_SUPPLY: Final = 4
"""Cards of an open frame for which it has a place for a supply (class of frames for 6, 8 and 12 cards)."""
_RACK: Final = re.compile(r"\b[1-8]U\b", re.IGNORECASE)
_READ_FIRST: Final = {"board": 0, "cpu": 1, "riser": 3, "bridge": 3}
"""Order of reading by category, where it matters: the kind of memory follows from board and CPU, the number of risers
and the kind of bridge from the cards."""


@dataclass(frozen=True, slots=True)
class _ReadLine:
    """Line with the part that it means."""

    line: TypedLine
    category: str
    part: Part | None
    """Part of the catalog; None if the line names no model, or none that is known."""
    count: int


def _names_no_part(text: str) -> bool:
    """Whether a text says that a part is not there, or what a machine shall run, and names no part."""
    is_of_price = re.search(r"\w", _OF_A_PRICE.sub(" ", text)) is None
    return (
        is_of_price
        or (_OF_A_QUESTION.match(text) is not None and not (re.search(r"\d", text) and is_known(text)))
        or _ABSENT.match(text) is not None
        or (_MODEL.search(text) is not None and not is_known(text))
    )


def split_line(line: TypedLine) -> list[TypedLine]:
    """Return the lines for the parts that one line joins: `2x RTX 3090 with NVLink`, `Ryzen 7 + B550 + 64GB DDR4`.

    The first part bears the price, which includes the others; all are included where the price of another line does.
    """
    found = _split_line(line)
    return [replace(one, is_included=True) for one in found] if line.is_included else found


def _split_line(line: TypedLine) -> list[TypedLine]:
    typed = line.text
    is_listed = (
        _LISTED.search(typed)
        or len(_APART.split(typed)) >= _LEAST_SUMMANDS
        or len(typed.split(" + ")) >= _LEAST_SUMMANDS
    )
    run_on = [] if is_listed else _run_on_pieces_of(line)
    if run_on:
        return run_on
    if line.category not in (None, *_JOINED_KINDS):
        return [line]
    listed = []
    if line.category in (None, "gpu") and not _is_one_system(line):
        listed = _pieces_of(line) or _bracketed_pieces_of(line)
    if listed or (listed := _run_on_pieces_of(line)):
        return [part for piece in listed for part in split_line(piece)]
    joined = _joined_pieces_of(line)
    if joined:
        return [part for piece in joined for part in split_line(piece)]
    if _BRIDGE_WORDS.search(line.what) and find_card_name(line.what) is not None:
        return _split_off_bridge(line)
    return _split_off_board(line)


def _is_one_system(line: TypedLine) -> bool:
    """Whether a line describes one complete machine by its properties: `Mac Studio, chip M3 Ultra, 512GB`."""
    pieces = _LISTED.split(line.text)[1:]
    return bool(pieces and find_systems(line.what)) and all(
        _PROPERTY.search(piece) and find_card_name(piece) is None for piece in pieces
    )


_PROPERTY: Final = re.compile(
    r"\b\d+[- ]core\b|\b\d+\s?[GT]B\b|^\s*(?:chip|model|memory|storage|os)\b", re.IGNORECASE
)
"""Property of a complete machine in a piece of its line: cores, memory, drive."""


def _joined_pieces_of(line: TypedLine) -> list[TypedLine]:
    """Return the parts that words such as `with` and `and` join; none if the line names one part with what it comes
    with. A name that no record holds may stand first: what follows it is a part all the same."""
    text = write_in_english(line.text)
    if _JOINED.search(_BRACKETED_TEXT.sub(" ", text)) is None:
        return []  # what stands in brackets are properties of one part
    text = text if _BRACKETED_TEXT.search(text) else " ".join(write_units(text).split())
    hidden = _BRACKETED_TEXT.sub(lambda bracket: bracket.group().replace(" ", "\ue000"), text)
    pieces = [_LEAD_IN.sub("", piece.replace("\ue000", " ").strip()) for piece in _JOINED.split(hidden)]
    pieces = [_ARTICLE.sub("", piece) for piece in pieces if piece]
    # A complete machine comes with its chip, by which others are named too: `ROG Flow Z13 with Ryzen AI Max+ 395`.
    if len(pieces) < 2 or all(map(find_systems, pieces)):
        return []
    try:
        found = [from_start(replace(read_line(piece, line.where), text=piece)) for piece in pieces]
    except InputFileError:
        return []
    found[0] = replace(found[0], category=None)
    kinds = [_kind_of(one) for one in found]
    if kinds[0] is None and kinds[1] is not None and not names_something(found[0].what):
        found = found[1:]  # words of a sentence
        kinds = kinds[1:]
    if {"cpu", "board"} & set(kinds):  # a size beside them is their memory
        bare = [
            kind is None and _BARE_SIZE.fullmatch(one.what) for kind, one in zip(kinds, found, strict=True)
        ]
        kinds = ["ram" if is_bare else kind for kind, is_bare in zip(kinds, bare, strict=True)]
    if (
        kinds[0] is None
        and names_something(found[0].what)
        and set(kinds[1:]) <= {"gpu", "cpu", "ram", "board", "psu"}
    ):
        kinds[0] = "unknown"
    if _OWN_PART.search(line.text):
        kinds = [
            "unknown" if kind is None and names_something(one.what) else kind
            for kind, one in zip(kinds, found, strict=True)
        ]
    if set(kinds) <= {"unknown"}:
        return []
    if None in kinds or set(kinds) <= {"gpu", "bridge"} - ({"gpu"} if "bridge" not in kinds else set()):
        return []
    if (
        set(kinds) <= {"gpu", "riser", "case"}
        and "gpu" in kinds
        and link_in(line.what, _usual_riser()) is not None
    ):
        return []  # a card in a dock
    repeated = {kind for kind in kinds if kinds.count(kind) > 1}
    if repeated - {*_JOINED_KINDS, "unknown"} or (line.category is not None and line.category not in kinds):
        return []
    if sum(one.usd is not None for one in found) > 1:
        return found  # each part has a price of its own
    found[0] = replace(found[0], usd=line.usd)
    return [
        found[0],
        *(replace(one, is_included=line.is_included or line.usd is not None) for one in found[1:]),
    ]


def _split_off_board(line: TypedLine) -> list[TypedLine]:
    """Return the CPU and the board of a line that puts one on the other: `EPYC 9354P on Supermicro H13SSL-N`."""
    texts = _PLACED.split(line.what, maxsplit=1)
    if len(texts) < 2:
        return [line]
    found = [replace(line, what=texts[0].strip()), replace(read_line(texts[1], line.where), text=line.text)]
    try:
        kinds = [category_of(one) for one in found]
    except UnknownPartError:
        return [line]
    return (
        [found[0], replace(found[1], is_included=line.is_included or line.usd is not None)]
        if kinds[0] in ("cpu", "ram", "gpu") and kinds[1] in ("board", "bridge")
        else [line]
    )


_SEVERAL: Final = re.compile(
    rf"{_JOINED.pattern}|\s(?:on|in)\s|\s[-–—]\s|\([^)]*,[^)]*\)|{_BRIDGE_WORDS.pattern}", re.IGNORECASE
)
"""Words, dashes and brackets by which a piece of a line may name several parts itself."""
_PLACED: Final = re.compile(r"\s+(?:on|in)\s+(?:an?\s+|the\s+)?", re.IGNORECASE)


_LABEL_END: Final = re.compile(r"(?:\s*#?\d)?:?$")
"""Number and colon behind a kind of part that stands alone: `GPU 2:`."""


def _listed_texts(typed: str) -> list[str]:
    """Return the texts between the commas, semicolons, plus signs or slashes of a line; none if it has too few."""
    rest = _TITLE_AHEAD.sub("", typed)
    rest = _BRACKETED_TEXT.sub(lambda bracket: bracket.group().translate(_HIDE_COMMAS), rest)
    # The sign that divides a line into more pieces is that of its list.
    apart = [piece.translate(_SHOW_COMMAS).strip() for piece in _APART.split(rest) if piece.strip()]
    texts = [piece.translate(_SHOW_COMMAS).strip() for piece in _LISTED.split(rest) if piece.strip()]
    if 2 <= len(texts) < len(apart) and len(apart) > _LEAST_SUMMANDS:
        texts = apart
    if len(texts) < 2:
        texts = [piece.translate(_SHOW_COMMAS).strip() for piece in rest.split(" + ") if piece.strip()]
        if len(texts) < _LEAST_SUMMANDS:
            texts = apart
        if len(texts) < _LEAST_SUMMANDS:
            return []
    texts = [
        _LEAD_IN.sub("", text)
        for text in texts
        if _LABEL_END.sub("", text).strip("*•- ").lower() not in LABELS
    ] or texts
    for place in range(len(texts) - 1, 0, -1):
        if _LIMIT_ALONE.match(texts[place]):  # it is that of the cards before it
            texts[place - 1 : place + 1] = [f"{texts[place - 1]} {texts[place]}"]
    return texts


def _pieces_of(line: TypedLine) -> list[TypedLine]:
    """Return the parts of a line that lists several between commas, semicolons or slashes; none if it names one part
    with its properties (`Samsung 990 Pro, 2TB`)."""
    texts = _listed_texts(write_in_english(line.text))
    if not texts:
        return []
    head, colon, tail = texts[0].partition(": ")
    if colon and server_in(head) is not None:
        texts = [head, tail, *texts[1:]]
    absent = [text for text in texts if _names_no_part(text)]
    if any("$" in text for text in absent):
        line = replace(line, usd=None, usd_low=None, usd_high=None)  # a budget is the price of no part
    texts = [text for text in texts if text not in absent and not _is_price_alone(text)] or texts
    try:
        found = [from_start(read_line(text, line.where)) for text in texts]
    except InputFileError:
        return []
    kinds: list[str] = []
    for one in found:
        try:
            kinds.append(one.category or category_of(one))
        except UnknownPartError:
            kinds.append("")
    if server_in(found[0].what) is not None:
        # Behind a server its CPU is named by the number alone: `DL380 G10, 2x 6130`.
        kinds = [
            kind
            or ("cpu" if _CPU_NUMBER.fullmatch(one.what) and find_cpu(one.what, is_labelled=True) else "")
            for kind, one in zip(kinds, found, strict=True)
        ]
    if not kinds[0] and len(found) > 2 and is_title(found[0]):
        found = found[1:]
        kinds = kinds[1:]
    has_host = bool({"cpu", "board"} & set(kinds))
    kinds = [
        kind or ("ram" if has_host and _BARE_SIZE.fullmatch(one.what) else "")
        for kind, one in zip(kinds, found, strict=True)
    ]
    if sum(map(bool, kinds)) > 1:  # words of a sentence beside the parts
        kept = [
            one
            for one in zip(kinds, found, strict=True)
            if one[0] or one[1].usd or names_something(one[1].text)
        ]
        kinds = [kind for kind, _ in kept]
        found = [one for _, one in kept]
    known = {kind for kind in kinds if kind}
    are_alike = len(known) == 1 and known <= set(_JOINED_KINDS) and all(kinds)
    card = find_card_name(line.what)
    # A card or a CPU behind another name is a part of its own, and no property of it.
    names_more = re.search(r"\d", texts[0]) is not None and bool(
        {"gpu", "cpu"} & set(kinds[1:]) - set(kinds[:1])
    )
    is_unread = (names_more and len(known) == 1) or (
        bool(known) and (_kind_of(line) is None or (card is not None and not card.accelerators))
    )
    is_one_part = (len(known) < 2 and not are_alike) or 2 * sum(map(bool, kinds)) < len(kinds)
    if not is_unread and is_one_part:
        return []
    listed = [
        replace(one, category=None if _SEVERAL.search(one.text) else kind or None)
        for one, kind in zip(found, kinds, strict=True)
    ]
    priced = [one for one in found if one.usd is not None]
    # One price behind a machine and its parts is that of the whole line.
    is_whole = _is_machine(found[0]) or _SOLD.search(line.text) is not None or len(known) >= _LEAST_KINDS
    is_whole = is_whole and (kinds[-1] != "other" or (found[-1].usd or 0.0) >= _LEAST_MACHINE_USD)
    is_of_all = not priced or (priced == found[-1:] and is_whole)
    return _price_first(line, [replace(one, usd=None) for one in listed]) if is_of_all else listed


_TITLE_AHEAD: Final = re.compile(
    r"^\s*(?:[^:,.(]{0,60}\b(?:build|rig|server|box|setup|list|specs?|system|config|machine|pc|sale|selling|sell|wts)\b"
    r"[^:,.(]{0,40}[:.]\s+)",
    re.IGNORECASE,
)
"""Words ahead of the parts of one line: `SFF build: ...`, `Selling my AI box. ...`."""
_CPU_NUMBER: Final = re.compile(r"\d{4}[A-Za-z]{0,2}(?:\s?v\d)?")
_LEAST_KINDS: Final = 4
"""Number of kinds of part in one line from which it is a machine, and its one price that of all."""
_LEAST_MACHINE_USD: Final = 1000.0
"""Price behind a cable or another piece that no rule reads from which it is that of the machine before it [USD]: such
pieces cost less. Own choice."""
_SOLD: Final = re.compile(
    r"\b(?:selling|for sale|wts|obo|asking|takes it all|for everything|all in)\b", re.IGNORECASE
)
"""Words of a line that sells a whole machine: its one price is that of all parts."""


_OF_A_PRICE: Final = re.compile(
    r"\b(?:asking|price|all[- ]in|total|for\s+(?:all|everything|the\s+lot)|about|around|approx\.?|roughly|obo|firm)"
    r"\b:?",
    re.IGNORECASE,
)
"""Words beside a price that name no part."""


def _is_price_alone(text: str) -> bool:
    """Whether a piece of a line is its price and nothing else: `VB 1.050€`, `$900 obo`."""
    try:
        line = read_line(f"part {_OF_A_PRICE.sub(' ', text)}", "")
    except InputFileError:
        return False
    return line.what == "part" and line.quantity == 1 and (line.usd is not None or bool(line.unread_price))


def _price_first(line: TypedLine, pieces: list[TypedLine]) -> list[TypedLine]:
    """Return the pieces of a line with its price, if it has one, on the first, which includes the others."""
    if line.usd is None:
        return pieces
    first = replace(pieces[0], usd=line.usd, usd_low=line.usd_low, usd_high=line.usd_high)
    return [first, *(replace(one, is_included=True) for one in pieces[1:])]


def _with_price_of_title(lines: list[TypedLine]) -> list[TypedLine]:
    """Return lines whose title states the only price with that as the price of all parts: `Selling: AI rig, $2,900`."""
    title, *rest = lines
    is_only = title.usd is not None and all(line.usd is None for line in rest)
    untitled = replace(title, usd=None, usd_low=None, usd_high=None)
    if len(rest) < _LEAST_KINDS or not is_only or title.quantity > 1 or not is_title(untitled):
        return lines
    return [untitled, *_price_first(title, rest)]


def _is_machine(line: TypedLine) -> bool:
    """Whether a line begins with a complete machine, a server or a workstation that is sold whole."""
    is_sold_whole = _WHOLE_MACHINE.search(line.what) is not None or server_in(line.what) is not None
    return is_sold_whole or bool(find_systems(line.what))


_MINI_PC: Final = re.compile(
    r"\b(?:minisforum|beelink|gmktec|geekom|aoostar|nucbox|deskmini|acemagic|nuc\s?\d{1,2})\b", re.IGNORECASE
)
"""Makers and lines of mini PCs, whose name tells the CPU and stands before the memory."""
_WHOLE_MACHINE: Final = re.compile(
    rf"{_MINI_PC.pattern}|\b(?:poweredge|proliant|thinksystem|primergy|precision|thinkstation|workstation|server|R[67]\d{2,3}(?:xd)?"
    r"|T[57][589]\d0|G[24]\d{2}-\w+|Z[2468][2-8]\d?0?(?:\s?G\d)?|DL3[68]0|AS-\d{4}\w*|SYS-\d{4}\w*|ESC\d{4}\w*|G\d{3}-\w+)\b",
    re.IGNORECASE,
)
"""Names and numbers of machines that are sold whole."""
_COUNT_WORDS: Final = r"(?:(?:\d{1,2}\s*[x×]\s*|dual\s+|two\s+|2\s+)?)"
_CPU_FAMILIES: Final = (
    r"(?:(?:intel|amd)\s+)?(?:xeon|epyc|ryzen|threadripper|core\s+(?:i\d|ultra)|i[3579][- ]\d|e[357]-\d{4}|w-\d{4}"
    r"|(?:gold|silver|platinum|bronze)\s+\d{4})"
)
_CPU_FAMILY: Final = re.compile(_CPU_FAMILIES, re.IGNORECASE)
_PART_STARTS: Final = re.compile(
    rf"(?<!quadro)(?<!nvidia)(?<!geforce)(?<!tesla)(?<!radeon)(?<!instinct)"
    rf"\s(?:(?:with|w/|and|plus|-|\+|incl\.?)\s+)*(?={_COUNT_WORDS}(?:{_CPU_FAMILIES}"
    r"|\d{1,4}\s*[GT]B\s+(?:\([^)]*\)\s+)?(?:of\s+)?(?:ddr\d|ram|ecc|memory|[lr]*dimm|nvme|ssd|hdd)"
    r"|\d{3,4}\s*W(?:\s+(?:psu|power|supply|supplies|gold|platinum|titanium)|\s*(?:[,$]|$|\d{1,2}\s?[x×]\s))"
    r"|(?:nvidia\s+|amd\s+)?(?:geforce|radeon|rtx|gtx|tesla|quadro|instinct|[ahlv]\d{2,3}s?|mi\d{2,3})\b))",
    re.IGNORECASE,
)
"""Places in a line where a part begins without a comma before it."""


def _kind_of(line: TypedLine) -> str | None:
    """Return the kind of part of a piece of a line, None if it is in no record; a family of CPUs is one without the
    word Xeon too (`2x Gold 6138`)."""
    if _CPU_FAMILY.match(line.what):
        return "cpu"
    if _BRIDGE_WORDS.search(line.what) and find_card_name(line.what) is not None:
        return "gpu"
    try:
        return category_of(line)
    except UnknownPartError:
        return None


_MEMORY_OF_CPU: Final = re.compile(rf"^({_CPU_FAMILIES}\S*(?:\s\S+)*?)\s+(\d{{1,4}}\s?GB)$", re.IGNORECASE)
"""CPU with a size alone behind it, which is that of the memory: `i7-6700 16GB`."""
_COUNT_ALONE: Final = re.compile(r"(?:\d{1,2}\s*[x×]?|dual|two|intel|amd|nvidia|xeon|\s)+", re.IGNORECASE)


def _run_on_pieces_of(line: TypedLine) -> list[TypedLine]:
    """Return a machine and the parts that its line names without commas: `HP Z440 Workstation Xeon E5-1650 v4 64GB
    DDR4 700W PSU`; none if the line names one part with its properties."""
    rest = _LEAD_IN.sub("", " ".join(write_units(line.text).split()))
    rest = _BRACKETED_TEXT.sub(lambda bracket: bracket.group().replace(" ", "\ue000"), rest)
    texts: list[str] = []
    for piece in (text.replace("\ue000", " ").strip(" ,;") for text in _PART_STARTS.split(rest)):
        if texts and _COUNT_ALONE.fullmatch(texts[-1]):
            texts[-1] += f" {piece}"
        elif piece:
            texts.append(piece)
    texts = [one for text in texts for one in (_MEMORY_OF_CPU.split(text)[1:3] or [text])]
    if len(texts) < 2 or not (_WHOLE_MACHINE.search(texts[0]) or server_in(texts[0])):
        return []
    try:
        found = [replace(read_line(text, line.where), usd=None) for text in texts]
    except InputFileError:
        return []
    kinds = ["ram" if _BARE_SIZE.fullmatch(one.what) else _kind_of(one) for one in found[1:]]
    known = [kind for kind in kinds if kind is not None]
    has_host = "cpu" in known or _MINI_PC.match(texts[0]) is not None
    if len(set(known)) < len(known) or not has_host:
        return []
    pieces = [found[0], *(replace(one, category=kind) for one, kind in zip(found[1:], kinds, strict=True))]
    return _price_first(line, pieces)


def _bracketed_pieces_of(line: TypedLine) -> list[TypedLine]:
    """Return a machine and the parts in brackets after its name: `Minisforum UM790 Pro (Ryzen 9 7940HS, 64GB DDR5)`;
    none if the brackets hold properties of one part."""
    bracket = _BRACKETED_TEXT.search(line.text)
    if bracket is None:
        return []
    texts = [piece for piece in _LISTED.split(bracket.group()[1:-1]) if piece.strip()]
    name = line.text[: bracket.start()].strip()
    if len(texts) < 2 or not name or find_systems(name) or find_card_name(name) is not None:
        return []
    try:
        found = [read_line(text, line.where) for text in texts]
        # Of sizes beside a CPU the first is that of the memory, the next that of a drive.
        has_memory = False
        for place, one in enumerate(found):
            if _BARE_SIZE.fullmatch(one.what):
                found[place] = replace(one, category="storage" if has_memory else "ram")
            has_memory = has_memory or found[place].category == "ram" or _kind_of(one) == "ram"
        kinds = {one.category or category_of(one) for one in found}
        machine = replace(line, text=name, what=read_line(name, line.where).what)
    except InputFileError:
        return []
    if len(kinds) < 2 or "cpu" not in kinds:
        return []
    rest = line.text[bracket.end() :].strip(" +,&;-")
    with contextlib.suppress(InputFileError):  # a price alone
        found += [read_line(rest, line.where)] if rest else []
    return [machine, *(replace(one, is_included=line.is_included or line.usd is not None) for one in found)]


def _split_off_bridge(line: TypedLine) -> list[TypedLine]:
    """Return the cards and the bridges of a line that names both."""
    if _NO_BRIDGE.search(line.what):
        return [replace(line, what=" ".join(_NO_BRIDGE.sub(" ", line.what).split()))]
    word = _BRIDGE_WORDS.search(line.what)
    has_cards_ahead = word is not None and find_card_name(line.what[: word.start()]) is not None
    are_joined = _JOINED.search(line.what) or _ARE_BRIDGED.search(line.what) or has_cards_ahead
    if _BRIDGE_ALONE.search(line.what) and not are_joined:
        return [replace(line, category="bridge")]
    named = find_card_name(_BRIDGE_WORDS.sub(" ", line.what))
    able = {name for bridge in parts.planner_parts(Bridge) for name in bridge.accelerators}
    if named is None or not set(named.accelerators) & able:
        # Modules on carrier boards have their links without a bridge.
        return [replace(line, what=" ".join(_BRIDGE_WORDS.sub(" ", line.what).split()))]
    counted = _NUM_BRIDGES.search(_JOINED.split(line.what)[-1])
    number = int(counted.group(1)) if counted else max(line.quantity // 2, 1)
    cards = _BRIDGE_WORDS.sub(" ", _NUM_BRIDGES.sub(" ", line.what) if counted else line.what)
    cards = re.sub(r"(?:\s+(?:\+|&|with|w/|and|plus|via|over|in|pairs?))+\s*$", "", " ".join(cards.split()))
    bridge = replace(line, what="NVLink bridge", quantity=number, usd=None, usd_low=None, usd_high=None)
    return [
        replace(line, what=cards),
        replace(
            bridge, category="bridge", is_worded=False, is_included=line.is_included or line.usd is not None
        ),
    ]


_SMALL_FORM: Final = re.compile(r"\b[abhxz]\d{3}[mi]\b")
_SOCKET: Final = re.compile(r"\b(?:sp[356]|s?trx?[45]|swrx8|lga\s?\d{4}|am[45])\b", re.IGNORECASE)


def _sockets_of(part: Part) -> set[str]:
    """Return the sockets on which a cooler mounts, as people write them; none of any other part."""
    names = {name.lower() for name in part.sockets} if isinstance(part, Cooler) else set()
    return (
        names
        | ({"tr5"} if "str5" in names else set())
        | ({"tr4"} if names & {"str4", "strx4", "sp3"} else set())
    )


def _usual_riser(*, is_narrow: bool = False) -> Riser:
    """Return a cable with all lanes, or one with a single lane over USB cables."""
    return next(one for one in parts.planner_parts(Riser) if (one.lanes == 1) == is_narrow)


def _is_kit(named: RamKit, stated: RamKit) -> bool:
    """Whether a product's kit is of the size and the kind that a line states."""
    wanted = (stated.modules, stated.module_bytes, stated.ram_type, stated.registered)
    return (named.modules, named.module_bytes, named.ram_type, named.registered) == wanted


class _ListingReader:
    """Reader that resolves lines one by one; it reads the board first, as memory depends on it."""

    def __init__(self, book: PriceBook) -> None:
        self._book = book
        self._notes: list[str] = []
        self._unknown: list[UnknownPartError] = []
        self._unjudged: list[str] = []
        self._machine: dict[str, Any] = {}
        self._power_fraction = 1.0
        self._ram_type = ""
        """Kind of module that a line of the list names; empty if none does."""
        self._num_cpus = 0
        """Number of CPUs in the list, known or not."""

    def read(self, typed: Sequence[TypedLine]) -> Listing:
        typed, circuit = split_off_circuit([with_shared_names(line) for line in typed])
        typed, swaps = split_off_swaps(typed)
        typed, additions = split_off_additions(typed)
        self._notes += map(str, swaps)
        present = [line for line in typed if not _names_no_part(line.what)] or typed
        present = _with_price_of_title(present)
        are_labelled = sum(line.category is not None for line in present) >= _LABELS_OF_A_LIST
        heading = present[0].text
        is_heading = are_labelled and not re.search(r"\d", heading) and not is_known(heading)
        if len(present) > 1 and (
            is_title(present[0], is_labelled=are_labelled) or (present[0].category is None and is_heading)
        ):
            self._notes.append(f"{present[0].text.strip()!r} is read as the title of the list")
            present = present[1:]
        lines = with_swaps([from_start(part) for line in present for part in split_line(line)], swaps)
        lines, added = with_additions(with_laptop_cards(lines), additions)
        self._notes += added
        named = [match.group().upper() for line in lines if (match := _RAM_TYPE.search(line.what))]
        self._ram_type = named[0] if named else ""
        self._note_counts_and_prices(lines, typed)
        lines = [self._with_bare_memory(line, lines) for line in lines]
        categories = [self._category_of(line) for line in lines]
        places = sorted(range(len(lines)), key=lambda place: _READ_FIRST.get(categories[place], 2))
        found: dict[int, _ReadLine] = {}
        self._num_cpus = sum(
            line.quantity for line, kind in zip(lines, categories, strict=True) if kind == "cpu"
        )
        for place in places:
            part, count = self._resolve(lines[place], categories[place])
            line = lines[place]
            if categories[place] in (
                "gpu",
                "system",
            ):  # prices of used modules and CPUs are far below the catalog's
                line = self._with_plausible_price(line, part, count)
            found[place] = _ReadLine(line, categories[place], part, count)
            if part is not None:
                self._place(categories[place], part, count)
        self._price_each_in_columns(found)
        _check_number_of_cards(found.values(), lines[0].where)
        if "cards" in self._machine and any(HAS_FANS.search(line.text) for line in present):
            self._machine["cards"] = [with_fans(card) for card in self._machine["cards"]]
        if (joined := self._joined_cpu()) is not None:
            self._machine["cpu"] = joined
        if not {"gpu", "unknown", "system"} & set(categories):
            self._machine.setdefault("cards", [])  # a machine without cards, whose CPU runs everything
        if len(self._unknown) == len(lines):
            raise self._unknown[0]
        read = [found[place] for place in range(len(lines))]
        claims: dict[str, int] = {}
        for line in lines:
            claims |= line.claims
        system = self._machine.pop("system", None)
        num_systems = sum(one.count for one in read if one.category == "system")
        self._note_systems(system, num_systems)
        return Listing(
            machine=self._assembly(),
            bill=tuple(self._bill_line(one) for one in read),
            lines=tuple(one.line for one in read),
            catalog_usd=tuple(self._catalog_usd(one.part, one.count) for one in read),
            notes=tuple(self._notes),
            unjudged=tuple(self._unjudged),
            unknown=tuple(self._unknown),
            claims=claims,
            num_cpus=self._num_cpus,
            system=system,
            num_systems=num_systems,
            circuit=circuit,
        )

    def _note_counts_and_prices(self, lines: Sequence[TypedLine], typed: Sequence[TypedLine]) -> None:
        """Note the counts that words state, and the prices that do not count."""
        self._notes += [
            f"{line.text.strip()!r} counts as {line.quantity}" for line in lines if line.is_worded
        ]
        self._notes += [
            f"{line.where}: the price {line.unread_price!r} is left out: prices are in US dollars; "
            "convert it to count it"
            for line in typed
            if line.unread_price
        ]

    @staticmethod
    def _price_each_in_columns(found: dict[int, _ReadLine]) -> None:
        """Take the prices of a column as those of each piece, if one row of several pieces is plausible only so."""
        rows = {place: one for place, one in found.items() if one.line.is_of_column and one.line.quantity > 1}
        if not any(one.line.says_whole_or_each for one in rows.values()):
            return
        for place, one in rows.items():
            if not one.line.says_whole_or_each:
                found[place] = replace(one, line=with_factor(one.line))

    def _note_systems(self, system: System | None, num: int) -> None:
        """Say what several machines, or a machine with further cards, are judged as."""
        if system is not None and num > 1 and not can_join(system):
            self._notes.append(
                f"{num} machines are listed: the speed is that of one, as no source states a network"
            )
        if system is not None and "cards" in self._machine:
            self._notes.append(
                f"the speed is that of {system.name} or of the cards beside it, whichever is faster: no engine here "
                "divides a model between both"
            )

    def _with_bare_memory(self, line: TypedLine, lines: Sequence[TypedLine]) -> TypedLine:
        """Return a line that is only a size as memory, if the list names a CPU or a board and no other memory."""
        if line.category is not None or not _BARE_SIZE.fullmatch(line.what):
            return line
        kinds = {one.category or _kind_of(one) for one in lines if one is not line}
        return replace(line, category="ram") if kinds & {"cpu", "board"} and "ram" not in kinds else line

    def _category_of(self, line: TypedLine) -> str:
        """Return the kind of part that a line names; `unknown` if nothing in it is known."""
        try:
            return line.category or category_of(line)
        except UnknownPartError as error:
            self._unknown.append(error)
            return "unknown"

    def _resolve(self, line: TypedLine, category: str) -> tuple[Part | None, int]:
        """Return the part that a line means and its number; None if no model is named, or none that is known."""
        if category not in _RESOLVERS:
            if category != "unknown":
                self._unjudged.append(line.what)
            return None, line.quantity
        try:
            part, count = _RESOLVERS[category](self, line)
        except UnknownPartError as error:
            self._unknown.append(error)
            return None, line.quantity
        if part is None:
            self._unjudged.append(line.what)
        return part, count

    def note(self, line: TypedLine, part: Part) -> None:
        self._notes.append(f"{line.what!r} is taken as {part.name}")

    @property
    def board(self) -> Board | None:
        return self._machine.get("board")

    @property
    def cpu(self) -> Cpu | None:
        return self._machine.get("cpu")

    def _joined_cpu(self) -> Cpu | None:
        """Return two CPUs as one where a board has two sockets, or is unknown and the CPU is a server's."""
        cpu = self.cpu
        board = self.board
        if cpu is None or self._num_cpus != 2:
            return cpu
        is_pair = board.sockets == 2 if board is not None else cpu.series.socket in PAIRED_SOCKETS
        return pair_of(cpu) if is_pair else cpu

    def _place(self, category: str, part: Part, count: int) -> None:
        places = {"gpu": "cards", "psu": "psus", "ram": "memory", "bridge": "bridges", "riser": "risers"}
        place = places.get(category, category)
        if place in ("cards", "psus", "bridges", "nics", "nic", "link"):
            self._machine.setdefault(place, [])
            self._machine[place] += [part] * count
        elif place == "memory":
            old = self._machine.get("memory")
            more = old.num_kits if old is not None and old.kit == part else 0
            self._machine["memory"] = Memory(part, count + more)  # type: ignore[arg-type]
        elif place == "storage":
            old = self._machine.get("storage")
            if old is None or old.capacity_bytes < part.capacity_bytes:  # type: ignore[attr-defined]
                self._machine["storage"] = part
        elif place == "risers":
            self._machine["risers"] = Risers(part, count)  # type: ignore[arg-type]
        else:
            self._machine[place] = part

    def _assembly(self) -> Assembly:
        held = self._machine
        psus = tuple(held.pop("psus", ()))
        board = self.board
        if board is not None and (sold := parts.supply_and_case_of(board)) is not None:
            supply, case = sold
            if not psus:
                psus = (supply,)
                self._notes.append(
                    f"no supply is listed: {supply.name}, with which {board.name} is usually sold"
                )
            held.setdefault("case", case)
        links = held.pop("link", [])
        return Assembly(
            cards=Cards(tuple(held.pop("cards")), self._power_fraction) if "cards" in held else None,
            supplies=Supplies(psus, links[0] if links else None) if psus else None,
            bridges=tuple(held.pop("bridges", ())),
            nics=tuple(held.pop("nic", ())),
            **held,
        )

    def _with_plausible_price(self, line: TypedLine, part: Part | None, count: int) -> TypedLine:
        """Return the line with its price taken as that of each part, if no other reading is near the catalog's."""
        price = price_of(part, self._book) if part is not None else None
        if price is None or line.usd is None or line.quantity < 2 or line.says_whole_or_each:
            return line
        each = price.usd * count / line.quantity
        share = line.usd / line.quantity / each
        is_near = share < PRICE_OF_EACH_IS_LIKELY_BELOW and 0.75 <= line.usd / each <= 1.25
        if not is_near and (share >= WHOLE_PRICE_IS_DOUBTFUL_BELOW or not 0.5 <= line.usd / each <= 2.0):
            return line
        self._notes.append(
            f"{line.text.strip()!r} is read as ${line.usd:,.0f} each: ${line.usd / line.quantity:,.0f} apiece would "
            f"be {share:.0%} of the catalog's ${each:,.0f}; write 'total' after the price if it is the sum"
        )
        return with_factor(line)

    def _catalog_usd(self, part: Part | None, count: int) -> float | None:
        price = price_of(part, self._book) if part is not None else None
        return None if price is None else price.usd * count

    def _bill_line(self, read: "_ReadLine") -> PartLine:
        line = read.line
        part = read.part
        count = read.count
        price = price_of(part, self._book) if part is not None and line.usd is None else None
        found = PartLine(read.category, line.what, count, flags=("not judged",))
        if part is not None:
            found = part_line(read.category, part, count, price)
        if line.is_included:
            source = "in the price of another line"
            bare = PartLine(read.category, found.name, count, flags=found.flags)
            return replace(bare, unit_price_usd=0.0, price_basis="user", source=source)
        if line.usd is None:
            return found
        usd, low, high = (None if v is None else v / count for v in (line.usd, line.usd_low, line.usd_high))
        stated = replace(found, unit_price_usd=usd, price_low_usd=low, price_high_usd=high)
        return replace(stated, price_basis="user", source="your list")

    # Each category has a resolver, which returns the part that a line means and its number.

    def gpu(self, line: TypedLine) -> tuple[Part | None, int]:
        accelerator = accelerator_of(line)
        cards = [card for card in parts.planner_parts(GpuCard) if card.accelerator == accelerator]
        maker = [card for card in cards if card.manufacturer.lower() in plain_words(line.what).split()]
        card = by_words(write_out(line.what), cards) or typical_card(maker or cards)
        self.note(line, card)
        self._note_links(line, accelerator)
        link = link_in(line.what, _usual_riser())
        if link is not None:
            self._machine.setdefault("risers", Risers(link, 1 if link.ports else line.quantity))
            self._notes.append(
                f"{line.what!r}: speeds take the link of: {link.name}; its case and supply are not judged"
            )
        elif _ON_RISERS.search(line.what):
            self._machine.setdefault("risers", Risers(self._riser_in(line), line.quantity))
        self._note_power_limit(line, card)
        return as_described(card, line.what), line.quantity

    def _note_power_limit(self, line: TypedLine, card: GpuCard) -> None:
        """Take the power limit that a line states for its cards; of several lines, the strictest counts for all."""
        found = _POWER_LIMIT.search(line.text)
        watts = float(found.group(1) or found.group(2)) if found else card.power_w
        if 0.3 * card.power_w <= watts < card.power_w:
            self._power_fraction = min(self._power_fraction, watts / card.power_w)
            self._notes.append(
                f"{line.text.strip()!r}: all cards count as held to {self._power_fraction:.0%} of their power"
            )

    def _note_links(self, line: TypedLine, accelerator: str) -> None:
        """Say that NVLink which a line names is not counted: no bridge fits the card, or no engine would use it."""
        able = {name for bridge in parts.planner_parts(Bridge) for name in bridge.accelerators}
        is_named = _BRIDGE_WORDS.search(line.text) and not _NO_BRIDGE.search(line.text)
        if not is_named or accelerator in able:
            return
        record = accelerators.by_id(accelerator)
        self._notes.append(
            f"{line.text.strip()!r}: NVLink of {record.name} changes no speed here: no record has a bridge for it"
        )

    def system(self, line: TypedLine) -> tuple[Part | None, int]:
        systems = find_systems(line.what)
        found = with_memory(line.what, systems) or with_other_memory(line.what, systems)
        if len(found) != 1:
            raise UnknownPartError(
                f"{line.where}: machine {line.what!r}" + (" can mean several" if found else ""),
                why="machines with unlike figures are called so" if found else "no record has this memory",
                fix="write its full name",
                hint=", ".join(system.name for system in found or systems),
            )
        self.note(line, found[0])
        return found[0], line.quantity

    def bridge(self, line: TypedLine) -> tuple[Part | None, int]:
        sold = parts.planner_parts(Bridge)
        held = {card.accelerator for card in self._machine.get("cards", ())}
        bridge = next((one for one in sold if held & set(one.accelerators)), sold[0])
        spacing = _BRIDGE_SPACING.search(line.what)
        if spacing is not None and int(spacing.group(1)) != bridge.spacing_slots:
            slots = int(spacing.group(1))
            name = bridge.name.replace(str(bridge.spacing_slots), str(slots))
            bridge = bridge.model_copy(update={"name": name, "spacing_slots": slots})
        self.note(line, bridge)
        num_cards = len(self._machine.get("cards", ()))
        count = -(-num_cards // bridge.joins) if bridge.joins > 2 and num_cards else line.quantity
        return bridge, count

    def cpu_(self, line: TypedLine) -> tuple[Part | None, int]:
        cpu = find_cpu(line.what, is_labelled=True) or cpu_by_number(line.what)
        if cpu is None:
            pool = (*parts.planner_parts(Cpu), *parts.parts_for_lists(Cpu))
            raise unknown_part(line, "CPU", [cpu.name for cpu in pool])
        if not set(plain_words(line.what).split()) <= set(plain_words(cpu.name).split()):
            self.note(line, cpu)
        return cpu, line.quantity

    def board_(self, line: TypedLine) -> tuple[Part | None, int]:
        server = server_in(line.what)
        if server is not None:
            self.note(line, server)
            return parts.with_line_lanes(server), 1
        words = without_words(REVISION.sub(" ", line.what), (*WORDS["board"], "dual"))
        board = board_by_chipset(line.what, self._ram_type)
        bare = [board.chipset.lower(), board.socket.lower()] if board is not None else []
        bare += [f"{name}{size}" for name in bare[:1] for size in "mi"] + ["d4", "d5"]
        if board is None or names_a_model(words, *bare):
            board = self._named_board(line, words) or board_by_number(line.what, self._ram_type)
        if board is None:
            if is_bare(line.what, "board"):
                return None, 1
            raise unknown_part(line, "board", [board.name for board in parts.planner_parts(Board)])
        self.note(line, board)
        return parts.with_line_lanes(board), 1

    def _named_board(self, line: TypedLine, words: str) -> Board | None:
        """Return the board of that name; another maker's board with the same chipset does not count."""
        pool = (*parts.planner_parts(Board), *parts.parts_for_lists(Board))
        found = all_by_words(words, pool, strict=True)
        # A board of a smaller form factor writes it behind its chipset: a B850M-P is no B850-P.
        named = set(plain_words(line.what).split())
        found = [one for one in found if set(_SMALL_FORM.findall(plain_words(one.name))) <= named]
        # Boards of one name are sold for either kind of modules: the list's memory tells which.
        found = [board for board in found if board.ram_type == self._ram_type] or found
        if len({(board.socket, board.chipset, board.ram_type) for board in found}) > 1:
            raise ambiguous_part(line, "board", found)
        # Of several editions, the one whose name adds least is meant; a record that the planner uses tells more.
        return min(
            found, key=lambda board: (num_extra_words(board, words), not board.id, board.name), default=None
        )

    def psu(self, line: TypedLine) -> tuple[Part | None, int]:
        claimed = PLUG_CLAIM.search(line.what)
        if claimed is not None:
            line = replace(line, what=" ".join(PLUG_CLAIM.sub(" ", line.what).split()))
        match = WATTS.search(line.what)
        grades = grades_in(line.what)
        pools = (
            [psu for psu in pool if not grades or psu.grade in grades]
            for pool in (parts.planner_parts(Psu), parts.parts_for_lists(Psu))
        )
        found = next((alike for pool in pools if (alike := all_by_words(line.what, pool))), [])
        if len({psu.power_w for psu in found}) > 1:
            raise ambiguous_part(line, "supply", found)
        named = min(found, key=lambda psu: (len(psu.name), psu.name), default=None)
        watts = float(match.group(1)) if match else supply_watts(line.what)
        watts = watts or (watts_of_label(line.what) if line.category == "psu" else 0.0)
        if named is None and not watts:
            if is_bare(line.what, "psu"):
                return None, line.quantity
            raise unknown_part(line, "supply", [psu.name for psu in parts.planner_parts(Psu)])
        is_own = (
            self.board is not None and SERVER in self.board.flags
        )  # a server's supply is sold for it alone
        is_model = is_own or names_a_model(line.what)
        psu = named or (named_supply(watts, line) if is_model else psu_of(watts, line))
        if is_own and named is None and not grades:
            psu = psu.model_copy(update={"grade": "platinum", "flags": (PLUGS_UNKNOWN,)})
        if claimed is not None:
            word = (claimed.group(1) or "one").lower()
            num = int(word) if word.isdecimal() else NUMBER_WORDS[word]
            psu = psu.model_copy(update={"num_16_pin": num})
        self.note(line, psu)
        return psu, line.quantity

    def ram(self, line: TypedLine) -> tuple[Part | None, int]:
        kit = kit_of(line, self.board, self._joined_cpu())
        named = by_words(line.what, parts.planner_parts(RamKit)) if names_a_model(line.what) else None
        if named is not None and (kit is None or _is_kit(named, kit)):
            kit = named  # a product's kit of another size or kind is not the one that the line states
        if kit is None:
            return None, line.quantity
        self.note(line, kit)
        return kit, line.quantity

    def storage(self, line: TypedLine) -> tuple[Part | None, int]:
        match = GIGABYTES.search(line.what)
        if _DISK.search(line.what):
            return None, line.quantity  # no rule reads disks
        found = all_by_words(line.what, (*parts.planner_parts(Storage), *parts.parts_for_lists(Storage)))
        if match is None and len({drive.capacity_bytes for drive in found}) > 1:
            raise ambiguous_part(line, "drive", found)
        named = min(found, key=lambda drive: (len(drive.name), drive.name), default=None)
        if named is None and match is None:
            return None, line.quantity
        drive = named
        if drive is None and match is not None:
            size = float(match.group(2)) * (1000 if match.group(3).lower() == "tb" else 1) * GB
            drive = Storage(
                id="typed-drive", name=line.what, capacity_bytes=size, pcie_generation=4, source="your list"
            )
        return drive, line.quantity

    def case_(self, line: TypedLine) -> tuple[Part | None, int]:
        if _NO_CASE.search(line.what):
            return None, line.quantity  # cards stand in the board's slots, with nothing around them
        if FRAME_WORDS.search(line.what):
            frames = [case for case in parts.planner_parts(Case) if case.open_frame]
            # A maker's frame that no record holds is at least the smallest, or as large as it says.
            is_bare_frame = not names_a_model(line.what, *_FRAME_TERMS)
            stated = _FRAME_CARDS.search(line.what)
            wanted = 3 * int(stated.group(1)) if stated else 0
            able = [case for case in frames if case.expansion_slots >= wanted] or frames
            is_large = bool(stated) and not any(case.expansion_slots >= wanted for case in frames)
            choose = max if is_large or (is_bare_frame and not stated) else min
            frame = choose(able, key=lambda case: case.expansion_slots)
            if is_large:  # frames have a place for a supply for every four cards
                num_psus = max(frame.num_psus, -(-wanted // (3 * _CARDS_OF_A_SUPPLY)))
                frame = frame.model_copy(update={"expansion_slots": wanted, "num_psus": num_psus})
            if not is_bare_frame:
                frame = by_words(line.what, parts.planner_parts(Case), strict=True) or frame
            self.note(line, frame)
            return frame, line.quantity
        if _RACK.search(line.what) and not names_a_model(
            _RACK.sub(" ", line.what), "rack", "server", "rackmount", "from", "aliexpress", "ebay", "taobao"
        ):
            return None, line.quantity  # no record states the room of a chassis that has only a height
        return self.by_name(Case, "case", line)

    def nic(self, line: TypedLine) -> tuple[Part | None, int]:
        found = by_words(line.what, parts.planner_parts(Nic))  # no rule needs one that no record holds
        if found is not None:
            self.note(line, found)
        return found, line.quantity

    def cooler_(self, line: TypedLine) -> tuple[Part | None, int]:
        if LOOP_WORDS.search(line.what) and not re.search(r"\baio\b", line.what, re.IGNORECASE):
            return None, line.quantity
        return self.by_name(Cooler, "cooler", line)

    def riser_(self, line: TypedLine) -> tuple[Part | None, int]:
        link = link_in(line.what, _usual_riser(is_narrow=_ONE_LANE.search(line.what) is not None))
        if link is not None:
            return link, line.quantity
        count = line.quantity
        if count == 1 and _SEVERAL_RISERS.search(line.text):
            count = max(
                1, len(self._machine.get("cards", ()))
            )  # "risers" without a number are those of all cards
        return self._riser_in(line), count

    @staticmethod
    def _riser_in(line: TypedLine) -> Riser:
        """Return the cable that a line names, with the generation and the length that it states."""
        generation = _GENERATION.search(line.what)
        length = _LENGTH.search(line.what)
        usual = _usual_riser(is_narrow=_ONE_LANE.search(line.what) is not None)
        figures: dict[str, Any] = {"name": line.what, "id": "typed-riser", "source": "your list"}
        figures["pcie_generation"] = int(generation.group(1)) if generation else usual.pcie_generation
        if length:
            unit = 1000.0 if length.group(2).lower() == "mm" else 100.0
            figures["length_m"] = float(length.group(1)) / unit
        return usual.model_copy(update=figures)

    def by_name(self, kind: type[Part], category: str, line: TypedLine) -> tuple[Part | None, int]:
        pool = [*parts.planner_parts(kind), *parts.parts_for_lists(kind)]
        stated = {word.lower() for word in _SOCKET.findall(line.what)}
        # A line that states sockets means no part that is made for others.
        pool = [one for one in pool if not stated or _sockets_of(one) & stated or not _sockets_of(one)]
        part = by_words(line.what, pool)
        if part is None and not is_bare(line.what, category):
            raise unknown_part(line, category, [each.name for each in pool])
        if part is not None:
            self.note(line, part)
        return part, line.quantity


def _check_number_of_cards(found: Iterable[_ReadLine], where: str) -> None:
    """Refuse a list with more cards than any machine has.

    Raises: InputFileError: it has.
    """
    num_cards = sum(one.count for one in found if one.category == "gpu")
    if num_cards > MOST_CARDS:
        raise InputFileError(
            f"{where.partition(':')[0]}: lists {num_cards:,} cards",
            why=f"a list is of one machine, of at most {MOST_CARDS} cards",
            fix="list one machine",
        )


_RESOLVERS: Final[dict[str, Callable[[_ListingReader, TypedLine], tuple[Part | None, int]]]] = {
    "gpu": _ListingReader.gpu,
    "cpu": _ListingReader.cpu_,
    "board": _ListingReader.board_,
    "psu": _ListingReader.psu,
    "ram": _ListingReader.ram,
    "storage": _ListingReader.storage,
    "case": _ListingReader.case_,
    "cooler": _ListingReader.cooler_,
    "riser": _ListingReader.riser_,
    "bridge": _ListingReader.bridge,
    "system": _ListingReader.system,
    "nic": _ListingReader.nic,
    "link": lambda reader, line: (parts.planner_parts(PsuLink)[0], line.quantity),
}
