"""Columns of tables of options: one list for serving, one for batches and one for images, texts and audio."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.units import HOUR_S
from advisor.decide.decision import NotTaken, Rejected, Rung
from advisor.decide.option import Offer, Option
from advisor.decide.scenario import Scenario, ServiceLevel
from advisor.render.answer import Block, Table, bullet_list, columns
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
    """Column of a table of options: its header with its marks, and the function that fills it."""

    header: str
    """Header in the notation of `answer.columns`."""
    cell: Callable[[Option], str]


def table_of(
    options: Sequence[Option],
    chosen: Sequence[OptionColumn],
    title: str,
    details: Sequence[Sequence[Block]] = (),
) -> Table:
    """Return a table with one row per option; a page unfolds its details."""
    return Table(
        columns(*(column.header for column in chosen)),
        tuple(tuple(column.cell(option) for column in chosen) for option in options),
        title=title,
        details=tuple(tuple(blocks) for blocks in details),
    )


def cells_of(option: Option | None, chosen: Sequence[OptionColumn], why: str) -> tuple[str, ...]:
    """Return the cells of an option, which follow that of its load; without an option, the first cell says why."""
    if option is None:
        return (why, *(MISSING,) * (len(chosen) - 1))
    return tuple(column.cell(option) for column in chosen)


def rungs_table(
    rungs: Sequence[Rung],
    header: str,
    demand_words: Callable[[Rung], str],
    chosen: Sequence[OptionColumn],
    title: str,
) -> Table:
    """Return a table of the best option for each demand of a ladder, or of the reason why there is none."""
    rows = ((demand_words(rung), *cells_of(rung.option, chosen, str(rung.reason))) for rung in rungs)
    return Table(columns(header, *(column.header for column in chosen)), tuple(rows), title=title)


def serving_columns(levels: Sequence[ServiceLevel], *, shows_rate: bool) -> tuple[OptionColumn, ...]:
    """Return the columns for options of one load; `shows_rate` adds the rate if their loads differ."""
    runs = OptionColumn("runs~?" if shows_rate else "runs~", runs_of)
    rate = OptionColumn("req/s>", lambda option: digits(option.served.requests_per_s.value))
    return (
        RANK,
        TAKE,
        runs,
        PER_HOUR,
        *((rate,) if shows_rate else ()),
        OptionColumn("$/Mtok~", lambda option: usd_range(option.served.usd_per_million_tokens)),
        *latency_columns(levels),
        OptionColumn("holds", lambda option: option.served.holds),
        PRICE,
        OptionColumn("basis!", lambda option: option.served.basis),
    )


def ladder_columns(levels: Sequence[ServiceLevel]) -> tuple[OptionColumn, ...]:
    """Return the columns for the first option of each of several loads."""
    return (
        TAKE,
        OptionColumn("runs~?", runs_of),
        PER_HOUR,
        OptionColumn("$/month>?", per_month),
        OptionColumn("$/Mtok>", lambda option: usd(option.served.usd_per_million_tokens.value)),
        *latency_columns(levels),
        PRICE,
    )


def job_columns() -> tuple[OptionColumn, ...]:
    """Return the columns for options that complete a batch of requests."""
    return (
        RANK,
        TAKE,
        OptionColumn("weights?", lambda option: option.replica_layout.weight_dtype),
        OptionColumn("hours", _hours_range),
        OptionColumn("in time", lambda option: option.batched.holds),
        PER_HOUR,
        JOB_USD,
        OptionColumn("$/Mtok>?", lambda option: digits(option.batched.usd_per_million_tokens.value, 2)),
        PRICE,
        OptionColumn("basis!", lambda option: option.batched.basis),
    )


def _hours_range(option: Option) -> str:
    hours = option.batched.duration_s.scale(1.0 / HOUR_S)
    return f"{digits(hours.value)} {range_words(hours.low, hours.high)}"


def item_columns(unit: str) -> tuple[OptionColumn, ...]:
    """Return the columns for fleets that process images, texts or audio."""
    return (
        RANK,
        OptionColumn("take~", split_words),
        OptionColumn("batch>?", lambda option: str(option.replica_layout.max_num_seqs)),
        *_ITEM_LATENCIES,
        OptionColumn("holds", lambda option: option.of_items.holds),
        OptionColumn("busy>?", lambda option: percent(option.of_items.utilization_fraction)),
        PER_HOUR,
        OptionColumn(f"$/1000 {unit}s~", lambda option: usd_range(option.of_items.usd_per_thousand_items)),
        PRICE,
        OptionColumn("basis!", lambda option: option.of_items.basis),
    )


def split_words(option: Option) -> str:
    """Return the purchase, and how batches are split over the accelerators of a replica."""
    split = option.levers.get("split")
    machine = option.machine
    how = f" ({option.replica_layout.num_replicas} x {split})" if split else ""
    return f"{machine.num_accelerators} x {machine.accelerator}{how}"


def latency_columns(levels: Sequence[ServiceLevel]) -> tuple[OptionColumn, ...]:
    """Return a column for each objective of the question, at its own percentile."""
    return tuple(OptionColumn(f"{level_words(level)}>", latency_cell(level)) for level in levels)


def level_words(level: ServiceLevel) -> str:
    """Return the header of an objective: the metric, and its percentile unless that is the 99th."""
    name = _METRICS[level.metric]
    return name if level.percent == 99 else f"{name} p{level.percent:g}"


def latency_cell(level: ServiceLevel) -> Callable[[Option], str]:
    """Return the function that fills the column of an objective."""
    name = f"p{level.percent:g}"

    def cell(option: Option) -> str:
        times: Mapping[str, Quantity] = getattr(option.served, f"{level.metric}_s")
        return time_words(times.get(name))

    return cell


def time_words(quantity: Quantity | None) -> str:
    """Return a time with two digits; a dash for None."""
    if quantity is None:
        return MISSING
    factor, unit = rung(quantity.value, TIME)
    return f"{digits(quantity.value / factor, 2)} {unit}"


def runs_of(option: Option) -> str:
    """Return engine and weight format of an option, short."""
    return runs_words(option.replica_layout.engine, option.replica_layout.weight_dtype)


def per_hour(option: Option) -> str:
    """Return the cost of an option per hour, as far as it is known."""
    return usd(option.bill.usd_per_hour)


def per_month(option: Option) -> str:
    """Return the cost of an option per month, as far as it is known."""
    return usd(option.bill.usd_per_month)


def offer_words(offer: Offer | None) -> str:
    """Return provider, place, term, kind and age of a price; `own` for hardware that the user has."""
    return "own" if offer is None else price_words(offer)


def take_words(option: Option) -> str:
    """Return the purchase of an option, pool by pool if its pools differ: `4 x mi300x: 3 prefill + 1 decode`."""
    machine = option.machine
    if not option.parts:
        limit = f" at {machine.power_limit_w:.0f} W" if machine.power_limit_w else ""
        return f"{bought_words(machine, option.replica_layout)}{limit}"
    if len({part.machine.accelerator for part in option.parts}) > 1:
        return " + ".join(
            bought_words(part.machine, part.replica_layout) + ("" if part.role == "kind" else f" {part.role}")
            for part in option.parts
        )
    said = " + ".join(f"{replica_words(part)} {part.role}" for part in option.parts)
    return f"{machine.num_accelerators} x {machine.accelerator}: {said}"


def replica_words(option: Option) -> str:
    """Return number and layout of replicas: `4 x TP2`."""
    layout = option.replica_layout
    inner = degree_words(TP=layout.tensor_parallel, PP=layout.pipeline_parallel, DP=layout.data_parallel)
    return f"{layout.num_replicas} x {inner}" if inner else f"{layout.num_replicas}"


RANK: Final = OptionColumn("#>", lambda option: str(option.rank))
TAKE: Final = OptionColumn("take~", take_words)
PER_HOUR: Final = OptionColumn("$/h>", per_hour)
PRICE: Final = OptionColumn("price~", lambda option: offer_words(option.offer))
JOB_USD: Final = OptionColumn("$ for all", lambda option: usd_range(option.job_usd))
DEADLINE_COLUMNS: Final = (
    TAKE,
    OptionColumn("hours>", lambda option: digits(option.batched.duration_s.value / HOUR_S)),
    PER_HOUR,
    JOB_USD,
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


def beside_words(option: Option) -> str:
    """Return the words for an option that is not among those that are shown."""
    cost = f"{usd(option.bill.usd_per_hour)}/h, {usd(option.served.usd_per_million_tokens.value)} per million tokens"
    source = f"from {offer_words(option.offer)} " if option.offer else ""
    return f"{take_words(option)} with {runs_of(option)} {source}({cost})"


def not_among(
    rejected: Sequence[Rejected], not_taken: Sequence[NotTaken], named: Sequence[str] | None
) -> list[Block]:
    """Return what the question names and no option has, a line each with its reason; without `named` accelerators every
    accelerator that is not an option."""
    lines = [
        f"{each.accelerator}: {each.reason}"
        for each in rejected
        if named is None or each.accelerator in named
    ]
    lines += [f"{each.option} {each.name}: {each.reason}" for each in not_taken]
    return [bullet_list("Not among the options", lines)] if lines else []


def planned_words(scenario: Scenario) -> str:
    """Return what is planned beyond the load: the headroom and, with n+1, a spare replica."""
    spare = " and a spare replica (n+1)" if scenario.redundancy == "n+1" else ""
    return f"planned with {percent(scenario.headroom_fraction)} headroom{spare}"
