"""Iterations of a running engine on the project's own hardware, and the step-cost surface's times of them."""

import json
from dataclasses import dataclass, replace

from advisor.catalog import engines
from advisor.catalog.files import data_files, read_text
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.deployment import named_deployment
from advisor.simulator.engine_costs import engine_costs
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.serving.batch import MicroBatch, Prefill
from advisor.simulator.serving.pipeline import decode_ps, mixed_ps, step_tables


@dataclass(frozen=True, slots=True)
class EngineIteration:
    """Median time of the similar iterations of one load."""

    accelerator: str
    engine: str
    release: str
    model: str
    weight_dtype: str
    iteration: str
    """Kind of iteration: decode, prompts, or mixed (decodes and prompts)."""
    sequences: int
    """Number of sequences that decode."""
    new_tokens: int
    """New tokens of prompts, which are computed one after the other."""
    input_tokens: int
    context_tokens: int
    median_s: float
    num_samples: int


def measured_iterations() -> list[EngineIteration]:
    """Return measured iterations of engines with random weights, as their schedulers saw outputs come back: vLLM on
    one H200 and two H100s, SGLang on one H100.

    Source: catalog/data/measured/*-iterations-*.json, which state the conditions.
    """
    found = []
    for path in data_files("measured/*-iterations-*.json"):
        document = json.loads(read_text(path))
        run = (document["accelerator"], document["engine"], document["release"])
        cells = (dict(zip(document["columns"], row, strict=True)) for row in document["rows"])
        found += [EngineIteration(*run, **of_row) for of_row in cells]
    return found


def predicted_iteration_s(row: EngineIteration) -> float:
    """Time of the iteration, composed and priced as the simulator's own loop does it [s].

    Assumes: tokens spread evenly over experts, as they do with random weights: what real routing spares or crowds
    (`expert_scale`, `expert_prefill_scale`) is left out.
    """
    costs = engine_costs(engines.by_id(row.engine), version=row.release)
    replica = model_replica(
        named_deployment(row.model, row.accelerator, row.engine, weight_dtype=row.weight_dtype),
        mean_input_tokens=row.input_tokens,
        mean_output_tokens=max(1.0, 2.0 * (row.context_tokens - row.input_tokens)),
        settings=EngineSettings(version=row.release),
        costs=replace(costs, expert_scale=1.0, expert_prefill_scale=1.0),
    )
    tables = step_tables(replica.surface, replica.policy)
    batch = MicroBatch(replica.policy.block_tokens, tables.window_tokens)
    for order in range(row.sequences):
        batch.compute(order, row.context_tokens)
    for start in range(0, row.new_tokens, row.input_tokens):
        prompt = Prefill((0, start, row.input_tokens, 1), start, row.input_tokens, 0)
        batch.take(prompt, min(row.input_tokens, row.new_tokens - start), num_blocks=0)
    decode_s = decode_ps(tables, batch)[0] / PICOSECONDS_PER_S if row.sequences else 0.0
    if not row.new_tokens:
        return decode_s
    mixed_s = mixed_ps(tables, batch, row.sequences) / PICOSECONDS_PER_S
    if row.new_tokens > row.input_tokens:
        # Batches of several prompts follow each other without a pause; a single prompt starts on an idle board.
        work_s = max(0.0, mixed_s - tables.reading_ps / PICOSECONDS_PER_S)
        mixed_s += (tables.limited_scale - 1.0) * work_s
    if row.sequences + row.new_tokens <= tables.captured_tokens:
        return mixed_s
    # The host launches the prompts while the device decodes the sequences of the same iteration.
    return max(mixed_s, tables.launch_ps / PICOSECONDS_PER_S - decode_s)
