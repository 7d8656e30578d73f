"""The answer about money, whole and frozen: the only thing that renderers and files see."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from advisor.decide.decision import Counts, Rejected
from advisor.decide.option import Bill
from advisor.decide.ownership import Tco
from advisor.economics.api_bill import ApiCost
from advisor.economics.break_even import BreakEven
from advisor.economics.carbon import Footprint
from advisor.economics.fleet import FleetCost
from advisor.economics.sensitivity import Swing
from advisor.simulator.quantity import Quantity


@dataclass(frozen=True, slots=True)
class CostRow:
    """What tokens cost on one deployment from one source at one load."""

    way: str
    """rent or own."""
    accelerator: str
    accelerator_name: str
    num_accelerators: int
    num_replicas: int
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    expert_parallel: int
    engine: str
    weight_dtype: str
    kv_dtype: str | None
    """Number format of the KV cache; None for models without one."""
    provider: str
    provider_class: str
    sku: str
    region: str
    term: str
    usd_per_hour: float
    bill: Bill
    price_basis: str
    """listed, measured, derived, estimate or user."""
    price_kind: str
    """list, quote, from, tracker or marketplace."""
    price_tenancy: str
    price_observed_on: str
    price_age_days: int
    price_url: str
    standing: int
    """2: kernels measured and a seller's own fresh price; 1: an old one; 0: something is assumed or foreign."""
    levers: Mapping[str, object]
    """What is applied besides hardware and layout: prefix_caching, speculation, adapters."""
    load_fraction: float
    """Of the most that this deployment carries within the objectives."""
    requests_per_s: float
    tokens_per_day: float
    usd_per_million_tokens: Quantity
    usd_per_million_input_tokens: Quantity
    usd_per_million_cached_tokens: Quantity
    usd_per_million_output_tokens: Quantity
    share: Mapping[str, float]
    """How the bill divides by what is used."""
    ttft_p99_s: Quantity
    tpot_p99_s: Quantity | None
    power_w: float
    """Mean, of the accelerators."""
    kwh_per_million_tokens: float
    """At the meter of the site."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to get the tokens of a day, for comparison."""

    way: str
    """rent, own or api."""
    what: str
    usd_per_day: float
    usd_per_month: float
    usd_per_million_tokens: float
    utilisation_fraction: float | None
    price_observed_on: str
    note: str = ""
    standing: int = 2
    """Of a rented deployment, as that of a row."""
    is_assumed: bool = False
    """Its price is an assumption, not an offer: shown, but never called the cheapest."""


@dataclass(frozen=True, slots=True)
class OwnedOption:
    """Hardware of one's own: what it costs for its life and what a token costs on it."""

    row: CostRow
    tco: Tco


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """One deployment of one's own under one limit, at the load that it is planned for there."""

    limit_w: float
    output_tokens_per_s: float
    """Of one replica."""
    output_tokens_per_joule: float
    """Over the board power of its accelerators, each at the limit."""
    num_accelerators: int
    usd_per_million_tokens: float
    basis: Literal["measured", "modelled"]
    """modelled: rates by the cube root of power."""


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """What a token costs on the cheapest rented deployment when it is used less than fully; simulated."""

    load_fraction: float
    tokens_per_day: float
    usd_per_million_tokens: float
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    mean_batch: float
    busy_fraction: float
    ttft_p99_s: float
    tpot_p99_s: float | None


@dataclass(frozen=True, slots=True)
class CostReport:
    """The whole answer."""

    kind: str
    currency: str
    model: str
    headline: str
    rows: tuple[CostRow, ...]
    """Cheapest first, behind the one to take."""
    api: tuple[ApiCost, ...]
    ways: tuple[Way, ...]
    """The same volume by every way, cheapest first."""
    fleet: tuple[FleetCost, ...]
    load: tuple[LoadPoint, ...]
    tco: Tco | None
    owned: tuple[OwnedOption, ...]
    power_limits: tuple[PowerLimit, ...]
    """Of the first owned option, where a calibration holds a power sweep."""
    sensitivity: tuple[Swing, ...]
    owned_sensitivity: tuple[Swing, ...]
    break_even: tuple[BreakEven, ...]
    carbon: tuple[Footprint, ...]
    method: str
    rejected: tuple[Rejected, ...]
    counts: Counts
    volume: Mapping[str, float]
    """tokens_per_day, mean and peak requests per second that the comparison is about."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
