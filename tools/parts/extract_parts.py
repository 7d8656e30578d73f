"""Write catalog/data/parts/*.csv from the OpenDB extract.

    python tools/parts/extract_parts.py ../shared/data/catalog/parts

OpenDB rows may ship with their notice (catalog/data/ATTRIBUTION.md). Rows whose flags say that a figure is doubtful
are dropped. Class medians of prices: extract_prices.py.
"""

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

OUT = Path(__file__).resolve().parents[2] / "catalog" / "data" / "parts"
NOTICE = (
    "# Contains information from BuildCores OpenDB (https://github.com/buildcores/buildcores-open-db, commit 136a77a, "
    "2026-08-17), made available under ODC-By 1.0: https://opendatacommons.org/licenses/by/1-0/ (rows selected)\n"
)

CHIPSETS = {
    "GeForce RTX 5090": "rtx-5090", "GeForce RTX 5080": "rtx-5080", "GeForce RTX 5070 Ti": "rtx-5070-ti",
    "GeForce RTX 5070": "rtx-5070", "GeForce RTX 5060 Ti 16 GB": "rtx-5060-ti-16gb",
    "GeForce RTX 4090": "rtx-4090", "GeForce RTX 4080 SUPER": "rtx-4080-super", "GeForce RTX 4080": "rtx-4080",
    "GeForce RTX 4070 Ti SUPER": "rtx-4070-ti-super", "GeForce RTX 4070 Ti": "rtx-4070-ti",
    "GeForce RTX 4060 Ti 16 GB": "rtx-4060-ti-16gb", "GeForce RTX 4060 Ti 8 GB": "rtx-4060-ti-8gb",
    "GeForce RTX 4070 SUPER": "rtx-4070-super", "GeForce RTX 4070": "rtx-4070", "GeForce RTX 4060": "rtx-4060",
    "GeForce RTX 3080 10 GB": "rtx-3080", "GeForce RTX 3070 Ti": "rtx-3070-ti", "GeForce RTX 3070": "rtx-3070",
    "GeForce RTX 3060 Ti": "rtx-3060-ti",
    "GeForce RTX 3090 Ti": "rtx-3090-ti", "GeForce RTX 3090": "rtx-3090", "GeForce RTX 3080 Ti": "rtx-3080-ti",
    "GeForce RTX 3060 12 GB": "rtx-3060-12gb",
    "Radeon RX 7900 XTX": "rx-7900-xtx", "Radeon RX 9070 XT": "rx-9070-xt", "Radeon AI PRO R9700": "r9700",
    "Radeon PRO W7900": "w7900", "Arc B580": "arc-b580", "Arc Pro B60": "arc-pro-b60",
    "RTX A5000": "rtx-a5000", "RTX A6000": "rtx-a6000", "RTX 4000 Ada": "rtx-4000-ada", "RTX 5000 Ada": "rtx-5000-ada",
    "RTX 6000 Ada": "rtx-6000-ada", "RTX PRO 4000 Blackwell": "rtx-pro-4000",
    "RTX PRO 4500 Blackwell Workstation Edition": "rtx-pro-4500", "RTX PRO 5000 Blackwell": "rtx-pro-5000",
    "RTX PRO 6000 Blackwell": "rtx-pro-6000-ws",
}  # fmt: skip
COOLING = {"Blower": "blower", "Passive": "passive", "Hybrid": "liquid", "Water Cooled": "liquid"}
SOCKETS = {
    "LGA 1700": "LGA1700",
    "LGA 1851": "LGA1851",
    "AM4": "AM4",
    "AM5": "AM5",
    "sTR5": "sTR5",
    "sTRX4": "sTRX4",
}
BOARD_CHIPSETS = {
    "B550",
    "X570",
    "B650",
    "B650E",
    "X670",
    "X670E",
    "B850",
    "X870",
    "X870E",
    "TRX40",
    "TRX50",
    "B760",
    "Z690",
    "Z790",
    "B860",
    "Z890",
}
FORM_FACTORS = ("ATX", "EATX", "Micro ATX", "SSI CEB", "XL ATX")
FULL_LANES = {
    "AM4": ("Matisse", "Vermeer"),
    "AM5": ("Raphael", "Raphael-X", "Granite Ridge", "Granite Ridge-X"),
}
"""Families with all 16 lanes of their socket at its generation; those with graphics for laptops have fewer."""
LARGEST_UNBUFFERED_GB = {"DDR4": 32, "DDR5": 64}
Row = dict[str, str]


def rows_of(folder: Path, name: str) -> Iterator[Row]:
    """The rows of a table; eight digits of OpenDB's ids tell all of its parts apart."""
    with (folder / name).open(encoding="utf-8", newline="") as file:
        yield from (row | {"id": row["id"][:8]} for row in csv.DictReader(file))


def write(name: str, columns: list[str], rows: Iterable[Row], comment: str = NOTICE) -> int:
    named = ({c: row.get(c, "") for c in columns} | {"name": tidy(row["name"])} for row in rows)
    kept = sorted(named, key=lambda r: [cell for column, cell in r.items() if column != "id"])
    with (OUT / name).open("w", encoding="utf-8", newline="") as file:
        file.write(comment)
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    return len(kept)


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def tidy(name: str) -> str:
    """A name without marks that nobody types."""
    return " ".join(re.sub(r"[™®]", "", name).split())


def plain(text: str) -> str:
    """A number without a useless decimal point."""
    value = number(text)
    return f"{value:g}"


def unique(rows: Iterable[Row], key: Callable[[Row], object]) -> Iterator[Row]:
    seen = set()
    for row in rows:
        if key(row) not in seen:
            seen.add(key(row))
            yield row


def gpu_cards(folder: Path) -> Iterator[Row]:
    for row in rows_of(folder, "gpu_cards.csv"):
        accelerator = CHIPSETS.get(row["chipset"])
        if row["chipset"] == "GeForce RTX 4060 Ti":  # both sizes of memory; the name tells
            accelerator = "rtx-4060-ti-16gb" if re.search(r"16 ?G", row["name"]) else None
        power = number(row["tdp_w"])
        if accelerator is None or row["flags"] or not power or not number(row["slots"]):
            continue
        sixteen = number(row["pcie_12VHPWR"]) + number(row["pcie_12V_2x6"])
        eight = number(row["pcie_8_pin"])
        six = number(row["pcie_6_pin"])
        if 75 + 150 * eight + 75 * six + 600 * sixteen < power:
            continue  # its connectors cannot carry its power: one of the figures is wrong
        if accelerator == "rtx-pro-6000-ws" and power < 500:
            continue  # the Max-Q edition under the same chipset name
        yield {
            "id": row["id"],
            "name": row["name"],
            "manufacturer": row["manufacturer"],
            "accelerator": accelerator,
            "power_w": plain(row["tdp_w"]),
            "length_mm": plain(row["length_mm"]),
            "slots": plain(row["slots"]),
            "cooling": COOLING.get(row["cooling"], "open"),
            "num_16_pin": plain(str(sixteen)),
            "num_8_pin": plain(str(eight)),
            "num_6_pin": plain(str(six)),
        }


GENERIC = re.compile(
    r"amd|intel|chipset|motherboard|mainboard|e?atx|micro|micro-atx|xl|sata|6gb/s|s?trx?[45]|am[45]|lga\d+|ddr[45]",
    re.IGNORECASE,
)


def board_identity(row: Row) -> tuple[str, str, str, frozenset[str]]:
    """Return what tells two boards apart: maker, chipset, memory, and the words of the name that are no figures."""
    words = re.findall(r"[a-z0-9/+-]+", tidy(row["name"]).lower().replace("-", " "))
    telling = frozenset(word for word in words if not GENERIC.fullmatch(word))
    maker = row.get("manufacturer", "").lower() or words[0]
    return maker, row["chipset"], row["ram_type"], telling - {maker, row["chipset"].lower()}


def without_duplicates(rows: Iterable[Row]) -> Iterator[Row]:
    """One row a board. The row with a reviewed wiring stays, else the one with more memory, which knows the board's
    later firmware."""
    reviewed = (OUT / "boards_reviewed.toml").read_text(encoding="utf-8")
    best: dict[object, Row] = {}

    def rank(row: Row) -> tuple[bool, float, int]:
        return row["id"] in reviewed, number(row["ram_max_gb"]), len(row["name"])

    for row in rows:
        key = board_identity(row)
        if key not in best or rank(row) > rank(best[key]):
            best[key] = row
    yield from best.values()


def cpus(folder: Path) -> Iterator[Row]:
    for row in rows_of(folder, "cpus.csv"):
        socket = SOCKETS.get(row["socket"])
        if socket is None or row["flags"] or not row["mem_channels"]:
            continue
        if row["family"] not in FULL_LANES.get(socket, (row["family"],)):
            continue
        yield {
            "id": row["id"],
            "name": row["name"],
            "socket": socket,
            "series": series(row["name"], socket),
            "cores": row["cores"],
            "power_w": plain(str(max(number(row["tdp_w"]), number(row["ppt_w"])))),
            "ecc": row["ecc"].lower(),
            "max_ram_gb": plain(row["max_ram_gb"]),
            "channels": plain(row["mem_channels"]),
            "ram_types": row["mem_types"],
            "family": row["family"],
        }


def series(name: str, socket: str) -> str:
    """Return the CPU family that shares a socket's wiring: Threadripper PRO and Threadripper differ."""
    if socket == "sTR5":
        return "threadripper-pro" if re.search(r"\bPRO\b|\d{4}WX", name) else "threadripper"
    return socket.lower()


def boards(folder: Path, *, named: bool = False) -> Iterator[Row]:
    for row in rows_of(folder, "motherboards.csv"):
        chipset = row["chipset"].split()[-1]
        socket = SOCKETS.get(row["socket"])
        if socket is None or chipset not in BOARD_CHIPSETS or "suspect" in row["flags"]:
            continue
        if row["form_factor"] not in (*FORM_FACTORS, *(("Mini-ITX",) if named else ())):
            continue
        if not number(row["pcie_x16_slots"]):
            continue
        verified = not row["flags"]
        if not verified and not named and chipset in ("B550", "B760", "B850", "B860", "B650", "Z690"):
            continue  # plenty of verified ones
        yield {
            "id": row["id"],
            "name": row["name"],
            "manufacturer": row["manufacturer"],
            "socket": socket,
            "chipset": chipset,
            "form_factor": row["form_factor"],
            "ram_type": row["ram_type"],
            "ram_max_gb": plain(row["ram_max_gb"]),
            "ram_slots": plain(row["ram_slots"]),
            "slots": row["pcie_slots"],
            "m2_slots": plain(row["m2_slots"]),
            "ecc": row["ecc"].lower(),
            "eps_8_pin": str(len(re.findall(r"8[- ]pin", row["cpu_power"])) or ""),
            "flags": row["flags"],
        }


EFFICIENCY = re.compile(r"80\+ (Bronze|Silver|Gold|Platinum|Titanium)")


def named_psus(folder: Path) -> Iterator[Row]:
    """Supplies by name, whatever is known of their plugs: `plugs_unknown` where OpenDB counts none."""
    for row in rows_of(folder, "psus.csv"):
        if not 300 <= number(row["wattage"]) <= 4000:
            continue
        grade = EFFICIENCY.search(row["efficiency"] or row["name"])
        eps = number(row["eps_8_pin"])
        eight = number(row["pcie_6_plus_2_pin"])
        is_known = eps >= 1 and 1 <= eight <= number(row["wattage"]) / 90
        flags = ([] if is_known else ["plugs_unknown"]) + ([] if grade else ["grade_unknown"])
        yield {
            "id": row["id"],
            "name": row["name"],
            "manufacturer": row["manufacturer"],
            "power_w": row["wattage"],
            "grade": grade.group(1).lower() if grade else "bronze",
            "length_mm": plain(row["length_mm"]) if number(row["length_mm"]) else "",
            "num_eps": plain(str(eps)) if is_known else "0",
            "num_8_pin": plain(str(eight)) if is_known else "0",
            "num_16_pin": plain(row["pcie_12vhpwr"]) if is_known else "0",
            "flags": "|".join([*flags, "unverified"]),
        }


def psus(folder: Path) -> Iterator[Row]:
    for row in rows_of(folder, "psus.csv"):
        grade = EFFICIENCY.search(row["efficiency"] or "")
        if (
            grade is None
            or "suspect" in row["flags"]
            or number(row["wattage"]) < 650
            or not number(row["length_mm"])
        ):
            continue
        if not row["form_factor"].startswith("ATX") or number(row["eps_8_pin"]) < 1:
            continue
        eight = number(row["pcie_6_plus_2_pin"])
        if eight > number(row["wattage"]) / 90:
            continue  # more plugs than a supply of that size has: single pins were counted
        yield {
            "id": row["id"],
            "name": row["name"],
            "manufacturer": row["manufacturer"],
            "power_w": row["wattage"],
            "grade": grade.group(1).lower(),
            "length_mm": plain(row["length_mm"]),
            "num_eps": plain(row["eps_8_pin"]),
            "num_16_pin": plain(row["pcie_12vhpwr"]),
            "num_8_pin": plain(str(eight)),
            "flags": row["flags"],
        }


def cases(folder: Path, *, named: bool = False) -> Iterator[Row]:
    for row in rows_of(folder, "cases.csv"):
        slots = number(row["expansion_slots"])
        cooler = number(row["max_cooler_mm"])
        if (
            not row["mobo"]
            or not row["form_factor"]
            or not cooler
            or slots < (1 if named else 4)
            or number(row["max_gpu_mm"]) < 250
            or number(row["max_gpu_mm"]) > 650
        ):
            continue
        if not named and ("Tower" not in row["form_factor"] or "Mini ITX" in row["form_factor"]):
            continue
        yield {
            "id": row["id"],
            "name": short_case(row["name"]),
            "manufacturer": row["manufacturer"],
            "form_factor": row["form_factor"],
            "boards": row["mobo"],
            "max_gpu_mm": plain(row["max_gpu_mm"]),
            "max_cooler_mm": plain(row["max_cooler_mm"]),
            "max_psu_mm": plain(row["max_psu_mm"]) if row["max_psu_mm"] else "",
            "expansion_slots": plain(str(slots)),
        }


def short_case(name: str) -> str:
    """A case's name without the list of its sockets."""
    return re.split(r",? (?:with|Front|and Front|Tempered Glass Side)", name)[0].strip()


def coolers(folder: Path) -> Iterator[Row]:
    names = {**SOCKETS, "sTR4": "sTRX4", "SP3": "SP3", "SP5": "SP5", "SP6": "SP6"}
    # Sockets with the same holes go by the name of one of them.
    names |= dict.fromkeys(("LGA 1150", "LGA 1151", "LGA 1155", "LGA 1156", "LGA 1200"), "LGA1200")
    names |= dict.fromkeys(("LGA 2011", "LGA 2011-3", "LGA 2066"), "LGA2066")
    for row in rows_of(folder, "cpu_coolers.csv"):
        known = sorted(
            {
                names[s]
                for s in (*row["sockets"].split("|"), *re.findall("SP[356]", row["name"]))
                if s in names
            }
        )
        water = row["water"] == "True"
        if not known or (water and not row["radiator_mm"]) or not (water or row["height_mm"]):
            continue
        if re.search(r"\b(775|115\d|1366|2011)\b", row["name"]):
            continue  # an edition for one old socket under the sockets of its family
        if "AM5" not in known and "sTRX4" not in known and "sTR5" not in known:
            continue
        yield {
            "id": row["id"],
            "name": row["name"],
            "manufacturer": row["manufacturer"],
            "sockets": "|".join(known),
            "height_mm": "" if water else plain(row["height_mm"]),
            "radiator_mm": plain(row["radiator_mm"]) if water else "",
        }


WITHOUT_ECC = frozenset(("b53c2a06",))
"""Kits that the database lists with error correction and that have none: Crucial, Pro Overclocking 2 x 16 GB DDR5-6400,
non-ECC unbuffered modules (unverified)."""


def ram(folder: Path) -> Iterator[Row]:
    for row in rows_of(folder, "ram.csv"):
        if row["ram_type"] not in LARGEST_UNBUFFERED_GB or number(row["modules"]) not in (1, 2, 4, 8):
            continue
        unbuffered = row["registered"] != "Registered"
        if unbuffered and number(row["module_gb"]) > LARGEST_UNBUFFERED_GB[row["ram_type"]]:
            continue  # a registered module that is listed as unbuffered
        if unbuffered and re.search(r"RDIMM|Registered|KSM", row["name"]):
            continue
        yield {
            "id": row["id"],
            "name": row["name"],
            "manufacturer": row["manufacturer"],
            "ram_type": row["ram_type"],
            "speed_mts": plain(row["speed"]),
            "modules": plain(row["modules"]),
            "module_gb": plain(row["module_gb"]),
            "ecc": str(row["ecc"] == "ECC" and row["id"] not in WITHOUT_ECC).lower(),
            "registered": str(row["registered"] == "Registered").lower(),
        }


def storage(folder: Path, *, named: bool = False) -> Iterator[Row]:
    for row in rows_of(folder, "storage.csv"):
        match = re.fullmatch(r"M\.2 PCIe ([345])\.0 x4", row["interface"])
        if (
            match is None
            or row["nvme"] != "True"
            or (number(row["capacity_gb"]) not in (1000, 2000, 4000, 8000) and not named)
            or number(row["capacity_gb"]) < 100
        ):
            continue
        yield {
            "id": row["id"],
            "name": row["name"],
            "manufacturer": row["manufacturer"],
            "capacity_gb": plain(row["capacity_gb"]),
            "pcie_generation": match.group(1),
        }


def extract(folder: Path) -> None:
    counts = {
        "gpu_cards.csv": write(
            "gpu_cards.csv",
            [
                "id",
                "name",
                "manufacturer",
                "accelerator",
                "power_w",
                "length_mm",
                "slots",
                "cooling",
                "num_16_pin",
                "num_8_pin",
                "num_6_pin",
            ],
            unique(gpu_cards(folder), lambda r: r["name"]),
        ),
        "cpus.csv": write(
            "cpus.csv",
            [
                "id",
                "name",
                "socket",
                "series",
                "cores",
                "power_w",
                "ecc",
                "max_ram_gb",
                "channels",
                "ram_types",
                "family",
            ],
            unique(cpus(folder), lambda r: r["name"]),
        ),
        "boards.csv": write(
            "boards.csv",
            [
                "id",
                "name",
                "manufacturer",
                "socket",
                "chipset",
                "form_factor",
                "ram_type",
                "ram_max_gb",
                "ram_slots",
                "slots",
                "m2_slots",
                "ecc",
                "eps_8_pin",
                "flags",
            ],
            without_duplicates(boards(folder)),
        ),
        "psus.csv": write(
            "psus.csv",
            [
                "id",
                "name",
                "manufacturer",
                "power_w",
                "grade",
                "length_mm",
                "num_eps",
                "num_16_pin",
                "num_8_pin",
                "flags",
            ],
            unique(
                psus(folder),
                lambda r: (
                    r["power_w"],
                    r["grade"],
                    r["num_eps"],
                    r["num_16_pin"],
                    r["num_8_pin"],
                    r["length_mm"],
                ),
            ),
        ),
        "cases.csv": write(
            "cases.csv",
            [
                "id",
                "name",
                "manufacturer",
                "form_factor",
                "boards",
                "max_gpu_mm",
                "max_cooler_mm",
                "max_psu_mm",
                "expansion_slots",
            ],
            unique(
                cases(folder),
                lambda r: (
                    r["form_factor"],
                    r["max_gpu_mm"],
                    r["max_cooler_mm"],
                    r["max_psu_mm"],
                    r["expansion_slots"],
                ),
            ),
        ),
        "coolers.csv": write(
            "coolers.csv",
            ["id", "name", "manufacturer", "sockets", "height_mm", "radiator_mm"],
            unique(coolers(folder), lambda r: (r["sockets"], r["height_mm"], r["radiator_mm"])),
        ),
        "ram.csv": write(
            "ram.csv",
            [
                "id",
                "name",
                "manufacturer",
                "ram_type",
                "speed_mts",
                "modules",
                "module_gb",
                "ecc",
                "registered",
            ],
            unique(
                ram(folder),
                lambda r: (
                    r["ram_type"],
                    r["speed_mts"],
                    r["modules"],
                    r["module_gb"],
                    r["ecc"],
                    r["registered"],
                ),
            ),
        ),
        "storage.csv": write(
            "storage.csv",
            ["id", "name", "manufacturer", "capacity_gb", "pcie_generation"],
            unique(storage(folder), lambda r: (r["manufacturer"], r["capacity_gb"], r["pcie_generation"])),
        ),
    }
    print(counts, sum(counts.values()))
    print({name: write_named(name, rows) for name, rows in named_parts(folder).items()})


def named_parts(folder: Path) -> dict[str, Iterator[Row]]:
    """Return the parts that lists name and the planner does not choose among: every row whose figures can be judged."""
    return {
        "boards.csv": boards(folder, named=True),
        "psus.csv": named_psus(folder),
        "cases.csv": cases(folder, named=True),
        "coolers.csv": coolers(folder),
        "storage.csv": storage(folder, named=True),
    }


def write_named(name: str, rows: Iterable[Row]) -> int:
    """The rows that the planner's file of the same kind does not hold, under `named/`."""
    with (OUT / name).open(encoding="utf-8", newline="") as file:
        known = list(csv.DictReader(line for line in file if not line.startswith("#")))
    held = {row["name"] for row in known}
    fresh = (row for row in unique(rows, lambda r: tidy(r["name"])) if tidy(row["name"]) not in held)
    if name == "boards.csv":
        same = {board_identity(row) for row in known}
        fresh = (row for row in without_duplicates(fresh) if board_identity(row) not in same)
    columns = [column for column in known[0] if column not in ("id", "manufacturer")]
    return write(f"named/{name}", columns, fresh)


if __name__ == "__main__":
    extract(Path(sys.argv[1]))
