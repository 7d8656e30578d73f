"""Ladder and options of a recommendation as tables, how sure their order is, and why others are not among them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from advisor.catalog.engines import by_id
from advisor.catalog.launch import plugin_for
from advisor.decide.decision import Decision, Rejected, Rung
from advisor.decide.option import Option
from advisor.decide.power import power_words
from advisor.decide.ranking import CHEAPER_IF_BELOW
from advisor.decide.reason import UnsurePrice
from advisor.decide.scenario import Objectives, Scenario
from advisor.decide.starting import nodes_of_replica
from advisor.render.answer import Block, Paragraph, Table, columns
from advisor.render.numbers import TIME, show, usd
from advisor.render.option_table import (
    PER_HOUR,
    TAKE,
    OptionColumn,
    beside_words,
    cells_of,
    ladder_columns,
    per_month,
    replica_words,
    rungs_table,
    runs_of,
    serving_columns,
    table_of,
    take_words,
)

_ALL_BUT_SURE: Final = 0.995


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
    return table_of(options, chosen, f"Best options{at}, one per accelerator, by expected cost", details)


def how_sure(found: Decision, shown: Sequence[Option]) -> str:
    """Return how sure the first option is cheaper than the others shown, and which is cheaper if it holds."""
    best = shown[0]
    ranks = {option.rank for option in shown}
    safe = next((option for option in shown if option.role == "safe_pick"), None)
    (condition, first), lines = _doubt(best), list[str]()
    if safe is not None:
        lines.append(f"{safe.rank} is the safe pick")
    elif found.safe_pick is not None:
        lines.append(f"the safe pick is {beside_words(found.safe_pick)}")
    else:
        lines.append(f"no option is a safe pick: {first} 1 first")
    if best.role == "cheapest_if_it_holds":
        lines.append(f"1 is the cheapest if {condition}" + (f": {first} it first" if safe else ""))
    elif safe is not None and safe is not best:
        lines.append(f"1 costs less if {condition}: {first} it first")
    ties = [rank for rank in best.tie_with if rank in ranks]
    tied = [f"with {', '.join(map(str, ties))}"] if ties else []
    tied += [f"with {others} on the accelerators of 1"] if (others := _tied_variants(best)) else []
    if tied:
        lines.append(f"a tie {' and '.join(tied)} (less than 75 % sure which is cheaper)")
    chances = _surely_cheaper(found, ranks.difference(ties))
    bold = next((each for each in shown if each.role == "cheapest_if_it_holds" and each is not best), None)
    if bold is not None:
        chances += _saving(best, bold, str(bold.rank))
    bolder = [each for each in best.variants if each.role == "cheapest_if_it_holds"]
    apart = [f" {words}." for each in bolder for words in _saving(best, each, _other_words(best, each))]
    return "; ".join((*lines, *chances)) + "." + "".join(apart)


def _saving(best: Option, bold: Option, words: str) -> list[str]:
    """Return what an unsafe option saves if it holds; nothing if that is little."""
    saved = 1.0 - bold.served.usd_per_million_tokens.value / best.served.usd_per_million_tokens.value
    if saved < 1.0 - CHEAPER_IF_BELOW:
        return []
    condition, first = _doubt(bold)
    return [f"{words} saves {100 * saved:.0f} % if {condition}: {first} it first"]


def _other_words(best: Option, variant: Option) -> str:
    """Return the words for another deployment on the accelerator of the first option, or the same from elsewhere."""
    if variant.layout != best.layout or variant.offer is None:
        return f"On the same accelerator {beside_words(variant)}"
    return f"The same from {variant.offer.provider} for {usd(variant.bill.usd_per_hour)}/h"


def _surely_cheaper(found: Decision, ranks: Collection[int]) -> list[str]:
    """Return how sure the first option is cheaper than those of some ranks, by the one of which it is least so."""
    sure = [each for each in found.comparisons if each.rank in ranks and each.chance_first_is_cheaper >= 0.5]
    if not sure:
        return []
    least = min(each.chance_first_is_cheaper for each in sure)
    said = f"{100 * least:.0f} %" if least < _ALL_BUT_SURE else "more than 99 %"
    others = ", ".join(str(each.rank) for each in sure)
    return [
        f"{'at least ' if len(sure) > 1 and least < _ALL_BUT_SURE else ''}{said} sure it is cheaper than {others}"
    ]


def _doubt(option: Option) -> tuple[str, str]:
    """Return the condition on which an unsafe option depends, and what to do before it is taken."""
    unsure = [reason for reason in option.reasons if not isinstance(reason, UnsurePrice)]
    if unsure or option.levers.get("speculation"):
        return "it holds", "benchmark"
    age = option.offer.age_days if option.offer else 0
    price = "its undated price" if age is None else f"its price of {age} days ago"
    return f"{price} still stands", "ask about"


def _tied_variants(best: Option) -> str:
    """Return other engines, formats and layouts on the same accelerators that may cost as little."""
    found = dict.fromkeys(
        runs_of(each) + ("" if take_words(each) == take_words(best) else f" as {_replicas(each)}")
        for each in best.variants
        if each.tie_with
    )
    return " or ".join(found)


def start_words(option: Option) -> str:
    """Return the sentence that introduces the start command, with what comes before it."""
    checkpoint = option.started.checkpoint
    if checkpoint is not None and checkpoint.origin == "quantise first":
        return (
            f"No {option.replica_layout.weight_dtype} checkpoint is published: quantise {checkpoint.repository} first, "
            "then start each replica with"
        )
    if checkpoint is not None and checkpoint.origin == "convert first":
        kind = option.replica_layout.weight_dtype
        return f"Convert {checkpoint.repository} to a GGUF file in {kind} first, then start each replica with"
    unseen = checkpoint is not None and checkpoint.origin == "pattern"
    look = "; look whether the checkpoint is there" if unseen else ""
    which = (
        f"each of {option.replica_layout.num_replicas} replicas"
        if option.replica_layout.num_replicas > 1
        else "it"
    )
    if option.parts:
        which = "its parts"
    elif (nodes := nodes_of_replica(option.replica_layout.accelerators_per_replica, option.machine)) > 1:
        which += f" on {nodes} machines, of which HEAD is the first,"
    return f"Start {which} with{look}"


def start_command(option: Option) -> str:
    """Return the command of every replica, or one for each of its unlike parts."""
    limit_w = option.machine.power_limit_w
    if limit_w:
        return f"# once, as root: {' '.join(power_words(limit_w))}\n{option.started.command}"
    if not option.parts:
        layout = option.replica_layout
        plugin = plugin_for(by_id(layout.engine), layout.weight_dtype, layout.engine_version or "")
        once = (f"# once: pip install {plugin}",) if plugin else ()
        return "\n".join((*once, option.started.command))
    return "\n".join(
        f"# each of {part.replica_layout.num_replicas} for {part.share_words}\n{part.started.command}"
        for part in option.parts
    )


def _replicas(option: Option) -> str:
    limit_w = option.machine.power_limit_w
    limit = f" at {limit_w:.0f} W" if limit_w else ""
    return f"{replica_words(option)} replica{'s' if option.replica_layout.num_replicas > 1 else ''}{limit}"


def rejected_tables(rejected: Sequence[Rejected]) -> list[Block]:
    """Return accelerators that are not among the answers, those with the same reason together."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for entry in rejected:
        by_reason[str(entry.reason)].append(entry.accelerator)
    rows = tuple((", ".join(names), reason) for reason, names in by_reason.items())
    title = f"Rejected accelerators ({len(rejected)})"
    return [Table(columns("accelerator~ | reason~"), rows, title=title)] if rows else []


def rejected_words(rejected: Sequence[Rejected]) -> list[Block]:
    """Return the rejected accelerators as lines, one for each accelerator."""
    lines = [f"{item.accelerator}: {item.reason}" for item in rejected]
    return [Paragraph("\n".join(["Not among them:", *lines]))] if lines else []
