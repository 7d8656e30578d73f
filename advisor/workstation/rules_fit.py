"""Rules on fit: sockets, memory, slots, lengths, cases, coolers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.schema.part import (
    FIGURES_ASSUMED,
    PLUG_UNKNOWN_OF_DRIVE,
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    DisplayCard,
    GpuCard,
    RamKit,
    Storage,
)
from advisor.catalog.units import GB, GIB, KILO
from advisor.workstation.assembly import (
    SERVER,
    TOWER,
    Assembly,
    Cards,
    Memory,
    Risers,
    Setting,
    Supplies,
    is_rack_server,
    is_server,
    slot_widths,
    takes_half_height,
)
from advisor.workstation.rules import Finding, at_least, at_most, holds, match_rule, sum_rule


@match_rule(
    "socket",
    "CPU and board",
    cpu=lambda cpu: cpu.series.id,
    board=lambda board: (board.socket, board.chipset),
)
def socket(cpu: Cpu, board: Board, setting: Setting) -> Finding:
    """Compare the CPU's socket with the board's, and its series with those that the chipset takes."""
    series = cpu.series
    if series.socket != board.socket:
        why = f"{cpu.name} is {series.socket}, {board.name} is {board.socket}"
        return holds(False, why, f"a CPU for {board.socket}, or an {series.socket} board and its memory")
    runs = board.chipset in series.chipsets
    needed = f"does not run {series.name}, which needs {' or '.join(series.chipsets)}"
    why = f"{board.chipset} boards run {series.name}" if runs else f"{board.chipset} {needed}"
    return holds(runs, why, f"a {series.chipsets[0]} board, or a CPU that {board.chipset} runs")


@match_rule(
    "memory-kind",
    "memory and board",
    memory=lambda memory: (memory.kit.ram_type, memory.kit.registered),
    board=lambda board: (board.ram_type, board.registered, board.chipset),
)
def memory_kind(memory: Memory, board: Board, setting: Setting) -> Finding:
    """Compare the kind of module with those of the board: DDR generation, registered or not."""
    takes_both = any(
        series.unbuffered_too for series in parts.cpu_series().values() if board.chipset in series.chipsets
    )
    return kind_of_modules(f"{board.name} takes", memory.kit, (board.ram_type,), board.registered, takes_both)


def kind_of_modules(
    takes: str, kit: RamKit, ram_types: Sequence[str], registered: bool, takes_both: bool
) -> Finding:
    """Compare the kind of module with those that a board or a CPU takes, which `takes` names."""
    wanted = "registered or unbuffered" if takes_both else _buffer_of(registered)
    wanted = f"{' or '.join(ram_types)} {wanted}"
    fits = kit.ram_type in ram_types and (takes_both or kit.registered == registered)
    why = f"{takes} {wanted}, the kit is {kit.ram_type} {_buffer_of(kit.registered)}"
    return holds(fits, why, f"{wanted} modules")


def _buffer_of(registered: bool) -> str:
    return "registered" if registered else "unbuffered"


@match_rule(
    "memory-slots",
    "memory slots",
    "modules",
    memory=lambda memory: memory.num_modules,
    board=lambda board: (board.ram_slots, FIGURES_ASSUMED in board.flags),
)
def memory_slots(memory: Memory, board: Board, setting: Setting) -> Finding:
    """Compare the number of modules with the board's slots; a board that no record holds has at most those of its
    chipset."""
    num = memory.num_modules
    why = f"{num} modules for {board.ram_slots} slots"
    is_assumed = FIGURES_ASSUMED in board.flags
    why = f"{why}, the most of this chipset" if is_assumed else why
    return at_most(num, board.ram_slots, why, "fewer, larger modules")


LATER_MODULE_BYTES: Final = 64 * GIB
"""Largest unbuffered module of DDR5 that is sold [bytes] (2025)."""


@match_rule(
    "memory-size",
    "memory capacity",
    "GB",
    memory=lambda memory: (memory.capacity_bytes, memory.kit.module_bytes, memory.kit.ram_type),
    board=lambda board: (board.ram_max_bytes, board.ram_slots, board.registered),
    cpu=lambda cpu: cpu.max_ram_bytes,
)
def memory_size(memory: Memory, board: Board, cpu: Cpu, setting: Setting) -> Finding:
    """Compare the capacity with what board and CPU address. Records of DDR5 desktops are older than modules of 48 and
    64 GB, which later firmware takes: with those, more than the record states is unknown."""
    most = min(board.ram_max_bytes, cpu.max_ram_bytes)
    why = f"{memory.capacity_bytes / GIB:.0f} GB, at most {most / GIB:.0f} GB"
    is_desktop = memory.kit.ram_type == "DDR5" and not board.registered
    most_of_slots = board.ram_slots * min(memory.kit.module_bytes, LATER_MODULE_BYTES)
    if is_desktop and most < memory.capacity_bytes <= most_of_slots:
        why = f"{memory.capacity_bytes / GIB:.0f} GB; the record states {most / GIB:.0f} GB, from before larger modules"
        remedy = "look up the memory that the board takes"
        return Finding(memory.capacity_bytes / GB, most / GB, False, why, remedy, True)
    return at_most(memory.capacity_bytes / GB, most / GB, why, "less memory")


@match_rule(
    "memory-channels",
    "memory channels",
    "modules",
    "advice",
    memory=lambda memory: memory.num_modules,
    cpu=lambda cpu: cpu.series.channels,
)
def channels(memory: Memory, cpu: Cpu, setting: Setting) -> Finding:
    """Compare the modules with the CPU's channels."""
    num = memory.num_modules
    wanted = cpu.series.channels
    remedy = f"a kit of {wanted} modules: bandwidth counts when a CPU helps"
    return at_least(num, wanted, f"{num} modules on {wanted} channels", remedy)


@match_rule(
    "memory-speed",
    "transfer rate of memory",
    "MT/s",
    "advice",
    planned=False,
    memory=lambda memory: (memory.kit.ram_type, memory.kit.speed_mts, memory.num_modules),
    cpu=lambda cpu: cpu.series.id,
)
def memory_speed(memory: Memory, cpu: Cpu, setting: Setting) -> Finding | None:
    """Compare the rating of DDR5 with the rate that its CPU reaches with two modules a channel; None where each channel
    has one, or the rating is reached. Modules of DDR4 usually reach theirs either way."""
    kit = memory.kit
    reached = cpu.series.ram_rate_mts(kit.ram_type, kit.speed_mts, memory.num_modules)
    if kit.ram_type != "DDR5" or memory.num_modules <= cpu.series.channels or reached >= kit.speed_mts:
        return None
    why = (
        f"{memory.num_modules} modules on {cpu.series.channels} channels usually run at {reached:.0f} MT/s, not at the "
        f"{kit.speed_mts:.0f} of the kit"
    )
    return Finding(reached, kit.speed_mts, False, why, f"a kit of {cpu.series.channels} larger modules")


LEAST_RAM_BYTES: Final = 32 * GIB
"""Main memory below which system, engine and conversion of a model compete for it. Own assumption: what
builders usually combine with one card."""


@match_rule("memory-floor", "usual memory", "GB", "advice", memory=lambda memory: memory.capacity_bytes)
def memory_floor(memory: Memory, setting: Setting) -> Finding:
    """Compare the capacity with what a machine for models usually has."""
    given = memory.capacity_bytes / GIB
    least = LEAST_RAM_BYTES / GIB
    why = f"{given:.0f} GB; loading, converting and a desktop beside the model take {least:.0f} GB"
    return at_least(given, least, why, f"{least:.0f} GB or more")


@sum_rule(
    "model-memory",
    "memory for the model",
    unit="GB",
    needs={},
    gives={
        "memory": lambda memory, setting: memory.capacity_bytes,
        "cards": lambda cards, setting: cards.memory_bytes,
    },
    base_need=lambda setting: setting.ram_needed_bytes,
    show=lambda value: value / GB,
    required=("memory",),
    in_doubt=lambda machine: machine.cards is None,  # cards that no record holds have memory too
)
def model_memory(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the memory of the system and the cards together against what model and system take."""
    why = f"model and system take {actual:.0f} GB, main memory and cards have {limit:.0f} GB together"
    return why, "more system memory, or a smaller format"


@sum_rule(
    "ram-loading",
    "memory for mapped files",
    unit="GB",
    severity="advice",
    needs={},
    gives={"memory": lambda memory, setting: memory.capacity_bytes},
    base_need=lambda setting: setting.ram_needed_bytes,
    show=lambda value: value / GB,
    required=("memory",),
)
def ram_loading(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the system memory against the model's files, which engines map into memory."""
    why = (
        f"the files and the system take {actual:.0f} GB, there are {limit:.0f} GB: the model loads all the same, since "
        "engines map its files, but each start reads them from the drive"
    )
    return why, "memory of the size of the files, if the model is started often"


@match_rule(
    "ecc",
    "error correction",
    "of 3",
    "advice",
    planned=False,
    memory=lambda memory: memory.kit.ecc,
    board=lambda board: board.ecc or board.registered,
    cpu=lambda cpu: cpu.ecc,
)
def ecc(memory: Memory, board: Board, cpu: Cpu, setting: Setting) -> Finding:
    """Judge error correction, which needs all three: modules, board, CPU."""
    able = {"modules": memory.kit.ecc, "board": board.ecc or board.registered, "CPU": cpu.ecc}
    lacking = [name for name, has in able.items() if not has]
    corrects = "modules, board and CPU correct errors"
    why = f"without error correction: {', '.join(lacking)}" if lacking else corrects
    return at_least(3 - len(lacking), 3, why, "ECC modules on a board and CPU that use them")


ECC_REQUIRED: Final = replace(ecc, severity="hard", planned=True)


@match_rule(
    "display",
    "picture",
    "of 1",
    "advice",
    without_cards=True,
    cards=lambda cards: all(card.has_no_output for card in cards.cards),
    cpu=lambda cpu: cpu.lacks_graphics,
    board=is_server,
    displays=bool,
)
def display(
    cards: Cards, cpu: Cpu, board: Board, displays: tuple[DisplayCard, ...], setting: Setting
) -> Finding | None:
    """Judge whether a machine whose cards have no output shows a picture: its CPU then needs a graphics unit, or it is
    a server, whose management controller has an output."""
    has_output = bool(displays) or not all(card.has_no_output for card in cards.cards)
    if has_output or not cpu.lacks_graphics or is_server(board):
        return None
    lacks = "no card has an output for a screen" if cards.cards else "no card is there"
    why = f"{cpu.name} has no graphics unit, {lacks}: no picture, unless the board has graphics"
    return holds(False, why, "a small card at least for setting it up, or a CPU with a graphics unit")


@match_rule(
    "board-fits",
    "board and case",
    board=lambda board: board.form_factor,
    case=lambda case: (case.boards, case.form_factor),
)
def board_fits(board: Board, case: Case, setting: Setting) -> Finding:
    """Compare the board's form factor with the case's; server boards fit where EATX does. Of a full tower whose record
    ends at ATX it is unknown: most of them take larger boards."""
    kinds = {board.form_factor} | ({"EATX"} if board.form_factor.startswith("SSI") else set())
    why = f"{board.form_factor} board; {case.name} takes {', '.join(case.boards)}"
    if "EATX" in kinds and "Full Tower" in case.form_factor and not kinds & set(case.boards):
        return Finding(0, 1, False, why, "look up whether the case takes EATX and SSI boards", True)
    return holds(bool(kinds & set(case.boards)), why, "a case that takes it")


def needed_positions(widths: tuple[int, ...], positions: tuple[int, ...]) -> int | None:
    """Case slots that plugged cards need so that none overlaps the next [slots]; None if they overlap.

    Widths and positions in the order of plugging; the least over all orders of the cards.
    """
    taken = sorted(positions[: len(widths)])
    if len(taken) < len(widths):
        return None
    gaps = sorted(below - above for above, below in pairwise(taken))
    # The widest card goes last, where nothing is below it, if the case allows; else wherever it fits.
    for last in sorted(set(widths)):
        others = sorted(widths)
        others.remove(last)
        if all(width <= gap for width, gap in zip(others, gaps, strict=True)):
            return taken[-1] + last - 1
    return None


def _positions(board: Board) -> tuple[int, ...]:
    return tuple(slot.position for slot in board.slots)


def num_alike(board: Board) -> int:
    """Number of slots, in the order of plugging, that keep the lanes and the generation of the first, however many of
    them hold a card: cards may take any of them."""
    num = 0
    for lanes, slot in zip(board.lane_modes, board.slots, strict=False):
        if set(lanes) != set(board.lane_modes[0]) or slot.pcie_generation != board.slots[0].pcie_generation:
            break
        num += 1
    return num


@match_rule(
    "slots",
    "card width",
    "slots",
    cards=slot_widths,
    board=lambda board: (
        _positions(board),
        board.slots_known,
        num_alike(board),
        "layout_assumed" in board.flags,
    ),
    case=lambda case: (case.open_frame, case.expansion_slots),
)
def slots(cards: Cards, board: Board, case: Case, setting: Setting) -> Finding:
    """Compare cards with the board's slots and the case's openings; in an open frame cards hang on risers side by
    side."""
    widths = slot_widths(cards)
    room = case.expansion_slots
    if case.open_frame:
        total = sum(widths)
        return at_most(total, room, f"{total} slot widths on a frame for {room}", "a longer frame")
    if sum(widths) > room:  # no spacing helps
        why = f"{cards.num} cards cover {sum(widths)} slots on any board; {case.name} has {room}"
        return Finding(sum(widths), room, False, why, "narrower cards, or an open frame with risers")
    positions = _positions(board)
    ends = [needed_positions(widths, taken) for taken in layouts(board, cards.num)]
    need = min((end for end in ends if end is not None), default=None)
    if need is None:
        if len(positions) < cards.num:
            why = f"{cards.num} cards; {len(positions)} slots of {board.name} are known to carry one"
            remedy = "a board with more slots, or fewer cards"
            # Slots with 8 lanes of a server's board are in no record; some of them take a card.
            is_unknown = not board.slots_known or (board.registered and SERVER not in board.flags)
            return Finding(cards.num, len(positions), False, why, remedy, is_unknown)
        between = min((b - a for a, b in pairwise(sorted(positions))), default=0)
        is_assumed = "layout_assumed" in board.flags
        why = f"cards of {max(widths)} slots overlap on {board.name}" + (
            ", spacing assumed" if is_assumed else ""
        )
        remedy = "narrower cards, or an open frame with risers"
        return Finding(max(widths), between, False, why, remedy, is_assumed)
    is_assumed = "layout_assumed" in board.flags and cards.num > 1
    why = f"the lowest card ends at slot {need} of {room}{', spacing assumed' if is_assumed else ''}"
    # Assumed spacing breaks no list whose cards fit side by side.
    is_doubtful = is_assumed and need > room
    return Finding(need, room, need <= room, why, "a case with more slots, or narrower cards", is_doubtful)


def layouts(board: Board, num: int) -> list[tuple[int, ...]]:
    """Return the slot positions that `num` cards may take: any of those that are wired alike, else the first
    ones in the order of plugging."""
    positions = _positions(board)
    alike = num_alike(board)
    if num <= alike:
        return list(combinations(sorted(positions[:alike]), num))
    return [positions[:num]] if num <= len(positions) else []


def chosen_layout(
    cards: Cards, board: Board, case: Case | None, bridges: Sequence[Bridge] = ()
) -> tuple[int, ...]:
    """Return the positions of the slots that cards take, in the order of the cards: where a bridge spans the distance
    between neighbours, or misses it least, and with as much air as the case leaves; in the order of plugging where none
    fits."""
    widths = slot_widths(cards)
    able = [taken for taken in layouts(board, cards.num) if _fits(widths, taken, case)]
    spans = {span for bridge in bridges if not bridge.is_board for span in bridge.spacings_slots}

    def rank(taken: tuple[int, ...]) -> tuple[int, int]:
        gaps = [below - above for above, below in pairwise(sorted(taken))]
        misses = [min(abs(gap - span) for span in spans) for gap in gaps[::2]] if spans else []
        return -max(misses, default=0), min(gaps, default=0)

    return max(able, key=rank, default=_positions(board)[: cards.num])


def _fits(widths: tuple[int, ...], taken: tuple[int, ...], case: Case | None) -> bool:
    """Whether cards in these slots neither overlap nor end beyond the openings of the case."""
    need = needed_positions(widths, taken)
    return need is not None and (case is None or case.open_frame or need <= case.expansion_slots)


def _length(what: str, length_m: float, room_m: float, remedy: str) -> Finding:
    """Return the finding of a length against the room for it."""
    length = length_m * KILO
    room = room_m * KILO
    return at_most(length, room, f"{length:.0f} mm {what}, {room:.0f} mm of room", remedy)


@match_rule(
    "card-length",
    "card length",
    "mm",
    cards=lambda cards: (max(card.length_m for card in cards.cards), _are_low(cards)),
    case=lambda case: (case.max_gpu_m, bool(case.sold_with), case.open_frame),
)
def card_length(cards: Cards, case: Case, setting: Setting) -> Finding | None:
    """Compare the longest card with the case. The room in a machine that is sold whole is that of its class: a longer
    card is unknown there, not too long. None of cards that are too high for a small machine."""
    if takes_half_height(case) and not all(card.is_low_profile for card in cards.cards):
        return None
    longest = max(card.length_m for card in cards.cards)
    found = _length("card", longest, case.max_gpu_m, "a shorter card or a longer case")
    if found.passed or not case.sold_with:
        return found
    remedy = f"measure the room of the {case.sold_with}, or take a shorter card"
    return found._replace(why=f"{found.why}, as far as its class tells", remedy=remedy, is_unknown=True)


MOST_EXAMPLES: Final = 4
"""Number of low-profile cards that a remedy names."""


def _are_low(cards: Cards) -> bool:
    return all(card.is_low_profile for card in cards.cards)


@match_rule(
    "card-height",
    "height of the cards",
    "cards",
    cards=_are_low,
    case=lambda case: (case.max_gpu_m, case.open_frame),
)
def card_height(cards: Cards, case: Case, setting: Setting) -> Finding | None:
    """Compare the height of the cards with a case that takes low-profile ones only."""
    if not takes_half_height(case):
        return None
    high = dict.fromkeys(card.name for card in cards.cards if not card.is_low_profile)
    if not high:
        return Finding(0, 0, True, f"low-profile cards for {case.name}, which takes no higher ones")
    why = f"{case.name} takes low-profile (half-height) cards only; {', '.join(high)} is of full height"
    remedy = f"a low-profile card without a plug ({', '.join(_low_cards())}), or a larger machine"
    return Finding(len(high), 0, False, why, remedy)


def _low_cards() -> list[str]:
    """Return the names of the low-profile cards with the most memory that have fans and no plug."""
    sold = [
        card
        for card in parts.planner_parts(GpuCard)
        if card.is_low_profile and card.cooling != "passive" and not (card.num_8_pin or card.num_6_pin)
    ]
    records = {card.accelerator: accelerators.by_id(card.accelerator) for card in sold}
    ordered = sorted(records.values(), key=lambda record: (-(record.memory_bytes or 0.0), record.name))
    return [record.name for record in ordered[:MOST_EXAMPLES]]


USUAL_RISER_SLOTS: Final = 2
"""Width of the cards for which makers build the risers of rack servers [slots]."""


@match_rule(
    "card-room",
    "cards in a rack server",
    "slots",
    cards=lambda cards: (max(slot_widths(cards)), _strongest_w(cards)),
    board=lambda board: (board.name, is_rack_server(board)),
)
def card_room(cards: Cards, board: Board, setting: Setting) -> Finding | None:
    """Compare width and power of the cards with what a rack server takes on its risers. Of one without a record, and of
    power that the maker's pages were not read for, it is unknown."""
    if not is_rack_server(board):
        return None
    room = parts.card_rooms().get(board.name)
    width = max(slot_widths(cards))
    most = room.slots if room is not None else USUAL_RISER_SLOTS
    watts = _strongest_w(cards)
    if width > most:
        takes = "risers of rack servers usually take" if room is None else f"{board.name} takes on its risers"
        why = f"a card is {width} slots wide; {takes} cards of {most}"
        remedy = f"a card of {most} slots: a blower or a professional one"
        return Finding(width, most, False, why, remedy, room is None)
    if room is not None and watts > room.watts:
        is_read = room.basis == "quote"
        limit = f"{'' if is_read else 'as remembered, '}{board.name} feeds {room.watts:.0f} W to a card"
        why = f"a card takes {watts:.0f} W; {limit} over the maker's cable"
        remedy = f"cards held to {room.watts:.0f} W each, or a card of less power"
        return Finding(width, most, False, why, remedy, not is_read)
    return Finding(width, most, True, f"cards of {width} slots for risers that take {most}")


def _strongest_w(cards: Cards) -> float:
    """Power of the card that takes the most, under the power limit [W]."""
    return max(card.power_w for card in cards.cards) * cards.power_fraction


THIN_RADIATOR_M: Final = 0.027
THICK_RADIATOR_M: Final = 0.038
"""Thickness of radiators [m]: most have 27 mm, those of ARCTIC's Liquid Freezer 38 mm (the makers' product pages).
Makers state the room for cards with fans in the front, so that a radiator takes its own thickness. Own assumption."""
ALWAYS_FITS_RADIATOR_M: Final = 0.24
"""Radiator that a tower takes somewhere [m]. Own assumption; in a case that no source describes a longer one is
unknown."""


@match_rule(
    "radiator",
    "radiator of the CPU cooler",
    "mm",
    without_cards=True,
    cooler=lambda cooler: cooler.radiator_m,
    case=lambda case: (
        case.radiator_clear_m,
        case.radiator_front_m,
        case.max_gpu_m,
        case.open_frame or bool(case.sold_with),
        "Tower" in case.form_factor,
    ),
    cards=lambda cards: max((card.length_m for card in cards.cards), default=0.0),
)
def radiator(cooler: Cooler, case: Case, cards: Cards, setting: Setting) -> Finding | None:
    """Judge the place of a radiator: clear of the cards, or in the front, where they lose its thickness."""
    size = cooler.radiator_m
    if size is None or case.open_frame or case.sold_with:
        return None
    longest = max((card.length_m for card in cards.cards), default=0.0)
    what = f"the {size * KILO:.0f} mm radiator"
    tight = (case.max_gpu_m - THICK_RADIATOR_M) * KILO
    wide = (case.max_gpu_m - THIN_RADIATOR_M) * KILO
    clear = case.radiator_clear_m
    front = case.radiator_front_m
    remedy = "an air cooler, a smaller radiator, or a case with a place for it in the roof"
    if clear is not None and size <= clear + 1e-6:
        return Finding(size * KILO, clear * KILO, True, f"{what} has a place clear of the cards")
    left = f"there it leaves {tight:.0f} to {wide:.0f} mm for cards of {longest * KILO:.0f} mm"
    if front is not None and clear is not None:
        if size > front + 1e-6:
            why = f"{case.name} takes {max(clear, front) * KILO:.0f} mm at most, the radiator has {size * KILO:.0f}"
            return Finding(size * KILO, max(clear, front) * KILO, False, why, remedy)
        roof = f"{clear * KILO:.0f} mm at most" if clear else "none"
        why = f"{what} goes to the front of {case.name}, whose roof takes {roof}; {left}"
        is_open = tight < longest * KILO <= wide
        return Finding(longest * KILO, tight, longest * KILO <= tight, why, remedy, is_open)
    fits_in_front = longest * KILO <= tight
    if size <= ALWAYS_FITS_RADIATOR_M and fits_in_front and "Tower" in case.form_factor:
        return Finding(size * KILO, ALWAYS_FITS_RADIATOR_M * KILO, True, f"{what} fits the roof or the front")
    beside = (
        "the cards fit beside one in the front too"
        if fits_in_front
        else f"in the front {left.removeprefix('there ')}"
    )
    why = f"no source states where {case.name} takes {what}; {beside}"
    return Finding(
        longest * KILO, tight, False, why, "look up where the case takes it: roof, side or front", True
    )


@match_rule(
    "card-cooling",
    "passive cards",
    "cards",
    cards=lambda cards: tuple(card.cooling for card in cards.cards),
    case=lambda case: (bool(case.sold_with), case.form_factor),
)
def card_cooling(cards: Cards, case: Case, setting: Setting) -> Finding | None:
    """Judge passive cards, which need the airflow of a server; the board tells for a machine that is sold whole."""
    passive = 0 if case.sold_with else sum(card.cooling == "passive" for card in cards.cards)
    is_rack = re.match(r"\dU\b", case.form_factor) is not None
    stated = f"no source states the fans of {case.name}" if is_rack else f"{case.name} has none"
    why = f"{passive} cards without fans need the air of a server chassis; {stated}"
    return Finding(passive, 0, False, why, "cards with fans, or a server", is_rack) if passive else None


@match_rule(
    "card-cooling",
    "passive cards",
    "cards",
    cards=lambda cards: tuple(card.cooling for card in cards.cards),
    board=lambda board: TOWER in board.flags,
)
def card_cooling_in_tower(cards: Cards, board: Board, setting: Setting) -> Finding | None:
    """Judge passive cards in a workstation that is sold whole, whose fans are those of an office."""
    passive = sum(card.cooling == "passive" for card in cards.cards)
    if not passive or TOWER not in board.flags:
        return None
    why = f"{passive} cards without fans need the air of a server chassis; {board.name} is a tower for an office"
    return Finding(passive, 0, False, why, "a blower with a duct on each card, cards with fans, or a server")


@match_rule(
    "card-spacing",
    "air between cards",
    "slots",
    "advice",
    cards=lambda cards: (slot_widths(cards), tuple(card.cooling for card in cards.cards)),
    board=lambda board: (_positions(board), num_alike(board)),
    case=lambda case: (case.open_frame, case.expansion_slots),
)
def spacing(cards: Cards, board: Board, case: Case, setting: Setting) -> Finding | None:
    """Judge the distance of cards: those with open fans need a free slot below them, blowers do not."""
    widths = slot_widths(cards)
    open_cards = [w for card, w in zip(cards.cards, widths, strict=True) if card.cooling == "open"]
    if cards.num < 2 or case.open_frame or len(open_cards) < 2:
        return None  # a single card with open fans goes last, where nothing is below it
    gaps = [
        min(below - above for above, below in pairwise(sorted(taken)))
        for taken in layouts(board, cards.num)
        if _fits(widths, taken, case)
    ]
    if not gaps:
        return None
    free = max(gaps) - max(open_cards)
    why = f"{max(free, 0)} free slots between cards that blow into the case"
    return at_least(free, 1, why, "blower cards, wider spacing, or an open frame")


@match_rule(
    "risers",
    "risers",
    "risers",
    cards=lambda cards: cards.num,
    case=lambda case: case.open_frame,
    risers=lambda risers: (risers.num, risers.riser.ports if risers.riser is not None else 0),
)
def all_risers(cards: Cards, case: Case, risers: Risers, setting: Setting) -> Finding | None:
    """Judge an open frame, which needs a riser for each card."""
    if not case.open_frame or (risers.riser is not None and risers.riser.ports):
        return None  # cards stand in the slots of a switch board
    if not risers.num:
        why = f"{cards.num} cards in an open frame hang beside the board on risers; none is named"
        return Finding(0, cards.num, False, why, "one riser for each card", True)
    why = f"{cards.num} cards hang beside the board on {risers.num} risers"
    return at_least(risers.num, cards.num, why, "one riser for each card")


FRAME_FROM_CARDS: Final = 2
"""Number of cards from which an open frame is worth its risers, dust and noise: wide cards leave each other no air."""


@match_rule(
    "frame",
    "open frame",
    "cards",
    "advice",
    cards=lambda cards: (cards.num, max(card.length_m for card in cards.cards)),
    case=lambda case: case.open_frame,
)
def frame(cards: Cards, case: Case, setting: Setting) -> Finding | None:
    """Judge an open frame for few cards."""
    if not case.open_frame:
        return None
    why = f"{cards.num} cards hang in an open frame on risers; a closed case holds them with less noise and dust"
    return at_least(cards.num, FRAME_FROM_CARDS, why, "a closed case with the cards on the board")


@match_rule(
    "psu-fits",
    "supply and case",
    "mm",
    supplies=lambda supplies: tuple(psu.length_m for psu in supplies.psus),
    case=lambda case: case.max_psu_m,
)
def supply_fits(supplies: Supplies, case: Case, setting: Setting) -> Finding | None:
    """Compare the length of the supply with the case; None if the case states no length."""
    lengths = [psu.length_m for psu in supplies.psus if psu.length_m]
    if case.max_psu_m is None or not lengths:
        return None
    return _length("supply", max(lengths), case.max_psu_m, "a shorter supply or another case")


SAME_MOUNTS: Final = (
    ("sTR4", "sTRX4", "sWRX8", "SP3", "sTR5", "SP6"),
    ("LGA2011", "LGA2011-3", "LGA2066"),
    ("LGA1150", "LGA1151", "LGA1155", "LGA1156", "LGA1200"),
    ("LGA1700", "LGA1851"),
    ("AM4", "AM5"),
)
"""Sockets with the same holes for coolers. Source: AMD, thermal design guides of SP3 and SP6; ARCTIC, Freezer 4U-M,
which mounts on SP3, sTR4, sTRX4, sWRX8, SP6 and sTR5 alike (as remembered, unverified); Noctua, mounting compatibility
of LGA20xx, LGA115x and LGA1200, LGA1700 and LGA1851, AM4 and AM5."""


@match_rule(
    "cooler-socket",
    "cooler and socket",
    cooler=lambda cooler: cooler.sockets,
    cpu=lambda cpu: cpu.series.socket,
)
def cooler_socket(cooler: Cooler, cpu: Cpu, setting: Setting) -> Finding:
    """Compare the cooler's mounting with the CPU's socket."""
    mount = cpu.series.socket
    alike = next((group for group in SAME_MOUNTS if mount in group), (mount,))
    why = f"{cooler.name} mounts on {', '.join(cooler.sockets)}; the CPU is {mount}"
    return holds(not set(alike).isdisjoint(cooler.sockets), why, f"a cooler for {mount}")


@match_rule(
    "cooler-height",
    "cooler and case",
    "mm",
    cooler=lambda cooler: cooler.height_m,
    case=lambda case: (case.max_cooler_m, case.open_frame),
)
def cooler_height(cooler: Cooler, case: Case, setting: Setting) -> Finding | None:
    """Compare the height of an air cooler with the case."""
    if cooler.height_m is None or case.max_cooler_m is None or case.open_frame:
        return None
    return _length("cooler", cooler.height_m, case.max_cooler_m, "a lower cooler or a wider case")


@sum_rule(
    "storage",
    "room for model files",
    unit="GB",
    needs={},
    gives={"storage": lambda drive, setting: drive.capacity_bytes},
    base_need=lambda setting: setting.storage_needed_bytes,
    show=lambda value: value / GB,
    required=("storage",),
)
def storage_room(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the drive against the files kept on it."""
    return f"system and model files take {actual:.0f} GB, the drive holds {limit:.0f} GB", "a larger drive"


@match_rule(
    "m2",
    "place for the drive",
    "drives",
    storage=lambda drive: PLUG_UNKNOWN_OF_DRIVE in drive.flags,
    board=lambda board: (board.m2_slots, SERVER in board.flags),
)
def drive(storage: Storage, board: Board, setting: Setting) -> Finding | None:
    """Judge the M.2 place for the drive; a machine that is sold whole has bays for drives. Sources count places for
    wireless cards among those of a board, so that their number is not told. A drive that a list names without its plug
    may go to a SATA port."""
    if SERVER in board.flags or PLUG_UNKNOWN_OF_DRIVE in storage.flags:
        return None
    has_place = board.m2_slots > 0
    return holds(
        has_place, f"the board has {'a' if has_place else 'no'} place for an M.2 drive", "an adapter card"
    )


FIT_RULES: Final = (
    socket,
    memory_kind,
    memory_slots,
    memory_size,
    channels,
    memory_speed,
    memory_floor,
    model_memory,
    ram_loading,
    display,
    board_fits,
    slots,
    card_length,
    card_height,
    card_room,
    radiator,
    card_cooling,
    card_cooling_in_tower,
    spacing,
    all_risers,
    frame,
    supply_fits,
    cooler_socket,
    cooler_height,
    storage_room,
    drive,
)
