"""One accelerator as it is sold: one GPU, TPU chip, superchip or system-on-chip."""

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
"""Accelerators of a node where no source states their number. Own assumption: of 46 records with a source that are not
systems on a chip, 25 have eight. A larger number lets groups of ranks stay within one node for longer."""


class PowerPoint(Record):
    """What one board does at one power limit, measured; of several boards the slowest and thirstiest."""

    limit_w: float = Field(gt=0, lt=1e5)
    matmul_flop_per_s: float = Field(gt=0, lt=1e18)
    """Products without a pause."""
    matmul_w: float = Field(gt=0, lt=1e5)
    """Drawn by them."""
    bandwidth_bytes_per_s: float = Field(gt=0, lt=1e17)
    """Reads of device memory without a pause."""
    bandwidth_w: float = Field(gt=0, lt=1e5)


class ScaleUp(Record):
    """The fast fabric inside a node or rack."""

    kind: str
    """Id of the interconnect record, e.g. nvlink4."""
    bytes_per_s: float = Field(gt=0, lt=1e14)
    """One direction, per accelerator."""
    max_domain: int = Field(ge=1, le=65536)
    """Largest number of accelerators that share the fabric in a product that is sold (8 in an HGX, 72 in an NVL72)."""


class Accelerator(Record):
    """Datasheet and driver facts of one accelerator; SI units; peaks are dense with FP32 accumulation."""

    id: str
    vendor: Vendor
    name: str
    aliases: tuple[str, ...] = ()
    """Other names that people type; each stands for this record alone."""
    architecture: str
    """Key of the efficiency records, e.g. ampere, ada, hopper, blackwell, blackwell-geforce, cdna3."""
    compute_capability: str = ""
    form_factor: str = ""
    released: str = ""
    status: Status = "released"
    memory_bytes: float | None = Field(default=None, gt=0, lt=1e14)
    """Usable bytes as the driver reports them where known, else the nominal capacity."""
    memory_is_measured: bool = False
    memory_type: str = ""
    bandwidth_bytes_per_s: float | None = Field(default=None, gt=0, lt=1e17)
    peak_flop_per_s: dict[str, float] = Field(default_factory=dict)
    """Dense peak by number format: keys of fp64, fp32, tf32, fp16, bf16, fp8, int8, fp6, fp4, int4."""
    peak_scale: dict[str, float] = Field(default_factory=dict)
    """By number format, what of the datasheet's peak a calibration left in peak_flop_per_s; empty in the catalog."""
    group_fraction: dict[int, float] = Field(default_factory=dict)
    """By ranks of a group on the machine that was measured, what its slowest link leaves; empty in the catalog."""
    sustained_flop_per_s: dict[str, float] = Field(default_factory=dict)
    """By number format, the rate of products without a pause on the machine that was measured; empty in the catalog."""
    power_points: tuple[PowerPoint, ...] = ()
    """Lowest limit first, of the machine that was measured; empty in the catalog."""
    num_sms: int | None = Field(default=None, gt=0)
    """Streaming multiprocessors, compute units or cores."""
    clock_hz: float | None = Field(default=None, gt=0)
    l2_bytes: float | None = Field(default=None, gt=0)
    tdp_w: float | None = Field(default=None, gt=0)
    scale_up: ScaleUp | None = None
    accelerators_per_node: int | None = Field(default=None, ge=1, le=1024)
    """Accelerators of the largest usual node: one server, instance or compute tray. None if no source states it."""
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    pcie_peer_to_peer: bool = True
    """False where the driver disables peer access over PCIe (GeForce)."""
    scale_out_bytes_per_s: float | None = None
    """Network per accelerator in the usual node, one direction."""
    unified_memory: bool = False
    """Memory shared with the CPU; memory_bytes is then the largest configuration sold."""
    msrp_usd: float | None = Field(default=None, gt=0)
    engines: tuple[str, ...] = ()
    """Engines that run on it (ids of engine records)."""
    unranked_reason: str = ""
    """Why it is listed but never ranked: which number has no source. Empty if it can be ranked."""
    notes: str = ""
    sources: tuple[Source, ...] = ()
    field_sources: dict[str, Source] = Field(default_factory=dict)
    """Source of single fields where it differs from `sources`."""

    @property
    def node_size(self) -> int:
        """Accelerators of one node; assumed where no source states it."""
        return self.accelerators_per_node or ASSUMED_ACCELERATORS_PER_NODE

    @property
    def scale_up_domain(self) -> int:
        """Accelerators that share one scale-up fabric, in one node or in a rack; 1 without a fabric."""
        return self.scale_up.max_domain if self.scale_up else 1

    @property
    def fast_group_size(self) -> int:
        """Accelerators that reach each other without a network: those of the fabric or, without one, of the node."""
        return self.scale_up.max_domain if self.scale_up else self.node_size

    @property
    def is_ranked(self) -> bool:
        """Whether it can win; False where a needed number has no source."""
        return not self.unranked_reason


class Interconnect(Record):
    """A link technology."""

    id: str
    kind: str
    bytes_per_s: float = Field(gt=0)
    """One direction, per endpoint as named in `per`."""
    per: str = "gpu"
    latency_s: float | None = None
    topology: Literal["switch", "mesh", "ring", "torus", "bridge", "host", "network"] = "switch"
    measured_bus_bytes_per_s: float | None = None
    """All-reduce bus bandwidth measured at large messages."""
    in_network_reduction: bool = False
    sources: tuple[Source, ...] = ()
