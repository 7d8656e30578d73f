"""Safe picks and the first option of lists for items, jobs and training runs; `ranking` does the same for served
deployments.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Protocol, TypeVar

from advisor.catalog.prices import price_age_days
from advisor.catalog.schema import Price
from advisor.catalog.units import plain_number, usd_words
from advisor.decide.certainty import LIKELY
from advisor.decide.offers import price_spread_of
from advisor.decide.option import Bill, Machine, Offer, Role
from advisor.decide.ranking import CHEAPER_IF_BELOW, is_firm, move_to_front
from advisor.decide.reason import AssumedKernels, MayNotHold, Reason, UnsurePrice
from advisor.simulator.quantity import Basis, Quantity

BLOCK: Final = 5
"""Options that are ranked together, however many are asked for."""
MOST_FOR_SAFETY: Final = 5.0
"""Cost of a safe pick over that of the first option up to which it is named as an alternative to it. Own choice: no
error of a price or of the model is as large."""
SAFE: Final = 2
"""Trust level of an option that may be listed first."""


class Ranked(Protocol):
    """An option of a list: a frozen dataclass with a place and a role."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def rank(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def offer(self) -> Offer | None: ...
    @property
    def bill(self) -> Bill: ...
    @property
    def variants(self) -> Sequence["Ranked"]: ...
    @property
    def reasons(self) -> tuple[Reason, ...]: ...


Option = TypeVar("Option", bound=Ranked)


def doubts_of(basis: Basis, price: Price, as_of: datetime.date) -> tuple[Reason, ...]:
    """Why an option is not safe to take; none where it is."""
    found: list[Reason] = [AssumedKernels()] if basis == "assumed" else []
    if not is_firm(price, price_spread_of(price, as_of)):
        found.append(UnsurePrice(price.price_kind, price.tenancy, price_age_days(price, as_of)))
    return tuple(found)


def doubt_of_limit(predicted: Quantity, limit: float) -> tuple[Reason, ...]:
    """Why an option with a limit of time is not safe to take; none where it is likely to keep it."""
    chance = predicted.chance_below(limit)
    return () if chance >= LIKELY else (MayNotHold(chance),)


def order_by_trust(
    options: Sequence[Option],
    prices: Sequence[Price],
    cost: Callable[[Option], Quantity],
    as_of: datetime.date,
) -> tuple[Option, ...]:
    """Return options, cheapest first, in their places and roles: one of assumed kernels, of tight memory, with a limit
    that it may miss, or of an old price, a tracker's or a shared host's, does not head the list while a safe
    one, or else one that keeps its limit, may cost no more.

    Places and roles depend on the first five alone; further options stay behind them.
    """
    if not options:
        return ()
    options, more, prices = options[:BLOCK], options[BLOCK:], prices[:BLOCK]
    trusts = [
        (min(trust_of(cost(each).basis, price, as_of), SAFE - 1 if doubts else SAFE), not doubts)
        for each, price in zip(options, prices, strict=True)
        for doubts in (is_doubtful(each),)
    ]
    cheapest = options[0]
    leader = options[trusts.index(max(trusts))]
    order = move_to_front(options, leader, lambda first, other: cost(first).high >= cost(other).low)
    roles: dict[int, Role] = {}
    if trusts[0][0] < SAFE:
        roles[id(cheapest)] = "cheapest_if_it_holds"
    if max(trusts)[0] == SAFE:
        roles[id(leader)] = "safe_pick"
    return tuple(
        replace(option, rank=rank, role=roles.get(id(option), "other"))
        for rank, option in enumerate((*order, *more), 1)
    )


def safe_pick_of(options: Sequence[Option]) -> Option | None:
    """The option with the role of the safe pick; None where there is none."""
    return next((option for option in options if option.role == "safe_pick"), None)


def with_safest(
    options: tuple[Option, ...], safest: Option | None, cost: Callable[[Option], tuple[float, ...]]
) -> tuple[tuple[Option, ...], Option | None]:
    """Return the options and the safe pick, which is not among the options where it is better than all safe ones of
    the list. An option of the list that is the same deployment has its role."""
    listed = safe_pick_of(options)
    if safest is None or (listed is not None and cost(safest) >= cost(listed)):
        return options, listed
    others = (replace(each, role="other") if each is listed else each for each in options)
    marked = tuple(replace(each, role="safe_pick") if _is_same(each, safest) else each for each in others)
    return marked, replace(safest, role="safe_pick")


def _is_same(option: Option, other: Option) -> bool:
    """Whether two options are one deployment at one price, whatever their places are."""
    return option == replace(other, rank=option.rank, role=option.role, variants=option.variants)


def safe_pick_words(
    options: Sequence[Option], cost: Callable[[Option], Quantity], safe_pick: Option | None = None
) -> str:
    """Whether the first option is safe to take, and what another saves if it holds; `safe_pick` may be none of them."""
    first = options[0]
    safe = safe_pick_of(options)
    bold = next((each for each in options if each.role == "cheapest_if_it_holds"), None)
    if safe is not None:
        words = [f"{safe.rank} is the safe pick"]
    elif safe_pick is not None:
        ratio = cost(safe_pick).value / cost(first).value
        words = [
            f"the safe pick is {_machine_and_cost(safe_pick)}, which costs {plain_number(ratio)} times as much as 1"
            if ratio <= MOST_FOR_SAFETY
            else no_safe_pick_near(_machine_and_cost(safe_pick), ratio)
        ]
    else:
        words = [f"no option is a safe pick: {_doubt(first)[1]} 1 first"]
    if safe_pick is not None and first is not bold and first.role != "safe_pick":
        words.append(f"1 costs less if {_doubt(first)[0]}")
    if bold is not None and safe is None:
        words.append(f"{bold.rank} is the cheapest if {_doubt(bold)[0]}")
    elif bold is not None and safe is not None:
        ratio = cost(bold).value / cost(safe).value
        if ratio <= CHEAPER_IF_BELOW:
            words.append(_saving(f"{bold.rank} saves {100.0 * (1.0 - ratio):.0f} %", bold))
    variant = next((each for each in first.variants if each.role == "cheapest_if_it_holds"), None)
    if variant is not None:
        words.append(_saving(_variant_words(first, variant), variant))
    return f"{'; '.join(words)}."


def no_safe_pick_near(words: str, ratio: float) -> str:
    """Return the words for a safe pick that costs `ratio` times as much as the first option: too much to be one."""
    return (
        f"no option near the cost of 1 is a safe pick: the cheapest that is, {words}, costs {plain_number(ratio)} "
        "times as much as 1"
    )


def _saving(what: str, option: Ranked) -> str:
    condition, act = _doubt(option)
    return f"{what} if {condition}: {act} it first"


def _doubt(option: Ranked) -> tuple[str, str]:
    """Return the condition on which an unsafe option depends, and what to do before it is taken."""
    must_be_tried = any(not isinstance(reason, UnsurePrice) for reason in option.reasons)
    return ("it holds", "try") if must_be_tried else ("its price still stands", "ask about")


def _variant_words(option: Ranked, variant: Ranked) -> str:
    """Return the words for the cost of an option's accelerators in another number, or elsewhere."""
    rent = f"{usd_words(variant.bill.usd_per_hour)}/h"
    if variant.machine == option.machine and variant.offer is not None:
        return f"the same from {variant.offer.source_words} costs {rent}"
    return f"{_machine_words(variant)} cost{'s' if variant.machine.num_accelerators == 1 else ''} {rent}"


def is_doubtful(option: Ranked) -> bool:
    """Whether there is a doubt besides the kernels and the price: only the expected peak of memory fits and not its
    whole interval, a limit is not likely to be kept, or the engine may not have the model's class."""
    return any(not isinstance(reason, AssumedKernels | UnsurePrice) for reason in option.reasons)


def _machine_and_cost(option: Ranked) -> str:
    return f"{_machine_words(option)} for {usd_words(option.bill.usd_per_hour)}/h"


def _machine_words(option: Ranked) -> str:
    seller = f"from {option.offer.source_words}" if option.offer else "of your own"
    return f"{option.machine.num_accelerators} x {option.machine.accelerator} {seller}"


def trust_of(basis: Basis, price: Price, as_of: datetime.date) -> int:
    """Trust level of kernels and price. 2: kernels measured and a provider's own fresh price; 1: an old price of its
    own; 0: kernels assumed, or a price that another source states."""
    if basis == "assumed":
        return 0
    if is_firm(price, price_spread_of(price, as_of)):
        return SAFE
    return int(price.tenancy == "dedicated" and price.price_kind in ("list", "quote"))
