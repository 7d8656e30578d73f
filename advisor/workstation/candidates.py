"""Candidate parts for each place of a machine: parts with a price that no other candidate beats in every figure."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import accelerators, parts
from advisor.catalog.part_prices import PriceBook, price_of, second_hand_prices
from advisor.catalog.schema.part import (
    Board,
    Bridge,
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
from advisor.catalog.units import GIB
from advisor.workstation.assembly import (
    SERVER,
    Assembly,
    Cards,
    Memory,
    Risers,
    Setting,
    Supplies,
    host_bytes_per_s,
    slot_widths,
)
from advisor.workstation.finetune import ENGINE as TUNING_ENGINE
from advisor.workstation.finetune import SOFTWARE_DOUBTS
from advisor.workstation.hardware import POWER_POINTS, Hardware, HardwareRun, power_points_of
from advisor.workstation.performance import (
    TENSOR_PARALLEL,
    MachineLoad,
    best_run,
    bound_on_cpu,
    runs_on_cpu,
    widest_division,
)
from advisor.workstation.planned_cards import PlannedCards, RunConditions
from advisor.workstation.rules_power import EIGHT_PIN_W, card_noise_db, case_airflow, cooler_capacity_w

COUNTS: Final = (1, 2, 3, 4, 5, 6, 7, 8)
LEAST_GAIN: Final = 0.009
"""Gain of speed from which a faster link or memory, or a higher power limit, counts as a level of its own."""
WORST_LINK: Final = (3, 1)
"""PCIe generation and lanes of a card if no board with a price is known."""
USED: Final = "used"
"""Condition of a second-hand part."""
TROUBLE_USD: Final = 100.0
"""Least saving for which a part that the user has is replaced [USD]: work and its risks. Own choice."""
MAX_KITS: Final = 2
LEAST_MODULE_BYTES: Final = 8 * GIB
"""Smallest module of memory that the planner buys: smaller ones fill slots for the same price."""
CASE_SHARE: Final = 0.01
"""Smallest price of a case as a fraction of the budget: thousands of dollars of cards do not go into the cheapest
case."""
MOST_OF_CASE_USD: Final = 150.0


RunOfSet = tuple[float, RunConditions, HardwareRun]
"""Power limit of a set of cards, conditions of its run, and the run."""
ResidentRuns = dict[tuple[str, int], list[RunOfSet]]
"""Runs of sets of cards that hold the whole model, by accelerator and number."""


@dataclass(frozen=True, slots=True)
class PartCandidate:
    """One candidate for a place of the machine, and its price."""

    place: str
    choice: Any
    usd: float
    run: HardwareRun | None = None
    """Run of the model on a set of cards; None for any other part."""
    trouble_usd: float = 0.0
    """Least saving that this part must bring against the one that the user has [USD]; 0 if the user has none."""
    is_used: bool = False
    """Whether its price is second-hand; of a machine that is sold second-hand, that of its board, which bears all."""

    @property
    def num_pieces(self) -> int:
        """Number of parts of the choice, by which equal prices are told apart."""
        choice = self.choice
        if isinstance(choice, Memory):
            return choice.num_modules
        if isinstance(choice, Supplies):
            return len(choice.psus)
        return choice.num if isinstance(choice, Risers) else 1

    @property
    def tokens_per_s(self) -> float:
        """Output rate of a set of cards over whole requests [tokens/s], the low end of its interval where the software
        of fine-tuning is in doubt; 0 for any other part."""
        if self.run is None:
            return 0.0
        is_doubtful = self.run.engine == TUNING_ENGINE and self.choice.accelerators
        vendors = (
            {accelerators.by_id(name).vendor for name in self.choice.accelerators} if is_doubtful else ()
        )
        if any(vendor in SOFTWARE_DOUBTS for vendor in vendors):
            return self.run.output_tokens_per_s.low
        return self.run.request_tokens_per_s


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits that the user sets on the search."""

    max_cards: int = 4
    accelerators: tuple[str, ...] = ()
    """Ids of the accelerators to consider; empty means all."""
    power_points: tuple[float, ...] = POWER_POINTS
    max_usd: float = float("inf")
    whole_machines: bool = True
    """Whether second-hand machines that are sold whole count, which use no part that the user has."""

    @property
    def with_no_cards(self) -> bool:
        """Whether a machine whose CPU runs everything counts."""
        return not self.accelerators


@dataclass(frozen=True, slots=True)
class MachineLevels:
    """Bandwidths at which sets of cards are compared: those that parts with a price reach."""

    links: Mapping[int, tuple[tuple[int, int], ...]]
    """Pairs of PCIe generation and lanes of the narrowest card, by number of cards, the slowest first."""
    hosts: tuple["HostLevel", ...]
    """CPU, board and memory of each bandwidth and size."""
    model_bytes: float
    """Memory that model and system take together [bytes]."""

    def host_usd(self, cards_bytes: float) -> dict[float, float]:
        """Return the price of the cheapest CPU, board and memory by bandwidth of the main memory [bytes/s], the lowest
        first, of those that hold the model together with the memory of some cards (rule model-memory)."""
        found: dict[float, float] = {}
        for one in self.hosts:
            if one.capacity_bytes + cards_bytes >= self.model_bytes * (1 - 1e-9):
                found[one.bytes_per_s] = min(one.usd, found.get(one.bytes_per_s, math.inf))
        return dict(sorted(found.items()))


class HostLevel(NamedTuple):
    """CPU, board and memory that go together."""

    bytes_per_s: float
    capacity_bytes: float
    usd: float


def all_candidates(
    load: MachineLoad,
    setting: Setting,
    book: PriceBook,
    limits: SearchLimits,
    *,
    faster_than: float = 0.0,
    known: ResidentRuns | None = None,
    have: Assembly | None = None,
) -> dict[str, list[PartCandidate]]:
    """Return, by place, every part that a best machine can contain; parts that the user has cost nothing.

    Sets of cards that leave layers to the CPU are left out if none can exceed `faster_than` [tokens/s]: infinity leaves
    out all of them. Runs that `known` holds are not predicted again; new ones are added to it.

    Source: parts of the catalog with a price; dominance over every figure that a rule reads.
    """
    budget = limits.max_usd if math.isfinite(limits.max_usd) else 0.0
    cpus = cpu_candidates(book)
    boards = board_candidates(book, have.case if have is not None else None)
    memory = memory_candidates(book)
    found = {
        "cpu": cpus,
        "board": boards,
        "memory": memory,
        "supplies": supply_candidates(book),
        "case": case_candidates(book, min(CASE_SHARE * budget, MOST_OF_CASE_USD)),
        "cooler": cooler_candidates(book),
        "storage": storage_candidates(book),
    }
    owned_risers = PartCandidate("risers", have.risers, 0.0) if have is not None and have.risers.num else None
    for place, candidates in found.items():
        choice = getattr(have, place) if have is not None else None
        if choice is not None:
            candidates[:] = [replace(one, trouble_usd=TROUBLE_USD) for one in candidates]
            candidates.append(PartCandidate(place, choice, 0.0))
    rest_usd = sum(min((one.usd for one in place), default=0.0) for place in found.values())
    drive_usd = min((one.usd for one in found["storage"]), default=0.0)
    for machine in used_machine_candidates(book) if limits.whole_machines else ():
        rest_usd = min(rest_usd, drive_usd + sum(one.usd for one in machine))
        for one in machine:
            found[one.place].append(one)
    levels = machine_levels(setting, cpus, boards, memory)
    left = replace(limits, max_usd=limits.max_usd - rest_usd)
    runs = {} if known is None else known
    cards = card_candidates(load, book, left, levels, faster_than, runs)
    if have is not None and have.cards is not None and have.cards.cards:
        cards += owned_card_candidates(have.cards, load, book, left, levels, faster_than)
    most = max((candidate.choice.num for candidate in cards), default=1)
    return {
        "cards": cards,
        **found,
        "risers": [*riser_candidates(book, most), *([owned_risers] if owned_risers else [])],
        "bridges": [
            *bridge_candidates(book, cards),
            *([PartCandidate("bridges", have.bridges, 0.0)] if have is not None and have.bridges else []),
        ],
    }


def used_machine_candidates(book: PriceBook) -> list[list[PartCandidate]]:
    """Return the parts of each machine that is sold second-hand; its board bears the price of all of them."""
    found = []
    for machine in parts.used_machines():
        price = book.get(machine.price_key)
        if price is None:
            continue
        choices = {
            "board": machine.board,
            "cpu": machine.cpu,
            "memory": Memory(machine.memory),
            "supplies": Supplies((machine.psu,)),
            "case": machine.case,
            "cooler": machine.cooler,
        }
        usd = {"board": price.usd}
        found.append(
            [
                PartCandidate(place, one, usd.get(place, 0.0), is_used=place == "board")
                for place, one in choices.items()
            ]
        )
    return found


def machine_levels(
    setting: Setting,
    cpus: Sequence[PartCandidate],
    boards: Sequence[PartCandidate],
    memory: Sequence[PartCandidate],
) -> MachineLevels:
    """Return the levels of links and memory that machines of these parts reach.

    Source: rules socket, memory-kind and pcie-lanes; riser cables reach generations that slots have.
    """
    series = {candidate.choice.series.id: candidate.choice.series for candidate in cpus}.values()
    links: dict[int, set[tuple[int, int]]] = {}
    for board in (candidate.choice for candidate in boards):
        able = {s.pcie_generation for s in series if board.chipset in s.chipsets and s.socket == board.socket}
        for num, lanes in enumerate(board.lane_modes, 1):
            slots = min((slot.pcie_generation for slot in board.slots[:num]), default=0)
            if min(lanes) >= setting.min_lanes and slots:
                links.setdefault(num, set()).update((min(slots, cpu), min(lanes)) for cpu in able)
    ordered = {num: tuple(sorted(found)) for num, found in links.items()}
    return MachineLevels(ordered, _host_levels(cpus, boards, memory), setting.ram_needed_bytes)


def _host_levels(
    cpus: Sequence[PartCandidate], boards: Sequence[PartCandidate], memory: Sequence[PartCandidate]
) -> tuple[HostLevel, ...]:
    """Return the cheapest CPU and board for each kind of memory, with the bandwidth that they reach; a level that costs
    as much as a faster one is kept, for its board may suit other cards."""
    found: list[HostLevel] = []
    series = {candidate.choice.series.id: candidate.choice.series for candidate in cpus}
    for name, one in series.items():
        cpu_usd = min(c.usd for c in cpus if c.choice.series.id == name)
        for kit in memory:
            wanted = (kit.choice.kit.ram_type, kit.choice.kit.registered)
            fitting = [
                board.usd
                for board in boards
                if board.choice.chipset in one.chipsets
                and (board.choice.ram_type, board.choice.registered) == wanted
                and board.choice.ram_slots >= kit.choice.num_modules
            ]
            if fitting:
                level = host_bytes_per_s(kit.choice, one)
                found.append(HostLevel(level, kit.choice.capacity_bytes, cpu_usd + kit.usd + min(fitting)))
    return tuple(found)


def bridge_candidates(book: PriceBook, cards: Sequence[PartCandidate]) -> list[PartCandidate]:
    """Return no bridge, and each with a price that a set of cards was predicted with."""
    found = [PartCandidate("bridges", (), 0.0)]
    wanted = {name for c in cards if c.choice.conditions.bridged for name in c.choice.accelerators}
    for bridge in parts.planner_parts(Bridge):
        if wanted & set(bridge.accelerators):
            priced = _price_parts("bridges", [bridge], book)
            found += [replace(one, choice=(bridge,)) for one in priced]
    return found


def _can_bridge(accelerator: str, num: int, book: PriceBook) -> bool:
    """Whether a bridge with a price joins as many of these cards."""
    return num == 2 and any(
        accelerator in bridge.accelerators and usd_of(bridge, book) is not None
        for bridge in parts.planner_parts(Bridge)
    )


def usd_of(part: Part, book: PriceBook) -> float | None:
    """Price of a part [USD]; None if no source states one."""
    found = price_of(part, book)
    return None if found is None else found.usd


def card_candidates(
    load: MachineLoad,
    book: PriceBook,
    limits: SearchLimits,
    levels: MachineLevels,
    faster_than: float,
    known: ResidentRuns,
) -> list[PartCandidate]:
    """Return sets of equal cards that run the model, at every power limit and every level of links that makes them
    faster; where the model exceeds the cards, at every bandwidth of the main memory, which then reads layers, if that
    can exceed `faster_than` [tokens/s]."""
    found: list[PartCandidate] = []
    offloaded: list[_OffloadedSet] = []
    # Prices of hosts include CPU, board and memory, which the limit of the cards leaves out already.
    host_budget = limits.max_usd + min((one.usd for one in levels.hosts), default=0.0)
    # More cards than any board of known lanes carries would break a hard rule whatever their speed.
    most = min(limits.max_cards, max(levels.links, default=limits.max_cards))
    for usd, num, accelerator, cards in _sets_by_price(book, replace(limits, max_cards=most)):
        runs = known.get((accelerator, num))
        if runs is None and _adds_nothing(accelerator, num, load, known):
            continue
        if runs is None:
            bridged = _can_bridge(accelerator, num, book)
            runs = _resident_runs(accelerator, num, load, limits, levels, bridged=bridged)
            known[accelerator, num] = runs
        if not runs and math.isfinite(faster_than):
            held = (accelerators.by_id(accelerator).memory_bytes or 0.0) * num
            host_usd = levels.host_usd(held)
            hosts = [host for host, least_usd in host_usd.items() if least_usd <= host_budget - usd]
            bounds = _bounds_on_cpu(accelerator, num, load, hosts)
            if any(other.beats(usd, num, bounds) for other in offloaded):
                continue
            links = _usable_links(accelerator, num, levels)
            runs = _runs_by_host(accelerator, num, load, limits, hosts, faster_than, links)
            if runs:
                speeds = [run.request_tokens_per_s for _, _, run in runs]
                offloaded.append(_OffloadedSet(usd, num, min(speeds), max(speeds)))
        for fraction, conditions, run in runs:
            found += [
                PartCandidate(
                    "cards",
                    PlannedCards((card.choice,) * num, fraction, conditions, card.usd * num),
                    card.usd * num,
                    run,
                    is_used=card.is_used,
                )
                for card in cards
            ]
    hosts = list(levels.host_usd(0.0)) if limits.with_no_cards else []
    alone = [
        PartCandidate("cards", PlannedCards((), conditions=conditions), 0.0, run)
        for _, conditions, run in _runs_by_host("", 0, load, limits, hosts, faster_than)
    ]
    return [*pareto_candidates(found, cost=_card_cost), *alone]


def _adds_nothing(accelerator: str, num: int, load: MachineLoad, known: ResidentRuns) -> bool:
    """Whether fewer of the same cards hold the model with all streams and divide layers among as many of them: more
    cards then cost more and are no faster.

    Assumes: layers in turn over more cards are no faster for one stream; for several, only division is compared.
    """
    if load.workload != "serve":
        return False
    width = widest_division(num, load)
    for fewer in range(width, num):
        runs = [run for _, _, run in known.get((accelerator, fewer), ())]
        is_divided = all(run.tensor_parallel == width for run in runs)
        if runs and not any(run.num_waiting for run in runs) and (load.concurrency == 1 or is_divided):
            return True
    return False


def owned_card_candidates(
    owned: Cards,
    load: MachineLoad,
    book: PriceBook,
    limits: SearchLimits,
    levels: MachineLevels,
    faster_than: float,
) -> list[PartCandidate]:
    """Return sets of the cards that the user has, and of more of their kind, at the price of those that are missing;
    none if the cards are of several kinds."""
    if len(owned.accelerators) != 1:
        return []
    accelerator = owned.accelerators[0]
    kinds = _cards_by_accelerator(book, replace(limits, accelerators=(accelerator,))).get(accelerator, [])
    found = []
    for num in (count for count in COUNTS if count <= max(limits.max_cards, owned.num)):
        missing = max(num - owned.num, 0)
        # More cards may be of another, narrower model than the one that is there.
        priced = [
            ((*owned.cards, *(kind.choice,) * missing), missing * kind.usd, kind.is_used) for kind in kinds
        ]
        affordable = [one for one in priced if one[1] <= limits.max_usd]
        sets = affordable if missing else [(owned.cards[:num], 0.0, False)]
        if not sets:
            break
        bridged = _can_bridge(accelerator, num, book)
        runs = _resident_runs(accelerator, num, load, limits, levels, bridged=bridged)
        if not runs and math.isfinite(faster_than):
            links = _usable_links(accelerator, num, levels)
            held = (accelerators.by_id(accelerator).memory_bytes or 0.0) * num
            hosts = list(levels.host_usd(held))
            runs = _runs_by_host(accelerator, num, load, limits, hosts, faster_than, links)
        found += [
            PartCandidate("cards", PlannedCards(cards, fraction, conditions, usd), usd, run, is_used=is_used)
            for cards, usd, is_used in sets
            for fraction, conditions, run in runs
        ]
    return found


def _sets_by_price(
    book: PriceBook, limits: SearchLimits
) -> list[tuple[float, int, str, list[PartCandidate]]]:
    """Return price, number, accelerator and kinds of card of every set within the limits, the cheapest first."""
    sets = [
        (min(card.usd for card in cards) * num, num, accelerator, cards)
        for accelerator, cards in _cards_by_accelerator(book, limits).items()
        for num in COUNTS
        if num <= limits.max_cards
    ]
    return sorted((one for one in sets if one[0] <= limits.max_usd), key=lambda one: one[:3])


def _bounds_on_cpu(
    accelerator: str, num: int, load: MachineLoad, hosts: Sequence[float]
) -> tuple[float, float]:
    """Upper bounds of the decode rate at the lowest and the highest bandwidth of the main memory [tokens/s]."""
    if not hosts:
        return 0.0, 0.0
    hardware = Hardware(accelerator, num)
    return bound_on_cpu(hardware, load, hosts[0]), bound_on_cpu(hardware, load, hosts[-1])


def _resident_runs(
    accelerator: str,
    num: int,
    load: MachineLoad,
    limits: SearchLimits,
    levels: MachineLevels,
    *,
    bridged: bool,
) -> list[RunOfSet]:
    """Return the runs of a set of cards that holds the whole model; a higher power limit counts only if it is
    faster, a bridge too."""
    found: list[RunOfSet] = []
    links = _usable_links(accelerator, num, levels)
    points = power_points_of(accelerator, limits.power_points)
    full = _runs_with_bridge(Hardware(accelerator, num, points[0]), load, links, bridged=bridged)
    # A level of links that gains nothing at full power gains less where the cards are slower.
    useful = sorted({(conditions.pcie_generation, conditions.pcie_lanes) for conditions, _ in full})
    for fraction in reversed(points):
        hardware = Hardware(accelerator, num, fraction)
        is_full = fraction == points[0] or not full
        runs = full if is_full else _runs_with_bridge(hardware, load, useful, bridged=bridged)
        if not runs:
            break
        lower = {conditions: run for _, conditions, run in found}
        found += [
            (fraction, conditions, run)
            for conditions, run in runs
            if conditions not in lower or _is_faster(run, lower[conditions])
        ]
        now = dict(runs)
        if not any(conditions not in now or _is_faster(run, now[conditions]) for conditions, run in full):
            break  # a higher limit gains nothing, with a bridge or without
    return found


def _runs_with_bridge(
    hardware: Hardware,
    load: MachineLoad,
    links: Sequence[tuple[int, int]],
    *,
    bridged: bool,
) -> list[tuple[RunConditions, HardwareRun]]:
    """Return the runs at each level of links, and those over a bridge that are faster than all of the same links."""
    runs = _runs_by_link(hardware, load, links)
    if not runs or not bridged:
        return runs
    joined = _runs_by_link(replace(hardware, bridged=True), load, links)
    return runs + [
        (replace(conditions, bridged=True), run)
        for conditions, run in joined
        if all(_is_faster(run, other) for weaker, other in runs if _is_weaker(weaker, conditions))
    ]


def _runs_by_host(
    accelerator: str,
    num: int,
    load: MachineLoad,
    limits: SearchLimits,
    hosts: Sequence[float],
    faster_than: float,
    links: Sequence[tuple[int, int]] = (),
) -> list[RunOfSet]:
    """Return the runs of a set of cards that leaves layers to the CPU, at each bandwidth of the main memory that is
    faster than a lower one; under the lowest and the highest power limit. Weights of prompts pass the slot's links."""
    if not hosts or bound_on_cpu(Hardware(accelerator, num), load, hosts[-1]) <= faster_than:
        return []
    found: list[RunOfSet] = []
    points = power_points_of(accelerator, limits.power_points)
    for fraction, link in product(sorted({points[0], points[-1]}), _ends_of(links) or [(0, 0)]):
        hardware = Hardware(accelerator, num, fraction, link[0] or None, link[1] or None)
        for host, run in zip(hosts, runs_on_cpu(hardware, load, hosts), strict=False):
            conditions = RunConditions(host, *link)
            weaker = (
                other
                for _, needed, other in found
                if needed.host_bytes_per_s <= host and _is_weaker(needed, conditions)
            )
            if all(_is_faster(run, other) for other in weaker):
                found.append((fraction, conditions, run))
    return found


def _ends_of(links: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the weakest and the strongest of some levels of links."""
    return sorted(set(links), key=lambda link: link[1] * 2 ** link[0])[:: max(1, len(set(links)) - 1)]


@dataclass(frozen=True, slots=True)
class _OffloadedSet:
    """Set of cards with a CPU that runs layers, as a measure for sets that cost more."""

    usd: float
    num: int
    slowest: float
    """Decode rate at the lowest bandwidth of the main memory [tokens/s]."""
    fastest: float

    def beats(self, usd: float, num: int, bounds: tuple[float, float]) -> bool:
        """Whether a set of that price and number is no faster at any bandwidth, by its bounds at the lowest and the
        highest: times are a constant plus another over the bandwidth, so that both ends decide."""
        return self.usd <= usd and self.num <= num and self.slowest >= bounds[0] and self.fastest >= bounds[1]


def can_exceed_on_cpu(
    load: MachineLoad, known: ResidentRuns, candidates: Sequence[PartCandidate], tokens_per_s: float
) -> bool:
    """Whether a set of cards that does not hold the whole model may exceed a speed: by its bound at the fastest memory
    and CPU among the candidates, taken together or not."""
    series = {c.choice.series.id: c.choice.series for c in candidates if c.place == "cpu"}.values()
    memory = [c.choice for c in candidates if c.place == "memory"]
    most = max((host_bytes_per_s(kit, one) for kit in memory for one in series), default=0.0)
    alone = runs_on_cpu(Hardware("", 0), load, (most,)) if most > 0 else []
    if any(run.request_tokens_per_s > tokens_per_s for run in alone):
        return True
    return most > 0 and any(
        not runs and bound_on_cpu(Hardware(accelerator, num), load, most) > tokens_per_s
        for (accelerator, num), runs in known.items()
    )


def _usable_links(accelerator: str, num: int, levels: MachineLevels) -> list[tuple[int, int]]:
    """Return the levels of links that the card itself can use; if no board with a price carries as many cards, the
    slowest level of any."""
    record = accelerators.by_id(accelerator)
    found = levels.links.get(num) or tuple(sorted(set().union(*levels.links.values())))[:1] or (WORST_LINK,)
    most = (record.pcie_generation or 4, record.pcie_lanes or 16)
    return sorted({(min(generation, most[0]), min(lanes, most[1])) for generation, lanes in found})


def _runs_by_link(
    hardware: Hardware, load: MachineLoad, links: Sequence[tuple[int, int]]
) -> list[tuple[RunConditions, HardwareRun]]:
    """Return the run at each level of links that is faster than every weaker level, the fastest last; none if the model
    does not fit.

    Assumes: links matter for tensor parallelism alone; layers in turn send a few kilobytes a token.
    """
    weakest = (min(generation for generation, _ in links), min(lanes for _, lanes in links))
    first = best_run(replace(hardware, pcie_generation=weakest[0], pcie_lanes=weakest[1]), load)
    if first is None:
        return []
    found = [(RunConditions(pcie_generation=weakest[0], pcie_lanes=weakest[1]), first)]
    if hardware.num == 1 or load.engine not in (None, TENSOR_PARALLEL) or load.workload != "serve":
        return found
    divided = replace(load, engine=TENSOR_PARALLEL)

    def run_at(link: tuple[int, int]) -> HardwareRun | None:
        return best_run(replace(hardware, pcie_generation=link[0], pcie_lanes=link[1]), divided)

    strongest = (max(generation for generation, _ in links), max(lanes for _, lanes in links))
    best = run_at(strongest) if strongest != weakest else None
    if best is None or not _is_faster(best, first):
        return found
    for link in links:
        run = best if link == strongest else run_at(link)
        weaker = [
            other
            for conditions, other in found
            if conditions.pcie_generation <= link[0] and conditions.pcie_lanes <= link[1]
        ]
        if run is not None and all(_is_faster(run, other) for other in weaker):
            found.append((RunConditions(pcie_generation=link[0], pcie_lanes=link[1]), run))
    return sorted(found, key=lambda pair: pair[1].request_tokens_per_s)


def _is_weaker(conditions: RunConditions, other: RunConditions) -> bool:
    """Whether links are at most as fast as others."""
    return conditions.pcie_generation <= other.pcie_generation and conditions.pcie_lanes <= other.pcie_lanes


def _is_faster(run: HardwareRun, other: HardwareRun) -> bool:
    return run.request_tokens_per_s > (1.0 + LEAST_GAIN) * other.request_tokens_per_s


def _cards_by_accelerator(book: PriceBook, limits: SearchLimits) -> dict[str, list[PartCandidate]]:
    """Return, by accelerator, the cards with a price that no other of their kind beats; second-hand ones are a kind of
    their own. Liquid-cooled cards are left out: they need a loop or a place for a radiator, and no case record states
    one."""
    groups: dict[str, list[PartCandidate]] = {}
    used = second_hand_prices(book)
    for card in parts.planner_parts(GpuCard):
        wanted = not limits.accelerators or card.accelerator in limits.accelerators
        if not wanted or card.cooling not in ("open", "blower"):
            continue
        sold = _price_parts("cards", [card], book)
        second = _price_parts("cards", [card], used) if sold else []
        sold += [one for one in second if one.usd < sold[0].usd]
        groups.setdefault(card.accelerator, []).extend(sold)

    rooms = sorted({case.max_gpu_m for case in parts.planner_parts(Case)})

    def cost(card: GpuCard) -> tuple[float, ...]:
        width = slot_widths(Cards((card,)))[0]
        cases = bisect_left(rooms, card.length_m)  # two lengths that the same cases take are one
        noise = math.ceil(card_noise_db(card) / _SAME_NOISE_DB)
        return width, cases, card.power_w, _plugs(card), card.num_16_pin, noise

    return {
        accelerator: pareto_candidates(cards, cost=cost) for accelerator, cards in groups.items() if cards
    }


_SAME_NOISE_DB: Final = 5.0
"""Difference of noise within which two cards count as equally loud [dB]: the error of the estimate."""


def _plugs(card: GpuCard) -> float:
    """Number of 8-pin plugs that a card takes if the supply has no 16-pin plug."""
    return card.num_8_pin + card.num_6_pin + card.num_16_pin * -(-card.power_w // EIGHT_PIN_W)


def _card_cost(cards: PlannedCards) -> tuple[float, ...]:
    card = cards.cards[0]
    width = max(slot_widths(cards))
    needs = cards.conditions
    conditions = needs.host_bytes_per_s, needs.pcie_generation, needs.pcie_lanes, float(needs.bridged)
    own = cards.power_w, card.power_w, width, card.length_m, _plugs(card), card.num_16_pin
    return cards.num, *own, *conditions


def cpu_candidates(book: PriceBook) -> list[PartCandidate]:
    """Return CPUs: of each series the cheapest for its cores and power."""

    def cost(cpu: Cpu) -> tuple[float, ...]:
        return -cpu.cores, cpu.power_w, -cpu.ecc, -cpu.max_ram_bytes

    return pareto_candidates(
        _price_parts("cpu", parts.planner_parts(Cpu), book), lambda cpu: cpu.series.id, cost=cost
    )


def board_candidates(book: PriceBook, case: Case | None = None) -> list[PartCandidate]:
    """Return boards for a case, or for any: of each kind of slots and memory the cheapest."""

    def kind(board: Board) -> object:
        runs = tuple(s.id for s in parts.cpu_series().values() if board.chipset in s.chipsets)
        memory = (board.ram_type, board.registered)
        positions = tuple(slot.position for slot in board.slots[: board.max_cards])
        return runs, board.form_factor, memory, board.lane_modes, positions, board.m2_slots > 0

    def cost(board: Board) -> tuple[float, ...]:
        generations = [
            -min((slot.pcie_generation for slot in board.slots[:num]), default=0)
            for num in range(1, board.max_cards + 1)
        ]
        return -board.ram_max_bytes, -board.ram_slots, board.num_eps, -board.ecc, *generations

    alone = [board for board in parts.boards_for(case) if SERVER not in board.flags]
    return pareto_candidates(_price_parts("board", alone, book), kind, cost=cost)


def memory_candidates(book: PriceBook) -> list[PartCandidate]:
    """Return memory: of each kind of module the cheapest for its capacity, number of modules and bandwidth in every
    series of CPUs."""
    series = tuple(parts.cpu_series().values())

    def kind(memory: Memory) -> object:
        return memory.kit.ram_type, memory.kit.registered, memory.kit.ecc, memory.num_modules

    found = [
        PartCandidate("memory", Memory(c.choice, num), c.usd * num)
        for c in _price_parts("memory", parts.planner_parts(RamKit), book)
        if c.choice.module_bytes >= LEAST_MODULE_BYTES
        for num in range(1, MAX_KITS + 1)
    ]

    def cost(memory: Memory) -> tuple[float, ...]:
        kit = memory.kit
        fitting = (s for s in series if kit.ram_type in s.ram_types and kit.registered == s.registered)
        return -memory.capacity_bytes, *(-host_bytes_per_s(memory, one) for one in fitting)

    return pareto_candidates(found, kind, cost=cost)


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
    """Return the choices of risers: none, or one for each of up to `most` cards."""
    found = [PartCandidate("risers", Risers(), 0.0)]
    for riser in parts.planner_parts(Riser):
        usd = usd_of(riser, book)
        if usd is not None:
            found += [PartCandidate("risers", Risers(riser, num), usd * num) for num in COUNTS if num <= most]

    def cost(risers: Risers) -> tuple[float, ...]:
        generation = risers.riser.pcie_generation if risers.riser else 0
        return -risers.num, -generation, risers.riser.length_m if risers.riser else 0.0

    return pareto_candidates(found, cost=cost)


def _price_parts(place: str, found: Iterable[Part], book: PriceBook) -> list[PartCandidate]:
    pairs = ((part, price_of(part, book)) for part in found)
    return [
        PartCandidate(place, part, price.usd, is_used=price.condition == USED)
        for part, price in pairs
        if price is not None
    ]


def pareto_candidates(
    candidates: Sequence[PartCandidate],
    kind: Callable[[Any], object] = lambda choice: (),
    *,
    cost: Callable[[Any], tuple[float, ...]],
) -> list[PartCandidate]:
    """Return the candidates of each kind that no other matches or beats in price, speed and every cost; among equals,
    the plainest. Second-hand parts are a kind of their own, as new ones are the default."""

    def whole(candidate: PartCandidate) -> tuple[float, ...]:
        return candidate.usd, -candidate.tokens_per_s, *cost(candidate.choice)

    groups: dict[object, list[PartCandidate]] = {}
    for candidate in candidates:
        groups.setdefault((candidate.is_used, kind(candidate.choice)), []).append(candidate)
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
