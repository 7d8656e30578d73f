"""Parts of a workstation: cards, CPUs, boards, memory, supplies, cases; SI units."""

import datetime
import re
from typing import Final, Literal

from pydantic import Field

from advisor.catalog.schema.record import Record, Source
from advisor.catalog.units import GB, GIB, KILO

PriceBasis = Literal["quote", "estimate", "user"]
"""quote: a price that a source stated on a day; estimate: a class median, a list price or a price scaled from a quote;
user: from the user's own file or list."""
Cooling = Literal["open", "blower", "passive", "liquid"]
LANES_USUAL: Final = "lanes_usual"
"""Flag of a board whose slots no source describes: its lanes are those that boards of its line usually have."""
FIGURES_ASSUMED: Final = "figures_assumed"
"""Flag of a board or a CPU that no record holds: its figures are those of its chipset or of its series."""
PLUGS_UNKNOWN: Final = "plugs_unknown"
"""Flag of supplies whose plugs no source counts."""
PLUGS_OF_LINE: Final = "plugs_of_line"
"""Flag of supplies whose plugs are those of their product line, of which older editions may be meant."""
PLUG_UNKNOWN_OF_DRIVE: Final = "sata_or_m2"
"""Flag of a drive that a list names without its plug: it may be one for SATA, which needs no M.2 place."""
GRADE_UNKNOWN: Final = "grade_unknown"
"""Flag of supplies whose grade no source states: their records have the lowest."""


class Part(Record):
    """Fields that every part has: its identity and its price classes."""

    id: str = ""
    """Id under which a price may be given, as an alternative to the name; empty if the planner does not choose the
    part."""
    name: str
    manufacturer: str = ""
    flags: tuple[str, ...] = ()
    """Doubts about the figures: unverified (the entry was not checked by hand), layout_assumed, ..."""
    source: str = "OpenDB"
    sold_with: str = ""
    """Name of the whole machine in whose price the part is; empty if it is sold alone."""

    @property
    def price_classes(self) -> tuple[str, ...]:
        """Classes whose price stands for the part, the closest first."""
        raise NotImplementedError

    @property
    def too_wide(self) -> str:
        """Price class whose estimate does not hold for the part, because the class median describes a different tier;
        only the user's own price of that class applies. Empty if there is none."""
        return ""


class GpuCard(Part):
    """One model of a graphics card with an accelerator of the catalog."""

    accelerator: str
    power_w: float = Field(gt=0, le=1200)
    length_m: float = Field(gt=0.1, lt=0.5)
    slots: float = Field(ge=1, le=5)
    """Width in slots of 20.32 mm."""
    cooling: Cooling
    num_16_pin: int = Field(default=0, ge=0, le=2)
    """Number of 12VHPWR or 12V-2x6 plugs."""
    num_8_pin: int = Field(default=0, ge=0, le=4)
    num_6_pin: int = Field(default=0, ge=0, le=4)
    has_eps_lead: bool = False
    """Whether the card has an 8-pin plug of CPUs (EPS), which two 8-pin PCIe plugs feed over an adapter."""
    has_no_output: bool = False
    """Whether the card is known to have no connector for a screen."""
    is_low_profile: bool = False
    """Whether the card has half the height of others, and goes into machines that take no higher ones."""

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"gpu/{self.accelerator}",)


class DisplayCard(Part):
    """Graphics card that shows a picture, and has too little memory to run a model of use."""

    words: str
    """Words of a line that name the card."""
    power_w: float = Field(gt=0, le=250)
    slots: int = Field(ge=1, le=2)
    length_m: float = Field(gt=0.1, lt=0.4)
    is_low_profile: bool = False

    @property
    def name_words(self) -> tuple[str, ...]:
        """Words by which a line names the card, one by one."""
        return tuple(self.words.split())

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"display/{self.id}",)


class CpuSeries(Record):
    """Lanes and memory that CPUs of one series share."""

    id: str
    name: str
    socket: str
    chipsets: tuple[str, ...]
    """Chipsets whose boards run the CPUs."""
    ecc_chipsets: tuple[str, ...] = ()
    """Chipsets with which boards of the socket correct errors of memory; empty if the chipset does not decide it."""
    slot_lanes: int = Field(ge=0, le=256)
    """Number of CPU lanes that boards can lead to expansion slots; lanes of the chipset and of M.2 are not included."""
    older_slot_lanes: int = Field(default=0, ge=0, le=64)
    """Number of CPU lanes of the generation before that boards can lead to slots too."""
    pcie_generation: int = Field(ge=2, le=6)
    channels: int = Field(ge=1, le=12)
    ram_types: tuple[str, ...]
    registered: bool
    """Whether the CPUs take registered modules, and only those unless `unbuffered_too` says otherwise."""
    unbuffered_too: bool = False
    """Whether the CPUs of registered modules take unbuffered ones as well, with error correction or without it."""
    num_cpus: int = Field(default=1, ge=1, le=2)
    """Number of CPUs whose channels and lanes these are."""
    ram_mts: dict[str, float] = Field(default_factory=dict)
    """Highest transfer rate that kits usually reach with one module a channel, by kind of module [MT/s]; a kind without
    an entry runs at the rate of its kit."""
    ram_full_mts: dict[str, float] = Field(default_factory=dict)
    """Highest transfer rate with two modules a channel, by kind of module [MT/s]."""
    resizable_bar: bool = True
    """Whether boards for these CPUs map the whole memory of a card."""
    without_graphics: tuple[str, ...] = Field(default=(), exclude=True, repr=False)
    """Patterns of the names of the series' CPUs that have no graphics unit; none where their boards may have one."""
    with_cooler: tuple[str, ...] = Field(default=(), exclude=True, repr=False)
    """Patterns of the names of the series' CPUs whose retail box holds a cooler."""
    source: str = ""
    numbers: tuple[str, ...] = Field(default=(), exclude=True, repr=False)
    """Patterns of the model numbers of the series, by which a CPU that no record holds is known."""

    @property
    def all_slot_lanes(self) -> int:
        """Number of CPU lanes for slots, of whatever generation."""
        return self.slot_lanes + self.older_slot_lanes

    def ram_rate_mts(self, ram_type: str, rated_mts: float, num_modules: int) -> float:
        """Transfer rate at which modules of a rating run [MT/s]."""
        limits = self.ram_full_mts if num_modules > self.channels else self.ram_mts
        return min(rated_mts, limits.get(ram_type, rated_mts))


class Cpu(Part):
    series: CpuSeries
    cores: int = Field(ge=1, le=256)
    power_w: float = Field(gt=0, le=600)
    """Largest sustained power [W]: package power limit where known, else the rated power."""
    ecc: bool
    max_ram_bytes: float = Field(gt=0)
    price_class: str = ""

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (self.price_class,) if self.price_class else ()

    @property
    def lacks_graphics(self) -> bool:
        """Whether the CPU is known to have no graphics unit."""
        return self._is_named_by(self.series.without_graphics)

    @property
    def has_boxed_cooler(self) -> bool:
        """Whether the retail box of the CPU holds a cooler; a tray version comes without one."""
        return self._is_named_by(self.series.with_cooler)

    def _is_named_by(self, patterns: tuple[str, ...]) -> bool:
        return any(re.search(pattern, self.name, re.IGNORECASE) for pattern in patterns)


class Slot(Record):
    """Expansion slot that takes an x16 card."""

    position: int = Field(ge=1, le=24)
    """Position in slot widths from the first position of an ATX case."""
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
    """Return the tier of a board by its product line's name: flagship, upper or ordinary.

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
    ram_slots: int = Field(ge=1, le=32)
    slots: tuple[Slot, ...]
    """Slots in the order in which cards are plugged."""
    lane_modes: tuple[tuple[int, ...], ...]
    """Lanes of each occupied slot with one card, with two, ..., up to the number of cards that a source describes."""
    slots_known: bool = False
    """Whether a source describes every slot, so that there are no others."""
    num_long_slots: int = Field(default=1, ge=0, le=24)
    """Number of slots with four lanes or more in the record, whether a source describes their wiring or not."""
    num_eps: int = Field(default=1, ge=0, le=4)
    """Number of 8-pin CPU power plugs that the board needs."""
    num_24_pin: int = Field(default=1, ge=1, le=4)
    """Number of inputs for the main lead of a supply: with several, each supply starts with the board."""
    m2_slots: int = Field(default=0, ge=0)
    ecc: bool = False
    sockets: int = Field(default=1, ge=1, le=2)
    """Number of CPUs that the board takes."""
    has_switch: bool = False
    """Whether slots share lanes of the CPU through a PCIe switch, so that they may have more than the CPU."""

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"board/{self.id}", f"board/{self.chipset}/{board_tier(self.name)}", f"board/{self.chipset}")

    @property
    def too_wide(self) -> str:
        return f"board/{self.chipset}" if board_tier(self.name) == "flagship" else ""

    @property
    def max_cards(self) -> int:
        """Number of cards whose lanes are known."""
        return len(self.lane_modes)


class RamKit(Part):
    ram_type: str
    registered: bool
    ecc: bool
    modules: int = Field(ge=1, le=48)
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
    num_6_pin: int = Field(default=0, ge=0, le=8)
    """Number of 6-pin plugs beside the 8-pin ones."""
    has_six_pin_leads: bool = False
    """Whether the counted 8-pin plugs are 6-pin ones of a workstation's own supply, each with an adapter."""

    @property
    def is_atx3(self) -> bool:
        """Whether the supply is built for the excursions of ATX 3, judged by a 16-pin plug of its own."""
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
    radiator_clear_m: float | None = None
    """Length of the largest radiator that stands clear of the cards, in the roof or a side [m]; 0 if none does, None if
    no source states it."""
    radiator_front_m: float | None = None
    """Length of the largest radiator in the front, where it takes room from the cards [m]; None if no source states
    it."""
    open_frame: bool = False
    """Whether the case is an open frame in which cards hang on risers next to the board."""

    @property
    def price_classes(self) -> tuple[str, ...]:
        tower = self.form_factor.replace("Micro ATX", "MicroATX").replace("EATX", "ATX")
        return (f"case/{self.id}", f"case/{tower}")


_COSTLY_COOLER: Final = re.compile(r"prosiphon|fanless|thermosiphon", re.IGNORECASE)
"""Product lines of air coolers that cost several times the median of their class."""


class Cooler(Part):
    sockets: tuple[str, ...]
    height_m: float | None = None
    """Height of an air cooler [m]; None otherwise."""
    radiator_m: float | None = None
    """Radiator length of a water cooler [m]; None otherwise."""
    rated_w: float | None = Field(default=None, gt=0)
    """Power of a CPU up to which the maker rates the cooler [W]; None if no source states it."""
    price_class: str = ""

    @property
    def too_wide(self) -> str:
        return "cooler/air" if _COSTLY_COOLER.search(self.name) else ""

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
    """Link from a slot to a card beside the board: a cable, an external dock, or a switch board for several cards."""

    pcie_generation: int
    length_m: float = Field(gt=0)
    lanes: int = Field(default=16, ge=1, le=16)
    """Number of lanes that the cable carries."""
    ports: int = Field(default=0, ge=0, le=16)
    """Number of cards that a switch board takes on one slot, whose lanes they share; 0 for anything else."""

    @property
    def price_classes(self) -> tuple[str, ...]:
        if self.ports:
            return (f"riser/switch-gen{self.pcie_generation}",)
        return (f"riser/gen{self.pcie_generation}" + (f"x{self.lanes}" if self.lanes < 16 else ""),)


class Bridge(Part):
    """NVLink bridge between two cards, or board with NVLink that carries several modules."""

    accelerators: tuple[str, ...]
    spacings_slots: tuple[int, ...]
    """Distances of the slots of its two cards for which it is made."""
    num_for_two: int = 1
    """Number of bridges that join two cards at full speed."""
    joins: int = 2
    """Number of cards that one bridge, or one set for two cards, joins."""

    @property
    def is_board(self) -> bool:
        """Whether it is a board that carries several modules, and no bridge between two cards."""
        return self.joins > 2

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"bridge/{self.id}",)


class PsuLink(Part):
    """Lead that starts a second supply with the first."""

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
    """Complete machine."""

    aliases: tuple[str, ...] = ()
    """Other names that people write, such as the box that a maker sells under its own name."""
    accelerator: str
    num_accelerators: int = Field(ge=1)
    memory_bytes: float = Field(gt=0)
    """Part of one accelerator's memory that the GPU may use [bytes]."""
    ram_bytes: float = 0.0
    other_memory_gb: tuple[int, ...] = ()
    """Other sizes of memory with which the maker sells the machine [GB]."""
    power_w: float = Field(gt=0)
    """Power at the wall under load [W]."""
    noise_db: float | None = None
    ecc: bool = False
    note: str = ""

    @property
    def price_classes(self) -> tuple[str, ...]:
        return (f"system/{self.id}",)


class UsedMachine(Record):
    """Machine that is sold second-hand as a whole, without cards and drives."""

    id: str
    name: str
    cpu: Cpu
    board: Board
    memory: RamKit
    psu: Psu
    case: Case
    cooler: Cooler

    @property
    def price_key(self) -> str:
        return f"host/{self.id}"


class PowerFloor(Record):
    """Lowest power limit that the driver of a card accepts."""

    accelerator: str
    fraction: float = Field(gt=0, le=1)
    """Lowest limit over rated power."""
    basis: Literal["quote", "estimate"]
    observed_on: datetime.date
    source: str


class CardRoom(Record):
    """Width and power of a card that a rack server takes on its risers."""

    machine: str
    slots: int = Field(gt=0)
    """Width of one card [slots]."""
    watts: float = Field(gt=0)
    """Power of one card over the maker's cable [W]."""
    basis: Literal["quote", "estimate"]
    observed_on: datetime.date
    source: str


class SupplyAdvice(Record):
    """Supply that the maker of a card advises for a machine with one of it."""

    accelerator: str
    watts: float = Field(gt=0)
    """Rated power of the supply [W]."""
    observed_on: datetime.date
    source: str


class PartPrice(Record):
    """Price of a class of parts, or of one part, on a day."""

    key: str
    """Price class, or the name of a part."""
    usd: float = Field(gt=0, lt=1e6)
    usd_low: float | None = Field(default=None, gt=0)
    usd_high: float | None = Field(default=None, gt=0)
    basis: PriceBasis
    condition: Literal["new", "used"] = "new"
    num_listings: int = 0
    """Number of listings behind a median; 0 if one source states a price or a range (then usd is its middle)."""
    observed_on: datetime.date
    is_dated: bool = True
    """False if the source bears no date; observed_on is then the earliest possible day."""
    source: Source
