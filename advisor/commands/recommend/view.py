"""A recommendation as an answer: the option to take, its rivals, why not the others, and what would change it."""

from typing import Final

from advisor.catalog.units import GB
from advisor.commands.recommend.charts import layout, pareto_chart
from advisor.commands.recommend.report import (
    latency_table,
    lever_lines,
    limit_words,
    recommendation_sections,
    recommendation_tiles,
)
from advisor.commands.recommend.tables import (
    contexts_table,
    how_sure,
    ladder_table,
    options_table,
    rejected_tables,
    shown_rate,
    start_command,
    start_words,
)
from advisor.decide.purchase import bill_words
from advisor.decide.result import Option, Recommendation
from advisor.decide.scenario import Beside, Scenario
from advisor.render.answer import Answer, Block, Column, Figure, Paragraph, Table, bulleted, columns
from advisor.render.document import fields_of
from advisor.render.numbers import POWER, TIME, digits, percent, show, usd

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
    if found.contexts:
        blocks.append(contexts_table(found.contexts))
    blocks += [options_table(shown, scenario), Paragraph(how_sure(found, shown))]
    if not found.ladder or scenario.beside != Beside() or best.bill.commitment_usd:
        blocks.append(Paragraph(bill_words(best.bill)))
    blocks += [Paragraph(line) for line in limit_words(found.levers_tried)]
    gains = lever_lines(found.levers_tried, whole=explain)
    if gains:
        title = "What would make it cheaper or faster; --levers NAME takes what is cheaper"
        blocks.append(bulleted(title, gains if explain else gains[:2]))
    if explain:
        blocks += [pareto_chart(found.options), *_explanation(best)]
        blocks += rejected_tables(found.rejected)
        if found.what_would_change:
            blocks.append(bulleted("What would change this answer", found.what_would_change))
    blocks.append(Figure(start_command(best), title=start_words(best)))
    question = _question(scenario, found)
    blocks.append(Paragraph(question if explain else f"{question} --explain shows the rest."))
    return Answer(
        result=fields_of(found, *ENVELOPE_FIELDS),
        inputs=fields_of(scenario) | {"rate_per_s": shown_rate(scenario)},
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
    if scenario.ladder_clients:
        load = "clients as above"
    elif traffic.concurrency is not None:
        load = f"{traffic.concurrency} client{'s' if traffic.concurrency > 1 else ''}"
    elif traffic.rate_per_s is not None:
        load = f"{digits(traffic.rate_per_s)} requests/s"
    elif goals.budget_usd_per_hour is not None:
        load = f"the most that {usd(goals.budget_usd_per_hour)}/h buys"
    whose = " or ".join(_TENANCY[each] for each in limits.tenancies)
    talk = f", {traffic.conversations.mean_turns:g} turns a conversation" if traffic.conversations else ""
    return (
        f"Asked: {traffic.mean_input_tokens} tokens in, {traffic.mean_output_tokens} out ({traffic.profile}{talk}), "
        f"{goals.words}, {load}, planned with {percent(scenario.headroom_fraction)} headroom; "
        f"{', '.join(limits.terms)} prices of {whose} as of {scenario.as_of}. "
        f"{found.search.num_candidates} deployments considered, {found.search.num_simulated} simulated."
    )


def _explanation(option: Option) -> list[Block]:
    """One step of the first option, its memory, and its latencies with their ranges."""
    total_s = sum(option.step_breakdown.values())
    step = tuple(
        (_in_words(name), show(seconds, TIME), percent(seconds / total_s))
        for name, seconds in sorted(option.step_breakdown.items(), key=lambda item: -item[1])
        if total_s > 0
    )
    memory = tuple((_in_words(name), digits(size / GB)) for name, size in option.memory.items())
    right = columns("time> | share>")
    return [
        Table((Column("part of one step"), *right), step, title=f"Option 1: {layout(option)}"),
        Table(columns("memory of one accelerator | GB>"), memory),
        latency_table(option, "E2E"),
        Paragraph(_remarks(option)),
    ]


def _in_words(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _remarks(option: Option) -> str:
    """What the numbers leave out: quality, power, the age of the price, on what the prediction rests."""
    lines = [
        option.quality_note,
        f"Power {show(option.power_w, POWER)}, {digits(option.energy_j_per_token)} J per token.",
        f"Price read on {option.price_observed_on} ({option.price_age_days} days ago): {option.price_url}"
        if option.price_url
        else "",
        *option.basis_notes,
    ]
    return "\n".join(line for line in lines if line)
