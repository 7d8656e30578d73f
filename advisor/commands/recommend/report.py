"""A recommendation as a page: key figures, sections with drawings, every option with its details."""

from collections.abc import Sequence
from typing import Final

from advisor.commands.recommend.charts import load_chart, memory_chart, pareto_chart, step_chart
from advisor.commands.recommend.tables import (
    contexts_table,
    ladder_table,
    options_table,
    start_command,
    start_words,
)
from advisor.decide.decision import BeforeAfter, Change, Decision, Rejected
from advisor.decide.option import Option
from advisor.decide.purchase import bill_words
from advisor.decide.scenario import Objectives, Scenario, ServiceLevel
from advisor.render.answer import Block, Figure, Paragraph, Section, Table, Tile, bullet_list, columns
from advisor.render.certainty_words import how_sure
from advisor.render.numbers import (
    JOULES_PER_TOKEN,
    MISSING,
    POWER,
    REQUEST_RATE,
    TIME,
    TOKEN_RATE,
    digits,
    percent,
    range_words,
    rung,
    show,
    show_quantity,
    term_words,
    usd,
    usd_quantity,
)
from advisor.render.option_table import not_among
from advisor.simulator.quantity import Quantity


def recommendation_tiles(options: Sequence[Option], objectives: Objectives) -> tuple[Tile, ...]:
    """Return the key figures of the first option."""
    if not options:
        return ()
    option = options[0]
    shown = options[0].served
    cost = shown.usd_per_million_tokens
    rate = shown.requests_per_s
    paid = "electricity of your own hardware"
    if option.offer is not None:
        paid = f"{option.offer.source_words}, {option.offer.price_words}"
    return (
        Tile(usd(cost.value), "per million tokens", _sure(cost)),
        Tile(usd(option.bill.usd_per_hour), "per hour", paid),
        Tile(digits(rate.value), "requests per second", _sure(rate)),
        *(_latency_tile(level, option) for level in objectives.levels),
        Tile(
            f"{option.machine.num_accelerators} × {option.machine.accelerator}",
            "deployment",
            f"{option.replica_layout.engine}, {option.replica_layout.weight_dtype}",
        ),
    )


_METRICS: Final = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "interval between tokens",
    "e2e": "time of a whole request",
}


def _latency_tile(level: ServiceLevel, option: Option) -> Tile:
    label = f"{_METRICS[level.metric]}, p{level.percent:g}"
    name = f"p{level.percent:g}"
    quantity = getattr(option.served, f"{level.metric}_s").get(name)
    if quantity is None:
        return Tile("-", label)
    factor, unit = rung(quantity.value, TIME)
    return Tile(f"{digits(quantity.value / factor)} {unit}", label, _sure(quantity.scale(1.0 / factor)))


def _sure(quantity: Quantity) -> str:
    """Return the interval, if it has a width, and its basis: `0.36 to 0.49, calibrated`."""
    low, _, high = range_words(quantity.low, quantity.high).partition("-")
    return f"{low} to {high}, {quantity.basis}" if low != high else quantity.basis


def recommendation_sections(found: Decision, scenario: Scenario) -> tuple[Section, ...]:
    """Return the page in order: compare, choose, understand, check what lost, and what would change it."""
    options = found.options
    sections: list[Section] = []
    if options:
        best = options[0]
        asked = scenario.traffic.rate_per_s
        launch = Figure(start_command(best), title=start_words(best))
        ladder = [ladder_table(found.ladder, scenario.objectives)] if found.ladder else []
        ladder += [contexts_table(found.contexts)] if found.contexts else []
        ranked = options_table(options, scenario, [_details(option) for option in options])
        sections = [
            Section(
                "What to take",
                (*ladder, ranked, Paragraph(how_sure(options, found.safe_pick, found.comparisons)), launch),
            ),
            Section(
                "Cost and latency", (pareto_chart(options, is_in_terminal=False), load_chart(options, asked))
            ),
            Section("Time and memory", (step_chart(best), memory_chart(options))),
        ]
    if found.what_would_change:
        text = "\n".join(f"- {line}" for line in found.what_would_change)
        sections.append(Section("What would change it", (Paragraph(text),)))
    gains = (*limit_words(found.changes), *lever_lines(found.changes))
    if gains:
        sections.append(
            Section(
                "What would make it cheaper or faster",
                (bullet_list("--levers NAME takes what is cheaper", gains),),
            )
        )
    if found.rejected:
        named = not_among((), found.not_taken, ())
        sections.append(Section("Rejected accelerators", (rejected_table(found.rejected), *named)))
    if options:
        prices = prices_table(options)
        bill = Paragraph(bill_words(options[0].bill))
        sections.append(Section("Prices", (prices, bill) if prices.rows else (bill,)))
    return tuple(sections)


def lever_lines(tried: Sequence[Change], *, whole: bool = True) -> tuple[str, ...]:
    """Return the levers that gain something, best first: what changes and what it asks, in short unless `whole`."""
    lines = []
    for trial in tried:
        cost = trial.usd_per_million_tokens
        tpot = trial.tpot_p99_s
        if trial.verdict not in ("cheaper", "faster") or cost is None or tpot is None:
            continue
        which = f"option {trial.rank}" if trial.rank else "the smallest load"
        price = _saving(cost)
        asks = "quality: check your tasks" if trial.costs_quality and not whole else trial.note
        if trial.verdict == "faster":
            price = "at the same cost"
        lines.append(
            f"{trial.name}: {which} {price}, p99 TPOT {show(tpot.before, TIME)} to {show(tpot.after, TIME)}; {asks}"
        )
    return tuple(lines)


def limit_words(tried: Sequence[Change]) -> tuple[str, ...]:
    """Return sentences on savings and costs of the options' power limits, against the same boards without a limit."""
    return tuple(
        f"{f'Option {trial.rank}' if trial.rank else 'The smallest load'}, {trial.words}: {_saving(cost)}, p99 TTFT "
        f"{show(ttft.before, TIME)} to {show(ttft.after, TIME)}, p99 TPOT {show(tpot.before, TIME)} to "
        f"{show(tpot.after, TIME)}; {trial.note}."
        for trial in tried
        if trial.verdict == "applied"
        and (cost := trial.usd_per_million_tokens)
        and (ttft := trial.ttft_p99_s)
        and (tpot := trial.tpot_p99_s)
    )


def _saving(cost: BeforeAfter) -> str:
    before = usd(cost.before)
    after = usd(cost.after)
    less = f"{before} to {after}" if before != after else f"{percent(1.0 - cost.ratio)} less than {before}"
    return f"{less} per million tokens"


def latency_table(option: Option) -> Table:
    """Return a table of every latency with its interval."""
    shown = option.served
    metrics = (("TTFT", shown.ttft_s), ("TPOT", shown.tpot_s), ("ITL", shown.itl_s), ("E2E", shown.e2e_s))
    rows = tuple(
        (f"{name} {statistic}", show_quantity(quantity, TIME))
        for name, times in metrics
        for statistic, quantity in times.items()
    )
    return Table(columns("latency | with its range"), rows)


def _details(option: Option) -> tuple[Block, ...]:
    shown = option.served
    layout = option.replica_layout
    why = option.explained
    facts = (
        ("per million tokens", usd_quantity(shown.usd_per_million_tokens)),
        ("per million output tokens", usd_quantity(shown.usd_per_million_output_tokens)),
        ("output", show_quantity(shown.output_tokens_per_s, TOKEN_RATE)),
        ("input and output", show_quantity(shown.total_tokens_per_s, TOKEN_RATE)),
        ("requests", show_quantity(shown.requests_per_s, REQUEST_RATE)),
        ("busy", percent(shown.utilization_fraction)),
        ("sequences per step", digits(shown.mean_batch)),
        ("KV cache holds", f"{show(why.kv_capacity_tokens)} tokens"),
        ("binding objective", why.binding_objective or MISSING),
        ("objectives hold", f"{shown.holds}, with a probability of {percent(shown.chance)}"),
        ("power", show_quantity(shown.power_w, POWER)),
        ("energy", show_quantity(shown.energy_j_per_token, JOULES_PER_TOKEN)),
        (
            "parallelism",
            f"TP{layout.tensor_parallel} PP{layout.pipeline_parallel} DP{layout.data_parallel} "
            f"EP{layout.expert_parallel}, {layout.num_replicas} replicas",
        ),
        ("KV cache type", layout.kv_dtype or MISSING),
    )
    blocks: list[Block] = [
        Table(columns("fact | value"), facts),
        latency_table(option),
        step_chart(option),
        memory_chart([option]),
        Figure(start_command(option), title="Start it with"),
    ]
    remarks = [
        why.quality_note,
        *(f"taken from related hardware: {note}" for note in why.basis_notes),
        *(f"not the safe pick: {reason}" for reason in option.reasons),
    ]
    text = "\n".join(f"- {remark}" for remark in remarks if remark)
    return (*blocks, Paragraph(text)) if text else tuple(blocks)


def prices_table(options: Sequence[Option]) -> Table:
    """Return a table of the source and the age of each option's price."""
    rows = tuple(
        (
            option.machine.accelerator,
            offer.provider,
            offer.sku,
            offer.region,
            term_words(offer.term),
            usd(option.bill.usd_per_hour),
            offer.read_words,
            show(offer.age_days),
            offer.url,
        )
        for option in options
        if (offer := option.offer) is not None
    )
    return Table(
        columns(
            "accelerator | provider | offer | region | term | deployment, $/h> | read on | age, days> | source~"
        ),
        rows,
    )


def rejected_table(rejected: Sequence[Rejected]) -> Table:
    """Return every accelerator that is not among the answers, a row each."""
    rows = tuple((entry.accelerator, str(entry.reason)) for entry in rejected)
    return Table(columns("accelerator | reason~"), rows)
