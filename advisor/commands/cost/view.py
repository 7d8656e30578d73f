"""A report on cost as an answer: rows, the ways to get the tokens, ownership, what moves the result, carbon."""

from collections.abc import Sequence
from typing import Final

from advisor.catalog.units import MILLION
from advisor.commands.cost.charts import (
    by_load_chart,
    latency_chart,
    ownership_chart,
    split_chart,
    tornado_chart,
)
from advisor.decide.option import Option
from advisor.decide.ownership import Tco
from advisor.decide.purchase import bill_words
from advisor.economics.carbon import Footprint
from advisor.economics.question import CostQuestion
from advisor.economics.result import CostReport, CostRow, LoadPoint, Way
from advisor.economics.words import leading_ways
from advisor.render.answer import Answer, Block, Paragraph, Section, Table, Tile, bullet_list, columns
from advisor.render.certainty_words import how_sure
from advisor.render.document import fields_of
from advisor.render.numbers import (
    MISSING,
    POWER,
    TIME,
    client_words,
    digits,
    percent,
    price_words,
    range_words,
    show,
    term_words,
    usd,
    words_of,
)
from advisor.render.option_table import not_among, offer_words, planned_words, runs_of, take_words

MAX_WAYS: Final = 12
MAX_PROVIDERS: Final = 4
"""Offers of other providers that the terminal lists; a page and JSON have all."""
_LEAST_SAVED: Final = 0.005
_NOT_IN_RESULT: Final = ("warnings", "notes")


def cost_answer(report: CostReport, question: CostQuestion, notes: tuple[str, ...]) -> Answer:
    """Return the cost report as an answer."""
    ways = _ways_table(report.ways, question, limit=MAX_WAYS)
    method = Paragraph(f"How a bill is divided: {report.method}")
    asked = Paragraph(_question(report, question))
    counts = report.counts
    counted = Paragraph(
        f"{counts.num_candidates} deployments considered, {counts.num_simulated} simulated. Ranges are 80 % intervals."
    )
    crossings = _crossings(report)
    row = report.rows[0]
    bill = Paragraph(bill_words(row.option.bill, take_words(row.option)))
    scenario = question.scenario
    return Answer(
        result=fields_of(report, *_NOT_IN_RESULT),
        inputs=fields_of(scenario, "calibration")
        | fields_of(question, "scenario")
        | {"mean_requests_per_s": question.mean_rate_per_s},
        blocks=(
            Paragraph(report.headline, emphasis=True),
            asked,
            _rows_table(report.rows),
            _sure(report),
            *_terms(report.rows, question),
            *not_among(report.rejected, report.not_taken, scenario.constraints.accelerators),
            bill,
            *_providers_blocks(row, limit=MAX_PROVIDERS),
            ways,
            crossings,
            *_ownership_blocks(report),
            tornado_chart(report.sensitivity, "What moves the cost of a rented token"),
            *_carbon_blocks(report.carbon),
            method,
            counted,
        ),
        tiles=_tiles(report),
        sections=_sections(report, question, asked, (bill, method, counted)),
        records="rows",
        warnings=report.warnings,
        notes=tuple(dict.fromkeys((*notes, *report.notes))),
    )


def _sections(
    report: CostReport, question: CostQuestion, asked: Block, end: tuple[Block, ...]
) -> tuple[Section, ...]:
    """Return the sections of a page, with all offers and all charts."""
    ways = _ways_table(report.ways, question, limit=len(report.ways))
    first = report.rows[0]
    parts = [
        Section(
            "Cost per token",
            (
                Paragraph(report.headline, emphasis=True),
                asked,
                _rows_table(report.rows),
                _sure(report),
                *_terms(report.rows, question),
                *_providers_blocks(first, limit=len(first.providers)),
                latency_chart(report.rows),
            ),
        ),
        Section("What a bill pays for", (split_chart(report.rows), *end[:2])),
        Section("Rent, own or an API", (ways, _crossings(report), by_load_chart(report))),
        Section("Used less than fully", (_load_table(report.load),)),
    ]
    if report.owned:
        parts.append(Section("Owning", tuple(_ownership_blocks(report))))
    rented = tornado_chart(report.sensitivity, "What moves the cost of a rented token")
    parts.append(Section("What moves a rented token", (rented,)))
    parts.append(Section("Energy and carbon", (*_carbon_blocks(report.carbon), *end[2:])))
    return tuple(parts)


def _tiles(report: CostReport) -> tuple[Tile, ...]:
    row = report.rows[0]
    seller = row.option.offer.source_words if row.option.offer else "own"
    tiles = [
        Tile(
            _cost(row.usd_per_million_input_tokens.value),
            "per million prompt tokens",
            row.option.machine.accelerator,
        ),
        Tile(_cost(row.usd_per_million_cached_tokens.value), "per million cached tokens", seller),
        Tile(_cost(row.usd_per_million_output_tokens.value), "per million output tokens", row.priced_on),
    ]
    if report.api:
        api = report.api[0]
        tiles.append(Tile(_cost(api.usd_per_million_tokens), "per million through an API", api.provider))
    if owned := leading_ways(report.ways).get("own"):
        tiles.append(Tile(_cost(owned.usd_per_million_tokens), "per million owned", owned.what))
    return tuple(tiles)


def _question(report: CostReport, question: CostQuestion) -> str:
    """Return the question as it was understood, defaults included."""
    scenario = question.scenario
    traffic = scenario.traffic
    goals = scenario.objectives
    limits = scenario.constraints
    load = "what full units carry"
    if traffic.concurrency is not None:
        load = client_words(traffic.concurrency)
    elif question.mean_rate_per_s is not None:
        load = (
            f"{digits(report.volume['tokens_per_day'] / MILLION)} million tokens a day ({question.shape.id}, "
            f"{digits(report.volume['mean_requests_per_s'])} requests/s, at most "
            f"{digits(report.volume['peak_requests_per_s'])})"
        )
    elif goals.budget_usd_per_hour is not None:
        load = f"the most that {usd(goals.budget_usd_per_hour)}/h buys"
    names = scenario.levers
    levers = "" if names == ("auto",) else f", levers {', '.join(names)}"
    return (
        f"Asked: {traffic.mean_input_tokens} tokens in, {traffic.mean_output_tokens} out ({traffic.profile}), "
        f"{goals.words}, {load}, {planned_words(scenario)}; "
        f"{term_words(*limits.terms)} prices as of {scenario.as_of} in {report.currency}{levers}."
    )


def _rows_table(rows: Sequence[CostRow]) -> Table:
    return Table(
        columns(
            "#> | take~ | runs~? | $/h> | prompt> | cached>? | output> | all~ | load>? | holds | price~ | basis!"
        ),
        tuple(_row(row) for row in rows),
        "USD per million tokens",
        tuple(_row_details(row) for row in rows),
    )


def _sure(report: CostReport) -> Paragraph:
    """Return how sure the order of the rows is, as `recommend` says it."""
    options = [row.option for row in report.rows]
    return Paragraph(how_sure(options, report.safe_pick, report.comparisons))


def _terms(rows: Sequence[CostRow], question: CostQuestion) -> list[Block]:
    """Return the term of each row with what it commits to, where the question allows several; and terms of no row."""
    allowed = question.scenario.constraints.terms
    if len(allowed) < 2:
        return []
    of_term: dict[str, list[str]] = {}
    for row in rows:
        option = row.option
        if option.offer is not None:
            owed = option.bill.commitment_usd
            said = f"{option.rank} ({usd(owed)} owed, used or not)" if owed else str(option.rank)
            of_term.setdefault(option.offer.term, []).append(said)
    words = [f"{term_words(term)}: {', '.join(ranks)}" for term, ranks in of_term.items()]
    lacking = [term_words(term) for term in allowed if term not in of_term]
    none = f"; no option is {' or '.join(lacking)}" if lacking else ""
    return [Paragraph(f"Terms of the options: {'; '.join(words)}{none}.")]


def _row(row: CostRow) -> tuple[str, ...]:
    option = row.option
    cost = row.usd_per_million_tokens
    return (
        str(option.rank),
        take_words(option),
        runs_of(option),
        usd(option.bill.usd_per_hour),
        _cost(row.usd_per_million_input_tokens.value),
        _cost(row.usd_per_million_cached_tokens.value),
        _cost(row.usd_per_million_output_tokens.value),
        f"{_cost(cost.value)} {range_words(cost.low, cost.high)}",
        percent(row.load_fraction),
        option.served.holds,
        offer_words(option.offer),
        cost.basis,
    )


def _cost(usd_per_million: float) -> str:
    return f"${digits(usd_per_million)}"


def _row_details(row: CostRow) -> tuple[Block, ...]:
    share = ", ".join(f"{words_of(name)} {percent(part)}" for name, part in row.share.items())
    return (Paragraph(f"The bill pays for {share}."), Paragraph(_sku(row.option)))


def _sku(option: Option) -> str:
    offer = option.offer
    if offer is None:
        return "Hardware of one's own."
    return f"SKU {offer.sku} in {offer.region or 'no named region'}: {offer.url or 'no address'}"


def _providers_blocks(row: CostRow, *, limit: int) -> list[Block]:
    """Return what other providers and terms ask for the deployment of a row."""
    if not row.providers:
        return []
    title = f"{take_words(row.option)} from other providers"
    if len(row.providers) > limit:
        title += f": the cheapest {limit} of {len(row.providers)}"
    rows = tuple(
        (
            price_words(each),
            str(each.num_accelerators),
            usd(each.usd_per_hour),
            _cost(each.usd_per_million_tokens),
        )
        for each in row.providers[:limit]
    )
    return [Table(columns("price~ | accelerators> | $/h> | $/M tokens>"), rows, title)]


def _ways_table(ways: Sequence[Way], question: CostQuestion, *, limit: int) -> Table:
    given = question.mean_rate_per_s is not None
    title = "The same tokens by every way" if given else "Each deployment at its planned load, and APIs"
    shown = list(ways[:limit])
    if len(ways) > limit:
        title += f": the cheapest {limit} of {len(ways)}"
        first_of_kind = {way.way: way for way in reversed(ways)}
        told = [*leading_ways(ways).values(), *first_of_kind.values()] if given else []
        further = [way for way in ways if way in told and way not in shown]
        if further:
            title += ", those of the first line and the cheapest to rent, own and call"
        shown += further
    rows = tuple(
        (
            way.way,
            way.what,
            usd(way.usd_per_month),
            _cost(way.usd_per_million_tokens),
            percent(way.utilisation_fraction),
            way.price_observed_on,
            way.note,
        )
        for way in shown
    )
    return Table(columns("way | what~ | $/month> | $/M tokens> | used> | price of | how~"), rows, title)


def _crossings(report: CostReport) -> Paragraph:
    lines = [crossing.sentence for crossing in report.break_even]
    return bullet_list("Break-even points", lines) if lines else Paragraph("No API to compare with.")


def _ownership_blocks(report: CostReport) -> list[Block]:
    if report.tco is None:
        return []
    limits: list[Block] = [_power_table(report), _best_limit(report)] if report.power_limits else []
    return [
        _tco_table(report.tco),
        *limits,
        ownership_chart(report.tco),
        tornado_chart(report.owned_sensitivity, "What moves the cost of an owned token"),
    ]


def _tco_table(cost: Tco) -> Table:
    months = cost.total_usd / cost.usd_per_month
    rows = tuple(
        (line.name, f"{line.usd:,.2f}", f"{line.usd / months:,.2f}", line.basis, line.observed_on.isoformat())
        for line in cost.lines
    )
    total = ("total", f"{cost.total_usd:,.2f}", f"{cost.usd_per_month:,.2f}", "", "")
    details = (*((Paragraph(line.source),) for line in cost.lines), ())
    title = f"Owning {cost.num_accelerators} x {cost.accelerator} for {cost.life_years:g} years"
    return Table(columns("part | USD> | $/month> | basis | read on"), (*rows, total), title, details)


def _power_table(report: CostReport) -> Table:
    rows = tuple(
        (
            show(point.limit_w, POWER),
            digits(point.output_tokens_per_s),
            digits(point.output_tokens_per_joule),
            str(point.num_accelerators),
            _cost(point.usd_per_million_tokens),
        )
        for point in report.power_limits
    )
    name = report.owned[0].option.machine.accelerator
    measured = report.power_limits[0].basis == "measured"
    basis = "each limit that was measured" if measured else "power limits, rates by the cube root of power"
    return Table(
        columns("limit> | tokens/s> | tokens/J> | accelerators> | $/M tokens>"),
        rows,
        f"{name} of one's own under {basis}, with the electricity of the region",
    )


def _best_limit(report: CostReport) -> Paragraph:
    """Return a paragraph on the power limit with the cheapest token: its saving, and how much slower boards get."""
    best = min(report.power_limits, key=lambda each: each.usd_per_million_tokens)
    full = report.power_limits[-1]
    saved = 1.0 - best.usd_per_million_tokens / full.usd_per_million_tokens
    if best is full or saved < _LEAST_SAVED:
        return Paragraph("No limit makes a token clearly cheaper than full power does.")
    less_w = full.num_accelerators * full.limit_w - best.num_accelerators * best.limit_w
    return Paragraph(
        f"At {show(best.limit_w, POWER)} a token costs {percent(saved)} less, a replica carries "
        f"{percent(1.0 - best.output_tokens_per_s / full.output_tokens_per_s)} less, and {show(less_w, POWER)} less is "
        "drawn at most: boards that draw less than the limit anyway save less."
    )


def _load_table(points: Sequence[LoadPoint]) -> Table:
    rows = tuple(
        (
            percent(point.load_fraction),
            _cost(point.usd_per_million_tokens),
            _cost(point.usd_per_million_input_tokens),
            _cost(point.usd_per_million_output_tokens),
            digits(point.mean_batch),
            show(point.ttft_p99_s, TIME),
            show(point.tpot_p99_s, TIME) if point.tpot_p99_s is not None else MISSING,
        )
        for point in points
    )
    return Table(
        columns("load> | $/M tokens> | prompt> | output> | batch> | TTFT p99> | TPOT p99>"),
        rows,
        "The first option, simulated at parts of its highest load",
    )


def _carbon_blocks(footprints: Sequence[Footprint]) -> list[Block]:
    if not footprints:
        return [Paragraph("Energy is not known: no source states the power of this accelerator.")]
    rows = tuple(
        (
            place.region_name,
            digits(1000.0 * place.kg_co2e_per_kwh),
            digits(place.kwh_per_million_tokens),
            digits(1000.0 * place.kg_co2e_per_million_tokens),
            digits(place.kg_co2e_per_month),
            str(place.carbon_year),
        )
        for place in footprints
    )
    details = tuple((Paragraph(place.carbon_source),) for place in footprints)
    header = columns("region | g CO2e/kWh> | kWh/M tokens> | g CO2e/M tokens> | kg CO2e/month> | grid of>")
    return [Table(header, rows, "Energy and carbon of the first option, by grid", details)]
