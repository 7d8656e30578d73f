"""Machine as a set of parts, and the conditions under which rules judge it."""

import math
from dataclasses import dataclass, field, fields
from typing import Final, Literal

from advisor.catalog.accelerators import by_id
from advisor.catalog.schema.part import (
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    CpuSeries,
    DisplayCard,
    GpuCard,
    Nic,
    Part,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
)
from advisor.catalog.units import GB, MEGA

BUS_BYTES: Final = 8
"""Width of one memory channel [bytes]."""
EFFICIENCY: Final = {"bronze": 0.85, "silver": 0.87, "gold": 0.90, "platinum": 0.92, "titanium": 0.94}
"""Efficiency of a supply at half to full load, 115 V, by grade (80 PLUS requirements)."""
OTHERS_W: Final = 60.0
"""Power of board, memory, drives and fans of a machine [W]."""
SMALL_OTHERS_W: Final = 25.0
"""Power of the same in an office machine that takes half-height cards only [W]: two modules, one drive, one fan. Own
estimate."""
LEAST_FULL_HEIGHT_M: Final = 0.2
"""Room for cards below which a case takes half-height cards only [m], which are up to 168 mm long (PCIe card
electromechanical specification)."""
HOT_PLUG: Final = "hot_plug"
"""Flag of a supply that plugs into a board of its server and has no leads."""
SERVER: Final = "server"
"""Flag of a board that is sold as a whole machine, with its case, coolers and supplies."""
TOWER: Final = "tower"
"""Flag of a machine sold whole as a workstation: its fans are quiet ones and do not cool cards without fans."""
TOWER_SERVER: Final = "tower_server"
"""Flag of a server in a tower: it has the fans and supplies of a rack server, and no risers."""
TYPICAL: Final = "typical"
"""Flag of a part that a line names by its class alone (`1200W gold`, `B550 board`): its figures are those of a usual
one."""
CPU_RUNNING_FRACTION: Final = 0.4
"""Power of a CPU while GPUs run a model, as a fraction of its limit: one or two cores are busy per GPU. Own estimate;
supplies and circuits are sized for the whole limit."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards of a machine, and the power limit that the driver sets."""

    cards: tuple[GpuCard, ...]
    power_fraction: float = 1.0
    """Power limit over rated power."""

    @property
    def num(self) -> int:
        return len(self.cards)

    @property
    def power_w(self) -> float:
        """Sustained power of all cards under the limit [W]."""
        return sum(card.power_w for card in self.cards) * self.power_fraction

    @property
    def accelerators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(card.accelerator for card in self.cards))

    @property
    def memory_bytes(self) -> float:
        """Memory of all cards together [bytes]."""
        return sum(by_id(card.accelerator).memory_bytes or 0.0 for card in self.cards)


@dataclass(frozen=True, slots=True)
class Memory:
    """System memory: one kit, or several equal ones."""

    kit: RamKit
    num_kits: int = 1

    @property
    def capacity_bytes(self) -> float:
        return self.kit.capacity_bytes * self.num_kits

    @property
    def num_modules(self) -> int:
        return self.kit.modules * self.num_kits


@dataclass(frozen=True, slots=True)
class Supplies:
    """Power supplies, and the lead that starts the second with the first."""

    psus: tuple[Psu, ...]
    link: PsuLink | None = None

    @property
    def power_w(self) -> float:
        return sum(psu.power_w for psu in self.psus)

    @property
    def efficiency(self) -> float:
        return min(EFFICIENCY[psu.grade] for psu in self.psus)


@dataclass(frozen=True, slots=True)
class Risers:
    """Cables between slots and cards; none if cards are plugged into the board."""

    riser: Riser | None = None
    num: int = 0


@dataclass(frozen=True, slots=True)
class Assembly:
    """Machine as parts; a part that is None is unknown and is not judged."""

    cards: Cards | None = None
    cpu: Cpu | None = None
    board: Board | None = None
    memory: Memory | None = None
    supplies: Supplies | None = None
    case: Case | None = None
    cooler: Cooler | None = None
    storage: Storage | None = None
    risers: Risers = field(default_factory=Risers)
    bridges: tuple[Bridge, ...] = ()
    nics: tuple[Nic, ...] = ()
    displays: tuple[DisplayCard, ...] = ()
    """Cards for a screen beside those that run models."""

    def bill(self) -> list[tuple[str, Part, int]]:
        """Return category, part and number of everything to buy."""
        lines: list[tuple[str, Part, int]] = []
        for kind in fields(self):
            lines += _bill_of(kind.name, getattr(self, kind.name))
        return lines


def _bill_of(name: str, choice: object) -> list[tuple[str, Part, int]]:
    match choice:
        case Cards(cards=cards):
            return _count_parts("gpu", cards)
        case Memory(kit=kit, num_kits=num):
            return [("ram", kit, num)]
        case Supplies(psus=psus, link=link):
            return [*_count_parts("psu", psus), *([("link", link, 1)] if link else [])]
        case Risers(riser=riser, num=num):
            return [("riser", riser, num)] if riser is not None and num else []
        case tuple():
            return _count_parts(name.removesuffix("s"), choice)
        case Part():
            return [(name, choice, 1)]
    return []


def _count_parts(category: str, parts: tuple[Part, ...]) -> list[tuple[str, Part, int]]:
    return [(category, part, parts.count(part)) for part in dict.fromkeys(parts)]


HIGH_VOLTS: Final = 200.0
"""Voltage from which a wall is one of 220 to 240 V, or of two phases of 100 or 120 V [V]."""


@dataclass(frozen=True, slots=True)
class Circuit:
    """Wall circuit that powers the machine."""

    volts: float
    amps: float
    continuous_fraction: float = 0.8
    """Fraction of the rating that a load may draw for hours (NEC 210.20, and the usual practice elsewhere)."""
    is_assumed: bool = False
    """Whether neither the question nor the list says where the machine stands."""

    @property
    def continuous_w(self) -> float:
        return self.volts * self.amps * self.continuous_fraction

    def __str__(self) -> str:
        return f"{self.volts:g}V/{self.amps:g}A"


@dataclass(frozen=True, slots=True)
class Setting:
    """Conditions that a machine must meet."""

    circuit: Circuit = field(default_factory=lambda: Circuit(120.0, 15.0, is_assumed=True))
    ram_needed_bytes: float = 16 * GB
    """System memory that loading the model needs [bytes]."""
    storage_needed_bytes: float = 500 * GB
    min_lanes: int = 4
    """Electrical PCIe lanes that each card needs."""
    needs_ecc: bool = False
    room_cooling_w: float = 1500.0
    """Heat that the room removes without getting hot [W]: a small window unit or an open door."""
    max_noise_db: float = 55.0
    """Noise limit at one metre, A-weighted [dB]: four of the strongest cards reach it, and people
    in the same room do not bear more."""
    needs_quiet: bool = False
    """Whether the limit was stated: a machine whose noise no source states is then unknown, and not planned."""


Severity = Literal["hard", "advice"]


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one rule on one machine."""

    rule: str
    title: str
    actual: float
    limit: float
    unit: str
    passed: bool
    severity: Severity
    why: str
    remedy: str = ""
    is_unknown: bool = False
    """Whether the check fails only because a figure that it reads is in no record."""

    @property
    def verdict(self) -> str:
        """Verdict of the check: ok, broken, advice or unknown."""
        if self.passed:
            return "ok"
        return "unknown" if self.is_unknown else "broken" if self.severity == "hard" else "advice"

    @property
    def excess(self) -> float:
        """Amount by which the figure exceeds its limit or falls short of it; 0 if the check passes."""
        if self.passed or self.is_unknown:
            return 0.0
        return abs(self.actual - self.limit)


def running_power_w(cards: Cards | None, cpu: Cpu | None) -> float:
    """Power behind the supply while the cards run a model [W]: cards at their limit, the CPU at its share, the rest."""
    cpu_w = cpu.power_w * CPU_RUNNING_FRACTION if cpu else 0.0
    return OTHERS_W + (cards.power_w if cards else 0.0) + cpu_w


def takes_half_height(case: Case) -> bool:
    """Whether a case takes cards of half height only."""
    return case.max_gpu_m < LEAST_FULL_HEIGHT_M and not case.open_frame


def others_w(case: Case | None) -> float:
    """Power of board, memory, drives and fans of a machine in a case [W]."""
    return SMALL_OTHERS_W if case is not None and case.sold_with and takes_half_height(case) else OTHERS_W


def is_server(board: Board) -> bool:
    """Whether a board is that of a server sold whole, whose hot-plug supplies have no leads."""
    return SERVER in board.flags and TOWER not in board.flags


def is_rack_server(board: Board) -> bool:
    """Whether a board is that of a server for a rack, whose cards stand on risers."""
    return is_server(board) and TOWER_SERVER not in board.flags


def slot_widths(cards: Cards) -> tuple[int, ...]:
    """Return the number of whole slots that each card covers."""
    return tuple(math.ceil(card.slots - 1e-9) for card in cards.cards)


def host_bytes_per_s(memory: Memory, series: CpuSeries) -> float:
    """Peak bandwidth of the main memory [bytes/s]: channels with a module, eight bytes per transfer each, at the rate
    that the CPUs of the series reach with as many modules.

    Source: definition; CpuSeries.ram_mts.
    """
    channels = min(series.channels, memory.num_modules)
    rate_mts = series.ram_rate_mts(memory.kit.ram_type, memory.kit.speed_mts, memory.num_modules)
    return channels * BUS_BYTES * rate_mts * MEGA
