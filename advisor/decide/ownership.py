"""Total cost of owning accelerators for their life: lines of whole cents, which add up, each with its source."""

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass

from advisor.catalog.ownership import Ownership
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.economics import Assumption, PurchasePrice
from advisor.catalog.units import CENTS_PER_USD, HOURS_PER_MONTH, KILO

MONTHS_PER_YEAR = 12
WORK_HOURS_PER_YEAR = 2080.0
_ENERGY = ("electricity", "cooling and losses")


@dataclass(frozen=True, slots=True)
class OwnedCostLine:
    """One part of a bill, with what it rests on."""

    name: str
    usd: float
    """Whole cents."""
    basis: str
    """datasheet, measured, derived or estimate, as the catalog's records say."""
    observed_on: datetime.date
    source: str


def whole_cents(usd: float) -> int:
    """An amount in cents, rounded to the nearest; a tie goes to the even cent [cents]."""
    return round(usd * CENTS_PER_USD)


def round_to_cents(usd: float) -> float:
    """An amount in whole cents [USD]."""
    return whole_cents(usd) / CENTS_PER_USD


def total(lines: Iterable[OwnedCostLine]) -> float:
    """The sum of the lines, exact to the cent [USD].

    Source: definition; cents are added as integers.
    """
    return sum(whole_cents(line.usd) for line in lines) / CENTS_PER_USD


@dataclass(frozen=True, slots=True)
class Holding:
    """Owned hardware: number and kind of accelerators, number of machines, and power drawn."""

    accelerator: Accelerator
    num_accelerators: int
    mean_accelerator_power_w: float
    """Mean power of all accelerators together over the hours of their life [W]."""
    replicas_span_nodes: bool = False
    num_fed: int | None = None
    """How many of them a power budget feeds, which are those that power is reserved for; None without a budget."""

    @property
    def is_server(self) -> bool:
        """Modules on a baseboard; cards and whole small systems stand in an own room."""
        return is_sold_by_the_node(self.accelerator)

    @property
    def num_nodes(self) -> int:
        return -(-self.num_accelerators // accelerators_per_machine(self.accelerator))


@dataclass(frozen=True, slots=True)
class Tco:
    """The cost of ownership over the life: its items, their sum, and the sum per hour and month."""

    accelerator: str
    num_accelerators: int
    life_years: float
    lines: tuple[OwnedCostLine, ...]
    depreciation_usd: float
    """Purchase less resale."""
    total_usd: float
    usd_per_hour: float
    usd_per_month: float
    purchase_usd: float
    running_usd_per_month: float
    """Monthly cost without purchase, resale and interest [USD]: it ends when the machine is switched off and
    removed."""
    energy_usd_per_month: float


def is_sold_by_the_node(accelerator: Accelerator) -> bool:
    """Whether the accelerator is a module that is bought with its baseboard or rack, not a card or a small system.

    Source: form factors of the catalog.
    """
    return accelerator.form_factor.upper().startswith(("SXM", "OAM", "SUPERCHIP/RACK"))


def accelerators_per_machine(accelerator: Accelerator) -> int:
    """Return how many accelerators stand in one machine: those of a node, two cards of a workstation, one of a small
    system."""
    if is_sold_by_the_node(accelerator):
        return accelerator.node_size
    return 1 if accelerator.unified_memory else 2


def tco(holding: Holding, purchase: PurchasePrice, known: Ownership) -> Tco:
    """Total cost of owning for the assumed life [USD]: what was paid and is not got back, and what running costs.

    Purchase − resale + interest of an annuity loan over the life + energy of the systems + what cooling and losses add
    to it (PUE − 1) + colocation of the provisioned power + network + staff. Nominal dollars, no taxes.

    Assumes: the mean power holds for the whole life; cards and small systems stand in an own room without rent.
    Source: own composition; figures from catalog.ownership, each with its own source.
    """
    parts = _Parts(known, months=known.value("life_years") * MONTHS_PER_YEAR)
    count = holding.num_accelerators
    lines = [
        OwnedCostLine(
            "accelerators",
            round_to_cents(count * purchase.usd),
            purchase.kind,
            purchase.observed_on,
            purchase.source,
        )
    ]
    if not purchase.is_system:
        name = "server_usd_per_accelerator" if holding.is_server else "workstation_usd_per_accelerator"
        lines.append(parts.line("machines around them", name, count))
    if holding.replicas_span_nodes:
        lines.append(parts.line("network between machines", "network_usd_per_accelerator", count))
    bought = total(lines)
    kept = (1.0 - known.value("resale_decay_per_year")) ** known.value("life_years")
    lines.append(parts.line("resale at the end", "resale_decay_per_year", -bought * kept, times_value=False))
    interest = _annuity_interest(bought, known.value("interest_per_year"), parts.months)
    lines.append(parts.line("interest", "interest_per_year", interest, times_value=False))
    running = _running(holding, parts)
    lines += running
    life_hours = parts.months * HOURS_PER_MONTH
    whole = total(lines)
    return Tco(
        accelerator=holding.accelerator.id,
        num_accelerators=count,
        life_years=known.value("life_years"),
        lines=tuple(lines),
        depreciation_usd=round_to_cents(bought - bought * kept),
        total_usd=whole,
        usd_per_hour=whole / life_hours,
        usd_per_month=whole / parts.months,
        purchase_usd=bought,
        running_usd_per_month=total(running) / parts.months,
        energy_usd_per_month=total(line for line in running if line.name in _ENERGY) / parts.months,
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """Makes lines out of assumptions."""

    known: Ownership
    months: float

    def line(self, name: str, assumption: str, amount: float, *, times_value: bool = True) -> OwnedCostLine:
        figure: Assumption = self.known.assumptions[assumption]
        usd = amount * figure.value if times_value else amount
        return OwnedCostLine(name, round_to_cents(usd), figure.kind, figure.observed_on, figure.source)


def _running(holding: Holding, parts: _Parts) -> list[OwnedCostLine]:
    known = parts.known
    months = parts.months
    system_kw = known.system_power_w(holding.mean_accelerator_power_w) / KILO
    energy_kwh = system_kw * months * HOURS_PER_MONTH
    lines = [
        parts.line("electricity", "electricity_usd_per_kwh", energy_kwh),
        parts.line(
            "cooling and losses",
            "pue",
            energy_kwh * (known.value("pue") - 1.0) * known.value("electricity_usd_per_kwh"),
            times_value=False,
        ),
    ]
    if holding.is_server:
        count = holding.num_accelerators if holding.num_fed is None else holding.num_fed
        rated_kw = count * (holding.accelerator.tdp_w or 0.0) / KILO
        reserved_kw = rated_kw * known.value("provisioned_power_factor")
        lines.append(parts.line("colocation", "colocation_usd_per_kw_month", reserved_kw * months))
    hours_of = "staff_hours_per_node_month" if holding.is_server else "staff_hours_per_workstation_month"
    hours = known.value(hours_of) * holding.num_nodes * months
    lines.append(parts.line("staff", "staff_usd_per_year", hours / WORK_HOURS_PER_YEAR))
    return lines


def _annuity_interest(principal: float, per_year: float, months: float) -> float:
    """Interest over the term of a loan that equal monthly payments pay back [USD].

    Source: annuity formula.
    """
    per_month = per_year / MONTHS_PER_YEAR
    if per_month <= 0.0 or months <= 0.0:
        return 0.0
    payment = principal * per_month / -math.expm1(-months * math.log1p(per_month))
    return max(0.0, payment * months - principal)
