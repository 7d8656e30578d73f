"""A recommendation as an answer: the option to take, its rivals, why not the others, and what would change it."""

from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog.units import GB
from advisor.commands.recommend.charts import layout, pareto_chart
from advisor.commands.recommend.rejected import rejected_tables
from advisor.commands.recommend.report import (
    latency_table,
    lever_lines,
    recommendation_sections,
    recommendation_tiles,
)
from advisor.recommend.result import Option, Recommendation, Rung
from advisor.recommend.scenario import Scenario
from advisor.render.answer import Answer, Block, Column, Figure, Paragraph, Table, bulleted, columns
from advisor.render.document import fields_of
from advisor.render.numbers import (
    MISSING,
    POWER,
    TIME,
    bought_words,
    digits,
    percent,
    price_words,
    range_words,
    rung,
    runs_words,
    show,
    usd,
)
from advisor.simulator.quantity import Quantity

MAX_REJECTED: Final = 8
"""Reasons that the terminal lists without --explain; JSON has all."""
SHOWN_BESIDE_LADDER: Final = 3
"""Options of the last load of a ladder that the terminal lists; --explain and JSON have all."""
ENVELOPE_FIELDS: Final = ("warnings", "notes")


def recommendation_answer(
    found: Recommendation, scenario: Scenario, notes: tuple[str, ...], *, explain: bool
) -> Answer:
    """What to take and how sure it is; with explain also the arithmetic and every reason against."""
    best = found.options[0]
    blocks: list[Block] = [Paragraph(found.headline, emphasis=True)]
    shown = found.options if explain or not found.ladder else found.options[:SHOWN_BESIDE_LADDER]
    if found.ladder:
        blocks.append(ladder_table(found.ladder))
    blocks += [_options_table(shown, scenario), Paragraph(_how_sure(found, shown))]
    gains = lever_lines(found.levers_tried, whole=explain)
    if gains:
        title = "What would make it cheaper or faster, by --levers NAME"
        blocks.append(bulleted(title, gains if explain else gains[:2]))
    if explain:
        blocks += [pareto_chart(found.options), *_explanation(best)]
        blocks += rejected_tables(found.rejected, most=MAX_REJECTED, everything=True)
        blocks.append(bulleted("What would change this answer", found.what_would_change))
    blocks.append(Figure(best.launch_command, title=_start_words(best)))
    question = _question(scenario, found)
    blocks.append(Paragraph(question if explain else f"{question} --explain shows the rest."))
    return Answer(
        result=fields_of(found, *ENVELOPE_FIELDS),
        inputs=fields_of(scenario) | {"rate_per_s": _shown_rate(scenario)},
        blocks=tuple(blocks),
        tiles=recommendation_tiles(found.options),
        sections=recommendation_sections(found, scenario),
        question=question,
        records="options",
        warnings=found.warnings,
        notes=tuple(dict.fromkeys((*notes, *found.notes))),
    )


_TENANCY: Final = {"dedicated": "dedicated hardware", "shared": "shared hardware", "unknown": "others' hosts"}


def _question(scenario: Scenario, found: Recommendation) -> str:
    """What was asked, defaults included, and how much was looked at."""
    traffic, goals, limits = scenario.traffic, scenario.objectives, scenario.constraints
    load = "loads as above" if scenario.ladder_per_s else "the highest load within them"
    if traffic.concurrency is not None:
        load = f"{traffic.concurrency} clients"
    elif traffic.rate_per_s is not None:
        load = f"{digits(traffic.rate_per_s)} requests/s"
    elif goals.budget_usd_per_hour is not None:
        load = f"the most that {usd(goals.budget_usd_per_hour)}/h buys"
    whose = " or ".join(_TENANCY[each] for each in limits.tenancies)
    return (
        f"Asked: {traffic.mean_input_tokens} tokens in, {traffic.mean_output_tokens} out ({traffic.profile}), "
        f"{goals.words}, {load}, planned with {percent(scenario.headroom_fraction)} headroom; "
        f"{', '.join(limits.terms)} prices of {whose} as of {scenario.as_of}. "
        f"{found.search.num_candidates} deployments considered, {found.search.num_simulated} simulated."
    )


def _shown_rate(scenario: Scenario) -> float | None:
    """The load of the options that are shown [1/s]; None where it is not given."""
    return scenario.traffic.rate_per_s or (scenario.ladder_per_s[-1] if scenario.ladder_per_s else None)


def ladder_table(ladder: Sequence[Rung]) -> Table:
    """What to take for each of several loads."""
    rows = tuple(
        (
            f"{digits(rung.rate_per_s)}/s",
            *(
                (MISSING, "nothing carries it", *(MISSING,) * 6)
                if rung.pick is None
                else (
                    bought_words(rung.pick, rung.pick.accelerator, rung.pick.num_accelerators),
                    runs_words(rung.pick.engine, rung.pick.weight_dtype),
                    usd(rung.pick.usd_per_hour),
                    usd(rung.pick.usd_per_month),
                    usd(rung.pick.usd_per_million_tokens.value),
                    _p99(rung.pick.ttft_s),
                    _p99(rung.pick.tpot_s),
                    rung.pick.provider,
                )
            ),
        )
        for rung in ladder
    )
    header = columns("requests> | take~ | runs~? | $/h> | $/month>? | $/Mtok> | TTFT> | TPOT> | from~")
    return Table(header, rows, title="What to take for which load; 99 % of requests keep TTFT and TPOT")


def _options_table(options: Sequence[Option], scenario: Scenario) -> Table:
    """The options as rows; how much each carries where the load is not the same for all."""
    rate = _shown_rate(scenario)
    at, load = (f" at {digits(rate)} requests/s", "") if rate else ("", " | requests/s>")
    return Table(
        columns(f"#> | take~ | runs~ | $/h>{load} | $/Mtok~ | TTFT> | TPOT> | holds | price~ | basis?"),
        tuple(_option_row(option, rated=bool(rate)) for option in options),
        title=f"Best options{at}, one per accelerator, by expected cost",
    )


def _how_sure(found: Recommendation, shown: Sequence[Option]) -> str:
    """What the first option is, how sure it is cheaper than the others shown, and what is cheaper if it holds."""
    best, ranks = shown[0], {option.rank for option in shown}
    safe = next((option.rank for option in shown if option.role == "safe_pick"), None)
    lines = [f"{safe} is the safe pick" if safe else "none is safe to take: benchmark 1 first"]
    if best.role == "cheapest_if_it_holds":
        lines.append("1 is the cheapest if it holds")
    ties = [rank for rank in best.tie_with if rank in ranks]
    if ties:
        lines.append(f"a tie with {', '.join(map(str, ties))} (less than 75 % sure which is cheaper)")
    chances = [
        f"{100 * each.chance_first_is_cheaper:.0f} % sure it is cheaper than {each.rank}"
        for each in found.comparisons
        if each.rank in ranks.difference(ties) and each.chance_first_is_cheaper >= 0.5
    ]
    bold = next((each for each in shown if each.role == "cheapest_if_it_holds" and each is not best), None)
    if bold is not None:
        saved = 1.0 - bold.usd_per_million_tokens.value / best.usd_per_million_tokens.value
        chances.append(f"{bold.rank} saves {percent(saved)} if it holds: benchmark it first")
    return "; ".join((*lines, *chances[:3])) + "."


def _start_words(option: Option) -> str:
    first = option.checkpoint.origin
    if first == "quantise first":
        return (
            f"Nobody published {option.weight_dtype}: quantise {option.checkpoint.repository} first, then start each "
            "replica with"
        )
    look = "; look whether the checkpoint is there" if first == "pattern" else ""
    which = f"each of {option.num_replicas} replicas" if option.num_replicas > 1 else "it"
    return f"Start {which} with{look}"


def _option_row(option: Option, *, rated: bool) -> tuple[str, ...]:
    cost = option.usd_per_million_tokens
    load = () if rated else (digits(option.requests_per_s.value),)
    return (
        str(option.rank),
        bought_words(option, option.accelerator, option.num_accelerators),
        runs_words(option.engine, option.weight_dtype),
        usd(option.usd_per_hour),
        *load,
        f"{usd(cost.value)} {range_words(cost.low, cost.high)}",
        _p99(option.ttft_s),
        _p99(option.tpot_s),
        option.holds,
        price_words(option.provider, option.price.kind, option.price.tenancy, option.price.age_days),
        option.usd_per_million_tokens.basis,
    )


def _p99(times: Mapping[str, Quantity]) -> str:
    quantity = times.get("p99")
    if quantity is None:
        return MISSING
    factor, unit = rung(quantity.value, TIME)
    return f"{digits(quantity.value / factor, 2)} {unit}"


def _explanation(option: Option) -> list[Block]:
    """One step of the first option, its memory, and its latencies with their ranges."""
    total_s = sum(option.step_breakdown.values())
    step = tuple(
        (name, show(seconds, TIME), percent(seconds / total_s))
        for name, seconds in sorted(option.step_breakdown.items(), key=lambda item: -item[1])
        if total_s > 0
    )
    memory = tuple((name, digits(size / GB)) for name, size in option.memory.items())
    right = columns("time> | share>")
    return [
        Table((Column("part of one step"), *right), step, title=f"Option 1: {layout(option)}"),
        Table(columns("memory of one accelerator | GB>"), memory),
        latency_table(option, "E2E"),
        Paragraph(_remarks(option)),
    ]


def _remarks(option: Option) -> str:
    """What the numbers leave out: quality, power, the age of the price, on what the prediction rests."""
    lines = [
        option.quality_note,
        f"Power {show(option.power_w, POWER)}, {digits(option.energy_j_per_token)} J per token.",
        f"Price read on {option.price_observed_on} ({option.price_age_days} days ago): {option.price_url}",
        *option.basis_notes,
    ]
    return "\n".join(line for line in lines if line)
