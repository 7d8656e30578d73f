"""Pieces of one line of a parts list that names several parts: what divides it, and which part each piece names."""

import contextlib
import re
from dataclasses import replace
from typing import Final

from advisor.catalog import parts
from advisor.catalog.cpu_names import find_cpu
from advisor.catalog.errors import InputFileError
from advisor.catalog.schema.part import Bridge
from advisor.workstation.card_names import find_card_name
from advisor.workstation.foreign_words import write_in_english
from advisor.workstation.part_names import (
    UnknownPartError,
    category_of,
    from_start,
    is_known,
    is_title,
    kind_in,
    link_in,
    names_something,
    server_in,
    usual_riser,
)
from advisor.workstation.system_names import find_systems
from advisor.workstation.typed_line import (
    COUNT_AHEAD,
    LABELS,
    NUMBER_WORDS,
    TypedLine,
    read_line,
    write_units,
)

BRIDGE_WORDS: Final = re.compile(r"\b(?:nv-?link(?:ed)?|bridged?s?|bridges)\b", re.IGNORECASE)
NO_BRIDGE: Final = re.compile(
    r"\b(?:no|without|w/o)\s+(?:nv-?link|bridge)\w*|\bnv-?link[- ](?:capable|ready|support\w*)", re.IGNORECASE
)
_BRIDGE_ALONE: Final = re.compile(
    r"^\W*(?:nv-?link|bridge)\b|\bbridge\b.*\bfor\b|\bnv-?link\s+(?:hb\s+)?bridges?\b(?!\s*d)", re.IGNORECASE
)
_ARE_BRIDGED: Final = re.compile(r"\bbridged\b|nv-?linked", re.IGNORECASE)
_JOINED: Final = re.compile(
    r"\s+(?:\+|&|(?:(?:paired|combined|coupled|mated|along|together)\s+)?with|w/|and|plus|next\s+to|alongside|under|beneath|inside|into|cooled\s+by|powered\s+by|fed\s+by|housed\s+in"
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
_LEAST_SUMMANDS: Final = 3
"""Number of parts from which a line with plus signs is a list; two may be a part and what it comes with."""
_ABSENT: Final = re.compile(
    r"^(?:it|this|the\s+(?:machine|build|rig|server))\s+(?:consists?|comprises)\b[^\d]*$|^(?:none|budget|everything\s+else|the\s+rest)\b"
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
    r"(?:is|are|next|good|ok(?:ay)?|enough|worth|will|would|can|could|should|does|do|what|which|how|why|where|any(?:one|body|thing)?|thoughts|help|thanks|thank"
    r"|cheers|tia|please|looking\s+for|hi|hey|hello|edit|update|let\s+me\s+know|currently|my\s+(?:current|build|setup|specs?|rig))\b"
    r"(?!\s*[:=])",
    re.IGNORECASE,
)
"""First words of questions and greetings around a list."""
_MODEL: Final = re.compile(r"\b(?:qwen|llama|deepseek|gemma|gpt-oss|\d{1,3}b)\b", re.IGNORECASE)
"""Language models, by name or size, of which lists say that a machine shall run them."""
BARE_SIZE: Final = re.compile(r"(?:\d{1,2}\s?[x×]\s?)?\d{1,4}\s*(?:GB|GiB|TB)", re.IGNORECASE)
_NUM_BRIDGES: Final = re.compile(r"(?<![\w.-])([1-9]\d?)\s*[x×]?\s*(?:nv-?link|bridges?)\b", re.IGNORECASE)


_SOFTWARE: Final = re.compile(
    r"^(?:on|running|runs|using|with|os:?|under|via|\s)*\b(?:ubuntu|debian|fedora|arch|manjaro|linux|mint|pop!?_?os|nixos|rocky|windows"
    r"|win1[01]|wsl2?|macos|proxmox|unraid|truenas|esxi|docker|ollama|llama\.?cpp|lm\s?studio|koboldcpp|vllm|exllama\w*|comfyui"
    r"|cuda|rocm|nvidia[- ]driver|driver|python|pytorch|kernel|open\s?webui)\b[^$€£]*$",
    re.IGNORECASE,
)
"""Software of a machine, which is no part."""


_BETWEEN_SENTENCES: Final = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")


def names_no_part(text: str) -> bool:
    """Whether a text says that a part is not there, or what a machine shall run, and names no part."""
    is_of_price = re.search(r"\w", _OF_A_PRICE.sub(" ", text)) is None  # a sign alone names nothing either
    return (
        is_of_price
        or (_OF_A_QUESTION.match(text) is not None and not (re.search(r"\d", text) and is_known(text)))
        or _ABSENT.match(text) is not None
        or (_SOFTWARE.match(text) is not None and kind_in(text) in (None, "other"))
        or (_MODEL.search(text) is not None and not is_known(text))
    )


_SUM: Final = re.compile(r"\$\s?\d[\d,.]*\s?k?")


def without_questions(line: TypedLine) -> TypedLine:
    """Return a line without the questions behind its parts that name none: `... Can it fit and power them?`."""
    sentences = _BETWEEN_SENTENCES.split(line.text)
    kept = [
        text
        for text in sentences
        if not (
            text.endswith("?") and _OF_A_QUESTION.match(text) and not re.search(r"\d", _SUM.sub(" ", text))
        )
    ]
    if not kept or len(kept) == len(sentences):
        return line
    text = " ".join(kept).rstrip(".")
    usd = line.usd if _SUM.search(text) or line.is_included else None  # the sum of the question is no price
    return replace(read_line(text, line.where), text=text, usd=usd, category=line.category)


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
    joined = _addition_pieces_of(line) or _joined_pieces_of(line)
    if joined:
        return [part for piece in joined for part in split_line(piece)]
    if BRIDGE_WORDS.search(line.what) and find_card_name(line.what) is not None:
        return _split_off_bridge(line)
    return _split_off_board(line)


_ADDED: Final = re.compile(
    r"^(?:can|could|should|would|will|may|is\s+it|does\s+it|thinking|planning|want|how|looking|considering|about)\b.*?"
    r"\b(?:add|put|get|buy|attach|connect|hook(?:ing)?\s+up|install|fit|use|run|plug|drop|throw|stick)(?:[nt]?ing)?\s+(?:in\s+)?"
    r"(?:an?\s+|my\s+|the\s+)?(?P<new>.+?)\s+(?:to|in|into|inside|onto|on|with|for|alongside)\s+(?:my|the|this|an?|our)\s+"
    r"(?P<host>.+?)[?.!]*$",
    re.IGNORECASE,
)
"""Question for a card in a machine: `Can I add an RTX 3090 via USB4 to my EVO-X2?`."""


_ENOUGH: Final = re.compile(
    r"^(?:will|would|is|can|does|could|should)\s+(?:an?\s+|my\s+|the\s+|this\s+)?(?P<new>.+?)\s+(?:be\s+)?"
    r"(?:enough|sufficient|ok(?:ay)?|fine|adequate|handle|power|run|support|cope)\s+(?:for\s+|with\s+|to\s+\w+\s+)?"
    r"(?P<host>.+?)[?.!]*$",
    re.IGNORECASE,
)
"""Question whether one part is enough for others: `Will a 1000W PSU be enough for 2x RTX 4090 + 7950X?`."""


def _addition_pieces_of(line: TypedLine) -> list[TypedLine]:
    """Return the two sides of a question that adds a card to a machine, or asks if a supply is enough for cards; none
    of any other line."""
    found = _ADDED.match(line.text) or _ENOUGH.match(line.text)
    if found is None or line.category is not None:
        return []
    try:
        pieces = [replace(read_line(found[part], line.where), text=found[part]) for part in ("new", "host")]
    except InputFileError:
        return []
    kinds = [kind_of(piece) for piece in pieces]
    return pieces if kinds[0] in ("gpu", "psu") and kinds[1] not in (None, kinds[0]) else []


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
    parts_alone = [piece for piece in pieces if not _SOFTWARE.match(piece) or not names_no_part(piece)]
    if len(parts_alone) == 1 < len(pieces):
        return [replace(read_line(parts_alone[0], line.where), text=parts_alone[0])]
    pieces = parts_alone
    # A complete machine comes with its chip, by which others are named too: `ROG Flow Z13 with Ryzen AI Max+ 395`.
    if len(pieces) < 2 or all(map(find_systems, pieces)):
        return []
    try:
        found = [from_start(replace(read_line(piece, line.where), text=piece)) for piece in pieces]
    except InputFileError:
        return []
    found[0] = replace(found[0], category=None)
    kinds = [kind_of(one) for one in found]
    if kinds[0] is None and kinds[1] is not None and not names_something(found[0].what):
        found = found[1:]  # words of a sentence
        kinds = kinds[1:]
    if {"cpu", "board"} & set(kinds):  # a size beside them is their memory
        bare = [
            kind is None and BARE_SIZE.fullmatch(one.what) for kind, one in zip(kinds, found, strict=True)
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
        and link_in(line.what, usual_riser()) is not None
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
        if kinds[0] in ("cpu", "ram", "gpu") and kinds[1] in ("board", "bridge", "psu")
        else [line]
    )


_SEVERAL: Final = re.compile(
    rf"{_JOINED.pattern}|\s(?:on|in)\s|\s[-–—]\s|\([^)]*,[^)]*\)|{BRIDGE_WORDS.pattern}", re.IGNORECASE
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
    absent = [text for text in texts if names_no_part(text)]
    if any("$" in text for text in absent):
        line = replace(line, usd=None, usd_low=None, usd_high=None)  # a budget is the price of no part
    texts = [text for text in texts if text not in absent and not _is_price_alone(text)] or texts
    if len(texts) < 2 and line.category is not None:
        return []  # the row of one part, with its label and its price
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
        kind or ("ram" if has_host and BARE_SIZE.fullmatch(one.what) else "")
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
        bool(known) and (kind_of(line) is None or (card is not None and not card.accelerators))
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


def with_price_of_title(lines: list[TypedLine]) -> list[TypedLine]:
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
    _MINI_PC.pattern
    + r"|\b(?:poweredge|proliant|thinksystem|primergy|precision|thinkstation|workstation|server|R[67]\d{2,3}(?:xd)?"
    r"|T[57][589]\d0|G[24]\d{2}-\w+|Z[2468][2-8]\d?0?(?:\s?G\d)?|DL3[68]0|AS-\d{4}\w*|SYS-\d{4}\w*|ESC\d{4}\w*|G\d{3}-\w+)\b",
    re.IGNORECASE,
)
"""Names and numbers of machines that are sold whole."""
_CPU_FAMILIES: Final = (
    r"(?:(?:intel|amd)\s+)?(?:xeon|epyc|ryzen|threadripper|core\s+(?:i\d|ultra)|i[3579][- ]\d|e[357]-\d{4}|w-\d{4}"
    r"|(?:gold|silver|platinum|bronze)\s+\d{4})"
)
_CPU_FAMILY: Final = re.compile(_CPU_FAMILIES, re.IGNORECASE)
_PART_STARTS: Final = re.compile(
    rf"(?<!quadro)(?<!nvidia)(?<!geforce)(?<!tesla)(?<!radeon)(?<!instinct)"
    rf"\s(?:(?:with|w/|and|plus|-|\+|incl\.?)\s+)*(?=(?:{COUNT_AHEAD}|2\s+)?(?:{_CPU_FAMILIES}"
    r"|\d{1,4}\s*[GT]B\s+(?:\([^)]*\)\s+)?(?:of\s+)?(?:ddr\d|ram|ecc|memory|[lr]*dimm|nvme|ssd|hdd)"
    r"|\d{3,4}\s*W(?:\s+(?:psu|power|supply|supplies|gold|platinum|titanium)|\s*(?:[,$]|$|\d{1,2}\s?[x×]\s))"
    r"|(?:nvidia\s+|amd\s+)?(?:geforce|radeon|rtx|gtx|tesla|quadro|instinct|[ahlv]\d{2,3}s?|mi\d{2,3})\b))",
    re.IGNORECASE,
)
"""Places in a line where a part begins without a comma before it."""


def kind_of(line: TypedLine) -> str | None:
    """Return the kind of part of a piece of a line, None if it is in no record; a family of CPUs is one without the
    word Xeon too (`2x Gold 6138`)."""
    if _CPU_FAMILY.match(line.what):
        return "cpu"
    if BRIDGE_WORDS.search(line.what) and find_card_name(line.what) is not None:
        return "gpu"
    try:
        return category_of(line)
    except UnknownPartError:
        return None


_MEMORY_OF_CPU: Final = re.compile(
    rf"^({COUNT_AHEAD}?{_CPU_FAMILIES}\S*(?:\s\S+)*?)\s+(\d{{1,4}}\s?GB(?:\s+(?:RAM|ECC|memory))?)$",
    re.IGNORECASE,
)
"""CPU with a size alone behind it, which is that of the memory: `i7-6700 16GB`."""
_COUNT_ALONE: Final = re.compile(
    rf"(?:\d{{1,2}}\s*[x×]?|{'|'.join(NUMBER_WORDS)}|intel|amd|nvidia|xeon|\s)+", re.IGNORECASE
)


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
    kinds = ["ram" if BARE_SIZE.fullmatch(one.what) else kind_of(one) for one in found[1:]]
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
            if BARE_SIZE.fullmatch(one.what):
                found[place] = replace(one, category="storage" if has_memory else "ram")
            has_memory = has_memory or found[place].category == "ram" or kind_of(one) == "ram"
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
    if NO_BRIDGE.search(line.what):
        return [replace(line, what=" ".join(NO_BRIDGE.sub(" ", line.what).split()))]
    word = BRIDGE_WORDS.search(line.what)
    has_cards_ahead = word is not None and find_card_name(line.what[: word.start()]) is not None
    are_joined = _JOINED.search(line.what) or _ARE_BRIDGED.search(line.what) or has_cards_ahead
    if _BRIDGE_ALONE.search(line.what) and not are_joined:
        return [replace(line, category="bridge")]
    named = find_card_name(BRIDGE_WORDS.sub(" ", line.what))
    able = {name for bridge in parts.planner_parts(Bridge) for name in bridge.accelerators}
    if named is None or not set(named.accelerators) & able:
        # Modules on carrier boards have their links without a bridge.
        return [replace(line, what=" ".join(BRIDGE_WORDS.sub(" ", line.what).split()))]
    counted = _NUM_BRIDGES.search(_JOINED.split(line.what)[-1])
    number = int(counted.group(1)) if counted else max(line.quantity // 2, 1)
    cards = BRIDGE_WORDS.sub(" ", _NUM_BRIDGES.sub(" ", line.what) if counted else line.what)
    cards = re.sub(r"(?:\s+(?:\+|&|with|w/|and|plus|via|over|in|pairs?))+\s*$", "", " ".join(cards.split()))
    bridge = replace(line, what="NVLink bridge", quantity=number, usd=None, usd_low=None, usd_high=None)
    return [
        replace(line, what=cards),
        replace(
            bridge, category="bridge", is_worded=False, is_included=line.is_included or line.usd is not None
        ),
    ]
