"""First screen: what the datasheet allows at best, for every candidate at once.

The bound is optimistic by construction — full peak, full bandwidth, no host, no links, prompts hidden behind
decoding wherever they could be — so a candidate whose bound loses cannot win when simulated.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.parameters import parameter_count
from advisor.catalog.schema import MoeFeedForward
from advisor.recommend.candidates import Candidate
from advisor.recommend.scenario import Objectives, Traffic
from advisor.simulator.projections import expert_elements

FloatArray = NDArray[np.float64]


def max_requests_per_s(
    candidates: Sequence[Candidate], traffic: Traffic, objectives: Objectives
) -> FloatArray:
    """Most requests per second that one replica of each candidate could ever serve [1/s]; 0 where even the bound
    misses an objective.

    Per batch d: a decode step reads the weights that d tokens touch and their caches, and multiplies; requests pay
    the slower of memory and matrix time, prompts included. The best d within cache and TPOT counts.

    Assumes: one prompt alone must meet the TTFT objective.
    Source: roofline model (Williams et al. 2009, doi:10.1145/1498765.1498785); own derivation.
    """
    if not candidates:
        return np.zeros(0)
    columns = np.array([_numbers(candidate) for candidate in candidates]).T
    dense, expert, hit, kv_per_token, flop_per_token, bandwidth, peak, cache_tokens, max_seqs, dp = (
        column[:, None] for column in columns
    )
    context = traffic.mean_context_tokens
    batch = np.unique(np.geomspace(1, 4096, 48).round())[None, :]
    touched = dense + expert * (1.0 - (1.0 - hit) ** batch)
    memory_s = (touched + np.ceil(batch / dp) * context * kv_per_token) / bandwidth
    compute_s = batch * flop_per_token / peak
    step_s = np.maximum(memory_s, compute_s)
    fits = (batch <= max_seqs) & (batch * context <= np.maximum(cache_tokens, context))
    allowed = fits & (step_s <= objectives.tpot_p99_s)
    tokens = traffic.mean_input_tokens + traffic.mean_output_tokens
    per_request_s = np.maximum(traffic.mean_output_tokens / batch * memory_s, tokens * flop_per_token / peak)
    rate = np.where(allowed, 1.0 / per_request_s, 0.0).max(axis=1)
    prompt_s = (traffic.mean_input_tokens * flop_per_token / peak)[:, 0]
    return np.where(prompt_s <= objectives.ttft_p99_s, rate, 0.0)


def _numbers(candidate: Candidate) -> tuple[float, ...]:
    """Per accelerator: dense bytes, expert bytes, chance that a token hits an expert, cache bytes per token, flop
    per token; bandwidth, peak; per replica: cache tokens, sequences, attention ranks."""
    deployment = candidate.deployment
    model, accelerator = deployment.model, deployment.accelerator
    expert_bytes, hit = 0.0, 1.0
    for group in model.layers:
        if isinstance(group.feed_forward, MoeFeedForward):
            experts = group.count * group.feed_forward.num_experts
            expert_bytes += experts * expert_elements(group.feed_forward, model.hidden_size)
            hit = group.feed_forward.experts_per_token / group.feed_forward.num_experts
    ranks = deployment.accelerators_per_replica
    expert_bytes *= bytes_per_element(deployment.weight_dtype) / ranks
    # The embedding table is looked up, not read; being optimistic, the head is left out as well.
    tables = (
        2.0 * model.vocab_size * model.hidden_size * bytes_per_element("bf16") / deployment.tensor_parallel
    )
    dense_bytes = max(0.0, candidate.memory.weight_bytes - expert_bytes - tables)
    peaks = accelerator.peak_flop_per_s
    peak = peaks.get(_PEAK_KEY.get(deployment.activation_dtype, "bf16")) or peaks.get("bf16") or peaks["fp16"]
    return (
        dense_bytes,
        expert_bytes,
        hit,
        candidate.memory.kv_bytes_per_token,
        2.0 * parameter_count(model).active / ranks,
        accelerator.bandwidth_bytes_per_s or 0.0,
        peak,
        float(candidate.memory.kv_capacity_tokens),
        float(candidate.max_num_seqs),
        float(deployment.data_parallel),
    )


_PEAK_KEY = {"fp8": "fp8", "int8": "int8", "nvfp4": "fp4", "bf16": "bf16"}
