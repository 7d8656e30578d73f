"""Iterations of a running engine, which no fit has seen, against the step-cost surface."""

import json
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
import pytest

from advisor.catalog import engines
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.deployment import named_deployment
from advisor.simulator.engine_costs import engine_costs
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.step_cost import StepSurface, decode_iteration_s

MEASURED = "data/measured/h200-sxm-vllm-iterations-2026-11-22.json"
RELEASE = "0.20.2"


@dataclass(frozen=True)
class Iteration:
    """One row of the record; `sequences` decode, `new_tokens` of prompts ride along."""

    model: str
    weight_dtype: str
    iteration: str
    sequences: int
    new_tokens: int
    input_tokens: int
    context_tokens: float
    median_s: float
    num_samples: int


def measured() -> list[Iteration]:
    document = json.loads(files("advisor.catalog").joinpath(MEASURED).read_text(encoding="utf-8"))
    return [Iteration(**dict(zip(document["columns"], row, strict=True))) for row in document["rows"]]


def predicted_s(row: Iteration) -> float:
    """Time of the iteration where tokens spread evenly over experts, as they do with random weights [s]."""
    costs = engine_costs(engines.by_id("vllm"), version=RELEASE)
    replica = model_replica(
        named_deployment(row.model, "h200-sxm", "vllm", weight_dtype=row.weight_dtype),
        mean_input_tokens=row.input_tokens,
        mean_output_tokens=2.0 * (row.context_tokens - row.input_tokens),
        settings=EngineSettings(version=RELEASE),
        costs=replace(costs, expert_scale=1.0, expert_prefill_scale=1.0),
    )
    if row.iteration == "decode":
        return decode_iteration_s(replica.surface, row.sequences, row.context_tokens)
    return mixed_iteration_s(replica.surface, row)


def mixed_iteration_s(surface: StepSurface, row: Iteration) -> float:
    """An iteration of decodes and whole prompts, by the formula of StepSurface [s]."""
    decodes, window = row.sequences, surface.window_tokens
    pairs = row.new_tokens * row.input_tokens / 2.0
    total_ps = surface.mixed_base_ps[decodes + row.new_tokens] + surface.prefill_pair_ps * pairs
    total_ps += decodes * (
        surface.decode_context_ps[decodes] * row.context_tokens + surface.riding_sequence_ps
    )
    total_ps += surface.prefill_sequence_ps * row.new_tokens / row.input_tokens
    if window is not None:
        capped = min(row.context_tokens, window)
        total_ps += surface.decode_window_ps[decodes] * decodes * capped
        total_ps += surface.prefill_window_pair_ps * row.new_tokens * min(row.input_tokens / 2.0, window)
    return total_ps / PICOSECONDS_PER_S


@pytest.mark.parametrize(
    ("model", "iteration", "median", "worst"),
    [
        ("llama-3.1-8b", "decode", 0.03, 0.07),
        ("llama-3.1-8b", "mixed", 0.08, 0.08),
        ("qwen3-30b-a3b", "decode", 0.04, 0.1),
        ("qwen3-30b-a3b", "mixed", 0.05, 0.11),
        ("gpt-oss-20b", "decode", 0.19, 0.24),  # the record of mxfp4 experts on Hopper is of slower kernels
        ("gpt-oss-20b", "mixed", 0.05, 0.12),
    ],
)
def test_iterations_of_a_running_engine(model: str, iteration: str, median: float, worst: float) -> None:
    rows = [row for row in measured() if (row.model, row.iteration) == (model, iteration)]
    wrong = np.abs([predicted_s(row) / row.median_s - 1.0 for row in rows])
    assert len(rows) >= 2
    assert np.median(wrong) < median
    assert wrong.max() < worst


def test_the_host_decides_beyond_the_largest_graph() -> None:
    """999 sequences take twice as long as 500: their launches and their bookkeeping outlast the kernels."""
    inside, beyond = (
        next(
            row
            for row in measured()
            if row.model == "qwen3-30b-a3b" and row.sequences == count and row.input_tokens == 512
        )
        for count in (500, 999)
    )
    assert beyond.median_s > 1.8 * inside.median_s
    assert predicted_s(beyond) > 1.6 * predicted_s(inside)
