"""Ladder and options of a recommendation as tables, how sure their order is, and why others are not among them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from advisor.decide.power import power_words
from advisor.decide.ranking import LESS
from advisor.decide.result import ContextTier, Option, OptionPart, Recommendation, Rejected, Rung
from advisor.decide.scenario import Scenario
from advisor.render.answer import Block, Paragraph, Table, columns
from advisor.render.numbers import (
    MISSING,
    TIME,
    bought_words,
    degree_words,
    digits,
    price_words,
    rung,
    runs_words,
    show,
    usd,
    usd_range,
)
from advisor.simulator.quantity import Quantity

_ALL_BUT_SURE: Final = 0.995


def shown_rate(scenario: Scenario) -> float | None:
    """The load of the options that are shown [1/s]; None where it is not given."""
    return scenario.traffic.rate_per_s or (scenario.ladder_per_s[-1] if scenario.ladder_per_s else None)


def ladder_table(ladder: Sequence[Rung]) -> Table:
    """What to take for each of several loads."""
    rows = tuple(
        (f"{rung.clients:,}" if rung.clients else f"{rung.rate_per_s:g}/s", *_rung_cells(rung.pick))
        for rung in ladder
    )
    load = "clients" if ladder[0].clients else "requests"
    header = columns(f"{load}> | take~ | runs~? | $/h> | $/month>? | $/Mtok> | TTFT> | TPOT> | price~")
    return Table(header, rows, title="What to take for which load; 99 % of requests keep TTFT and TPOT")


def contexts_table(tiers: Sequence[ContextTier]) -> Table:
    """What to take for each of several context windows."""
    rows = tuple((f"{tier.max_context_tokens:,}", *_tier_cells(tier)) for tier in tiers)
    header = columns(
        "context> | take~ | runs~? | $/h> | $/month> | $/Mtok>? | at once> | full prompt> | window~"
    )
    title = "What each context window costs; at once: requests of that length; full prompt: its first token, alone"
    return Table(header, rows, title=title)


def _tier_cells(tier: ContextTier) -> tuple[str, ...]:
    pick = tier.pick
    if pick is None:
        return (MISSING, "", *(MISSING,) * 5, tier.reason)
    return (
        bought_words(pick),
        *_cost_cells(pick),
        str(tier.requests_at_once),
        show(tier.first_token_s, TIME),
        tier.verdict,
    )


def _cost_cells(pick: Option) -> tuple[str, ...]:
    """What runs, and what it costs by the hour, the month and the token."""
    return (
        runs_words(pick.engine, pick.weight_dtype),
        usd(pick.usd_per_hour),
        usd(pick.usd_per_month),
        usd(pick.usd_per_million_tokens.value),
    )


def _rung_cells(pick: Option | None) -> tuple[str, ...]:
    if pick is None:
        return (MISSING, "nothing carries it", *(MISSING,) * 6)
    return (
        take_words(pick),
        *_cost_cells(pick),
        p99_words(pick.ttft_s),
        p99_words(pick.tpot_s),
        price_words(pick.provider, pick.price.kind, pick.price.tenancy, pick.price.age_days),
    )


def options_table(
    options: Sequence[Option], scenario: Scenario, details: Sequence[Sequence[Block]] = ()
) -> Table:
    """The options as rows; how much each carries where the load is not the same for all. A page opens their details."""
    rate = shown_rate(scenario)
    at, runs = (f" at {rate:,g} requests/s", "runs~ | $/h>") if rate else ("", "runs~? | $/h> | req/s>")
    return Table(
        columns(f"#> | take~ | {runs} | $/Mtok~ | TTFT> | TPOT> | holds | price~ | basis?"),
        tuple(_option_row(option, rated=bool(rate)) for option in options),
        title=f"Best options{at}, one per accelerator, by expected cost",
        details=tuple(tuple(blocks) for blocks in details),
    )


def how_sure(found: Recommendation, shown: Sequence[Option]) -> str:
    """What the first option is, how sure it is cheaper than the others shown, and what is cheaper if it holds."""
    best, ranks = shown[0], {option.rank for option in shown}
    safe = next((option for option in shown if option.role == "safe_pick"), None)
    (condition, first), lines = _doubt(best), list[str]()
    lines.append(f"{safe.rank} is the safe pick" if safe else f"none is safe to take: {first} 1 first")
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
        saved = 1.0 - bold.usd_per_million_tokens.value / best.usd_per_million_tokens.value
        if saved >= 1.0 - LESS:
            condition, first = _doubt(bold)
            chances.append(f"{bold.rank} saves {100 * saved:.0f} % if {condition}: {first} it first")
    return "; ".join((*lines, *chances)) + "."


def _surely_cheaper(found: Recommendation, ranks: Collection[int]) -> list[str]:
    """How sure the first option is cheaper than those of some ranks, by the one of which it is least so."""
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
    """On what an option that is not safe to take depends, and what to do before it is taken."""
    sure = option.holds == "likely" and option.usd_per_million_tokens.basis != "assumed"
    if not sure or option.checkpoint.origin == "quantise first" or option.levers["speculation"]:
        return "it holds", "benchmark"
    age = option.price.age_days
    price = "its undated price" if age is None else f"its price of {age} days ago"
    return f"{price} still stands", "ask about"


def _tied_variants(best: Option) -> str:
    """Other engines, formats and layouts on the same accelerators that may cost as little."""
    found = dict.fromkeys(
        runs_words(each.engine, each.weight_dtype)
        + ("" if take_words(each) == take_words(best) else f" as {_replicas(each)}")
        for each in best.variants
        if each.tie_with
    )
    return " or ".join(found)


def start_words(option: Option) -> str:
    first = option.checkpoint.origin
    if first == "quantise first":
        return (
            f"Nobody published {option.weight_dtype}: quantise {option.checkpoint.repository} first, then start each "
            "replica with"
        )
    look = "; look whether the checkpoint is there" if first == "pattern" else ""
    which = f"each of {option.num_replicas} replicas" if option.num_replicas > 1 else "it"
    if option.parts:
        which = "its parts"
    return f"Start {which} with{look}"


def start_command(option: Option) -> str:
    """The command of every replica, or one for each of its unlike parts."""
    if option.power_limit_w:
        return f"# once, as root: {' '.join(power_words(option.power_limit_w))}\n{option.launch_command}"
    if not option.parts:
        return option.launch_command
    return "\n".join(
        f"# each of {part.num_replicas} for {part.words}\n{part.launch_command}" for part in option.parts
    )


def take_words(option: Option) -> str:
    """What is taken, part by part where a fleet has unlike ones: `4 x mi300x: 3 prefill + 1 decode`."""
    if not option.parts:
        limit = f" at {option.power_limit_w:.0f} W" if option.power_limit_w else ""
        return f"{bought_words(option)}{limit}"
    said = [f"{_workers(part)} {part.share}" for part in option.parts]
    names = dict.fromkeys(part.accelerator for part in option.parts)
    if len(names) > 1:
        said = [f"{bought_words(part)} {part.share}" for part in option.parts]
        return " + ".join(said)
    return f"{option.num_accelerators} x {option.accelerator}: {' + '.join(said)}"


def _workers(part: OptionPart | Option) -> str:
    inner = degree_words(TP=part.tensor_parallel, PP=part.pipeline_parallel, DP=part.data_parallel)
    return f"{part.num_replicas} x {inner}" if inner else f"{part.num_replicas}"


def _replicas(option: Option) -> str:
    limit = f" at {option.power_limit_w:.0f} W" if option.power_limit_w else ""
    return f"{_workers(option)} replica{'s' if option.num_replicas > 1 else ''}{limit}"


def _option_row(option: Option, *, rated: bool) -> tuple[str, ...]:
    load = () if rated else (digits(option.requests_per_s.value),)
    return (
        str(option.rank),
        take_words(option),
        runs_words(option.engine, option.weight_dtype),
        usd(option.usd_per_hour),
        *load,
        usd_range(option.usd_per_million_tokens),
        p99_words(option.ttft_s),
        p99_words(option.tpot_s),
        option.holds,
        price_words(option.provider, option.price.kind, option.price.tenancy, option.price.age_days),
        option.usd_per_million_tokens.basis,
    )


def p99_words(times: Mapping[str, Quantity]) -> str:
    """The 99th percentile of a time, short."""
    quantity = times.get("p99")
    if quantity is None:
        return MISSING
    factor, unit = rung(quantity.value, TIME)
    return f"{digits(quantity.value / factor, 2)} {unit}"


def rejected_tables(rejected: Sequence[Rejected]) -> list[Block]:
    """Accelerators that are not among the answers, those with the same reason together."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for entry in rejected:
        by_reason[entry.reason].append(entry.accelerator)
    rows = tuple((", ".join(names), reason) for reason, names in by_reason.items())
    title = f"Why not the other {len(rejected)} accelerators"
    return [Table(columns("accelerator~ | reason~"), rows, title=title)] if rows else []


def rejected_words(rejected: Sequence[Rejected]) -> list[Block]:
    """The same in lines, one for each accelerator."""
    lines = [f"{item.accelerator}: {item.reason}" for item in rejected]
    return [Paragraph("\n".join(["Not among them:", *lines]))] if lines else []
