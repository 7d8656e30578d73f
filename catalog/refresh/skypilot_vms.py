"""Catalogue of SkyPilot: a CSV per cloud, kept in a repository; many are refreshed there every few hours."""

import datetime
from typing import Final

from advisor.catalog.refresh.quote import FeedError, Quote, number, read_document, read_rows, whole
from advisor.catalog.schema.price import Term
from advisor.catalog.units import GIB

ORIGIN: Final = "https://raw.githubusercontent.com"
API_ORIGIN: Final = "https://api.github.com"
REPOSITORY: Final = "skypilot-org/skypilot-catalog"
_COLUMNS: Final[dict[Term, str]] = {"on_demand": "Price", "spot": "SpotPrice"}
PROVIDERS: Final = ("lambda", "nebius", "verda", "hyperstack", "runpod")
"""Clouds whose machines are distinguished by name; AWS and Azure have refreshers of their own."""


def vms_address(provider: str, origin: str = ORIGIN) -> str:
    """Return the address of a cloud's list."""
    return f"{origin}/{REPOSITORY}/master/{_path(provider)}"


def history_address(provider: str, origin: str = API_ORIGIN) -> str:
    """Return the address of the last change of a cloud's list; the lists themselves bear no date."""
    return f"{origin}/repos/{REPOSITORY}/commits?path={_path(provider)}&per_page=1"


def _path(provider: str) -> str:
    return f"catalogs/v8/{provider}/vms.csv"


def parse_changed_on(text: str) -> datetime.date:
    """Return the day of the last change of a list.

    Raises: FeedError: the text is not a list of commits from GitHub.
    """
    try:
        return datetime.datetime.fromisoformat(read_document(text)[0]["commit"]["committer"]["date"]).date()
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise FeedError(f"no date of the last change: {error!r}") from None


def parse_vms(provider: str, text: str, url: str, observed_on: datetime.date) -> list[Quote]:
    """Return the quotes of machines with accelerators, on demand and spot; the cheapest zone of a region counts.

    Raises: FeedError: the text does not follow SkyPilot's format.
    """
    found: dict[tuple[str, str, Term], Quote] = {}
    fields = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Region", *_COLUMNS.values())
    for row in read_rows(text, *fields):
        if not row["AcceleratorName"]:
            continue
        for term, column in _COLUMNS.items():
            if row[column]:
                _keep_cheaper(found, _quote(provider, row, term, column, url, observed_on))
        if not any(row[column] for column in _COLUMNS.values()):  # listed without a price: the old one stays
            quote = _quote(provider, row, "on_demand", "Price", url, observed_on)
            found.setdefault((quote.sku, quote.region, quote.term), quote)
    return list(found.values())


def _quote(
    provider: str, row: dict[str, str], term: Term, column: str, url: str, observed_on: datetime.date
) -> Quote:
    memory = row.get("MemoryGiB")
    return Quote(
        provider=provider,
        sku=row["InstanceType"],
        region=row["Region"],
        term=term,
        usd_per_hour=number(row[column]),
        url=url,
        observed_on=observed_on,
        gpu=row["AcceleratorName"],
        num_accelerators=number(row["AcceleratorCount"]),
        vcpus=whole(row.get("vCPUs")),
        ram_bytes=number(memory) * GIB if memory else None,
    )


def _keep_cheaper(found: dict[tuple[str, str, Term], Quote], quote: Quote) -> None:
    key = (quote.sku, quote.region, quote.term)
    rival = found.get(key)
    # A price that is not a number stays, so that the check sees it.
    if rival is None or not rival.usd_per_hour <= quote.usd_per_hour:
        found[key] = quote
