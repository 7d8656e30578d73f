"""Operators of a decode step and of a prompt on the roofline: work, floor, predicted time, what limits them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import (
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    Mamba2,
    Mixer,
    Model,
    MoeFeedForward,
)
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.device import Device
from advisor.simulator.engine_costs import engine_costs
from advisor.simulator.engine_kernels import operator_library
from advisor.simulator.intervals import prediction_class, with_interval
from advisor.simulator.operator_library import OperatorLibrary, matmul_key
from advisor.simulator.operators.attention_kernels import attended_pairs
from advisor.simulator.operators.matmul import DTYPE_ALIASES, peak_flop_per_s
from advisor.simulator.operators.state_space import delta_net_shape, mamba2_shape
from advisor.simulator.projections import dense_dtype, feed_forward_projections, mixer_projections
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.roofline import Work, floor_s, is_compute_bound, matmul_work
from advisor.simulator.step_roofline import decode_step_work
from advisor.simulator.surface import decode_breakdown_s, prefill_breakdown_s

Phase = Literal["decode", "prefill"]
PHASES: Final[tuple[Phase, ...]] = ("decode", "prefill")
_WORK_OF: Final[Mapping[str, str]] = {
    "attention_projections": "projections",
    "feed_forward": "feed_forward",
    "experts": "experts",
    "head": "head",
    "attention": "attention",
    "state_space": "state",
}
"""Part of the step's work behind each category of its time; other categories have no counted work."""
_WIDE: Final = 2.0
_STATE_FLOP_PER_ELEMENT: Final = 6.0


@dataclass(frozen=True, slots=True)
class RooflineOperator:
    """One kind of operator, summed over all layers of a pass on one accelerator."""

    phase: Phase
    name: str
    work: Work | None
    """None where nothing is counted: small operators, whose tensors stay in the L2, and the host."""
    peak_flop_per_s: float
    """Of the unit that it multiplies on; 0 without work."""
    bound: str
    """memory or compute, by the roof; cache for small operators; host."""
    floor_s: float
    predicted_s: Quantity
    share_fraction: float
    """Of the pass."""

    @property
    def achieved_flop_per_s(self) -> float:
        """Arithmetic over predicted time [flop/s]."""
        return self.work.flop / self.predicted_s.value if self.work else 0.0

    @property
    def roof_fraction(self) -> float:
        """Floor over predicted time: how near the roof it runs."""
        return self.floor_s / self.predicted_s.value


@dataclass(frozen=True, slots=True)
class Pass:
    """A decode step or a prompt."""

    phase: Phase
    num_sequences: int
    context_tokens: int
    predicted_s: Quantity
    floor_s: float
    """Of all its operators one after the other."""
    operators: tuple[RooflineOperator, ...]


def roofline_passes(
    deployment: Deployment, batch_size: int, context_tokens: int, *, roof: Device | None = None
) -> tuple[Pass, Pass]:
    """One decode step of `batch_size` sequences of this context, and the prompt of one sequence that long [s].

    Floors and bounds are those of the roof, by default the deployment's own accelerator.

    Assumes: one accelerator holds the whole model, however small its memory; a prompt runs in one piece; an
    operator errs as its pass does.
    Raises: InfeasibleError: the accelerator cannot be simulated.
    Source: counts of step_roofline and prefill_work; times as in simulator.surface.
    """
    library = operator_library(deployment)
    roof = roof or library.device
    costs = engine_costs(deployment.engine)
    model, formats = deployment.model, (deployment.weight_dtype, deployment.kv_dtype)
    decode_work = decode_step_work(
        model, batch_size, context_tokens, weight_dtype=formats[0], kv_dtype=formats[1]
    )
    decode_s = decode_breakdown_s(deployment, library, costs, batch_size, context_tokens)
    prompt_work = prefill_work(model, context_tokens, weight_dtype=formats[0], kv_dtype=formats[1])
    prompt_s = prefill_breakdown_s(deployment, library, costs, context_tokens)
    return (
        _pass("decode", deployment, library, roof, decode_work, decode_s, batch_size, context_tokens),
        _pass("prefill", deployment, library, roof, prompt_work, prompt_s, 1, context_tokens),
    )


def prefill_work(
    model: Model, num_tokens: int, *, weight_dtype: str = "bf16", kv_dtype: str = "bf16"
) -> Mapping[str, Work]:
    """Work of the prompt of one sequence by part, as `decode_step_work` names them; the head runs on one token.

    Assumes: every matrix, its input and its result move once; routing is uniform.
    Source: own count from the shape.
    """
    parts = dict(decode_step_work(model, num_tokens, 0.0, weight_dtype=weight_dtype, kv_dtype=kv_dtype))
    dense_bytes = bytes_per_element(dense_dtype(model, weight_dtype))
    for name in ("projections", "feed_forward", "attention", "state"):
        parts[name] = Work(0.0, 0.0)
    for group in model.layers:
        for name, matrices in (
            ("projections", mixer_projections(group.mixer, model.hidden_size, 1)),
            ("feed_forward", feed_forward_projections(group.feed_forward, model.hidden_size, 1)),
        ):
            for matrix in matrices:
                stored = dense_bytes if matrix.low_bit else _WIDE
                one = matmul_work(num_tokens, matrix.columns, matrix.depth, weight_bytes=stored)
                parts[name] += one.times(group.count)
        if isinstance(group.feed_forward, MoeFeedForward):
            routed = num_tokens * group.feed_forward.experts_per_token
            width = group.feed_forward.latent_size or model.hidden_size
            moved = _WIDE * routed * (2.0 * width + 3.0 * group.feed_forward.intermediate_size)
            parts["experts"] += Work(0.0, moved).times(group.count)
        parts["attention"] += _attention(group.mixer, num_tokens, kv_dtype).times(group.count)
        parts["state"] += _state(group.mixer, num_tokens).times(group.count)
    table = float(model.vocab_size * model.hidden_size)
    parts["head"] = Work(2.0 * table, table * _WIDE)
    return parts


def _attention(mixer: Mixer | None, num_tokens: int, kv_dtype: str) -> Work:
    """Queries and outputs move once, new keys and values once."""
    kv_bytes = bytes_per_element(kv_dtype)
    if isinstance(mixer, GroupedQueryAttention):
        seen = min(filter(None, (mixer.window_tokens, mixer.sparse_top_k)), default=None)
        query, value = mixer.head_dim, mixer.v_head_dim or mixer.head_dim
        heads, kv_heads = mixer.num_heads, mixer.num_kv_heads
    elif isinstance(mixer, LatentAttention):
        seen = min(filter(None, (mixer.window_tokens, mixer.sparse_top_k)), default=None)
        query, value = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim, mixer.v_head_dim
        heads = kv_heads = mixer.num_heads
    else:
        return Work(0.0, 0.0)
    pairs = float(attended_pairs(num_tokens, 0.0, seen))
    moved = num_tokens * (query + value) * (heads * _WIDE + kv_heads * kv_bytes)
    return Work(2.0 * heads * (query + value) * pairs, moved)


def _state(mixer: Mixer | None, num_tokens: int) -> Work:
    """The state stays on the chip during a prompt; it is written once."""
    if not isinstance(mixer, GatedDeltaNet | Mamba2):
        return Work(0.0, 0.0)
    shape = delta_net_shape(mixer) if isinstance(mixer, GatedDeltaNet) else mamba2_shape(mixer)
    elements = shape.state_bytes / bytes_per_element(mixer.state_dtype)
    return Work(_STATE_FLOP_PER_ELEMENT * elements * num_tokens, shape.state_bytes)


def _pass(
    phase: Phase,
    deployment: Deployment,
    library: OperatorLibrary,
    roof: Device,
    works: Mapping[str, Work],
    seconds: Mapping[str, float],
    num_sequences: int,
    context_tokens: int,
) -> Pass:
    total_s = sum(seconds.values())
    metric = "tpot" if phase == "decode" else "ttft"
    transferred = bool(library.transferred)
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
    return Pass(phase, num_sequences, context_tokens, whole, floor, tuple(operators))


def _peak(name: str, deployment: Deployment, device: Device) -> float:
    """Dense peak of the unit behind a category [flop/s]: attention, state and head run in 16 bits."""
    if name not in ("attention_projections", "feed_forward", "experts"):
        return peak_flop_per_s("bf16", device)
    weight = deployment.weight_dtype
    if name != "experts":
        weight = dense_dtype(deployment.model, weight)
    same = weight == deployment.weight_dtype
    activation = deployment.activation_dtype if same else activation_dtype_for(weight, deployment.accelerator)
    key = matmul_key(weight, activation)
    return peak_flop_per_s(DTYPE_ALIASES.get(key, key), device)


def _bound(name: str, work: Work | None, peak: float, device: Device) -> str:
    if work is not None:
        return "compute" if is_compute_bound(work, peak, device.bandwidth_bytes_per_s) else "memory"
    return "host" if name == "host" else "cache"
