"""Sets of cards as the planner compares them, and the rules that only a planned machine keeps."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from advisor.catalog.schema.part import Board, Bridge, Cpu
from advisor.catalog.units import GB
from advisor.workstation.assembly import SERVER, Cards, Memory, Risers, Setting, host_bytes_per_s
from advisor.workstation.rules import Finding, MatchRule, at_least, holds, match_rule
from advisor.workstation.rules_links import generation_of, generation_of_cards, lanes_of


@dataclass(frozen=True, slots=True)
class RunConditions:
    """Least bandwidths of the machine at which a run was predicted; 0 is no condition."""

    host_bytes_per_s: float = 0.0
    """Bandwidth of the main memory, if layers run on the CPU [bytes/s]."""
    pcie_generation: int = 0
    pcie_lanes: int = 0
    """Electrical lanes of the narrowest card."""
    bridged: bool = False
    """Whether an NVLink bridge joins the two cards."""


@dataclass(frozen=True, slots=True)
class PlannedCards(Cards):
    """Set of cards with its price and the conditions of its predicted speed."""

    conditions: RunConditions = field(default_factory=RunConditions)
    usd: float = 0.0


def _conditions(cards: Cards) -> RunConditions:
    return cards.conditions if isinstance(cards, PlannedCards) else RunConditions()


@match_rule(
    "planned-memory",
    "memory bandwidth as planned",
    "GB/s",
    without_cards=True,
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
    cards=lambda cards: (
        cards.num,
        generation_of_cards(cards),
        _conditions(cards).pcie_generation,
        _conditions(cards).pcie_lanes,
    ),
    board=lambda board: (
        tuple(map(min, board.lane_modes)),
        tuple(accumulate((slot.pcie_generation for slot in board.slots), min)),
    ),
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
    "planned-bridge",
    "bridge as planned",
    "bridges",
    cards=lambda cards: _conditions(cards).bridged,
    bridges=len,
)
def planned_bridge(cards: Cards, bridges: tuple[Bridge, ...], setting: Setting) -> Finding | None:
    """Compare the bridges with the one at which the run was predicted."""
    if not _conditions(cards).bridged:
        return None
    return at_least(len(bridges), 1, f"{len(bridges)} bridges, planned with one", "an NVLink bridge")


_ADDED_BY_OWNER: Final = ("cpu", "cooler")
"""Places of a whole machine that its owner may name as parts of their own: its supply and its case fit it alone."""


def _machine_of_board(board: Board) -> str:
    """Return the name of the whole machine of which a board is a part; empty if it is sold alone."""
    return board.sold_with or (board.name if SERVER in board.flags else "")


def _rule_of_machine(
    place: str, machine_of: Callable[[Any], str], *, takes_others: bool = False
) -> MatchRule:
    """Return the rule that a part is sold with the machine of the board, or both are sold alone; a machine may take
    others of some parts."""

    def judge(board: Board, choice: Any, setting: Setting) -> Finding:
        machine = _machine_of_board(board)
        why = f"board of {machine or 'its own'}, {place} of {machine_of(choice) or 'its own'}"
        is_added = not machine_of(choice) and (
            takes_others or (not board.sold_with and place in _ADDED_BY_OWNER)
        )
        return holds(is_added or machine == machine_of(choice), why, "parts of one machine")

    reads: dict[str, Callable[[Any], Hashable]] = {"board": _machine_of_board, place: machine_of}
    return MatchRule("sold-together", "parts of one machine", ("board", place), judge, reads=reads)


SOLD_TOGETHER: Final = (
    _rule_of_machine("cpu", lambda cpu: str(cpu.sold_with)),
    _rule_of_machine("memory", lambda memory: str(memory.kit.sold_with), takes_others=True),
    _rule_of_machine("supplies", lambda supplies: str(supplies.psus[0].sold_with)),
    _rule_of_machine("case", lambda case: str(case.sold_with)),
    _rule_of_machine("cooler", lambda cooler: str(cooler.sold_with)),
)
PLANNING_RULES: Final = (planned_memory, planned_links, planned_risers, planned_bridge, *SOLD_TOGETHER)
"""Rules on machines that the planner composes; a user's list is not judged by them."""
