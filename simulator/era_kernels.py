"""Engines of an earlier time: what their kernels and hosts cost beyond those that the operator records describe.

Operator records are fitted on recent kernels. An early engine on the same chip read shared keys and values once per
query head, multiplied few rows at a fraction of the matrix units' rate, or kept the device waiting longer between
steps. Each of these is a term of the step-cost surface.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import layers_of, parameter_count
from advisor.simulator.step_cost import StepSurface
from advisor.simulator.terms import Case, filled


@dataclass(frozen=True, slots=True)
class EraKernels:
    """Terms of early releases on one architecture, `early_...` in the table of terms; the defaults change nothing.

    Source: evidence/fit/static.py.
    """

    step_s: float = 0.0
    """Added to every iteration."""
    sequence_s: float = 0.0
    """Added per sequence and decode step."""
    row_fraction: float = 0.0
    """Of the 16-bit peak, at which further rows of a decode step multiply; 0 adds nothing."""
    attention_scale: float = 1.0
    """Decode attention, relative to the operator's record."""
    attention_repeat: float = 0.0
    """How often each further query head of a group reads the cache again."""
    prefill_scale: float = 1.0
    """Iterations with prompts, relative to the operators' records."""


@lru_cache(maxsize=512)
def era_kernels(engine_id: str, architecture: str, *, version: str = "", date: str = "") -> EraKernels | None:
    """The terms of an engine's release on an architecture; None where it needs none.

    Source: catalog/data/terms.csv.
    """
    case = Case(engine_id, version, date, architecture)
    found = filled(EraKernels, "engine", case, prefix="early_")
    return None if found == EraKernels() else found


def with_era_kernels(surface: StepSurface, deployment: Deployment, kernels: EraKernels) -> StepSurface:
    """The surface of a deployment under an earlier engine [integer ps].

    Assumes: what is added per row is matrix work that the stage's accelerators share.
    Source: own composition.
    """
    row_s = kernels.sequence_s
    if kernels.row_fraction > 0:
        flop = 2.0 * parameter_count(deployment.model).active / deployment.pipeline_parallel
        peak = deployment.accelerator.peak_flop_per_s["bf16"] * kernels.row_fraction
        row_s += flop / (peak * deployment.ranks_per_stage)
    step_ps, row_ps = (round(seconds * PICOSECONDS_PER_S) for seconds in (kernels.step_s, row_s))
    attention = kernels.attention_scale * (
        1.0 + kernels.attention_repeat * (_mean_group_size(deployment) - 1.0)
    )
    prefill = kernels.prefill_scale
    return replace(
        surface,
        decode_base_ps=[
            base + step_ps + row_ps * batch if batch else 0
            for batch, base in enumerate(surface.decode_base_ps)
        ],
        decode_context_ps=[round(slope * attention) for slope in surface.decode_context_ps],
        decode_window_ps=[round(slope * attention) for slope in surface.decode_window_ps],
        mixed_base_ps=[
            round(base * prefill) + step_ps if tokens else 0
            for tokens, base in enumerate(surface.mixed_base_ps)
        ],
        prefill_pair_ps=surface.prefill_pair_ps * prefill,
        prefill_window_pair_ps=surface.prefill_window_pair_ps * prefill,
    )


def _mean_group_size(deployment: Deployment) -> float:
    """Query heads per key-value head on one rank, averaged over layers of grouped-query attention."""
    tp = deployment.tensor_parallel
    sizes = [
        (layer.count, layer.attention.num_heads / tp / max(1, layer.attention.num_kv_heads // tp))
        for layer in layers_of(deployment.model)
        if layer.attention is not None and not layer.attention.latent
    ]
    return sum(count * size for count, size in sizes) / sum(count for count, _ in sizes) if sizes else 1.0
