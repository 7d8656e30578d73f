"""A recommendation as an answer: the option to take, its rivals, why not the others, and what would change it."""

from typing import Final

from advisor.catalog.units import GB
from advisor.commands.recommend.charts import layout, pareto_chart
from advisor.commands.recommend.nodes import draw_replica_nodes
from advisor.commands.recommend.report import (
    latency_table,
    lever_lines,
    limit_words,
    recommendation_sections,
    recommendation_tiles,
)
from advisor.commands.recommend.tables import (
    contexts_table,
    ladder_table,
    options_table,
    rejected_tables,
    shown_rate,
    start_command,
    start_words,
)
from advisor.decide.decision import Decision
from advisor.decide.option import Option
from advisor.decide.purchase import bill_words
from advisor.decide.scenario import ExtraItems, Scenario
from advisor.render.answer import Answer, Block, Column, Figure, Paragraph, Table, bullet_list, columns
from advisor.render.certainty_words import how_sure
from advisor.render.document import fields_of
from advisor.render.numbers import (
    JOULES_PER_TOKEN,
    POWER,
    TIME,
    client_words,
    digits,
    percent,
    show,
    show_quantity,
    term_words,
    usd,
    words_of,
)
from advisor.render.option_table import not_among, planned_words

SHOWN_BESIDE_LADDER: Final = 3
"""Options of the last load of a ladder that the terminal lists; --explain and JSON have all."""
ENVELOPE_FIELDS: Final = ("warnings", "notes")


def recommendation_answer(
    found: Decision, scenario: Scenario, notes: tuple[str, ...], *, explain: bool
) -> Answer:
    """Return the options and their certainty; with `explain` also the arithmetic and every reason for a rejection."""
    best = found.options[0]
    asked = _question(scenario, found)
    counted = f"{found.counts.num_candidates} deployments considered, {found.counts.num_simulated} simulated."
    blocks: list[Block] = [Paragraph(found.headline, emphasis=True), Paragraph(asked)]
    shown = found.options if explain or not found.ladder else found.options[:SHOWN_BESIDE_LADDER]
    if found.ladder:
        blocks.append(ladder_table(found.ladder, scenario.objectives))
    if found.contexts:
        blocks.append(contexts_table(found.contexts))
    blocks += [options_table(shown, scenario), Paragraph(how_sure(shown, found.safe_pick, found.comparisons))]
    if not found.ladder or scenario.beside != ExtraItems() or best.bill.commitment_usd:
        blocks.append(Paragraph(bill_words(best.bill)))
    blocks += [Paragraph(line) for line in limit_words(found.changes)]
    gains = lever_lines(found.changes, whole=explain)
    if gains:
        title = "What would make it cheaper or faster; --levers NAME takes what is cheaper"
        blocks.append(bullet_list(title, gains if explain else gains[:2]))
    if explain:
        blocks += [pareto_chart(found.options), *_explanation(best)]
        blocks += rejected_tables(found.rejected)
        if found.what_would_change:
            blocks.append(bullet_list("What would change this answer", found.what_would_change))
    named = () if explain else scenario.constraints.accelerators  # the table of the explanation has all
    blocks += not_among(found.rejected, found.not_taken, named)
    blocks.append(Figure(start_command(best), title=start_words(best)))
    blocks.append(Paragraph(counted if explain else f"{counted} --explain shows the rest."))
    return Answer(
        result=fields_of(found, *ENVELOPE_FIELDS),
        inputs=fields_of(scenario) | {"rate_per_s": shown_rate(scenario)},
        blocks=tuple(blocks),
        tiles=recommendation_tiles(found.options, scenario.objectives),
        sections=recommendation_sections(found, scenario),
        question=f"{asked} {counted}",
        records="options",
        warnings=found.warnings,
        notes=tuple(dict.fromkeys((*notes, *found.notes))),
        svg=draw_replica_nodes(best),
    )


_TENANCY: Final = {"dedicated": "dedicated hardware", "shared": "shared hardware", "unknown": "others' hosts"}


def _question(scenario: Scenario, found: Decision) -> str:
    """Return the question as it was understood, defaults included."""
    traffic = scenario.traffic
    goals = scenario.objectives
    limits = scenario.constraints
    load = "loads as below" if scenario.ladder_per_s else "the highest load of equal replicas within them"
    if scenario.ladder_clients:
        load = "clients as below"
    elif traffic.concurrency is not None:
        load = client_words(traffic.concurrency)
    elif traffic.rate_per_s is not None:
        load = f"{digits(traffic.rate_per_s)} requests/s"
    elif goals.budget_usd_per_hour is not None:
        load = f"the most that {usd(goals.budget_usd_per_hour)}/h buys"
    whose = " or ".join(_TENANCY[each] for each in limits.tenancies)
    talk = f", {traffic.conversations.mean_turns:g} turns a conversation" if traffic.conversations else ""
    is_typed = traffic.profile == "custom" and traffic.conversations is None
    lengths = traffic.source if is_typed else traffic.profile
    return (
        f"Asked: {traffic.mean_input_tokens} tokens in, {traffic.mean_output_tokens} out ({lengths}{talk}), "
        f"{goals.words}, {load}, {planned_words(scenario)}; "
        f"{term_words(*limits.terms)} prices of {whose} as of {scenario.as_of}."
    )


def _explanation(option: Option) -> list[Block]:
    """Return one step of the first option, its memory, and its latencies with their ranges."""
    why = option.explained
    total_s = sum(why.step_s.values())
    step = tuple(
        (_in_words(name), show(seconds, TIME), percent(seconds / total_s))
        for name, seconds in sorted(why.step_s.items(), key=lambda item: -item[1])
        if total_s > 0
    )
    memory = tuple((_in_words(name), digits(size / GB)) for name, size in why.memory_bytes.items())
    right = columns("time> | share>")
    return [
        Table((Column("part of one step"), *right), step, title=f"Option 1: {layout(option)}"),
        Table(columns("memory of one accelerator | GB>"), memory),
        latency_table(option),
        Paragraph(_remarks(option)),
    ]


def _in_words(name: str) -> str:
    return words_of(name.removesuffix("_bytes"))


def _remarks(option: Option) -> str:
    """Return remarks beyond the numbers: quality, power, age of the price, basis of the prediction, open doubts."""
    shown = option.served
    offer = option.offer
    lines = [option.explained.quality_note]
    if shown.power_w is not None:
        energy = show_quantity(shown.energy_j_per_token, JOULES_PER_TOKEN)
        lines.append(f"Power {show_quantity(shown.power_w, POWER)}, {energy}.")
    if offer is not None and offer.url:
        lines.append(offer.source_line)
    lines += option.explained.basis_notes
    lines += (f"Not the safe pick: {reason}." for reason in option.reasons)
    return "\n".join(line for line in lines if line)
