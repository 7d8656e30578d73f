"""A recommendation as an answer: the option to take, its rivals, why not the others, and what would change it."""

from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog.units import GB
from advisor.commands.recommend.charts import layout, pareto_chart
from advisor.commands.recommend.rejected import rejected_tables
from advisor.commands.recommend.report import recommendation_sections, recommendation_tiles
from advisor.recommend.result import Comparison, Option, Recommendation
from advisor.recommend.scenario import Scenario
from advisor.render.answer import Answer, Block, Column, Figure, Paragraph, Table, bulleted, columns
from advisor.render.numbers import (
    LEGEND,
    MISSING,
    POWER,
    TIME,
    digits,
    percent,
    rung,
    show,
    show_quantity,
    usd,
    usd_quantity,
)
from advisor.render.serialize import fields_of
from advisor.simulator.quantity import Quantity

MAX_REJECTED: Final = 8
"""Reasons that the terminal lists without --explain; JSON has all."""
ENVELOPE_FIELDS: Final = ("warnings", "notes")


def recommendation_answer(
    found: Recommendation, scenario: Scenario, notes: tuple[str, ...], *, explain: bool
) -> Answer:
    """The whole answer; with explain also the arithmetic of the first option."""
    blocks: list[Block] = [Paragraph(found.headline, emphasis=True), _options_table(found.options)]
    if found.comparisons:
        blocks.append(Paragraph(_how_sure(found.comparisons)))
    blocks.append(pareto_chart(found.options))
    if explain and found.options:
        blocks += _explanation(found.options[0])
    blocks += rejected_tables(found.rejected, most=MAX_REJECTED, everything=explain)
    if found.what_would_change:
        blocks.append(bulleted("What would change this answer", found.what_would_change))
    if found.options:
        blocks.append(Figure(found.options[0].launch_command, title="Start it with"))
    question = _question(scenario, found)
    blocks.append(Paragraph(f"{question}\n{LEGEND}"))
    return Answer(
        result=fields_of(found, *ENVELOPE_FIELDS),
        inputs=fields_of(scenario),
        blocks=tuple(blocks),
        tiles=recommendation_tiles(found.options),
        sections=recommendation_sections(found, scenario),
        question=question,
        records="options",
        warnings=found.warnings,
        notes=tuple(dict.fromkeys((*notes, *found.notes))),
    )


def _question(scenario: Scenario, found: Recommendation) -> str:
    """What was asked, defaults included, and how much was looked at."""
    traffic, goals, limits = scenario.traffic, scenario.objectives, scenario.constraints
    load = "the highest load within them"
    if traffic.concurrency is not None:
        load = f"{traffic.concurrency} clients"
    elif traffic.rate_per_s is not None:
        load = f"{digits(traffic.rate_per_s)} requests/s"
    return (
        f"Asked: {traffic.mean_input_tokens} tokens in, {traffic.mean_output_tokens} out ({traffic.profile}), p99 TTFT "
        f"{show(goals.ttft_p99_s, TIME)}, p99 TPOT {show(goals.tpot_p99_s, TIME)}, {load}; "
        f"{', '.join(limits.terms)} prices as of {scenario.as_of}. "
        f"{found.search.num_candidates} deployments considered, {found.search.num_simulated} simulated."
    )


def _options_table(options: Sequence[Option]) -> Table:
    title = "Best options, one per accelerator; TTFT and TPOT are what 99 % of requests keep"
    return Table(
        columns("#> | deployment~ | engine~ | from~ | $/h> | $/M tokens~ | TTFT> | TPOT> | limit~"),
        tuple(_option_row(option) for option in options),
        title=title,
    )


def _how_sure(comparisons: Sequence[Comparison]) -> str:
    """How sure the first option is cheaper than each of the others, in one line."""
    chances = ", ".join(
        f"{100 * each.chance_first_is_cheaper:.0f} % than {each.rank}" for each in comparisons
    )
    return f"How sure option 1 is cheaper, errors in common cancelled: {chances}."


def _option_row(option: Option) -> tuple[str, ...]:
    return (
        str(option.rank),
        layout(option),
        f"{option.engine} {option.weight_dtype}",
        option.provider,
        usd(option.usd_per_hour),
        usd_quantity(option.usd_per_million_tokens),
        _p99(option.ttft_s),
        _p99(option.tpot_s),
        option.bottleneck + ("" if option.meets_slo else ", misses the SLO"),
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
    latencies = tuple(
        (f"{name} {statistic}", show_quantity(quantity, TIME))
        for name, times in (("TTFT", option.ttft_s), ("TPOT", option.tpot_s), ("E2E", option.e2e_s))
        for statistic, quantity in times.items()
    )
    right = columns("time> | share>")
    return [
        Table((Column("part of one step"), *right), step, title=f"Option 1: {layout(option)}"),
        Table(columns("memory of one accelerator | GB>"), memory),
        Table(columns("latency | with its range"), latencies),
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
