"""Retail price API of Azure: pages of meters as JSON, in US dollars, without a key."""

import datetime
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from advisor.catalog.refresh.quote import FeedError, Quote, day, number, read_document, require_fields
from advisor.catalog.schema.price import Term
from advisor.catalog.units import DAY_S, HOUR_S

ORIGIN: Final = "https://prices.azure.com"
PATH: Final = "/api/retail/prices"
REGIONS: Final = ("eastus", "eastus2", "westus3", "westeurope")
"""Regions that a refresh requests by default."""
_YEARS: Final[dict[str, tuple[Term, int]]] = {"1 Year": ("reserved_1y", 1), "3 Years": ("reserved_3y", 3)}
_DAYS_PER_YEAR: Final = 365


def first_page(region: str, origin: str = ORIGIN) -> str:
    """Return the address of the first page of a region's machines with accelerators (the N family).

    Source: learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices.
    """
    wanted = f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}' and contains(armSkuName, 'Standard_N')"
    return f"{origin}{PATH}?{urlencode({'api-version': '2023-01-01-preview', '$filter': wanted})}"


def parse_page(text: str, url: str, observed_on: datetime.date) -> tuple[list[Quote], str]:
    """Return the quotes of one page, and the address of the next page or an empty string.

    Windows, low-priority and developer-test meters are other products and are left out. A reservation's price
    covers the whole term; it is spread here over the term's hours.

    Raises: FeedError: the text does not follow the documented format.
    """
    page = read_document(text)
    if not isinstance(page, dict) or not isinstance(page.get("Items"), list):
        raise FeedError("no list of Items")
    quotes = [quote for item in page["Items"] if (quote := _quote(item, url, observed_on)) is not None]
    return quotes, str(page.get("NextPageLink") or "")


def _quote(item: object, url: str, observed_on: datetime.date) -> Quote | None:
    if not isinstance(item, dict):
        raise FeedError("an item is no record")
    require_fields(
        item, "armSkuName", "armRegionName", "retailPrice", "productName", "skuName", "type", "currencyCode"
    )
    if "Windows" in str(item["productName"]) or "Low Priority" in str(item["skuName"]):
        return None
    term = _term(item)
    usd_per_hour = number(item["retailPrice"])
    if term is None:
        return None
    if term in ("reserved_1y", "reserved_3y"):
        _, years = _YEARS[str(item["reservationTerm"])]
        usd_per_hour /= years * _DAYS_PER_YEAR * DAY_S / HOUR_S
    return Quote(
        provider="azure",
        sku=str(item["armSkuName"]),
        region=str(item["armRegionName"]),
        term=term,
        usd_per_hour=usd_per_hour,
        url=url,
        observed_on=observed_on,
        valid_from=day(item.get("effectiveStartDate")),
        currency=str(item["currencyCode"]),
    )


def _term(item: Mapping[str, Any]) -> Term | None:
    """Return the term of a meter; None for other products."""
    if item["type"] == "Reservation":
        require_fields(item, "reservationTerm")
        years = _YEARS.get(str(item.get("reservationTerm")))
        return years[0] if years else None
    if item["type"] != "Consumption":
        return None
    return "spot" if "Spot" in str(item["skuName"]) else "on_demand"
