"""The option that may be listed first for items, jobs or training runs; `ranking` does the same for served
deployments.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Protocol, TypeVar

from advisor.catalog.prices import age_days, spread_of
from advisor.catalog.schema import Price
from advisor.decide.certainty import LIKELY
from advisor.decide.offers import OWN
from advisor.decide.option import Bill, Machine, Offer, Role
from advisor.decide.purchase import usd_words
from advisor.decide.ranking import CHEAPER_IF_BELOW, is_firm, move_to_front
from advisor.decide.reason import AssumedKernels, MayNotHold, Reason, TightMemory, UnsurePrice
from advisor.simulator.quantity import Basis, Quantity

BLOCK: Final = 5
"""Options that are ranked together, however many are asked for."""
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
    if price.provider != OWN and not is_firm(price, spread_of(price, as_of)):
        age = age_days(price, as_of) if price.is_dated else None
        found.append(UnsurePrice(price.price_kind, price.tenancy, age))
    return tuple(found)


def doubt_of_limit(predicted: Quantity, limit: float) -> tuple[Reason, ...]:
    """Why an option with a limit of time is not safe to take; none where it is likely to keep it."""
    chance = predicted.chance_below(limit)
    return () if chance >= LIKELY else (MayNotHold(chance),)


def by_standing(
    options: Sequence[Option],
    prices: Sequence[Price],
    cost: Callable[[Option], Quantity],
    as_of: datetime.date,
) -> tuple[Option, ...]:
    """Return options, cheapest first, in their places and roles: one of assumed kernels, of tight memory, with a limit
    that it may miss, or of an old price, a tracker's or a shared host's, does not head the list while a better founded
    one may cost no more.

    Places and roles depend on the first five alone; further options stay behind them.
    """
    if not options:
        return ()
    options, more, prices = options[:BLOCK], options[BLOCK:], prices[:BLOCK]
    standings = [
        min(standing_of(cost(each).basis, price, as_of), SAFE - 1 if is_doubtful(each) else SAFE)
        for each, price in zip(options, prices, strict=True)
    ]
    cheapest = options[0]
    leader = options[standings.index(max(standings))]
    order = move_to_front(options, leader, lambda first, other: cost(first).high >= cost(other).low)
    roles: dict[int, Role] = {}
    if standings[0] < SAFE:
        roles[id(cheapest)] = "cheapest_if_it_holds"
    if max(standings) == SAFE:
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
    """The options and the safe pick, which stands beside the list where no safe option of it is as good."""
    listed = safe_pick_of(options)
    if safest is None or (listed is not None and cost(safest) >= cost(listed)):
        return options, listed
    others = tuple(replace(each, role="other") if each is listed else each for each in options)
    return others, replace(safest, role="safe_pick")


def standing_words(
    options: Sequence[Option], cost: Callable[[Option], Quantity], safe_pick: Option | None = None
) -> str:
    """Whether the first option is safe to take, and what another saves if it holds; `safe_pick` may be none of them."""
    safe = safe_pick_of(options)
    if safe is not None:
        words = f"{safe.rank} is the safe pick"
    elif safe_pick is not None:
        ratio = cost(safe_pick).value / cost(options[0]).value
        words = f"the safe pick is {_beside(safe_pick)}, which costs {ratio:.3g} times as much as 1"
    else:
        words = "no option is a safe pick: try 1 first"
    bold = next((each for each in options if each.role == "cheapest_if_it_holds"), None)
    if bold is None:
        return f"{words}{_elsewhere(options[0])}."
    must_be_tried = cost(bold).basis == "assumed" or is_doubtful(bold)
    condition, first = ("it holds", "try it") if must_be_tried else ("its price still stands", "ask")
    if safe is None:
        return f"{words}; {bold.rank} is the cheapest if {condition}."
    ratio = cost(bold).value / cost(safe).value
    if ratio > CHEAPER_IF_BELOW:
        return f"{words}."
    return f"{words}; {bold.rank} saves {100.0 * (1.0 - ratio):.0f} % if {condition}: {first} first."


def _elsewhere(option: Ranked) -> str:
    """Say what the accelerators of an option cost at a lower price that is less firm."""
    found = next((each for each in option.variants if each.role == "cheapest_if_it_holds"), None)
    if found is None or found.offer is None:
        return ""
    rent = usd_words(found.bill.usd_per_hour)
    return f"; the same from {found.offer.provider} costs {rent}/h if its price still stands: ask first"


def is_doubtful(option: Ranked) -> bool:
    """Whether only the expected peak of memory fits and not its whole interval, or a limit is not likely to be kept."""
    return any(isinstance(reason, TightMemory | MayNotHold) for reason in option.reasons)


def _beside(option: Ranked) -> str:
    """An option that is not among those that are shown."""
    machine = f"{option.machine.num_accelerators} x {option.machine.accelerator}"
    seller = f" from {option.offer.provider}" if option.offer else " of one's own"
    return f"{machine}{seller} for {usd_words(option.bill.usd_per_hour)}/h"


def standing_of(basis: Basis, price: Price, as_of: datetime.date) -> int:
    """2: kernels measured and a seller's own fresh price; 1: an old one; 0: something is assumed or foreign."""
    if basis == "assumed":
        return 0
    if price.provider == OWN or is_firm(price, spread_of(price, as_of)):
        return SAFE
    return int(price.tenancy == "dedicated" and price.price_kind in ("list", "quote"))
