"""Several models on one fleet: what to take, what stands on which machine, what each model costs and shows."""

from typing import Final

from advisor.ask.measures import parse_budget
from advisor.ask.models import scenarios_of
from advisor.ask.options import SharedOptions
from advisor.catalog.units import HOURS_PER_MONTH, usd_words
from advisor.cli.notes import progress
from advisor.commands.recommend.options import RecommendInput
from advisor.commands.recommend.serving import check_emission, with_emitted
from advisor.commands.recommend.tables import start_command, start_words
from advisor.commands.recommend.view import ENVELOPE_FIELDS
from advisor.decide.decision import Decision
from advisor.decide.option import Option, SharedPurchase
from advisor.decide.purchase import bill_words
from advisor.decide.scenario import Objectives
from advisor.decide.several.result import recommend_several, saving
from advisor.render.answer import Answer, Block, Figure, Paragraph, Table, columns
from advisor.render.calibration_view import with_calibration
from advisor.render.document import fields_of
from advisor.render.numbers import digits, percent, usd, usd_range
from advisor.render.option_table import (
    PER_HOUR,
    RANK,
    OptionColumn,
    latency_columns,
    offer_words,
    planned_words,
    runs_of,
    table_of,
    take_words,
)


def several(asked: RecommendInput, text: str, shared: SharedOptions) -> Answer:
    """Return the answer about the models that were typed.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or nothing satisfies it.
    """
    check_emission(asked.emission)
    scenarios, notes = scenarios_of(
        text, asked.objectives, asked.where, asked.levers, asked.beside, asked.shown.top, shared
    )
    scenarios = tuple(each.model_copy(update={"screened_only": asked.fast}) for each in scenarios)
    budget = parse_budget(asked.objectives.budget) if asked.objectives.budget else None
    with progress(quiet=shared.quiet) as line:
        found = recommend_several(scenarios, line, budget=budget)
    first = scenarios[0]
    question = f"{len(scenarios)} models, {planned_words(first)}, as of {first.as_of}"
    answer = Answer(
        result=fields_of(found, *ENVELOPE_FIELDS),
        inputs={"models": [fields_of(each) for each in scenarios], "budget_usd_per_hour": budget},
        blocks=_blocks(found, question, first.objectives, explain=asked.shown.explain),
        question=question,
        records="options",
        warnings=found.warnings,
        notes=tuple(dict.fromkeys((*notes, *found.notes))),
    )
    answer = with_calibration(answer, first.calibration, first.constraints.accelerators)
    if asked.emission.emit is None:
        return answer
    from advisor.emit.several import emitted_models

    return with_emitted(answer, emitted_models(found.options[0], asked.emission.emit), asked.emission)


def _blocks(found: Decision, question: str, objectives: Objectives, *, explain: bool) -> tuple[Block, ...]:
    best = found.options[0]
    title = "Best fleets for all models, by expected cost"
    blocks: list[Block] = [Paragraph(found.headline, emphasis=True), Paragraph(f"Asked: {question}.")]
    blocks.append(table_of(found.options, _FLEET_COLUMNS, title))
    blocks += [Paragraph(_how_sure(found)), _models(best, objectives)]
    if any(each.shares_machines or each.num_idle for each in best.purchases):
        blocks.append(_machines(best))
    blocks.append(Paragraph(" ".join((*_bills(best), saving(found))).strip()))
    if explain:
        blocks += [_models(each, objectives) for each in found.options[1:]]
    for part in best.parts:
        how = start_words(part)
        blocks.append(Figure(start_command(part), title=f"{part.model}: {how[0].lower()}{how[1:]}"))
    return tuple(blocks)


def _machine_words(bought: SharedPurchase) -> str:
    return f"{bought.machine.num_accelerators} x {bought.machine.accelerator}"


_FLEET_COLUMNS: Final = (
    RANK,
    OptionColumn("take~", lambda option: " + ".join(map(_machine_words, option.purchases))),
    OptionColumn("$/h>", lambda option: usd(option.shared.usd_per_hour.value)),
    OptionColumn("expected $/h>", lambda option: usd(option.shared.expected_usd_per_hour)),
    OptionColumn("holds", lambda option: option.shared.holds),
    OptionColumn(
        "price~", lambda option: "; ".join(dict.fromkeys(offer_words(e.offer) for e in option.purchases))
    ),
    OptionColumn("basis!", lambda option: option.shared.basis),
)


def _how_sure(found: Decision) -> str:
    """Return a sentence on the first fleet and on how sure it is that it costs less than the others."""
    options = found.options
    best = found.options[0]
    safe = found.safe_pick
    lines = [f"{safe.rank} is the safe pick" if safe else "no option is a safe pick: benchmark 1 first"]
    if safe is not None and safe.rank > len(options):
        lines = [f"the safe pick is number {safe.rank}: --top {safe.rank}"]
    bold = next((option for option in options if option.role == "cheapest_if_it_holds"), None)
    if ties := ", ".join(str(rank) for rank in best.tie_with if rank <= len(options)):
        lines.append(f"a tie with {ties} (less than 75 % sure which is cheaper)")
    first = "it" if safe is best else "1"
    lines += [
        f"{percent(each.chance_first_is_cheaper)} sure {first} is cheaper than {each.rank}"
        for each in found.comparisons[:2]
        if each.rank not in best.tie_with and each.chance_first_is_cheaper >= 0.5
    ]
    if bold is not None and (bold is not best or safe is not None):
        lines.append(f"{bold.rank} costs {usd(bold.shared.usd_per_hour.value)}/h if {_doubt(bold)}")
    sellers = {
        option.rank: {each.offer.provider for each in option.purchases if each.offer} for option in options
    }
    if mixed := [str(rank) for rank, names in sellers.items() if len(names) > 1]:
        lines.append(f"renting from several providers ({', '.join(mixed)}) is more work, which is not priced")
    lines.append(f"all models hold with {percent(best.shared.chance)} or more")
    return "; ".join(lines) + "."


def _doubt(option: Option) -> str:
    """Return the condition on which an unsafe fleet depends, and what to do before it is taken."""
    if option.shared.holds != "likely" or option.shared.basis == "assumed":
        return "it holds: benchmark it first"
    ages = [each.offer.age_days for each in option.purchases if each.offer]
    oldest = f"prices of up to {max(filter(None, ages), default=0)} days ago"
    return f"{'undated prices' if None in ages else oldest} still stand: ask about them first"


def _models(fleet: Option, objectives: Objectives) -> Table:
    """Return a table of the deployment that serves each model and of its share of the cost."""
    shown = _model_columns(fleet, objectives)
    rows = tuple(
        (
            part.model or "",
            f"{digits(part.served.requests_per_s.value)}/s",
            *(column.cell(part) for column in shown),
        )
        for part in fleet.parts
    )
    header = columns("model~ | load>?", *(column.header for column in shown))
    return Table(header, rows, title=f"Fleet {fleet.rank}, model by model; idle accelerators are shared out")


def _model_columns(fleet: Option, objectives: Objectives) -> tuple[OptionColumn, ...]:
    """Return columns of what serves a model, with its part of the bill."""
    return (
        OptionColumn("takes~", take_words),
        OptionColumn("runs~", runs_of),
        PER_HOUR,
        OptionColumn(
            "share>?",
            lambda option: percent(option.bill.machines_usd_per_hour / fleet.shared.usd_per_hour.value),
        ),
        OptionColumn("$/Mtok~", lambda option: usd_range(option.served.usd_per_million_tokens)),
        *latency_columns(objectives.levels),
        OptionColumn("holds", lambda option: option.served.holds),
    )


def _machines(fleet: Option) -> Table:
    """Return a table of the replicas on each machine."""
    rows = tuple(
        (
            str(each.count),
            f"{each.num_accelerators} x {bought.machine.accelerator}",
            ", ".join(f"{count} x {name}" for name, count in each.num_replicas.items() if count),
            str(each.num_accelerators - each.num_used),
        )
        for bought in fleet.purchases
        for each in bought.machines
    )
    return Table(columns("machines> | each | replicas on each~ | idle>"), rows, title="What stands where")


def _bills(fleet: Option) -> list[str]:
    """Return a month's bill of each purchase; what is not known is said once."""
    if len(fleet.purchases) == 1:
        return [bill_words(fleet.bill)]
    parts = [
        f"{usd_words(each.usd_per_hour * HOURS_PER_MONTH)} for {_machine_words(each)}"
        for each in fleet.purchases
    ]
    return [f"Option 1 costs {usd_words(fleet.bill.usd_per_month)} a month: {', '.join(parts)}."]
