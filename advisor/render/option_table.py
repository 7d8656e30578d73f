"""Columns by which options are shown: one list for serving, one for batches and one for images, texts and audio."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.units import HOUR_S
from advisor.decide.option import Offer, Option
from advisor.decide.scenario import ServiceLevel
from advisor.render.answer import Block, Table, columns
from advisor.render.numbers import (
    MISSING,
    TIME,
    bought_words,
    degree_words,
    digits,
    percent,
    price_words,
    range_words,
    rung,
    runs_words,
    show,
    usd,
    usd_range,
)
from advisor.simulator.quantity import Quantity

_METRICS: Final = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "E2E"}


@dataclass(frozen=True, slots=True)
class OptionColumn:
    """A column of options: its header with its marks, and how an option fills it."""

    header: str
    """As `answer.columns` reads it."""
    cell: Callable[[Option], str]


def table_of(
    options: Sequence[Option],
    chosen: Sequence[OptionColumn],
    title: str,
    details: Sequence[Sequence[Block]] = (),
) -> Table:
    """A row for each option; a page unfolds its details."""
    return Table(
        columns(*(column.header for column in chosen)),
        tuple(tuple(column.cell(option) for column in chosen) for option in options),
        title=title,
        details=tuple(tuple(blocks) for blocks in details),
    )


def cells_of(option: Option | None, chosen: Sequence[OptionColumn], why: str) -> tuple[str, ...]:
    """The cells of an option behind the demand that it is for; where there is none, why in the first of them."""
    if option is None:
        return (why, *(MISSING,) * (len(chosen) - 1))
    return tuple(column.cell(option) for column in chosen)


def serving_columns(levels: Sequence[ServiceLevel], *, shows_rate: bool) -> tuple[OptionColumn, ...]:
    """Columns of the options of one load; `shows_rate` where they carry different loads."""
    runs = OptionColumn("runs~?" if shows_rate else "runs~", runs_of)
    rate = OptionColumn("req/s>", lambda option: digits(option.served.requests_per_s.value))
    return (
        OptionColumn("#>", lambda option: str(option.rank)),
        OptionColumn("take~", take_words),
        runs,
        PER_HOUR,
        *((rate,) if shows_rate else ()),
        OptionColumn("$/Mtok~", lambda option: usd_range(option.served.usd_per_million_tokens)),
        *latency_columns(levels),
        OptionColumn("holds", lambda option: option.served.holds),
        PRICE,
        OptionColumn("basis?", lambda option: option.served.basis),
    )


def ladder_columns(levels: Sequence[ServiceLevel]) -> tuple[OptionColumn, ...]:
    """Columns of what to take for each of several loads."""
    return (
        OptionColumn("take~", take_words),
        OptionColumn("runs~?", runs_of),
        PER_HOUR,
        OptionColumn("$/month>?", per_month),
        OptionColumn("$/Mtok>", lambda option: usd(option.served.usd_per_million_tokens.value)),
        *latency_columns(levels),
        PRICE,
    )


def job_columns() -> tuple[OptionColumn, ...]:
    """Columns of the ways to get a batch of requests done."""
    return (
        OptionColumn("#>", lambda option: str(option.rank)),
        OptionColumn("take~", take_words),
        OptionColumn("weights?", lambda option: option.replica_layout.weight_dtype),
        OptionColumn("hours", _hours_range),
        OptionColumn("in time", lambda option: option.batched.holds),
        PER_HOUR,
        JOB_USD,
        OptionColumn("$/Mtok>?", lambda option: digits(option.batched.usd_per_million_tokens.value, 2)),
        TERM,
        PRICE,
        OptionColumn("basis?", lambda option: option.batched.basis),
    )


def _hours_range(option: Option) -> str:
    hours = option.batched.duration_s.scaled(1.0 / HOUR_S)
    return f"{digits(hours.value)} {range_words(hours.low, hours.high)}"


def item_columns(unit: str) -> tuple[OptionColumn, ...]:
    """Columns of fleets for images, texts or audio."""
    return (
        OptionColumn("#>", lambda option: str(option.rank)),
        OptionColumn("take~", split_words),
        OptionColumn("batch>?", lambda option: str(option.replica_layout.max_num_seqs)),
        *_ITEM_LATENCIES,
        OptionColumn("busy>", lambda option: percent(option.of_items.utilization_fraction)),
        PER_HOUR,
        OptionColumn(f"$/1000 {unit}s~", lambda option: usd_range(option.of_items.usd_per_thousand_items)),
        PRICE,
        OptionColumn("basis?", lambda option: option.of_items.basis),
    )


def split_words(option: Option) -> str:
    """What is taken, and how batches are split over the accelerators of a replica."""
    split = option.levers.get("split")
    machine = option.machine
    how = f" ({option.replica_layout.num_replicas} x {split})" if split else ""
    return f"{machine.num_accelerators} x {machine.accelerator}{how}"


def latency_columns(levels: Sequence[ServiceLevel]) -> tuple[OptionColumn, ...]:
    """A column for each objective that was asked, at its own percentile."""
    return tuple(OptionColumn(f"{level_words(level)}>", latency_cell(level)) for level in levels)


def level_words(level: ServiceLevel) -> str:
    """Header of an objective: the metric, and its percentile where that is not the 99th."""
    name = _METRICS[level.metric]
    return name if level.percent == 99 else f"{name} p{level.percent:g}"


def latency_cell(level: ServiceLevel) -> Callable[[Option], str]:
    """How an option fills the column of an objective."""
    name = f"p{level.percent:g}"

    def cell(option: Option) -> str:
        times: Mapping[str, Quantity] = getattr(option.served, f"{level.metric}_s")
        return time_words(times.get(name))

    return cell


def time_words(quantity: Quantity | None) -> str:
    """A time with two digits; a dash where there is none."""
    if quantity is None:
        return MISSING
    factor, unit = rung(quantity.value, TIME)
    return f"{digits(quantity.value / factor, 2)} {unit}"


def runs_of(option: Option) -> str:
    """Engine and weight format of an option, short."""
    return runs_words(option.replica_layout.engine, option.replica_layout.weight_dtype)


def per_hour(option: Option) -> str:
    """What an option costs by the hour, as far as it is known."""
    return usd(option.bill.usd_per_hour)


def per_month(option: Option) -> str:
    """What an option costs by the month, as far as it is known."""
    return usd(option.bill.usd_per_month)


def offer_words(offer: Offer | None) -> str:
    """Provider, kind and age of a price; `own` for hardware that is already there."""
    if offer is None:
        return "own"
    return price_words(offer.provider, offer.kind, offer.tenancy, offer.age_days)


def take_words(option: Option) -> str:
    """What is taken, part by part where a deployment has unlike ones: `4 x mi300x: 3 prefill + 1 decode`."""
    machine = option.machine
    if not option.parts:
        limit = f" at {machine.power_limit_w:.0f} W" if machine.power_limit_w else ""
        return f"{bought_words(machine, option.replica_layout)}{limit}"
    if len({part.machine.accelerator for part in option.parts}) > 1:
        return " + ".join(
            f"{bought_words(part.machine, part.replica_layout)} {part.role}" for part in option.parts
        )
    said = " + ".join(f"{replica_words(part)} {part.role}" for part in option.parts)
    return f"{machine.num_accelerators} x {machine.accelerator}: {said}"


def replica_words(option: Option) -> str:
    """How many replicas of which layout: `4 x TP2`."""
    layout = option.replica_layout
    inner = degree_words(TP=layout.tensor_parallel, PP=layout.pipeline_parallel, DP=layout.data_parallel)
    return f"{layout.num_replicas} x {inner}" if inner else f"{layout.num_replicas}"


PER_HOUR: Final = OptionColumn("$/h>", per_hour)
PRICE: Final = OptionColumn("price~", lambda option: offer_words(option.offer))
JOB_USD: Final = OptionColumn("$ for all", lambda option: usd_range(option.job_usd))
TERM: Final = OptionColumn(
    "term?", lambda option: option.offer.term.replace("_", "-") if option.offer else MISSING
)
DEADLINE_COLUMNS: Final = (
    OptionColumn("take~", take_words),
    OptionColumn("hours>", lambda option: digits(option.batched.duration_s.value / HOUR_S)),
    PER_HOUR,
    JOB_USD,
    TERM,
    PRICE,
)
_ITEM_LATENCIES: Final = tuple(
    OptionColumn(f"{name}>", lambda option, name=name: show(option.of_items.latency_s[name].value, TIME))  # type: ignore[misc]
    for name in ("p50", "p99")
)
ITEM_RUNG_COLUMNS: Final = (
    OptionColumn("take~", split_words),
    PER_HOUR,
    OptionColumn("$/month>?", per_month),
    OptionColumn("$/1000>", lambda option: usd(option.of_items.usd_per_thousand_items.value)),
    *_ITEM_LATENCIES,
    PRICE,
)
