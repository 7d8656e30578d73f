"""How far a price may have moved since it was read."""

import datetime
import functools
import math
from typing import Any, Final, NamedTuple

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.prices import age_days
from advisor.catalog.schema.price import Price

_CLASS_OF_KIND: Final = {
    "list": "list", "quote": "list", "from": "tracker", "tracker": "tracker", "marketplace_median": "marketplace",
    "marketplace_min": "marketplace", "spot": "spot",
}  # fmt: skip


class PriceSpread(NamedTuple):
    """Mean and standard deviation of ln(price today / price read)."""

    drift: float
    sigma: float


def price_spread(age_days: float | None, kind: str) -> PriceSpread:
    """Mean and standard deviation of the logarithm by which a price has moved since it was read.

    drift · days, √(start² + spread² · days); an unknown age counts as the oldest that was fitted, and none as older.

    Assumes: `kind` is a price's kind, or spot for prices at that term; a quote ages as a list does, a price "from" as
        a tracker's.
    Raises: KeyError: there is no such kind.
    Source: data/price_age.toml, fitted by tools/fit_price_age.py on pairs of readings of the same offer.
    """
    table = _table()
    entry = table[_CLASS_OF_KIND[kind]]
    oldest = float(table["oldest_days"])
    days = oldest if age_days is None else min(max(age_days, 0.0), oldest)
    sigma = math.hypot(entry["start"], entry["spread_per_root_day"] * math.sqrt(days))
    return PriceSpread(float(table["drift_per_day"]) * days, sigma)


def spread_of(price: Price, as_of: datetime.date) -> PriceSpread:
    """The same of one price on a day: by its kind, or as spot where it is; without a date as the oldest.

    Source: price_spread.
    """
    age = age_days(price, as_of) if price.is_dated else None
    return price_spread(age, "spot" if price.term == "spot" else price.price_kind)


@functools.cache
def _table() -> dict[str, Any]:
    return read_toml(DATA_DIR / "price_age.toml")
