"""Which prices a filter keeps, and in which order."""

import datetime
from dataclasses import asdict
from typing import get_args

from advisor.catalog import accelerators, prices
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Price
from advisor.catalog.schema.price import Term
from advisor.cli.kept_prices import kept_prices
from advisor.cli.known import known_value
from advisor.commands.catalog.options import PricesInput


def inputs_of(asked: PricesInput) -> dict[str, object]:
    """What decides the list, resolved."""
    return asdict(asked) | {
        "gpu": accelerators.get(asked.gpu).record.id if asked.gpu else None,
        "term": terms_of(asked.term),
        "price_cache": kept_prices(),
    }


def terms_of(text: str) -> list[str]:
    """Terms named, with `-` or `_`; `all` is every one.

    Raises: UnknownNameError: there is no such term.
    """
    if text == "all":
        return list(get_args(Term))
    names = [name.strip().replace("-", "_") for name in text.split(",")]
    for name in names:
        known_value(name, get_args(Term), "term")
    return names


def select_prices(wanted: PricesInput, as_of: datetime.date) -> tuple[list[Price], str]:
    """Prices that pass every filter, in the order asked for, and a note on what was understood.

    Raises: UnknownNameError: no such accelerator, provider or term.
    Raises: InfeasibleError: nothing passes all filters on that day.
    """
    gpu, note = accelerators.get(wanted.gpu) if wanted.gpu else (None, "")
    found = prices.prices_as_of(
        as_of,
        providers=[name.strip() for name in wanted.provider.split(",")] if wanted.provider else None,
        terms=terms_of(wanted.term),
        accelerators=[gpu.id] if gpu else None,
        user_file=wanted.price_file,
        cache_dir=kept_prices(),
    )
    kept = [price for price in found if price.region.startswith(wanted.region or "")]
    if not kept:
        raise _none_known(wanted, as_of, gpu.id if gpu else None)
    if wanted.sort == "price":
        kept.sort(key=lambda price: price.usd_per_accelerator_hour)
    elif wanted.sort == "provider":
        kept.sort(key=lambda price: (price.provider, price.usd_per_accelerator_hour))
    elif wanted.sort == "age":
        kept.sort(key=lambda price: price.observed_on, reverse=True)
    return kept, note


def _none_known(wanted: PricesInput, as_of: datetime.date, gpu: str | None) -> InfeasibleError:
    """The failure, with the terms under which the accelerator was on offer that day, if it was."""
    elsewhere = prices.prices_as_of(
        as_of,
        terms=get_args(Term),
        accelerators=[gpu] if gpu else None,
        user_file=wanted.price_file,
        cache_dir=kept_prices(),
    )
    offers = sorted({f"{price.provider} ({price.term})" for price in elsewhere})
    return InfeasibleError(
        f"no price{f' of {gpu}' if gpu else ''} passes all filters on {as_of}",
        why="no row that was known on that day fits provider, term and region",
        fix="loosen one filter, or give your own prices with --price-file",
        hint=f"known on that day: {', '.join(offers[:8])}" if offers else "",
    )
