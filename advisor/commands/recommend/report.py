"""A recommendation as a page: key figures, sections with drawings, every option with its details."""

from collections.abc import Sequence

from advisor.commands.recommend.charts import load_chart, memory_chart, pareto_chart, step_chart
from advisor.commands.recommend.tables import (
    contexts_table,
    how_sure,
    ladder_table,
    options_table,
    start_command,
    start_words,
)
from advisor.decide.purchase import bill_words
from advisor.decide.result import BeforeAfter, LeverTrial, Option, Recommendation, Rejected
from advisor.decide.scenario import Scenario
from advisor.render.answer import Block, Figure, Paragraph, Section, Table, Tile, bulleted, columns
from advisor.render.numbers import (
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
    usd,
    usd_quantity,
)
from advisor.simulator.quantity import Quantity


def recommendation_tiles(options: Sequence[Option]) -> tuple[Tile, ...]:
    """Key figures of the first option."""
    if not options:
        return ()
    option = options[0]
    cost, rate = option.usd_per_million_tokens, option.requests_per_s
    return (
        Tile(usd(cost.value), "per million tokens", _sure(cost)),
        Tile(usd(option.usd_per_hour), "per hour", f"{option.provider}, price of {option.price_observed_on}"),
        Tile(digits(rate.value), "requests per second", _sure(rate)),
        _latency_tile("time to first token, p99", option.ttft_s.get("p99")),
        _latency_tile("time per output token, p99", option.tpot_s.get("p99")),
        Tile(
            f"{option.num_accelerators} × {option.accelerator}",
            "deployment",
            f"{option.engine}, {option.weight_dtype}",
        ),
    )


def _latency_tile(label: str, quantity: Quantity | None) -> Tile:
    if quantity is None:
        return Tile("-", label)
    factor, unit = rung(quantity.value, TIME)
    return Tile(f"{digits(quantity.value / factor)} {unit}", label, _sure(quantity.scaled(1.0 / factor)))


def _sure(quantity: Quantity) -> str:
    """`0.36 to 0.49, calibrated`: the interval, where it has a width, and its basis."""
    low, _, high = range_words(quantity.low, quantity.high).partition("-")
    return f"{low} to {high}, {quantity.basis}" if low != high else quantity.basis


def recommendation_sections(found: Recommendation, scenario: Scenario) -> tuple[Section, ...]:
    """The page in order: compare, choose, understand, check what lost, and what would change it."""
    options = found.options
    sections: list[Section] = []
    if options:
        best = options[0]
        asked = scenario.traffic.rate_per_s
        launch = Figure(start_command(best), title=start_words(best))
        ladder = [ladder_table(found.ladder)] if found.ladder else []
        ladder += [contexts_table(found.contexts)] if found.contexts else []
        ranked = options_table(options, scenario, [_details(option) for option in options])
        sections = [
            Section("What to take", (*ladder, ranked, Paragraph(how_sure(found, options)), launch)),
            Section("Cost and latency", (pareto_chart(options, is_in_terminal=False), load_chart(options, asked))),
            Section("Time and memory", (step_chart(best), memory_chart(options))),
        ]  # fmt: skip
    if found.what_would_change:
        text = "\n".join(f"- {line}" for line in found.what_would_change)
        sections.append(Section("What would change it", (Paragraph(text),)))
    gains = (*limit_words(found.levers_tried), *lever_lines(found.levers_tried))
    if gains:
        sections.append(
            Section(
                "What would make it cheaper or faster",
                (bulleted("--levers NAME takes what is cheaper", gains),),
            )
        )
    if found.rejected:
        sections.append(Section("Why not the others", (rejected_table(found.rejected),)))
    if options:
        sections.append(Section("Prices", (prices_table(options), Paragraph(bill_words(options[0].bill)))))
    return tuple(sections)


def lever_lines(tried: Sequence[LeverTrial], *, whole: bool = True) -> tuple[str, ...]:
    """The levers that gain something, best first: what changes and what it asks, in short unless `whole`."""
    lines = []
    for trial in tried:
        cost, tpot = trial.usd_per_million_tokens, trial.tpot_p99_s
        if trial.verdict not in ("cheaper", "faster") or cost is None or tpot is None:
            continue
        which = f"option {trial.rank}" if trial.rank else "the smallest load"
        price = _saved(cost)
        asks = "quality: check your tasks" if trial.costs_quality and not whole else trial.note
        if trial.verdict == "faster":
            price = "at the same cost"
        lines.append(
            f"{trial.lever}: {which} {price}, p99 TPOT {show(tpot.before, TIME)} to {show(tpot.after, TIME)}; {asks}"
        )
    return tuple(lines)


def limit_words(tried: Sequence[LeverTrial]) -> tuple[str, ...]:
    """What the power limits that options are held to save and cost, against the same boards without."""
    return tuple(
        f"{f'Option {trial.rank}' if trial.rank else 'The smallest load'}, {trial.words}: {_saved(cost)}, p99 TTFT "
        f"{show(ttft.before, TIME)} to {show(ttft.after, TIME)}, p99 TPOT {show(tpot.before, TIME)} to "
        f"{show(tpot.after, TIME)}; {trial.note}."
        for trial in tried
        if trial.verdict == "pulled"
        and (cost := trial.usd_per_million_tokens)
        and (ttft := trial.ttft_p99_s)
        and (tpot := trial.tpot_p99_s)
    )


def _saved(cost: BeforeAfter) -> str:
    before, after = usd(cost.before), usd(cost.after)
    less = f"{before} to {after}" if before != after else f"{percent(1.0 - cost.ratio)} less than {before}"
    return f"{less} per million tokens"


def latency_table(option: Option, end_to_end: str) -> Table:
    """Every latency with its range, the whole request's under the name given."""
    rows = tuple(
        (f"{name} {statistic}", show_quantity(quantity, TIME))
        for name, times in (("TTFT", option.ttft_s), ("TPOT", option.tpot_s), (end_to_end, option.e2e_s))
        for statistic, quantity in times.items()
    )
    return Table(columns("latency | with its range"), rows)


def _details(option: Option) -> tuple[Block, ...]:
    facts = (
        ("per million tokens", usd_quantity(option.usd_per_million_tokens)),
        ("per million output tokens", usd_quantity(option.usd_per_million_output_tokens)),
        ("output", show_quantity(option.output_tokens_per_s, TOKEN_RATE)),
        ("input and output", show_quantity(option.total_tokens_per_s, TOKEN_RATE)),
        ("requests", show_quantity(option.requests_per_s, REQUEST_RATE)),
        ("busy", percent(option.utilisation_fraction)),
        ("sequences per step", digits(option.mean_batch)),
        ("KV cache holds", f"{digits(option.kv_capacity_tokens)} tokens"),
        ("binding objective", option.binding_objective),
        ("objectives met", option.slo_confidence),
        ("power", show(option.power_w, POWER)),
        ("energy", f"{digits(option.energy_j_per_token)} J per token"),
        ("parallelism", f"TP{option.tensor_parallel} PP{option.pipeline_parallel} DP{option.data_parallel} "
                        f"EP{option.expert_parallel}, {option.num_replicas} replicas"),
        ("KV cache type", option.kv_dtype),
    )  # fmt: skip
    blocks: list[Block] = [
        Table(columns("fact | value"), facts),
        latency_table(option, "end to end"),
        step_chart(option),
        memory_chart([option]),
        Figure(start_command(option), title="Start it with"),
    ]
    remarks = [option.quality_note, *(f"taken from related hardware: {note}" for note in option.basis_notes)]
    text = "\n".join(f"- {remark}" for remark in remarks if remark)
    return (*blocks, Paragraph(text)) if text else tuple(blocks)


def prices_table(options: Sequence[Option]) -> Table:
    """Where each option's price is from, and how old it is."""
    rows = tuple(
        (o.accelerator, o.provider, o.sku, o.region, o.term, usd(o.usd_per_hour), o.price_observed_on,
         str(o.price_age_days), o.price_url)
        for o in options
    )  # fmt: skip
    return Table(
        columns(
            "accelerator | provider | offer | region | term | deployment, $/h> | read on | age, days> | source~"
        ),
        rows,
    )


def rejected_table(rejected: Sequence[Rejected]) -> Table:
    """Every accelerator that is not among the answers, a row each."""
    rows = tuple((entry.accelerator, entry.reason) for entry in rejected)
    return Table(columns("accelerator | reason~"), rows)
