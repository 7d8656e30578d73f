"""Answers on prices of the catalog: parts of workstations, and hours of accelerators."""

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence

from advisor.catalog.part_prices import STALE_AFTER_DAYS as PARTS_STALE_AFTER_DAYS
from advisor.catalog.part_prices import price_words
from advisor.catalog.prices import STALE_AFTER_DAYS, is_stale, price_age_days
from advisor.catalog.schema import Price
from advisor.catalog.schema.part import (
    Board,
    Case,
    Cooler,
    Cpu,
    GpuCard,
    Part,
    PartPrice,
    Psu,
    RamKit,
    Storage,
    System,
)
from advisor.catalog.units import GB, GIB, KILO
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.document import fields_of
from advisor.render.numbers import MISSING, digits, term_words, usd, words_of

MAX_ROWS = 60
"""Rows that the terminal shows; files and JSON have all."""


def parts_answer(
    rows: Sequence[tuple[str, Part, PartPrice | None]], *, as_of: datetime.date, filters: Mapping[str, object]
) -> Answer:
    """Return a listing of parts with their prices."""
    shown = rows[:MAX_ROWS]
    counts = Counter(category for category, _, _ in rows)
    words = ", ".join(f"{number} {category}" for category, number in counts.items())
    rest = f" {len(rows) - len(shown)} more with -o, --json or a filter." if len(rows) > len(shown) else ""
    return Answer(
        result={"parts": [part_row(*row, as_of) for row in rows]},
        inputs=filters,
        blocks=(
            Table(columns("kind | name~ | figures~ | $> | price is~"), tuple(_cells(*row) for row in shown)),
            Paragraph(f"{len(rows)} parts: {words}.{rest} Prices in USD."),
        ),
        records="parts",
        warnings=_warnings(rows, as_of),
    )


def part_row(category: str, part: Part, price: PartPrice | None, as_of: datetime.date) -> dict[str, object]:
    """Return a part as data."""
    known = {"category": category, **fields_of(part)}
    if price is None:
        return {**known, "usd": None}
    return {
        **known,
        "usd": price.usd,
        "price_basis": price.basis,
        "price_condition": price.condition,
        "price_observed_on": price.observed_on,
        "price_age_days": max(0, (as_of - price.observed_on).days),
        "price_source": price.source.title,
    }


def _cells(category: str, part: Part, price: PartPrice | None) -> tuple[str, ...]:
    cost = MISSING if price is None else f"{price.usd:,.0f}"
    basis = (
        MISSING
        if price is None
        else price_words(price.basis, price.observed_on, price.num_listings, price.condition)
    )
    flags = f" [{', '.join(map(words_of, part.flags))}]" if part.flags else ""
    return category, part.name + flags, figures(part), cost, basis


def figures(part: Part) -> str:
    """Return the main figures of a part, in a few words."""
    match part:
        case GpuCard():
            return f"{part.power_w:.0f} W, {part.length_m * KILO:.0f} mm, {digits(part.slots)} slots"
        case Cpu():
            return f"{part.series.socket}, {part.cores} cores, {part.series.slot_lanes} lanes, {part.power_w:.0f} W"
        case Board():
            lanes = " or ".join("+".join(map(str, mode)) for mode in part.lane_modes)
            return f"{part.socket} {part.chipset}, {part.form_factor}, lanes {lanes}"
        case RamKit():
            return f"{part.capacity_bytes / GIB:.0f} GB in {part.modules}" + (", ECC" if part.ecc else "")
        case Psu():
            return f"{part.power_w:.0f} W, {part.num_16_pin} x 16-pin, {part.num_8_pin} x 8-pin"
        case Case():
            return f"cards to {part.max_gpu_m * KILO:.0f} mm, {part.expansion_slots} slots"
        case Cooler():
            return ", ".join(part.sockets)
        case Storage():
            return f"{part.capacity_bytes / GB:.0f} GB, PCIe {part.pcie_generation}.0"
        case System():
            return f"{part.num_accelerators} x {part.accelerator}, {part.memory_bytes / GB:.0f} GB"
    return ""


def _warnings(rows: Sequence[tuple[str, Part, PartPrice | None]], as_of: datetime.date) -> tuple[str, ...]:
    old = sum(
        price is not None and (as_of - price.observed_on).days > PARTS_STALE_AFTER_DAYS
        for _, _, price in rows
    )
    none = sum(price is None for _, _, price in rows)
    found = []
    if old:
        found.append(
            f"{old} of {len(rows)} prices are more than {PARTS_STALE_AFTER_DAYS} days old on {as_of}"
        )
    if none:
        found.append(f"{none} of {len(rows)} parts have no price: --price-file gives them one")
    return tuple(found)


def prices_answer(
    prices: Sequence[Price], note: str, *, as_of: datetime.date, filters: Mapping[str, object]
) -> Answer:
    """Return a listing of prices with their age on the day asked for."""
    providers = {price.provider for price in prices}
    names = {price.accelerator for price in prices}
    header = columns("accelerator | provider | sku~ | region~ | n> | term~ | $/h> | $/h each> | days old>")
    rows = tuple(_price_cells(price, as_of) for price in prices)
    of = ""
    if len(names) == 1:  # said once
        header = header[1:]
        rows = tuple(row[1:] for row in rows)
        of = f" of {next(iter(names))}"
    return Answer(
        result={"prices": [price_row(price, as_of) for price in prices]},
        inputs=filters,
        blocks=(
            Table(header, rows),
            Paragraph(f"{len(prices)} offers{of} by {len(providers)} providers, as known on {as_of}."),
        ),
        records="prices",
        warnings=stale_warnings(prices, as_of),
        notes=(note,) if note else (),
    )


def price_row(price: Price, as_of: datetime.date) -> dict[str, object]:
    """Return a price with what follows from it on a day."""
    return fields_of(price) | {
        "usd_per_accelerator_hour": price.usd_per_accelerator_hour,
        "age_days": price_age_days(price, as_of),
        "is_stale": is_stale(price, as_of),
    }


def stale_warnings(prices: Sequence[Price], as_of: datetime.date) -> tuple[str, ...]:
    """Return a sentence if some prices were read too long before the day, with the range of their age, and one if some
    bear no date."""
    undated = sum(not price.is_dated for price in prices)
    told = (f"{undated} of {len(prices)} prices bear no date: check before you buy",) if undated else ()
    known = (price_age_days(price, as_of) for price in prices if is_stale(price, as_of))
    ages = sorted(age for age in known if age is not None)
    if not ages:
        return told
    span = f"{ages[0]} days" if ages[0] == ages[-1] else f"{ages[0]} to {ages[-1]} days"
    which = "the price is" if len(prices) == 1 else f"{len(ages)} of {len(prices)} prices are"
    return (f"{which} {span} old on {as_of} (stale after {STALE_AFTER_DAYS}): check before you buy", *told)


def _price_cells(price: Price, as_of: datetime.date) -> tuple[str, ...]:
    order = price.min_quantity or 0
    age = price_age_days(price, as_of)
    return (
        price.accelerator,
        price.provider,
        price.sku,
        price.region,
        f"{price.num_accelerators}, from {order}"
        if order > price.num_accelerators
        else str(price.num_accelerators),
        ", ".join(
            [term_words(price.term), *([] if price.price_kind == "list" else [words_of(price.price_kind)])]
        ),
        usd(price.usd_per_hour),
        usd(price.usd_per_accelerator_hour),
        "undated" if age is None else str(age),
    )
