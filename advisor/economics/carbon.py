"""Energy and carbon of tokens: what the meter of a site shows, and what its grid emits for it."""

from dataclasses import dataclass

from advisor.catalog.ownership import Ownership
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.economics import Region
from advisor.catalog.units import GIGA, JOULES_PER_KWH, MILLION


@dataclass(frozen=True, slots=True)
class Footprint:
    """Energy and emissions of a million tokens and of a month."""

    region: str
    region_name: str
    kg_co2e_per_kwh: float
    kwh_per_million_tokens: float
    """Energy at the meter of the site, systems and cooling included [kWh per million tokens]."""
    kg_co2e_per_million_tokens: float
    kg_co2e_per_month: float
    carbon_year: int
    carbon_source: str


def site_kwh_per_million_tokens(accelerator_power_w: float, tokens_per_s: float, known: Ownership) -> float:
    """Energy of a million tokens at the meter of the site [kWh]; hosts and cooling as in catalog.ownership.

    Source: definition of PUE.
    """
    return known.site_power_w(accelerator_power_w) / tokens_per_s * MILLION / JOULES_PER_KWH


def footprint(kwh_per_million_tokens: float, tokens_per_month: float, region: Region) -> Footprint:
    """Energy and emissions in a region [kg CO2e].

    Assumes: the grid's average of the year, whatever contracts say; making the hardware is left out.
    Source: energy times grid intensity.
    """
    kg = kwh_per_million_tokens * region.kg_co2e_per_kwh
    return Footprint(
        region=region.id,
        region_name=region.name,
        kg_co2e_per_kwh=region.kg_co2e_per_kwh,
        kwh_per_million_tokens=kwh_per_million_tokens,
        kg_co2e_per_million_tokens=kg,
        kg_co2e_per_month=kg * tokens_per_month / MILLION,
        carbon_year=region.carbon_year,
        carbon_source=region.carbon_source,
    )


def peak_gflop_per_joule(accelerator: Accelerator, dtype: str = "bf16") -> float | None:
    """Dense peak over board power [Gflop/J, which is GFLOP/s per W]; None where one of them has no source.

    Source: data sheets.
    """
    peak = accelerator.peak_flop_per_s.get(dtype)
    if peak is None or not accelerator.tdp_w:
        return None
    return peak / accelerator.tdp_w / GIGA
