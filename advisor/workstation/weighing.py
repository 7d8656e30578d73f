"""Weighing of parts that may come against those that are there: a question that considers keeping, selling, replacing
or joining them, read clause by clause."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from advisor.workstation.foreign_words import regex
from advisor.workstation.line_pieces import split_line, start_of
from advisor.workstation.list_remarks import Swap, are_alike, as_owned, with_swaps
from advisor.workstation.mentions import Mention, mentions_in, model_names_in
from advisor.workstation.part_names import kind_in
from advisor.workstation.typed_line import BOUGHT, MOST_OF_ONE, TypedLine, plain_text, read_line

Act = Literal["keep", "drop", "swap", "get"]
Role = Literal["own", "new"]
_OF_ACT: Final[dict[str, Role]] = {"keep": "own", "drop": "own", "swap": "own", "get": "new"}
"""Role of a part that a verb governs, unless a word directly ahead of it tells another."""
_FILLER: Final = "\ue100"
"""Character that stands for each one of a mention, so that words around it have their places in the text."""
_KINDS: Final = frozenset(("gpu", "system", "cpu", "psu", "case", "cooler", "board", "ram"))
"""Kinds of part that a question weighs."""
_JOINING: Final = frozenset(("gpu", "ram"))
"""Kinds of part of which a machine takes more than one."""


@dataclass(frozen=True, slots=True)
class _Clause:
    """Sentence that weighs parts, with its verbs and the parts that it names."""

    text: str
    masked: str
    """Text in which each character of a mention is the filler."""
    acts: tuple[tuple[int, int, Act], ...]
    """Place, end and meaning of each verb."""
    mentions: tuple[Mention, ...]

    @classmethod
    def of(cls, text: str) -> "_Clause":
        mentions = mentions_in(text)
        masked = text
        for one in mentions:
            masked = masked[: one.start] + _FILLER * (one.end - one.start) + masked[one.end :]
        acts = tuple(
            (found.start(), found.end(), name)
            for found in regex("weigh.act").finditer(masked)
            for name in _OF_ACT
            if found[name] is not None
        )
        return cls(text, masked, acts, mentions)  # type: ignore[arg-type]

    @property
    def is_compared_with_own(self) -> bool:
        """Whether the sentence compares a part with one of its writer: `Is a 3090 better than my 4080`."""
        return regex("weigh.than_own").search(self.masked) is not None

    @property
    def weighs(self) -> bool:
        """Whether a verb or a comparison speaks of the owner's parts."""
        return self.is_compared_with_own or any(act != "get" for _, _, act in self.acts)

    @property
    def ponders(self) -> bool:
        """Whether the sentence tells what its writer thinks of."""
        return regex("weigh.ponders").search(self.masked) is not None

    @property
    def asks(self) -> bool:
        """Whether the sentence is a question, with its mark or without."""
        return "?" in self.text or regex("weigh.should").search(self.masked) is not None

    @property
    def is_of_question(self) -> bool:
        """Whether the sentence names or handles parts that a question weighs, and does not only list them."""
        has_cards = any(one.kind in _LARGE for one in self.mentions)
        return bool(self.acts) or self.is_compared_with_own or (has_cards and self.asks)

    @property
    def doubts(self) -> bool:
        """Whether the sentence asks if something is to be done, and not how, or whether it can be."""
        is_bare = "?" in self.text and any(start <= _START for start, _, _ in self.acts)
        keeps = any(act == "keep" for _, _, act in self.acts)
        return keeps or is_bare or regex("weigh.doubt").search(self.masked) is not None

    def role(self, mention: Mention) -> Role | None:
        """Return whether a part is there or may come; None if no word tells."""
        # A preposition behind a verb of exchange tells what comes; a verb directly behind a part governs it.
        before = [one for one in self.acts if one[1] <= mention.start]
        since = max(
            [before[-1][1] if before else 0, *(one.end for one in self.mentions if one.end <= mention.start)]
        )
        ahead = self.masked[since : mention.start]
        behind = self.masked[mention.end :]
        exchanges = [act for _, _, act in before if act in ("drop", "swap")]
        if regex("weigh.instead").match(behind) or regex("weigh.against").search(ahead):
            return "new"
        if (exchanges and regex("weigh.from").search(ahead)) or regex("weigh.arrow").match(behind):
            return "own"
        if exchanges and before[-1][2] != "keep" and regex("weigh.for").search(ahead):
            return "new"
        if regex("weigh.own").search(self.masked[: mention.start]):
            return "own"
        after = regex("weigh.act_behind").match(behind)
        if after is not None:
            return next(role for act, role in _OF_ACT.items() if after[act] is not None)
        if before:
            return _OF_ACT[before[-1][2]]
        return "new" if self.is_compared_with_own else None


_START: Final = 6
"""Largest number of characters ahead of the verb of a question that begins with it: `So, sell it?`."""


@dataclass(frozen=True, slots=True)
class _Option:
    """Parts that may come together."""

    lines: tuple[TypedLine, ...]
    is_more: bool
    """Whether its words say that it joins the owner's parts: `another 3090`."""
    drops: tuple[TypedLine, ...]
    """Parts that its sentence gives away."""

    @property
    def name(self) -> str:
        return " + ".join(regex("weigh.single").sub("", line.text) for line in self.lines)

    @property
    def kinds(self) -> set[str | None]:
        return set(map(kind_in_line, self.lines))


def weigh(lines: Sequence[TypedLine]) -> list[tuple[str, list[TypedLine]]]:
    """Return the machines between which the questions of a list weigh, with their names: the one with each part that
    may come in place of what it replaces, the one with both, and the one that is there; none if no question weighs
    parts.

    Verbs are an open class, so no verb has to be known: a question that names a part of its writer and another one
    weighs them, unless it asks whether a machine takes both.
    """
    parted = [(line, _clauses_of(line)) for line in lines]
    clauses = [one for _, each in parted for one in each]
    if not any(one.asks for one in clauses):
        return []
    asks = [one for one in clauses if one.is_of_question]
    rest = [as_owned(kept) for line, each in parted for kept in _rest_of(line, each, asks)]
    pieces = [piece for line in rest for piece in split_line(line)]
    own: list[TypedLine] = []
    options: list[_Option] = []
    for clause in asks:
        _read(clause, lines[0].where, own, options, pieces)
    weighing = [clause for clause in asks if clause.weighs]
    if own and not options:
        kind = kind_in_line(own[0]) or "gpu"
        named = (
            one for clause in weighing for one in _of_no_record(clause, "new_name", kind, lines[0].where)
        )
        options = [_Option((replace(one, block=BOUGHT),), False, ()) for one in named]
    if options and not own and not pieces:
        kind = next(iter(options[0].kinds)) or "gpu"
        own = [one for clause in weighing for one in _of_no_record(clause, "own_name", kind, lines[0].where)]
    own = [as_owned(line) for line in own]
    there = [*pieces, *(line for line in own if not any(are_alike(one, line) for one in pieces))]
    joins = {kind for one in options for kind in one.kinds} <= _JOINING
    joins = joins and not any(kind_in_line(line) == "system" for line in there)
    if not _is_weighed(asks, clauses, own, pieces, options):
        return []
    takes_all = any(regex("weigh.all").search(one.masked) for one in asks)
    found: list[tuple[str, list[TypedLine]]] = []
    for one in options:
        name = f"another {one.name}" if one.is_more else f"{one.name} instead"
        found.append((name, _with_option(one, there, own, takes_all=takes_all)))
        if joins and not one.is_more and not takes_all:
            found.append((f"{one.name} beside it", [*there, *one.lines]))
    kept = (line for line in there if kind_in_line(line) in {*_LARGE, *options[0].kinds})
    names = (
        f"{'' if line.quantity == 1 else f'{line.quantity} x '}{line.what.strip(' .,:;?!')}" for line in kept
    )
    return [*found, (f"{' + '.join(names) or 'the machine'} as it is", there)]


_LARGE: Final = frozenset(("gpu", "system"))


def _is_weighed(
    asks: Sequence[_Clause],
    clauses: Sequence[_Clause],
    own: Sequence[TypedLine],
    pieces: Sequence[TypedLine],
    options: Sequence[_Option],
) -> bool:
    """Whether sentences weigh parts that may come against those that are there."""
    if not options or any(regex("remark.bridge_named").search(one.masked) for one in asks):
        return False
    first, *others = (one.kinds for one in options)
    # A card may come in place of a whole machine, and the other way round.
    exchanged = first | _LARGE if first <= _LARGE else first
    there = {*map(kind_in_line, own), *map(kind_in_line, pieces)}
    if not (first <= _KINDS and all(each <= exchanged for each in others) and exchanged & there):
        return False
    gives = any(one.weighs for one in asks)
    doubts = any(one.doubts for one in clauses)
    if gives and doubts:
        return True
    # What joins the parts that are there is no choice.
    if all(one.is_more for one in options) or any(regex("weigh.joins").search(one.masked) for one in asks):
        return False
    names_them = any(one.asks and one.mentions for one in asks) or (
        doubts and any(one.ponders for one in asks)
    )
    return names_them and not any(regex("weigh.feasible").search(one.masked) for one in clauses)


def kind_in_line(line: TypedLine) -> str | None:
    """Return the kind of part of a line."""
    return line.category or kind_in(line.what)


def _with_option(
    option: _Option, there: Sequence[TypedLine], own: Sequence[TypedLine], *, takes_all: bool
) -> list[TypedLine]:
    """Return the parts of a machine after what an option gives away and buys."""
    if takes_all or "system" in option.kinds:
        return list(option.lines)
    if option.is_more and not option.drops:
        return [*there, *option.lines]
    # A card takes the place of a complete machine as a machine around it does.
    there = [line for line in there if not (option.kinds <= _LARGE and kind_in_line(line) == "system")]
    first, *others = option.lines
    kind = kind_in_line(first) or ""
    gone = [line for line in option.drops or own if kind_in_line(line) == kind] or [
        replace(first, what="them")
    ]
    # The first part that goes makes room for the new one; the others only go.
    kept = with_swaps(there, [Swap(line, first, kind) for line in gone])
    return [*(line for line in kept if line.block != BOUGHT), first, *others]


def machines_apart(lines: Sequence[TypedLine]) -> list[tuple[str, list[TypedLine]]]:
    """Return the machines between which a sentence asks to choose of which one is sold whole and another one is told by
    its CPU or board, with their names; none if it asks for none. A whole machine takes no parts, so what stands on the
    other side of `or` is another machine with all that its side names."""
    parted = [(line, _clauses_of(line)) for line in lines]
    asks = [
        one for _, each in parted for one in each if {"system"} < {mention.kind for mention in one.mentions}
    ]
    if len(asks) != 1 or asks[0].weighs:
        return []
    (clause,) = asks
    bounds = list(regex("weigh.apart").finditer(clause.masked))
    starts = [0, *(found.end() for found in bounds)]
    stops = [*(found.start() for found in bounds), len(clause.text)]
    sides: list[tuple[str, set[str]]] = []
    for start, stop in zip(starts, stops, strict=True):
        inside = [one for one in clause.mentions if start <= one.start < stop]
        kinds = {one.kind for one in inside}
        spans = [[one] for one in inside] if kinds == {"system"} else [inside] if inside else []
        for span in spans:
            price = regex("weigh.price").match(clause.text, span[-1].end)
            begin = start_of(clause.text, start, span[0])
            sides.append((clause.text[begin : span[-1].end if price is None else price.end()], kinds))
    is_told = any(kinds == {"system"} for _, kinds in sides) and any(
        kinds & {"cpu", "board"} for _, kinds in sides
    )
    mixed = any("system" in kinds and kinds != {"system"} for _, kinds in sides)
    if len(sides) < 2 or not is_told or mixed:
        return []
    if any(one.mentions for _, each in parted for one in each if one is not clause):
        return []
    where = lines[0].where
    named = [regex("remark.article").sub("", text.strip()) for text, _ in sides]
    return [(name, [replace(read_line(name, where), text=name)]) for name in named]


def _clauses_of(line: TypedLine) -> list[_Clause]:
    """Return the sentences of a line; none of a row with a label."""
    if line.category is not None:
        return []
    text = line.text
    masked = _Clause.of(text).masked
    ends = [(found.start(), found.end()) for found in regex("remark.end_of_sentence").finditer(masked)]
    starts = [0, *(end for _, end in ends)]
    stops = [*(start for start, _ in ends), len(text)]
    return [_Clause.of(text[start:stop]) for start, stop in zip(starts, stops, strict=True)]


def _rest_of(line: TypedLine, clauses: Sequence[_Clause], asks: Sequence[_Clause]) -> Iterator[TypedLine]:
    """Yield a line without the sentences that weigh parts, of which parts of other kinds stay."""
    gone = [one for one in clauses if one in asks]
    if not gone:
        yield line
        return
    kept = " ".join(one.text for one in clauses if one not in gone)
    if re.search(r"\w", kept):
        named = read_line(kept, line.where)
        yield replace(line, text=kept, what=named.what, quantity=named.quantity, usd=named.usd)
    for clause in gone:
        for mention in clause.mentions:
            if clause.role(mention) is None and mention.kind not in _LARGE:
                begin = start_of(clause.text, 0, mention)
                yield replace(read_line(clause.text[begin : mention.end], line.where), block=line.block)


def _read(
    clause: _Clause,
    where: str,
    own: list[TypedLine],
    options: list[_Option],
    listed: Sequence[TypedLine],
) -> None:
    """Add the parts of a sentence to those that are there, or to the options that may come; `listed` holds the parts
    that other sentences and rows name, which are there."""
    has_cards = any(kind_in_line(line) in _LARGE for line in listed)
    roles = [clause.role(one) for one in clause.mentions]
    drops: list[TypedLine] = []
    last: Mention | None = None
    for mention, told in zip(clause.mentions, roles, strict=True):
        line = _line_of(clause, mention, where)
        is_more = (
            regex("remark.one_more").search(clause.text[_begin(clause, mention) - 9 : mention.start])
            is not None
        )
        role = told
        if role is None and mention.kind in _LARGE:
            # The first card of a question what to give away is one that is there.
            is_first = clause.weighs and not (has_cards or own or "own" in roles)
            role = "own" if is_first else "new"
        is_there = any(are_alike(one, line) for one in (*own, *listed))
        if is_there and not is_more and told != "new":
            role = "own"
        # A card like those that are there joins them.
        is_more = is_more or (is_there and role == "new")
        if role == "own":
            own += [] if any(are_alike(line, one) for one in own) else [line]
            drops += [line] if _is_given_away(clause, mention) else []
        elif role == "new" and not any(are_alike(line, one) for each in options for one in each.lines):
            line = replace(line, block=BOUGHT)
            between = clause.masked[last.end : mention.start] if last is not None else ""
            joins = (
                last is not None and regex("weigh.and").fullmatch(between.replace(_FILLER, "")) is not None
            )
            if joins and options:
                options[-1] = replace(options[-1], lines=(*options[-1].lines, line))
            else:
                options.append(_Option((line,), is_more, tuple(drops)))
        last = mention


def _of_no_record(clause: _Clause, pattern: str, kind: str, where: str) -> Iterator[TypedLine]:
    """Yield the part of a kind that a sentence weighs and no record has, so that the answer names it: `sell my Quadro
    M4000 and buy a 3090`."""
    for found in regex(f"weigh.{pattern}").finditer(clause.masked):
        name = found["name"].strip()
        if re.search(r"\d", name) and not model_names_in(name):
            yield replace(read_line(name, where), category=kind)


def _is_given_away(clause: _Clause, mention: Mention) -> bool:
    """Whether the verb ahead of a part of the owner gives it away, and no other one keeps it."""
    before = [act for _, end, act in clause.acts if end <= mention.start]
    return bool(before) and before[-1] in ("drop", "swap")


def _begin(clause: _Clause, mention: Mention) -> int:
    least = max((one.end for one in clause.mentions if one.end <= mention.start), default=0)
    return start_of(clause.text, least, mention)


def _line_of(clause: _Clause, mention: Mention, where: str) -> TypedLine:
    """Return the line of a part of a sentence, with its number, its condition and the price behind it."""
    price = regex("weigh.price").match(clause.text, mention.end)
    text = clause.text[_begin(clause, mention) : mention.end if price is None else price.end()]
    text = regex("remark.article").sub("", text.strip())
    line = read_line(text, where)
    # The text around a part may tell a kind that its name alone does not.
    line = line if kind_in(line.what) is not None else replace(line, category=mention.kind)
    is_plural = (
        line.quantity == 1 and regex("remark.all_of_them").search(clause.text[: mention.end]) is not None
    )
    return replace(line, text=plain_text(line), quantity=MOST_OF_ONE if is_plural else line.quantity)
