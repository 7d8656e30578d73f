"""Bulk price list of AWS: a CSV of every product of a region, hundreds of megabytes, read line by line."""

import csv
import datetime
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from advisor.catalog.refresh.quote import FeedError, Quote, day, number, require_fields, whole
from advisor.catalog.schema.price import Term
from advisor.catalog.units import GIB

ORIGIN: Final = "https://pricing.us-east-1.amazonaws.com"
REGIONS: Final = ("us-east-1",)
"""Regions that a refresh requests by default; each is a large download."""
_METADATA_ROWS: Final = 5
_FIELDS: Final = (
    "TermType",
    "Unit",
    "PricePerUnit",
    "Currency",
    "Instance Type",
    "Tenancy",
    "Operating System",
    "CapacityStatus",
    "Pre Installed S/W",
    "LeaseContractLength",
    "PurchaseOption",
    "OfferingClass",
    "GPU",
    "EffectiveDate",
)
_RESERVED: Final[dict[str, Term]] = {"1yr": "reserved_1y", "3yr": "reserved_3y"}
_ACCELERATED: Final = ("p", "g", "inf", "trn", "dl")
"""First letters of instance families with accelerators."""


def offers_address(region: str, origin: str = ORIGIN) -> str:
    """Return the address of a region's list.

    Source: docs.aws.amazon.com/awsaccountbilling, "Reading the service price list file": five rows of metadata, then
    the header.
    """
    return f"{origin}/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"


def parse_offers(lines: Iterable[str], region: str, url: str, observed_on: datetime.date) -> Iterator[Quote]:
    """Yield the quotes of shared Linux machines with accelerators: on demand, and standard reservations without upfront
    payment.

    Raises: FeedError: the lines do not follow the documented format.
    """
    rows = _rows(lines)
    metadata = list(islice(rows, _METADATA_ROWS))
    if len(metadata) < _METADATA_ROWS or not metadata[0] or metadata[0][0] != "FormatVersion":
        raise FeedError("does not begin with FormatVersion")
    header = next(rows, [])
    require_fields(dict.fromkeys(header), *_FIELDS)
    product = header.index("Instance Type")
    for cells in rows:
        if len(cells) != len(header):
            raise FeedError(f"a row has {len(cells)} cells, the header has {len(header)}")
        if not cells[product].startswith(_ACCELERATED):  # true of nearly all of a million rows
            continue
        quote = _quote(dict(zip(header, cells, strict=True)), region, url, observed_on)
        if quote is not None:
            yield quote


def _rows(lines: Iterable[str]) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines)
    except csv.Error as error:
        raise FeedError(f"not CSV: {error}") from None


def _quote(row: dict[str, str], region: str, url: str, observed_on: datetime.date) -> Quote | None:
    term = _term(row)
    is_plain = (
        row["Tenancy"] == "Shared"
        and row["Operating System"] == "Linux"
        and row["CapacityStatus"] in ("Used", "")
        and row["Pre Installed S/W"] in ("NA", "")
        and row["Unit"] == "Hrs"
    )
    if term is None or not is_plain:
        return None
    memory = row.get("Memory", "").removesuffix(" GiB").replace(",", "")
    return Quote(
        provider="aws",
        sku=row["Instance Type"],
        region=region,
        term=term,
        usd_per_hour=number(row["PricePerUnit"]),
        url=url,
        observed_on=observed_on,
        valid_from=day(row["EffectiveDate"][:10]),
        num_accelerators=number(row["GPU"]) if row["GPU"] else None,
        vcpus=whole(row.get("vCPU")),
        ram_bytes=number(memory) * GIB if memory else None,
        currency=row["Currency"],
    )


def _term(row: dict[str, str]) -> Term | None:
    if row["TermType"] == "OnDemand":
        return "on_demand"
    if row["OfferingClass"] == "standard" and row["PurchaseOption"] == "No Upfront":
        return _RESERVED.get(row["LeaseContractLength"])
    return None
