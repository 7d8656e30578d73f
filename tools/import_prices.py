"""Adds the rows of a collected price table to catalog/data/prices, beside those that are there; can be run again.

    python tools/import_prices.py rental_prices_v2.csv

A row is left out where it names no accelerator of the catalog, repeats an offer of the same day, is a tracker's figure
for what the seller lists itself, or is known to be wrong. A newer price of the whole seller ends its older regional
rows.
"""

import csv
import datetime
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.files import DATA_DIR
from advisor.catalog.prices import PROVIDER_ALIASES, Provider, all_providers

Row = dict[str, str]
FOLDER = DATA_DIR / "prices"
ACCELERATORS = {record.id for record in all_accelerators()}
SOURCES = DATA_DIR / "price_sources.csv"
COLUMNS = (
    "provider",
    "sku",
    "region",
    "country",
    "accelerator",
    "num_accelerators",
    "term",
    "usd_per_hour",
    "tenancy",
    "price_kind",
    "min_quantity",
    "max_quantity",
    "observed_on",
    "is_dated",
    "valid_from",
    "valid_to",
    "vcpus",
    "ram_gb",
    "storage_usd_per_gb_hour",
    "source",
)
DEFAULTS = {"tenancy": "dedicated", "price_kind": "list", "is_dated": "true"}
ALIASES = PROVIDER_ALIASES | {
    "huggingface-endpoints": "huggingface",
    "genesiscloud": "genesis-cloud",
    "voltagepark": "voltage-park",
}
NOBODY = Provider.model_validate({"id": "nobody", "name": "nobody", "class": "neocloud"})
WHOLE_SELLER = {"hyperstack", "nebius", "runpod", "verda"}
"""Sellers whose page has one price of an accelerator for every region and number."""
EARLIEST = {"aws": "2026-01-01", "nebius": "2025-10-22"}
"""First day that a file without a date can have been written, as its products allow."""
UNDATED_FROM = "2025-01-01"
QUALIFIERS = (
    "secure",
    "community",
    "inference",
    "classic",
    "bare metal",
    "prototyping",
    "production",
    "nova",
    "x-series",
    "yotta",
    "orion",
    "atlas",
    "nvlink",
    "intel",
    "amd",
    "aws",
    "gcp",
)
TRACKER_DAYS = 30
SAME = 0.02
"""A tracker's figure stands beside a seller's list where it is so much younger and differs by more than that part."""
BY_LIST = {"list": 0, "quote": 1, "from": 2, "marketplace_median": 3, "marketplace_min": 4, "tracker": 5}


def is_wrong(row: Row) -> str:
    """Why a row may not be used; empty where it may."""
    if row["gpu_id"] not in ACCELERATORS:
        return "no accelerator of the catalog"
    if "sold only as Spot" in row["notes"] and row["term"] == "on_demand":
        return "not sold on demand"
    if "estimated" in row["notes"]:
        return "estimated"
    if row["source_title"].startswith("SkyPilot catalog v8 nebius"):
        return "there already under the full names"
    return ""


def convert_row(row: Row, known: list[Row], source_ids: dict[tuple[str, str], str]) -> Row:
    provider = ALIASES.get(row["provider"], row["provider"])
    count = int(row["gpus_per_unit"])
    usd = float(row["usd_per_unit_hour"])
    least = int(float(row["min_gpus"] or 0))
    if count == 1 and least > 1:  # the price of one, of a machine that is only rented whole
        count = least
        usd = usd * least
    if row["price_kind"] == "tracker" and all_providers().get(provider, NOBODY).sells_singly(row["gpu_id"]):
        count, usd = 1, round(usd / count, 4)
    term = row["term"]
    note = row["notes"].casefold()
    qualifier = next(
        (q for q in QUALIFIERS if q in f"{row['sku']} {note}".casefold() and fits(q, provider, row)), ""
    )
    if provider == "runpod":
        qualifier = qualifier or ("" if row["tenancy"] == "unknown" else "secure")
        term = "community" if qualifier == "community" and term == "on_demand" else term
    day = row["observed_on"]
    storage = re.search(r"(?:storage|disk)[^;,.]*\$([\d.]+)/gb/h", note)
    return {
        "provider": provider,
        "sku": product(provider, row["sku"], row["gpu_id"], count, qualifier, row["price_kind"], known),
        "region": region(provider, row["region"], known),
        "country": row["country"],
        "accelerator": row["gpu_id"],
        "num_accelerators": str(count),
        "term": term,
        "usd_per_hour": f"{usd:.10g}",
        "tenancy": row["tenancy"],
        # Without the host that it needs, a list price is where a bill begins.
        "price_kind": "from"
        if row["price_kind"] == "list" and "billed separately" in note
        else row["price_kind"],
        "min_quantity": str(least) if least > count else "",
        "max_quantity": f"{float(row['max_gpus']):g}" if row["max_gpus"] else "",
        "observed_on": f"{day}-01" if len(day) == 7 else day or EARLIEST.get(provider, UNDATED_FROM),
        "is_dated": "true" if day else "false",
        "storage_usd_per_gb_hour": storage.group(1) if storage else "",
        "source": source_ids[row["source_title"], row["source_url"]],
    }


def fits(qualifier: str, provider: str, row: Row) -> bool:
    """Words that tell products of one seller apart; elsewhere the same words are chatter."""
    return {
        "intel": provider == "nebius",
        "amd": provider == "nebius",
        "nvlink": provider == "hyperstack",
        "classic": provider == "coreweave",
        "inference": provider == "coreweave" and "inference" in row["sku"],
        "secure": provider == "runpod",
        "community": provider == "runpod",
        "orion": provider == "dataoorts",
        "production": provider == "thunder",
        "aws": provider == "huggingface",
        "gcp": provider == "huggingface",
    }.get(qualifier, True)


def product(
    provider: str, sku: str, accelerator: str, count: int, qualifier: str, kind: str, known: list[Row]
) -> str:
    """The seller's name of a product: its own where it is one, else that of the rows at hand, else one made up."""
    if not re.search(r" |^[A-Z0-9]+$|H100$", sku) and provider != "crusoe":
        return sku
    if provider == "runpod":
        name = accelerator.replace("-80gb", "")
        return "-".join(part for part in (name, qualifier or "x1") if part)
    if provider == "vast":
        end = "median" if kind == "marketplace_median" else "average" if kind == "tracker" else "min"
        return f"{accelerator.replace('a100-sxm-80gb', 'a100-sxm4').replace('h200-sxm', 'h200')}-{end}"
    if (not qualifier and kind != "tracker") or provider == "verda":
        alike = {
            row["sku"]
            for row in known
            if (row["provider"], row["accelerator"], int(row["num_accelerators"]))
            == (provider, accelerator, count)
        }
        if len(alike) == 1:
            return alike.pop()
    if provider == "lambda" and accelerator in LAMBDA:
        return f"gpu_{count}x_{LAMBDA[accelerator]}"
    return "-".join(part for part in (accelerator, f"x{count}", qualifier.replace(" ", "-")) if part)


LAMBDA = {
    "h100-sxm": "h100_sxm5",
    "a100-sxm-40gb": "a100_sxm4",
    "b200-sxm": "b200_sxm6",
    "rtx-a6000": "a6000",
    "a100-pcie-40gb": "a100",
}


def region(provider: str, name: str, known: list[Row]) -> str:
    """A region's name; where none is stated, the one that stands for all of a seller's."""
    if name and "/" not in name:
        return name.replace(" ", "-") if provider not in ("aws", "azure", "gcp") else name
    used = {row["region"] for row in known if row["provider"] == provider}
    return used.pop() if used in ({"us"}, {"any"}) else "any"


def end_narrow_rows(rows: list[Row]) -> None:
    """A newer price of one accelerator anywhere ends its seller's older rows of single regions and of several."""
    newer: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in rows:
        if row["provider"] in WHOLE_SELLER and not is_narrow(row) and row["price_kind"] != "from":
            newer[thing(row)].append(row["observed_on"])
    for row in rows:
        later = [day for day in newer[thing(row)] if day > row["observed_on"]]
        if later and is_narrow(row) and not row.get("valid_to"):
            row["valid_to"] = min(later)


def is_narrow(row: Row) -> bool:
    return row["region"] != "any" or row["num_accelerators"] != "1"


def without_second_hand(rows: list[Row]) -> list[Row]:
    """Return the rows without trackers' figures for what the seller lists itself, and with one row for an offer and
    day."""
    listed: dict[tuple[str, ...], str] = {}
    usd_each: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row["price_kind"] not in ("tracker", "from") and row["is_dated"] == "true":
            usd_each[thing(row)].append(each(row))
            listed[thing(row)] = max(listed.get(thing(row), ""), row["observed_on"])
    best: dict[tuple[str, ...], Row] = {}
    for row in rows:
        day = row.get("valid_from") or row["observed_on"]
        list_day = listed.get(thing(row), "")
        if row["price_kind"] == "tracker" and row["source"].startswith("v2-") and list_day:
            is_repeated = any(abs(each(row) / usd - 1.0) < SAME for usd in usd_each[thing(row)])
            if is_repeated or days(list_day, row["observed_on"]) < TRACKER_DAYS:
                continue
        key = (
            *(row[c] for c in ("provider", "sku", "region", "accelerator", "num_accelerators", "term")),
            day,
        )
        rank = (BY_LIST[row["price_kind"]], float(row["usd_per_hour"]))
        if key not in best or rank < (BY_LIST[best[key]["price_kind"]], float(best[key]["usd_per_hour"])):
            best[key] = row
    return list(best.values())


def thing(row: Row) -> tuple[str, ...]:
    return row["provider"], row["accelerator"], row["term"]


def each(row: Row) -> float:
    return float(row["usd_per_hour"]) / int(row["num_accelerators"])


def days(first: str, last: str) -> int:
    return (datetime.date.fromisoformat(last) - datetime.date.fromisoformat(first)).days


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def write(path: Path, columns: tuple[str, ...], rows: list[Row]) -> None:
    comments = (
        [line for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
        if path.exists()
        else []
    )
    used = [name for name in columns if any(row.get(name, "") != DEFAULTS.get(name, "") for row in rows)]
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in comments)
        writer = csv.DictWriter(file, used, extrasaction="ignore", restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(table: Path) -> None:
    sources = read(SOURCES)
    source_ids = {(row["title"], row["url"]): row["source"] for row in sources}
    bundled = [DEFAULTS | row for path in sorted(FOLDER.glob("*.csv")) for row in read(path)]
    known = [row for row in bundled if not row["source"].startswith("v2-")]
    rows = list(known)
    dropped = Counter()
    for row in read(table):
        reason = is_wrong(row)
        if reason:
            dropped[reason] += 1
            continue
        title = (row["source_title"], row["source_url"])
        if title not in source_ids:
            source_ids[title] = f"v2-{len(source_ids)}"
            sources.append({"source": source_ids[title], "title": title[0], "url": title[1]})
        rows.append(convert_row(row, known, source_ids))
    kept = without_second_hand(rows)
    end_narrow_rows(kept)
    by_provider: dict[str, list[Row]] = defaultdict(list)
    for row in kept:
        by_provider[row["provider"]].append(row)
    for provider, found in by_provider.items():
        found.sort(key=lambda r: (r["observed_on"], r["accelerator"], r["sku"], r["region"], r["term"]))
        write(FOLDER / f"{provider}.csv", COLUMNS, found)
    used = {row["source"] for row in kept}
    sources = [row for row in sources if row["source"] in used or not row["source"].startswith("v2-")]
    write(SOURCES, ("source", "title", "url"), sources)
    print(
        f"{len(bundled)} rows before, {len(kept)} now of {len(by_provider)} sellers; {len(rows) - len(kept)} repeated"
    )
    print(dict(dropped), datetime.date.today())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
