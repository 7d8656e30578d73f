"""One line of a user's parts list: number, name, price, and claims about the part."""

import re
from dataclasses import dataclass, field, replace
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.workstation.foreign_words import (
    fragment,
    regex,
    word_table,
    write_in_english,
    write_in_one_form,
)

MEMORY_LINES: Final = fragment("line.memory_lines")
_CODE_RATES: Final = (1066, 1333, 1600, 1866, 2133, 2400, 2666, 2933, 3200, 4800, 5200, 5600, 6000, 6400)
LABELS: Final = {label: kind for kind, labels in word_table("labels").items() for label in labels}
"""Category of the catalog by the label that people write before a part."""
NUMBER_WORDS: Final = {word: int(num) for num, words in word_table("counts").items() for word in words}
_MOST_CHARACTERS: Final = 2_000
"""Longest line of a list [characters]: the names that makers write have up to 150."""
MOST_OF_ONE: Final = 99
MOST_USD: Final = 1_000_000
"""Price that no part reaches [USD]: the most expensive accelerators cost a twentieth of it."""


@dataclass(frozen=True, slots=True)
class TypedLine:
    """Parsed line of a parts list."""

    text: str
    what: str
    """Name without quantity, price and claims."""
    where: str
    """File and line, for messages."""
    quantity: int = 1
    usd: float | None = None
    """Price of the whole line [USD], the middle of a range; None if the line states none."""
    usd_low: float | None = None
    usd_high: float | None = None
    says_whole_or_each: bool = False
    """Whether the line says if its price is of all pieces or of each."""
    is_of_column: bool = False
    """Whether the price stands in a column that does not say so: what holds for one row holds for all."""
    is_worded: bool = False
    """Whether the quantity was a word (`Dual RTX A6000`), which a product's name can hold too."""
    is_included: bool = False
    """Whether the price of another line includes this one."""
    claims: dict[str, int] = field(default_factory=dict)
    """Numbers that the line states about a CPU: channels, lanes."""
    category: str | None = None
    """Category if the file states it; None otherwise."""
    unread_sum: str = ""
    """Price of the whole list that does not count, on its first line: another one than that of its parts; empty if
    there is none."""
    is_owned: bool = False
    """Whether the list says that its owner has the part."""
    is_wanted: bool = False
    """Whether a sentence says that its writer wants the part."""
    is_printed: bool = False
    """Whether a program that looked at a machine printed the line; such programs see no supply, case or cooler."""
    beside: tuple[str, ...] = ()
    """Rows of a cart between the part and its price, which name nothing that is known."""
    unread: InputFileError | None = None
    """Error of a row that the reader does not understand, which counts as an unknown part; None of any other line."""
    block: int = 0
    """Number of the piece of the text; sentences and tables often name parts that a list names too."""


QUESTION: Final = 3
"""Block of the parts of a question in a row that lists others too."""
BOUGHT: Final = 4
"""Block of a part that a question considers to buy, which is none of those that are there."""
SPOKEN: Final = (1, QUESTION)
"""Blocks of sentences and of questions."""


@dataclass(frozen=True, slots=True)
class _TypedPrice:
    """Price as a line states it [USD]."""

    usd: float
    low: float | None = None
    high: float | None = None
    is_each: bool = False
    is_whole: bool = False


def read_line(text: str, where: str) -> TypedLine:
    """Parse a line such as `2x RTX 5090 $4500`, `Threadripper 7960X (8-channel, 88 lanes) $1 400` or `case $300`.

    A price is of the whole line unless it says `each` or stands after an `@`.

    Raises: InputFileError: nothing is named, the price is no number of US dollars from 0 up, two counts contradict each
        other, a count is not from 1 to 99, or the line is longer than any part's.
    """
    check_length(text, where)
    text = regex("line.leaders").sub(" ", text.strip().strip('"“”'))
    category, unlabelled = split_off_label(regex("line.bullet").sub("", write_in_english(text), count=1))
    if category == "ram":
        unlabelled = regex("line.bare_gigabytes").sub(r"\1GB", unlabelled)
    rest, price = _split_off_dollars(_with_one_amount(write_units(unlabelled)), where)
    quantity, rest, is_worded = _split_off_quantity(re.sub(r"[\s,–—-]+$", "", rest), where)
    claims: dict[str, int] = {}
    for name, pattern in (("channels", regex("line.channels")), ("lanes", regex("line.lanes"))):
        match = pattern.search(rest)
        if match:
            claims[name] = int(match.group(1))
            rest = pattern.sub(" ", rest)
    what = re.sub(r"(?:\s[-–—+]+)+$", "", " ".join(regex("line.noise").sub(" ", rest).split()))
    if not what:
        raise InputFileError(f"{where}: {text!r} names no part", fix="e.g. 2x RTX 5090 $4500")
    line = TypedLine(
        text=text,
        what=what,
        where=where,
        quantity=quantity,
        is_worded=is_worded,
        claims=claims,
        category=category,
    )
    line = replace(line, is_of_column=regex("line.unit_column").search(text) is not None)
    return line if price is None else _with_price(line, price)


def plain_text(line: TypedLine) -> str:
    """Return the text of a line in English with sizes in one form, without its label."""
    text = regex("line.bullet").sub("", write_in_english(line.text.strip().strip('"“”')), count=1)
    return " ".join(write_units(split_off_label(text)[1]).split())


def write_units(text: str) -> str:
    """Return a line with sizes, numbers of pieces and prices in one form, and with the codes of modules as kind and
    transfer rate.

    Source: spellings.toml of the catalog.
    """
    text = regex("line.times_price").sub(lambda found: f" x{found[1]}{' @ ' if found[2] else ' '}", text)
    text = regex("line.thousands").sub(lambda found: f" ${float(found[1]) * 1000:.0f}", text)
    text = regex("line.megabytes").sub(lambda size: f"{round(int(size[1]) / 1024)}GB", text)
    text = regex("line.kilowatts").sub(
        lambda found: f"{1000 * float(found[1].replace(',', '.')):.0f}W ", write_in_one_form(text, "line")
    )
    if regex("line.kind_of_module").search(text) and not regex("line.has_size").search(text):
        text = regex("line.bare_modules").sub(r"\1x\2GB", text)
    text = regex("line.size_times").sub(
        lambda kit: (
            f"{kit[2]}x{kit[1]}GB"
            if re.search(rf"\b{int(kit[1]) * int(kit[2])}\s?GB\b", text, re.IGNORECASE)
            else kit.group()
        ),
        text,
    )
    return regex("line.module_code").sub(_write_module, text)


def _write_module(found: re.Match[str]) -> str:
    number = int(found[2])
    is_bandwidth = number >= (6_400 if found[1] == "3" else 17_000)
    rate = min(_CODE_RATES, key=lambda mts: abs(mts - number / 8)) if is_bandwidth else number
    kind = (found[4] or (found[3][-1:] if found[1] == "3" else "")).upper()
    return f"DDR{found[1]}-{rate}" + {"R": " ECC RDIMM", "L": " ECC LRDIMM", "E": " ECC UDIMM"}.get(kind, "")


def number_in(word: str | None) -> int:
    """Return the number that digits or a word state; 1 if there is no word."""
    plain = " ".join((word or "one").lower().split())
    return int(plain) if plain.isdecimal() else NUMBER_WORDS[plain]


def check_length(text: str, where: str) -> None:
    """Refuse a line that is longer than any part's, before patterns look through it.

    Raises: InputFileError: it is.
    """
    if len(text) > _MOST_CHARACTERS:
        raise InputFileError(
            f"{where}: a line of {len(text):,} characters",
            why=f"a line names one part, in at most {_MOST_CHARACTERS:,} characters",
            fix="put each part on a line of its own, e.g. 2x RTX 5090 $4500",
        )


def split_off_label(text: str) -> tuple[str | None, str]:
    """Return the category that a label before a part names (`Mobo: ROMED8-2T`), and the text after it; no category and
    the whole text if there is no known label."""
    head = regex("line.bracketed_head").match(text)
    if head is not None and not re.search(r"\d\s*[x×]|[x×]\s*\d", head.group(1)):
        rest = text[head.end() :].lstrip(": ")
        text = f"{head.group(1)}: {rest}" if head.group(1).lower() in LABELS else rest
    found = regex("line.label").match(text) or regex("line.bare_label").match(text)
    ahead = regex("line.count_of_label").match(text) if found is None else None
    if ahead is not None:  # a number of pieces before the label is that of the part: `2x GPU: RTX 3090`
        category, rest = split_off_label(text[ahead.end() :])
        return (category, f"{ahead.group()}{rest}") if category is not None else (None, text)
    label = " ".join(found.group(1).lower().split()) if found else ""
    category = LABELS.get(label) or LABELS.get(label.removesuffix("s"))
    if found is None or category is None:
        return None, text
    rest = text[found.end() :]
    plain = re.sub(r"\s*\b(?:each|ea|total)\b\.?", "", rest, flags=re.IGNORECASE)
    if re.search(r"[^\W\dx×]", plain) is None and re.search(r"\d\d", plain.partition("$")[0]) is None:
        return category, f"{found.group(1)} {rest}"  # a part that its label alone names: `Risers: 4x $35`
    return category, rest


def with_price_of(line: TypedLine, other: TypedLine) -> TypedLine:
    """Return a line with the price of another one, or without any if that has none."""
    return replace(line, usd=other.usd, usd_low=other.usd_low, usd_high=other.usd_high)


def without_price(line: TypedLine) -> TypedLine:
    return replace(line, usd=None, usd_low=None, usd_high=None)


def _with_price(line: TypedLine, price: _TypedPrice) -> TypedLine:
    """Return the line with a price, as that of all its pieces."""
    found = replace(line, usd=price.usd, usd_low=price.low, usd_high=price.high)
    return with_factor(found) if price.is_each else replace(found, says_whole_or_each=price.is_whole)


def num_pieces(line: TypedLine) -> int:
    """Return the number of pieces of which a line states the price of each: its quantity, or the modules and drives of
    its only kit, `8x32GB RDIMM $95 each`."""
    kit = regex("line.counted_size").match(line.what) if line.quantity == 1 else None
    return line.quantity if kit is None else int(kit[1])


def with_factor(line: TypedLine) -> TypedLine:
    """Return a line whose price is that of each of its pieces, with the price of all."""
    num = num_pieces(line)
    low, high = (None if usd is None else usd * num for usd in (line.usd_low, line.usd_high))
    usd = None if line.usd is None else line.usd * num
    return replace(line, usd=usd, usd_low=low, usd_high=high, says_whole_or_each=True)


def _split_off_quantity(text: str, where: str) -> tuple[int, str, bool]:
    """Return the number of pieces, the text without it, and whether it was a word."""
    found: list[int] = []
    rest = regex("line.lot_behind").sub("", regex("line.condition").sub("", text))
    is_worded = False
    for pattern in (
        regex("line.leading"),
        regex("line.leading_bare"),
        regex("line.bracketed"),
        regex("line.labelled"),
        regex("line.trailing"),
        regex("line.inside"),
        regex("line.after_pcie"),
        regex("line.after_size"),
    ):
        match = pattern.search(rest)
        if pattern is regex("line.trailing") and found and regex("line.is_width").search(rest):
            continue
        if pattern is regex("line.after_size") and (found or regex("line.size_of_each").search(rest)):
            continue
        if match is None or (
            pattern in (regex("line.leading"), regex("line.leading_bare"))
            and regex("line.cpu_number").match(rest)
        ):
            continue
        typed = " ".join(next(group for group in match.groups() if group).lower().split())
        number = int(typed) if typed.isdecimal() and len(typed) <= len(str(MOST_OF_ONE)) else 0
        number = NUMBER_WORDS.get(typed, number)
        if not 1 <= number <= MOST_OF_ONE:
            raise InputFileError(
                f"{where}: {typed} of one part",
                why=f"a count is a whole number from 1 to {MOST_OF_ONE}",
                fix="correct it, e.g. 2x RTX 5090",
            )
        found.append(number)
        rest = f"{rest[: match.start()]} {rest[match.end() :]}"
    after = regex("line.of_them").search(rest)
    if after is not None and rest[: after.start()].strip():
        word = " ".join(after.group(1).lower().split())
        found.append(NUMBER_WORDS.get(word, 2))
        rest = rest[: after.start()]
    worded = regex("line.worded").match(rest)
    if worded is not None and rest[worded.end() :].strip():
        found.append(NUMBER_WORDS[" ".join(worded.group(1).lower().split())])
        rest = rest[worded.end() :]
        is_worded = len(found) == 1
    if len(set(found)) > 1 and not re.search(r"\d\s*[,;+]\s", text):
        raise InputFileError(
            f"{where}: {text.strip()!r} counts {' and '.join(map(str, found))} of one part",
            why="a line states one number of pieces",
            fix="write it once, e.g. 2x RTX 5090",
        )
    return (found[0] if found else 1), rest, is_worded


def _with_one_amount(text: str) -> str:
    """Return a row of an invoice, with the price of one and of all pieces at its end, with that of all alone."""
    found = regex("line.two_amounts").search(text)
    if found is None:
        return text
    each, whole = (float(re.sub(r"[ ,]", "", found[group])) for group in (1, 2))
    times = whole / each if each else 0.0
    if not 1 <= times <= MOST_OF_ONE or abs(times - round(times)) > 1e-3:
        return text
    return f"{text[: found.start()].rstrip(' @')} ${found[2]} total"


def _split_off_dollars(text: str, where: str) -> tuple[str, _TypedPrice | None]:
    """Return the text without its price, and the price; None if the line states none."""
    negative = regex("line.negative_price").search(text)
    if negative is not None:
        raise _out_of_range(negative.group().strip(" ("), where)
    last = regex("line.price_last").search(text)
    dollar = regex("line.dollar").search(text)
    if last is not None and (dollar is None or dollar.start() >= last.start() + len(last.group(1))):
        # Two spaces keep a number behind the sign from the amount: `650 USD 750W`.
        text = f"{text[: last.start()]}${last.group(1)}  {text[last.end() :]}"
        dollar = regex("line.dollar").search(text)
    if dollar is None:
        return text, None
    match = regex("line.price").search(text)
    if match is None or (text[match.end() :][:1].isalpha() and not text[match.end() - 1].isspace()):
        raise _bad_price(dollar.group(1), where)
    sign, before, first, second, each_word, whole_word = match.groups()
    low = price_number(first, where)
    high = price_number(second, where) if second else None
    end = match.end()
    dash = text[match.end(3) : match.start(4)] if second else ""
    if high is not None and high < low and dash.startswith(" ") and "$" not in dash:
        high = None  # a number of pieces behind a dash ends no range: `$1400 - 2 x RTX 3090`
        end = match.end(3)
    rest = f"{text[: match.start()]} {text[end:].lstrip(' -–—')}"
    is_each = bool(each_word) or sign == "@" or (before or "").lower() == "each"
    is_whole = bool(whole_word) or (before or "").lower() == "total"
    if high is None:
        return rest, _TypedPrice(low, is_each=is_each, is_whole=is_whole)
    if high < low:
        raise InputFileError(
            f"{where}: price ${low:g} to ${high:g}", why="the range ends below its begin", fix="low first"
        )
    return rest, _TypedPrice((low + high) / 2.0, low, high, is_each, is_whole)


def price_number(text: str, where: str) -> float:
    """Return an amount as users write it: 4500, 4,500, 4 500, 1,399.99 [USD]; 0 if the part is owned.

    Raises: InputFileError: it is none, negative, or more than any part costs.
    """
    cleaned = re.sub(r"[  ,](?=\d{3}(?!\d))", "", text.strip()).rstrip(".,")
    try:
        value = float(cleaned)
    except ValueError:
        raise _bad_price(text, where) from None
    if not 0 <= value < MOST_USD:
        raise _out_of_range(text, where)
    return value


def _out_of_range(text: str, where: str) -> InputFileError:
    return InputFileError(
        f"{where}: price {text!r}",
        why=f"a price is from 0, of a part that is owned, to below {MOST_USD:,} dollars",
        fix="correct it, or leave it out",
    )


def _bad_price(text: str, where: str) -> InputFileError:
    return InputFileError(
        f"{where}: price {text!r}",
        why="it is not a number of dollars",
        fix="write it as $4500, $4,500 or $1,399.99; leave it out to take the catalog's",
    )
