"""A training recommendation as an answer: the cluster to take, its rivals, one step, memory, failures, the bill."""

import math
import shlex
from collections.abc import Sequence
from typing import Final

from advisor.catalog.units import DAY_S, GB, HOUR_S, KILO, duration_words
from advisor.commands.recommend.nodes import draw_training_nodes
from advisor.commands.recommend.tables import rejected_tables
from advisor.commands.recommend.view import ENVELOPE_FIELDS
from advisor.decide.option import Offer
from advisor.decide.purchase import job_words
from advisor.decide.safe_picks import safe_pick_words
from advisor.decide.training.market import (
    LONGEST_LISTED_S,
    SHORTEST_WORTH_S,
    is_electricity_all,
    is_fastest_wanted,
)
from advisor.decide.training.result import (
    Reinforcement,
    TermCost,
    TrainingOption,
    TrainingPerformance,
    TrainingRecommendation,
)
from advisor.decide.training.runs import ESTIMATED_RESERVATION
from advisor.decide.training.scenario import RolloutTask, TrainingScenario
from advisor.render.answer import Answer, Block, Figure, Paragraph, Section, Table, Tile, bullet_list, columns
from advisor.render.document import fields_of
from advisor.render.numbers import (
    COUNT,
    MISSING,
    POWER,
    SIZE,
    TIME,
    digits,
    percent,
    range_words,
    show,
    show_quantity,
    term_words,
    usd,
)
from advisor.render.option_table import not_among, offer_words
from advisor.render.training_charts import days_chart, stage_chart, waterfall_chart
from advisor.simulator.training.goodput import SNAPSHOT_S
from advisor.simulator.training.launch_start import explain_command
from advisor.simulator.training.reinforcement import RULES


def training_answer(
    found: TrainingRecommendation, scenario: TrainingScenario, notes: tuple[str, ...], *, explain: bool
) -> Answer:
    """Return the options and the start of the first; with `explain` also charts, memory, bills and reasons."""
    first = found.options[0]
    within = ""
    if is_fastest_wanted(scenario):
        shortest = duration_words(SHORTEST_WORTH_S[scenario.workload] / DAY_S)
        is_free = scenario.limits.num_accelerators is None and not scenario.limits.own
        listed = f", at most {duration_words(LONGEST_LISTED_S / DAY_S)}" if is_free else ""
        within = f", the fastest within the budget{listed}; {shortest} and less count alike"
    if is_electricity_all(scenario):
        within = ", least electricity times time"
    blocks: list[Block] = [
        Paragraph(found.headline, emphasis=True),
        Paragraph(_question_words(scenario, found)),
        _options_table(found.options, within),
        Paragraph(safe_pick_words(found.options, lambda option: option.usd, found.safe_pick)),
        Paragraph(f"{job_words(first.bill)}{_hours_begun(first)}"),
        Paragraph(conditions_words(first)),
    ]
    if first.performance.reinforcement is not None:
        blocks.append(_loop_table(found.options))
    if explain:
        blocks += _explanation_blocks(first, found)
    else:
        blocks += not_among(found.rejected, (), scenario.limits.accelerators)
    blocks.append(flags_figure(first))
    counted = _count_words(found)
    blocks.append(Paragraph(counted if explain else f"{counted} --explain shows the rest."))
    return Answer(
        result=fields_of(found, *ENVELOPE_FIELDS),
        inputs=fields_of(scenario),
        blocks=tuple(blocks),
        tiles=_tiles(first),
        sections=_sections(found, within),
        records="options",
        warnings=found.warnings,
        notes=tuple(dict.fromkeys((*notes, *found.notes))),
        svg=draw_training_nodes(first),
    )


def _explanation_blocks(first: TrainingOption, found: TrainingRecommendation) -> list[Block]:
    chart = days_chart(found.options, found.pareto)
    blocks: list[Block] = [] if chart.is_empty else [chart]
    blocks.append(
        waterfall_chart(first.performance.breakdown_s, f"One step of option 1 ({first.plan.words})")
    )
    bills = (_bills_table(first), *_why_not_feasible(first))
    blocks += [_memory_block(first), *bills, *_explanation(first, found)]
    blocks += rejected_tables(found.rejected)
    if found.what_would_change:
        blocks.append(bullet_list("What would change this answer", found.what_would_change))
    return blocks


def _hours_begun(option: TrainingOption) -> str:
    """Return how many hours of rent are billed for a run that ends within one; empty for one's own machines."""
    run_hours = option.performance.days.value * DAY_S / HOUR_S
    if option.offer is None or run_hours >= _HOURS_WITHOUT_REST:
        return ""
    hours = max(1, math.ceil(run_hours))
    return f" Hours begun are billed: {hours} h for {duration_words(option.performance.days.value)}."


_HOURS_WITHOUT_REST: Final = 100.0
"""Length of a run of which the hour that is begun last is less than 1 % [h]."""


def _loop_words(task: RolloutTask) -> str:
    """Return the algorithm of a loop with its steps and the prompts and outputs of one."""
    each = RULES[task.algorithm].given_answers or task.samples_per_prompt
    outputs = f"{task.prompts} prompts with {each} output{'s' if each > 1 else ''} each"
    lengths = f"{task.prompt_tokens} tokens in, {task.response_tokens} out"
    return f"{task.algorithm}, {task.num_steps} steps of {outputs} ({lengths})"


def _question_words(scenario: TrainingScenario, found: TrainingRecommendation) -> str:
    """Return the question as it was understood, defaults included."""
    task = scenario.task
    limits = scenario.limits
    within = [
        f"on {limits.num_accelerators} accelerators" if limits.num_accelerators else "",
        f"within {show(limits.deadline_s, TIME)}" if limits.deadline_s else "",
        f"for at most {usd(limits.budget_usd)}" if limits.budget_usd else "",
    ]
    rank = f" of rank {task.lora_rank}" if task.lora_rank else ""
    method = "" if task.method == "full" else f", {task.method}{rank}"
    formats = "/".join(task.compute_dtypes or sorted({option.plan.compute_dtype for option in found.options}))
    what = f"{show(task.tokens, COUNT)} tokens in steps of {task.global_batch} x {task.sequence_tokens}"
    kind = scenario.workload if scenario.rollout is None else _loop_words(scenario.rollout)
    return (
        f"Asked: {kind}, {what}, {formats}, {task.optimizer}{method}"
        f"{', ' if any(within) else ''}{', '.join(filter(None, within))}; {term_words(*limits.terms)} prices as of "
        f"{scenario.as_of}."
    )


def _count_words(found: TrainingRecommendation) -> str:
    """Return how many plans the search considered, computed and simulated."""
    counts = found.counts
    return (
        f"{counts.num_candidates:,} plans on {_clusters(counts.num_clusters or 0)} considered, "
        f"memory and time of {counts.num_evaluated or 0:,} computed, {counts.num_simulated} simulated."
    )


def _clusters(count: int) -> str:
    return "1 cluster" if count == 1 else f"{count} clusters"


def _options_table(options: Sequence[TrainingOption], within: str) -> Table:
    """Return a table of clusters; with a deadline it says of each whether it is done in time."""
    has_deadline = any(option.performance.holds for option in options)
    rows = tuple(
        (
            str(option.rank),
            f"{option.machine.num_accelerators} x {option.machine.accelerator}",
            f"{option.plan.framework} {option.plan.words}",
            usd(option.usd_per_accelerator_hour),
            show(option.performance.step_time_s.value, TIME),
            percent(option.performance.mfu_fraction.value),
            show(option.performance.days.value * DAY_S, TIME),
            *((option.performance.holds or MISSING,) if has_deadline else ()),
            _dollars(option),
            offer_words(option.offer),
            option.performance.basis,
        )
        for option in options
    )
    in_time = " | in time" if has_deadline else ""
    return Table(
        columns(
            f"#> | take~ | plan~ | $/h each>? | step>? | MFU>? | takes>{in_time} | dollars | price~ | basis!"
        ),
        rows,
        title=f"Best clusters, one per accelerator{within}",
    )


def _dollars(option: TrainingOption) -> str:
    factor, unit = (KILO, "k") if option.usd.value >= KILO else (1.0, "")
    return f"{usd(option.usd.value)} {range_words(option.usd.low / factor, option.usd.high / factor)}{unit}"


def _loop_table(options: Sequence[TrainingOption]) -> Table:
    """Return a table of the time of one step of reinforcement learning by phase, for each option."""
    loops = ((option, option.performance.reinforcement) for option in options)
    rows = tuple(_loop_row(option, loop) for option, loop in loops if loop is not None)
    return Table(
        columns("#> | placement~ | generate> | judge> | log-probs> | train> | sync> | step> | generating>"),
        rows,
        title="One step of the loop; the last column is the share of its work",
    )


def _loop_row(option: TrainingOption, loop: Reinforcement) -> tuple[str, ...]:
    where = loop.placement
    if loop.placement != "colocated":
        where = f"{loop.num_rollout_accelerators} generate, {loop.num_training_accelerators} train"
    times = (loop.rollout_s, loop.reward_s, loop.logprob_s, loop.training_s, loop.weight_sync_s, loop.step_s)
    return (str(option.rank), where, *(show(t or None, TIME) for t in times), percent(loop.rollout_fraction))


def conditions_words(option: TrainingOption) -> str:
    """Return the memory of a plan with its verdict, and the conditions of machines that it rests on."""
    shown = option.performance
    memory = (
        f"Memory of an accelerator: {show_quantity(shown.peak_memory_bytes, SIZE)} of "
        f"{show(shown.memory_limit_bytes, SIZE)}: {shown.memory_verdict}."
    )
    return " ".join((memory, *(f"{note[0].upper()}{note[1:]}." for note in option.notes)))


def _memory_block(option: TrainingOption) -> Block:
    """Return the memory of a plan in a line, or by stage."""
    shown = option.performance
    if len(shown.memory_by_stage) > 1:
        return stage_chart(shown.memory_by_stage, shown.memory_limit_bytes)
    parts = ", ".join(
        f"{name} {digits(size / GB)}" for name, size in shown.memory_bytes.items() if size > 0.05 * GB
    )
    return Paragraph(
        f"Memory of the fullest accelerator: {show_quantity(shown.peak_memory_bytes, SIZE)} of "
        f"{show(shown.memory_limit_bytes, SIZE)}: {parts}."
    )


def _bills_table(option: TrainingOption) -> Table:
    rows = tuple(
        (
            _term(bill),
            _seller(bill),
            usd(bill.usd_per_accelerator_hour),
            percent(bill.goodput_fraction),
            "not feasible" if bill.days is None else show(bill.days * DAY_S, TIME),
            usd(bill.usd),
        )
        for bill in option.bills
    )
    return Table(
        columns("term | from~ | $/accelerator/h> | goodput> | takes> | dollars>"),
        rows,
        title="The same run at every term",
    )


def _why_not_feasible(option: TrainingOption) -> list[Block]:
    """Return why some terms of the table are not feasible, one line each."""
    lines = [
        f"{_term(bill)} at {_seller(bill)} is not feasible: {option.machine.num_nodes:,} machines lose one every "
        f"{show(bill.mtbf_s, TIME)}, which leaves less than half of the time "
        + ("(--term spot --spot-losses-per-day N)" if bill.term == "spot" else "(--mtbf-hours)")
        for bill in option.bills
        if not bill.feasible and bill.mtbf_s is not None
    ]
    return [Paragraph("\n".join(lines))] if lines else []


def _term(bill: TermCost) -> str:
    if bill.term == ESTIMATED_RESERVATION:
        return "reserved 1y, usual discount"
    return term_words(bill.term)


def _seller(bill: TermCost) -> str:
    if bill.term == "owned":
        return "bought, used all its life"
    return "electricity alone" if bill.provider == "own" else bill.provider


def _explanation(option: TrainingOption, found: TrainingRecommendation) -> list[Block]:
    shown = option.performance
    compute = found.compute
    left = shown.failures
    failures = (
        f"Failures: one every {show(left.cluster_mtbf_s, TIME)}; a checkpoint of {show(left.checkpoint_bytes, SIZE)} "
        f"every {show(left.checkpoint_interval_s, TIME)} stops training for {show(left.checkpoint_stall_s, TIME)} and "
        f"is safe after {show(left.checkpoint_write_s, TIME)}. Goodput {percent(left.goodput_fraction)}: checkpoints "
        f"{percent(left.checkpoint_fraction)}, work done twice {percent(left.replay_fraction)}, restarts "
        f"{percent(left.restart_fraction)}"
        + (
            f", missing replicas {percent(left.lost_capacity_fraction)}."
            if left.lost_capacity_fraction
            else "."
        )
    )
    if left.checkpoint_write_s <= SNAPSHOT_S:
        failures += " A write takes no longer than a snapshot: --checkpoints sync and async cost the same."
    rate = shown.tokens_per_s_per_accelerator
    work = (
        f"Compute: {compute['flop'] / (compute['active_parameters'] * compute['tokens']):.0f} x "
        f"{show(compute['active_parameters'], COUNT)} x {show(compute['tokens'], COUNT)} = {compute['flop']:.3g} flop "
        f"({compute['flop_with_attention']:.3g} with attention, as MFU counts), "
        f"{digits(compute['tokens_per_parameter'])} tokens per parameter; "
        f"{shown.num_steps:,} steps of {show_quantity(shown.step_time_s, TIME)}, {digits(rate.value)} tokens/s per "
        f"accelerator, MFU {percent(shown.mfu_fraction.value)}, with recomputation "
        f"{percent(shown.hfu_fraction.value)}."
    )
    if "expected_loss_nats" in compute:
        work += (
            f" Chinchilla's law expects a loss of {compute['expected_loss_nats']:.2f} nats per token; this compute "
            f"would do best with {show(compute['best_parameters_for_flop'], COUNT)} parameters on "
            f"{show(compute['best_tokens_for_flop'], COUNT)} tokens."
        )
    lines = [work, failures, _energy_words(shown), _price_words(option.offer)]
    return [Paragraph("\n".join(filter(None, lines)))]


def _energy_words(shown: TrainingPerformance) -> str:
    if shown.energy_kwh is None or shown.carbon_kg_co2e is None:
        return ""
    return (
        f"Energy: {show(shown.power_w, POWER)} at work, {shown.energy_kwh / KILO:,.1f} MWh, "
        f"{shown.carbon_kg_co2e / KILO:,.2f} t CO2e on the grid of {shown.carbon_region}."
    )


def _price_words(offer: Offer | None) -> str:
    if offer is None:
        return ""
    return offer.source_line


_OUTPUT_LIMITS: Final = ("max_response_length", "max_completion_length", "generate_max_len")
"""Options of frameworks for the longest answer of a loop of generation and training."""


def flags_figure(option: TrainingOption) -> Block:
    """Return launch options by framework, and the command that shows the plan part by part, ready to copy."""
    lines = [explain_command(name, flags) for name, flags in option.launch.flags.items()]
    if any("--trust_remote_code" in flags for flags in option.launch.flags.values()):
        lines.append(
            "# --trust_remote_code runs Python files of the model's repository with your rights: read them first"
        )
    if any(limit in flags for flags in option.launch.flags.values() for limit in _OUTPUT_LIMITS):
        lines.append(
            "# prompts and answers have at most the lengths that were asked for, which the plan has memory for: give "
            "the longest ones (--input-tokens, --output-tokens), or longer prompts are left out and answers cut off"
        )
    if option.launch.simulate_args:
        lines.append(
            f"# this plan, part by part\nadvisor simulate train {shlex.join(option.launch.simulate_args)}"
        )
    return Figure("\n".join(lines), title="Launch options by framework")


def _tiles(option: TrainingOption) -> tuple[Tile, ...]:
    shown = option.performance
    days = option.performance.days
    cost = option.usd
    return (
        Tile(
            show(days.value * DAY_S, TIME),
            "until done",
            f"{range_words(days.low, days.high)} days, {days.basis}",
        ),
        Tile(
            usd(cost.value),
            option.offer.source_words if option.offer else "electricity",
            range_words(cost.low, cost.high),
        ),
        Tile(percent(shown.mfu_fraction.value), "MFU", f"step {show(shown.step_time_s.value, TIME)}"),
        Tile(
            percent(shown.goodput_fraction),
            "goodput",
            f"a failure every {show(shown.failures.cluster_mtbf_s, TIME)}",
        ),
    )


def _sections(found: TrainingRecommendation, within: str) -> tuple[Section, ...]:
    first = found.options[0]
    clusters: list[Block] = [
        _options_table(found.options, within),
        days_chart(found.options, found.pareto, is_in_terminal=False),
    ]
    if first.performance.reinforcement is not None:
        clusters.append(_loop_table(found.options))
    step = waterfall_chart(first.performance.breakdown_s, f"One step of option 1 ({first.plan.words})")
    return (
        Section("Clusters", tuple(clusters)),
        Section("One step", (step,)),
        Section(
            "Memory", (stage_chart(first.performance.memory_by_stage, first.performance.memory_limit_bytes),)
        ),
        Section(
            "Bill and failures", (_bills_table(first), *_why_not_feasible(first), *_explanation(first, found))
        ),
        Section("Rejected accelerators", tuple(rejected_tables(found.rejected))),
        Section("Launch", (flags_figure(first),)),
    )
