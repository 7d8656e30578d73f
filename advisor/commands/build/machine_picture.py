"""A drawing of a machine: the slot and the lanes of each card, its power cables, and the supplies."""

from collections.abc import Sequence
from html import escape
from typing import Final

from advisor.render.numbers import BINARY_SIZE, POWER, show
from advisor.render.topology import FONT, WIDEST, WIDTH
from advisor.workstation.assembly import Assembly
from advisor.workstation.wiring import CardWiring, wire

_LEFT: Final = 8
_RIGHT: Final = 326
"""Right edge of the boxes; the supplies' lines run beyond it."""
_BOX: Final = 24
_ROW: Final = 46
_CHARACTERS: Final = 47
"""Characters of this size that a box holds."""
_BUS_GAP: Final = 8
_BRIDGE_X: Final = 190
"""Place of a bridge, between the words on the slot and those on the cables."""
_INK: Final = "#1b1f24"
_LINK: Final = "#0b5cad"
_POWER: Final = "#b3541e"
_BRIDGE: Final = "#6b3fa0"


def machine_svg(name: str, machine: Assembly) -> str:
    """Return the drawing of a machine; empty if it has no cards, or no source describes its board."""
    cards = wire(machine)
    board = machine.board
    if not cards or board is None:
        return ""
    inside = [board.name]
    if machine.cpu is not None:
        inside.append(f"CPU: {machine.cpu.name}")
    if machine.memory is not None:
        inside.append(
            f"memory: {show(machine.memory.capacity_bytes, BINARY_SIZE)} {machine.memory.kit.ram_type}"
        )
    if machine.storage is not None:
        inside.append(f"storage: {machine.storage.name}")
    board_y = 30
    cards_y = board_y + 8 + 16 * len(inside) + 6
    supplies = machine.supplies.psus if machine.supplies else ()
    supply_y = cards_y + _ROW * len(cards) + 12
    height = supply_y + (_BOX + 8) * max(1, len(supplies)) + 2
    about = (
        f"{name}. {' '.join(f'Card {n}: {_slot(card)}; {_cables(card)}.' for n, card in enumerate(cards, 1))}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" '
        f'style="max-width:{WIDEST}px" role="img" aria-label="{escape(about, quote=True)}" '
        f'font-family="sans-serif" font-size="{FONT}" fill="{_INK}">',
        f"<title>{escape(name)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="18" font-size="13">{escape(_cut(name))}</text>',
        f'<rect x="{_LEFT}" y="{board_y}" width="{_RIGHT - _LEFT}" height="{cards_y - board_y - 6}" rx="6" '
        'fill="#f4f6f8" stroke="#8a949e"/>',
    ]
    parts += [_text(_LEFT + 8, board_y + 17 + 16 * n, words) for n, words in enumerate(inside)]
    middles = [cards_y + _ROW * place + 20 + _BOX // 2 for place in range(len(cards))]
    parts.append(_path(f"M{_LEFT + 6} {cards_y - 6}V{middles[-1]}", _LINK))
    for card, middle in zip(cards, middles, strict=True):
        parts += _card(card, middle)
        bus = _RIGHT + _BUS_GAP * card.supply
        parts.append(_path(f"M{_RIGHT} {middle}H{bus}V{_supply_middle(supply_y, card.supply)}", _POWER))
    if machine.bridges:
        parts += _bridges(middles)
    for number, psu in enumerate(supplies, 1):
        middle = _supply_middle(supply_y, number)
        words = f"supply: {show(psu.power_w, POWER)}, {psu.name}"
        parts += [
            _box(_LEFT, middle, "#fbeee6", _POWER),
            _text(_LEFT + 8, middle + 4, words),
            _path(f"M{_RIGHT} {middle}H{_RIGHT + _BUS_GAP * number}", _POWER),
        ]
    return "\n".join([*parts, "</svg>\n"])


def _supply_middle(supply_y: int, number: int) -> int:
    return supply_y + (_BOX + 8) * (number - 1) + _BOX // 2


def _card(card: CardWiring, middle: int) -> list[str]:
    """Return one card below its link and its cables."""
    left = _LEFT + 22
    return [
        _path(f"M{_LEFT + 6} {middle}H{left}", _LINK),
        _text(left, middle - _BOX // 2 - 5, _slot(card)),
        f'<text x="{_RIGHT}" y="{middle - _BOX // 2 - 5}" text-anchor="end">{escape(_cables(card))}</text>',
        _box(left, middle, "#dbe7f3", _LINK),
        _text(left + 8, middle + 4, card.card),
    ]


def _bridges(middles: Sequence[int]) -> list[str]:
    """Return the bridges: each joins two neighbours."""
    found = []
    for first, second in zip(middles[::2], middles[1::2], strict=False):
        top = first + _BOX // 2
        found.append(_path(f"M{_BRIDGE_X} {top}V{second - _BOX // 2}", _BRIDGE))
        found.append(f'<text x="{_BRIDGE_X + 5}" y="{top + 15}" fill="{_BRIDGE}" font-size="9">NVLink</text>')
    return found


def _slot(card: CardWiring) -> str:
    if not card.slot:
        return "slot not described"
    riser = ", riser" if card.on_riser else ""
    return f"slot {card.slot}: PCIe {card.pcie_generation}.0 x{card.lanes}{riser}"


def _cables(card: CardWiring) -> str:
    plugs = {"16-pin": card.num_16_pin, "8-pin": card.num_8_pin}
    return " + ".join(f"{number} x {name}" for name, number in plugs.items() if number) or "from the slot"


def _cut(words: str) -> str:
    return words if len(words) <= _CHARACTERS else f"{words[: _CHARACTERS - 1]}…"


def _text(x: int, y: int, words: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(_cut(words))}</text>'


def _box(x: int, middle: int, fill: str, stroke: str) -> str:
    return (
        f'<rect x="{x}" y="{middle - _BOX // 2}" width="{_RIGHT - x}" height="{_BOX}" rx="4" fill="{fill}" '
        f'stroke="{stroke}"/>'
    )


def _path(way: str, stroke: str) -> str:
    return f'<path d="{way}" fill="none" stroke="{stroke}" stroke-width="3"/>'
