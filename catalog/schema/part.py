"""Parts of a workstation: cards, CPUs, boards, memory, supplies, cases; SI units."""

import datetime
import re
from typing import Final, Literal

from pydantic import Field

from advisor.catalog.schema.record import Record, Source
from advisor.catalog.units import GB, GIB, KILO

PriceBasis = Literal["quote", "estimate", "user"]
"""quote: a stated price of a day; estimate: a class median, a list price or a price scaled from a quote;
user: from the user's own file or list."""
Cooling = Literal["open", "blower", "passive", "liquid"]


class Part(Record):
    """What every part has: which it is, and of which price class."""

    id: str = ""
    """What a price may be given for beside its name; empty where the planner does not choose it."""
    name: str
    manufacturer: str = ""
    flags: tuple[str, ...] = ()
    """Doubts about its figures: unverified (nobody checked the entry by hand), layout_assumed, ..."""
    source: str = "OpenDB"

    @property
    def price_classes(self) -> tuple[str, ...]:
        """Classes whose price stands for it, the closest first."""
        raise NotImplementedError

    @property
    def too_wide(self) -> str:
        """The class among them whose estimate does not hold for it, as its middle is another thing; only the user's own
        price of that class does."""
        return ""


class GpuCard(Part):
    """One model of a card with an accelerator of the catalog."""

    accelerator: str
    power_w: float = Field(gt=0, le=1200)
    length_m: float = Field(gt=0.1, lt=0.5)
    slots: float = Field(ge=1, le=5)
    """Width in slots of 20.32 mm."""
    cooling: Cooling
    num_16_pin: int = Field(default=0, ge=0, le=2)
    """12VHPWR or 12V-2x6."""
    num_8_pin: int = Field(default=0, ge=0, le=4)
    num_6_pin: int = Field(default=0, ge=0, le=4)

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"gpu/{self.accelerator}",)


class CpuSeries(Record):
    """What CPUs of one series share: lanes, memory."""

    id: str
    name: str
    socket: str
    chipsets: tuple[str, ...]
    """Chipsets whose boards run it."""
    slot_lanes: int = Field(ge=0, le=256)
    """Lanes of the CPU that boards can lead to expansion slots, beside those of the chipset and of M.2."""
    pcie_generation: int = Field(ge=3, le=6)
    channels: int = Field(ge=1, le=12)
    ram_types: tuple[str, ...]
    registered: bool
    """Whether it takes registered modules, and only those."""
    source: str = ""


class Cpu(Part):
    series: CpuSeries
    cores: int = Field(ge=1, le=256)
    power_w: float = Field(gt=0, le=600)
    """Largest sustained: package power limit where known, else the rated power."""
    ecc: bool
    max_ram_bytes: float = Field(gt=0)
    price_class: str = ""

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (self.price_class,) if self.price_class else ()


class Slot(Record):
    """An expansion slot that takes an x16 card."""

    position: int = Field(ge=1, le=12)
    """Counted in slot widths from the first position of an ATX case."""
    pcie_generation: int = Field(ge=2, le=6)


_FLAGSHIP: Final = re.compile(
    r"\b(xtreme|godlike|extreme|hero|apex|formula|aqua|ai top|crosshair|maximus|rampage|zenith)\b",
    re.IGNORECASE,
)
_UPPER: Final = re.compile(
    r"\b(proart|creator|taichi|master|carbon|ace|aero|unify|vision|designare|ws|strix [a-z0-9]+-[eaf]|10g)\b",
    re.IGNORECASE,
)


def board_tier(name: str) -> str:
    """What a maker's line of boards asks for, told by its name: flagship, upper, ordinary.

    Source: own grouping; medians of the groups differ by a factor of two to three in price_estimates.csv.
    """
    if _FLAGSHIP.search(name):
        return "flagship"
    return "upper" if _UPPER.search(name) else "ordinary"


class Board(Part):
    socket: str
    chipset: str
    form_factor: str
    ram_type: str
    registered: bool
    ram_max_bytes: float = Field(gt=0)
    ram_slots: int = Field(ge=1, le=24)
    slots: tuple[Slot, ...]
    """In the order in which cards are plugged."""
    lane_modes: tuple[tuple[int, ...], ...]
    """Lanes of each occupied slot with one card, with two, ...; as far as a source says."""
    slots_known: bool = False
    """Whether a source describes every slot: there are no more than these."""
    num_eps: int = Field(default=1, ge=0, le=4)
    """8-pin CPU power plugs that it wants."""
    m2_slots: int = Field(default=0, ge=0)
    ecc: bool = False

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"board/{self.id}", f"board/{self.chipset}/{board_tier(self.name)}", f"board/{self.chipset}")

    @property
    def too_wide(self) -> str:
        return f"board/{self.chipset}" if board_tier(self.name) == "flagship" else ""

    @property
    def max_cards(self) -> int:
        """Cards whose lanes are known."""
        return len(self.lane_modes)


class RamKit(Part):
    ram_type: str
    registered: bool
    ecc: bool
    modules: int = Field(ge=1, le=16)
    module_bytes: float = Field(gt=0)
    speed_mts: float = Field(gt=0)

    @property
    def capacity_bytes(self) -> float:
        return self.modules * self.module_bytes

    @property
    def price_classes(self) -> tuple[str, ...]:
        label = f"{self.ram_type.lower()}-{'rdimm' if self.registered or self.ecc else 'udimm'}"
        return (f"ram/{label}/{round(self.capacity_bytes / GIB)}GB",)


class Psu(Part):
    power_w: float = Field(gt=0, le=4000)
    grade: Literal["bronze", "silver", "gold", "platinum", "titanium"]
    length_m: float | None = None
    num_eps: int = Field(ge=0, le=6)
    num_16_pin: int = Field(default=0, ge=0, le=6)
    num_8_pin: int = Field(default=0, ge=0, le=24)

    @property
    def is_atx3(self) -> bool:
        """Whether it is built for the excursions of ATX 3: told by a 16-pin plug of its own."""
        return self.num_16_pin > 0

    @property
    def price_classes(self) -> tuple[str, ...]:
        step = f"psu/{int(self.power_w // 100) * 100}W"
        return (f"{step}/{self.grade}", step)


class Case(Part):
    form_factor: str
    boards: tuple[str, ...]
    max_gpu_m: float = Field(gt=0)
    max_cooler_m: float | None = None
    max_psu_m: float | None = None
    expansion_slots: int = Field(ge=0, le=40)
    num_psus: int = Field(default=1, ge=1, le=4)
    open_frame: bool = False
    """Cards hang on risers beside the board."""

    @property
    def price_classes(self) -> tuple[str, ...]:
        tower = self.form_factor.replace("Micro ATX", "MicroATX").replace("EATX", "ATX")
        return (f"case/{self.id}", f"case/{tower}")


class Cooler(Part):
    sockets: tuple[str, ...]
    height_m: float | None = None
    """Of an air cooler."""
    radiator_m: float | None = None
    """Of a water cooler."""
    price_class: str = ""

    @property
    def price_classes(self) -> tuple[str, ...]:
        if self.price_class:
            return (self.price_class,)
        kind = "air" if self.radiator_m is None else f"liquid-{round(self.radiator_m * KILO)}"
        return (f"cooler/{kind}",)


class Storage(Part):
    capacity_bytes: float = Field(gt=0)
    pcie_generation: int

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"storage/nvme{self.pcie_generation}/{round(self.capacity_bytes / GB)}GB",)


class Riser(Part):
    """A cable from a slot to a card."""

    pcie_generation: int
    length_m: float = Field(gt=0)

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"riser/gen{self.pcie_generation}",)


class Bridge(Part):
    """An NVLink bridge between two cards."""

    accelerators: tuple[str, ...]
    spacing_slots: int

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"bridge/{self.id}",)


class PsuLink(Part):
    """A lead that starts a second supply with the first."""

    @property
    def price_classes(self) -> tuple[str, ...]:
        return ("link/dual-psu",)


class Nic(Part):
    bits_per_s: float = Field(gt=0)
    pcie_lanes: int = Field(ge=1)

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"nic/{self.id}",)


class System(Part):
    """A complete machine."""

    accelerator: str
    num_accelerators: int = Field(ge=1)
    memory_bytes: float = Field(gt=0)
    """What the GPU may use of one accelerator's memory."""
    ram_bytes: float = 0.0
    power_w: float = Field(gt=0)
    """At the wall under load."""
    noise_db: float | None = None
    ecc: bool = False
    note: str = ""

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"system/{self.id}",)


class PowerFloor(Record):
    """The lowest power limit that the driver of a card accepts."""

    accelerator: str
    fraction: float = Field(gt=0, le=1)
    """Over rated power."""
    basis: Literal["quote", "estimate"]
    observed_on: datetime.date
    source: str


class PartPrice(Record):
    """What a class of parts, or one part, cost on a day."""

    key: str
    """A price class, or the name of a part."""
    usd: float = Field(gt=0, lt=1e6)
    usd_low: float | None = Field(default=None, gt=0)
    usd_high: float | None = Field(default=None, gt=0)
    basis: PriceBasis
    condition: Literal["new", "used"] = "new"
    num_listings: int = 0
    """Listings behind a median; 0 where one source states a price or a range (then usd is its middle)."""
    observed_on: datetime.date
    is_dated: bool = True
    """False: the source bears no date, and observed_on is the earliest that it can have."""
    source: Source
