"""Assumptions of owning hardware: cited figures with ranges, each of which a user's file may replace."""

import datetime
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import check_record, named_records, read_toml
from advisor.catalog.part_prices import accelerator_price, price_book
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.economics import Assumption, PurchasePrice, Region
from advisor.catalog.units import KILO

USER: Final = "given by the user"
_LIMITS: Final = {
    "life_years": (0.5, 20.0),
    "resale_decay_per_year": (0.0, 1.0),
    "interest_per_year": (0.0, 1.0),
    "electricity_usd_per_kwh": (0.0, 5.0),
    "pue": (1.0, 5.0),
    "system_power_factor": (1.0, 5.0),
    "provisioned_power_factor": (1.0, 5.0),
    "reserved_1y_fraction": (0.0, 1.0),
    "spot_overhead_fraction": (0.0, 10.0),
}
"""Allowed range of a user's value by assumption; others may be any value from 0 up."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Assumptions by name and purchase prices by accelerator; the user's own replace the catalog's."""

    assumptions: Mapping[str, Assumption]
    purchases: Mapping[str, PurchasePrice]

    def value(self, name: str) -> float:
        return self.assumptions[name].value

    def site_power_w(self, accelerator_power_w: float) -> float:
        """Power of accelerators at the site's meter, hosts and cooling included [W]."""
        return self.system_power_w(accelerator_power_w) * self.value("pue")

    def system_power_w(self, accelerator_power_w: float) -> float:
        """Power of whole machines whose accelerators draw `accelerator_power_w` [W]."""
        return accelerator_power_w * self.value("system_power_factor")

    def energy_usd_per_hour(self, accelerator_power_w: float) -> float:
        """Electricity cost of accelerators that draw `accelerator_power_w`, hosts and cooling included [USD/h]."""
        return self.site_power_w(accelerator_power_w) / KILO * self.value("electricity_usd_per_kwh")

    def with_assumption(self, name: str, value: float) -> "Ownership":
        """Return a copy with one assumption at another value, within or beyond its range."""
        old = self.assumptions[name]
        changed = old.model_copy(
            update={"value": value, "low": min(old.low, value), "high": max(old.high, value)}
        )
        return Ownership({**self.assumptions, name: changed}, self.purchases)

    def with_user_value(self, name: str, value: float, as_of: datetime.date) -> "Ownership":
        """Return a copy with the user's own value of one assumption, without a range.

        Raises: InputFileError: the value is out of range.
        """
        _check_limits(name, value, f"the value of {name}")
        own = _own_assumption(self.assumptions[name], value, as_of, name)
        return Ownership({**self.assumptions, name: own}, self.purchases)

    def with_purchase(self, accelerator: Accelerator, usd: float, as_of: datetime.date) -> "Ownership":
        """Return a copy with the user's own purchase price for one accelerator.

        Raises: InputFileError: `usd` is not a price.
        """
        own = _purchase(accelerator, usd, as_of, f"the purchase price of {accelerator.id}")
        return Ownership(self.assumptions, {**self.purchases, accelerator.id: own})

    def with_electricity_of(self, region: Region) -> "Ownership":
        """Return a copy with the tariff of a region, if the region has one and the user gave none."""
        old = self.assumptions["electricity_usd_per_kwh"]
        tariff = region.electricity_usd_per_kwh
        day = region.electricity_observed_on
        if tariff is None or day is None or old.source == USER:
            return self
        span = {"value": tariff, "low": min(old.low, tariff), "high": max(old.high, tariff)}
        origin = {"observed_on": day, "source": region.electricity_source, "url": ""}
        local = check_record(Assumption, {**old.model_dump(), **span, **origin}, region.id)
        return Ownership({**self.assumptions, "electricity_usd_per_kwh": local}, self.purchases)


def ownership(as_of: datetime.date, user_file: Path | None = None) -> Ownership:
    """Return the ownership figures; a user's file replaces the catalog's.

    Raises: InputFileError: the file is not TOML, names an unknown assumption or accelerator, or a
        value is negative, not finite or not a number.
    Source: data/ownership.toml, each with its own source.
    """
    bundled = _bundled_ownership()
    if user_file is None:
        return bundled
    return _with_user_values(bundled, read_toml(user_file), user_file, as_of)


def purchase_price(known: Ownership, accelerator: Accelerator) -> PurchasePrice | None:
    """Return the purchase price of one accelerator: the user's figure, else the price in the workstation planner's
    book; None if no source states one."""
    if accelerator.id in known.purchases:
        return known.purchases[accelerator.id]
    found = accelerator_price(accelerator, price_book())
    if found is None:
        return None
    price, num_accelerators, is_system = found
    return PurchasePrice(
        accelerator=accelerator.id,
        usd=price.usd / num_accelerators,
        low=(price.usd_low or price.usd) / num_accelerators,
        high=(price.usd_high or price.usd) / num_accelerators,
        is_system=is_system,
        kind=price.source.kind,
        condition=price.condition,
        observed_on=price.observed_on,
        is_dated=price.is_dated,
        source=price.source.title,
        url=price.source.where,
    )


@functools.cache
def _bundled_ownership() -> Ownership:
    return Ownership(named_records(Assumption, "ownership.toml", "assumptions"), {})


def _with_user_values(
    bundled: Ownership, data: Mapping[str, Any], path: Path, as_of: datetime.date
) -> Ownership:
    assumptions = dict(bundled.assumptions)
    purchases = dict(bundled.purchases)
    for name, given in data.items():
        if name == "purchase" and isinstance(given, Mapping):
            for accelerator, usd in given.items():
                record = _own_purchase(accelerator, usd, path, as_of)
                purchases[record.accelerator] = record
            continue
        if name not in assumptions:
            near = near_misses(name, tuple(assumptions), {})
            raise InputFileError(
                f"{path}: field {name}: no such assumption",
                why=f"known are {', '.join(assumptions)}, and a table [purchase]",
                fix=f"write {near[0]}" if near else "take one of these names",
            )
        old = assumptions[name]
        value = _number(given, f"{path}: field {name}")
        where = f"{path}: field {name}"
        _check_limits(name, value, where)
        assumptions[name] = _own_assumption(old, value, as_of, where)
    return Ownership(assumptions, purchases)


def _own_purchase(accelerator: str, usd: object, path: Path, as_of: datetime.date) -> PurchasePrice:
    where = f"{path}: field purchase.{accelerator}"
    try:
        record = accelerator_catalog.get(accelerator).record
    except UnknownNameError as error:
        raise InputFileError(
            f"{where}: {error.what}", why=error.why, fix=error.fix, hint=error.hint
        ) from None
    return _purchase(record, _number(usd, where), as_of, where)


def _purchase(record: Accelerator, usd: float, as_of: datetime.date, where: str) -> PurchasePrice:
    values = {"accelerator": record.id, "usd": usd, "low": usd, "high": usd}
    values |= {"is_system": record.unified_memory, "kind": "estimate", "observed_on": as_of, "source": USER}
    return check_record(PurchasePrice, values, where)


def _own_assumption(old: Assumption, value: float, as_of: datetime.date, where: str) -> Assumption:
    own = {**old.model_dump(), "value": value, "low": value, "high": value}
    own |= {"kind": "estimate", "observed_on": as_of, "source": USER, "url": ""}
    return check_record(Assumption, own, where)


def _check_limits(name: str, value: float, where: str) -> None:
    low, high = _LIMITS.get(name, (0.0, float("inf")))
    if not low <= value <= high:
        span = f"{low:g} to {high:g}" if high < float("inf") else f"{low:g} or more"
        raise InputFileError(
            f"{where}: {value:g} is out of range",
            why=f"it must be {span}",
            fix=f"correct {name}",
        )


def _number(given: object, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InputFileError(f"{where}: {given!r}", why="not a number", fix="write a number, e.g. 0.09")
    return float(given)
