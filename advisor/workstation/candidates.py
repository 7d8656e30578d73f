"""Candidate parts for each place of a machine: parts with a price that no other candidate beats in every figure."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import parts
from advisor.catalog.part_prices import PriceBook, price_of
from advisor.catalog.schema.part import (
    Board,
    Case,
    Cooler,
    Cpu,
    GpuCard,
    Part,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
)
from advisor.catalog.units import MEGA
from advisor.workstation.assembly import Cards, Memory, Risers, Setting, Supplies, slot_widths
from advisor.workstation.hardware import POWER_POINTS, Hardware, HardwareRun, power_points_of
from advisor.workstation.performance import MachineLoad, best_run
from advisor.workstation.rules_power import EIGHT_PIN_W, NOISE_DB, case_airflow, cooler_capacity_w

COUNTS: Final = (1, 2, 3, 4, 6, 8)
SCREEN_GENERATION: Final = 4
"""PCIe generation at which sets of cards are compared; the builds shown run on their own links."""
USUAL_HOST_BYTES_PER_S: Final = 2 * 8 * 5200 * MEGA
"""Memory bandwidth at which sets of cards are compared if layers run on the CPU [bytes/s]: two channels of DDR5-5200.
"""
MAX_KITS: Final = 2
CASE_SHARE: Final = 0.01
"""Smallest price of a case as a fraction of the budget: thousands of dollars of cards do not go into the cheapest
case."""
MOST_OF_CASE_USD: Final = 150.0


@dataclass(frozen=True, slots=True)
class PartCandidate:
    """One candidate for a place of the machine, and its price."""

    place: str
    choice: Any
    usd: float
    run: HardwareRun | None = None
    """Run of the model on a set of cards; None for any other part."""

    @property
    def tokens_per_s(self) -> float:
        """Decode rate of a set of cards [tokens/s]; 0 for any other part."""
        return self.run.output_tokens_per_s.value if self.run else 0.0


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits that the user sets on the search."""

    max_cards: int = 4
    accelerators: tuple[str, ...] = ()
    """Ids of the accelerators to consider; empty means all."""
    power_points: tuple[float, ...] = POWER_POINTS
    max_usd: float = float("inf")


def all_candidates(
    load: MachineLoad, setting: Setting, book: PriceBook, limits: SearchLimits
) -> dict[str, list[PartCandidate]]:
    """Return, by place, every part that a best machine can contain.

    Source: parts of the catalog with a price; dominance over every figure that a rule reads.
    """
    cards = card_candidates(load, setting, book, limits)
    budget = limits.max_usd if math.isfinite(limits.max_usd) else 0.0
    most = max((candidate.choice.num for candidate in cards), default=1)
    return {
        "cards": cards,
        "cpu": cpu_candidates(book),
        "board": board_candidates(book),
        "memory": memory_candidates(book),
        "supplies": supply_candidates(book),
        "case": case_candidates(book, min(CASE_SHARE * budget, MOST_OF_CASE_USD)),
        "cooler": cooler_candidates(book),
        "storage": storage_candidates(book),
        "risers": riser_candidates(book, most),
    }


def usd_of(part: Part, book: PriceBook) -> float | None:
    """Price of a part [USD]; None if no source states one."""
    found = price_of(part, book)
    return None if found is None else found.usd


def card_candidates(
    load: MachineLoad, setting: Setting, book: PriceBook, limits: SearchLimits
) -> list[PartCandidate]:
    """Return sets of equal cards that run the model, at every power limit. If the model exceeds all of them, layers
    run on the CPU."""
    alone = _card_sets(load, setting, book, limits, 0.0)
    return alone or _card_sets(load, setting, book, limits, USUAL_HOST_BYTES_PER_S)


def _card_sets(
    load: MachineLoad, setting: Setting, book: PriceBook, limits: SearchLimits, host_bytes_per_s: float
) -> list[PartCandidate]:
    found: list[PartCandidate] = []
    for accelerator, cards in _cards_by_accelerator(book, limits).items():
        for num in (count for count in COUNTS if count <= limits.max_cards):
            if min(usd for _, usd in cards) * num > limits.max_usd:
                break
            for fraction in power_points_of(accelerator, limits.power_points):
                hardware = Hardware(
                    accelerator,
                    num,
                    fraction,
                    SCREEN_GENERATION,
                    setting.min_lanes,
                    host_bytes_per_s=host_bytes_per_s,
                )
                run = best_run(hardware, load)
                if run is None:
                    break
                found += [
                    PartCandidate("cards", Cards((card,) * num, fraction), usd * num, run)
                    for card, usd in cards
                ]
    return pareto_candidates(found, cost=_card_cost)


def _cards_by_accelerator(book: PriceBook, limits: SearchLimits) -> dict[str, list[tuple[GpuCard, float]]]:
    """Return, by accelerator, the cards with a price that no other of their kind beats. Liquid-cooled cards are left
    out: they need a loop or a place for a radiator that no case record states."""
    groups: dict[str, list[PartCandidate]] = {}
    for card in parts.planner_parts(GpuCard):
        usd = usd_of(card, book)
        wanted = not limits.accelerators or card.accelerator in limits.accelerators
        if usd is not None and wanted and card.cooling in ("open", "blower"):
            groups.setdefault(card.accelerator, []).append(PartCandidate("card", card, usd))

    def cost(card: GpuCard) -> tuple[float, ...]:
        width = slot_widths(Cards((card,)))[0]
        return width, card.length_m, card.power_w, _plugs(card), card.num_16_pin, NOISE_DB[card.cooling]

    kept = {name: pareto_candidates(cards, cost=cost) for name, cards in groups.items()}
    return {name: [(c.choice, c.usd) for c in cards] for name, cards in kept.items()}


def _plugs(card: GpuCard) -> float:
    """Number of 8-pin plugs that a card takes if the supply has no 16-pin plug."""
    return card.num_8_pin + card.num_6_pin + card.num_16_pin * -(-card.power_w // EIGHT_PIN_W)


def _card_cost(cards: Cards) -> tuple[float, ...]:
    card = cards.cards[0]
    width = max(slot_widths(cards))
    return cards.num, cards.power_w, card.power_w, width, card.length_m, _plugs(card), card.num_16_pin


def cpu_candidates(book: PriceBook) -> list[PartCandidate]:
    """Return CPUs: of each series the cheapest for its cores and power."""

    def cost(cpu: Cpu) -> tuple[float, ...]:
        return -cpu.cores, cpu.power_w, -cpu.ecc, -cpu.max_ram_bytes

    return pareto_candidates(
        _price_parts("cpu", parts.planner_parts(Cpu), book), lambda cpu: cpu.series.id, cost=cost
    )


def board_candidates(book: PriceBook) -> list[PartCandidate]:
    """Return boards: of each kind of slots and memory the cheapest."""

    def kind(board: Board) -> object:
        runs = tuple(s.id for s in parts.cpu_series().values() if board.chipset in s.chipsets)
        memory = (board.ram_type, board.registered)
        return runs, board.form_factor, memory, board.lane_modes, board.m2_slots > 0

    def cost(board: Board) -> tuple[float, ...]:
        generation = -min(slot.pcie_generation for slot in board.slots)
        return -board.ram_max_bytes, -board.ram_slots, board.num_eps, generation, -board.ecc

    return pareto_candidates(_price_parts("board", parts.planner_parts(Board), book), kind, cost=cost)


def memory_candidates(book: PriceBook) -> list[PartCandidate]:
    """Return memory: of each kind of module the cheapest for its capacity and number of modules."""

    def kind(memory: Memory) -> object:
        return memory.kit.ram_type, memory.kit.registered, memory.kit.ecc, memory.num_modules

    found = [
        PartCandidate("memory", Memory(c.choice, num), c.usd * num)
        for c in _price_parts("memory", parts.planner_parts(RamKit), book)
        for num in range(1, MAX_KITS + 1)
    ]
    return pareto_candidates(found, kind, cost=lambda memory: (-memory.capacity_bytes,))


def supply_candidates(book: PriceBook) -> list[PartCandidate]:
    """Return power supplies, and pairs of equal ones with the lead that joins them."""

    def kind(supplies: Supplies) -> object:
        return len(supplies.psus), supplies.psus[0].is_atx3

    def cost(supplies: Supplies) -> tuple[float, ...]:
        psu = supplies.psus[0]
        plugs = (-psu.num_eps, -psu.num_16_pin, -psu.num_8_pin)
        return -supplies.power_w, -supplies.efficiency, *plugs, psu.length_m or 0.0

    priced = _price_parts("supplies", parts.planner_parts(Psu), book)
    single = [PartCandidate("supplies", Supplies((c.choice,)), c.usd) for c in priced]
    link = parts.planner_parts(PsuLink)[0]
    extra = usd_of(link, book) or 0.0
    double = [
        PartCandidate("supplies", Supplies((c.choice, c.choice), link), 2 * c.usd + extra)
        for c in priced
        if c.choice.power_w >= 1000
    ]
    return pareto_candidates([*single, *double], kind, cost=cost)


def case_candidates(book: PriceBook, least_usd: float = 0.0) -> list[PartCandidate]:
    """Return cases from `least_usd` on: of each size the cheapest for the room inside; open frames have no least
    price."""

    def kind(case: Case) -> object:
        return frozenset(case.boards), case.num_psus, case.open_frame

    def cost(case: Case) -> tuple[float, ...]:
        air = case_airflow.coefficient("case", case, Setting())
        room = (-case.max_gpu_m, -(case.max_cooler_m or 1.0), -(case.max_psu_m or 1.0))
        return *room, -case.expansion_slots, air

    priced = _price_parts("case", parts.planner_parts(Case), book)
    return pareto_candidates(
        [c for c in priced if c.usd >= least_usd or c.choice.open_frame], kind, cost=cost
    )


def cooler_candidates(book: PriceBook) -> list[PartCandidate]:
    """Return coolers: of each set of sockets the cheapest for its height."""

    def cost(cooler: Cooler) -> tuple[float, ...]:
        return cooler.height_m or 0.0, -cooler_capacity_w(cooler, Setting())

    sockets = {series.socket for series in parts.cpu_series().values()}
    priced = _price_parts("cooler", parts.planner_parts(Cooler), book)
    return pareto_candidates(priced, lambda cooler: frozenset(cooler.sockets) & sockets, cost=cost)


def storage_candidates(book: PriceBook) -> list[PartCandidate]:
    """Return drives: the cheapest for each capacity."""
    priced = _price_parts("storage", parts.planner_parts(Storage), book)
    return pareto_candidates(priced, cost=lambda drive: (-drive.capacity_bytes,))


def riser_candidates(book: PriceBook, most: int) -> list[PartCandidate]:
    """Return the choices of risers: none, or one of the screening generation for each of up to `most` cards."""
    found = [PartCandidate("risers", Risers(), 0.0)]
    for riser in parts.planner_parts(Riser):
        usd = usd_of(riser, book)
        if usd is not None and riser.pcie_generation >= SCREEN_GENERATION:
            found += [PartCandidate("risers", Risers(riser, num), usd * num) for num in COUNTS if num <= most]
    return pareto_candidates(found, cost=lambda risers: (-risers.num,))


def _price_parts(place: str, found: Iterable[Part], book: PriceBook) -> list[PartCandidate]:
    pairs = ((part, usd_of(part, book)) for part in found)
    return [PartCandidate(place, part, usd) for part, usd in pairs if usd is not None]


def pareto_candidates(
    candidates: Sequence[PartCandidate],
    kind: Callable[[Any], object] = lambda choice: (),
    *,
    cost: Callable[[Any], tuple[float, ...]],
) -> list[PartCandidate]:
    """Return the candidates of each kind that no other matches or beats in price, speed and every cost; among equals,
    the plainest."""

    def whole(candidate: PartCandidate) -> tuple[float, ...]:
        return candidate.usd, -candidate.tokens_per_s, *cost(candidate.choice)

    groups: dict[object, list[PartCandidate]] = {}
    for candidate in candidates:
        groups.setdefault(kind(candidate.choice), []).append(candidate)
    kept: list[PartCandidate] = []
    for group in groups.values():
        group.sort(key=lambda c: (whole(c), *_plainness(c.choice)))
        costs = np.array([whole(c) for c in group], dtype=np.float64)
        kept += [c for c, keep in zip(group, _front(costs), strict=True) if keep]
    return kept


def _plainness(choice: object) -> tuple[bool, float]:
    """Sort key among equal candidates, which a class price fits best: no doubtful figures, then slow memory first."""
    part = choice
    if isinstance(choice, Memory):
        part = choice.kit
    elif isinstance(choice, Supplies):
        part = choice.psus[0]
    speed = part.speed_mts if isinstance(part, RamKit) else 0.0
    return bool(getattr(part, "flags", ())), speed


def _front(costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of rows that no earlier row is at most equal to in every column; rows are sorted
    lexicographically."""
    keep = np.ones(len(costs), dtype=bool)
    for i in range(len(costs)):
        if keep[i]:
            beaten = np.all(costs[i + 1 :] >= costs[i] - 1e-12, axis=1)
            keep[i + 1 :] &= ~beaten
    return keep
