"""Framework costs: launches, unfused passes and unhidden communication that a training framework adds to kernels."""

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

from advisor.catalog.accelerators import by_id
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.schema import Accelerator
from advisor.catalog.terms import Terms
from advisor.catalog.units import TERA
from advisor.simulator.terms import TermCase, fill_record, find, value
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.release_months import UNDATED, year_month_of

_LEAST_SCALE: Final = 0.9


@dataclass(frozen=True, slots=True)
class FrameworkCosts:
    """Costs that one family of frameworks adds in one era, by the names of the table of terms; the defaults add
    nothing.

    Source: catalog/data/terms.csv.
    """

    kernel_scale: float = 1.0
    """Ratio of the time of matrix multiplications to that of isolated kernels: heat, clocks and concurrent memory
    traffic."""
    low_bit_scale: float = 1.0
    """Ratio of the time of matrix multiplications in formats below 16 bits to that of isolated kernels; their scaling
    kernels are part of it."""
    attention_scale: float = 1.0
    """Ratio of the time of attention's forward pass to that of serving kernels."""
    attention_backward: float = 1.0
    """Ratio of the time of attention's backward pass to that of its forward pass: 2.5 times the flop at a lower
    rate."""
    recurrence_scale: float = 1.0
    """Ratio of the time of state-space and linear-attention mixers to that of serving kernels."""
    low_bit_expert_scale: float = 1.0
    """Ratio of the time of routed experts in formats below 16 bits to that of serving kernels, which are closer to the
    peak; in 16 bits `kernel_scale` applies to experts too."""
    fused_expert_scale: float = 1.0
    """Ratio of the time of experts whose matmuls, activations and casts are one grouped kernel to that of separate
    ones."""
    expert_capacity: float = 0.0
    """Ratio of the rows of each expert to an even share of the tokens, if every expert computes a fixed number of rows
    in one batched dense matmul and drops the rest; 0 if rows are grouped as they come."""
    elementwise_passes: float = 1.0
    """Ratio of the traffic of norms, activations and residuals to that of fused kernels."""
    eager_passes: float = 1.0
    """Further factor of that traffic, and of the number of kernels, if RMS norms, rotary embedding and gated
    activations run as chains of single kernels: PyTorch without torch.compile or fused layers."""
    launch_s: float = 0.0
    """Host time per kernel launched from Python [s]."""
    kernels_per_layer: float = 0.0
    """Number of kernels of one layer's forward pass; the backward pass launches as many again for each gradient."""
    tensor_kernels: float = 0.0
    """Number of additional kernels of a layer under tensor parallelism: collectives and their synchronisation."""
    expert_kernels: float = 0.0
    """Number of additional kernels in a layer with routed experts."""
    local_expert_kernels: float = 0.0
    """Number of additional kernels for each expert that a rank holds, if grouped matmuls are loops of single ones."""
    low_bit_expert_kernels: float = 0.0
    """Number of additional kernels for each expert of a rank in formats below 16 bits: tensor, scales and transposed
    copy of every expert are made by themselves."""
    fp8_kernels: float = 1.0
    """Ratio of the kernels of a layer in fp8 to those in 16 bits: casts and scales."""
    block_scaled_kernels: float = 1.0
    """Ratio of the kernels of a layer in mxfp8 and nvfp4 to those in 16 bits: these formats scale small blocks and keep
    transposed copies."""
    pipeline_sync_s: float = 0.0
    """Time of each send between stages in addition to its bytes [s]: the host waits for it before it launches the next
    pass."""
    communication_scale: float = 1.0
    """Ratio of the time of collectives between layers to that of the collectives alone: ranks do not arrive
    together."""
    collective_wait_s: float = 0.0
    """Time of each tensor-parallel collective in addition to that of the collective alone, however few its bytes [s]:
    its ranks do not arrive together, and it runs on a stream of its own."""
    tensor_overlap: float = 0.0
    """Fraction of the multiplications' time in which pieces of their operands travel."""
    hidden_by_weights: float = 0.0
    """Fraction of the weight gradient's time behind which the sum of input gradients hides."""
    expert_overlap: float = 0.0
    """Fraction of a layer's computation during which its experts' tokens travel."""
    context_overlap: float = 0.0
    ring_forward_bytes: float = 0.0
    """Bytes read and written per value of the queries and part of a ring to merge the parts of attention, forward."""
    ring_backward_bytes: float = 0.0
    """Bytes read and written per value of the queries and part of a ring to add the parts' gradients."""
    data_overlap: float = 0.0
    """Fraction of gradient sums and parameter gathers that may hide behind computation."""
    gather_overlap: float = 0.0
    """Fraction of the gather of parameters after a divided optimizer's update that may hide behind computation."""
    interference: float = 0.0
    """Slow-down of computation per time of concurrent communication: they share SMs and memory."""
    shard_copies: float = 0.0
    """Whether gathered and scattered parameters pass through a copy of their own (FSDP2): 1, else 0."""
    main_gradient_bytes: float = 0.0
    """Bytes read and written per weight and micro-batch in addition to the multiplication that computes the gradient: 8
    if it adds to an fp32 gradient."""
    partial_recompute: float = 0.0
    """Whether recomputing a layer stops at the last tensor that the backward pass needs, before its last matrix: 1,
    else 0."""
    table_exposed: float = 0.0
    """Whether the gradient of the input table, the last to be ready, is summed by itself after the backward pass: 1,
    else 0."""
    optimizer_passes: float = 1.0
    """Ratio of the traffic of the optimizer step to that of one fused kernel."""
    gradient_bytes: float = 4.0
    """Bytes of one gradient as it is summed over data-parallel ranks."""
    straggler: float = 0.0
    """Relative spread of the accelerators' step times."""
    backward_launches: float = 1.0
    """Ratio of the launches of the backward pass to those of the forward pass, in time of the host."""
    overlapped_launches: float = 1.0
    """Ratio of the launches of layers that are cut into pieces to those of whole layers: the pieces let two
    micro-batches run concurrently."""
    adapter_launches: float = 1.0
    """Ratio of the launches of a layer with adapters to those of one without."""
    graphs: float = 0.0
    """Fraction of launches that captured graphs or compiled regions remove."""


def framework_costs(job: TrainingJob, architecture: str, terms: Terms | None = None) -> FrameworkCosts:
    """Return the terms of the job's framework in its era on an architecture, of the shipped table or of another.

    Assumes: a job without a date runs on releases of spring 2026.
    Source: catalog/data/terms.csv; evidence/fit/training.py.
    """
    era = year_month_of(job) or UNDATED
    attention = "unfused_attention" if "unfused_attention" in job.features else "fused_attention"
    case = TermCase(job.framework, date=era, architecture=architecture, operator=attention)
    found = (
        _shipped_costs(case) if terms is None else fill_record(FrameworkCosts, "framework", case, terms=terms)
    )
    if "bf16_grad_reduce" in job.features:
        found = replace(found, gradient_bytes=2.0, main_gradient_bytes=min(4.0, found.main_gradient_bytes))
    if "no_overlap" in job.features:
        return replace(found, tensor_overlap=0.0, expert_overlap=0.0, data_overlap=0.0, gather_overlap=0.0)
    return found


def at_power(costs: FrameworkCosts, accelerator: Accelerator) -> FrameworkCosts:
    """Return the terms on a board whose power per unit of 16-bit peak differs from the boards on which they were
    fitted.

    scale (reference / own)^(1/3), with the rated power over the 16-bit peak: a board that has more power for its matrix
    units keeps more of its clock; no less than 1 in 16 bits, where heat alone counts.

    Assumes: power grows with the cube of the clock; an architecture without a reference has one kind of board.
    Source: dynamic power of CMOS; catalog/data/terms.csv, kernel_scale_w_per_tflop.
    """
    reference = find("framework", "kernel_scale_w_per_tflop", TermCase(architecture=accelerator.architecture))
    peak = accelerator.peak_flop_per_s.get("bf16")
    if reference is None or not accelerator.tdp_w or not peak or costs.kernel_scale <= 1.0:
        return costs
    # A power limit has lowered the peaks already: heat follows from the board as it is rated.
    peak = max(peak, _rated_peak(accelerator.id))
    own = accelerator.tdp_w / (peak / TERA)
    factor = (reference.value / own) ** (1.0 / 3.0)
    return replace(
        costs,
        kernel_scale=max(1.0, costs.kernel_scale * factor),
        low_bit_scale=max(_LEAST_SCALE, costs.low_bit_scale * factor),
    )


def at_host(costs: FrameworkCosts, operator_s: float | None) -> FrameworkCosts:
    """Return the terms on a host that takes `operator_s` for a plain operator [s]; None leaves them.

    Assumes: every launch takes as much longer as a plain operator does.
    Source: own model; tools/measure_tuned_layers.py measures both.
    """
    if operator_s is None:
        return costs
    return replace(costs, launch_s=costs.launch_s * operator_s / common_term("launch_s"))


@cache
def _rated_peak(name: str) -> float:
    """Return the peak in bf16 of an accelerator of the catalog without a power limit; 0 if the catalog lacks it."""
    try:
        return by_id(name).peak_flop_per_s.get("bf16", 0.0)
    except UnknownNameError:
        return 0.0


def common_term(name: str) -> float:
    """Return a number of training that is common to all frameworks, in its own unit. Source: catalog/data/terms.csv."""
    return value("framework", name, TermCase())


@lru_cache(maxsize=512)
def _shipped_costs(case: TermCase) -> FrameworkCosts:
    return fill_record(FrameworkCosts, "framework", case)
