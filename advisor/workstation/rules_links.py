"""Rules on links: lanes and generation of each card, bridges, peer access, CPU cores."""

from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.schema.part import LANES_USUAL, Board, Bridge, Cpu
from advisor.catalog.units import GB, KILO
from advisor.workstation.assembly import SERVER, TYPICAL, Assembly, Cards, Risers, Setting
from advisor.workstation.rules import Finding, at_least, at_most, holds, match_rule, sum_rule

MAX_RISER_M: Final = {2: 1.0, 3: 0.6, 4: 0.3, 5: 0.2}
"""Cable length up to which passive cables of a generation usually train without errors [m]; longer links need
redrivers or retimers (istonecase.com, PCIe Gen4 vs Gen5 risers; an estimate)."""
CORES_PER_CARD: Final = 1
CORES_FOR_SYSTEM: Final = 2
"""Physical cores without which engines slow down: one for each card, one for the API server and one for the engine.
Source: vLLM documentation, optimization and tuning, CPU resources for GPU deployments."""


def lanes_of(cards: Cards, board: Board) -> tuple[int, ...]:
    """Return the electrical lanes of each card's slot; empty if no source states them."""
    return board.lane_modes[cards.num - 1] if cards.num <= board.max_cards else ()


@match_rule(
    "pcie-lanes",
    "PCIe lanes of each card",
    "lanes",
    cards=lambda cards: cards.num,
    board=lambda board: (board.lane_modes, LANES_USUAL in board.flags),
)
def lanes_of_cards(cards: Cards, board: Board, setting: Setting) -> Finding:
    """Compare the narrowest slot with the lanes that a card needs."""
    lanes = lanes_of(cards, board)
    if not lanes:
        if board.registered and board.slots_known and SERVER not in board.flags:
            why = f"{board.name} has slots with 16 lanes for {board.max_cards} of {cards.num} cards"
            remedy = "look up whether its slots with 8 lanes take a card or a riser"
            return Finding(0, setting.min_lanes, False, why, remedy, True)
        if board.slots_known:
            is_typical = TYPICAL in board.flags
            name = f"a usual {board.chipset} board ({board.name})" if is_typical else board.name
            why = f"{name} has slots for {board.max_cards} of {cards.num} cards"
            remedy = "the name of your board" if is_typical else "a board with more slots, or fewer cards"
            return Finding(0, setting.min_lanes, False, why, remedy, is_typical)
        why = f"no source says how {board.name} wires {cards.num} cards; known for {board.max_cards}"
        remedy = "a board whose lanes are known, or look them up"
        return Finding(0, setting.min_lanes, False, why, remedy, True)
    why = "cards run at " + ", ".join(f"x{n}" for n in lanes)
    is_usual = LANES_USUAL in board.flags and cards.num > 1
    why += f", as boards like {board.name} are usually wired; no source states it" if is_usual else ""
    found = at_least(min(lanes), setting.min_lanes, why, "a board with more lanes (HEDT, server)")
    return found._replace(is_unknown=is_usual and not found.passed)


@match_rule(
    "cpu-lanes",
    "PCIe lanes of the CPU",
    "lanes",
    cards=lambda cards: cards.num,
    board=lambda board: (board.lane_modes, board.has_switch, LANES_USUAL in board.flags),
    cpu=lambda cpu: cpu.series.all_slot_lanes,
)
def cpu_lanes(cards: Cards, board: Board, cpu: Cpu, setting: Setting) -> Finding | None:
    """Compare the lanes of occupied slots with those that the CPU gives to slots."""
    lanes = lanes_of(cards, board)
    if not lanes or board.has_switch:
        return None
    given = cpu.series.all_slot_lanes
    # Desktop boards: the first two slots share the CPU's lanes, or the second is on the chipset, as a third is.
    used = sum(lanes) if given > 16 or lanes[0] > given else sum(lanes[: 2 if lanes[0] < given else 1])
    why = f"slots want {used} lanes of the CPU, {cpu.name} gives {given} to slots"
    found = at_most(used, given, why, "a CPU with more lanes, or fewer cards")
    # Boards wired in another way than usual, or with a switch, ask for fewer.
    return found._replace(is_unknown=LANES_USUAL in board.flags and not found.passed)


def generation_of_cards(cards: Cards) -> int:
    """Return the PCIe generation that the cards reach by themselves: that of the slowest."""
    return min((accelerators.by_id(name).pcie_generation or 4 for name in cards.accelerators), default=6)


def generation_of(cards: Cards, board: Board, cpu: Cpu | None, risers: Risers | None = None) -> int:
    """Return the PCIe generation that every card's link reaches: the least of card, slot, CPU and riser."""
    found = [generation_of_cards(cards)]
    found += [slot.pcie_generation for slot in board.slots[: cards.num]]
    if cpu is not None:
        found.append(cpu.series.pcie_generation)
    if risers is not None and risers.riser is not None and risers.num:
        found.append(risers.riser.pcie_generation)
    return min(found)


@match_rule("pcie-generation", "PCIe generation", "gen", "advice", planned=False)
def generation(cards: Cards, board: Board, cpu: Cpu, risers: Risers, setting: Setting) -> Finding:
    """Compare the link's generation with the card's own."""
    able = max(accelerators.by_id(name).pcie_generation or 4 for name in cards.accelerators)
    gen = generation_of(cards, board, cpu, risers)
    lanes = lanes_of(cards, board)
    narrowest = f", the narrowest at x{min(lanes)}" if lanes and cards.num > 1 else ""
    why = f"links run at PCIe {gen}.0{narrowest}; the cards do {able}.0"
    return at_least(gen, able, why, "matters for tensor parallelism and loading, not for layers in turn")


@match_rule("riser-length", "riser length", "mm")
def riser_length(risers: Risers, setting: Setting) -> Finding | None:
    """Compare the length of a riser cable with the limit of its generation."""
    riser = risers.riser
    if riser is None or not risers.num:
        return None
    length = riser.length_m * KILO
    most = MAX_RISER_M.get(riser.pcie_generation, 0.2) * KILO
    why = f"{length:.0f} mm at PCIe {riser.pcie_generation}.0; passive cables train up to about {most:.0f} mm"
    return at_most(length, most, why, "a shorter cable, or set the slot one generation down")


@match_rule("riser-lanes", "lanes of risers", "lanes", "advice")
def riser_lanes(risers: Risers, setting: Setting) -> Finding | None:
    """Compare the lanes of a riser cable with those that a card needs."""
    riser = risers.riser
    if riser is None or not risers.num:
        return None
    why = f"risers carry x{riser.lanes} to each card"
    if riser.lanes < setting.min_lanes:
        why += ": loading takes minutes, and tensor parallelism waits for them"
    return at_least(riser.lanes, setting.min_lanes, why, "x16 ribbon risers, or layers in turn and patience")


def _needs_resizable_bar(cards: Cards) -> bool:
    return any(accelerators.by_id(name).vendor == "intel" for name in cards.accelerators)


@match_rule(
    "resizable-bar",
    "memory of cards as the CPU maps it",
    "",
    cards=_needs_resizable_bar,
    cpu=lambda cpu: cpu.series.resizable_bar,
)
def resizable_bar(cards: Cards, cpu: Cpu, setting: Setting) -> Finding | None:
    """Judge Arc cards on CPUs whose boards do not map a card's whole memory.

    Source: Intel, Arc desktop quick start guide: resizable BAR is required, with CPUs from the tenth generation of Core
    and Ryzen 3000 on.
    """
    if not _needs_resizable_bar(cards):
        return None
    has = cpu.series.resizable_bar
    why = f"Arc cards need resizable BAR; boards for {cpu.series.name} {'have' if has else 'lack'} it"
    return holds(has, why, "a newer platform, or cards of another maker")


@match_rule(
    "switch-ports",
    "cards on a switch board",
    "cards",
    cards=lambda cards: cards.num,
    board=lambda board: board.num_long_slots,
)
def switch_ports(cards: Cards, risers: Risers, board: Board, setting: Setting) -> Finding | None:
    """Compare the cards with those that a switch board and the other slots of its board take; None without one."""
    others = max(board.num_long_slots, board.max_cards) - risers.num
    return cards_on_switch(cards, risers, max(others, 0))


def cards_on_switch(cards: Cards, risers: Risers, num_others: int) -> Finding | None:
    """Compare the cards with the slots of a switch board and a number of other slots; None without a switch board."""
    riser = risers.riser
    if riser is None or not riser.ports:
        return None
    ports = riser.ports * risers.num
    beside = f" and {num_others} more of the board" if num_others and cards.num > ports else ""
    why = f"{cards.num} cards for {ports} slots of a switch board{beside}"
    why += "; cards that do not read each other share its slot"
    return at_most(cards.num, ports + num_others, why, "a second switch board, or fewer cards")


@match_rule(
    "nvlink",
    "NVLink bridge",
    "bridges",
    cards=lambda cards: (cards.num, cards.accelerators),
    bridges=lambda bridges: (len(bridges), tuple(bridge.id for bridge in bridges)),
)
def nvlink(cards: Cards, bridges: tuple[Bridge, ...], setting: Setting) -> Finding | None:
    """Judge NVLink bridges: the cards need the connector, and two cards share one bridge."""
    if not bridges:
        return None
    unfit = [
        name for name in cards.accelerators if any(name not in bridge.accelerators for bridge in bridges)
    ]
    if unfit:
        if all(accelerators.by_id(name).scale_up is not None for name in unfit):
            why = f"no record has a bridge for {', '.join(unfit)}, which have NVLink"
            return Finding(len(bridges), 0, False, why, "the bridge that the maker names for the card", True)
        why = f"{', '.join(unfit)} has no NVLink connector"
        return Finding(len(bridges), 0, False, why, "leave the bridge out: cards talk over PCIe")
    bridge = bridges[0]
    most = max(cards.num // bridge.joins, int(bridge.is_board)) * bridge.num_for_two
    why = f"{len(bridges)} bridges for {cards.num} cards; {bridge.num_for_two} join {bridge.joins}"
    return at_most(len(bridges), most, why, "the bridges that the maker names for two cards")


@match_rule("peer-to-peer", "cards as one", "", "advice", planned=False)
def pooling(cards: Cards, bridges: tuple[Bridge, ...], setting: Setting) -> Finding | None:
    """Judge several cards: their memories are not one memory, so a model is split among them."""
    if cards.num < 2:
        return None
    is_bridged = any(set(cards.accelerators) <= set(bridge.accelerators) for bridge in bridges)
    peer = all(accelerators.by_id(name).pcie_peer_to_peer for name in cards.accelerators)
    why = f"{cards.num} memories, not one: each card holds a part of the model"
    if is_bridged:
        joined = bridges[0].joins
        why += "; two cards talk over their bridge" if joined == 2 else f"; {joined} talk over their board"
        why += ", pairs among each other through the host" if cards.num > joined and not peer else ""
    elif not peer:
        why += "; the driver sends peer traffic through the host"
    joinable = {name for bridge in parts.planner_parts(Bridge) for name in bridge.accelerators}
    able = len(cards.accelerators) == 1 and set(cards.accelerators) <= joinable  # a bridge joins equal cards
    remedy = f"nothing for layers in turn; for tensor parallelism professional cards{' or a bridge' if able else ''}"
    return holds(peer or (is_bridged and cards.num <= bridges[0].joins), why, remedy)


@sum_rule(
    "cpu-cores",
    "CPU cores",
    severity="advice",
    unit="cores",
    needs={"cards": lambda cards, setting: float(CORES_PER_CARD * cards.num)},
    gives={"cpu": lambda cpu, setting: float(cpu.cores)},
    base_need=lambda setting: float(CORES_FOR_SYSTEM),
    required=("cards", "cpu"),
)
def cores(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the CPU's cores against those that cards and system keep busy."""
    return f"{actual:.0f} cores keep the cards fed, the CPU has {limit:.0f}", "a CPU with more cores"


LEAST_CURRENT_CAPABILITY: Final = 7.5
"""Compute capability below which NVIDIA's current software leaves cards out. Source: NVIDIA, CUDA 13.0 release notes
(no Maxwell, Pascal and Volta; branch 580 is their last driver); vLLM documentation, GPU requirements (7.5)."""
LEAST_BF16_CAPABILITY: Final = 8.0
"""Compute capability below which cards have no bf16. Source: NVIDIA, CUDA programming guide, arithmetic throughput."""
_DROPPED_BY_ROCM: Final = ("gfx900", "gfx906")
"""AMD's chips that ROCm no longer supports. Source: AMD, ROCm 6.4 and 7.0, supported GPUs."""


def _limit_of_software(name: str) -> str:
    """Return what current software does not do on an accelerator; empty if nothing is known to be missing."""
    record = accelerators.by_id(name)
    if record.vendor == "amd" and record.compute_capability in _DROPPED_BY_ROCM:
        return f"{record.name}: ROCm has dropped it; llama.cpp runs with an older release or Vulkan"
    if record.vendor != "nvidia" or not record.compute_capability:
        return ""
    capability = float(record.compute_capability)
    if capability < LEAST_CURRENT_CAPABILITY:
        return (
            f"{record.name}: CUDA 13 and drivers after branch 580 leave it out, and vLLM does not run on it"
        )
    if capability < LEAST_BF16_CAPABILITY:
        return f"{record.name}: no bf16 and no FlashAttention 2; vLLM computes in fp16"
    return ""


@match_rule("software", "support by current software", "", "advice", planned=False)
def software(cards: Cards, setting: Setting) -> Finding | None:
    """Judge old cards by what drivers and engines still do on them; None if nothing is missing."""
    limits = [limit for name in cards.accelerators if (limit := _limit_of_software(name))]
    remedy = "CUDA 12 or the last ROCm release that has it, and llama.cpp; newer cards for other engines"
    return holds(False, "; ".join(limits), remedy) if limits else None


CORES_OF_CLASS: Final = {0: 8, 1: 6, 2: 8}
"""Cores of the CPU that builders usually combine with a number of cards; four more for each further card. Tokenising,
sampling and loading keep them busy. Own assumption; cards of 48 GB count as two."""
MOST_CORES_OF_CLASS: Final = 24
"""Cores from which more are never asked for. Own assumption."""
LARGE_CARD_BYTES: Final = 48 * GB


def _class_of(cards: Cards) -> int:
    """Return the number of cards by which the class of a CPU is judged."""
    large = any((accelerators.by_id(n).memory_bytes or 0.0) >= LARGE_CARD_BYTES for n in cards.accelerators)
    return max(cards.num, 2 if large else 0)


@match_rule(
    "cpu-class",
    "class of the CPU",
    "cores",
    "advice",
    without_cards=True,
    cards=_class_of,
    cpu=lambda cpu: cpu.cores,
)
def cpu_class(cards: Cards, cpu: Cpu, setting: Setting) -> Finding:
    """Compare the CPU's cores with those that builders combine with as many cards."""
    num = _class_of(cards)
    wanted = min(CORES_OF_CLASS.get(num, CORES_OF_CLASS[2] + 4 * (num - 2)), MOST_CORES_OF_CLASS)
    why = f"{cpu.cores} cores beside {cards.num or 'no'} cards; {wanted} are usual"
    return at_least(cpu.cores, wanted, why, f"a CPU with {wanted} cores")


LINK_RULES: Final = (
    lanes_of_cards,
    cpu_lanes,
    generation,
    riser_length,
    riser_lanes,
    switch_ports,
    resizable_bar,
    nvlink,
    pooling,
    software,
    cores,
    cpu_class,
)
