"""Prices of the catalog as answers: what an hour costs, where, and how old that knowledge is."""

import datetime
from collections.abc import Mapping, Sequence

from advisor.catalog.prices import STALE_AFTER_DAYS, age_days, is_stale
from advisor.catalog.schema import Price
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import usd
from advisor.render.serialize import Json, to_json


def prices_answer(
    prices: Sequence[Price], note: str, *, as_of: datetime.date, filters: Mapping[str, object]
) -> Answer:
    """A listing of prices with their age on the day asked for."""
    providers = {price.provider for price in prices}
    return Answer(
        result={"prices": [price_row(price, as_of) for price in prices]},
        inputs=filters,
        blocks=(
            Table(
                columns("accelerator | provider | sku~ | region~ | n> | term | $/h> | $/h each> | days old>"),
                tuple(_cells(price, as_of) for price in prices),
            ),
            Paragraph(f"{len(prices)} offers of {len(providers)} providers, as known on {as_of}."),
        ),
        records="prices",
        warnings=stale_warnings(prices, as_of),
        notes=(note,) if note else (),
    )


def price_row(price: Price, as_of: datetime.date) -> dict[str, Json]:
    """A price with what follows from it on a day."""
    content = to_json(price)
    if not isinstance(content, dict):
        raise TypeError("a price is a record")
    return content | {
        "usd_per_accelerator_hour": price.usd_per_accelerator_hour,
        "age_days": age_days(price, as_of),
        "is_stale": is_stale(price, as_of),
    }


def stale_warnings(prices: Sequence[Price], as_of: datetime.date) -> tuple[str, ...]:
    """One sentence if some prices were read too long before the day, with the range of their age."""
    ages = sorted(age_days(price, as_of) for price in prices if is_stale(price, as_of))
    if not ages:
        return ()
    span = f"{ages[0]} days" if ages[0] == ages[-1] else f"{ages[0]} to {ages[-1]} days"
    which = "the price is" if len(prices) == 1 else f"{len(ages)} of {len(prices)} prices are"
    return (f"{which} {span} old on {as_of} (stale after {STALE_AFTER_DAYS}): check before you buy",)


def _cells(price: Price, as_of: datetime.date) -> tuple[str, ...]:
    return (
        price.accelerator,
        price.provider,
        price.sku,
        price.region,
        str(price.num_accelerators),
        price.term,
        usd(price.usd_per_hour),
        usd(price.usd_per_accelerator_hour),
        str(age_days(price, as_of)),
    )
