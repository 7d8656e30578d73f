"""Sets of cards as the planner compares them, and the rules that only a planned machine keeps."""

from dataclasses import dataclass, field
from typing import Final

from advisor.catalog.schema.part import Board, Cpu
from advisor.catalog.units import GB
from advisor.workstation.assembly import Cards, Memory, Risers, Setting, Supplies, host_bytes_per_s
from advisor.workstation.rules import Finding, at_least, holds, match_rule
from advisor.workstation.rules_links import generation_of, lanes_of

GRADED_FROM_USD: Final = 1000.0
"""Price of cards from which a supply of `GOOD_GRADES` feeds them [USD]: it costs about $50 more, and its failure takes
the cards along."""
GOOD_GRADES: Final = ("gold", "platinum", "titanium")


@dataclass(frozen=True, slots=True)
class RunConditions:
    """Least bandwidths of the machine at which a run was predicted; 0 is no condition."""

    host_bytes_per_s: float = 0.0
    """Bandwidth of the main memory, if layers run on the CPU [bytes/s]."""
    pcie_generation: int = 0
    pcie_lanes: int = 0
    """Electrical lanes of the narrowest card."""


@dataclass(frozen=True, slots=True)
class PlannedCards(Cards):
    """Set of cards with its price and the conditions of its predicted speed."""

    conditions: RunConditions = field(default_factory=RunConditions)
    usd: float = 0.0
    is_used: bool = False
    """Whether the price is second-hand although the cards are also sold new."""


def _conditions(cards: Cards) -> RunConditions:
    return cards.conditions if isinstance(cards, PlannedCards) else RunConditions()


@match_rule(
    "planned-memory",
    "memory bandwidth as planned",
    "GB/s",
    cards=lambda cards: _conditions(cards).host_bytes_per_s,
    memory=lambda memory: (memory.kit.ram_type, memory.kit.speed_mts, memory.num_modules),
    cpu=lambda cpu: cpu.series.id,
)
def planned_memory(cards: Cards, memory: Memory, cpu: Cpu, setting: Setting) -> Finding | None:
    """Compare the memory's bandwidth with the one at which the run was predicted."""
    wanted = _conditions(cards).host_bytes_per_s
    if not wanted:
        return None
    given = host_bytes_per_s(memory, cpu.series)
    why = f"layers on the CPU read {given / GB:.0f} GB/s, planned with {wanted / GB:.0f} GB/s"
    return at_least(given / GB, wanted / GB, why, "faster memory, or a CPU with more channels")


@match_rule(
    "planned-links",
    "links as planned",
    "lanes",
    cards=lambda cards: (cards.num, cards.accelerators, _conditions(cards)),
    board=lambda board: (board.lane_modes, tuple(slot.pcie_generation for slot in board.slots)),
    cpu=lambda cpu: cpu.series.pcie_generation,
)
def planned_links(cards: Cards, board: Board, cpu: Cpu, setting: Setting) -> Finding | None:
    """Compare generation and lanes of the cards' slots with those at which the run was predicted."""
    wanted = _conditions(cards)
    lanes = lanes_of(cards, board)
    if not wanted.pcie_lanes or not lanes:
        return None
    generation = generation_of(cards, board, cpu)
    why = (
        f"links are PCIe {generation}.0 x{min(lanes)}, planned with {wanted.pcie_generation}.0 "
        f"x{wanted.pcie_lanes}"
    )
    fits = generation >= wanted.pcie_generation and min(lanes) >= wanted.pcie_lanes
    return Finding(min(lanes), wanted.pcie_lanes, fits, why, "a board with faster slots")


@match_rule(
    "planned-risers",
    "risers as planned",
    "gen",
    cards=lambda cards: _conditions(cards).pcie_generation,
    risers=lambda risers: risers.riser.pcie_generation if risers.riser and risers.num else None,
)
def planned_risers(cards: Cards, risers: Risers, setting: Setting) -> Finding | None:
    """Compare the generation of riser cables with the one at which the run was predicted."""
    wanted = _conditions(cards).pcie_generation
    if not wanted or risers.riser is None or not risers.num:
        return None
    given = risers.riser.pcie_generation
    why = f"cables carry PCIe {given}.0, planned with {wanted}.0"
    return at_least(given, wanted, why, "cables of that generation, or a closed case")


@match_rule(
    "planned-supply",
    "class of the supply",
    cards=lambda cards: isinstance(cards, PlannedCards) and cards.usd >= GRADED_FROM_USD,
    supplies=lambda supplies: tuple(psu.grade for psu in supplies.psus),
)
def planned_supply(cards: Cards, supplies: Supplies, setting: Setting) -> Finding | None:
    """Judge the grade of a supply that feeds expensive cards."""
    if not isinstance(cards, PlannedCards) or cards.usd < GRADED_FROM_USD:
        return None
    grade = min((psu.grade for psu in supplies.psus), key=lambda grade: grade in GOOD_GRADES)
    why = f"a supply of grade {grade} feeds ${cards.usd:,.0f} of cards"
    return holds(grade in GOOD_GRADES, why, "a supply of grade gold or better")


PLANNING_RULES: Final = (planned_memory, planned_links, planned_risers, planned_supply)
"""Rules on machines that the planner composes; a user's list is not judged by them."""
