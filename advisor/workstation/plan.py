"""Result of the planner: machines with their bills, checks, performance and costs."""

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from advisor.catalog.schema.part import Part, PartPrice, PriceBasis
from advisor.workstation.assembly import Assembly, Check, Setting
from advisor.workstation.candidates import SearchLimits
from advisor.workstation.economics import Economics, MachineOwnership
from advisor.workstation.performance import MachineLoad, MachinePerformance

IN_ANOTHER: Final = "in the price of another line"
"""Source of the price of a line that another one bears."""
WITH_OTHERS: Final = "yours, with other lines"
"""Source of a price that is that of other lines too."""


@dataclass(frozen=True, slots=True)
class Question:
    """Question to the planner."""

    load: MachineLoad
    budget_usd: float | None = None
    target_tokens_per_s: float | None = None
    setting: Setting = field(default_factory=Setting)
    limits: SearchLimits = field(default_factory=SearchLimits)
    use: MachineOwnership = field(default_factory=MachineOwnership)
    as_of: datetime.date = datetime.date.max
    top: int = 4
    seed: int = 0
    systems: bool = True
    used: bool = False
    """Whether second-hand prices count if they are known."""
    have: Assembly | None = None
    """Parts that the user has, which cost nothing; None if there are none."""
    price_cache: Path | None = None
    """Folder of refreshed rental prices, which count before the bundled ones; None means bundled prices only."""


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
    """Source of the price."""
    part_source: str = ""
    """Source of the part's figures."""
    flags: tuple[str, ...] = ()

    @property
    def usd(self) -> float:
        """Price of all pieces, to the cent [USD]."""
        return round((self.unit_price_usd or 0.0) * self.quantity, 2)


def part_line(category: str, part: Part, quantity: int, price: PartPrice | None) -> PartLine:
    """Return a line of the bill; a part without a known price keeps an empty price."""
    line = PartLine(category, part.name, quantity, part_source=part.source, flags=part.flags)
    if price is None:
        return line
    return replace(
        line,
        unit_price_usd=price.usd,
        price_basis=price.basis,
        price_observed_on=price.observed_on,
        price_low_usd=price.usd_low,
        price_high_usd=price.usd_high,
        condition=price.condition,
        num_listings=price.num_listings,
        source=price.source.title,
    )


def total_of(lines: Sequence[PartLine]) -> float:
    """Sum of a bill, to the cent [USD]."""
    return round(math.fsum(line.usd for line in lines), 2)


@dataclass(frozen=True, slots=True)
class Build:
    """One machine to buy."""

    name: str
    kind: str
    """Kind of machine: parts or system."""
    parts: tuple[PartLine, ...]
    total_usd: float
    checks: tuple[Check, ...]
    performance: MachinePerformance | None
    economics: Economics | None
    power_w: float
    """Power at the wall while the machine runs the model [W]."""
    optimality_gap: float
    note: str = ""
    machine: Assembly | None = None
    is_used: bool = False
    """Whether it has second-hand parts and the question does not ask for them: an option after new machines, and never
    the knee."""

    @property
    def rests_on_one_estimate(self) -> bool:
        """Whether it is second-hand as a whole and its price is an estimate of one page: no machine stands behind it
        for that, and it heads no answer that has another."""
        line = self.parts[0] if self.parts else None
        is_second_hand = line is not None and (line.condition, line.price_basis) == ("used", "estimate")
        return self.kind == "system" and is_second_hand

    @property
    def broken(self) -> tuple[Check, ...]:
        """Failed checks of hard rules."""
        return tuple(check for check in self.checks if check.verdict == "broken")

    @property
    def unknown(self) -> tuple[Check, ...]:
        """Checks of rules whose result is unknown."""
        return tuple(check for check in self.checks if check.verdict == "unknown")


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Result of the planner."""

    builds: tuple[Build, ...]
    unpriced: Mapping[str, int]
    """Number of parts by category that have no price and were left out."""
    num_binaries: int
    num_inequalities: int
    wall_s: float
    saving: Build | None = None
    """Cheapest machine with second-hand parts that is as fast as the first one for less; None if there is none."""
    gaining: Build | None = None
    """Fastest machine with second-hand parts, if it is a quarter faster than the first one; None if there is none."""
    left_out: Sequence[str] = ()
    """Complete systems that break a hard rule, or whose result is unknown, with the rule."""
