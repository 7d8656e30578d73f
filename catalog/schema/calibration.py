"""Measured figures of one machine, in the form in which the simulator uses them."""

from pydantic import Field

from advisor.catalog.schema.accelerator import PowerPoint
from advisor.catalog.schema.record import Record


class ServerCalibration(Record):
    """Measured step times of one server over the predicted ones, for the same deployment on the same accelerator."""

    engine: str
    model: str
    weight_dtype: str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    decode_scale: float = Field(default=1.0, gt=0)
    """Measured over predicted time of iterations that only decode."""
    prefill_scale: float = Field(default=1.0, gt=0)
    """Measured over predicted time of iterations with prefill."""
    ttft_sigma: float = Field(gt=0, le=1)
    """Standard deviation of the logarithm of measured over predicted time to first token that is left."""
    tpot_sigma: float = Field(gt=0, le=1)
    """Standard deviation of the logarithm of measured over predicted time per output token and rate that is left."""
    num_loads: int = Field(ge=1)
    """Number of measured loads."""


class Calibration(Record):
    """Measured figures of one machine, which replace or scale catalog values. `advisor probe` writes them to a file
    that users may read, edit and send.

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
    """Best sustained read bandwidth of device memory [bytes/s]."""
    matmul_flop_per_s: dict[str, float] = Field(default_factory=dict)
    """Dense matmul rate by number format at a large shape [FLOP/s], in a burst: under a power limit it falls within a
    second."""
    sustained_flop_per_s: dict[str, float] = Field(default_factory=dict)
    """Sustained dense matmul rate by number format, after the power limit has lowered the clock [FLOP/s]."""
    launch_s: float | None = Field(default=None, gt=0)
    """Back-to-back interval of empty kernels in a replayed graph [s]."""
    collective_bus_bytes_per_s: dict[str, float] = Field(default_factory=dict)
    """Bus bandwidth of large messages by operation [bytes/s]."""
    collective_latency_s: dict[str, float] = Field(default_factory=dict)
    """Time of small messages by operation [s]."""
    pair_bytes_per_s: dict[str, float] = Field(default_factory=dict)
    """Copy rate from one accelerator to another by pair, e.g. "0-1", the slower direction [bytes/s]."""
    fast_groups: tuple[tuple[int, ...], ...] = ()
    """Groups of accelerators that reach each other at full speed; a single group if all do."""
    power_points: tuple[PowerPoint, ...] = ()
    """Rates and power draw by power limit, lowest first, from `advisor probe --power-sweep`."""
    server: ServerCalibration | None = None
    """Step times of a server on this machine, from a benchmark; None without one."""
    host_to_device_bytes_per_s: float | None = Field(default=None, gt=0)
