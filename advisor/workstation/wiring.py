"""Wiring of a machine: the slot and the cables of each card, and what its memory holds."""

import math
from dataclasses import dataclass
from typing import Final

from advisor.catalog import models
from advisor.catalog.dtypes import bytes_per_element
from advisor.simulator.graph.model import parameter_count
from advisor.workstation.assembly import Assembly, Cards, Supplies
from advisor.workstation.performance import SYSTEM_MEMORY_BYTES
from advisor.workstation.rules_fit import chosen_layout
from advisor.workstation.rules_links import generation_of_cards, lanes_of
from advisor.workstation.rules_power import EIGHT_PIN_W, SIXTEEN_PIN_W

SIZES: Final = (
    "llama-3.1-8b",
    "qwen3-32b",
    "llama-3.1-70b",
    "gpt-oss-120b",
    "qwen3-235b-a22b",
    "deepseek-v3",
    "kimi-k2",
)
"""Models in order of size by which the reach of a machine is told."""
CARD_FRACTION: Final = 0.9
"""Fraction of the cards' memory that weights may fill; cache and workspace take the rest. Own assumption."""


@dataclass(frozen=True, slots=True)
class CardWiring:
    """Slot and power cables of one card."""

    card: str
    slot: int
    """Position of the slot, counted from the CPU; 0 if no source states it."""
    lanes: int
    """Number of lanes that reach the card, over its riser too."""
    pcie_generation: int
    """Generation that card, slot, CPU and riser reach together."""
    on_riser: bool
    num_16_pin: int
    """Number of plugs of 16 pins that come from the supply itself."""
    num_8_pin: int
    """Number of plugs of 8 or 6 pins, each on a cable of its own; those of an adapter included."""
    supply: int
    """Number of the supply that feeds the card, from 1."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Models in four bits that a machine holds, by where their weights are; ids in order of size."""

    on_cards: tuple[str, ...]
    with_cpu: tuple[str, ...]
    """Models of which main memory holds a part."""
    not_at_all: tuple[str, ...]


def wire(machine: Assembly) -> tuple[CardWiring, ...]:
    """Return slot and cables of each card; none for a machine without cards."""
    cards = machine.cards
    if cards is None or not cards.cards:
        return ()
    board = machine.board
    lanes = lanes_of(cards, board) if board is not None else ()
    taken = chosen_layout(cards, board, machine.case, machine.bridges) if board is not None else ()
    at = {slot.position: slot for slot in board.slots} if board is not None else {}
    native = [psu.num_16_pin for psu in machine.supplies.psus] if machine.supplies else [0]
    found = []
    for place, card in enumerate(cards.cards):
        slot = at[taken[place]] if lanes else None
        supply = _supply_of(place, cards, machine.supplies)
        own = min(card.num_16_pin, native[supply - 1])
        native[supply - 1] -= own
        share_w = card.power_w / card.num_16_pin if card.num_16_pin else 0.0
        adapted = math.ceil(min(share_w, SIXTEEN_PIN_W) / EIGHT_PIN_W - 1e-9) * (card.num_16_pin - own)
        is_hung = place < machine.risers.num
        riser = machine.risers.riser if is_hung else None
        generations = [slot.pcie_generation, generation_of_cards(Cards((card,)))] if slot else []
        generations += [machine.cpu.series.pcie_generation] if slot and machine.cpu is not None else []
        generations += [riser.pcie_generation] if slot and riser is not None else []
        found.append(
            CardWiring(
                card=card.name,
                slot=slot.position if slot else 0,
                lanes=min(lanes[place], riser.lanes if riser is not None else lanes[place]) if lanes else 0,
                pcie_generation=min(generations, default=0),
                on_riser=is_hung,
                num_16_pin=own,
                num_8_pin=card.num_8_pin + card.num_6_pin + adapted,
                supply=supply,
            )
        )
    return tuple(found)


def _supply_of(place: int, cards: Cards, supplies: Supplies | None) -> int:
    """Return the number of the supply for a card: the cards divided among the supplies in order."""
    num = len(supplies.psus) if supplies else 1
    return place * num // cards.num + 1


def reach_of(card_bytes: float, ram_bytes: float) -> Reach:
    """Return where the models of `SIZES` fit: in the cards' memory, with main memory, or not at all."""
    on_cards = []
    with_cpu = []
    not_at_all = []
    for name in SIZES:
        model = models.by_id(name)
        each = min(bytes_per_element("q4_k_m"), bytes_per_element(model.weights))
        need = parameter_count(model).total * each
        if need <= CARD_FRACTION * card_bytes:
            on_cards.append(name)
        elif need <= CARD_FRACTION * card_bytes + ram_bytes - SYSTEM_MEMORY_BYTES:
            with_cpu.append(name)
        else:
            not_at_all.append(name)
    return Reach(tuple(on_cards), tuple(with_cpu), tuple(not_at_all))


def reach_of_machine(machine: Assembly) -> Reach:
    """Return where models fit in a machine of parts."""
    card_bytes = machine.cards.memory_bytes if machine.cards else 0.0
    return reach_of(card_bytes, machine.memory.capacity_bytes if machine.memory else 0.0)
