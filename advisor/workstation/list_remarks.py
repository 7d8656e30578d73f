"""Remarks of a parts list that change how its parts are read: swaps, parts to add, machines to choose between, names
that several cards share, the circuit."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.cpu_names import plain_words
from advisor.catalog.errors import InputFileError
from advisor.workstation.assembly import Circuit
from advisor.workstation.card_names import find_card_name
from advisor.workstation.part_names import kind_in
from advisor.workstation.typed_line import NUMBER_WORDS, TypedLine, read_line

_SWAP: Final = re.compile(
    r"\b(?:(?:swap|replac|trad|exchang|switch)\w*(?:\s+out)?|upgrad\w*(?:\s+from)?|(?:going|go|moving|move)\s+from)\s+"
    r"(?:(?:my|the|an?|our|current|existing|old)\s+)*(?P<old>[^,.;:?!]{2,40}?)\s+(?:out\s+)?(?:for|with|by|to)\s+"
    r"(?:(?:an?|the|used|new|another)\s+)*(?P<new>[^,.;:?!]{2,60}?)"
    r"(?=\s+(?:in|into|on)\s+(?:my|the|this|our|an?)\b|\s+and\s+(?:add|buy|get|put)\b|\s*(?:[,.;:?!]|$))",
    re.IGNORECASE,
)
_AND_MORE: Final = re.compile(
    r"\s+and\s+(?:add|buy|get|put)\s+(?:in\s+)?(?:an?\s+)?(?P<more>[^:.;?!|]*)", re.IGNORECASE
)
"""Part that the sentence of a swap adds: `and add a 3060`."""
_END_OF_SENTENCE: Final = re.compile(r"[:,.;?!|](?:\s|$)")
_ALL_ALIKE: Final = re.compile(
    r"\s*[(\[,–-]\s*(?:all|both|each)\s+(?:of\s+them\s+)?(?:are\s+)?(?P<name>[^()\[\],;]{3,40}?)\s*(?:[)\]]|$)",
    re.IGNORECASE,
)
"""Name of a card that a remark gives to all cards before it: `2x Founders Edition + 1x Zotac Trinity (all 3090)`."""
_COUNTED: Final = re.compile(r"\b\d{1,2}\s*[x×]\s*[A-Za-z][^,;+&()|]*?(?=\s*(?:[,;+&(|]|\band\b|$))")
_CIRCUIT: Final = re.compile(
    r"(?:\b(?:it|runs?|running|plugged|wired|powered|fed|on|off|of|from|into|with|an?|my|the|own|dedicated|at|wall"
    r"|circuit|outlet|stromkreis|steckdose|sicherung|prise|disjoncteur)\b[\s:]*)*(?:\b(?P<num>[2-4]|two|dual)\s?[x×]?\s+)?\b(?P<volts>1[0-2]\d|2[0-4]\d)\s?V(?:AC)?\b[\s/,@-]{0,3}(?P<amps>\d{2})\s?A(?:mps?)?\b"
    r"(?:\s*\b(?:dedicated|circuit|outlet|line|breaker|socket|plug)s?\b)*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Swap:
    """Replacement of a part of the list by another one."""

    old: TypedLine
    new: TypedLine
    category: str

    def __str__(self) -> str:
        return f"the list is judged with {self.new.what} in place of {self.old.what}"


def split_off_swaps(lines: Sequence[TypedLine]) -> tuple[list[TypedLine], list[Swap]]:
    """Return lines without the words of a swap within one kind of part (`swap the 3060 for a 3090`), and the swaps."""
    rest: list[TypedLine] = []
    swaps: list[Swap] = []
    for line in lines:
        found = _SWAP.search(line.text)
        swap = _swap_of(found, line.where) if found is not None else None
        if found is None or swap is None:
            rest.append(line)
            continue
        swaps.append(swap)
        # The words before a swap are of its sentence; parts may stand before that and behind it.
        ahead = re.split(r"[.;,?!|]\s", line.text[: found.start()])[:-1]
        after = line.text[found.end() :]
        more = _AND_MORE.match(after)
        end = _END_OF_SENTENCE.search(after)
        behind = (more["more"] if more else "", after[end.end() :] if end else "")
        rest += _lines_of((", ".join(ahead), *behind), line)
    return rest, swaps


_THEM: Final = re.compile(r"(?:it|them|these|those|both)(?:\s+(?:cards?|gpus?))?", re.IGNORECASE)
"""Words for the parts that a sentence before a swap names."""


def _swap_of(found: re.Match[str], where: str) -> Swap | None:
    try:
        old, new = read_line(found["old"], where), read_line(found["new"], where)
    except InputFileError:
        return None
    kind = kind_in(new.what)
    is_named = kind_in(old.what) == kind
    return Swap(old, new, kind) if kind is not None and (is_named or _THEM.fullmatch(old.what)) else None


def _lines_of(texts: Iterable[str], line: TypedLine) -> list[TypedLine]:
    """Return what is left of a line, piece by piece, without pieces that name nothing."""
    found = []
    for text in texts:
        if re.search(r"\w", text):
            named = read_line(text, line.where)
            found.append(replace(line, text=text, what=named.what, quantity=named.quantity))
    return found


def with_swaps(lines: Sequence[TypedLine], swaps: Sequence[Swap]) -> list[TypedLine]:
    """Return the parts of a list after its swaps: the old part leaves by its number, the new one joins."""
    found = list(lines)
    for swap in swaps:
        if _THEM.fullmatch(swap.old.what):  # all parts of that kind
            found = [line for line in found if (line.category or kind_in(line.what)) != swap.category]
        place = next((n for n, line in enumerate(found) if _is_alike(line, swap.old)), None)
        if place is not None:
            left = found[place].quantity - swap.old.quantity
            found[place : place + 1] = [replace(found[place], quantity=left)] if left > 0 else []
        found.append(swap.new)
    return found


def _is_alike(line: TypedLine, other: TypedLine) -> bool:
    """Whether two lines name one part: cards by their number, other parts by the words of the shorter name."""
    cards = [find_card_name(one.what) for one in (line, other)]
    if cards[0] is not None and cards[1] is not None:
        return bool(set(cards[0].accelerators) & set(cards[1].accelerators)) or cards[0] == cards[1]
    return set(plain_words(other.what).split()) <= set(plain_words(line.what).split())


_ORDINALS: Final = {"second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}
_ADDITION: Final = re.compile(
    r"\b(?P<verb>(?:add(?:ing)?|fit(?:ting)?|put(?:ting)?|install(?:ing)?|run(?:ning)?|use|drop(?:ping)?|plug(?:ging)?|squeez\w+|get(?:ting)?"
    r"|buy(?:ing)?|handle|support|take|power|throw(?:ing)?|stick(?:ing)?|go(?:ing)?\s+(?:for|with))\b(?:\s+in)?\s+)?"
    r"(?:(?:an?|the|my)\s+)?(?:(?:used|new|cheap)\s+)?"
    r"(?:(?P<order>second|2nd|third|3rd|fourth|4th)|(?P<more>one|two|three|[1-4])\s+more|another|(?:additional|extra))\s+"
    r"(?P<new>[^,.;:?!()]{2,60}?)"
    r"(?=\s+(?:to|in|into|on|onto|with|without|alongside|beside|from|for|and|or|is|at|worth|via|if)\b|\s*(?:[,.;:?!(]|$))",
    re.IGNORECASE,
)
"""Part that joins those of its kind: `can I add a second RTX 3090`, `two more P40s`, `another card`."""
_OR_ELSE: Final = re.compile(r"^\s*,?\s*or\b[^.?!\n]*")
_SAME_CARD: Final = re.compile(
    r"(?:gpu|card|graphics card|video card|one|of (?:them|those|these))s?", re.IGNORECASE
)
_WHERE_TO: Final = re.compile(
    r"^\s*(?:to|in|into|on|onto|with|alongside|beside)\s+(?:an?|my|the|this|our|that)\s+(?:(?:existing|current|old)\s+)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Addition:
    """Part that a question adds to those of its kind in the list."""

    new: TypedLine
    """Line of the part; its quantity is the number of pieces that come."""
    total: int
    """Number of pieces with those that are there, as the question counts them."""
    is_same: bool
    """Whether the question names the card of the list without its number."""


def split_off_additions(lines: Sequence[TypedLine]) -> tuple[list[TypedLine], list[Addition]]:
    """Return lines without the words that add a part to those of its kind, and what they add."""
    rest: list[TypedLine] = []
    additions: list[Addition] = []
    for line in lines:
        found = _ADDITION.search(line.text) if line.category is None else None
        addition = _addition_of(found, line.where) if found is not None else None
        if found is None or addition is None:
            rest.append(line)
            continue
        additions.append(addition)
        ahead = re.split(r"[.;,?!|:]\s", line.text[: found.start()])
        # The words before it are of its sentence, unless they name a part: `I have a 3090 and will add a second one`.
        kept = ahead if kind_in(ahead[-1]) is not None else ahead[:-1]
        # What else the question considers (`or swap it for a 4090`) is another machine.
        behind = _OR_ELSE.sub("", line.text[found.end() :])
        behind = _WHERE_TO.sub("", behind).lstrip(" ?!.,:;")
        rest += _lines_of(
            (", ".join(kept), behind if kind_in(behind) or _names_a_product(behind) else ""), line
        )
    return rest, additions


def _names_a_product(text: str) -> bool:
    """Whether a text begins with a product's name, in capital letters with a number: `Dell T7910 with a Xeon`."""
    return re.match(r"[A-Z][\w-]*(?:\s+[\w-]+){0,2}?\s*\d", text) is not None


def _addition_of(found: re.Match[str], where: str) -> Addition | None:
    """Return what a question adds; None if it names no card."""
    order = _ORDINALS.get((found["order"] or "").lower(), 0)
    more = NUMBER_WORDS.get(
        (found["more"] or "").lower(), int(found["more"]) if (found["more"] or "").isdecimal() else 1
    )
    is_same = _SAME_CARD.fullmatch(found["new"].strip()) is not None
    try:
        new = replace(read_line(found["new"], where), quantity=more, usd=None)
    except InputFileError:
        return None
    # Without a verb the words may count the list's own rows: `Second GPU: RTX 3060`.
    if (is_same and found["verb"] is None) or not (is_same or kind_in(new.what) == "gpu"):
        return None
    return Addition(new, order or 1 + more, is_same)


def with_additions(
    lines: Sequence[TypedLine], additions: Sequence[Addition]
) -> tuple[list[TypedLine], tuple[str, ...]]:
    """Return the parts of a list with those that its question adds, and a note on each."""
    found = list(lines)
    notes = []
    for addition in additions:
        cards = [n for n, line in enumerate(found) if find_card_name(line.what) is not None]
        alike = [n for n in cards if addition.is_same or _is_alike(found[n], addition.new)]
        if alike:
            place = alike[0]
            old = found[place]
            num = old.quantity + addition.new.quantity
            each = None if old.usd is None else old.usd / old.quantity * num
            found[place] = replace(old, quantity=num, usd=each)
        elif not addition.is_same:
            # A second card of a list that names none is two of them; beside another card it is one more.
            num = addition.new.quantity if cards else addition.total
            found.append(replace(addition.new, quantity=num))
            place = len(found) - 1
        else:
            continue
        notes.append(
            f"the list is judged with what its question adds: {found[place].quantity} x {found[place].what}"
        )
    return found, tuple(notes)


_WISH: Final = re.compile(
    r"\bwhat\b[^.?!]{0,60}\b(?:upgrade|improve|add|buy|get|change|swap|replace)\b[^.?!]{0,60}(?:\bfirst\b|\bnext\b|\$)"
    r"|\b(?:next|best|first)\s+(?:upgrade|part|step|purchase)\b|\bupgrade\s+(?:path|first|next|for|advice)\b"
    r"|\b(?:next|upgrade|improve|add)\b[^.?!$]{0,40}(?:for|with|under|budget(?:\s+of)?)\s*\$\s?\d[\d,]*[^.?!]*\?",
    re.IGNORECASE,
)
"""Question for the next part of a machine: `What should I upgrade first?`, `What should I buy next for $800?`."""
_SUM_OF_WISH: Final = re.compile(
    r"\b(?:budget|for|with|under|spend|have|about|around|up\s+to|max(?:imum)?)\b[^.?!$\d]{0,20}\$\s?(\d[\d,]*)(?!\s?\d)"
    r"|\$\s?(\d[\d,]*)\s+(?:budget|to\s+spend|max\b)",
    re.IGNORECASE,
)


def upgrade_sum(lines: Sequence[TypedLine]) -> float | None:
    """Return the sum for which a list asks for the next parts [USD], 0 if it names none; None if it asks for none."""
    if not any(_WISH.search(line.text) for line in lines):
        return None
    found = (_SUM_OF_WISH.search(line.text) for line in lines)
    named = next((one for one in found if one is not None), None)
    return float((named[1] or named[2]).replace(",", "")) if named is not None else 0.0


_OWN: Final = re.compile(
    r"\bmy\s+(?:current\s+|existing\s+|old\s+|present\s+)?(?:rig|pc|machine|setup|build|server|workstation|desktop|system|box)\b"
    r"|\b(?:I|we)\s+(?:currently\s+)?(?:have|own|run|use|am\s+running|'m\s+running)\b|\bI(?:'ve|\s+have)\s+got\b|\bI'm\s+running\b",
    re.IGNORECASE,
)


def speaks_of_own_machine(lines: Sequence[TypedLine]) -> bool:
    """Whether a question speaks of a machine that its owner uses: `my rig is a 5800X3D w/ ...`."""
    return any(
        _OWN.search(line.text) and (len(line.text) > _SHORT_TITLE or "?" in line.text) for line in lines
    )


_SHORT_TITLE: Final = 60
"""Length up to which a row that says `my build` is a title, which may stand above a plan [characters]. Own choice."""
_VERSUS: Final = re.compile(r"\s+(?:vs\.?|versus|compared\s+(?:to|with))\s+", re.IGNORECASE)
_CHOICE: Final = re.compile(
    r"\b(?:should|which|better|choos\w+|choice|pick|decid\w+|between|torn|get|buy|compare)\b", re.IGNORECASE
)
_EITHER: Final = re.compile(r"\s+or\s+(?:(?:should\s+I|just|rather)\s+)?(?:get\s+|buy\s+)?", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"\bbetween\b.*?\band\b", re.IGNORECASE)
_END_OF_CHOICE: Final = re.compile(
    r"\s+(?:(?:for|under|around|at)(?!\s+\$)|to\s+run|if|when|as|which|running|given)\s|[,;:?!]|\.\s|\s[-–—]\s|$",
    re.IGNORECASE,
)
_HOST_OF: Final = re.compile(r"\s+(?:on|in|with|inside)\s+", re.IGNORECASE)
"""Words between the cards of a machine and its host."""
_END_OF_SENTENCE_ALONE: Final = re.compile(r"[.?!](?:\s|$)")
_PURPOSE: Final = re.compile(
    r"\s+(?:(?:for|under|around|at)(?!\s+\$)|to\s+run|if|when|which|running|given)\s|\s[-–—]\s", re.IGNORECASE
)
_LONGEST_CHOICE: Final = 6
"""Largest number of words ahead of a choice that its question may have."""


def split_alternatives(lines: Sequence[TypedLine]) -> list[tuple[str, list[TypedLine]]]:
    """Return the lists that a question names to choose between, with their names; each has the other lines too. A list
    that asks for no choice is returned without a name."""
    for place, line in enumerate(lines):
        names, rest, before = _choices_in(line.text) if line.category is None else ([], "", "")
        if names:
            ahead = [*lines[:place], *_lines_of((before,), replace(line, usd=None))]
            behind = [
                *([replace(read_line(rest, line.where), text=rest)] if rest else []),
                *lines[place + 1 :],
            ]
            chosen = [replace(read_line(name, line.where), text=name) for name in names]
            return [(name, [*ahead, one, *behind]) for name, one in zip(names, chosen, strict=True)]
    return [("", list(lines))]


def _choices_in(text: str) -> tuple[list[str], str, str]:
    """Return the machines or cards between which a text asks to choose, none if it asks for no choice; the parts behind
    them that each would join (`... for my 9700X / B850 Tomahawk`), and those in sentences ahead of them."""
    sides = _VERSUS.split(text)
    if len(sides) < 2 and ("?" in text or _CHOICE.search(text)) and not _SWAP.search(text):
        between = _BETWEEN.search(text)
        if between is not None:
            text = re.sub(r"\s+and\s+", " or ", text[between.start() :], count=1)
        sides = _EITHER.split(text)
    if len(sides) < 2:
        return [], "", ""
    sides[0] = sides[0].rstrip(" ,")
    ends = [end.end() for end in _END_OF_SENTENCE.finditer(sides[0])]
    start = ends[-1] if ends else 0
    first = sides[0][start:]
    ahead = re.split(r"[.?!]\s", sides[0][:start])
    before = ". ".join(ahead[:-1]) if ends and ahead[-1].strip() else ". ".join(ahead).strip()
    names = [
        _choice_at_end(first),
        *(_END_OF_CHOICE.split(side, maxsplit=1)[0].strip() for side in sides[1:]),
    ]
    names = [re.sub(r"^(?:an?|the|my|with|of)\s+", "", name, flags=re.IGNORECASE) for name in names]
    kinds = [_kind_of_choice(name) for name in names]
    if not all(kind in ("gpu", "system", "board") for kind in kinds) or set(kinds) == {"board"}:
        return [], "", ""
    if set(kinds[:-1]) == {"system"} and kinds[-1] != "system":
        # A complete machine takes no further parts: those behind the last choice are its own.
        own = _PURPOSE.split(_END_OF_SENTENCE_ALONE.split(sides[-1], maxsplit=1)[0], maxsplit=1)[0].rstrip(
            "? "
        )
        return [*names[:-1], own], "", before if kind_in(before) is not None else ""
    behind = re.sub(
        r"^(?:my|the|this|an?)\s+", "", _END_OF_CHOICE.split(f"{sides[-1]} ", maxsplit=1)[-1].strip()
    )
    return names, behind if kind_in(behind) is not None else "", before if kind_in(before) is not None else ""


def _kind_of_choice(name: str) -> str | None:
    """Return the kind of part that a choice names first; a PC with parts is one with a board."""
    own = _HOST_OF.split(name, maxsplit=1)[0]
    return "board" if _ANY_PC.fullmatch(own) else kind_in(own)


_ANY_PC: Final = re.compile(
    r"(?:an?\s+|my\s+|the\s+)?(?:(?:custom|self-?built|diy|gaming|desktop|used|new|ai)\s+)*"
    r"(?:pc|rig|build|desktop|workstation|server|machine|tower)",
    re.IGNORECASE,
)
"""Machine that a choice names by no model: `a PC with an RTX 4090`."""


def _choice_at_end(text: str) -> str:
    """Return the part at the end of a text without the words of the question ahead of it."""
    words = text.split()
    ahead = [n for n, word in enumerate(words[:_LONGEST_CHOICE]) if _CHOICE.fullmatch(word)]
    return " ".join(words[ahead[-1] + 1 if ahead else 0 :])


def with_shared_names(line: TypedLine) -> TypedLine:
    """Return a line whose counted pieces bear the name of the card that a remark gives to all of them."""
    found = _ALL_ALIKE.search(line.text)
    if found is None or find_card_name(found["name"]) is None:
        return line
    ahead = _COUNTED.sub(
        lambda piece: piece.group() + (f" {found['name']}" if _is_nameless_card(piece.group()) else ""),
        line.text[: found.start()],
    )
    text = f"{ahead} {line.text[found.end() :]}".strip()
    named = read_line(text, line.where)
    return replace(line, text=text, what=named.what, quantity=named.quantity)


def _is_nameless_card(text: str) -> bool:
    """Whether a text can be an edition of a card without the card's number: `2x Founders Edition`."""
    return find_card_name(text) is None and kind_in(text) in (None, "gpu")


def split_off_circuit(lines: Sequence[TypedLine]) -> tuple[list[TypedLine], Circuit | None]:
    """Return lines without the wall circuit that they state (`runs on 208V 30A`), and it; None if none states one."""
    rest: list[TypedLine] = []
    circuit: Circuit | None = None
    for line in lines:
        found = _CIRCUIT.search(line.text)
        if found is None:
            rest.append(line)
            continue
        word = (found["num"] or "1").lower()
        num = int(word) if word.isdecimal() else NUMBER_WORDS[word]
        circuit = Circuit(float(found["volts"]), num * float(found["amps"]))
        text = f"{line.text[: found.start()].strip()} {line.text[found.end() :].strip(' .)')}".strip(" (")
        rest += _lines_of((text,), line)
    return rest, circuit
