"""Ladder and options of a recommendation as tables, and why others are not among them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.architectures import plugin_of
from advisor.catalog.engines import by_id
from advisor.catalog.launch import plugin_for
from advisor.decide.decision import Rejected, Rung
from advisor.decide.option import Option
from advisor.decide.power import power_words
from advisor.decide.scenario import Objectives, Scenario
from advisor.decide.starting import nodes_of_replica
from advisor.render.answer import Block, Table, columns
from advisor.render.numbers import TIME, show, usd
from advisor.render.option_table import (
    PER_HOUR,
    TAKE,
    OptionColumn,
    cells_of,
    ladder_columns,
    per_month,
    rungs_table,
    runs_of,
    serving_columns,
    table_of,
)


def shown_rate(scenario: Scenario) -> float | None:
    """Return the load of the options that are shown [1/s]; None where it is not given."""
    return scenario.traffic.rate_per_s or (scenario.ladder_per_s[-1] if scenario.ladder_per_s else None)


def ladder_table(ladder: Sequence[Rung], objectives: Objectives) -> Table:
    """Return a table of the best option for each of several loads."""
    return rungs_table(
        ladder,
        "clients>" if ladder[0].clients else "requests>",
        lambda rung: f"{rung.clients:,}" if rung.clients else f"{rung.rate_per_s:g}/s",
        ladder_columns(objectives.levels),
        f"What to take for which load, within {objectives.words}",
    )


_TIER_COLUMNS: Final = (
    TAKE,
    OptionColumn("runs~?", runs_of),
    PER_HOUR,
    OptionColumn("$/month>", per_month),
    OptionColumn("$/Mtok>?", lambda option: usd(option.served.usd_per_million_tokens.value)),
)


def contexts_table(tiers: Sequence[Rung]) -> Table:
    """Return a table of the best option for each of several context windows."""
    rows = tuple(
        (
            f"{tier.max_context_tokens:,}",
            *cells_of(tier.option, _TIER_COLUMNS, "-"),
            show(tier.requests_at_once),
            show(tier.first_token_s, TIME),
            str(tier.reason or ("with scaling" if tier.needs_rope_scaling else "native")),
        )
        for tier in tiers
    )
    header = columns(
        "context>", *(column.header for column in _TIER_COLUMNS), "at once> | full prompt> | window~"
    )
    title = "What each context window costs; at once: requests of that length; full prompt: its first token, alone"
    return Table(header, rows, title=title)


def options_table(
    options: Sequence[Option], scenario: Scenario, details: Sequence[Sequence[Block]] = ()
) -> Table:
    """Return a table of options, with the load of each if loads differ. A page opens their details."""
    rate = shown_rate(scenario)
    at = f" at {rate:,g} requests/s" if rate else ""
    chosen = serving_columns(scenario.objectives.levels, shows_rate=not rate)
    costs = [option.served.expected_usd_per_million_tokens for option in options]
    order = "by expected cost" if costs == sorted(costs) else "the safest, then by expected cost"
    return table_of(options, chosen, f"Best options{at}, one per accelerator, {order}", details)


def start_words(option: Option) -> str:
    """Return the sentence that introduces the start command, with what comes before it."""
    checkpoint = option.started.checkpoint
    if checkpoint is not None and checkpoint.origin == "quantise first":
        return (
            f"No {option.replica_layout.weight_dtype} checkpoint is known here: look for one, or quantise "
            f"{checkpoint.repository} first; then start each replica with"
        )
    if checkpoint is not None and checkpoint.origin == "convert first":
        kind = option.replica_layout.weight_dtype
        return f"Convert {checkpoint.repository} to a GGUF file in {kind} first, then start each replica with"
    unseen = checkpoint is not None and checkpoint.origin == "pattern"
    look = "; look whether the checkpoint is there" if unseen else ""
    first = checkpoint.start_words if checkpoint is not None else "Start"
    which = (
        f"each of {option.replica_layout.num_replicas} replicas"
        if option.replica_layout.num_replicas > 1
        else "it"
    )
    if option.parts:
        which = "its parts"
    elif (nodes := nodes_of_replica(option.replica_layout.accelerators_per_replica, option.machine)) > 1:
        which += f" on {nodes} machines, of which HEAD is the first,"
    return f"{first} {which} with{look}"


_ROUTER_LINE: Final = (
    "# a router before them and the address of each worker join the parts: --emit command -o FOLDER "
    "writes both"
)


def start_command(option: Option) -> str:
    """Return the command of every replica, or one for each of its unlike parts."""
    limit_w = option.machine.power_limit_w
    if limit_w:
        return f"# once, as root: {' '.join(power_words(limit_w))}\n{option.started.command}"
    if not option.parts:
        layout = option.replica_layout
        engine = by_id(layout.engine)
        plugin = plugin_for(engine, layout.weight_dtype, layout.engine_version or "")
        once = [f"# once: pip install {plugin}"] if plugin else []
        chip = accelerators.by_id(option.machine.accelerator)
        if package := engine.flags.plugins_on.get(plugin_of(chip)):
            runs = f"which runs {engine.name} on {chip.id} and has options of its own"
            once.append(f"# once: install {package}, {runs}: verify those below with it")
        return "\n".join((*once, option.started.command))
    parts = (
        f"# each of {part.replica_layout.num_replicas} for {part.share_words}\n{part.started.command}"
        for part in option.parts
    )
    return "\n".join((*parts, _ROUTER_LINE))


def rejected_tables(rejected: Sequence[Rejected]) -> list[Block]:
    """Return accelerators that are not among the answers, those with the same reason together."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for entry in rejected:
        by_reason[str(entry.reason)].append(entry.accelerator)
    rows = tuple((", ".join(names), reason) for reason, names in by_reason.items())
    title = f"Rejected accelerators ({len(rejected)})"
    return [Table(columns("accelerator~ | reason~"), rows, title=title)] if rows else []
