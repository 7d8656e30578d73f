"""Rented hardware that replaces a machine: the cheapest that is at least as fast."""

from dataclasses import dataclass
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.prices import COMPARED_KINDS, prices_as_of
from advisor.catalog.schema import Price
from advisor.workstation.economics import Rent
from advisor.workstation.hardware import Hardware
from advisor.workstation.performance import best_run
from advisor.workstation.plan import Question

COUNTS: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class RentMarket:
    """Hardware that can be rented for a question, cheapest first."""

    offers: tuple[Rent, ...]

    def cheapest(self, tokens_per_s: float) -> Rent | None:
        """Return the cheapest hardware with at least this rate; None if there is none."""
        return next((rent for rent in self.offers if rent.tokens_per_s >= tokens_per_s), None)


def rent_market(question: Question) -> RentMarket:
    """Return the accelerators of the price table that run the question's model, one offer for each number of them.

    Assumes: the price of one accelerator holds for several of the same offer, as marketplaces bill; a node that is
    sold whole is rented whole.
    Source: catalog.prices, on demand, on the question's day; simulator.
    """
    cheapest: dict[str, Price] = {}
    for price in prices_as_of(question.as_of, kinds=COMPARED_KINDS, cache_dir=question.price_cache):
        cheapest.setdefault(price.accelerator, price)
    found = [rent for price in cheapest.values() for rent in _offers(price, question)]
    return RentMarket(tuple(sorted(found, key=lambda rent: (rent.usd_per_hour, rent.accelerator))))


def _offers(price: Price, question: Question) -> list[Rent]:
    record = accelerators.by_id(price.accelerator)
    if not record.is_ranked:
        return []
    rents = []
    for num in COUNTS:
        if num < price.num_accelerators:
            continue
        run = best_run(Hardware(record.id, num, bridged=True), question.load)
        if run is None:
            continue
        speed = run.output_tokens_per_s.value
        rents.append(
            Rent(
                record.id,
                num,
                num * price.usd_per_accelerator_hour,
                f"{price.provider} {price.sku}",
                price.observed_on,
                speed,
            )
        )
    return rents
