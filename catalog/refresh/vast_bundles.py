"""Market of Vast.ai: single offers of many hosts as JSON; a price is the median of an accelerator's verified offers."""

import datetime
import math
from collections import defaultdict
from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from advisor.catalog.refresh.quote import FeedError, Quote, number, read_document, require_fields
from advisor.catalog.units import MIB

ADDRESS: Final = "https://console.vast.ai/api/v0/bundles/"
QUERY: Final[dict[str, object]] = {
    "rentable": {"eq": True},
    "rented": {"eq": False},
    "verified": {"eq": True},
    "type": "on-demand",
    "limit": 3000,
    "order": [["score", "desc"]],
}
"""Body of the request.

Source: docs.vast.ai, search offers."""
LEAST_OFFERS: Final = 3
"""Minimum number of offers for a median; fewer are not a market."""


def parse_bundles(text: str, url: str, observed_on: datetime.date) -> list[Quote]:
    """Return a quote per accelerator and memory size: the median price of one accelerator over hosts, on demand and
    spot.

    Raises: FeedError: the text does not follow the documented format.
    """
    page = read_document(text)
    if not isinstance(page, dict) or not isinstance(page.get("offers"), list):
        raise FeedError("no list of offers")
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for offer in page["offers"]:
        if not isinstance(offer, dict):
            raise FeedError("an offer is no record")
        require_fields(offer, "gpu_name", "num_gpus", "gpu_ram", "dph_base")
        groups[str(offer["gpu_name"]), _gib(offer["gpu_ram"])].append(offer)
    return [
        quote
        for (name, size), offers in sorted(groups.items())
        if len(offers) >= LEAST_OFFERS
        for quote in _quotes(name, size, offers, url, observed_on)
    ]


def _gib(mebibytes: object) -> int:
    """Memory rounded to the nearest 8 GiB [GiB], because hosts report slightly less than the board has."""
    size = number(mebibytes)
    return round(size / 1024 / 8) * 8 if math.isfinite(size) else 0


def _price_each(offer: Mapping[str, object], field: str) -> float:
    """Price of one accelerator [USD/h]; NaN if the offer does not state it."""
    count = number(offer["num_gpus"])
    return number(offer[field]) / count if count > 0 else math.nan


def _quotes(
    name: str, size_gib: int, offers: list[dict[str, Any]], url: str, observed_on: datetime.date
) -> list[Quote]:
    found = []
    for term, field in (("on_demand", "dph_base"), ("spot", "min_bid")):
        stated = [offer for offer in offers if field in offer]
        prices = [_price_each(offer, field) for offer in stated]
        known = [price for price in prices if 0 < price < math.inf]
        if len(stated) < LEAST_OFFERS:
            continue
        found.append(
            Quote(
                provider="vast",
                sku=f"{name.lower().replace(' ', '-')}-{size_gib}gb-median",
                region="any",
                term="spot" if term == "spot" else "on_demand",
                # Without enough prices for a market, the row is refused and the old one stays.
                usd_per_hour=round(median(known), 4) if len(known) >= LEAST_OFFERS else math.nan,
                url=url,
                observed_on=observed_on,
                gpu=name,
                tenancy="unknown",
                price_kind="marketplace_median",
                num_accelerators=1,
                memory_bytes=median(number(offer["gpu_ram"]) for offer in offers) * MIB,
            )
        )
    return found
