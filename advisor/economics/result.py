"""Answers about money, frozen: the options of a decision, with what `cost` adds to each and compares them with."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from advisor.decide.decision import Comparison, Counts, NotTaken, Rejected
from advisor.decide.option import Option, with_terms
from advisor.decide.ownership import Tco
from advisor.economics.api_bill import ApiCost
from advisor.economics.break_even import BreakEven
from advisor.economics.carbon import Footprint
from advisor.economics.fleet import FleetCost
from advisor.economics.sensitivity import Swing
from advisor.simulator.quantity import Quantity


@dataclass(frozen=True, slots=True)
class ProviderPrice:
    """The cost of an option's deployment on the best offer of one provider and term."""

    provider: str
    region: str
    term: str
    kind: str
    tenancy: str
    age_days: int | None
    num_accelerators: int
    usd_per_hour: float
    """Machines alone [USD/h]."""
    usd_per_million_tokens: float
    """Machines alone, at the load of `performance` [USD]."""

    @property
    def source_words(self) -> str:
        """Provider with region and term, as those of an offer."""
        return with_terms(self.provider, self.region, self.term)


@dataclass(frozen=True, slots=True)
class CostRow:
    """An option, with what its tokens cost at the mean load of the day; a document has its fields in the row."""

    option: Option
    way: Literal["rent", "own"]
    load_fraction: float
    """Mean load over the highest that replicas on all accelerators bought carry within the objectives."""
    mean_requests_per_s: float
    tokens_per_day: float
    usd_per_hour: float
    """Total that the token prices add up to: the whole known bill; for owned hardware the cost of ownership, with
    storage and egress [USD/h]."""
    usd_per_million_tokens: Quantity
    """Cost at the mean load [USD per million tokens]; `performance` states the cost of machines at the peak."""
    usd_per_million_input_tokens: Quantity
    usd_per_million_cached_tokens: Quantity
    usd_per_million_output_tokens: Quantity
    share: Mapping[str, float]
    """How the bill divides by what is used."""
    mean_power_w: float | None
    """Mean power of the accelerators over the day [W]; None where no source states their power."""
    kwh_per_million_tokens: float | None
    """Energy at the meter of the site."""
    providers: tuple[ProviderPrice, ...] = ()
    """Offers of other providers and terms for the same deployment, cheapest first."""
    tco: Tco | None = None
    """Cost of ownership; None for rented hardware."""

    @property
    def deal(self) -> str:
        """Return what is rented or bought, in words."""
        machine = self.option.machine
        count = machine.num_accelerators if self.tco is None else self.tco.num_accelerators
        words = f"{count} x {machine.accelerator}"
        return f"{words} from {self.option.offer.source_words}" if self.option.offer else words

    @property
    def priced_on(self) -> str:
        """Day on which the price was read, as ISO 8601."""
        if self.option.offer is not None:
            return self.option.offer.read_words
        return "" if self.tco is None else self.tco.lines[0].observed_on.isoformat()

    def document_fields(self) -> dict[str, object]:
        """The fields of the option and those that `cost` adds, side by side."""
        option = {field.name: getattr(self.option, field.name) for field in fields(self.option)}
        return option | {f.name: getattr(self, f.name) for f in fields(self) if f.name != "option"}

    if not TYPE_CHECKING:  # code of the program names the option

        def __getattr__(self, name: str) -> object:
            """Return a field of the option, which a document has in the row."""
            if name.startswith("_") or name not in Option.__dataclass_fields__:
                raise AttributeError(f"a row has no field {name!r}")
            return getattr(self.option, name)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to get the tokens of a day, for comparison."""

    way: Literal["rent", "own", "api"]
    what: str
    usd_per_day: float
    usd_per_month: float
    usd_per_million_tokens: float
    utilisation_fraction: float | None
    price_observed_on: str
    note: str = ""
    may_lead: bool = True
    """Whether the headline may name it: an offer of the terms that were asked for, on hardware as well known as that of
    the first option."""


@dataclass(frozen=True, slots=True)
class LimitedDeployment:
    """One deployment of one's own under one limit, at the load that it is planned for there."""

    limit_w: float
    output_tokens_per_s: float
    """Output tokens per second of one replica."""
    output_tokens_per_joule: float
    """Output tokens per joule, over the board power of the replica's accelerators, each at the limit."""
    num_accelerators: int
    usd_per_million_tokens: float
    basis: Literal["measured", "modelled"]
    """modelled: rates by the cube root of power."""


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """The cost of a token on the first option at less than full use, as simulated."""

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
    """The options of `recommend` for the same question, in its order."""
    safe_pick: Option | None
    """The option with the role `safe_pick`, also where it is below the cut of `--top`; None where there is none."""
    comparisons: tuple[Comparison, ...]
    """How sure the first row is cheaper than each of the others."""
    api: tuple[ApiCost, ...]
    ways: tuple[Way, ...]
    """Ways to serve one volume of tokens, cheapest first."""
    fleet: tuple[FleetCost, ...]
    load: tuple[LoadPoint, ...]
    tco: Tco | None
    owned: tuple[CostRow, ...]
    """Hardware of one's own, cheapest per token first: what the question names, as `recommend` answers it, or systems
    with a purchase price."""
    power_limits: tuple[LimitedDeployment, ...]
    """Effects of power limits on the first owned option, if a calibration holds a power sweep; else empty."""
    sensitivity: tuple[Swing, ...]
    owned_sensitivity: tuple[Swing, ...]
    break_even: tuple[BreakEven, ...]
    carbon: tuple[Footprint, ...]
    method: str
    rejected: tuple[Rejected, ...]
    not_taken: tuple[NotTaken, ...]
    """Providers and engines that the question names and no option has, and providers whose listed API has ended."""
    counts: Counts
    volume: Mapping[str, float]
    """tokens_per_day, mean and peak requests per second that the comparison is about."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
