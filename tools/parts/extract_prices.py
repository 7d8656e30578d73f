"""Write catalog/data/parts/price_estimates.csv: medians of prices by class.

    PYTHONPATH=. python tools/parts/extract_prices.py ../shared/data/catalog/parts

Listings may not ship, so only the median of a class with at least three listings is kept, with the number of listings
and their day.
"""

import csv
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from extract_parts import BOARD_CHIPSETS, CHIPSETS, OUT, number, plain, rows_of

from advisor.catalog.schema.part import board_tier

MIN_LISTINGS = 3


def price_classes(folder: Path) -> Iterator[tuple[str, float, str]]:
    """(class, price, day) of each listing."""
    chipsets = {name.replace(" GB", "GB"): ours for name, ours in CHIPSETS.items()}
    chipsets |= {"GeForce RTX 3080 Ti": "rtx-3080-ti", "RTX A6000": "rtx-a6000"}
    for row in rows_of(folder, "prices_2025-07_video-card.csv"):
        name = row["chipset"].replace(" Generation", "")
        ours = chipsets.get(name)
        if name in ("GeForce RTX 5060 Ti", "GeForce RTX 4060 Ti") and number(row["memory"]) == 16:
            ours = "rtx-5060-ti-16gb" if "5060" in name else "rtx-4060-ti-16gb"
        if ours:
            yield f"gpu/{ours}", number(row["price"]), row["observed_on"]
    for row in rows_of(folder, "prices_2025-07_cpu.csv"):
        family = cpu_family(row["name"], row["microarchitecture"])
        if family:
            cores = "" if family.startswith("threadripper") else f"/{plain(row['core_count'])}-core"
            yield f"cpu/{family}{cores}", number(row["price"]), row["observed_on"]
    for row in rows_of(folder, "prices_2025-07_motherboard.csv"):
        chipset = chipset_in(row["name"].upper())
        if chipset:
            yield f"board/{chipset}", number(row["price"]), row["observed_on"]
            yield f"board/{chipset}/{board_tier(row['name'])}", number(row["price"]), row["observed_on"]
    for row in rows_of(folder, "prices_2025-07_memory.csv"):
        kind = re.findall(r"\d+", row["speed"])[0]
        modules, size = re.findall(r"\d+", row["modules"])[:2]
        registered = "Server" in row["name"]
        if kind in ("4", "5") and int(size) >= 16:
            label = f"ddr{kind}-{'rdimm' if registered else 'udimm'}"
            yield f"ram/{label}/{int(modules) * int(size)}GB", number(row["price"]), row["observed_on"]
    for row in rows_of(folder, "prices_2025-07_power-supply.csv"):
        if row["efficiency"] and row["type"] == "ATX":
            step = psu_class(number(row["wattage"]))
            yield f"psu/{step}/{row['efficiency']}", number(row["price"]), row["observed_on"]
            yield f"psu/{step}", number(row["price"]), row["observed_on"]
    for row in rows_of(folder, "prices_2025-07_case.csv"):
        yield f"case/{row['type']}", number(row["price"]), row["observed_on"]
    for row in rows_of(folder, "prices_2025-07_cpu-cooler.csv"):
        kind = "air" if not row["size"] else f"liquid-{plain(row['size'])}"
        yield f"cooler/{kind}", number(row["price"]), row["observed_on"]
    for row in rows_of(folder, "prices_2025-07_internal-hard-drive.csv"):
        match = re.fullmatch(r"M\.2 PCIe ([345])\.0 X4", row["interface"] or "")
        if match:
            yield (
                f"storage/nvme{match.group(1)}/{plain(row['capacity'])}GB",
                number(row["price"]),
                row["observed_on"],
            )


def chipset_in(name: str) -> str:
    """The chipset that a board's name bears; empty if none."""
    longest_first = sorted(BOARD_CHIPSETS, key=len, reverse=True)
    return next((c for c in longest_first if re.search(rf"\b{c}\b|{c}[A-Z]*-|-{c}", name)), "")


def psu_class(watts: float) -> str:
    """Supplies are sold in steps; the class is the step of 100 W at or below."""
    return f"{int(watts // 100) * 100}W"


def cpu_family(name: str, architecture: str) -> str:
    if "Threadripper" in name:
        return (
            f"threadripper-{architecture.lower().replace(' ', '')}" if architecture.startswith("Zen") else ""
        )
    if name.startswith("AMD Ryzen"):
        sockets = {"Zen 2": "am4", "Zen 3": "am4", "Zen 4": "am5", "Zen 5": "am5"}
        return sockets.get(architecture, "")
    if re.search(r"Core Ultra", name):
        return "lga1851"
    if re.search(r"i[3579]-1[234]\d{3}", name):
        return "lga1700"
    return ""


def estimates(folder: Path) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    days: dict[str, str] = {}
    for name, price, day in price_classes(folder):
        if price > 0:
            found[name].append(price)
            days[name] = day
    rows = [
        {
            "class": name,
            "usd": f"{statistics.median(prices):.2f}",
            "usd_low": f"{min(prices):.2f}",
            "usd_high": f"{max(prices):.2f}",
            "num_listings": str(len(prices)),
            "observed_on": days[name],
        }
        for name, prices in found.items()
        if len(prices) >= MIN_LISTINGS
    ]
    comment = (
        "# Medians by class over listings of new parts, US retail, one day (docyx/pc-part-dataset@c52a04c); computed "
        "here, no listing is reproduced. A class is a chipset (and a maker's line), a wattage, a capacity.\n"
    )
    columns = ["class", "usd", "usd_low", "usd_high", "num_listings", "observed_on"]
    rows.sort(key=lambda r: r["class"])
    with (OUT / "price_estimates.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(comment)
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print("price classes", len(rows))


if __name__ == "__main__":
    estimates(Path(sys.argv[1]))
