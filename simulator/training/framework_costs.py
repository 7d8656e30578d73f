"""What a training framework adds to kernels: launches, unfused passes, communication that it fails to hide."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from advisor.catalog.schema import Accelerator
from advisor.catalog.terms import Terms
from advisor.catalog.units import TERA
from advisor.simulator.terms import Case, filled, find, value
from advisor.simulator.training.job import TrainingJob

_LEAST_SCALE: Final = 0.9
_UNDATED: Final = "2026-04"
_CONTAINER: Final = re.compile(r"2\d\.\d\d(\.|$)")
_DATE: Final = re.compile(r"20\d\d-\d\d")
_CORE: Final = re.compile(r"0\.(\d\d)(\.|$)")
_CORE_RELEASES: Final = ((18, "2026-06"), (15, "2025-12"), (11, "2025-04"))
"""Minor versions of Megatron-Core and when they came (files of core_v0.18.0 and core_v0.15.0; conda, 0.11.0)."""


@dataclass(frozen=True, slots=True)
class FrameworkCosts:
    """What one family of frameworks adds in one era, by the names of the table of terms; the defaults add nothing.

    Source: catalog/data/terms.csv.
    """

    kernel_scale: float = 1.0
    """Time of matrix multiplications over what isolated kernels take: heat, clocks and memory traffic beside them."""
    low_bit_scale: float = 1.0
    """The same for formats below 16 bits, whose scaling kernels are part of it."""
    attention_scale: float = 1.0
    """Time of attention's forward pass over that of serving kernels."""
    attention_backward: float = 1.0
    """Backward over forward pass of attention: 2.5 times the flop at a lower rate."""
    recurrence_scale: float = 1.0
    """Time of state-space and linear-attention mixers over that of serving kernels."""
    low_bit_expert_scale: float = 1.0
    """Time of routed experts in formats below 16 bits over that of serving kernels, which are closer to the peak;
    in 16 bits `kernel_scale` is theirs too."""
    fused_expert_scale: float = 1.0
    """Time of experts whose products, activations and casts are one grouped kernel over that of separate ones."""
    expert_capacity: float = 0.0
    """Rows of each expert over an even share of the tokens, where every expert computes a fixed number of them in one
    batched dense product and drops the rest; 0 where rows are grouped as they come."""
    elementwise_passes: float = 1.0
    """Traffic of norms, activations and residuals over what fused kernels need."""
    eager_passes: float = 1.0
    """The same again where RMS norms, rotary embedding and gated activations run as chains of single kernels, and
    so many more kernels: PyTorch without torch.compile or fused layers."""
    launch_s: float = 0.0
    """Host time per kernel launched from Python."""
    kernels_per_layer: float = 0.0
    """Kernels of one layer's forward pass; the backward pass launches as many again for each gradient."""
    tensor_kernels: float = 0.0
    """More of them under tensor parallelism: collectives and their synchronisation."""
    expert_kernels: float = 0.0
    """More of them in a layer with routed experts."""
    local_expert_kernels: float = 0.0
    """More of them for each expert that a rank holds, where grouped products are loops of single ones."""
    block_scaled_expert_kernels: float = 0.0
    """The same in mxfp8 and nvfp4, where scales of every expert are made, transposed and put in order by themselves."""
    fp8_kernels: float = 1.0
    """Kernels of a layer in fp8 over those in 16 bits: casts and scales."""
    block_scaled_kernels: float = 1.0
    """The same in mxfp8 and nvfp4, which scale small blocks and keep transposed copies."""
    pipeline_sync_s: float = 0.0
    """Each send between stages beside its bytes: the host waits for it before it launches the next pass."""
    communication_scale: float = 1.0
    """Time of collectives between layers over that of the same collectives alone: ranks do not arrive together."""
    tensor_overlap: float = 0.0
    """Share of the multiplications' time in which pieces of their operands travel."""
    hidden_by_weights: float = 0.0
    """Share of the weight gradient's time behind which the sum of input gradients hides."""
    expert_overlap: float = 0.0
    """Share of a layer's computation beside which its experts' tokens travel."""
    context_overlap: float = 0.0
    data_overlap: float = 0.0
    """Share of gradient sums and parameter gathers that may hide behind computation."""
    gather_overlap: float = 0.0
    """The same of the gather of parameters after a divided optimizer's update."""
    interference: float = 0.0
    """Slow-down of computation per time of communication beside it: they share SMs and memory."""
    shard_copies: float = 0.0
    """1 where gathered and scattered parameters pass through a copy of their own (FSDP2), else 0."""
    main_gradient_bytes: float = 0.0
    """Read and written per weight and micro-batch beside the multiplication that computes the gradient: 8 where it adds
    to an fp32 gradient."""
    partial_recompute: float = 0.0
    """1 where recomputing a layer stops at the last tensor that the backward pass needs, before its last matrix."""
    table_exposed: float = 0.0
    """1 where the gradient of the input table, the last to be ready, is summed by itself after the backward pass."""
    optimizer_passes: float = 1.0
    """Traffic of the optimizer step over that of one fused kernel."""
    gradient_bytes: float = 4.0
    """Of one gradient as it is summed over data-parallel ranks."""
    straggler: float = 0.0
    """Relative spread of the accelerators' step times."""
    backward_launches: float = 1.0
    """Launches of the backward pass over those of the forward pass, in time of the host."""
    overlapped_launches: float = 1.0
    """The same of layers that are cut into pieces, so that one micro-batch's run beside another's."""
    adapter_launches: float = 1.0
    """The same of a layer with adapters over one without."""
    graphs: float = 0.0
    """Share of launches that captured graphs or compiled regions remove."""


def framework_costs(job: TrainingJob, architecture: str, terms: Terms | None = None) -> FrameworkCosts:
    """The terms of the job's framework in its era on an architecture, of the shipped table or of another.

    Assumes: a job without a date runs on releases of spring 2026.
    Source: catalog/data/terms.csv; evidence/fit/training.py.
    """
    era = year_month_of(job) or _UNDATED
    attention = "unfused_attention" if "unfused_attention" in job.features else "fused_attention"
    case = Case(job.framework, date=era, architecture=architecture, operator=attention)
    found = _shipped(case) if terms is None else filled(FrameworkCosts, "framework", case, terms=terms)
    if "bf16_grad_reduce" in job.features:
        found = replace(found, gradient_bytes=2.0, main_gradient_bytes=min(4.0, found.main_gradient_bytes))
    if "no_overlap" in job.features:
        return replace(found, tensor_overlap=0.0, expert_overlap=0.0, data_overlap=0.0, gather_overlap=0.0)
    return found


def at_power(costs: FrameworkCosts, accelerator: Accelerator) -> FrameworkCosts:
    """The terms on a board whose power per unit of 16-bit peak is not that of the boards they were fitted on.

    scale (reference / own)^(1/3), with the rated power over the 16-bit peak: a board that has more power for its matrix
    units keeps more of its clock; no less than 1 in 16 bits, where it is heat alone.

    Assumes: power grows with the cube of the clock; an architecture without a reference has one kind of board.
    Source: dynamic power of CMOS; catalog/data/terms.csv, kernel_scale_w_per_tflop.
    """
    reference = find("framework", "kernel_scale_w_per_tflop", Case(architecture=accelerator.architecture))
    peak = accelerator.peak_flop_per_s.get("bf16")
    if reference is None or not accelerator.tdp_w or not peak or costs.kernel_scale <= 1.0:
        return costs
    own = accelerator.tdp_w / (peak / TERA)
    factor = (reference.value / own) ** (1.0 / 3.0)
    return replace(
        costs,
        kernel_scale=max(1.0, costs.kernel_scale * factor),
        low_bit_scale=max(_LEAST_SCALE, costs.low_bit_scale * factor),
    )


def common_term(name: str) -> float:
    """A number of training that is every framework's, in its own unit. Source: catalog/data/terms.csv."""
    return value("framework", name, Case())


@lru_cache(maxsize=512)
def _shipped(case: Case) -> FrameworkCosts:
    return filled(FrameworkCosts, "framework", case)


def year_month_of(job: TrainingJob) -> str:
    """Month of the job's software: of a Megatron-Core release, a container, or a date; empty where none is stated."""
    core = _core_release(job.framework_version) if job.framework == "megatron" else ""
    return core or _year_month(job.framework_version) or _year_month(job.date)


def release_month(text: str) -> str:
    """Month of a release as a person names it: Megatron-Core's 0.15.0, a container 25.11, a date; empty for others."""
    return _core_release(text) or _year_month(text)


def _core_release(version: str) -> str:
    """When the newest Megatron-Core of known date came that is no newer than a version; empty for other software."""
    core = _CORE.match(version)
    return next((came for minor, came in _CORE_RELEASES if core and minor <= int(core[1])), "")


def _year_month(era: str) -> str:
    """2024-04 from 2024-04-22 or from a container version 24.04; empty where it is neither."""
    if _CONTAINER.match(era):
        return f"20{era[:2]}-{era[3:5]}"
    return era[:7] if _DATE.match(era) else ""
