"""How sure the order of serving options is, in one sentence for `recommend` and `cost`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from advisor.decide.decision import Comparison
from advisor.decide.option import Option
from advisor.decide.ranking import CHEAPER_IF_BELOW
from advisor.decide.reason import UnsurePrice
from advisor.decide.safe_picks import MOST_FOR_SAFETY, no_safe_pick_near
from advisor.render.numbers import usd
from advisor.render.option_table import beside_words, replica_words, runs_of, take_words

_ALL_BUT_SURE: Final = 0.995
"""Chance from which on it is called more than 99 %: it would be rounded to certainty."""


def how_sure(shown: Sequence[Option], safe_pick: Option | None, comparisons: Sequence[Comparison]) -> str:
    """Return how sure the first option is cheaper than each of the others shown, and which is cheaper if it holds.

    `safe_pick` may be none of the options shown.
    """
    best = shown[0]
    ranks = {option.rank for option in shown}
    safe = next((option for option in shown if option.role == "safe_pick"), None)
    (condition, first), lines = _doubt(best), list[str]()
    if safe is not None:
        lines.append(f"{safe.rank} is the safe pick")
    elif safe_pick is not None:
        ratio = safe_pick.bill.usd_per_hour / best.bill.usd_per_hour if best.bill.usd_per_hour else 1.0
        is_near = ratio <= MOST_FOR_SAFETY
        words = beside_words(safe_pick)
        lines.append(f"the safe pick is {words}" if is_near else no_safe_pick_near(words, ratio))
    else:
        lines.append(f"no option is a safe pick: {first} 1 first")
    if best.role == "cheapest_if_it_holds":
        lines.append(f"1 is the cheapest if {condition}" + (f": {first} it first" if safe else ""))
    elif safe is not None and safe is not best:
        lines.append(f"1 costs less if {condition}: {first} it first")
    ties = [rank for rank in best.tie_with if rank in ranks]
    tied = [f"with {_ranks(ties)}"] if ties else []
    tied += [f"with {others} on the accelerators of 1"] if (others := _tied_variants(best)) else []
    if tied:
        lines.append(f"a tie {' and '.join(tied)} (less than 75 % sure which is cheaper)")
    compared = [each for each in comparisons if each.rank in ranks.difference(ties)]
    chances = _chances(compared)
    # A row that costs less and stands lower would look like a mistake of the order: each says what it depends on.
    for each in shown[1:]:
        chances += _saving(best, each, str(each.rank))
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
    return f"The same from {variant.offer.source_words} for {usd(variant.bill.usd_per_hour)}/h"


def _chances(compared: Sequence[Comparison]) -> list[str]:
    """Return how sure the first option is cheaper than others, and which others are likely cheaper, each by the one of
    which it is least so."""
    chances = {each.rank: each.chance_first_is_cheaper for each in compared}
    dearer = {rank: chance for rank, chance in chances.items() if chance >= 0.5}
    cheaper = {rank: 1.0 - chance for rank, chance in chances.items() if chance < 0.5}
    found = []
    if dearer:
        found.append(f"{_least(dearer)} sure it is cheaper than {_ranks(dearer)}")
    if cheaper:
        found.append(f"{_least(cheaper)} sure {_ranks(cheaper)} cost{'s' if len(cheaper) == 1 else ''} less")
    return found


def _ranks(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, ranks))


def _least(chances: Mapping[int, float]) -> str:
    """Return the smallest of several chances in words."""
    least = min(chances.values())
    if least >= _ALL_BUT_SURE:
        return "more than 99 %"
    return f"{'at least ' if len(chances) > 1 else ''}{100 * least:.0f} %"


def _doubt(option: Option) -> tuple[str, str]:
    """Return the condition on which an unsafe option depends, and what to do before it is taken."""
    unsure = [reason for reason in option.reasons if not isinstance(reason, UnsurePrice)]
    is_price_unsure = len(unsure) < len(option.reasons)
    if unsure or option.levers.get("speculation") or not is_price_unsure:
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


def _replicas(option: Option) -> str:
    limit_w = option.machine.power_limit_w
    limit = f" at {limit_w:.0f} W" if limit_w else ""
    return f"{replica_words(option)} replica{'s' if option.replica_layout.num_replicas > 1 else ''}{limit}"
