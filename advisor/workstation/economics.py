"""Cost of a machine over its life, compared with renting the same accelerators."""

import datetime
from dataclasses import dataclass
from typing import Final

from advisor.catalog.ownership import ownership
from advisor.catalog.units import HOUR_S, KILO, MILLION

DAYS_PER_YEAR: Final = 365.0


@dataclass(frozen=True, slots=True)
class MachineOwnership:
    """Use of the machine, and its value at the end."""

    hours_per_day: float = 8.0
    years: float = 3.0
    usd_per_kwh: float = 0.1437
    resale_fraction: float = 0.37
    """Resale value at the end, as a fraction of the purchase price."""

    @property
    def hours(self) -> float:
        """Hours of work over the machine's life [h]."""
        return self.hours_per_day * DAYS_PER_YEAR * self.years


@dataclass(frozen=True, slots=True)
class Rent:
    """Cheapest hardware to rent that is at least as fast."""

    accelerator: str
    num: int
    usd_per_hour: float
    offer: str
    observed_on: datetime.date
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Economics:
    """Dollars of owning and of renting; rental figures are None if no provider rents the accelerator out."""

    own_usd_per_hour: float
    energy_usd_per_hour: float
    own_usd_per_million_tokens: float | None
    own_usd_per_million_output_tokens: float | None
    resale_usd: float
    rent: Rent | None = None
    rent_usd_per_million_tokens: float | None = None
    """Rent per million tokens at this machine's speed [USD]: the bill of the rented hardware for the same work."""
    break_even_hours: float | None = None
    """Hours of work after which owning is cheaper [h]; None if it never is."""
    break_even_days: float | None = None
    """Days after which owning is cheaper, at the stated hours a day; None if it never is."""


def usual_ownership(
    as_of: datetime.date,
    hours_per_day: float,
    years: float,
    usd_per_kwh: float | None = None,
    resale_fraction: float | None = None,
) -> MachineOwnership:
    """Return the use of a machine; values that are not given come from the catalog's figures of ownership.

    Value left after y years: (1 − decay)^y.

    Source: data/ownership.toml, electricity_usd_per_kwh and resale_decay_per_year.
    """
    known = ownership(as_of)
    price = known.value("electricity_usd_per_kwh") if usd_per_kwh is None else usd_per_kwh
    decay = known.value("resale_decay_per_year")
    left = (1.0 - decay) ** years if resale_fraction is None else resale_fraction
    return MachineOwnership(hours_per_day, years, price, left)


def energy_usd_per_hour(power_w: float, usd_per_kwh: float) -> float:
    """Electricity of an hour of work [USD/h]. Source: definition."""
    return power_w / KILO * usd_per_kwh


def break_even_hours(loss_usd: float, rent_usd_per_hour: float, running_usd_per_hour: float) -> float | None:
    """Hours of work after which the loss of value equals the extra cost of renting [h].

    loss / (rent − running); None where running it costs as much as renting.

    Assumes: the machine loses its value with time, not with hours, and is sold at the end.
    """
    saved = rent_usd_per_hour - running_usd_per_hour
    return loss_usd / saved if saved > 0 else None


def economics(
    usd: float, power_w: float, tokens_per_s: tuple[float, float], rent: Rent | None, use: MachineOwnership
) -> Economics:
    """Return the costs of owning and of renting; `tokens_per_s` is the rate of all tokens, then of output alone."""
    resale = usd * use.resale_fraction
    energy = energy_usd_per_hour(power_w, use.usd_per_kwh)
    own = (usd - resale) / use.hours + energy
    even = break_even_hours(usd - resale, rent.usd_per_hour, energy) if rent is not None else None
    total, output = tokens_per_s
    return Economics(
        own_usd_per_hour=own,
        energy_usd_per_hour=energy,
        own_usd_per_million_tokens=usd_per_million(own, total),
        own_usd_per_million_output_tokens=usd_per_million(own, output),
        resale_usd=resale,
        rent=rent,
        rent_usd_per_million_tokens=None if rent is None else usd_per_million(rent.usd_per_hour, total),
        break_even_hours=even,
        break_even_days=None if even is None else even / use.hours_per_day,
    )


def usd_per_million(usd_per_hour: float, tokens_per_s: float) -> float | None:
    """Cost of a million tokens at a rate [USD]; None without tokens. Source: definition."""
    return usd_per_hour / (tokens_per_s * HOUR_S) * MILLION if tokens_per_s > 0 else None
