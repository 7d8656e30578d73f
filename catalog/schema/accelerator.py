"""Accelerator as it is sold: one GPU, TPU chip, superchip or system-on-chip."""

from typing import Final, Literal

from pydantic import Field

from advisor.catalog.schema.record import Record, Source

Vendor = Literal[
    "nvidia",
    "amd",
    "intel",
    "google",
    "aws",
    "apple",
    "cerebras",
    "groq",
    "sambanova",
    "etched",
    "tenstorrent",
    "huawei",
    "qualcomm",
    "microsoft",
    "meta",
    "graphcore",
]
Status = Literal["released", "announced", "discontinued"]
ASSUMED_ACCELERATORS_PER_NODE: Final = 8
"""Number of accelerators per node where no source states it. Own assumption: of 46 records with a source that are not
systems on a chip, 25 have eight. A larger number lets groups of ranks stay within one node for longer."""


class PowerPoint(Record):
    """Measured rates and power draw of one board at one power limit; with several boards, the lowest rate and the
    highest draw."""

    limit_w: float = Field(gt=0, lt=1e5)
    matmul_flop_per_s: float = Field(gt=0, lt=1e18)
    """Sustained matmul rate [FLOP/s]."""
    matmul_w: float = Field(gt=0, lt=1e5)
    """Power draw during the matmuls [W]."""
    bandwidth_bytes_per_s: float = Field(gt=0, lt=1e17)
    """Sustained read bandwidth of device memory [bytes/s]."""
    bandwidth_w: float = Field(gt=0, lt=1e5)


class ScaleUp(Record):
    """Scale-up fabric inside a node or rack."""

    kind: str
    """Id of the interconnect record, e.g. nvlink4."""
    bytes_per_s: float = Field(gt=0, lt=1e14)
    """Bandwidth per accelerator in one direction [bytes/s]."""
    max_domain: int = Field(ge=1, le=65536)
    """Largest number of accelerators that share the fabric in a product that is sold (8 in an HGX, 72 in an NVL72)."""

    @property
    def is_bridge(self) -> bool:
        """Whether bridges over neighbouring cards make the fabric; a larger group of those exchanges over PCIe."""
        return "bridge" in self.kind


class Accelerator(Record):
    """Datasheet and driver facts of one accelerator in SI units; peaks are dense with FP32 accumulation."""

    id: str
    vendor: Vendor
    name: str
    aliases: tuple[str, ...] = ()
    """Other names that users type; each stands for this record alone."""
    architecture: str
    """Key of the efficiency records, e.g. ampere, ada, hopper, blackwell, blackwell-geforce, cdna3."""
    compute_capability: str = ""
    form_factor: str = ""
    released: str = ""
    status: Status = "released"
    memory_bytes: float | None = Field(default=None, gt=0, lt=1e14)
    """Usable bytes as the driver reports them where known, else the nominal capacity; None if no source states it."""
    memory_is_measured: bool = False
    data_fraction: float = Field(default=1.0, gt=0, le=1)
    """Fraction of memory and of its traffic that holds data: codes for error correction lie between the data of GDDR
    memory where they are switched on, and take a sixteenth of both."""
    memory_type: str = ""
    bandwidth_bytes_per_s: float | None = Field(default=None, gt=0, lt=1e17)
    peak_flop_per_s: dict[str, float] = Field(default_factory=dict)
    """Dense peak by number format [FLOP/s]: keys of fp64, fp32, tf32, fp16, bf16, fp8, int8, fp6, fp4, int4."""
    peak_scale: dict[str, float] = Field(default_factory=dict)
    """Calibrated peak over datasheet peak, by number format; `peak_flop_per_s` includes it. Empty in the catalog."""
    power_fraction: float = Field(default=1.0, gt=0)
    """Fraction of its peaks that a power limit leaves; `peak_flop_per_s` includes it. 1 in the catalog."""
    group_fraction: dict[int, float] = Field(default_factory=dict)
    """Fraction of the fabric's rate that the slowest link leaves, by number of ranks of a group on the measured
    machine. Empty in the catalog."""
    sustained_flop_per_s: dict[str, float] = Field(default_factory=dict)
    """Sustained matmul rate on the measured machine, by number format [FLOP/s]. Empty in the catalog."""
    power_points: tuple[PowerPoint, ...] = ()
    """Rates and power draw of the measured machine by power limit, lowest limit first. Empty in the catalog."""
    num_sms: int | None = Field(default=None, gt=0)
    """Number of streaming multiprocessors, compute units or cores."""
    clock_hz: float | None = Field(default=None, gt=0)
    l2_bytes: float | None = Field(default=None, gt=0)
    tdp_w: float | None = Field(default=None, gt=0)
    scale_up: ScaleUp | None = None
    accelerators_per_node: int | None = Field(default=None, ge=1, le=1024)
    """Number of accelerators of the largest usual node: one server, instance or compute tray. None if no source states
    it."""
    devices: int = Field(default=1, ge=1)
    """Devices that software sees in one accelerator: dies, tiles or cores, each of which an engine counts."""
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    pcie_peer_to_peer: bool = True
    """Whether cards reach each other over PCIe; False if the driver disables peer access (GeForce)."""
    scale_out_bytes_per_s: float | None = None
    """Network bandwidth per accelerator in the usual node, one direction [bytes/s]."""
    assumed_network_bytes_per_s: float | None = None
    """Network of one accelerator between nodes [bytes/s] where what is rented states none: a reference design or the
    slowest machine that its users report. Taken for predictions over several nodes and said there."""
    unified_memory: bool = False
    """Whether the CPU shares the memory; memory_bytes is then the largest configuration sold."""
    smaller_memories_gib: tuple[int, ...] = ()
    """Smaller memories with which the chip is also sold [GiB]: `m4-max-40-core-64gb` is the chip with one of them."""
    modified: bool = False
    """Whether the memory of a board was changed after sale."""
    msrp_usd: float | None = Field(default=None, gt=0)
    engines: tuple[str, ...] = ()
    """Ids of the engines that run on it."""
    unranked_reason: str = ""
    """Reason why the accelerator is listed but never ranked: the number that has no source. Empty
    if it can be ranked.
    """
    notes: str = ""
    sources: tuple[Source, ...] = ()
    field_sources: dict[str, Source] = Field(default_factory=dict)
    """Source of single fields where it differs from `sources`."""

    def __hash__(self) -> int:
        """Return the hash of the id: tables of fields have none, and records of one id are rarely different."""
        return hash(self.id)

    @property
    def sixteen_bit_dtype(self) -> str:
        """The 16-bit format that it multiplies in: fp16 where it has a peak of that alone, as Volta and Turing do."""
        return "fp16" if "fp16" in self.peak_flop_per_s and "bf16" not in self.peak_flop_per_s else "bf16"

    @property
    def node_size(self) -> int:
        """Number of accelerators of one node; `ASSUMED_ACCELERATORS_PER_NODE` if no source states it."""
        return self.accelerators_per_node or ASSUMED_ACCELERATORS_PER_NODE

    @property
    def scale_up_domain(self) -> int:
        """Number of accelerators that share one scale-up fabric, in one node or in a rack; 1 without a fabric."""
        return self.scale_up.max_domain if self.scale_up else 1

    @property
    def fast_group_size(self) -> int:
        """Number of accelerators that reach each other without a network: those of the fabric or, over PCIe where
        there is none or bridges join a few cards only, those of the node."""
        if self.scale_up is None or self.scale_up.is_bridge:
            return max(self.scale_up_domain, self.node_size)
        return self.scale_up.max_domain

    @property
    def is_ranked(self) -> bool:
        """Whether the accelerator may be ranked; False if a needed number has no source."""
        return not self.unranked_reason


class Interconnect(Record):
    """Link technology between accelerators or nodes."""

    id: str
    kind: str
    bytes_per_s: float = Field(gt=0)
    """Bandwidth in one direction, per endpoint as named in `per` [bytes/s]."""
    per: str = "gpu"
    latency_s: float | None = None
    topology: Literal["switch", "mesh", "ring", "torus", "bridge", "host", "network"] = "switch"
    measured_bus_bytes_per_s: float | None = None
    """All-reduce bus bandwidth measured at large messages [bytes/s]; None if not measured."""
    in_network_reduction: bool = False
    sources: tuple[Source, ...] = ()
