"""Iterations of a running engine on our own hardware, and what the step-cost surface makes of them."""

import json
from dataclasses import dataclass, replace

from advisor.catalog import engines
from advisor.catalog.files import DATA_DIR
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.deployment import named_deployment
from advisor.simulator.engine_costs import engine_costs
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.step_cost import StepSurface, decode_iteration_s

_RECORD = DATA_DIR / "measured" / "h200-sxm-vllm-iterations-2026-11-22.json"
_ACCELERATOR, _ENGINE, _RELEASE = "h200-sxm", "vllm", "0.20.2"


@dataclass(frozen=True, slots=True)
class EngineIteration:
    """Median time of the iterations of one load that are alike."""

    model: str
    weight_dtype: str
    iteration: str
    """decode, or mixed: decodes and prompts."""
    sequences: int
    """Decoding."""
    new_tokens: int
    """Of whole prompts."""
    input_tokens: int
    context_tokens: float
    median_s: float
    num_samples: int


def measured_iterations() -> list[EngineIteration]:
    """vLLM 0.20.2 on one H200, random weights, as its scheduler saw answers come back.

    Source: catalog/data/measured/h200-sxm-vllm-iterations-2026-11-22.json, which states the conditions.
    """
    document = json.loads(_RECORD.read_text(encoding="utf-8"))
    return [EngineIteration(**dict(zip(document["columns"], row, strict=True))) for row in document["rows"]]


def predicted_iteration_s(row: EngineIteration) -> float:
    """Time of such an iteration [s].

    Assumes: tokens spread evenly over experts, as they do with random weights: what real routing spares or crowds
    (`expert_scale`, `expert_prefill_scale`) is left out.
    Source: own composition.
    """
    costs = engine_costs(engines.by_id(_ENGINE), version=_RELEASE)
    replica = model_replica(
        named_deployment(row.model, _ACCELERATOR, _ENGINE, weight_dtype=row.weight_dtype),
        mean_input_tokens=row.input_tokens,
        mean_output_tokens=2.0 * (row.context_tokens - row.input_tokens),
        settings=EngineSettings(version=_RELEASE),
        costs=replace(costs, expert_scale=1.0, expert_prefill_scale=1.0),
    )
    if row.iteration == "decode":
        return decode_iteration_s(replica.surface, row.sequences, row.context_tokens)
    return _mixed_iteration_s(replica.surface, row)


def _mixed_iteration_s(surface: StepSurface, row: EngineIteration) -> float:
    """An iteration of decodes and whole prompts, by the formula of StepSurface [s]."""
    decodes, window = row.sequences, surface.window_tokens
    mean_attended = row.input_tokens / 2.0
    total_ps = float(surface.mixed_base_ps[decodes + row.new_tokens])
    total_ps += surface.prefill_pair_ps * row.new_tokens * mean_attended
    total_ps += decodes * (
        surface.decode_context_ps[decodes] * row.context_tokens + surface.riding_sequence_ps
    )
    total_ps += surface.prefill_sequence_ps * row.new_tokens / row.input_tokens
    if window is not None:
        total_ps += surface.decode_window_ps[decodes] * decodes * min(row.context_tokens, window)
        total_ps += surface.prefill_window_pair_ps * row.new_tokens * min(mean_attended, window)
    return total_ps / PICOSECONDS_PER_S
