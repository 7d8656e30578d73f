"""Charts of a report on cost: cost by latency and load, shares of a bill, parts of owning, and sensitivities."""

from collections.abc import Sequence

from advisor.catalog.units import HOURS_PER_DAY, MILLION, MILLISECOND_S
from advisor.decide.ownership import Tco
from advisor.economics.result import CostReport, CostRow
from advisor.economics.sensitivity import Swing
from advisor.render.answer import Axis, Chart, Datum, Reference, Series
from advisor.render.numbers import words_of

_COST = "USD per million tokens"
_PARTS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
"""Parts of its capacity at which a deployment that is paid all day is drawn."""
_NUM_APIS = 3
_NUM_SPLITS = 8


def latency_chart(rows: Sequence[CostRow]) -> Chart:
    """Return cost against the time per output token that 99 % of requests keep; the front is joined."""
    times = [(row.option.served.tpot_s.get("p99"), row) for row in rows]
    points = [(tpot.value, row) for tpot, row in times if tpot is not None]
    front: list[tuple[float, CostRow]] = []
    for tpot, row in sorted(points, key=lambda pair: (pair[0], pair[1].usd_per_million_tokens.value)):
        if not front or row.usd_per_million_tokens.value < front[-1][1].usd_per_million_tokens.value:
            front.append((tpot, row))
    rest = [pair for pair in points if pair not in front]
    return Chart(
        "scatter",
        "Cost against latency",
        Axis("TPOT p99", "ms", "left is faster"),
        Axis("cost", _COST, "down is cheaper", is_log=True),
        (
            Series("best", tuple(_latency_point(*pair) for pair in front), is_joined=True),
            Series("others", tuple(_latency_point(*pair) for pair in rest)),
        ),
        "Each point is an option; those on the line are beaten in neither cost nor latency.",
        is_in_terminal=False,
    )


def _latency_point(tpot_s: float, row: CostRow) -> Datum:
    cost = row.usd_per_million_tokens
    label = f"{row.deal}, {row.option.replica_layout.weight_dtype}"
    return Datum(tpot_s / MILLISECOND_S, cost.value, cost.low, cost.high, label)


def by_load_chart(report: CostReport) -> Chart:
    """Return the chart of cost per token by tokens a day: deployments paid all day fall, list prices stay."""
    row = report.rows[0]
    series = [_paid_all_day(f"renting {row.deal}", row)]
    if report.owned:
        series.append(_paid_all_day(f"owning {report.owned[0].deal}", report.owned[0]))
    lines = tuple(
        Reference("y", api.usd_per_million_tokens, f"{api.provider} API") for api in report.api[:_NUM_APIS]
    )
    return Chart(
        "line",
        "Cost per token against load",
        Axis("tokens a day", "million", is_log=True),
        Axis("cost", _COST, is_log=True),
        tuple(series),
        "A deployment that is paid all day costs less per token the more it serves; where it crosses a horizontal "
        "line it is as cheap as that API.",
        references=lines,
        is_in_terminal=False,
    )


def _paid_all_day(name: str, row: CostRow) -> Series:
    full = row.tokens_per_day / row.load_fraction
    usd_per_day = row.usd_per_hour * HOURS_PER_DAY
    points = (Datum(part * full / MILLION, usd_per_day / (part * full) * MILLION) for part in _PARTS)
    return Series(name, tuple(points))


def split_chart(rows: Sequence[CostRow]) -> Chart:
    """Return the shares of the bill by what is used, for each option."""
    chosen = rows[:_NUM_SPLITS]
    names = list(chosen[0].share)
    series = tuple(
        Series(
            words_of(name),
            tuple(
                Datum(row.option.machine.accelerator, row.share[name] * row.usd_per_million_tokens.value)
                for row in chosen
            ),
        )
        for name in names
        if any(row.share[name] > 0 for row in chosen)
    )
    return Chart(
        "stacked",
        "What a million tokens pays for",
        Axis("accelerator"),
        Axis("cost", _COST),
        series,
        "The cost of a mean token of the mix, divided by what it is used for.",
        is_in_terminal=False,
    )


def ownership_chart(cost: Tco) -> Chart:
    """Return the chart of the parts of owning, which add up to its total."""
    return Chart(
        "waterfall",
        f"Owning {cost.num_accelerators} x {cost.accelerator} for {cost.life_years:g} years",
        Axis("part"),
        Axis("cost", "USD"),
        (Series("cost", tuple(Datum(line.name, line.usd, label=line.source) for line in cost.lines)),),
        "Purchase less resale, interest, energy, space and staff over the life.",
        is_in_terminal=False,
    )


def tornado_chart(swings: Sequence[Swing], title: str) -> Chart:
    """Return the chart of how far each assumption moves the cost of a token, widest first."""
    points = tuple(
        Datum(
            words_of(swing.parameter),
            swing.base_usd_per_million,
            min(swing.usd_per_million_at_low, swing.usd_per_million_at_high),
            max(swing.usd_per_million_at_low, swing.usd_per_million_at_high),
            f"{swing.low:.4g} to {swing.high:.4g} {swing.unit}: {swing.source}",
        )
        for swing in swings
    )
    return Chart(
        "range",
        title,
        Axis("assumption"),
        Axis("USD per million tokens"),
        (Series("cost", points),),
        "Each bar is the cost of a token when one assumption goes to its ends and the others stay.",
    )
