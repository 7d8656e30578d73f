"""What a probe measured on one machine, in the form in which the simulator uses it."""

from pydantic import Field

from advisor.catalog.schema.accelerator import PowerPoint
from advisor.catalog.schema.record import Record


class Calibration(Record):
    """Measured figures of one machine; replaces or scales catalog values. A file to read, edit and e-mail.

    Every field is optional: what was not measured keeps its catalog value.
    """

    kind: str = "calibration"
    schema_version: int = 1
    accelerator: str
    num_accelerators: int = 1
    measured_on: str = ""
    driver: str = ""
    tool_version: str = ""
    bandwidth_bytes_per_s: float | None = Field(default=None, gt=0)
    """Best sustained read bandwidth of device memory."""
    matmul_flop_per_s: dict[str, float] = Field(default_factory=dict)
    """Dense matmul rate by number format at a large shape, in a burst: under a power limit it falls within a second."""
    sustained_flop_per_s: dict[str, float] = Field(default_factory=dict)
    """The same without a pause, once the power limit holds."""
    launch_s: float | None = Field(default=None, gt=0)
    """Back-to-back interval of empty kernels in a replayed graph."""
    collective_bus_bytes_per_s: dict[str, float] = Field(default_factory=dict)
    """Large-message bus bandwidth by operation."""
    collective_latency_s: dict[str, float] = Field(default_factory=dict)
    """Small-message time by operation."""
    pair_bytes_per_s: dict[str, float] = Field(default_factory=dict)
    """Copy from one accelerator to another by pair, e.g. "0-1", the slower direction."""
    fast_groups: tuple[tuple[int, ...], ...] = ()
    """Accelerators that reach each other at full speed; one group where all do."""
    power_points: tuple[PowerPoint, ...] = ()
    """Rates and draw by power limit, lowest first: of `advisor probe --power-sweep`."""
    host_to_device_bytes_per_s: float | None = Field(default=None, gt=0)
