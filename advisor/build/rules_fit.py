"""Rules on what fits: sockets, memory, slots, lengths, cases, coolers."""

from itertools import combinations, pairwise
from typing import Final

from advisor.build.assembly import Assembly, Cards, Memory, Risers, Setting, Supplies, slot_widths
from advisor.build.rules import Finding, MatchRule, SumRule
from advisor.catalog.schema.part import Board, Case, Cooler, Cpu, Storage
from advisor.catalog.units import GB, GIB, KILO

STR5_MOUNTS: Final = ("sTR5", "SP6")


def judge_socket(cpu: Cpu, board: Board, setting: Setting) -> Finding:
    """The CPU's socket, and whether the chipset takes its series."""
    series = cpu.series
    if series.socket != board.socket:
        why = f"{cpu.name} is {series.socket}, {board.name} is {board.socket}"
        return Finding(0, 1, False, why, f"a board with socket {series.socket}")
    runs = board.chipset in series.chipsets
    why = f"{board.chipset} boards run {series.name}" if runs else (
        f"{board.chipset} does not run {series.name}, which needs {' or '.join(series.chipsets)}"
    )  # fmt: skip
    return Finding(
        float(runs), 1, runs, why, f"a {series.chipsets[0]} board, or a CPU that {board.chipset} runs"
    )


SOCKET: Final = MatchRule("socket", "CPU and board", ("cpu", "board"), judge_socket)


def judge_memory_kind(memory: Memory, board: Board, setting: Setting) -> Finding:
    """Kind of module: DDR generation, registered or not."""
    wanted = f"{board.ram_type} {'registered' if board.registered else 'unbuffered'}"
    given = f"{memory.kit.ram_type} {'registered' if memory.kit.registered else 'unbuffered'}"
    fits = wanted == given
    return Finding(
        float(fits), 1, fits, f"{board.name} takes {wanted}, the kit is {given}", f"{wanted} modules"
    )


MEMORY_KIND: Final = MatchRule("memory-kind", "memory and board", ("memory", "board"), judge_memory_kind)


def judge_memory_slots(memory: Memory, board: Board, setting: Setting) -> Finding:
    """Modules against slots."""
    num = memory.num_modules
    why = f"{num} modules for {board.ram_slots} slots"
    return Finding(num, board.ram_slots, num <= board.ram_slots, why, "fewer, larger modules")


MEMORY_SLOTS: Final = MatchRule(
    "memory-slots", "memory slots", ("memory", "board"), judge_memory_slots, "modules"
)


def judge_memory_size(memory: Memory, board: Board, cpu: Cpu, setting: Setting) -> Finding:
    """Capacity against what board and CPU address."""
    most = min(board.ram_max_bytes, cpu.max_ram_bytes)
    why = f"{memory.capacity_bytes / GIB:.0f} GB, at most {most / GIB:.0f} GB"
    return Finding(memory.capacity_bytes / GB, most / GB, memory.capacity_bytes <= most, why, "less memory")


MEMORY_SIZE: Final = MatchRule(
    "memory-size",
    "memory capacity",
    ("memory", "board", "cpu"),
    judge_memory_size,
    "GB",
    reads={
        "memory": lambda memory: memory.capacity_bytes,
        "board": lambda board: board.ram_max_bytes,
        "cpu": lambda cpu: cpu.max_ram_bytes,
    },
)


def judge_channels(memory: Memory, cpu: Cpu, setting: Setting) -> Finding:
    """Modules against the CPU's channels."""
    num, channels = memory.num_modules, cpu.series.channels
    why = f"{num} modules on {channels} channels"
    return Finding(
        num, channels, num >= channels, why, f"a kit of {channels} modules: bandwidth counts when a CPU helps"
    )


CHANNELS: Final = MatchRule(
    "memory-channels", "memory channels", ("memory", "cpu"), judge_channels, "modules", "advice"
)


def _ram_words(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    why = f"loading the model takes {actual:.0f} GB of system memory, there are {limit:.0f} GB"
    return why, "more system memory"


RAM_LOADING: Final = SumRule(
    "ram-loading",
    "memory that loading needs",
    needs={},
    gives={"memory": lambda memory, setting: memory.capacity_bytes},
    base_need=lambda setting: setting.ram_needed_bytes,
    words=_ram_words,
    unit="GB",
    show=lambda value: value / GB,
    required=("memory",),
)


def judge_ecc(memory: Memory, board: Board, cpu: Cpu, setting: Setting) -> Finding:
    """Error correction needs all three: modules, board, CPU."""
    lacking = [
        name
        for name, has in (
            ("modules", memory.kit.ecc),
            ("board", board.ecc or board.registered),
            ("CPU", cpu.ecc),
        )
        if not has
    ]
    why = (
        f"without error correction: {', '.join(lacking)}"
        if lacking
        else "modules, board and CPU correct errors"
    )
    return Finding(3 - len(lacking), 3, not lacking, why, "ECC modules on a board and CPU that use them")


ECC: Final = MatchRule(
    "ecc", "error correction", ("memory", "board", "cpu"), judge_ecc, "of 3", "advice", planned=False
)
ECC_REQUIRED: Final = MatchRule(
    "ecc",
    "error correction",
    ("memory", "board", "cpu"),
    judge_ecc,
    "of 3",
    reads={
        "memory": lambda memory: memory.kit.ecc,
        "board": lambda board: board.ecc or board.registered,
        "cpu": lambda cpu: cpu.ecc,
    },
)


def judge_board_fits(board: Board, case: Case, setting: Setting) -> Finding:
    """Form factor of the board against the case; boards of servers go where EATX goes."""
    kinds = {board.form_factor}
    if board.form_factor.startswith("SSI"):
        kinds.add("EATX")
    fits = bool(kinds & set(case.boards))
    why = f"{board.form_factor} board; {case.name} takes {', '.join(case.boards)}"
    return Finding(float(fits), 1, fits, why, "a case that takes it")


BOARD_FITS: Final = MatchRule("board-fits", "board and case", ("board", "case"), judge_board_fits)


def needed_positions(widths: tuple[int, ...], positions: tuple[int, ...]) -> int | None:
    """Case slots that plugged cards need so that none overlaps the next [slots]; None where they overlap.

    Widths and positions in the order of plugging; the least over all orders of the cards.
    """
    taken = sorted(positions[: len(widths)])
    if len(taken) < len(widths):
        return None
    gaps = [below - above for above, below in pairwise(taken)]
    # The widest card goes last, where nothing is below it, if the case allows; else wherever it fits.
    best: int | None = None
    for last in sorted(set(widths)):
        others = sorted(widths)
        others.remove(last)
        if all(width <= gap for width, gap in zip(sorted(others), sorted(gaps), strict=True)):
            need = taken[-1] + last - 1
            best = need if best is None else min(best, need)
    return best


def judge_slots(cards: Cards, board: Board, case: Case, setting: Setting) -> Finding:
    """Cards in the board's slots and the case's openings; in an open frame cards hang on risers side by side."""
    widths = slot_widths(cards)
    if case.open_frame:
        total = sum(widths)
        why = f"{total} slot widths on a frame for {case.expansion_slots}"
        return Finding(total, case.expansion_slots, total <= case.expansion_slots, why, "a longer frame")
    positions = _positions(board)
    ends = [needed_positions(widths, taken) for taken in layouts(board, cards.num)]
    need = min((end for end in ends if end is not None), default=None)
    if need is None:
        room = min((b - a for a, b in pairwise(sorted(positions))), default=0)
        if len(positions) < cards.num:
            why = f"{cards.num} cards; {len(positions)} slots of {board.name} are known to carry one"
            remedy = "a board with more slots, or fewer cards"
            return Finding(cards.num, len(positions), False, why, remedy, not board.slots_known)
        why = f"cards of {max(widths)} slots overlap on {board.name}"
        return Finding(max(widths), room, False, why, "narrower cards, or an open frame with risers")
    assumed = ", spacing assumed" if "layout_assumed" in board.flags and cards.num > 1 else ""
    why = f"the lowest card ends at slot {need} of {case.expansion_slots}{assumed}"
    return Finding(
        need,
        case.expansion_slots,
        need <= case.expansion_slots,
        why,
        "a case with more slots, or narrower cards",
    )


def _positions(board: Board) -> tuple[int, ...]:
    return tuple(slot.position for slot in board.slots)


def layouts(board: Board, num: int) -> list[tuple[int, ...]]:
    """Slot positions that a number of cards may take: any where all slots are wired alike, else the first ones in the
    order of plugging."""
    positions = _positions(board)
    if _are_alike(board):
        return list(combinations(sorted(positions[: board.max_cards]), num))
    return [positions[:num]] if num <= len(positions) else []


def _are_alike(board: Board) -> bool:
    """Whether the slots whose lanes are known have the same however many are taken."""
    return len(set().union(*board.lane_modes)) == 1


SLOTS: Final = MatchRule(
    "slots",
    "card width",
    ("cards", "board", "case"),
    judge_slots,
    "slots",
    reads={
        "cards": slot_widths,
        "board": lambda board: (_positions(board), board.slots_known, _are_alike(board)),
        "case": lambda case: (case.open_frame, case.expansion_slots),
    },
)


def judge_card_length(cards: Cards, case: Case, setting: Setting) -> Finding:
    """Longest card against the case."""
    longest, room = max(card.length_m for card in cards.cards) * KILO, case.max_gpu_m * KILO
    return Finding(
        longest,
        room,
        longest <= room,
        f"{longest:.0f} mm card, {room:.0f} mm of room",
        "a shorter card or a longer case",
    )


CARD_LENGTH: Final = MatchRule("card-length", "card length", ("cards", "case"), judge_card_length, "mm")


def judge_card_cooling(cards: Cards, case: Case, setting: Setting) -> Finding | None:
    """Passive cards need the wind of a server."""
    passive = sum(card.cooling == "passive" for card in cards.cards)
    if not passive:
        return None
    why = f"{passive} cards without fans need the air of a server chassis; {case.name} has none"
    return Finding(passive, 0, False, why, "cards with fans, or a server")


CARD_COOLING: Final = MatchRule(
    "card-cooling", "passive cards", ("cards", "case"), judge_card_cooling, "cards"
)


def judge_spacing(cards: Cards, board: Board, case: Case, setting: Setting) -> Finding | None:
    """Cards with open fans want a free slot below them; blowers do not."""
    widths = slot_widths(cards)
    open_cards = [w for card, w in zip(cards.cards, widths, strict=True) if card.cooling == "open"]
    if cards.num < 2 or case.open_frame or not open_cards:
        return None
    gaps = [
        min(below - above for above, below in pairwise(sorted(taken))) for taken in layouts(board, cards.num)
    ]
    if not gaps:
        return None
    free = max(gaps) - max(open_cards)
    why = f"{max(free, 0)} free slots between cards that blow into the case"
    return Finding(free, 1, free >= 1, why, "blower cards, wider spacing, or an open frame")


SPACING: Final = MatchRule(
    "card-spacing",
    "air between cards",
    ("cards", "board", "case"),
    judge_spacing,
    "slots",
    "advice",
    reads={
        "cards": lambda cards: (slot_widths(cards), tuple(card.cooling for card in cards.cards)),
        "board": lambda board: (_positions(board), _are_alike(board)),
        "case": lambda case: case.open_frame,
    },
)


def judge_risers(cards: Cards, case: Case, risers: Risers, setting: Setting) -> Finding | None:
    """An open frame needs a riser for each card."""
    if not case.open_frame:
        return None
    why = f"{cards.num} cards hang beside the board on {risers.num} risers"
    return Finding(risers.num, cards.num, risers.num >= cards.num, why, "one riser for each card")


RISERS: Final = MatchRule("risers", "risers", ("cards", "case", "risers"), judge_risers, "risers")


def judge_supply_fits(supplies: Supplies, case: Case, setting: Setting) -> Finding | None:
    """Length of the supply, where the case states one."""
    lengths = [psu.length_m for psu in supplies.psus if psu.length_m]
    if case.max_psu_m is None or not lengths:
        return None
    longest, room = max(lengths) * KILO, case.max_psu_m * KILO
    return Finding(
        longest,
        room,
        longest <= room,
        f"{longest:.0f} mm supply, {room:.0f} mm of room",
        "a shorter supply or another case",
    )


SUPPLY_FITS: Final = MatchRule("psu-fits", "supply and case", ("supplies", "case"), judge_supply_fits, "mm")


def judge_cooler_socket(cooler: Cooler, cpu: Cpu, setting: Setting) -> Finding:
    """Mounting of the cooler."""
    socket = cpu.series.socket
    fits = socket in cooler.sockets
    why = f"{cooler.name} mounts on {', '.join(cooler.sockets)}; the CPU is {socket}"
    return Finding(float(fits), 1, fits, why, f"a cooler for {socket}")


COOLER_SOCKET: Final = MatchRule("cooler-socket", "cooler and socket", ("cooler", "cpu"), judge_cooler_socket)


def judge_cooler_height(cooler: Cooler, case: Case, setting: Setting) -> Finding | None:
    """Height of an air cooler."""
    if cooler.height_m is None or case.max_cooler_m is None or case.open_frame:
        return None
    height, room = cooler.height_m * KILO, case.max_cooler_m * KILO
    return Finding(
        height,
        room,
        height <= room,
        f"{height:.0f} mm cooler, {room:.0f} mm of room",
        "a lower cooler or a wider case",
    )


COOLER_HEIGHT: Final = MatchRule(
    "cooler-height", "cooler and case", ("cooler", "case"), judge_cooler_height, "mm"
)


def _storage_words(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    return f"system and model files take {actual:.0f} GB, the drive holds {limit:.0f} GB", "a larger drive"


STORAGE: Final = SumRule(
    "storage",
    "room for model files",
    needs={},
    gives={"storage": lambda drive, setting: drive.capacity_bytes},
    base_need=lambda setting: setting.storage_needed_bytes,
    words=_storage_words,
    unit="GB",
    show=lambda value: value / GB,
    required=("storage",),
)


def judge_drive(storage: Storage, board: Board, setting: Setting) -> Finding:
    """An M.2 place for the drive."""
    return Finding(1, board.m2_slots, board.m2_slots >= 1, f"{board.m2_slots} M.2 places", "an adapter card")


DRIVE: Final = MatchRule("m2", "place for the drive", ("storage", "board"), judge_drive, "drives")

FIT_RULES: Final = (
    SOCKET, MEMORY_KIND, MEMORY_SLOTS, MEMORY_SIZE, CHANNELS, RAM_LOADING, BOARD_FITS, SLOTS, CARD_LENGTH,
    CARD_COOLING, SPACING, RISERS, SUPPLY_FITS, COOLER_SOCKET, COOLER_HEIGHT, STORAGE, DRIVE,
)  # fmt: skip
