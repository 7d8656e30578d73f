"""Roofline of whole passes: floor of a step, the batch that turns it compute-bound, and operators against their
predicted times."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from advisor.catalog.schema import Model
from advisor.catalog.schema.model import Part
from advisor.simulator.deployment import Deployment, activation_dtype_for, is_local
from advisor.simulator.device import Device
from advisor.simulator.engine_costs import engine_costs, operator_library
from advisor.simulator.graph.model import dense_dtype, is_moe, stored_element_bytes
from advisor.simulator.intervals import prediction_class, with_interval
from advisor.simulator.local_surface import (
    is_quantised,
    local_decode_parts_s,
    local_element_bytes,
    local_library,
    local_prompt_parts_s,
)
from advisor.simulator.operator_library import OperatorLibrary, matmul_peak_flop_per_s
from advisor.simulator.operators.local import weight_peak_flop_per_s
from advisor.simulator.operators.matmul import peak_flop_per_s
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.roofline import (
    CACHE_PARTS,
    Work,
    decode_step_work,
    floor_s,
    is_compute_bound,
    prefill_work,
    total_work,
)
from advisor.simulator.surface import decode_breakdown_s, prefill_breakdown_s, read_expert_share

Phase = Literal["decode", "prefill"]
_WORK_OF: Final[Mapping[str, str]] = {
    "attention_projections": "projections",
    "feed_forward": "feed_forward",
    "experts": "experts",
    "head": "head",
    "attention": "attention",
    "state_space": "state",
}
"""Part of the step's work behind each category of its time; other categories have no counted work."""
_MANY: Final = 1e15
"""Batch size at which every expert gets a token."""
_LONGEST_TOKENS: Final = 1e9


@dataclass(frozen=True, slots=True)
class RooflineOperator:
    """Operator of one kind, summed over all layers of a pass on one accelerator."""

    phase: Phase
    name: str
    work: Work | None
    """Counted work; None for small operators, whose tensors stay in the L2, and for the host."""
    peak_flop_per_s: float
    """Peak rate of the unit that the operator multiplies on [flop/s]; 0 without work."""
    bound: str
    """Limit by the roof: memory or compute; cache for small operators; host."""
    floor_s: float
    predicted_s: Quantity
    share_fraction: float
    """Fraction of the time of the pass."""

    @property
    def achieved_flop_per_s(self) -> float:
        """Ratio of arithmetic to predicted time [flop/s]."""
        return self.work.flop / self.predicted_s.value if self.work else 0.0

    @property
    def roof_fraction(self) -> float:
        """Ratio of floor to predicted time: how near to the roof the operator runs."""
        return self.floor_s / self.predicted_s.value


@dataclass(frozen=True, slots=True)
class PassRoofline:
    """Roofline of a decode step or of a prompt."""

    phase: Phase
    num_sequences: int
    context_tokens: int
    predicted_s: Quantity
    floor_s: float
    """Minimum time of all operators, one after the other [s]."""
    operators: tuple[RooflineOperator, ...]


def roofline_passes(
    deployment: Deployment, batch_size: int, context_tokens: int, *, roof: Device | None = None
) -> tuple[PassRoofline, PassRoofline]:
    """Return one decode step of `batch_size` sequences of this context, and the prompt of one sequence that long [s].

    Floors and bounds are those of `roof`, by default of the deployment's own accelerator.

    Assumes: one accelerator holds the whole model, however small its memory; a prompt runs in one piece; an
    operator errs as its pass does.
    Raises: InfeasibleError: the accelerator cannot be simulated.
    Source: counts of graph.work; times as in simulator.surface.
    """
    local = is_local(deployment.engine)
    library = (
        local_library(deployment.engine, deployment.accelerator) if local else operator_library(deployment)
    )
    roof = roof or library.device
    costs = engine_costs(deployment.engine)
    model = deployment.model
    formats = (deployment.weight_dtype, deployment.kv_dtype)
    element_bytes = local_element_bytes if local else stored_element_bytes
    decode_work = decode_step_work(
        model,
        batch_size,
        context_tokens,
        weight_dtype=formats[0],
        kv_dtype=formats[1],
        expert_share=1.0 if local else read_expert_share(deployment, library, costs, batch_size),
        element_bytes=element_bytes,
    )
    prompt_work = prefill_work(
        model, context_tokens, weight_dtype=formats[0], kv_dtype=formats[1], element_bytes=element_bytes
    )
    if local:
        decode_s = local_decode_parts_s(deployment, library, batch_size, context_tokens)
        prompt_s = local_prompt_parts_s(deployment, library, context_tokens)
    else:
        decode_s = decode_breakdown_s(deployment, library, costs, batch_size, context_tokens)
        prompt_s = prefill_breakdown_s(deployment, library, costs, context_tokens)
    return (
        _pass("decode", deployment, library, roof, decode_work, decode_s, batch_size, context_tokens),
        _pass("prefill", deployment, library, roof, prompt_work, prompt_s, 1, context_tokens),
    )


def decode_floor_s(
    model: Model,
    batch_size: float,
    context_tokens: float,
    peak_flop_per_s: float,
    bandwidth_bytes_per_s: float,
    *,
    weight_dtype: str = "bf16",
    kv_dtype: str = "bf16",
) -> float:
    """Minimum time of one decode step on a device with this peak and bandwidth, which are sums over a group [s].

    max(Σ flop / peak, Σ bytes / bandwidth)

    Assumes: everything multiplies at the one peak; links and host cost nothing; memory is large enough.
    Source: roofline model, doi:10.1145/1498765.1498785; counts of `decode_step_work`.
    """
    work = decode_step_work(model, batch_size, context_tokens, weight_dtype=weight_dtype, kv_dtype=kv_dtype)
    return floor_s(total_work(work.values()), peak_flop_per_s, bandwidth_bytes_per_s)


def crossover_batch(
    model: Model,
    context_tokens: float,
    peak_flop_per_s: float,
    bandwidth_bytes_per_s: float,
    *,
    weight_dtype: str = "bf16",
    kv_dtype: str = "bf16",
) -> float | None:
    """Batch at which arithmetic overtakes traffic in a decode step [sequences]; None if it never does.

    A sequence brings F flop and K bytes of cache. With weights W the batch is (W / B) / (F / P − K / B); where
    F / P ≤ K / B, every further sequence adds more reading than computing. With experts W grows with the batch,
    and the crossing is searched below the one for all of W.

    Assumes: as `decode_floor_s`; a group of accelerators changes nothing, as P and B grow together.
    Source: own derivation from the roofline.
    """

    def excess_s(batch: float, names: tuple[str, ...] | None = None) -> float:
        work = decode_step_work(model, batch, context_tokens, weight_dtype=weight_dtype, kv_dtype=kv_dtype)
        summed = total_work(work.values())
        moved = total_work(work[name] for name in names).num_bytes if names else summed.num_bytes
        return summed.flop / peak_flop_per_s - moved / bandwidth_bytes_per_s

    per_sequence_s = excess_s(1.0, CACHE_PARTS)
    if per_sequence_s <= 0.0:
        return None
    weights_s = _all_weight_bytes(model, weight_dtype) / bandwidth_bytes_per_s
    low = 0.0
    high = weights_s / per_sequence_s
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess_s(middle) < 0.0 else (low, middle)
    return high


def longest_compute_bound_context(
    model: Model, peak_flop_per_s: float, bandwidth_bytes_per_s: float, *, kv_dtype: str = "bf16"
) -> float:
    """Context beyond which no batch makes decode compute-bound [tokens]; infinite if every context can be.

    The context at which a sequence's flop / peak equals its cache bytes / bandwidth.

    Assumes: as `decode_floor_s`.
    Source: own derivation from the roofline.
    """

    def excess_s(context: float) -> float:
        work = decode_step_work(model, 1.0, context, kv_dtype=kv_dtype)
        cache_bytes = total_work(work[name] for name in CACHE_PARTS).num_bytes
        return total_work(work.values()).flop / peak_flop_per_s - cache_bytes / bandwidth_bytes_per_s

    if excess_s(0.0) <= 0.0:
        return 0.0
    if excess_s(_LONGEST_TOKENS) > 0.0:
        return math.inf
    low = 0.0
    high = _LONGEST_TOKENS
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess_s(middle) > 0.0 else (low, middle)
    return low


def _pass(
    phase: Phase,
    deployment: Deployment,
    library: OperatorLibrary,
    roof: Device,
    works: Mapping[str, Work],
    seconds: Mapping[str, float],
    num_sequences: int,
    context_tokens: int,
) -> PassRoofline:
    total_s = sum(seconds.values())
    metric = "tpot" if phase == "decode" else "ttft"
    transferred = bool(library.transferred_operators)
    basis: Basis = "assumed" if transferred else "calibrated" if deployment.is_calibrated else "modelled"
    class_name = prediction_class(deployment.engine.id, transferred=transferred)
    operators = []
    for name, value in sorted(seconds.items(), key=lambda item: -item[1]):
        work = works.get(_WORK_OF.get(name, ""))
        work = work if work and work.flop else None
        peak = _peak(name, deployment, roof) if work else 0.0
        operators.append(
            RooflineOperator(
                phase,
                name,
                work,
                peak,
                _bound(name, work, peak, roof),
                floor_s(work, peak, roof.bandwidth_bytes_per_s) if work else 0.0,
                with_interval(value, metric, class_name, basis),
                value / total_s,
            )
        )
    whole = with_interval(total_s, metric, class_name, basis)
    floor = sum(operator.floor_s for operator in operators)
    return PassRoofline(phase, num_sequences, context_tokens, whole, floor, tuple(operators))


def _peak(name: str, deployment: Deployment, device: Device) -> float:
    """Dense peak of the unit behind a category [flop/s]: attention, state and head run in 16 bits, under engines for
    one user's machine with sums of 16 bits too."""
    if is_local(deployment.engine):
        return max(
            weight_peak_flop_per_s(device, is_quantised=is_quantised(deployment.weight_dtype)),
            matmul_peak_flop_per_s(deployment.weight_dtype, deployment.activation_dtype, device),
        )
    if name not in ("attention_projections", "feed_forward", "experts"):
        return peak_flop_per_s("bf16", device)
    weight = deployment.weight_dtype
    if name != "experts":
        weight = dense_dtype(
            deployment.model, weight, "mixer" if name != "feed_forward" else _dense_part(deployment)
        )
    same = weight == deployment.weight_dtype
    activation = deployment.activation_dtype if same else activation_dtype_for(weight, deployment.accelerator)
    return matmul_peak_flop_per_s(weight, activation, device)


def _dense_part(deployment: Deployment) -> Part:
    return "shared_experts" if is_moe(deployment.model) else "feed_forward"


def _bound(name: str, work: Work | None, peak: float, device: Device) -> str:
    if work is not None:
        return "compute" if is_compute_bound(work, peak, device.bandwidth_bytes_per_s) else "memory"
    return "host" if name == "host" else "cache"


def _all_weight_bytes(model: Model, weight_dtype: str) -> float:
    work = decode_step_work(model, _MANY, 0.0, weight_dtype=weight_dtype)
    return sum(part.num_bytes for name, part in work.items() if name not in CACHE_PARTS)
