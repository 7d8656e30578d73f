"""A machine as its parts, and the conditions under which it is judged."""

import math
from dataclasses import dataclass, field, fields
from typing import Final, Literal

from advisor.catalog.schema.part import (
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    GpuCard,
    Nic,
    Part,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
)
from advisor.catalog.units import GB

EFFICIENCY: Final = {"bronze": 0.85, "silver": 0.87, "gold": 0.90, "platinum": 0.92, "titanium": 0.94}
"""Of a supply at half to full load, 115 V (80 PLUS requirements)."""
OTHERS_W: Final = 60.0
"""Board, memory, drives and fans of a machine."""
PLUGS_UNKNOWN: Final = "plugs_unknown"
"""Flag of supplies whose plugs nobody counted."""
CPU_RUNNING_FRACTION: Final = 0.4
"""Part of its power limit that a CPU draws while GPUs run a model: a core or two for each. An estimate; supplies and
circuits are sized for all of it."""


@dataclass(frozen=True, slots=True)
class Cards:
    """The GPUs of a machine and the limit that the driver holds them to."""

    cards: tuple[GpuCard, ...]
    power_fraction: float = 1.0
    """Power limit over rated power."""

    @property
    def num(self) -> int:
        return len(self.cards)

    @property
    def power_w(self) -> float:
        """Sustained power of all cards under the limit."""
        return sum(card.power_w for card in self.cards) * self.power_fraction

    @property
    def accelerators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(card.accelerator for card in self.cards))


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
    """Cables between slots and cards; none where cards are plugged."""

    riser: Riser | None = None
    num: int = 0


@dataclass(frozen=True, slots=True)
class Assembly:
    """A machine; what is None is not known and not judged."""

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

    def bill(self) -> list[tuple[str, Part, int]]:
        """Category, part and number of everything to buy."""
        lines: list[tuple[str, Part, int]] = []
        for kind in fields(self):
            lines += _bill_of(kind.name, getattr(self, kind.name))
        return lines


def _bill_of(name: str, choice: object) -> list[tuple[str, Part, int]]:
    match choice:
        case Cards(cards=cards):
            return _counted("gpu", cards)
        case Memory(kit=kit, num_kits=num):
            return [("ram", kit, num)]
        case Supplies(psus=psus, link=link):
            return [*_counted("psu", psus), *([("link", link, 1)] if link else [])]
        case Risers(riser=riser, num=num):
            return [("riser", riser, num)] if riser is not None and num else []
        case tuple():
            return _counted(name.removesuffix("s"), choice)
        case Part():
            return [(name, choice, 1)]
    return []


def _counted(category: str, parts: tuple[Part, ...]) -> list[tuple[str, Part, int]]:
    return [(category, part, parts.count(part)) for part in dict.fromkeys(parts)]


@dataclass(frozen=True, slots=True)
class Circuit:
    """The wall circuit that the machine hangs on."""

    volts: float
    amps: float
    continuous_fraction: float = 0.8
    """Part of its rating that a load of hours may take (NEC 210.20, and the usual practice elsewhere)."""

    @property
    def continuous_w(self) -> float:
        return self.volts * self.amps * self.continuous_fraction

    def __str__(self) -> str:
        return f"{self.volts:g}V/{self.amps:g}A"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a machine must stand up to."""

    circuit: Circuit = field(default_factory=lambda: Circuit(120.0, 15.0))
    ram_needed_bytes: float = 16 * GB
    """System memory that loading the model needs."""
    storage_needed_bytes: float = 500 * GB
    min_lanes: int = 8
    """Electrical PCIe lanes that each card needs."""
    needs_ecc: bool = False
    room_cooling_w: float = 1500.0
    """Heat that the room loses without getting hot: a small window unit or an open door."""
    max_noise_db: float = 50.0
    """At one metre, A-weighted; a loud office."""


Severity = Literal["hard", "advice"]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule applied to one machine."""

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
    """It does not pass, because what it reads is in no record."""

    @property
    def verdict(self) -> str:
        """ok, broken, advice or unknown."""
        if self.passed:
            return "ok"
        return "unknown" if self.is_unknown else "broken" if self.severity == "hard" else "advice"

    @property
    def excess(self) -> float:
        """By how much it is over, or short of, its limit; 0 where it passes."""
        if self.passed or self.is_unknown:
            return 0.0
        return abs(self.actual - self.limit)


def running_power_w(cards: Cards | None, cpu: Cpu | None) -> float:
    """Power behind the supply while the cards run a model [W]: cards at their limit, the CPU at its share, the rest."""
    cpu_w = cpu.power_w * CPU_RUNNING_FRACTION if cpu else 0.0
    return OTHERS_W + (cards.power_w if cards else 0.0) + cpu_w


def slot_widths(cards: Cards) -> tuple[int, ...]:
    """Whole slots that each card covers."""
    return tuple(math.ceil(card.slots - 1e-9) for card in cards.cards)
