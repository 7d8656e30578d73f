"""Prices by the hour in any container, whoever wrote it: sheets, pasted tables, catalogues, answers of providers' APIs.

A field means what its name says: accelerator, number, price, spot price, region. A name of a rented machine that the
catalog knows says which accelerators it has.
"""

import csv
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import MOST_PRICES_BYTES, read_csv, read_text, with_commas
from advisor.catalog.formats.machine_listing import accelerator_named
from advisor.catalog.formats.meanings import plain_words
from advisor.catalog.formats.records import Record, read_records
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.price import Term
from advisor.catalog.units import GIB, HOUR_S, HOURS_PER_DAY, HOURS_PER_MONTH, MIB, MINUTE_S

PriceCatalogue = Literal["skypilot", "gpuhunt", "sheet", "lines"]
TITLES: Final[Mapping[PriceCatalogue, str]] = {
    "skypilot": "SkyPilot's vms.csv",
    "gpuhunt": "rows of gpuhunt",
    "sheet": "a sheet of prices by the hour",
    "lines": "lines with an accelerator and a price by the hour",
}
_MARKS: Final[Mapping[PriceCatalogue, tuple[str, ...]]] = {
    "skypilot": ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price"),
    "gpuhunt": ("instance_name", "gpu_name", "gpu_count", "price"),
}
"""Columns of lists whose program is known: only the title in an answer depends on them."""
_PATH: Final = re.compile(r"[a-z]+[A-Za-z]*/[a-z]+[A-Z]\w*|[a-z]+/(?:term|unit|region|location)")
_OWN_COLUMNS: Final = ({"usd_per_hour"}, {"accelerator", "num_accelerators"})
_GPU: Final = r"(?:gpu|accelerator|card|chip)"
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu": (
        rf"{_GPU}(?: (?:name|model|type|display name|config(?:uration)?))?",
        "(?:graphics|video) card",
        "display name",
        "gpu description",
    ),
    "count": (
        "(?:num(?:ber)?(?: of)?|no of|n|max)? ?(?:gpus|accelerators|cards)",
        rf"{_GPU}s? (?:count|num(?:ber)?|quantity)",
        r"gpus per \w+",
        "count|quantity|qty|n|max gpu count",
    ),
    "provider": ("(?:provider|vendor|cloud|company|seller|host)(?: name)?",),
    "sku": (
        "api name|arm sku name|sku(?: name)?",
        "instance(?: (?:name|type|size))?|machine(?: type)?|vm(?: size)?",
        "shape|flavou?r|plan|name|key|id",
    ),
    "description": (
        r"(?:\w+ ){0,2}description|specs?|configuration|product|(?:line )?items?|service|details|articles?",
    ),
    "region": (
        "(?:arm )?regions?(?: name| id)?|locations?|zone|geolocation|service regions|data ?cent(?:er|re)",
    ),
    "currency": ("(?:billing |pricing )?currency(?: code)?",),
    "memory": (
        "(?:gpu )?(?:ram|memory|vram)(?: (?:in )?(?:gb|gib|mb|mib))?",
        "gpu (?:mem|memory size)|accelerator memory gi ?b",
    ),
    "term": (
        "(?:pricing |price |purchase |billing |usage |rental |lease |consumption )?"
        "(?:term|type|model|option|plan|kind|commitment|category)(?: type)?",
        "availability|interruptible|spot",
    ),
    "years": ("reservation term|lease contract length|commitment(?: length| period)?",),
    "unit": ("(?:pricing )?unit(?: of measure)?|billing (?:unit|period)|per",),
    "system": ("operating system|os|product name|platform",),
}
"""Names of fields in plain words by what they hold; the first name that fits counts."""
_MEANS_A_PRICE: Final = frozenset(
    ("price", "cost", "rate", "hourly", "usd", "dph", "bid", "hour", "hr", "hrs", "amount", "demand", "spot")
)
"""Words of which the name of a price has at least one."""
_PRICE_WORDS: Final = _MEANS_A_PRICE | {
    *("retail", "unit", "list", "per", "a", "h", "linux", "instance", "total", "base", "min", "minimum"),
    *("current", "the", "in", "dollar", "dollars", "from", "public", "net"),
}
"""Words that the name of a price of machines may have; one of storage or of a month has another."""
_ONE: Final = frozenset(("gpu", "gpus", "card", "accelerator", "chip"))
_PERIOD_HOURS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), 1.0 / HOUR_S),
    **dict.fromkeys(("minute", "minutes"), MINUTE_S / HOUR_S),
    **dict.fromkeys(("hour", "hours", "hourly", "hr", "hrs", "h"), 1.0),
    **dict.fromkeys(("day", "days", "daily"), HOURS_PER_DAY),
    **dict.fromkeys(("week", "weeks", "weekly"), 7.0 * HOURS_PER_DAY),
    **dict.fromkeys(("month", "months", "monthly", "mo"), HOURS_PER_MONTH),
    **dict.fromkeys(("year", "years", "yearly", "yr", "annual", "annually"), 12.0 * HOURS_PER_MONTH),
}
"""Hours that a price pays for, by the word of its period."""
_PERIOD_TERMS: Final[tuple[tuple[float, Term], ...]] = (
    (12.0 * HOURS_PER_MONTH, "reserved_1y"),
    (HOURS_PER_MONTH, "reserved_1m"),
)
"""Terms of machines whose only price is that of a long period: they are rented for all of it."""
_BY_NAME: Final = "prices by accelerator"
"""Fields that are the names of accelerators, whose cells are prices."""
_TERMS: Final[tuple[tuple[Term, str], ...]] = (
    ("reserved_3y", r"\b(?:(?:3|three) ?(?:yr?s?|years?)|36 ?(?:months?|mo))\b|\b3y"),
    ("reserved_1y", r"\b(?:(?:1|one) ?(?:yr?s?|years?)|12 ?(?:months|mo))\b|\b1y|\bannual commit\w*"),
    ("reserved_3m", r"\b(?:3|three) ?(?:m|mo|months?)\b"),
    ("reserved_1m", r"\b(?:1|one) ?(?:m|mo|month)\b commit\w*"),
    (
        "reserved_unspecified",
        r"\b(?:6|six) ?months?\b|\b(?:2|two) ?years?\b|\breserv\w*|\bcommit\w*|\bcud\b|savings plan",
    ),
    ("spot", r"\bspot\b|preempt\w*|\bdynamic\b|(?<!un)interruptible|\bbid\b|low priority"),
    ("community", r"\bcommunity\b"),
    ("on_demand", r"on ?demand|pay ?g\b|pay as you go|\bsecure\b|consumption|uninterruptible|\bflex\b"),
)
"""Words of terms, the most specific first."""
_PRICE: Final = re.compile(
    r"(?:usd|us\$|\$)?\s*([\d.,]*\d)\s*(¢|cents?)?\s*(?:usd|\$)?\s*((?:(?:/|per )?\s*(?:1 )?[a-z]+\b\s*)*)",
    re.IGNORECASE,
)
_UNIT_WORDS: Final = frozenset(("per", "a", "an")) | _ONE | frozenset(_PERIOD_HOURS)
_HOURS_PER_YEAR: Final = 8760.0
_IN_LINE: Final = re.compile(
    r"(?:\bUS|(?<![A-Za-z]))\$\s*([\d,]*\.?\d+)"
    rf"((?:[\s/-]*\b(?:{'|'.join(sorted(_UNIT_WORDS, key=len, reverse=True))})\b)*)",
    re.IGNORECASE,
)
_OTHER_MONEY: Final = re.compile(
    r"[€£¥₹₩₽]|(?<![A-Za-z])(?!US)[A-Z]{1,2}\$(?= ?\d)"
    r"|\b(?:EUR|GBP|CHF|JPY|CNY|RMB|INR|KRW|SEK|NOK|DKK|PLN|CZK|BRL|CAD|AUD|NZD|SGD|HKD|TWD|AED|SAR|ILS|ZAR)\b"
)
"""Signs and codes of other currencies; of the dollars only the American ones are read."""
_BEFORE_PRICE: Final = re.compile(
    r"(?:[\s:–—=@-]|\b(?:at|for|from|only|is|are|costs?|starting)\b)+$", re.IGNORECASE
)
"""Words between an accelerator and its price."""
_LONGEST_LINE: Final = 1000
"""Characters of a line with a price that are read."""
_LINE_DIVIDERS: Final = re.compile(r"[;|]|,(?!\d{3})|\s{2,}|\t")
_NO_PRICE: Final = frozenset(
    (
        "",
        "-",
        "–",
        "—",
        "n/a",
        "na",
        "none",
        "null",
        "unavailable",
        "on request",
        "contact us",
        "contact sales",
    )
)
_IS_QUANTITY: Final = re.compile(r"quantity|qty|n|count")
_IS_WINDOWS: Final = re.compile(r"windows|rhel|suse", re.IGNORECASE)
_DESCRIBED: Final = re.compile(
    r"^(?:(?:spot|preemptible)\s+)*(?:(\d+)\s*[x×]\s*)?(.*?)"
    r"(?:\s+(?:gpu|running in|attached to|dedicated|bare ?metal|servers?|instances?|nodes?|vms?|rental)\b.*)?$",
    re.IGNORECASE,
)
_MEMORY_TOLERANCE: Final = 0.15
"""Tolerance between two statements of an accelerator's memory, as for refreshed lists."""


@dataclass(frozen=True, slots=True)
class CataloguePrice:
    """One priced machine of another catalogue."""

    row: int
    provider: str
    """Provider that the row states; empty for most catalogues."""
    sku: str
    region: str
    term: Term
    usd_per_hour: str
    num_accelerators: str
    """Number of accelerators; empty if only the name of the machine says it."""
    gpu: str
    """Name of the accelerator in the catalogue; empty if only the name of the machine says it."""
    memory_bytes: float | None
    """Memory of one accelerator [bytes]; None if the row does not state it."""
    currency: str = ""
    """Currency that the row states."""
    is_each: bool = False
    """Whether the price is that of one accelerator."""
    period_hours: float = 1.0
    """Hours that the price in the catalogue pays for."""


def catalogue_of(path: Path) -> PriceCatalogue | None:
    """Return the kind of list that a file is, by the names of its fields; None for a file of own columns.

    Raises: InputFileError: the file cannot be read.
    """
    text = read_text(path, MOST_PRICES_BYTES)
    titles = _header(text)
    if any(own <= set(titles) for own in _OWN_COLUMNS):
        return None
    known = next((name for name, marks in _MARKS.items() if set(titles).issuperset(marks)), None)
    if known is not None:
        return known
    if any(_is_priced(_fields_of(tuple(record))) for record in _first_records(titles, text)):
        return "sheet"
    if next(_of_lines(text), None) is not None:
        return "lines"
    _check_dollars(titles, text, path)
    return None


def _check_dollars(titles: list[str], text: str, path: Path) -> None:
    """Refuse a sheet of accelerators whose prices are in another currency or unit.

    Raises: InputFileError: a title says so.
    """
    if foreign := _OTHER_MONEY.search(text):
        raise InputFileError(
            f"{path}: prices in {foreign[0].strip()}",
            why="prices are US dollars per hour; other currencies are not converted",
            fix="write the number of dollars per hour",
        )
    other = [title for title in titles if set(plain_words(title).split()) & _MEANS_A_PRICE]
    if other and "gpu" in _fields_of(tuple(titles)):
        raise InputFileError(
            f"{path}: column {other[0]!r} is no price in dollars per hour",
            why="other currencies are not converted",
            fix="write the number of dollars per hour in a column price",
        )


def _first_records(titles: list[str], text: str) -> list[Record]:
    """Return records that show the fields: the header of CSV, else the first of the text."""
    if _is_priced(_fields_of(tuple(titles))):
        return [dict.fromkeys(titles)]
    return read_records(text)[:50]


def _is_priced(fields: Mapping[str, list[str]]) -> bool:
    return _BY_NAME in fields or (any(what.startswith("price|") for what in fields) and len(fields) > 1)


def _header(text: str) -> list[str]:
    if text.lstrip()[:1] in ("{", "["):
        return []
    lines = (line for line in with_commas(text.splitlines()) if line.strip() and not line.startswith("#"))
    return [title.strip() for title in next(csv.reader(lines), [])]


def _fields_of(titles: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the names of fields by what they hold; prices are `price`, with what `_price_kind` says of them."""
    found: dict[str, list[str]] = {}
    for title in titles:
        last = _own_name(title)
        own = plain_words(last.replace("$", " usd ")).removeprefix(
            "x "
        )  # FOCUS marks columns of one vendor so
        above = plain_words(title.removesuffix(last))
        nested = f"{above.rpartition(' ')[2]} {own}" if above else own
        what = next((what for words in (nested, own) if (what := _field_of(words))), "")
        if what:
            found.setdefault(what, []).append(title)
        if price := _price_kind(own, above) or _price_kind(nested, above):
            found.setdefault(price, []).append(title)
    if (
        not _is_priced(found)
        and len(named := [title for title in titles if _is_accelerator(_own_name(title))]) > 1
    ):
        found[_BY_NAME] = named
    return found


def _own_name(title: str) -> str:
    """Return the last of the names that a title joins with dots, or with slashes: `product/instanceType`."""
    return title.rpartition("/" if _PATH.fullmatch(title) else ".")[2]


def _field_of(words: str) -> str:
    """Return what a name in plain words holds; empty if it is unknown."""
    return next(
        (what for what, forms in _FIELDS.items() if any(re.fullmatch(form, words) for form in forms)), ""
    )


def _price_kind(own: str, above: str) -> str:
    """Return `price`, term, `each`, `cents` and the hours that it pays for of a name of a price, joined by bars; empty
    for any other name: a price of storage has a word that no price of machines has."""
    words = own
    term = next((each for each, form in _TERMS if re.search(form, own) or re.search(form, above)), "")
    for _, form in _TERMS:
        words = re.sub(form, " ", words)
    if own and not words.split() and own != "commitment":
        words = "price"
    cents = bool(re.search(r"\bcents?\b", words))
    left = set(re.sub(r"\bcents?\b", " ", words).split())
    hours = _period_hours(left)
    if own == "usd" and "price" in above:
        return "" if term.startswith("reserved") else f"price|{term}|||1.0"
    if hours not in (None, 1.0):
        left -= _PERIOD_HOURS.keys()
        left |= {"hour"}
    means = (left | set(own.split())) & _MEANS_A_PRICE
    if own == "usd" or not means or not left <= _PRICE_WORDS | _ONE:
        return ""
    return f"price|{term}|{'each' if left & _ONE else ''}|{'cents' if cents else ''}|{hours or 1.0}"


def _period_hours(words: Collection[str]) -> float | None:
    """Return the hours of the period that words state; None if they state none."""
    return next((_PERIOD_HOURS[word] for word in words if word in _PERIOD_HOURS), None)


def _term_of(words: str) -> Term | None:
    return next((each for each, form in _TERMS if re.search(form, words)), None)


def catalogue_prices(path: Path, catalogue: PriceCatalogue) -> Iterator[CataloguePrice]:
    """Yield the priced machines with accelerators, for each term that their rows price.

    Raises: InputFileError: the file cannot be read, or a price is no number of dollars.
    Source: skypilot-org/skypilot-catalog catalogs/v8/*/vms.csv; dstackai/gpuhunt src/gpuhunt (columns of its CSV);
        instances.vantage.sh (columns of its CSV); AWS Price List, Azure Retail Prices, Google Cloud Billing Catalog,
        RunPod, Vast.ai and Lambda API references (fields of their answers).
    """
    text = read_text(path, MOST_PRICES_BYTES)
    if catalogue == "lines":
        yield from _of_lines(text)
        return
    titles = _header(text)
    known = _fields_of(tuple(titles))
    is_csv = _is_priced(known) and len(titles) > 1
    rows: Iterator[tuple[int, Record]] = (
        iter(read_csv(path, (), tuple(titles))) if is_csv else enumerate(read_records(text), 1)
    )
    fields: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for number, record in rows:
        names = tuple(record)
        if names not in fields:
            fields[names] = _fields_of(names)
        yield from _of_record(number, record, fields[names], str(path))


def _of_record(
    number: int, record: Record, fields: Mapping[str, list[str]], path: str
) -> Iterator[CataloguePrice]:
    """Yield the prices of one record."""
    for name in fields.get(_BY_NAME, ()):
        rest = {title: cell for title, cell in record.items() if title not in fields[_BY_NAME]}
        named = {**rest, "gpu": _own_name(name), "price": record[name]}
        yield from _of_record(number, named, _fields_of(tuple(named)), path)
    if _BY_NAME in fields:
        return
    cells = {
        what: next((text for name in names if (text := _text_of(record[name]))), "")
        for what, names in fields.items()
    }
    if "gpu" in cells and cells["gpu"].lower() in _NO_PRICE:
        return
    if _period_hours(plain_words(cells.get("unit", "")).split()) is not None and all(
        _IS_QUANTITY.fullmatch(plain_words(_own_name(name))) for name in fields.get("count", ())
    ):
        cells.pop("count", None)  # an invoice counts the hours that were rented
    if _IS_WINDOWS.search(cells.get("system", "")):
        return
    machines = [
        text for name in sorted(fields.get("sku", ()), key=_is_vague) if (text := _text_of(record[name]))
    ]
    if machines:
        cells["sku"] = machines[0]
    if re.fullmatch(r"\d+", cells.get("gpu", "")):  # AWS names the number of accelerators so
        cells["count"] = cells.pop("gpu")
    plain = _machine_of(cells, record)
    if plain is None:
        return
    memory = _memory_bytes(cells, record, fields)
    term, hours = _stated_term(cells, " ".join([*machines, cells.get("description", "")]))
    if term is None:
        return
    found: dict[Term, CataloguePrice] = {}
    kinds = [one.split("|") for one in fields if one.startswith("price|")]
    for kind in sorted(kinds, key=lambda kind: float(kind[-1]) != 1.0):
        what = "|".join(kind)
        _, named_term, each, cents, named_hours = kind
        names = sorted(fields[what], key=_is_sum)
        cell = next((text for name in names if (text := _text_of(record[name]))), "")
        if cell.lower() in _NO_PRICE | {"true", "false"}:
            continue
        usd, is_each, cell_hours = _usd_in(cell, f"{path}: row {number}")
        period = cell_hours or float(named_hours)
        if usd == 0.0 or (found and period != 1.0):
            continue  # the price of a month beside that of an hour is a sum or a bound of it
        divisor = (100.0 if cents else 1.0) * hours * period
        one = replace(
            plain,
            row=number,
            region=cells.get("region", "").split(",")[0].strip(),
            currency=cells.get("currency", ""),
            memory_bytes=memory,
            term=next((each for each, _ in _TERMS if each == named_term), _term_in(period, term)),
            usd_per_hour=repr(usd / divisor) if divisor != 1 or usd != _number(cell) else cell,
            is_each=bool(each)
            or is_each
            or _is_of_one(names[0], cells, fields)
            or "running in" in cells.get("description", "").lower(),
            period_hours=hours * period,
        )
        rival = found.get(one.term)
        if rival is None or (rival.is_each and not one.is_each):
            found[one.term] = one
    yield from found.values()


def _text_of(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _machine_of(cells: Mapping[str, str], record: Record) -> CataloguePrice | None:
    """Return the machine of a row without its price; None for one without accelerators."""
    count = cells.get("count", "").strip("x×")
    gpu = cells.get("gpu", "")
    sku = cells.get("sku", "")
    if "count" in cells and _number(count) == 0.0:
        return None
    if gpu and "count" in cells and not count:
        return None
    others = (cells.get("description", ""), sku, *(cell for cell in record.values() if isinstance(cell, str)))
    for text in (gpu,) if gpu else others:
        described = _DESCRIBED.match(text)
        name = described[2] if described else text
        if (gpu and text == gpu) or _is_accelerator(name):
            if described and described[1] and _number(count or "1") == 1.0:
                count = described[1]
            gpu = re.sub(r"\s*[()]\s*", " ", name).strip()
            break
    return CataloguePrice(
        0,
        cells.get("provider", "").lower(),
        sku,
        "",
        "on_demand",
        "",
        count or ("1" if gpu else ""),
        gpu,
        None,
    )


def _is_accelerator(name: str) -> bool:
    return bool(name) and accelerator_of(_row_of(name))[0] is not None


def _row_of(name: str) -> CataloguePrice:
    bare = re.sub(r"\s*[()]\s*", " ", name).strip()
    return CataloguePrice(0, "", "", "", "on_demand", "", "1", bare, None)


def _is_of_one(title: str, cells: Mapping[str, str], fields: Mapping[str, list[str]]) -> bool:
    """Whether a price is that of one of the accelerators which the row's quantity counts: a unit price beside it."""
    counts = [plain_words(_own_name(name)) for name in fields.get("count", ())]
    is_quantity = bool(cells.get("count")) and any(_IS_QUANTITY.fullmatch(count) for count in counts)
    return is_quantity and "unit" in plain_words(_own_name(title)).split()


def _is_sum(title: str) -> bool:
    """Whether the name of a price may be that of a whole invoice's line: a unit's price says so."""
    words = set(plain_words(title).split())
    return bool(words & {"amount", "total", "cost", "sum"}) and not words & {
        "unit",
        "per",
        "rate",
        "hourly",
        "hour",
    }


def _is_vague(title: str) -> bool:
    """Whether a name of a machine's name is that of anything's: the type of an instance says which machine it is."""
    return not re.search(r"arm|instance|api|machine|type", title, re.IGNORECASE)


def _stated_term(cells: Mapping[str, str], names: str) -> tuple[Term | None, float]:
    """Return the term that a row states, None for a unit of price that is no period, and the hours that its price pays
    for: a reservation of Azure's states the price of its whole term."""
    words = plain_words(f"{cells.get('years', '')} {cells.get('term', '')} {names}")
    if cells.get("term", "").lower() in ("true", "yes"):
        words = "spot"
    term: Term = _term_of(words) or "on_demand"
    unit = plain_words(cells.get("unit", ""))
    if unit and not re.search(r"\bh(?:ou)?r?s?\b", unit):
        period = _period_hours(unit.split()) if set(unit.split()) <= _UNIT_WORDS | {"1"} else None
        return (None, 1.0) if period is None else (_term_in(period, term), period)
    years = {"reserved_1y": 1.0, "reserved_3y": 3.0}.get(term, 0.0) if "reservation" in words else 0.0
    return term, years * _HOURS_PER_YEAR or 1.0


def _term_in(period_hours: float, term: Term) -> Term:
    """Return the term of a price that pays for a period, given the one that is stated otherwise."""
    stated = (each for hours, each in _PERIOD_TERMS if period_hours >= hours)
    return next(stated, term) if term == "on_demand" else term


def _usd_in(cell: str, where: str) -> tuple[float, bool, float | None]:
    """Return the dollars of a cell, whether they are the price of one accelerator, and the hours that they pay for,
    None if the cell has no period.

    Raises: InputFileError: it is no number of dollars for a period.
    """
    found = _PRICE.fullmatch(cell)
    unit = set(re.findall(r"[a-z]+", found[3].lower())) if found else {""}
    if found is None or not unit <= _UNIT_WORDS:
        raise InputFileError(
            f"{where}: price {cell!r}",
            why="prices are dollars per hour; other currencies are not converted",
            fix="write the number of dollars per hour",
        )
    return _dollars(found[1]) / (100.0 if found[2] else 1.0), bool(unit & _ONE), _period_hours(unit)


def _dollars(text: str) -> float:
    """Return a number whose comma divides thousands if three digits follow it, and else decimals."""
    return _number(re.sub(r",(?=\d{3}(?:\D|$))", "", text).replace(",", ".")) or 0.0


_SIZE_OF_ONE: Final = re.compile(r"['\"]SizeInMiB['\"]\s*:\s*(\d+)")
_SKYPILOT_GIB: Final = {"A100": 40.0, "V100": 16.0}
"""Memory of boards whose larger siblings have it in their names: A100-80GB, V100-32GB [GiB]. Source: names of
skypilot-org/skypilot-catalog, catalogs/v8/common/metadata.csv."""
_MOST_GIB: Final = 2000.0
"""Largest memory of one accelerator that is stated in GiB; Vast.ai's fields of the same name count MiB."""


def _memory_bytes(cells: Mapping[str, str], record: Record, fields: Mapping[str, list[str]]) -> float | None:
    """Return the memory of one accelerator that a row states [bytes]; None if it states none."""
    if found := _SIZE_OF_ONE.search(_text_of(record.get("GpuInfo"))):
        return float(found[1]) * MIB
    if "AcceleratorName" in record:
        stated = _number(_text_of(record.get("AcceleratorMemoryGiB"))) or _SKYPILOT_GIB.get(cells["gpu"])
        return stated * GIB if stated else None
    names = [
        name for name in fields.get("memory", ()) if re.search("gpu|vram|accel|memoryIn", name, re.IGNORECASE)
    ]
    size = re.match(r"[\d.]+", next((_text_of(record[name]) for name in names), ""))
    number = _number(size[0]) if size else None
    if not number:
        return None
    return number * (MIB if number > _MOST_GIB else GIB)


def _of_lines(text: str) -> Iterator[CataloguePrice]:
    """Yield the prices of lines that name an accelerator and an amount of dollars, as pages of prices are pasted."""
    above: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line[:_LONGEST_LINE]
        amounts = list(_IN_LINE.finditer(line))
        if not amounts:
            above = accelerator_named(line) or above
            continue
        before = _BEFORE_PRICE.sub("", line[: amounts[0].start()])
        parts = (before, re.split(r"\s[-–—]\s|[:|(,]", before)[0], line[amounts[-1].end() :])
        named = next(filter(None, map(accelerator_named, parts)), above)
        above = None
        if named is None:
            continue
        found: dict[Term, CataloguePrice] = {}
        periods = [_period_hours(re.findall(r"[a-z]+", one[2].lower())) or 1.0 for one in amounts]
        for amount, period in zip(amounts, periods, strict=True):
            if period != 1.0 and 1.0 in periods:
                continue
            words = plain_words(_part_around(amount.start(), line) if len(amounts) > 1 else line)
            term = _term_of(words) or _term_in(period, "on_demand")
            usd = _dollars(amount[1]) / period
            is_each = bool(set(re.findall(r"[a-z]+", amount[2].lower())) & _ONE) or "per gpu" in words
            row = CataloguePrice(
                number, "", "", "", term, repr(usd), str(named[0]), named[1], None, "", is_each, period
            )
            found.setdefault(term, row)
        yield from found.values()


def _part_around(place: int, line: str) -> str:
    """Return the part of a line between the dividers around a place."""
    bounds = [(one.start(), one.end()) for one in _LINE_DIVIDERS.finditer(line)]
    start = max((end for _, end in bounds if end <= place), default=0)
    return line[start : min((begun for begun, _ in bounds if begun > place), default=len(line))]


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def whole_count(text: str, where: str) -> int:
    """Return a number of accelerators. Raises: InputFileError: it is no whole number of at least 1."""
    found = _number(text)
    if found is None or found < 1 or found != round(found):
        raise InputFileError(
            f"{where}: {text!r} accelerators",
            why="not a whole number of at least 1",
            fix="correct it or leave the row out",
        )
    return round(found)


def accelerator_of(price: CataloguePrice) -> tuple[Accelerator | None, bool]:
    """Return the accelerator that a row names, and whether the name says it alone.

    A name that stands for several boards (H100, A100-80GB) gives the one that the catalog takes for it, unless the
    row's memory belongs to another; None for a name that the catalog does not have.
    """
    words = re.sub(r"\b(?:nvidia|amd|intel|geforce|tesla|instinct|mega|plus)\b", "", price.gpu.lower())
    spelt = re.sub(r"[\s_]+", "-", words.strip())
    for name in (spelt, spelt.replace("rtx", "rtx-", 1), spelt.replace("-", "")):
        try:
            chosen = accelerators.get(name)
        except UnknownNameError:
            continue
        record = chosen.record
        known = record.memory_bytes
        if price.memory_bytes and known and abs(price.memory_bytes - known) > _MEMORY_TOLERANCE * known:
            continue
        letters = record.id.replace("-", "")
        return record, spelt.replace("-", "") == letters
    return _board_with_memory(spelt, price.memory_bytes), False


def _board_with_memory(name: str, memory_bytes: float | None) -> Accelerator | None:
    """Return the board with this memory of those that share a name, in its own socket first; None if none has."""
    boards = (accelerators.by_id(each) for each in accelerators.all_ids() if each.startswith(f"{name}-"))
    able = [
        board
        for board in boards
        if memory_bytes
        and board.memory_bytes
        and abs(memory_bytes - board.memory_bytes) <= _MEMORY_TOLERANCE * board.memory_bytes
    ]
    return max(able, key=lambda board: "sxm" in board.id, default=None)
