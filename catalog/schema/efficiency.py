"""Fitted efficiency of one operator on one architecture in one number format."""

from pydantic import Field

from advisor.catalog.schema.record import Record, Source


class Residual(Record):
    """Error of a fit on the measurements that it was fitted on, and on those that were left out."""

    num_points: int = Field(ge=0)
    median_abs_error: float
    """Median of |predicted / measured − 1|."""
    p90_abs_error: float
    bias: float
    """Median of predicted / measured − 1."""
    left_out_median_abs_error: float | None = None
    """Median of |predicted / measured − 1| on accelerators of the architecture that were left out of the fit; None if
    there is only one accelerator."""


class EfficiencyRecord(Record):
    """Parameters of one operator's time function."""

    architecture: str
    operator: str
    """Operator name: matmul, grouped_matmul, attention_prefill, attention_decode, mla_prefill, mla_decode, gdn, mamba2,
    ..."""
    dtype: str
    """Format in which the unit multiplies; for attention `bf16` or `fp8` of the KV cache."""
    engine: str = "any"
    """Kernel level: the engine whose kernels were timed, or 'any' over all of them."""
    parameters: dict[str, float]
    residual: Residual
    source: Source
    fitted_on: tuple[str, ...] = ()
    """Accelerator ids of the measurements."""


class CollectiveRecord(Record):
    """α–β parameters of a collective on one fabric and group size."""

    fabric: str
    """Interconnect id."""
    operation: str
    """Operation name: all_reduce, all_gather, reduce_scatter, all_to_all, send_recv."""
    algorithm: str
    """Algorithm name: nccl, custom (engines' one- and two-shot), deepep_low_latency, ..."""
    num_ranks: int
    parameters: dict[str, float]
    residual: Residual
    source: Source
    fitted_on: tuple[str, ...] = ()
