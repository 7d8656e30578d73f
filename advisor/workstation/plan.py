"""The answer of the planner: machines with their bill, their checks, what they run and what that costs."""

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.catalog.schema.part import Part, PartPrice, PriceBasis
from advisor.simulator.quantity import Quantity
from advisor.workstation.assembly import Assembly, Check, Setting
from advisor.workstation.candidates import Limits
from advisor.workstation.economics import Economics, Ownership
from advisor.workstation.hardware import Run
from advisor.workstation.performance import Load


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the planner."""

    load: Load
    budget_usd: float | None = None
    target_tokens_per_s: float | None = None
    setting: Setting = field(default_factory=Setting)
    limits: Limits = field(default_factory=Limits)
    use: Ownership = field(default_factory=Ownership)
    as_of: datetime.date = datetime.date.max
    top: int = 4
    seed: int = 0
    systems: bool = True
    used: bool = False
    """Whether second-hand prices count where they are known."""
    price_cache: Path | None = None
    """Folder of refreshed rental prices, which count before the bundled ones."""


@dataclass(frozen=True, slots=True)
class PartLine:
    """One line of a bill."""

    category: str
    name: str
    quantity: int
    unit_price_usd: float | None = None
    price_basis: PriceBasis | None = None
    price_observed_on: datetime.date | None = None
    price_low_usd: float | None = None
    price_high_usd: float | None = None
    condition: str = "new"
    num_listings: int = 0
    source: str = ""
    """Where the price was read."""
    part_source: str = ""
    """Where the part's figures come from."""
    flags: tuple[str, ...] = ()

    @property
    def usd(self) -> float:
        """Of all of them, to the cent."""
        return round((self.unit_price_usd or 0.0) * self.quantity, 2)


def part_line(category: str, part: Part, quantity: int, price: PartPrice | None) -> PartLine:
    """A line of the bill; a part that nobody prices keeps an empty price."""
    line = PartLine(category, part.name, quantity, part_source=part.source, flags=part.flags)
    if price is None:
        return line
    return replace(
        line, unit_price_usd=price.usd, price_basis=price.basis, price_observed_on=price.observed_on,
        price_low_usd=price.usd_low, price_high_usd=price.usd_high, condition=price.condition,
        num_listings=price.num_listings, source=price.source.title,
    )  # fmt: skip


def total_of(lines: Sequence[PartLine]) -> float:
    """Sum of a bill, to the cent [USD]."""
    return round(math.fsum(line.usd for line in lines), 2)


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """The machine under one power limit of its cards."""

    power_fraction: float
    power_w: float
    """At the wall."""
    output_tokens_per_s: float
    output_tokens_per_joule: float


@dataclass(frozen=True, slots=True)
class Performance:
    """What a machine does with the model."""

    run: Run
    output_tokens_per_s: Quantity
    """Over whole requests."""
    input_tokens_per_s: float
    decode_tokens_per_s: Quantity
    ttft_s: Quantity | None
    tpot_s: Quantity | None
    other_runs: tuple[Run, ...] = ()
    """The best of each other engine."""
    finest: Run | None = None
    """The run with the most bits per weight that fits."""
    qlora_bytes_per_card: float = 0.0
    """What QLoRA of the model takes of each card."""
    qlora_fits: bool = False
    largest_qlora: str = ""
    """The largest of a few dense models that QLoRA fits."""
    power_points: tuple[PowerPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Build:
    """One machine to buy."""

    name: str
    kind: str
    """parts or system."""
    parts: tuple[PartLine, ...]
    total_usd: float
    checks: tuple[Check, ...]
    performance: Performance | None
    economics: Economics | None
    power_w: float
    """At the wall while it runs the model."""
    optimality_gap: float
    note: str = ""
    machine: Assembly | None = None

    @property
    def broken(self) -> tuple[Check, ...]:
        """Hard rules that it breaks."""
        return tuple(check for check in self.checks if check.verdict == "broken")

    @property
    def unknown(self) -> tuple[Check, ...]:
        """Rules of which nobody can say whether it keeps them."""
        return tuple(check for check in self.checks if check.verdict == "unknown")


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What the planner found."""

    builds: tuple[Build, ...]
    unpriced: Mapping[str, int]
    """Parts by category that nobody prices and that were left out."""
    num_binaries: int
    num_inequalities: int
    wall_s: float
    left_out: Sequence[str] = ()
    """Complete systems that break a hard rule, and which."""
