"""The accelerators that a question allows and what they are offered for, rented or already there; stale prices."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, get_args

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog.prices import STALE_AFTER_DAYS
from advisor.catalog.providers import all_providers
from advisor.catalog.schema import Accelerator, Calibration, Price
from advisor.catalog.schema.price import Tenancy, Term
from advisor.recommend.offers import offers_by_accelerator, owned_offers
from advisor.recommend.scenario import Constraints
from advisor.simulator.calibrated_device import calibrated_accelerator

_LIMITS: Final = {
    "--tenancy": "tenancies",
    "--term": "terms",
    "--max-price-age": "max_price_age_days",
    "--region": "regions",
    "--residency": "countries",
    "--provider": "providers",
}
"""Options that leave offers out, the one to loosen first before the others."""


def market(
    constraints: Constraints, as_of: datetime.date, calibration: Calibration | None
) -> tuple[Mapping[str, tuple[Price, ...]], dict[str, Accelerator]]:
    """Offers and records by accelerator id; own hardware is offered at the price of its electricity.

    Raises: UnknownNameError: an accelerator or provider is not known. InputFileError: the price file is wrong.
        InfeasibleError: the power budget feeds no own hardware.
    """
    names = [name for _, name in constraints.own] or list(constraints.accelerators)
    records = [accelerator_catalog.by_id(name) for name in names]
    chips = {
        record.id: calibrated_accelerator(record, calibration)
        for record in records or accelerator_catalog.all_accelerators()
    }
    if not constraints.own:
        return offers_by_accelerator(constraints, as_of), chips
    return owned_offers(constraints.own, chips, as_of, constraints.power_budget_w), chips


def loosened(constraints: Constraints, as_of: datetime.date) -> str | None:
    """What to type so that something is for sale that is not now, by loosening one limit; None where none helps."""
    everything = {"tenancies": get_args(Tenancy), "terms": get_args(Term)}
    for option, field in _LIMITS.items():
        wider = (
            Constraints.model_fields[field].get_default() if field not in everything else everything[field]
        )
        offers = offers_by_accelerator(constraints.model_copy(update={field: wider}), as_of)
        if offers and field not in everything:
            return f"drop {option}"
        if offers:
            sold = (price for found in offers.values() for price in found)
            values = {price.tenancy if field == "tenancies" else price.term for price in sold}
            return f"{option} {','.join(sorted(values))}"
    return None


def seller_words(provider: str, price_kind: str) -> str:
    """Who sells and what kind of price it is where nobody lists or quotes it: `TensorWave (tracker price)`."""
    known = all_providers().get(provider)
    name = known.name if known else provider
    return name if price_kind in ("list", "quote") else f"{name} ({price_kind.replace('_', ' ')} price)"


class Priced(Protocol):
    """An option with the age of its price."""

    @property
    def price_age_days(self) -> int: ...


def stale_price_warnings(options: Sequence[Priced]) -> tuple[str, ...]:
    """How many prices are stale and how old the oldest is; empty where all are fresh."""
    stale = [option.price_age_days for option in options if option.price_age_days > STALE_AFTER_DAYS]
    if not stale:
        return ()
    return (
        f"{len(stale)} of {len(options)} prices are older than {STALE_AFTER_DAYS} days (oldest {max(stale)} days): "
        "check before you rent, or give your own with --price-file",
    )
