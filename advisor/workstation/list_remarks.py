"""Remarks of a parts list that change how its parts are read: swaps, names that several cards share, the circuit."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.cpu_names import plain_words
from advisor.catalog.errors import InputFileError
from advisor.workstation.assembly import Circuit
from advisor.workstation.card_names import find_card_name
from advisor.workstation.part_names import kind_in
from advisor.workstation.typed_line import TypedLine, read_line

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
    r"|circuit|outlet)\b[\s:]*)*\b(?P<volts>1[0-2]\d|2[0-4]\d)\s?V(?:AC)?\b[\s/,@-]{0,3}(?P<amps>\d{2})\s?A(?:mps?)?\b"
    r"(?:\s*\b(?:dedicated|circuit|outlet|line|breaker|socket|plug)\b)*",
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


def _swap_of(found: re.Match[str], where: str) -> Swap | None:
    try:
        old, new = read_line(found["old"], where), read_line(found["new"], where)
    except InputFileError:
        return None
    kind = kind_in(old.what)
    return Swap(old, new, kind) if kind is not None and kind == kind_in(new.what) else None


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
        circuit = Circuit(float(found["volts"]), float(found["amps"]))
        text = f"{line.text[: found.start()].strip()} {line.text[found.end() :].strip(' .)')}".strip(" (")
        rest += _lines_of((text,), line)
    return rest, circuit
