"""Roles of the mentions in a list: parts that are swapped, added, gone, of another machine or only compared, machines
to choose between, names that several cards share, the circuit."""

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from advisor.catalog.cpu_names import plain_words
from advisor.catalog.errors import InputFileError
from advisor.catalog.units import KILO
from advisor.workstation.assembly import HIGH_VOLTS, Circuit
from advisor.workstation.card_names import find_card_name
from advisor.workstation.foreign_words import fragment, regex
from advisor.workstation.line_pieces import split_line, start_of
from advisor.workstation.mentions import (
    is_model_number,
    maker_words,
    mentions_in,
    rated_watts,
    words_of_cards,
)
from advisor.workstation.part_names import (
    kind_in,
    kit_bytes,
    link_in,
    names_a_model,
    server_in,
    usual_riser,
)
from advisor.workstation.sums import is_price_of, sums_in
from advisor.workstation.system_names import find_systems, is_of_a_laptop
from advisor.workstation.typed_line import (
    BOUGHT,
    LABELS,
    MOST_OF_ONE,
    QUESTION,
    SPOKEN,
    TypedLine,
    number_in,
    plain_text,
    read_line,
    with_price_of,
)

_FIRST: Final = 0xE100
_PART: Final = fragment("remark.part")
_ORDINALS: Final = {"second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}


@dataclass(frozen=True, slots=True)
class Swap:
    """Replacement of a part of the list by another one."""

    old: TypedLine
    new: TypedLine
    category: str

    def __str__(self) -> str:
        is_named = regex("remark.them").fullmatch(self.old.what) is None
        return f"the list is judged with {self.new.what} in place of {self.old.what if is_named else 'what is there'}"


@dataclass(frozen=True, slots=True)
class Addition:
    """Part that a question adds to those of its kind in the list."""

    new: TypedLine
    """Line of the part; its quantity is the number of pieces that come."""
    total: int
    """Number of pieces with those that are there, as the question counts them."""
    is_same: bool
    """Whether the question names the card of the list without its number."""


@dataclass(slots=True)
class Remarks:
    """Lines of a list without what is only spoken of, and what its sentences say besides parts."""

    lines: list[TypedLine] = field(default_factory=list)
    swaps: list[Swap] = field(default_factory=list)
    additions: list[Addition] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    circuit: Circuit | None = None
    """Wall circuit that the list states; None if it states none."""
    wall_limit_w: float | None = None
    """Most power at the wall that the list allows [W]; None if it states none."""
    pooled_gb: int = 0
    """Memory of several cards that the list calls one [GB]; 0 if it calls none so."""
    upgrade_usd: float | None = None
    """Sum for which the list asks for the next parts [USD], 0 if it names none; None if it asks for none."""
    is_running: bool = False
    """Whether the list asks for the next parts, or speaks of a machine that its owner uses."""
    is_present: bool = False
    """Whether the list calls its machine the present one."""


def read_remarks(typed: Sequence[TypedLine]) -> Remarks:
    """Return the lines of a list without what its sentences say besides its parts: swaps, additions, parts that the
    machine does not have, the circuit, the limit of power and the wish for the next parts."""
    found = Remarks()
    named = [one for line in typed for one in _split_models(_with_shared_names(line))]
    lines, circuit = _cut_out(named, regex("remark.circuit"))
    if circuit is not None:
        amps = number_in(circuit["num"]) * float(circuit["amps"] or circuit["amps2"])
        found.circuit = Circuit(float(circuit["volts"] or circuit["volts2"]), amps)
    else:
        lines, found.circuit = _cut_outlet(lines)
        if found.circuit is not None:
            found.notes.append(
                f"the outlet is taken as {found.circuit}; state yours with --circuit if it is another"
            )
    lines, limit = _cut_out(lines, regex("remark.wall_limit"))
    if limit is not None:
        found.wall_limit_w = float(limit["num"].replace(",", "")) * (KILO if limit["kilo"] else 1.0)
    pools = filter(None, (regex("remark.pooled").search(line.text) for line in typed))
    found.pooled_gb = max((int(pool[1] or pool[2]) for pool in pools), default=0)
    asks = _asks_for_parts(lines)
    lines, purse_usd = _cut_purse(lines, asks=asks)
    found.upgrade_usd = _upgrade_sum(lines, purse_usd, asks=asks)
    found.is_running = found.upgrade_usd is not None or _speaks_of_own_machine(lines)
    found.is_present = any(regex("remark.present").search(line.text) for line in lines)
    seen: list[str] = []
    for line in map(_without_wish, lines):
        text = plain_text(line)
        skeleton, names = _skeleton(text)
        if line.category is None and names:
            kept = [
                _read_sentence(one, names, seen, line.where, found)
                for one in regex("remark.end_of_sentence").split(regex("remark.doubt").sub(" ", skeleton))
            ]
            rest = _restore(" ".join(filter(None, kept)), names)
            if rest != text:
                found.lines += _lines_of(rest, line)
                continue
        seen += names
        found.lines.append(line)
    if not found.lines:  # a text is no remark on something else where it says nothing but that
        found.lines = lines
        found.notes.clear()
    return found


def _cut_outlet(lines: list[TypedLine]) -> tuple[list[TypedLine], Circuit | None]:
    """Return lines and the circuit of the outlet that they name without its volts or its amperes; None if they name
    none. One of volts alone has the fewest amperes that are usual for them, as most walls have more."""
    rest, stated = _cut_out(lines, regex("remark.volts"))
    if stated is not None:
        volts = float(stated["volts"] or stated["volts2"])
        return rest, Circuit(volts, _AMPS_AT_120_V if volts < HIGH_VOLTS else _LEAST_AMPS)
    outlets = (regex("remark.outlet").search(line.text) for line in lines)
    return lines, next((_circuit_of(outlet) for outlet in outlets if outlet is not None), None)


def _circuit_of(outlet: re.Match[str]) -> Circuit:
    """Return the circuit of an outlet that is named by its country or its amperes: 15 A are those of walls with 120 V;
    10, 13 and 16 A of walls with 230 V; other amperes are of both."""
    if outlet["us"]:
        return Circuit(120.0, 15.0)
    if outlet["amps"] is None:
        return Circuit(230.0, 13.0 if outlet["uk"] else 16.0)
    amps = float(outlet["amps"])
    return Circuit(120.0 if amps == _AMPS_AT_120_V else 230.0, amps)


_AMPS_AT_120_V: Final = 15.0
"""Amperes of the usual outlet with 120 V (NEMA 5-15), and of that with 100 V (JIS C 8303)."""
_LEAST_AMPS: Final = 10.0
"""Fewest amperes of an outlet of walls with 220 to 240 V (GB 1002, AS/NZS 3112, CEI 23-50)."""


def _cut_out(
    lines: Sequence[TypedLine], remark: re.Pattern[str]
) -> tuple[list[TypedLine], re.Match[str] | None]:
    """Return lines without a remark on the whole machine, and the last such remark; None if there is none."""
    rest: list[TypedLine] = []
    last: re.Match[str] | None = None
    for line in lines:
        found = remark.search(line.text)
        if found is None:
            rest.append(line)
            continue
        last = found
        text = f"{line.text[: found.start()].strip()} {line.text[found.end() :].strip(' .)')}".strip(" (),.")
        rest += _lines_of(text, line) if kind_in(text) is not None else []
    return rest or list(lines), last


def _skeleton(text: str) -> tuple[str, list[str]]:
    """Return a text with a private character for each mention, and the mentions."""
    names: list[str] = []
    skeleton = ""
    end = 0
    for one in mentions_in(text):
        skeleton += text[end : one.start] + chr(_FIRST + len(names))
        names.append(text[one.start : one.end])
        end = one.end
    return skeleton + text[end:], names


def _restore(skeleton: str, names: Sequence[str]) -> str:
    return regex("remark.any_part").sub(lambda part: names[ord(part.group()) - _FIRST], skeleton)


def _read_sentence(sentence: str, names: Sequence[str], seen: list[str], where: str, found: Remarks) -> str:
    """Return what is left of a sentence without its remarks, which join those found."""
    if not any(regex(f"remark.{name}").search(sentence) for name in ("any_part", "addition")):
        return sentence
    swaps = regex("remark.swap").search(sentence)
    is_instead = swaps is not None and swaps["new4"] is not None
    if regex("remark.of_others").search(sentence) and not is_instead:
        found.notes.append(f"{_restore(sentence, names).strip()!r} is left out: it is of another machine")
        return ""
    place = 0
    while (match := regex("remark.swap").search(sentence, place)) is not None:
        swap = _swap_of(match, names, where)
        place = match.end()
        if swap is not None:
            found.swaps.append(swap)
            sentence = _without(sentence, match)
            place = match.start()
    for aside in regex("remark.aside").finditer(sentence):
        found.notes.append(f"{_restore(aside.group(), names).strip()!r} names no part of the machine")
    sentence = regex("remark.aside").sub(" ", sentence)
    place = 0
    while (match := regex("remark.addition").search(sentence, place)) is not None:
        addition = _addition_of(match, names, where)
        place = match.end()
        if addition is not None:
            if regex("remark.later").search(sentence):
                found.notes.append(f"{_restore(match.group(), names).strip()!r} is left out: it comes later")
            else:
                found.additions.append(addition)
            sentence = _without(sentence, match)
            place = match.start()
    known = list(seen)
    seen += [names[ord(part) - _FIRST] for part in regex("remark.any_part").findall(sentence)]
    return regex("remark.back").sub(
        lambda part: "" if _is_seen(_restore(part["part"], names), known) else part.group(), sentence
    )


def _without(sentence: str, found: re.Match[str]) -> str:
    """Return a sentence without a remark and what its question considers instead."""
    rest = regex("remark.or_else").sub("", sentence[found.end() :])
    return f"{sentence[: found.start()]} {rest}"


def _is_seen(name: str, seen: Iterable[str]) -> bool:
    """Whether a part was named before: a card by its number, another part by the words of its name."""
    return any(are_alike(TypedLine(one, one, ""), TypedLine(name, name, "")) for one in seen)


def _swap_of(found: re.Match[str], names: Sequence[str], where: str) -> Swap | None:
    told = {
        "old": found["old"] or found["old2"] or found["old3"] or "them",
        "new": found["new"] or found["new2"] or found["new3"] or found["new4"],
    }
    texts = [regex("remark.article").sub("", _restore(each, names)) for each in told.values()]
    try:
        named = (read_line(text, where) for text in texts)
        old, new = (replace(line, what=regex("remark.article").sub("", line.what)) for line in named)
        if old.quantity == 1 and regex("remark.all_of_them").search(texts[0]):
            old = replace(old, quantity=MOST_OF_ONE)
            is_single = regex("remark.single").match(told["new"]) is not None
            new = replace(new, quantity=new.quantity if is_single or new.quantity > 1 else MOST_OF_ONE)
    except InputFileError:
        return None
    kind = kind_in(new.what)
    of_old = LABELS.get(old.what.lower()) or kind_in(old.what)
    is_them = regex("remark.them").fullmatch(old.what) is not None
    is_named = of_old == kind or is_them or _is_of_no_record(old.what)
    return Swap(old, new, kind) if kind is not None and is_named else None


def _is_of_no_record(name: str) -> bool:
    """Whether a replaced part has a name with a number that means no kind of part: no record has it, and it is of the
    kind of the part in its place."""
    return kind_in(name) is None and names_a_model(name) and re.search(r"\d", name) is not None


def _lines_of(text: str, line: TypedLine) -> list[TypedLine]:
    """Return what is left of a line; nothing if no word is."""
    return [_with_text(line, text)] if re.search(r"\w", text) else []


def _with_text(line: TypedLine, text: str) -> TypedLine:
    """Return a line with the name and the number of another text."""
    named = read_line(text, line.where)
    return replace(line, text=text, what=named.what, quantity=named.quantity)


def with_swaps(lines: Sequence[TypedLine], swaps: Sequence[Swap]) -> list[TypedLine]:
    """Return the parts of a list after its swaps: the old part leaves by its number, the new one joins."""
    found = list(lines)
    for swap in swaps:
        if not mentions_in(swap.old.what) and not _is_of_no_record(swap.old.what):  # all parts of that kind
            found = [line for line in found if (line.category or kind_in(line.what)) != swap.category]
        places = (n for n, line in enumerate(found) if are_alike(line, swap.old))
        place = next(places, None)
        if place is None:  # the 1660 of a list that has a GTX 1660 Super
            place = next((n for n, line in enumerate(found) if _bears_number(line, swap.old)), None)
        there = swap.new.quantity
        if place is not None:
            there = found[place].quantity
            left = there - swap.old.quantity
            found[place : place + 1] = [replace(found[place], quantity=left)] if left > 0 else []
        # A plural without a number stands for as many as there are.
        found.append(
            replace(swap.new, quantity=min(swap.new.quantity, there))
            if swap.old.quantity == MOST_OF_ONE
            else swap.new
        )
    return found


def without_repetitions(lines: Sequence[TypedLine]) -> tuple[list[TypedLine], tuple[str, ...]]:
    """Return lines of which a part that a sentence or a table names again counts once, and a note on each.

    A row of the list says what the part is, how many pieces there are and what they cost; a title or a question, which
    only speaks of the part, tells no more than what its row leaves open.
    """
    places = sorted(range(len(lines)), key=lambda place: lines[place].block in SPOKEN)
    found: dict[int, TypedLine] = {}
    first: dict[int, int] = {}
    notes: dict[int, str] = {}
    for place in places:
        line = lines[place]
        again = [other for other, one in found.items() if _is_named_again(one, line)]
        if not again:
            found[place] = line
            first[place] = place
            continue
        old = found[again[0]]
        first[again[0]] = min(first[again[0]], place)
        if line.block in SPOKEN and old.block not in SPOKEN:
            # The number of pieces that a title tells is that of all rows of the part together.
            is_only = len(again) == 1 and old.quantity == 1
            is_priced = old.usd is not None or old.is_included
            found[again[0]] = replace(
                old if is_priced else with_price_of(old, line),
                quantity=line.quantity if is_only else old.quantity,
                is_included=old.is_included or (line.is_included and not is_priced),
            )
            continue
        is_later = line.usd is not None or (line.is_included and old.usd is None)
        priced = line if is_later else old
        bare = _words_alone(old, line, line.category or kind_in(line.what))
        longer = max(old, line, key=lambda one: (one is not bare, len(one.what)))
        found[again[0]] = replace(
            with_price_of(longer, priced),
            quantity=max(old.quantity, line.quantity),
            says_whole_or_each=priced.says_whole_or_each,
            is_included=priced.is_included,
            block=line.block,
        )
        if line.block not in SPOKEN:  # a question speaks of the parts of its list, and is answered
            notes[place] = f"{line.text.strip()!r} is named twice, and counts once"
    in_order = sorted(found, key=lambda place: first[place])
    return [found[place] for place in in_order], tuple(notes[place] for place in sorted(notes))


def _is_named_again(one: TypedLine, line: TypedLine) -> bool:
    """Whether a line names the part of another one again, in a sentence or in a table."""
    kind = line.category or kind_in(line.what)
    if (one.category or kind_in(one.what)) != kind or BOUGHT in (one.block, line.block):
        return False
    if kind == "psu" and regex("remark.one_more").search(line.text):
        return False
    is_alike = one.block != line.block and (kind == "bridge" or _are_same(one, line))
    return is_alike or _words_alone(one, line, kind) is not None


def _are_same(line: TypedLine, other: TypedLine) -> bool:
    """Whether two lines name one part, or memory of one size."""
    return are_alike(line, other) or are_alike(other, line) or _are_kits(line, other)


def _words_alone(line: TypedLine, other: TypedLine, kind: str | None) -> TypedLine | None:
    """Return that of two lines of a kind which only speaks of the part of the other one: a sentence of a supply by its
    rating (`L'alimentation de 850 W suffit-elle ?`), a title of a dock or a bridge (`Mini PC + eGPU for local LLM`);
    None if each names a part."""
    machines = [server_in(one.what) for one in (line, other)] if kind == "board" else [None]
    if machines[0] is not None and machines[0] == machines[-1]:
        return line if other.usd is not None or line.quantity > 1 else other
    for bare, named in ((other, line), (line, other)):
        if bare.usd is not None or bare.quantity > 1 or set(plain_words(bare.what).split()) & maker_words():
            continue
        is_more = regex("remark.one_more").search(bare.text) is not None
        if (
            kind == "psu"
            and not is_more
            and bare.block in SPOKEN
            and (named.block not in SPOKEN or names_a_model(named.what))
        ):
            is_again = rated_watts(bare.what) == rated_watts(named.what) > 0.0
        elif kind == "bridge":
            is_again = regex("piece.bridge_alone").search(bare.what) is None
        else:
            docks = [link_in(one.what, usual_riser()) for one in (bare, named)]
            is_told = bare.block in SPOKEN and named.block not in (bare.block, QUESTION)
            has_kind = regex("name.link_kind").search(bare.what) is not None and not is_told
            names_own = has_kind or any(
                map(is_model_number, plain_words(regex("piece.bare_dock").sub(" ", bare.what)).split())
            )
            is_again = None not in docks and not names_own
        if is_again:
            return bare
    return None


def _are_kits(line: TypedLine, other: TypedLine) -> bool:
    """Whether two lines name memory of one size."""
    sizes = [kit_bytes(one.what) * one.quantity for one in (line, other)]
    return sizes[0] == sizes[1] > 0.0


def are_alike(line: TypedLine, other: TypedLine) -> bool:
    """Whether two lines name one part: cards by their number, other parts by the words of the shorter name."""
    cards = [find_card_name(one.what) for one in (line, other)]
    if cards[0] is not None and cards[1] is not None:
        # A name without a size means the card of that number, whatever memory the list gives it.
        is_bare = any(regex("remark.size").search(one.what) is None for one in (line, other))
        have = [set(card.accelerators) for card in cards if card is not None]
        return (
            bool(have[0] & have[1]) or cards[0] == cards[1] or (is_bare and cards[0].words == cards[1].words)
        )
    machines = [server_in(one.what) for one in (line, other)]
    if machines[0] is not None and machines[0] == machines[1]:
        return True  # `Z440 tower` and `HP Z440 Workstation`
    is_rating = rated_watts(other.what) == rated_watts(line.what) > 0.0 and not names_a_model(other.what)
    return is_rating or set(plain_words(other.what).split()) <= set(plain_words(line.what).split())


def _bears_number(line: TypedLine, other: TypedLine) -> bool:
    """Whether a line names a card with the number by which another one is called."""
    names = (line.what, other.what)
    cards = [find_card_name(name) for name in names]
    numbers = [set(re.findall(r"\d{3,}", name)) for name in names]
    return None not in cards and bool(numbers[1]) and numbers[1] <= numbers[0]


def _addition_of(found: re.Match[str], names: Sequence[str], where: str) -> Addition | None:
    """Return what a question adds; None if it names no card."""
    order = _ORDINALS.get((found["order"] or "").lower(), 0)
    more = number_in(found["more"])
    is_same = re.search(_PART, found["new"]) is None
    new = replace(read_line(_restore(found["new"], names), where), quantity=more, usd=None)
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
        alike = [n for n in cards if addition.is_same or are_alike(found[n], addition.new)]
        if alike:
            place = alike[0]
            old = found[place]
            num = old.quantity + addition.new.quantity
            each = None if old.usd is None else old.usd / old.quantity * num
            if old.is_owned:  # what comes is bought, what is there is not
                own = old.what if addition.is_same else addition.new.what
                found.insert(place, replace(addition.new, what=own, block=old.block))
            else:
                found[place] = replace(old, quantity=num, usd=each)
        elif not addition.is_same:
            # A second card of a list that names none is two of them; beside another card it is one more.
            num = addition.new.quantity if cards else addition.total
            found.append(replace(addition.new, quantity=num))
            place = len(found) - 1
        else:
            continue
        notes.append(f"the list is judged with what its question adds: {num} x {found[place].what}")
    return found, tuple(notes)


def _cut_purse(lines: Sequence[TypedLine], *, asks: bool) -> tuple[list[TypedLine], float]:
    """Return lines without the money that their sentences have for parts, which is the price of none of them, and that
    money [USD]; 0 if they have none."""
    found: list[TypedLine] = []
    usd = 0.0
    for line in lines:
        purse = next((one for one in regex("remark.purse").finditer(line.text) if any(one.groups())), None)
        if purse is None or line.category is not None:
            found.append(line)
            continue
        usd = float(next(filter(None, purse.groups())).replace(",", ""))
        found += _cut_span(line, purse.start(), purse.end())
    if usd or not asks:
        return found or list(lines), usd
    return _cut_loose_sum(found or lines)


def _asks_for_parts(lines: Sequence[TypedLine]) -> bool:
    """Whether a question asks for parts of which it names none: `Which card for larger models?`."""
    return any(
        regex("remark.asks_for_parts").search(sentence) is not None and not mentions_in(sentence)
        for line in lines
        if line.category is None
        for sentence in regex("remark.end_of_sentence").split(line.text)
    )


def _cut_loose_sum(lines: Sequence[TypedLine]) -> tuple[list[TypedLine], float]:
    """Return lines without the clause of a sum that is the price of no part, and that sum [USD]; 0 if there is none."""
    found: list[TypedLine] = []
    usd = 0.0
    for line in lines:
        mentions = mentions_in(line.text)
        loose = next(
            (
                one
                for one in (sums_in(line.text, mentions) if line.category is None and not usd else ())
                if one.counts_as_usd
                and not is_price_of(one, line.text, mentions)
                and not regex("remark.of_a_total").search(line.text[: one.start])
            ),
            None,
        )
        if loose is None:
            found.append(line)
            continue
        usd = loose.amount
        # The clause of the sum goes with it where it names no part.
        start = max(
            (sign.end() for sign in regex("remark.clause_sign").finditer(line.text, 0, loose.start)),
            default=0,
        )
        behind = regex("remark.clause_sign").search(line.text, loose.end)
        end = behind.start() if behind is not None else len(line.text)
        if mentions_in(line.text[start:end]) or line.text[end : end + 1] == "?":
            start = loose.start
            end = loose.end
        found += _cut_span(line, start, end, signs=" ,.")
    return found or list(lines), usd


def _cut_span(line: TypedLine, start: int, end: int, signs: str = " ,") -> list[TypedLine]:
    """Return a line without a part of its text, and the `signs` behind it; none if no word is left. What is left has a
    price of its own, or none."""
    rest = f"{line.text[:start].rstrip(' ,')} {line.text[end:].lstrip(signs)}".strip()
    if re.search(r"\w", rest) is None:
        return []
    return [with_price_of(_with_text(line, rest), read_line(rest, line.where))]


def _upgrade_sum(lines: Sequence[TypedLine], purse_usd: float, *, asks: bool) -> float | None:
    """Return the sum for which a list asks for the next parts [USD], 0 if it names none; None if it asks for none."""
    wishes = any(regex("remark.wish").search(line.text) for line in lines)
    if not wishes and not (purse_usd and asks):
        return None
    if purse_usd:
        return purse_usd
    # Beside a part, such a sum is the part's price, and behind the word for one it is the price of all.
    found = (
        regex("remark.sum_of_wish").search(sentence)
        for line in lines
        for sentence in regex("remark.end_of_sentence").split(line.text)
        if regex("remark.wish").search(sentence)
        or not (mentions_in(sentence) or regex("row.sum_words").match(sentence))
    )
    named = next((one for one in found if one is not None), None)
    return float(next(filter(None, named.groups())).replace(",", "")) if named is not None else 0.0


def _without_wish(line: TypedLine) -> TypedLine:
    """Return a line without its question for the next part, whose sum is no price of a part."""
    found = regex("remark.wish").search(line.text)
    if found is None or line.category is not None:
        return line
    start = max(line.text.rfind(sign, 0, found.start()) for sign in ",.;:?!\n") + 1
    rest = regex("remark.rest_of_wish").match(line.text, found.end() - 1)
    end = rest.end() if rest is not None else len(line.text)
    if mentions_in(line.text[start:end]):
        return line
    rest_of_line = _lines_of(f"{line.text[:start]} {line.text[end:]}".strip(" ,."), replace(line, usd=None))
    return rest_of_line[0] if rest_of_line else line


def _speaks_of_own_machine(lines: Sequence[TypedLine]) -> bool:
    """Whether a question speaks of a machine that its owner uses: `my rig is a 5800X3D w/ ...`."""
    return any(
        regex("remark.asks").match(line.text)
        or (regex("remark.own").search(line.text) and (len(line.text) > _SHORT_TITLE or "?" in line.text))
        for line in lines
    )


_SHORT_TITLE: Final = 60
"""Length up to which a row that says `my build` is a title, which may stand above a plan [characters]. Own choice."""
_AS_IT_IS: Final = "as it is"
"""Name of the machine without what a question considers."""
_LONGEST_CHOICE: Final = 6
"""Largest number of words ahead of a choice that its question may have."""


def split_alternatives(lines: Sequence[TypedLine]) -> list[tuple[str, list[TypedLine]]]:
    """Return the lists that a question names to choose between, with their names; each has the other lines too. A list
    that asks for no choice is returned without a name; rows that are a machine each are choices too."""
    whole = [line.text for line in lines if line.category is None and _is_whole(line.text)]
    if len(set(whole)) == len(lines) > 1:
        return [(line.what, [line]) for line in lines]
    asks = any("?" in line.text for line in lines)
    # Cards to choose between come before other parts.
    for place in sorted(range(len(lines)), key=lambda one: lines[one].category not in (None, "gpu")):
        line = lines[place]
        others = [*lines[:place], *lines[place + 1 :]]
        text = line.text if line.category is None else plain_text(line)
        names, rest, before = _choices_in(text, asks, others)
        if names:
            ahead = [*lines[:place], *_lines_of(before, replace(line, usd=None))]
            sides = list(zip(_sides_of(line.text, names), names, strict=True))
            kept = [regex("remark.keeps").search(f"{words} {name}") is not None for words, name in sides]
            sold = [regex("remark.sells").search(f"{words} {name}") is not None for words, name in sides]
            # What is there costs nothing, whatever is chosen.
            if _speaks_of_own_machine(lines) or any(sold):
                ahead = [as_owned(one) for one in ahead]
            behind = [
                *([replace(read_line(rest, line.where), text=rest)] if rest else []),
                *lines[place + 1 :],
            ]
            if any(sold):
                behind = [as_owned(one) for one in behind]
            sides_ahead = _sides_of(line.text, names)
            names = [regex("remark.keeps").sub("", name) for name in names]
            chosen = [replace(read_line(name, line.where), text=name) for name in names]
            chosen = [as_owned(one) if is_kept else one for one, is_kept in zip(chosen, kept, strict=True)]
            for number, words in enumerate(sides_ahead):
                is_counted = regex("remark.one_more").search(names[number]) is not None
                if not is_counted and regex("remark.acquires").search(words):
                    chosen[number] = replace(chosen[number], block=BOUGHT)
            gone = [
                {"gpu"}
                if is_sold and kind_in(name) in ("gpu", "system")
                else (_REPLACED | _SINGLE_KINDS) & {kind_in(name)}
                for name, is_sold in zip(names, sold, strict=True)
            ]
            found = [
                (name, [*_without_kinds(ahead, kinds), one, *_without_kinds(behind, kinds)])
                for name, one, kinds in zip(names, chosen, gone, strict=True)
            ]
            # What a bridge brings is told by the machine without it.
            has_bridge = "bridge" in map(kind_in, names)
            return [*found, (_AS_IT_IS, [*ahead, *behind])] if has_bridge else found
    return [("", list(lines))]


def _is_whole(text: str) -> bool:
    """Whether a text names a machine that is sold whole, with parts at most: a system or a laptop."""
    return bool(find_systems(text)) or is_of_a_laptop(text)


def as_owned(line: TypedLine) -> TypedLine:
    """Return a line of what the owner has, which costs nothing unless it says what it did."""
    is_priced = line.usd is not None
    return line if is_priced else replace(line, usd=0.0, is_owned=True)


def _sides_of(text: str, names: Sequence[str]) -> list[str]:
    """Return the words of a text ahead of each choice, behind the one before it."""
    found = []
    for name in names:
        ahead, _, text = text.partition(name)
        found.append(ahead)
    return found


def _without_kinds(lines: Sequence[TypedLine], kinds: AbstractSet[str | None]) -> list[TypedLine]:
    """Return lines without the parts of kinds whose place a choice takes."""
    if not kinds:
        return list(lines)
    pieces = [piece for line in lines for piece in split_line(line)]
    return [piece for piece in pieces if (piece.category or kind_in(piece.what)) not in kinds]


def _choices_in(text: str, asks: bool, others: Sequence[TypedLine]) -> tuple[list[str], str, str]:
    """Return the machines or cards between which a text asks to choose, none if it asks for no choice; the parts behind
    them that each would join (`... for my 9700X / B850 Tomahawk`), and those in sentences ahead of them."""
    of_one_kind = _parts_of_one_kind(text, others)
    if of_one_kind[0]:
        return of_one_kind
    sides = regex("remark.versus").split(text)
    if (
        len(sides) < 2
        and (asks or regex("remark.choice").search(text))
        and not regex("remark.swap").search(text)
    ):
        between = regex("remark.between").search(text)
        if between is not None:
            text = re.sub(r"\s+and\s+", " or ", text[between.start() :], count=1)
        sides = regex("remark.either").split(text)
    if len(sides) < 2:
        return [], "", ""
    sides = [sides[0].rstrip(" ,"), *map(_without_verb, sides[1:])]
    if any(regex("remark.gives_away").match(side) for side in sides[1:]):
        return [], "", ""  # `or must I replace the 3090?` names what goes, and no choice
    named = regex("remark.comma").split(sides[0])
    if all(_kind_of_choice(name) in ("gpu", "system") for name in (_choice_at_end(named[0]), *named[1:])):
        sides[:1] = named  # `A, B or C`
    ends = [end.end() for end in regex("remark.end_of_sentence").finditer(sides[0])]
    start = ends[-1] if ends else 0
    first = sides[0][start:]
    ahead = re.split(r"[.?!]\s", sides[0][:start])
    before = ". ".join(ahead[:-1]) if ends and ahead[-1].strip() else ". ".join(ahead).strip()
    names = [
        _choice_at_end(first),
        *(regex("remark.end_of_choice").split(side, maxsplit=1)[0].strip() for side in sides[1:]),
    ]
    names = [
        _without_words_ahead(re.sub(r"^(?:an?|the|my|with|of)\s+", "", name, flags=re.IGNORECASE))
        for name in (regex("remark.verb_behind").sub("", name) for name in names)
    ]
    if {_kind_of_choice(name) for name in names[1:]} == {"gpu"} and _kind_of_choice(names[0]) == "board":
        host, names[0] = _split_off_card(
            names[0]
        )  # `Can my OptiPlex take an A2000 or a P4?`: the machine is of both
        before = f"{before}. {host}".strip(" .")
    kinds = [_kind_of_choice(name) for name in names]
    beside = {one.kind for text in (before, *(line.text for line in others)) for one in mentions_in(text)}
    is_of_parts = set(kinds) <= _REPLACED | {"gpu"} and len(beside) > 1 and all(map(mentions_in, names))
    is_of_machines = all(kind in _KINDS_OF_A_CHOICE for kind in kinds)
    if not (is_of_parts or is_of_machines) or set(kinds) <= {"board", "bridge"}:
        return [], "", ""
    if set(kinds[:-1]) == {"system"} and kinds[-1] != "system":
        # A complete machine takes no further parts: those behind the last choice are its own.
        own = (
            regex("remark.purpose")
            .split(regex("remark.end_of_sentence_alone").split(sides[-1], maxsplit=1)[0], maxsplit=1)[0]
            .rstrip("? ")
        )
        return [*names[:-1], own], "", before if kind_in(before) is not None else ""
    behind = re.sub(
        r"^(?:my|the|this|an?)\s+",
        "",
        regex("remark.end_of_choice").split(f"{sides[-1]} ", maxsplit=1)[-1].strip(),
    )
    return names, behind if kind_in(behind) is not None else "", before if kind_in(before) is not None else ""


def _parts_of_one_kind(text: str, others: Sequence[TypedLine]) -> tuple[list[str], str, str]:
    """Return parts of one kind that a text names with `or` or a slash between them, as `750W or 1000W`, with what
    stands behind and ahead of them; none if it names no such parts, or only them. Cards with a slash between them are
    a choice where a text names nothing else."""
    mentions = mentions_in(text)
    kinds = {one.kind for one in mentions}
    for place, first in enumerate(mentions):
        run = [first]
        for one in mentions[place + 1 :]:
            begin = start_of(text, run[-1].end, one)
            between = regex("remark.or_between").fullmatch(text, run[-1].end, begin)
            if one.kind != first.kind or between is None:
                break
            is_of_cards = one.kind == "gpu" and between["slash"] and kinds == {"gpu"} and not others
            if one.kind not in _SINGLE_KINDS and not is_of_cards:
                break
            run.append(one)
        is_joined = kinds - {first.kind} or others or first.kind == "gpu"
        if len(run) > 1 and is_joined:
            starts = [
                start_of(text, run[number - 1].end if number else 0, one) for number, one in enumerate(run)
            ]
            names = [text[start : one.end].strip() for start, one in zip(starts, run, strict=True)]
            behind = regex("remark.of_a_kind").sub("", text[run[-1].end :], count=1)
            behind = behind.strip(" ?.,")
            ahead = text[: starts[0]].strip(" ?.,")
            behind, ahead = (words if kind_in(words) is not None else "" for words in (behind, ahead))
            return names, behind, ahead
    return [], "", ""


_SINGLE_KINDS: Final = frozenset(("psu", "board", "case", "cpu", "cooler"))
"""Kinds of part of which a machine has one, so that two with `or` between them are a choice."""
_REPLACED: Final = frozenset(("cpu", "ram", "psu", "case", "cooler"))
"""Kinds of part of which a choice replaces the listed one."""
_KINDS_OF_A_CHOICE: Final = ("gpu", "system", "board", "bridge")


def _without_verb(side: str) -> str:
    """Return the words of a choice without the verb by which it replaces a listed part."""
    return regex("remark.in_place").sub("", side.strip())


def _split_off_card(name: str) -> tuple[str, str]:
    """Return the words ahead of the last card that a text names, and the card; no card if it names none."""
    cards = [one for one in mentions_in(name) if one.kind == "gpu"]
    if not cards:
        return "", name
    start = start_of(name, 0, cards[-1])
    return re.sub(r"(?:\s+[a-z]+)*\s*$", "", name[:start]), name[start:]


def _without_words_ahead(name: str) -> str:
    """Return a choice from its number, its maker or an adjective on, if words of a sentence stand ahead of the first
    part that it names: `Thinking of getting a second 3090`."""
    if regex("remark.any_pc").fullmatch(regex("remark.host_of").split(name, maxsplit=1)[0]):
        return name  # `a PC with Ryzen 9 7900X`: the machine has what is named
    mentions = mentions_in(name)
    bridge = regex("remark.bridge_named").search(name)
    if bridge is not None and not mentions:
        return bridge.group()
    if mentions and mentions[0].kind in _REPLACED:
        return name[start_of(name, 0, mentions[0]) :]
    ahead = name[: mentions[0].start].split() if mentions and mentions[0].kind == "gpu" else []
    is_own = [
        regex("piece.is_ahead").fullmatch(one.lower())
        or one.lower() in {*maker_words(), *_ORDINALS, "another", "more"}
        for one in ahead
    ]
    first = next((n + 1 for n in range(len(ahead) - 1, -1, -1) if not is_own[n]), 0)
    return " ".join(name.split()[first:]) if first else name


def _kind_of_choice(name: str) -> str | None:
    """Return the kind of part that a choice names first; a PC with parts is one with a board."""
    own = regex("remark.host_of").split(name, maxsplit=1)[0]
    return "board" if regex("remark.any_pc").fullmatch(own) else kind_in(own)


def _choice_at_end(text: str) -> str:
    """Return the part at the end of a text without the words of the question ahead of it."""
    words = text.split()
    ahead = [
        n
        for n, word in enumerate(words[:_LONGEST_CHOICE])
        if regex("remark.choice").fullmatch(word.strip(":,"))
    ]
    return " ".join(words[ahead[-1] + 1 if ahead else 0 :])


def _with_shared_names(line: TypedLine) -> TypedLine:
    """Return a line whose counted pieces bear the name of the card that a remark gives to all of them."""
    found = regex("remark.all_alike").search(line.text)
    if found is None or find_card_name(found["name"]) is None:
        return line
    ahead = regex("remark.counted").sub(
        lambda piece: piece.group() + (f" {found['name']}" if _is_nameless_card(piece.group()) else ""),
        line.text[: found.start()],
    )
    return _with_text(line, f"{ahead} {line.text[found.end() :]}".strip())


def _split_models(line: TypedLine) -> list[TypedLine]:
    """Return the lines for the models of which a bracket behind several cards tells how many are which; a bracket that
    names makers without numbers tells no model of any."""
    found = regex("remark.models").search(line.text) if line.quantity > 1 else None
    if found is None or find_card_name(line.text[: found.start()]) is None:
        return [line]
    told = regex("remark.model_of_some").split(found["models"])
    some = [one for text in told if (one := regex("remark.some").fullmatch(text)) is not None]
    if len(some) != len(told) or not all(_is_of_a_card(one["name"]) for one in some):
        return [line]
    bare = _with_text(line, f"{line.text[: found.start()]} {line.text[found.end() :].strip()}".strip())
    numbers = [number_in(one["num"]) for one in some]
    if sum(numbers) != line.quantity or not all(one["num"] for one in some):
        return [bare] if len(some) > 1 else [line]
    usd = None if line.usd is None else line.usd / line.quantity
    return [
        replace(
            bare,
            text=f"{num}x {bare.what} {one['name']}",
            what=f"{bare.what} {one['name']}",
            quantity=num,
            usd=None if usd is None else usd * num,
            usd_low=None,
            usd_high=None,
            says_whole_or_each=True,
        )
        for num, one in zip(numbers, some, strict=True)
    ]


def _is_of_a_card(text: str) -> bool:
    """Whether words are a maker or a product line of cards, and no card of their own."""
    words = set(plain_words(regex("remark.of_models").sub(" ", text)).split())
    return find_card_name(text) is None and bool(words) and words <= words_of_cards() | maker_words() | {"fe"}


def _is_nameless_card(text: str) -> bool:
    """Whether a text can be an edition of a card without the card's number: `2x Founders Edition`."""
    return find_card_name(text) is None and kind_in(text) in (None, "gpu")
