"""Pieces of one line of a parts list that names several parts: words of its text belong to the mention beside them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.cpu_names import CPU_WORDS, find_cpu, plain_words
from advisor.catalog.errors import InputFileError
from advisor.catalog.schema.part import Bridge
from advisor.workstation.card_names import DECORATION, find_card_name
from advisor.workstation.foreign_words import regex, whole
from advisor.workstation.mentions import (
    PROPERTY_WORDS,
    Mention,
    is_generic,
    is_of_cards,
    kind_of_name,
    maker_words,
    mentions_in,
    model_names_in,
    words_of_cards,
)
from advisor.workstation.part_names import (
    FILLER,
    SERVICE_WORDS,
    find_category,
    is_known,
    is_title,
    kind_in,
    kit_bytes,
    link_in,
    names_a_model,
    names_no_product,
    names_something,
    server_in,
    usual_riser,
)
from advisor.workstation.system_names import find_systems
from advisor.workstation.typed_line import (
    LABELS,
    QUESTION,
    SPOKEN,
    TypedLine,
    plain_text,
    read_line,
    with_price_of,
    without_price,
)

_LEAST_SLASHES: Final = 3
"""Number of slashes within words from which they separate parts: `5900X/X570 Unify/64GB/HX1000i`."""
_HIDE: Final = str.maketrans(dict.fromkeys(",;/|+&.:?!-–— ", "\ue010"))
_TAKES_NO_OTHER: Final = ("other", "psu", "case", "cooler", "system", "storage", "riser", "bridge", "nic")
_STOPS_OF_A_SENTENCE: Final = 4
"""Number of words of sentences from which a row without a mention is one, whatever kinds of part it speaks of."""
_LEAST_PLAIN_WORDS: Final = 5
"""Number of plain words from which a text without a mention is a sentence. Own choice."""
_LEAST_STOPS: Final = 2
"""Number of words of sentences from which a text that names no part is prose."""
_SOFTWARE_NAME: Final = whole("software")
_SOLD: Final = whole("sold")
"""Words of a line that sells a whole machine: its one price is that of all parts."""
_LEAST_KINDS: Final = 4
"""Number of kinds of part in one line from which it is a machine, and its one price that of all."""
_LEAST_MACHINE_USD: Final = 1000.0
"""Price behind a cable or another piece that no rule reads from which it is that of the machine before it [USD]: such
pieces cost less. Own choice."""
_WHOLE_MACHINE: Final = whole("whole_machine")
"""Names and numbers of machines that are sold whole, and makers of mini PCs."""


def names_no_number(text: str) -> bool:
    """Whether all digits of a text are those of language models and their formats."""
    for name in model_names_in(text):
        text = text.replace(name, " ")
    return re.search(r"\d", regex("piece.of_a_model").sub(" ", text)) is None


def names_a_purpose(text: str) -> bool:
    """Whether a row says for which language model the machine is, and names no part: `For DeepSeek V3.1, one user`."""
    is_of_models = regex("piece.purpose").match(text) is not None and bool(model_names_in(text))
    return is_of_models and not is_known(text)


def names_no_part(text: str) -> bool:
    """Whether a text says that a part is not there, or what a machine shall run, and names no part."""
    rest = regex("piece.stop").sub(" ", regex("piece.of_a_price").sub(" ", text))
    is_of_price = re.search(r"\w", rest) is None  # a sign alone names nothing either
    absent = regex("piece.absent").search(text)
    # Behind a part, such words are a doubt about it: `3060 (not sure which)`.
    mentions = mentions_in(text)
    is_absent = absent is not None and not any(one.end <= absent.start() for one in mentions)
    is_absent = is_absent or (not mentions and regex("piece.none_of").match(text) is not None)
    return (
        is_of_price
        or regex("piece.greeting").match(text) is not None
        or (not mentions and regex("row.sum_words").match(text) is not None)
        or regex("piece.condition").fullmatch(text) is not None
        or regex("line.not_needed").fullmatch(text.strip(" .()")) is not None
        or regex("piece.video_memory").fullmatch(text.strip(" .!")) is not None
        or is_absent
        or (regex("piece.of_a_warranty").match(text) is not None and regex("piece.sum").search(text) is None)
        or (regex("piece.software").match(text) is not None and kind_in(text) in (None, "other"))
        or (bool(model_names_in(text)) and not is_known(text))
        or regex("piece.window").search(text) is not None
    )


@dataclass(slots=True)
class _Piece:
    """Part of a line: words around one mention, or words without any."""

    text: str
    kind: str | None
    """Category; None if the words name no kind of part."""
    joined: str
    """Sign before the piece: `hard` for a comma or another mark, `soft` for a plus sign, `with`, and `run` for none."""
    mentions: tuple[str, ...]
    """Words that name a model or figures."""
    group: int
    """Number of the commas before it."""
    sentence: int
    """Number of the sentences before it."""
    is_own: bool
    """Whether an article and a name begin it, which is a part whether a record holds it or not."""
    start: int
    """Place in the text of the line."""
    bracket: int
    """Place where a bracket opens that closes directly before the piece; -1 if none does."""
    is_had: bool = False
    """Whether its sentence says ahead of it that its writer has the part already."""
    is_wanted: bool = False
    """Whether a verb of a wish stands ahead of the piece or behind it."""
    is_inside: bool = False
    """Whether the price of a machine, behind brackets with its parts, includes it."""


def split_line(line: TypedLine) -> list[TypedLine]:
    """Return the lines for the parts that one line names: `2x RTX 3090 with NVLink`, `Ryzen 7 + B550 + 64GB DDR4`.

    One price of several parts is borne by the first, and includes the others.
    """
    all_pieces = _pieces_of(line)
    pieces = _merge(all_pieces, line)
    is_named = any(one.mentions or (one.is_own and one.kind is None) for one in all_pieces)
    if line.category is None and line.usd is None and not is_named:
        num_stops = len(regex("piece.stop").findall(line.text))
        if num_stops >= (_LEAST_STOPS if _SOFTWARE_NAME.search(line.text) else _STOPS_OF_A_SENTENCE):
            return []
    if not pieces:
        is_aside = all(_is_aside(one.text) for one in all_pieces)
        return [] if is_aside and line.category is None else [line]
    is_one = len(pieces) == 1
    found = [_without_words_around(line, pieces[0])] if is_one else _with_prices(line, pieces)
    found = [part for one in found for part in _split_off_bridge(one)]
    included = [replace(one, is_included=one.is_included or line.is_included) for one in found]
    found = [
        replace(
            one,
            block=one.block or line.block,
            is_owned=(line.is_owned or one.is_owned) and not one.is_wanted,
            usd=None if one.is_wanted and line.is_owned and not one.usd else one.usd,
        )
        for one in included
    ]
    if not line.is_owned:
        is_paid = [one.usd is not None or one.is_included for one in found]
        return [
            replace(one, usd=0.0) if one.is_owned and not paid else one
            for one, paid in zip(found, is_paid, strict=True)
        ]
    if len(found) == 1:
        return found
    # In a row of what is there, what has a price is bought beside it.
    return [
        one
        if one.is_wanted
        else replace(one, usd=0.0)
        if one.usd is None and not one.is_included
        else replace(one, is_owned=not one.usd)
        for one in found
    ]


def _without_words_around(line: TypedLine, piece: _Piece) -> TypedLine:
    """Return the line of one part without the words of a sentence around it."""
    line = replace(line, is_wanted=piece.is_wanted, is_owned=line.is_owned or piece.is_had)
    if piece.kind == "bridge" or (piece.kind == "psu" and piece.mentions):
        line = replace(line, category=piece.kind)
    if piece.text == plain_text(line):
        return line
    try:
        read = read_line(piece.text, line.where)
    except InputFileError:
        return line
    return replace(
        line,
        what=read.what,
        quantity=max(line.quantity, read.quantity),
        is_worded=read.is_worded or line.is_worded,
        # Behind words of a sentence, the price of each is that of the pieces which the part counts.
        usd=read.usd if line.usd is None or (read.usd and read.quantity > line.quantity) else line.usd,
    )


def _pieces_of(line: TypedLine) -> list[_Piece]:
    text = plain_text(line)
    if len(regex("piece.slash").findall(text)) >= _LEAST_SLASHES and "://" not in text:
        text = regex("piece.slash").sub(" / ", text)
    mentions = mentions_in(text)
    pieces: list[_Piece] = []
    start = group = sentence = 0
    joined = "hard"
    for sign in (*regex("piece.separator").finditer(_hide_signs(text, mentions, line.category)), None):
        end = sign.start() if sign is not None else len(text)
        inside = [one for one in mentions if start <= one.start < end]
        for number, (begin, stop, own) in enumerate(_runs(text, start, end, inside)):
            is_spoken = line.block in SPOKEN or regex("piece.asked").match(text, begin) is not None
            words = _without_sentence(text, begin, stop, own, is_spoken=is_spoken)
            is_ahead = sign is not None and ":" in sign.group() and not own and stop == end
            is_asked = words.endswith("?") or (sign is not None and "?" in sign.group() and stop == end)
            # A number that is none of a language model can be that of a part which no record holds.
            is_asked = (is_asked and names_no_number(words)) or words.startswith("¿")
            is_question = not own and is_asked
            if words and not is_question and not (is_ahead and _is_heading(words)):
                kind = _kind_in(words, own)
                is_own = regex("piece.own_part").match(text, begin) is not None
                names = tuple(text[one.start : one.end] for one in own)
                joint = "run" if number else joined
                bracket = text.rfind("(", 0, begin) if text[:begin].rstrip().endswith(")") else -1
                is_had = bool(own) and (
                    regex("remark.had_ahead").search(text[: own[0].start]) is not None
                    or regex("remark.had_behind").match(text, own[-1].end) is not None
                )
                is_wanted = bool(own) and _is_wanted(text, start_of(text, begin, own[0]), own[-1].end)
                pieces.append(
                    _Piece(
                        words, kind, joint, names, group, sentence, is_own, begin, bracket, is_had, is_wanted
                    )
                )
        if sign is not None:
            start = sign.end()
            joined = next(name for name, value in sign.groupdict().items() if value is not None)
            group += joined == "hard"
            sentence += re.search(r"[.?!]", sign.group()) is not None
    return pieces


def _is_wanted(text: str, start: int, end: int) -> bool:
    """Whether a verb of a wish stands ahead of a part (`want to put in an RTX 3090`) or behind it."""
    behind = regex("remark.wanted_behind").match(text, end)
    return behind is not None or regex("remark.wanted_ahead").search(text[:start]) is not None


def _is_heading(text: str) -> bool:
    """Whether words ahead of a colon say what follows, and name no machine themselves."""
    line = TypedLine(text, text, "")
    if re.fullmatch(r"[A-Za-z]+\s*#?\d{1,2}", text) and kind_in(text) in (None, "riser"):
        return True  # the number of a dock or a slot
    is_of_list = re.search(r"\d", text) is None or kind_in(text) is not None or is_title(line)
    return server_in(text) is None and not find_systems(text) and is_of_list


def _kind_in(text: str, mentions: Sequence[Mention]) -> str | None:
    """Return the kind of part that words with mentions name: cards with a bridge are cards."""
    kind = kind_in(text) or (mentions[0].kind if mentions else None)
    has_card = any(one.kind == "gpu" for one in mentions)
    if kind == "link" and mentions:
        return mentions[0].kind  # supplies with the lead that joins them
    return "gpu" if kind == "bridge" and has_card and not regex("piece.bridge_alone").match(text) else kind


def _hide_signs(text: str, mentions: Sequence[Mention], kind: str | None) -> str:
    """Return a text in which no sign within a mention separates, nor one within brackets, unless those name a part of
    another kind than the words before them."""
    spans = [(one.start, one.end) for one in mentions]
    for bracket in regex("piece.bracketed").finditer(text):
        begin, end = bracket.span()
        inside = {one.kind for one in mentions if begin < one.start < end}
        before = [one.kind for one in mentions if one.end <= begin]
        outer = before[-1] if before else kind or kind_in(text[:begin])
        if not inside - {outer} or outer == "system" or regex("piece.fits").match(bracket.group()[1:]):
            spans.append((begin, end))
        else:  # the bracket itself separates
            text = f"{text[:begin]};{text[begin + 1 : end - 1]};{text[end:]}"
    spans += [one.span("slash") for one in regex("piece.or_other").finditer(text) if _is_other_name(one)]
    for begin, end in spans:
        text = text[:begin] + text[begin:end].translate(_HIDE) + text[end:]
    return text


def _is_other_name(found: re.Match[str]) -> bool:
    """Whether the words ahead of a slash, which alone are counted, name no part: with those behind it they name one by
    two names, `6 x SlimSAS / x16 riser cables`."""
    ahead = found["ahead"]
    kind = kind_in(found["behind"])
    if kind_in(ahead) is None:  # a number of its own may be that of a part which no record holds
        is_a_word = kind == "other" or (kind is not None and re.search(r"\d", found["name"]) is None)
        return is_a_word and not mentions_in(ahead)
    return kind_in(ahead) == kind and (kind == "other" or not mentions_in(ahead))


def _runs(
    text: str, start: int, end: int, mentions: Sequence[Mention]
) -> list[tuple[int, int, list[Mention]]]:
    """Return the spans of a text without separating signs that name one part each: a mention of another kind, or of
    another card, begins a part with the number and the maker before it."""
    runs: list[tuple[int, int, list[Mention]]] = []
    own: list[Mention] = []
    if mentions:
        cut = start_of(text, start, mentions[0])
        if server_in(text[start:cut]) is not None:
            runs.append((start, cut, []))
            start = cut
    for one in mentions:
        if own and all(_are_apart(text, old, one) for old in own):
            cut = start_of(text, own[-1].end, one)
            runs.append((start, cut, own))
            start = cut
            own = []
        own.append(one)
    return [*runs, (start, end, own)]


def _are_apart(text: str, old: Mention, new: Mention) -> bool:
    if old.kind != new.kind:
        return True
    if old.kind != "gpu" or text[old.end : new.start].strip() == "/":
        return False
    names = [find_card_name(text[one.start : one.end]) for one in (old, new)]
    able = [set(name.accelerators) if name is not None else set() for name in names]
    return names[0] != names[1] and not able[0] & able[1]


def start_of(text: str, least: int, mention: Mention) -> int:
    """Return where the number, the label, the maker and the adjectives before a mention begin."""
    start = mention.start
    for word in reversed(list(re.finditer(r"\S+", text[least:start]))):
        plain = word.group().lower().strip("*:(")
        if not (
            regex("piece.is_ahead").fullmatch(plain)
            or LABELS.get(plain) == mention.kind
            or plain in maker_words()
        ):
            break
        start = least + word.start()
    return start


def _without_sentence(
    text: str, start: int, end: int, mentions: Sequence[Mention], *, is_spoken: bool
) -> str:
    """Return the words of a span without those of a sentence before its first and behind its last mention; of a spoken
    card or supply, without all words behind it from the first that no card has, if they say nothing about it."""
    if mentions:
        first = start_of(text, start, mentions[0])
        stops = list(regex("piece.stop").finditer(text, start, first))
        start = stops[-1].end() if stops else start
        is_counted = regex("piece.begins_counted").match(text, first, mentions[0].start) is not None
        if model_names_in(text[start:first]) or (is_counted and re.search(r"\d", text[start:first]) is None):
            start = first  # behind a language model, or words ahead of a number of pieces
        tail = regex("piece.stop").search(text, mentions[-1].end, end)
        last = end if tail is None else tail.start()
        if is_spoken and mentions[-1].kind in ("gpu", "psu"):
            last = _end_of_part(text, mentions[-1].end, last)
        # Of the words behind the first of a sentence, prices and numbers stay.
        told = regex("piece.of_a_count").search(text, tail.start(), end) if tail is not None else None
        return f"{text[start:last]} {text[told.start() : end] if told else ''}".strip(" ,;:").rstrip(" ,;:(")
    if (lead := regex("piece.stops").match(text, start, end)) and kind_in(text[lead.end() : end]) is not None:
        start = lead.end()
    return text[start:end].strip(" ,;:")


_OF_A_CARD: Final = (
    "part.power_limit",
    "part.on_risers",
    "name.dock",
    "name.switch",
    "name.radiator",
    "name.has_fans",
    "name.card_width",
    "piece.bridge_words",
    "piece.of_a_count",
)
"""Patterns of words behind a card that say how many there are, how they are cooled, limited or connected."""


def _end_of_part(text: str, start: int, end: int) -> int:
    """Return where the words of a card or a supply end that a sentence names, of which `start` is the end of the
    mention."""
    if any(regex(name).search(text, start, end) for name in _OF_A_CARD):
        return end
    known = words_of_cards() | maker_words() | DECORATION
    for word in re.finditer(r"[^\W\d_]+(?:['’][^\W\d_]+)*", text[start:end]):
        plain = plain_words(word.group())
        if plain and not set(plain.split()) <= known and not is_generic(plain):
            return start + word.start()
    return end


def _merge(pieces: Sequence[_Piece], line: TypedLine) -> list[_Piece]:
    """Return the pieces that are parts; others join the part before them, or go as those of a sentence."""
    kept: list[_Piece] = []
    for piece in pieces:
        if _is_left_out(piece, kept, len(pieces)) or _joins_ahead(piece, kept, len(pieces)):
            continue
        last = kept[-1] if kept else None
        is_sum = regex("row.sum_words").match(piece.text) is not None and _is_remark_alone(piece.text)
        if is_sum and any(regex("piece.sum").search(one.text) for one in kept):
            continue  # the sum of prices that the parts have
        if line.category is not None and last is None:
            piece.kind = line.category
        elif line.category is not None and last is not None and piece.kind is None and not piece.mentions:
            last.text = f"{last.text}, {piece.text}"  # a label tells the kind of all that follows it
            continue
        if _is_bare_cpu(piece.text) and "board" in {one.kind for one in pieces}:
            piece.kind = "cpu"
        if last is not None and _is_of(piece, last, {one.kind for one in kept}):
            # The drive of a machine and the only memory of a board tell nothing more; a price behind them is theirs.
            is_told = (last.kind, piece.kind) == ("system", "storage") or _is_only_memory(piece, last)
            is_told = is_told or (last.kind == "case" and piece.joined == "with" and piece.kind is not None)
            price = regex("piece.sum").search(piece.text) if is_told else None
            told = piece.text[price.start() :] if price is not None else piece.text
            if not is_told or price is not None:
                last.text = f"{last.text}, {told}"
        elif piece.kind is None and regex("piece.bare_size").fullmatch(_without_price(piece.text)):
            has_host = bool({"cpu", "board"} & {one.kind for one in pieces})
            has_memory = any(one.kind == "ram" for one in (*kept, *pieces))
            piece.kind = None if not has_host else "storage" if has_memory else "ram"
            kept.append(piece)
        elif piece.kind is not None:
            is_unpriced = regex("piece.sum").search(piece.text) is None and last is not None
            if (
                piece.kind == "gpu"
                and is_unpriced
                and not piece.mentions
                and _speaks_of_cards(piece.text, line)
            ):
                continue
            is_service = piece.kind == "other" and is_unpriced and SERVICE_WORDS.fullmatch(piece.text)
            if is_service or (not piece.mentions and line.category is None and _is_sentence(piece.text)):
                continue
            if not piece.mentions and is_prose(piece.text):
                without = regex("piece.stop").sub(" ", piece.text.rstrip(".")).replace("each", "")
                piece.text = " ".join(without.split())
            kept.append(piece)
        elif not _is_aside(piece.text):
            piece.kind = kind_of_name(piece.text) or ("unknown" if names_something(piece.text) else None)
            kept += [piece] if piece.kind is not None else []
    docks = [one for one in kept if one.kind == "riser" and _is_link(one.text)]
    # Words for a dock say nothing more beside its product.
    bare = [one for one in docks if regex("piece.bare_dock").fullmatch(one.text)]
    return [one for one in kept if one not in bare[0 if len(docks) > len(bare) else 1 :]]


def _is_left_out(piece: _Piece, kept: Sequence[_Piece], num_pieces: int) -> bool:
    """Whether a piece names no part: a part that is absent, a title, or the cores of a CPU that the list does not
    name."""
    if _is_bundle(piece, num_pieces):
        return False
    if not piece.mentions and not _is_remark_alone(piece.text) and names_no_part(piece.text):
        return True
    if piece.kind is None and num_pieces > 1 and is_title(TypedLine(piece.text, piece.text, "")):
        return True  # `Selling my AI workstation`
    has_cores = bool(kept) and kept[-1].kind in ("cpu", "system")
    return not has_cores and regex("piece.cores").fullmatch(piece.text) is not None


def _is_bundle(piece: _Piece, num_pieces: int) -> bool:
    """Whether a piece says that its neighbours are sold together: `as a bundle for $650`."""
    return not piece.mentions and num_pieces > 1 and regex("piece.bundle").search(piece.text) is not None


def _joins_ahead(piece: _Piece, kept: list[_Piece], num_pieces: int) -> bool:
    """Whether a piece is a price, a limit or a bundle of parts ahead of it, which then have it."""
    if _is_bundle(piece, num_pieces):
        price = regex("piece.sum").search(piece.text)
        if kept and price is not None:
            kept[-1].text = f"{kept[-1].text}, {piece.text[price.start() :]}"
        size = regex("mention.size_alone").search(piece.text)
        if size is not None:  # `128GB combo for $900`
            kept.append(replace(piece, text=size.group(), kind="ram", is_inside=True))
        return True
    limit = regex("piece.limit_alone").match(piece.text)
    cards = next((one for one in reversed(kept) if one.kind == "gpu"), None)
    if limit is not None and cards is not None:
        cards.text = f"{cards.text}, limited to {limit[1]}W"
        return True
    ahead = [one for one in kept if one.start < piece.bracket]
    if ahead and ahead[-1].kind in ("board", "system") and _is_remark_alone(piece.text):
        ahead[-1].text = f"{ahead[-1].text}, {piece.text}"
        for one in kept[len(ahead) :]:
            one.is_inside = True
        return True
    return False


def _is_bare_cpu(text: str) -> bool:
    """Whether words are a number of pieces and the number of a server's CPU: `dual 7542`."""
    number = regex("piece.bare_number").fullmatch(text)
    return number is not None and find_cpu(number[1], is_labelled=True) is not None


def _without_price(text: str) -> str:
    return regex("piece.of_one").sub(" ", regex("piece.sum").sub(" ", text)).strip(" ()")


def _is_only_memory(piece: _Piece, last: _Piece) -> bool:
    """Whether a piece names the only kind of memory that the board before it can take: boards with Intel's chipsets of
    2021 to 2023 take one of two kinds, and have it in their names."""
    is_kind = regex("piece.kind_of_memory").fullmatch(_without_price(piece.text)) is not None
    return last.kind == "board" and is_kind and regex("piece.either_memory").search(last.text) is None


def _is_of(piece: _Piece, last: _Piece, kinds: set[str | None]) -> bool:
    """Whether a piece tells more of the part before it: its price, a property, its figures."""
    if regex("piece.measure").fullmatch(_without_price(piece.text)) or _is_remark_alone(piece.text):
        return True
    if last.kind == "board" and regex("piece.kind_of_memory").fullmatch(_without_price(piece.text)):
        return True
    is_bare = regex("piece.bare_size").fullmatch(_without_price(piece.text)) is not None
    if piece.kind is None and not piece.mentions and regex("piece.begins_with").match(piece.text):
        return True
    if (last.kind, piece.kind) == ("board", "case") and server_in(last.text) is not None:
        return True  # `G292-Z20 2U chassis`
    if last.kind == "case" and regex("piece.of_a_frame").fullmatch(piece.text):
        return True
    if (last.kind, piece.kind) == ("gpu", "cooler") and not piece.mentions and is_of_cards(piece.text):
        return True
    if last.kind == "gpu" and (
        (piece.kind == "bridge" and regex("piece.bridge_words").search(piece.text))
        or (piece.joined == "with" and (piece.kind == "cooler" or _is_link(piece.text)))
    ):
        return regex("piece.sum").search(piece.text) is None
    if last.kind == "system":
        chips = [{one.accelerator for one in find_systems(text)} for text in (last.text, piece.text)]
        is_shared = all(accelerators.by_id(one.accelerator).unified_memory for one in find_systems(last.text))
        # A machine has one price: a drive with another one behind it is bought beside it.
        has_price = regex("piece.sum").search(last.text) is not None
        is_beside = has_price and regex("piece.sum").search(piece.text) is not None
        is_figure = (
            piece.kind == "cpu"
            or (piece.kind == "storage" and not is_beside)
            or (is_shared and (is_bare or piece.kind == "ram"))
        )
        return (
            is_figure or bool(chips[0] & chips[1]) or regex("piece.of_system").search(piece.text) is not None
        )
    if is_bare:
        return last.kind == "storage" and regex("mention.gigabytes").search(last.text) is None
    if piece.kind is None:
        if not piece.mentions and (_SOFTWARE_NAME.search(last.text) or SERVICE_WORDS.search(last.text)):
            return True
        bare = _without_price(piece.text)
        if last.kind == "cpu" and set(plain_words(bare).split()) & CPU_WORDS:
            return True  # its family: `Ryzen 9 9950X - Ryzen 9 9000 Series`
        is_name = names_something(bare) and not (is_property(bare) or names_no_product(bare))
        is_name = is_name or (piece.joined == "hard" and kind_of_name(piece.text) is not None)
        return (not is_prose(piece.text) and not is_name) or (piece.joined == "with" and not piece.is_own)
    if piece.kind == last.kind:
        return _completes(piece, last)
    if piece.joined == "with" and last.kind == "case" and piece.kind in ("cooler", "psu"):
        return regex("piece.room_for").search(piece.text) is not None
    if piece.joined == "with" and not piece.mentions:
        if piece.kind == "riser":
            return last.kind != "case"
        return last.kind in _TAKES_NO_OTHER and piece.kind not in ("link", "case")
    return False


def _is_aside(text: str) -> bool:
    """Whether a text without a mention is words of a sentence, a price alone, or says that a part is not there."""
    return is_prose(text) or _is_sentence(text) or names_no_part(text) or _is_remark_alone(text)


def _is_sentence(text: str) -> bool:
    """Whether a text is of plain words of any language: names of parts have numbers, capitals and words of a kind."""
    words = (word for word in text.split() if word.isalpha() and word.islower() and len(word) > 1)
    return sum(word not in FILLER and not is_generic(word) for word in words) >= _LEAST_PLAIN_WORDS


def is_property(text: str) -> bool:
    """Whether all words of a text tell how a part is built and none which it is: `all gen4 x16`."""
    try:
        text = read_line(text, "").what  # without number and price
    except InputFileError:
        return False
    words = plain_words(regex("piece.stop").sub(" ", regex("piece.figure").sub(" ", text))).split()
    return all(is_generic(word) or word in PROPERTY_WORDS for word in words)


def _speaks_of_cards(text: str, line: TypedLine) -> bool:
    """Whether words of a sentence speak of cards by no name: `go to 4 cards over time`."""
    is_sentence = line.category is None and len(regex("piece.stop").findall(line.text)) >= _LEAST_STOPS
    words = re.findall(r"[^\W\d]\w*", text)
    return is_sentence and all(map(str.islower, words)) and not maker_words() & set(plain_words(text).split())


def _is_link(text: str) -> bool:
    """Whether words name an external dock or a switch board, on which the cards before them stand."""
    return link_in(text, usual_riser()) is not None


def _completes(piece: _Piece, last: _Piece) -> bool:
    """Whether two pieces of one kind are one part: the second has only figures or words of the kind."""
    if piece.kind in ("gpu", "cpu"):
        return not piece.mentions
    if piece.kind == "storage":
        have_size = [regex("mention.gigabytes").search(one.text) is not None for one in (last, piece)]
        if have_size == [True, False] and not names_a_model(last.text):
            return True  # `500GB SSD, Crucial MX500`
    if piece.kind == "ram":
        sizes = [kit_bytes(one.text) for one in (last, piece)]
        return 0.0 in sizes or sizes[0] == sizes[1]
    is_plain = not names_a_model(piece.text) and regex("line.counted").match(piece.text) is None
    watts = [set(regex("mention.watts").findall(one.text)) for one in (last, piece)]
    return is_plain and (not watts[0] or not watts[1] or watts[0] == watts[1])


def is_prose(text: str) -> bool:
    """Whether a text is words of a sentence."""
    return len(regex("piece.stop").findall(text)) >= _LEAST_STOPS


def _is_remark_alone(text: str) -> bool:
    """Whether a piece of a line is a price or a number of pieces and nothing else: `VB 1.050€`, `$900 obo`, `qty 3`."""
    try:
        plain = regex("piece.of_a_price").sub(" ", text)
        words = regex("piece.stop").sub(" ", plain).split()
        line = read_line(f"part, {' '.join(words).rstrip(' .')}", "")
    except InputFileError:
        return False
    has_count = line.quantity > 1 or regex("row.count").search(plain) is not None
    return line.what == "part" and (line.usd is not None or has_count)


def _with_prices(line: TypedLine, pieces: Sequence[_Piece]) -> list[TypedLine]:
    """Return the lines of pieces with their prices: one behind parts that a plus sign joins is that of all of them, one
    behind a machine that of the machine."""
    found: list[TypedLine] = []
    for piece in pieces:
        read = read_line(piece.text, line.where)
        kind = None if piece.kind in ("unknown", "gpu") else piece.kind
        read = replace(
            read,
            text=piece.text,
            category=read.category or kind,
            is_included=piece.is_inside or read.is_included,
            is_wanted=piece.is_wanted,
            is_owned=piece.is_had,
            # A question may name parts again that the row lists.
            block=QUESTION if regex("piece.asked").match(plain_text(line), piece.start) else 0,
        )
        is_of_each = (
            regex("piece.of_each").search(piece.text) is not None and read.usd is None and read.quantity == 1
        )
        if found and piece.joined != "hard" and is_of_each:
            read = replace(read, quantity=found[-1].quantity)
        found.append(read)
    lines: list[TypedLine] = []
    for sentence in sorted({piece.sentence for piece in pieces}):
        own = [(one, piece) for one, piece in zip(found, pieces, strict=True) if piece.sentence == sentence]
        lines += _with_prices_of_sentence(line, [one for one, _ in own], [piece for _, piece in own])
    if all(one.usd is None for one in lines):
        has_price = regex("piece.sum").search(plain_text(line)) is not None
        is_own = line.usd is not None and (line.says_whole_or_each or not has_price)
        return _price_first(line, lines) if is_own or _SOLD.search(line.text) else lines
    return lines


def _with_prices_of_sentence(
    line: TypedLine, found: list[TypedLine], pieces: Sequence[_Piece]
) -> list[TypedLine]:
    priced = [place for place, one in enumerate(found) if one.usd is not None]
    kinds = {piece.kind for piece in pieces} - {"unknown", None}
    is_machine = _is_machine(found[0]) or _SOLD.search(line.text) is not None or len(kinds) >= _LEAST_KINDS
    last = found[-1]
    is_apart = regex("piece.price_apart").search(plain_text(line)) is not None
    is_of_all = is_apart or (last.usd or 0.0) >= _LEAST_MACHINE_USD
    is_machine = is_machine and (pieces[-1].kind != "other" or is_of_all)
    is_of_pieces = last.quantity > 1 and regex("piece.price_of_each").search(last.text) is not None
    given = [place for place, one in enumerate(found) if regex("piece.given").search(one.text)]
    if priced == [len(found) - 1] and is_machine and not is_of_pieces and not given:
        return _price_first(last, [*found[:-1], without_price(last)])
    if given and given[-1] < len(found) - 1 and priced and priced[0] > given[-1]:
        # What is told to be there, with what stands ahead of it, costs nothing.
        owned = [replace(one, usd=0.0, is_owned=True) for one in found[: given[-1] + 1]]
        behind = given[-1] + 1
        return [*owned, *_with_prices_of_sentence(line, found[behind:], pieces[behind:])]
    lines: list[TypedLine] = []
    waiting: list[TypedLine] = []
    group = -1
    for one, piece in zip(found, pieces, strict=True):
        if piece.group != group:  # a price is that of the parts that plus signs join to the one before it
            lines += waiting
            waiting = []
            group = piece.group
        waiting.append(one)
        if one.usd is not None:
            lines += _price_first(one, list(map(without_price, waiting)))
            waiting = []
    return [*lines, *waiting]


def _price_first(line: TypedLine, pieces: list[TypedLine]) -> list[TypedLine]:
    """Return the pieces of a line with its price, if it has one, on the first, which includes the others."""
    if line.usd is None:
        return pieces
    return [with_price_of(pieces[0], line), *(replace(one, is_included=True) for one in pieces[1:])]


def with_price_of_title(lines: list[TypedLine]) -> list[TypedLine]:
    """Return lines whose title states the only price with that as the price of all parts: `Selling: AI rig, $2,900`."""
    title, *rest = lines
    is_only = title.usd is not None and all(line.usd is None for line in rest)
    untitled = without_price(title)
    if not is_only or title.quantity > 1 or not (is_title(untitled) or _names_a_whole(untitled)):
        return lines
    parts_of_it = [part for line in rest for part in split_line(line)]
    if len(parts_of_it) < _LEAST_KINDS:
        return lines
    found = _price_first(title, parts_of_it)
    if is_title(untitled):
        return [untitled, *found]
    has_case = "case" in {part.category or kind_of(part) for part in parts_of_it}
    return found if has_case else [*found, replace(untitled, is_included=True)]


def _names_a_whole(line: TypedLine) -> bool:
    """Whether a line without a product speaks of a machine: `mining rig`, which alone is a frame."""
    is_a_whole = regex("name.title").search(line.what) is not None
    return line.category is None and is_a_whole and not mentions_in(line.what) and names_no_product(line.what)


def _is_machine(line: TypedLine) -> bool:
    """Whether a line begins with a complete machine, a server or a workstation that is sold whole."""
    is_sold_whole = _WHOLE_MACHINE.search(line.what) is not None or server_in(line.what) is not None
    return is_sold_whole or bool(find_systems(line.what))


def kind_of(line: TypedLine) -> str | None:
    """Return the kind of part of a piece of a line, None if it is in no record."""
    if regex("piece.bridge_words").search(line.what) and find_card_name(line.what) is not None:
        return "gpu"
    return find_category(line)


def _split_off_bridge(line: TypedLine) -> list[TypedLine]:
    """Return the cards and the bridges of a line that names both."""
    if not regex("piece.bridge_words").search(line.what) or find_card_name(line.what) is None:
        return [line]
    if regex("piece.no_bridge").search(line.what):
        return [replace(line, what=" ".join(regex("piece.no_bridge").sub(" ", line.what).split()))]
    word = regex("piece.bridge_words").search(line.what)
    has_cards_ahead = word is not None and find_card_name(line.what[: word.start()]) is not None
    are_joined = regex("piece.are_bridged").search(line.what) or has_cards_ahead
    if regex("piece.bridge_alone").search(line.what) and not are_joined:
        return [replace(line, category="bridge")]
    named = find_card_name(regex("piece.bridge_words").sub(" ", line.what))
    able = {name for bridge in parts.planner_parts(Bridge) for name in bridge.accelerators}
    if named is None or not set(named.accelerators) & able:
        # Modules on carrier boards have their links without a bridge.
        return [replace(line, what=" ".join(regex("piece.bridge_words").sub(" ", line.what).split()))]
    counted = regex("piece.num_bridges").search(line.what)
    number = int(counted.group(1)) if counted else max(line.quantity // 2, 1)
    cards = regex("piece.slots_of_bridge").sub(" ", line.what)
    cards = regex("piece.num_bridges").sub(" ", cards) if counted else cards
    cards = regex("piece.bridge_words").sub(" ", cards).strip(" .,;")
    cards = re.sub(r"(?:\s+(?:\+|&|with|w/|and|plus|via|over|in|pairs?))+\s*$", "", " ".join(cards.split()))
    slots = regex("piece.slots_of_bridge").search(line.what)
    name = f"NVLink bridge{f' {slots[0]}' if slots else ''}"
    is_included = line.is_included or line.usd is not None
    bridge = replace(
        line, what=name, quantity=number, category="bridge", is_worded=False, is_included=is_included
    )
    return [replace(line, what=cards), without_price(bridge)]
