"""Rented hardware that replaces a machine: the cheapest that is at least as fast."""

from dataclasses import dataclass, field
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
    """Hardware that can be rented for a question, cheapest first; each offer is predicted when it is first compared."""

    offers: tuple[tuple[Price, int], ...]
    """Price and number of accelerators of each offer."""
    question: Question | None = None
    _rates: dict[int, float] = field(default_factory=dict)
    """Decode rate by place in `offers` [tokens/s]; 0 where the model does not fit."""

    def cheapest(self, tokens_per_s: float) -> Rent | None:
        """Return the cheapest hardware with at least this rate; None if there is none."""
        for place, (price, num) in enumerate(self.offers):
            rate = self._rate_of(place)
            if rate > 0 and rate >= tokens_per_s:
                return Rent(
                    price.accelerator,
                    num,
                    num * price.usd_per_accelerator_hour,
                    f"{price.provider} {price.sku}",
                    price.observed_on,
                    rate,
                )
        return None

    def _rate_of(self, place: int) -> float:
        if place not in self._rates:
            price, num = self.offers[place]
            hardware = Hardware(price.accelerator, num, bridged=True)
            run = best_run(hardware, self.question.load) if self.question else None
            self._rates[place] = run.output_tokens_per_s.value if run else 0.0
        return self._rates[place]


def rent_market(question: Question) -> RentMarket:
    """Return the accelerators of the price table for the question's model, one offer for each number of them.

    Assumes: the price of one accelerator holds for several of the same offer, as marketplaces bill; a node that is
    sold whole is rented whole.
    Source: catalog.prices, on demand, on the question's day; simulator.
    """
    cheapest: dict[str, Price] = {}
    for price in prices_as_of(question.as_of, kinds=COMPARED_KINDS, cache_dir=question.price_cache):
        cheapest.setdefault(price.accelerator, price)
    found = [
        (price, num)
        for price in cheapest.values()
        if accelerators.by_id(price.accelerator).is_ranked
        for num in COUNTS
        if num >= price.num_accelerators
    ]
    found.sort(key=lambda offer: (offer[1] * offer[0].usd_per_accelerator_hour, offer[0].accelerator))
    return RentMarket(tuple(found), question)
