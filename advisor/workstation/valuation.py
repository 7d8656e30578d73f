"""Description of a machine: its bill with prices, its performance on its own links, and its costs."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.part_prices import PriceBook, price_of
from advisor.catalog.schema import Model
from advisor.catalog.schema.part import Board, Part, System
from advisor.simulator.layout import refused_heads
from advisor.simulator.quantity import Quantity
from advisor.workstation.assembly import Assembly, Cards, host_bytes_per_s
from advisor.workstation.economics import Economics, economics
from advisor.workstation.finetune import largest_tuning, tuning_need
from advisor.workstation.hardware import Hardware, HardwareRun, power_points_of
from advisor.workstation.performance import (
    ENGINES,
    IMAGES,
    OFFLOADING,
    TENSOR_PARALLEL,
    CardPowerPoint,
    MachineLoad,
    MachinePerformance,
    best_run,
    finest_format,
    simulate_run,
)
from advisor.workstation.plan import (
    Build,
    PartLine,
    Question,
    part_line,
    total_of,
)
from advisor.workstation.rents import RentMarket
from advisor.workstation.rule_book import judge
from advisor.workstation.rules_links import generation_of, lanes_of
from advisor.workstation.rules_power import wall_power_w
from advisor.workstation.rules_systems import external_card, judge_system, takes_cards
from advisor.workstation.system_names import can_join

WORST_LINK: Final = (3, 1)
"""PCIe generation and lanes of a card on an unknown board with three or more, or where no board is known to carry as
many: those of a mining board's riser."""
LEAST_SERVER_LANES: Final = 40
"""Lanes for slots from which a CPU is one of workstations and servers, for which no board for miners is sold."""
IN_THE_MACHINE: Final = "in the price of the machine"
"""Source of the price of a part that is sold with its machine."""
OWNED: Final = "you have it"
"""Source of the price of a part that the user has."""
TWO_SOCKETS_FRACTION: Final = 0.5
"""Bandwidth that two CPUs reach together over that of both: the memory of one, for llama.cpp keeps one copy of the
weights and half of it is behind the other CPU. DeepSeek V3 in eight bits ran at 8 to 9 tokens/s on two EPYC 9004 of
922 GB/s (ggml-org/llama.cpp#10981), 0.62 of both at the fractions of `simulator.host_layers`, if generation read the
weights into memory, and at 4 to 5, so 0.34, if a prompt did; 0.5 is about their mean. Only a copy for each CPU doubles
the rate (KTransformers)."""
THREAD_WAIT_S: Final = 0.2e-6
"""Time each thread adds to a wait of the threads of two CPUs [s]: a line of cache passes the link between them. Own
estimate from transfers of 100 to 300 ns between sockets; chosen in sight of published speeds of mixtures of experts on
two CPUs, 0.3 to 0.7 of what reading the weights alone allows, and so a fit to them."""
CORES_OF_CHANNEL: Final = 4
"""Cores that read a memory channel at its full rate while they compute with four-bit weights: more threads only wait.
Own estimate."""
POWER_COMMANDS: Final = defaultdict(
    lambda: "by the driver's tool",
    nvidia="nvidia-smi -pl {watts:.0f}",
    amd="rocm-smi --setpoweroverdrive {watts:.0f}",
    intel="xpu-smi config -d 0 --powerlimit {watts:.0f}",
)
"""Command that sets a power limit, by vendor."""


def hardware_of(machine: Assembly) -> Hardware | None:
    """Return the machine's accelerators with the links that its board gives them.

    Assumes: of unlike cards all as the slowest, with the memory of the smallest; where lanes are not known, the worst
    links of any known board for as many cards.
    """
    cards = machine.cards
    if cards is None:
        return None
    if not cards.cards:
        host = known_host_bytes_per_s(machine)
        return (
            Hardware(
                "",
                0,
                host_bytes_per_s=host,
                host_capacity_bytes=_capacity_of(machine),
                host_wait_s=_wait_of_threads_s(machine),
            )
            if host
            else None
        )
    records = [accelerators.by_id(name) for name in cards.accelerators]
    slowest = min(records, key=lambda record: record.bandwidth_bytes_per_s or 0.0)
    smallest = min(record.memory_bytes or 0.0 for record in records)
    generation, lanes = links_of(machine, cards)
    return Hardware(
        slowest.id,
        cards.num,
        cards.power_fraction,
        generation,
        lanes,
        memory_bytes=smallest if len(records) > 1 else None,
        bridged=any(1 < cards.num <= bridge.joins for bridge in machine.bridges),
        host_bytes_per_s=known_host_bytes_per_s(machine),
        host_capacity_bytes=_capacity_of(machine),
        host_wait_s=_wait_of_threads_s(machine),
    )


def _wait_of_threads_s(machine: Assembly) -> float:
    """Time for which the threads of two CPUs wait for each other after an operation [s]; 0 of one CPU."""
    cpu = machine.cpu
    if cpu is None or cpu.series.num_cpus < 2:
        return 0.0
    return THREAD_WAIT_S * min(cpu.cores, CORES_OF_CHANNEL * cpu.series.channels)


def _capacity_of(machine: Assembly) -> float:
    """Size of the main memory [bytes]; infinite if it is unknown."""
    return machine.memory.capacity_bytes if machine.memory is not None else math.inf


def links_of(machine: Assembly, cards: Cards) -> tuple[int, int]:
    """Return PCIe generation and lanes of the narrowest card's link; if no source states them, those that all but a
    tenth of the known boards reach, and for three cards and more on a desktop those of the worst."""
    riser = machine.risers.riser if machine.risers.num else None
    if riser is not None and riser.ports:
        return riser.pcie_generation, lanes_behind_switch(cards)
    carried = riser.lanes if riser is not None else 16
    if machine.board is not None:
        lanes = lanes_of(cards, machine.board)
        if lanes:
            return generation_of(cards, machine.board, machine.cpu, machine.risers), min(*lanes, carried)
    sockets = (
        {machine.board.socket} if machine.board else {machine.cpu.series.socket} if machine.cpu else set()
    )
    known = [
        (generation_of(cards, board, machine.cpu, machine.risers), min(lanes_of(cards, board)))
        for board in parts.planner_parts(Board)
        if (not sockets or board.socket in sockets) and lanes_of(cards, board)
    ]
    is_desktop = machine.cpu is None or machine.cpu.series.all_slot_lanes < LEAST_SERVER_LANES
    if machine.board is None and cards.num > 2 and is_desktop:
        return WORST_LINK  # an unknown board for so many cards may be one for miners
    known.sort(key=lambda link: link[1] * 2 ** link[0])
    generation, lanes_each = known[len(known) // 10] if known else WORST_LINK
    return generation, min(lanes_each, carried)


def lanes_behind_switch(cards: Cards) -> int:
    """Return the lanes that each card on a switch board has for traffic with the others: all sixteen if cards read each
    other, else a share of the slot, through which all of it goes to the host and back; a power of two."""
    if all(accelerators.by_id(name).pcie_peer_to_peer for name in cards.accelerators):
        return 16
    return max(1, 16 >> (cards.num - 1).bit_length())


def known_host_bytes_per_s(machine: Assembly) -> float:
    """Peak bandwidth of the main memory [bytes/s]; 0 if memory or CPU is unknown."""
    if machine.memory is None or machine.cpu is None:
        return 0.0
    peak = host_bytes_per_s(machine.memory, machine.cpu.series)
    return peak * (TWO_SOCKETS_FRACTION if machine.cpu.series.num_cpus == 2 else 1.0)


def best_use(machine: Assembly, question: Question) -> tuple[Hardware | None, MachineLoad, str]:
    """Return the hardware and the load with which the cards of a machine are fastest, and words on unlike cards: all as
    the slowest with the memory of the smallest, with layers divided by memory, or the cards of some kinds alone."""
    load = question.load
    cards = machine.cards
    whole = hardware_of(machine)
    if whole is None or cards is None or len(cards.accelerators) < 2:
        return whole, load, ""
    uses: list[tuple[Hardware, MachineLoad, str]] = []
    kinds = cards.accelerators
    for names in (one for num in range(len(kinds), 0, -1) for one in itertools.combinations(kinds, num)):
        kept = replace(cards, cards=tuple(card for card in cards.cards if card.accelerator in names))
        used = hardware_of(replace(machine, cards=kept))
        if used is None:
            continue
        told = "speeds take all cards as the slowest"
        if len(names) < len(kinds):
            counted = Counter(card.accelerator for card in kept.cards)
            counts = (f"{counted[name]} x {name}" for name in names)
            told = (
                f"speeds are those of {' and '.join(counts)} alone, which are faster than all cards together"
            )
        if len(names) == 1:
            uses.append((used, load, told))
            continue
        uses.append((used, load, f"{told}, with the memory of the smallest"))
        if load.engine in (None, OFFLOADING) and load.workload == "serve":
            mean = replace(used, memory_bytes=kept.memory_bytes / kept.num)
            uses.append((mean, replace(load, engine=OFFLOADING), f"{told}; each holds layers by its memory"))

    def tokens_per_s(use: tuple[Hardware, MachineLoad, str]) -> float:
        run = best_run(use[0], use[1])
        return run.request_tokens_per_s if run is not None else 0.0

    return max(uses, key=tokens_per_s)


def performance_of(
    hardware: Hardware, question: Question, power_w: float, smallest: Hardware | None = None
) -> MachinePerformance | None:
    """Return the performance of the hardware with the model; None if it does not fit. Training takes the memory of
    `smallest` if cards are unlike."""
    load = question.load
    run = best_run(hardware, load)
    if run is None:
        return None
    found = simulate_run(hardware, load, run, seed=question.seed)
    if hardware.num == 0 or load.workload == IMAGES:
        return found
    free = load.engine is None and load.workload == "serve"
    others = [name for name in ENGINES if name != run.engine and free]
    other_runs = (best_run(hardware, replace(load, engine=name)) for name in others)
    tuned = smallest or hardware
    needed = tuning_need(load.model, tuned, load.context_tokens)
    return replace(
        found,
        other_runs=tuple(other for other in other_runs if other is not None),
        finest=finest_format(hardware, load),
        qlora_bytes_per_card=needed.card_bytes,
        qlora_host_bytes=needed.host_bytes,
        qlora_split=needed.split,
        qlora_fits=needed.fits(tuned),
        largest_qlora=largest_tuning(tuned, load.context_tokens, None if needed.fits(tuned) else load.model),
        power_points=tuple(_power_points(hardware, question, run, power_w)),
    )


def _power_points(
    hardware: Hardware, question: Question, run: HardwareRun, power_w: float
) -> list[CardPowerPoint]:
    """Return the run's results under each power limit."""
    rated = accelerators.by_id(hardware.accelerator).tdp_w
    if rated is None:
        return []
    points = []
    cards_w = rated * hardware.num
    for fraction in power_points_of(hardware.accelerator):
        limited = best_run(replace(hardware, power_fraction=fraction), _as_run(question, run))
        if limited is None:
            continue
        wall = power_w - cards_w * (hardware.power_fraction - fraction) / 0.9
        speed = limited.output_tokens_per_s.value
        points.append(CardPowerPoint(fraction, wall, speed, speed / wall))
    return points


def _as_run(question: Question, run: HardwareRun) -> MachineLoad:
    """Return the load on the engine of a run."""
    if question.load.workload == "finetune":
        return question.load
    return replace(question.load, engine=run.engine)


def build_of(
    name: str, machine: Assembly, question: Question, book: PriceBook, market: RentMarket, *, gap: float = 0.0
) -> Build:
    """Return a machine made of parts, priced, judged and simulated."""
    lines = tuple(
        line
        for category, part, num in machine.bill()
        for line in _bill_lines(category, part, num, book, question.have)
    )
    return build_from_lines(name, machine, lines, question, market, gap=gap)


def _bill_lines(
    category: str, part: Part, num: int, book: PriceBook, have: Assembly | None
) -> list[PartLine]:
    """Return the lines of a bill for some equal parts: those that the user has, at no price, then those to buy."""
    held = sum(count for _, one, count in have.bill() if one == part) if have is not None else 0
    owned = min(held, num)
    if part.sold_with:
        return [_line_of_machine(category, part, num, book)]
    lines = []
    if owned:
        free = part_line(category, part, owned, None)
        lines.append(replace(free, unit_price_usd=0.0, price_basis="user", source=OWNED))
    if num > owned:
        lines.append(part_line(category, part, num - owned, price_of(part, book)))
    return lines


def _line_of_machine(category: str, part: Part, num: int, book: PriceBook) -> PartLine:
    """Return the line of a part that is sold with a machine: the board bears the price of all."""
    if isinstance(part, Board):
        machine = next(one for one in parts.used_machines() if one.name == part.sold_with)
        return replace(part_line(category, part, num, book.get(machine.price_key)), name=machine.name)
    line = part_line(category, part, num, None)
    return replace(line, unit_price_usd=0.0, price_basis="user", source=IN_THE_MACHINE)


def build_from_lines(
    name: str,
    machine: Assembly,
    lines: tuple[PartLine, ...],
    question: Question,
    market: RentMarket,
    *,
    gap: float = 0.0,
) -> Build:
    """Return a machine whose bill is already priced."""
    total = total_of(lines)
    priced = total if has_main_prices(lines) else 0.0
    power = wall_power_w(machine)
    hardware, load, words = best_use(machine, question)
    used = replace(question, load=load)
    performance = performance_of(hardware, used, power, hardware_of(machine)) if hardware else None
    return Build(
        name=name,
        kind="parts",
        parts=lines,
        total_usd=total,
        checks=judge(machine, question.setting),
        performance=performance,
        economics=_economics(priced, power, performance, question, market),
        power_w=power,
        optimality_gap=gap,
        note=_note(machine, words, performance.run if performance is not None else None, load.model),
        machine=machine,
    )


def system_of(system: System, question: Question, book: PriceBook, market: RentMarket) -> Build | None:
    """Return a complete machine, priced and simulated; None if it has no price or the model does not fit."""
    line = part_line("system", system, 1, price_of(system, book))
    performance = _system_performance(system, question)
    if line.unit_price_usd is None or performance is None:
        return None
    return Build(
        name=system.name,
        kind="system",
        parts=(line,),
        total_usd=line.usd,
        checks=judge_system(system, question.setting),
        performance=performance,
        economics=_economics(line.usd, system.power_w, performance, question, market),
        power_w=system.power_w,
        optimality_gap=0.0,
        note=system.note,
        is_used=line.condition == "used" and not question.used,
    )


def hardware_of_system(system: System, num_joined: int = 1, host: Assembly | None = None) -> Hardware:
    """Return the hardware of a complete machine, or of several over their network, with the main memory of `host`."""
    if host is None or accelerators.by_id(system.accelerator).unified_memory:
        host = Assembly()
    return Hardware(
        system.accelerator,
        system.num_accelerators * num_joined,
        memory_bytes=system.memory_bytes,
        bridged=True,
        host_bytes_per_s=known_host_bytes_per_s(host),
        host_capacity_bytes=_capacity_of(host),
    )


def _system_performance(
    system: System, question: Question, num_joined: int = 1, host: Assembly | None = None
) -> MachinePerformance | None:
    """Return the performance of a complete machine, or of several over their network; None if the model does not
    fit. The main memory of `host`, if the graphics chip has its own, holds layers for the CPU."""
    hardware = hardware_of_system(system, num_joined, host)
    performance = performance_of(hardware, question, system.power_w * num_joined)
    return None if performance is None else replace(performance, power_points=())


def _joined_performance(
    system: System, question: Question, num: int, host: Assembly | None
) -> tuple[MachinePerformance | None, int, str]:
    """Return the performance of several complete machines, the number of them that it takes, and a note: all of them
    over a network that their record states; else one, or, if the model does not fit one, all of them with layers in
    turn over whatever network joins them.

    Source: llama.cpp, tools/rpc: a server on each machine; what passes between layers of one token are some kilobytes,
    so decoding waits for memory, not for the network.
    """
    if can_join(system) or num < 2:
        return _system_performance(system, question, num, host), num, ""
    alone = _system_performance(system, question, 1, host)
    if (
        alone is not None
        or question.load.engine not in (None, OFFLOADING)
        or question.load.workload != "serve"
    ):
        return alone, 1, ""
    by_layers = replace(question, load=replace(question.load, engine=OFFLOADING))
    joined = _system_performance(system, by_layers, num, host)
    if joined is None:
        return None, 1, ""
    run = joined.run
    note = (
        f"one {system.name} does not hold the model; {num} do by llama.cpp RPC (rpc-server on each, --rpc HOST:PORT on "
        "one), with layers in turn: the machines add memory, not speed, and nothing of it is measured here"
    )
    slow = replace(
        run, split=f"layers in turn on {num} machines", output_tokens_per_s=_over_rpc(run.output_tokens_per_s)
    )
    rate = _over_rpc(joined.output_tokens_per_s)
    # Of training across such machines nothing is known.
    return (
        replace(joined, run=slow, output_tokens_per_s=rate, num_machines=num, qlora_bytes_per_card=0.0),
        num,
        note,
    )


RPC_FRACTION: Final = 0.6
"""Low end of the rate of layers in turn over a network, over that without one. Own assumption: each token waits for a
round trip per machine."""


def _over_rpc(rate: Quantity) -> Quantity:
    """Return the rate of a run whose layers are divided among machines, which no measurement bears."""
    return replace(rate, basis="assumed", low=min(rate.low, RPC_FRACTION * rate.value))


def system_as_listed(
    build: Build, system: System, num_joined: int, question: Question, market: RentMarket
) -> Build:
    """Return the build of a parts list that names a complete machine, or several that work together, judged and
    simulated as those. Further cards keep their checks, and count alone if they are faster: no engine here divides a
    model between both."""
    performance, num_joined, note = _joined_performance(system, question, num_joined, build.machine)
    listed = build.machine.cards if build.machine is not None else None
    beside = external_card.check_parts((system, listed), question.setting) if listed is not None else None
    cards = build.performance if listed is not None and takes_cards(system) else None
    power_w = system.power_w * num_joined
    notes = [*filter(None, (system.note, note))]
    if cards is not None:
        power_w += build.power_w
        own = performance.decode_tokens_per_s.value if performance is not None else 0.0
        notes.append(
            f"{system.name} alone decodes {own:.3g} tokens/s, the cards {cards.decode_tokens_per_s.value:.3g}"
        )
        is_faster = performance is None or (
            cards.decode_tokens_per_s.value > performance.decode_tokens_per_s.value
        )
        performance = cards if is_faster else performance
    return replace(
        build,
        name=system.name if num_joined == 1 else f"{num_joined} x {system.name}",
        kind="system",
        checks=(
            *judge_system(system, question.setting),
            *([beside] if beside is not None else []),
            *(build.checks if build.parts[1:] else ()),
        ),
        performance=performance,
        economics=_economics(
            build.total_usd if has_main_prices(build.parts) else 0.0, power_w, performance, question, market
        ),
        power_w=power_w,
        note="; ".join(notes),
    )


def has_main_prices(lines: Sequence[PartLine]) -> bool:
    """Whether the cards or the complete machine of a bill, which are most of its worth, all have a price."""
    return all(line.unit_price_usd is not None for line in lines if line.category in ("gpu", "system"))


def _economics(
    usd: float, power_w: float, performance: MachinePerformance | None, question: Question, market: RentMarket
) -> Economics | None:
    if performance is None or not usd:
        return None  # what a machine without any price costs is unknown, not nothing
    output = performance.output_tokens_per_s.value
    tokens = (output + performance.input_tokens_per_s, output)
    rent = market.cheapest(performance.decode_tokens_per_s.value)
    return economics(usd, power_w, tokens, rent, question.use)


def _note(machine: Assembly, of_unlike_cards: str, run: HardwareRun | None, model: Model) -> str:
    cards = machine.cards
    notes = []
    if run is not None and run.num_waiting:
        notes.append(
            f"{run.num_waiting} streams wait for cache: in eight bits (vLLM --kv-cache-dtype fp8, llama.cpp -ctk q8_0 "
            "-ctv q8_0) about twice as many tokens find a place"
        )
    if machine.cpu is not None and machine.cpu.series.num_cpus == 2 and run is not None and run.on_cpu:
        notes.append(
            "layers on two CPUs are read at about the bandwidth of one, as half of the weights are behind the other, "
            "and their threads wait for each other: measure llama.cpp with --numa distribute and weights that "
            "generation reads into memory first, and, where the model fits the memory of one CPU, bound to that one "
            "(numactl --cpunodebind=0 --membind=0)"
        )
    if cards is not None and run is not None and run.engine == TENSOR_PARALLEL:
        refused = refused_heads(model, cards.num) if cards.num > 1 else ""
        if refused:
            notes.append(f"{refused} of the model do not divide among {cards.num} cards")
    if cards is None or not cards.cards:
        return "; ".join(notes)
    if cards.power_fraction < 1.0:
        watts = cards.cards[0].power_w * cards.power_fraction
        command = POWER_COMMANDS[accelerators.by_id(cards.accelerators[0]).vendor].format(watts=watts)
        notes.append(
            f"cards held to {watts:.0f} W each ({cards.power_fraction:.0%}): {command}; the limit ends with a restart "
            "until a service sets it again"
        )
    notes += [of_unlike_cards] if of_unlike_cards else []
    if cards.num > 1 and not (machine.board is not None and lanes_of(cards, machine.board)):
        generation, lanes = links_of(machine, cards)
        notes.append(
            f"no source states the links of the cards: speeds take PCIe {generation}.0 x{lanes} each, which nearly all "
            "known boards reach"
        )
    return "; ".join(notes)
