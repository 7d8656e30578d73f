"""Places with an electricity grid, by their own name or by a cloud's region name."""

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, check_record, read_csv, read_toml
from advisor.catalog.resolve import resolve
from advisor.catalog.schema.economics import Region
from advisor.catalog.units import KILO

DEFAULT_REGION = "us"


@functools.cache
def all_regions() -> Mapping[str, Region]:
    """Return every region by id.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/grid_carbon.toml, each with its own source.
    """
    path = DATA_DIR / "grid_carbon.toml"
    return {name: _region(name, entry, path.name) for name, entry in read_toml(path).items()}


def _region(name: str, entry: Mapping[str, Any], where: str) -> Region:
    values = {"id": name, **entry}
    values["kg_co2e_per_kwh"] = values.pop("g_co2e_per_kwh") / KILO
    return check_record(Region, values, f"{where}: {name}")


def get_region(name: str) -> tuple[Region, str]:
    """Return the region that a name stands for, and a note if the name is not its id.

    Raises: UnknownNameError: no region and no cloud region in the table has this name; near misses are in the hint.
    """
    try:
        found = resolve(name, tuple(all_regions()), _aliases(), "region")
    except UnknownNameError as error:
        error.fix = f"one of {', '.join(all_regions())}, or a cloud's name for a region there"
        raise
    return all_regions()[found.id], found.note


def region_of_offer(cloud_region: str, country: str = "") -> Region | None:
    """Return the place of a cloud region as price rows write it, else of its country by ISO code; None if the table
    knows neither."""
    names = (name for word in (cloud_region, country) for name in (word, _aliases().get(word.lower(), "")))
    return next((all_regions()[name] for name in names if name in all_regions()), None)


@functools.cache
def regions_of_places() -> Mapping[str, tuple[str, ...]]:
    """Return the regions of providers, or the codes of countries, in the places that people name, in lower case.

    Raises: InputFileError: a bundled file is damaged.
    Source: data/places.csv, each row with its own source, `@` and a place for those of a row above; names and aliases
        of data/grid_carbon.toml.
    """
    found: dict[str, tuple[str, ...]] = {}
    for region in all_regions().values():
        aliases = tuple(map(str.lower, region.aliases))
        parts = map(str.strip, re.split(r"[(),]", region.name.lower()))
        found |= dict.fromkeys((*parts, *aliases), aliases)
    for _, row in read_csv(DATA_DIR / "places.csv", ("place", "regions", "source", "read_on")):
        words = row["regions"].lower().split()
        places = (found[word[1:].replace("-", " ")] if word.startswith("@") else (word,) for word in words)
        found |= dict.fromkeys(row["place"].split("|"), tuple(itertools.chain.from_iterable(places)))
    return {name: places for name, places in found.items() if name not in ("", "average")}


def regions_among(names: Sequence[str]) -> tuple[Region, ...]:
    """Return the known places among names of regions and countries, each once, in their order."""
    found = (region_of_offer(name) for name in names)
    return tuple({region.id: region for region in found if region is not None}.values())


def home_region(names: Sequence[str]) -> Region | None:
    """Return the place that names of regions and countries stand for, that of means where they stand for several; None
    if the table knows none of them."""
    places = regions_among(names)
    return places[0] if len(places) == 1 else _mean_region(places) if places else None


def _mean_region(places: Sequence[Region]) -> Region:
    """Return a place of the means of several: of their grids, and of the tariffs that are known.

    Assumes: each place counts alike, however much is consumed there.
    """
    priced = [each for each in places if each.electricity_usd_per_kwh and each.electricity_observed_on]
    tariffs = [each.electricity_usd_per_kwh or 0.0 for each in priced]
    days = [each.electricity_observed_on for each in priced if each.electricity_observed_on]
    return Region(
        id=" ".join(each.id for each in places),
        name=f"mean of {len(places)} places",
        kg_co2e_per_kwh=sum(each.kg_co2e_per_kwh for each in places) / len(places),
        carbon_year=min(each.carbon_year for each in places),
        carbon_source=f"mean of {', '.join(each.name for each in places)}",
        electricity_usd_per_kwh=sum(tariffs) / len(tariffs) if tariffs else None,
        electricity_observed_on=min(days, default=None),
        electricity_source=f"mean of {', '.join(each.name for each in priced)}" if priced else "",
    )


@functools.cache
def _aliases() -> dict[str, str]:
    return {alias.lower(): region.id for region in all_regions().values() for alias in region.aliases}
