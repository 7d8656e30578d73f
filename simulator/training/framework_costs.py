"""What a training framework adds to kernels: launches, unfused passes, communication that it fails to hide."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.simulator.training.job import TrainingJob

_FILE: Final = DATA_DIR / "training" / "frameworks.toml"
_CONTAINER: Final = re.compile(r"2\d\.\d\d(\.|$)")
_DATE: Final = re.compile(r"20\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class FrameworkCosts:
    """Fitted parameters of one family of frameworks in one era."""

    kernel_scale: float = 1.0
    """Time of matrix multiplications over what isolated kernels take: heat, clocks and memory traffic beside them."""
    low_bit_scale: float = 1.0
    """The same for formats below 16 bits, whose scaling kernels are part of it."""
    attention_scale: float = 1.0
    """Time of attention's forward pass over that of serving kernels."""
    attention_backward: float = 3.0
    """Backward over forward pass of attention: 2.5 times the flop at a lower rate."""
    recurrence_scale: float = 1.0
    """Time of state-space and linear-attention mixers over that of serving kernels."""
    expert_scale: float = 1.0
    """Time of routed experts and their permutation over that of serving kernels."""
    elementwise_passes: float = 1.0
    """Traffic of norms, activations and residuals over what fused kernels need."""
    eager_passes: float = 2.3
    """The same again where RMS norms, rotary embedding and gated activations run as chains of single kernels, and
    so many more kernels: PyTorch without torch.compile or fused layers."""
    launch_s: float = 5e-6
    """Host time per kernel launched from Python."""
    kernels_per_layer: float = 30.0
    """Kernels of one layer's forward pass; the backward pass launches as many again for each gradient."""
    tensor_kernels: float = 0.0
    """More of them under tensor parallelism: collectives and their synchronisation."""
    expert_kernels: float = 30.0
    """More of them in a layer with routed experts."""
    local_expert_kernels: float = 3.0
    """More of them for each expert that a rank holds, where grouped products are loops of single ones."""
    fp8_kernels: float = 1.3
    """Kernels of a layer in fp8 over those in 16 bits: casts and scales."""
    block_scaled_kernels: float = 1.8
    """The same in mxfp8 and nvfp4, which scale small blocks and keep transposed copies."""
    step_s: float = 0.0
    """Once per optimizer step: data, logging, synchronisation, loss scale."""
    pipeline_sync_s: float = 0.0
    """Each send between stages beside its bytes: the host waits for it before it launches the next pass."""
    communication_scale: float = 1.0
    """Time of collectives between layers over that of the same collectives alone: ranks do not arrive together."""
    tensor_overlap: float = 0.0
    """Share of tensor-parallel communication that runs beside multiplications."""
    expert_overlap: float = 0.0
    context_overlap: float = 0.8
    pipeline_overlap: float = 0.0
    """Share of sends between stages that hides behind computation where the schedule has chunks to run meanwhile."""
    data_overlap: float = 1.0
    """Share of gradient sums and parameter gathers that may hide behind computation."""
    gather_overlap: float = 1.0
    """The same of the gather of parameters after a divided optimizer's update."""
    interference: float = 0.1
    """Slow-down of computation per time of communication beside it: they share SMs and memory."""
    shard_copies: float = 0.0
    """1 where gathered and scattered parameters pass through a copy of their own (FSDP2), else 0."""
    main_gradient_bytes: float = 8.0
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
    imbalance: float = 0.0
    """Coefficient of variation of expert popularity in training; 0 where routing is balanced."""
    straggler: float = 0.005
    """Relative spread of the accelerators' step times."""
    backward_launches: float = 1.5
    """Launches of the backward pass over those of the forward pass, in time of the host."""
    adapter_launches: float = 2.0
    """The same of a layer with adapters over one without."""
    graphs: float = 0.0
    """Share of launches that captured graphs or compiled regions remove."""


Record = Mapping[str, Any]


def framework_costs(
    job: TrainingJob, architecture: str, records: Sequence[Record] | None = None
) -> FrameworkCosts:
    """Parameters of the job's framework in its era on an architecture; later records override earlier ones.

    Source: catalog/data/training/frameworks.toml, written by evidence/fit/training.py.
    """
    era = _year_month(job.framework_version) or _year_month(job.date)
    legacy = "unfused_attention" in job.features
    software = job.software.casefold()
    if records is None:
        return _stored(job.framework, software, era, legacy, architecture)
    return _costs(records, job.framework, software, era, legacy, architecture)


@cache
def _stored(family: str, software: str, era: str, legacy: bool, architecture: str) -> FrameworkCosts:
    return _costs(_records(), family, software, era, legacy, architecture)


def _costs(
    records: Sequence[Record], family: str, software: str, era: str, legacy: bool, architecture: str
) -> FrameworkCosts:
    found: dict[str, float] = {}
    for record in records:
        if (
            record.get("family", family) == family
            and record.get("software", "") in software
            and bool(record.get("legacy", legacy)) == legacy
            and (not record.get("before") or (era and era < record["before"]))
            and (not record.get("since") or era >= record["since"])
            and architecture.startswith(record.get("architecture", ""))
        ):
            found |= record["parameters"]
    return FrameworkCosts(**found)


def _year_month(era: str) -> str:
    """2024-04 from 2024-04-22 or from a container version 24.04; empty where it is neither."""
    if _CONTAINER.match(era):
        return f"20{era[:2]}-{era[3:5]}"
    return era[:7] if _DATE.match(era) else ""


@cache
def _records() -> tuple[Record, ...]:
    return tuple(read_toml(_FILE)["records"]) if _FILE.is_file() else ()
