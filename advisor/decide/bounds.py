"""Optimistic bounds: the screens before simulation, without queues or randomness.

First by datasheet, for every candidate at once, then by the step-cost surface of a replica. The first is optimistic by
construction — full peak, full bandwidth, no host, no links, prompts hidden behind decoding wherever they could be — so
a candidate whose bound loses cannot win when simulated.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema.model import Part
from advisor.catalog.units import PICOSECONDS_PER_S, plain_number
from advisor.decide.reason import LongPrompts, SlowAlone, SlowByDatasheet
from advisor.decide.scenario import Objectives, ServiceLevel, Traffic
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.engine_costs import engine_costs
from advisor.simulator.graph.model import (
    dense_dtype,
    dense_weight_bytes,
    expert_weight_bytes,
    is_moe,
    layers_in,
)
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.roofline import decode_step_work, is_compute_bound, total_work

if TYPE_CHECKING:  # the surface of one replica needs no candidates, nor their prices
    from advisor.decide.candidates import Candidate

FloatArray = NDArray[np.float64]

PEAK_KEYS = {"fp8": "fp8", "int8": "int8", "nvfp4": "fp4", "mxfp4": "fp4", "bf16": "bf16", "fp16": "bf16"}
"""Key of the peak of an accelerator that multiplies a number format."""
_LARGEST_BATCH = 4096
_NUM_BATCHES = 64
_LINK = ("collectives",)
_HOST = ("host",)
_KV = ("attention",)
_WEIGHTS = ("projections", "feed_forward", "experts", "head")
_EIGHTHS = (8, 7, 6, 5, 4, 3.5, 3, 2.5, 2, 1.5, 1, 0.5, 0.25)
"""Eighths of a power of two of tokens at which the surface's table has its corners; between them it is linear."""
_MOST_OF_LIMIT = 0.5
"""Note an objective whose limit long prompts alone take by more than this fraction."""
NEARLY_FULL = 0.9
"""Fraction of the KV cache in use above which requests wait for cache."""


def roofline_requests_per_s(
    candidates: Sequence["Candidate"], traffic: Traffic, objectives: Objectives
) -> FloatArray:
    """Most requests per second that one replica of each candidate could ever serve [1/s]; 0 where even the bound
    misses an objective.

    Per batch d: a decode step reads the weights that d tokens touch and their caches, and multiplies; requests pay
    the slower of memory and matrix time, prompts included. Larger batches serve more, so the largest within cache
    and TPOT counts, the next on a grid where it lies between two.

    Beginnings that a prefix cache holds are not computed and take no room of their own; a step of speculation yields
    its expected tokens for the reads of one.

    Assumes: one prompt alone must meet the TTFT objective; of windows and sparse attention only the dense layers'
    cache is read.
    Source: roofline model (Williams et al. 2009, doi:10.1145/1498765.1498785); own derivation.
    """
    if not candidates:
        return np.zeros(0)
    roof = _roofline(candidates, traffic)
    allowed = roof.step_s <= objectives.largest_tpot_s
    nearly = allowed.copy()
    nearly[:, 1:] |= allowed[:, :-1]  # the largest batch within the objective lies up to one point further
    steps = max(0.0, traffic.mean_output_tokens - 1.0)
    per_request_s = np.maximum(steps / roof.batch * roof.memory_s, roof.computing_s)
    rate = np.where(nearly, 1.0 / per_request_s, 0.0).max(axis=1)
    return np.where(roof.prompt_s <= objectives.largest_ttft_s, rate, 0.0)


def roofline_miss(candidate: "Candidate", traffic: Traffic, objectives: Objectives) -> SlowByDatasheet:
    """Return the objective that a candidate misses most by `roofline_requests_per_s`, with the least of its latency.

    Source: the same roofline, at the batch and the prompt that take the shortest time.
    """
    roof = _roofline([candidate], traffic)
    least = (
        (objectives.shortest("tpot"), float(roof.step_s.min())),
        (objectives.shortest("ttft", "e2e"), float(roof.prompt_s[0])),
    )
    found = [SlowByDatasheet(level.name, least_s, level.limit_s) for level, least_s in least if level]
    return max(found, key=lambda miss: miss.excess)


class _Roofline(NamedTuple):
    """Times of candidates at full peak and bandwidth, by candidate and, with two axes, by batch."""

    batch: FloatArray
    memory_s: FloatArray
    """Time in which a decode step reads its bytes [s]."""
    step_s: FloatArray
    """Time of a decode step per output token of a sequence [s]."""
    computing_s: FloatArray
    """Time in which a request is computed, its prompt included [s]."""
    prompt_s: FloatArray
    """Time in which the mean prompt is computed [s]; one axis."""


def _roofline(candidates: Sequence["Candidate"], traffic: Traffic) -> _Roofline:
    columns = np.array([_numbers(candidate) for candidate in candidates]).T
    (
        dense,
        expert,
        hit,
        kv_per_token,
        layer_flop,
        head_flop,
        bandwidth,
        peak,
        cache_tokens,
        max_seqs,
        dp,
        reuses,
        yielded,
    ) = (column[:, None] for column in columns)
    context = traffic.mean_context_tokens
    reused = reuses * traffic.reused_input_tokens
    most = np.minimum(max_seqs, np.maximum(1.0, cache_tokens / (context - reused)))
    grid = np.unique(np.geomspace(1, _LARGEST_BATCH, _NUM_BATCHES).round())[None, :]
    batch = np.minimum(grid, most)
    touched = dense + expert * (1.0 - (1.0 - hit) ** batch)
    memory_s = (touched + batch / dp * context * kv_per_token) / bandwidth / yielded
    step_s = np.maximum(memory_s, batch * (layer_flop + head_flop) / peak)
    steps = max(0.0, traffic.mean_output_tokens - 1.0)
    computed = traffic.mean_input_tokens - reused
    flop = (computed + steps) * layer_flop + traffic.mean_output_tokens * head_flop
    return _Roofline(batch, memory_s, step_s, flop / peak, (computed * layer_flop / peak)[:, 0])


def _numbers(candidate: "Candidate") -> tuple[float, ...]:
    """Return the numbers of a candidate. Per accelerator: dense bytes, expert bytes, chance that a token hits an
    expert, cache bytes per token, FLOP per token of layers and head; bandwidth, peak. Per replica: cache tokens,
    sequences, attention ranks, whether it keeps prefixes, tokens of an iteration."""
    deployment = candidate.deployment
    model = deployment.model
    accelerator = deployment.accelerator
    dense_bytes = expert_bytes = 0.0
    hit = 1.0
    for layer in layers_in(model, decode=True):
        dense_bytes += layer.count * dense_weight_bytes(
            model, layer, deployment.weight_dtype, deployment.tensor_parallel
        )
        expert_bytes += layer.count * expert_weight_bytes(model, layer, deployment.weight_dtype)
        hit = layer.experts.hit_fraction if layer.experts else hit
    ranks = deployment.accelerators_per_replica
    active = min(
        sum(layer.count * layer.active for layer in layers_in(model, decode=decode))
        for decode in (True, False)
    )
    # Kernels inside an engine may run faster than measured alone; the bound must not be slower than they.
    speed = 1.0 / _least_scale(deployment)
    return (
        dense_bytes / deployment.pipeline_parallel,
        expert_bytes / ranks,
        hit,
        _dense_cache_bytes(deployment),
        2.0 * active / ranks,
        2.0 * model.vocab_size * model.hidden_size / ranks,
        (accelerator.bandwidth_bytes_per_s or 0.0) * speed,
        fastest_peak_flop_per_s(deployment) * speed,
        float(candidate.memory.kv_capacity_tokens),
        float(candidate.max_num_seqs),
        float(deployment.data_parallel),
        float(candidate.caches_prefixes),
        candidate.speculation.speculation.tokens_per_step if candidate.speculation else 1.0,
    )


def fastest_peak_flop_per_s(deployment: Deployment) -> float:
    """Dense peak of the fastest unit that any matrix of the deployment uses, on one accelerator [flop/s]."""
    peaks = deployment.accelerator.peak_flop_per_s
    parts: tuple[Part, ...] = ("mixer", "feed_forward", "shared_experts")
    dense = {
        activation_dtype_for(
            dense_dtype(deployment.model, deployment.weight_dtype, part), deployment.accelerator
        )
        for part in parts
    }
    found = [peaks.get(PEAK_KEYS.get(dtype, "bf16")) for dtype in (deployment.activation_dtype, *dense)]
    known = [peak for peak in found if peak]
    return max(known) if known else peaks.get("bf16") or peaks["fp16"]


def _least_scale(deployment: Deployment) -> float:
    costs = engine_costs(deployment.engine, version=deployment.engine.release)
    experts = (costs.expert_scale, costs.expert_prefill_scale) if is_moe(deployment.model) else ()
    return float(min(1.0, costs.kernel_scale * min(1.0, costs.prefill_scale) * min((1.0, *experts))))


def _dense_cache_bytes(deployment: Deployment) -> float:
    """Cache read per token of context on one accelerator, of layers that attend to all of it [bytes]."""
    total = 0.0
    for layer in layers_in(deployment.model, decode=True):
        attention = layer.attention
        if attention is not None and not (attention.window_tokens or attention.top_k):
            read = attention.cached_bytes(deployment.kv_dtype)
            total += layer.count * read * attention.cache_share(deployment.tensor_parallel)
    return total / deployment.pipeline_parallel


def bottleneck_of(
    replica: ReplicaModel, breakdown_s: Mapping[str, float], batch: float, mean_kv_tokens: float
) -> str:
    """The resource that the decode step waits for most: KV capacity, HBM (weights), HBM (KV cache), compute, link or
    host.

    Weights count as compute where multiplying the batch takes longer than reading the matrices.

    Assumes: the batch is what the simulated run had on average.
    Source: own definition; roofline of the weights at that batch.
    """
    capacity = replica.memory.kv_capacity_tokens
    if capacity and mean_kv_tokens > NEARLY_FULL * capacity:
        return "KV capacity"
    total = sum(breakdown_s.values())
    shares = {
        "link": sum(breakdown_s.get(name, 0.0) for name in _LINK) / total,
        "host": sum(breakdown_s.get(name, 0.0) for name in _HOST) / total,
        "HBM (KV cache)": sum(breakdown_s.get(name, 0.0) for name in _KV) / total,
    }
    shares["weights"] = 1.0 - sum(shares.values())
    largest = max(shares, key=lambda name: shares[name])
    if largest != "weights":
        return largest
    return "compute" if _compute_bound(replica, batch) else "HBM (weights)"


def _compute_bound(replica: ReplicaModel, batch: float) -> bool:
    """Whether a batch multiplies longer than the weights that it touches take to read."""
    deployment = replica.deployment
    bandwidth = replica.library.device.bandwidth_bytes_per_s
    parts = decode_step_work(deployment.model, batch, 1.0, weight_dtype=deployment.weight_dtype)
    weights = total_work(parts[name] for name in _WEIGHTS)
    return is_compute_bound(weights, fastest_peak_flop_per_s(deployment), bandwidth)


def surface_requests_per_s(replica: ReplicaModel, traffic: Traffic, objectives: Objectives) -> float:
    """Most requests per second of one replica in an ideal steady state [1/s]; 0 where an objective cannot be met.

    At batch d a request needs (output − 1) / d decode iterations, its first token comes from its prompt, and
    prompt / P iterations that carry P prompt tokens instead of pure decoding. Where prompts run apart from
    decoding, both times add up. The best (d, P) within cache and TPOT counts. Stages of a pipeline work on
    different batches, so one stage's time counts, but a token passes them all. Beginnings that the cache holds are
    neither computed nor held again.

    Assumes: decoding sequences have the mean context at least; windows hold no more than the prompt fills.
    Source: own derivation; the simulator can only be slower, tests/advisor/decide/test_bounds.py.
    """
    surface = replica.surface
    policy = replica.policy
    batch, attend, decode_s, token_s = _decode_steps(replica, traffic)
    allowed = token_s <= objectives.largest_tpot_s
    if not allowed.any():
        return 0.0
    prompt = traffic.mean_input_tokens - (traffic.reused_input_tokens if policy.prefix_caching else 0.0)
    decoding_ps = np.asarray(surface.mixed_base_ps[: len(batch) + 1], dtype=np.float64)
    iterations = max(0.0, traffic.mean_output_tokens - 1.0) / batch
    pair_ps = surface.prefill_pair_ps * prompt / 2.0
    least_s = math.inf
    for tokens in iteration_tokens(policy.max_num_batched_tokens):
        if policy.kind != "mixed":
            prefill_s = (surface.mixed_base_ps[tokens] / tokens + pair_ps) * prompt / PICOSECONDS_PER_S
            least_s = min(least_s, float((iterations * decode_s + prefill_s)[allowed].min()))
            continue
        chunk = np.maximum(1, tokens - batch)
        alone_ps = np.where(batch > tokens, decoding_ps[batch], surface.mixed_base_ps[tokens])
        mixed_s = (alone_ps + attend + pair_ps * chunk) / PICOSECONDS_PER_S
        carrying = prompt / chunk
        seconds = np.maximum(0.0, iterations - carrying) * decode_s + carrying * mixed_s
        least_s = min(least_s, float(seconds[allowed].min()))
    return 1.0 / least_s


NO_OBJECTIVES = Objectives(ttft_p99_s=None, tpot_p99_s=None)
"""Objectives of a question about the highest throughput, whatever the latency."""


def capacity_per_s(replica: ReplicaModel, traffic: Traffic) -> float:
    """Return the most requests per second of one replica without objectives [1/s].

    Source: `surface_requests_per_s`.
    """
    return surface_requests_per_s(replica, traffic, NO_OBJECTIVES)


def pools_capacity_per_s(
    prefill: ReplicaModel, num_prefill: int, decode: ReplicaModel, num_decode: int, traffic: Traffic
) -> float:
    """Return the most requests per second of workers that only prefill and workers that only decode [1/s]: that of the
    slower pool.

    Assumes: the link between the pools is no limit.
    Source: `least_prompt_s`; the decode steps of the surface.
    """
    prompts_per_s = num_prefill / least_prompt_s(prefill, float(traffic.mean_input_tokens))
    steps = _decode_steps(decode, traffic)
    tokens_per_s = float((steps.batch / steps.decode_s).max())
    return min(prompts_per_s, num_decode * tokens_per_s / max(1.0, traffic.mean_output_tokens - 1.0))


class _DecodeSteps(NamedTuple):
    """Decode steps of a replica by the sequences that its cache and scheduler allow."""

    batch: NDArray[np.int_]
    attend_ps: FloatArray
    """Time in which sequences of the mean length attend [ps]."""
    decode_s: FloatArray
    """Time of a step of one stage [s]."""
    token_s: FloatArray
    """Time per output token, through all stages [s]."""


def _decode_steps(replica: ReplicaModel, traffic: Traffic) -> _DecodeSteps:
    surface = replica.surface
    context = traffic.mean_context_tokens
    reused = traffic.reused_input_tokens if replica.policy.prefix_caching else 0.0
    most = int(max(replica.memory.kv_capacity_tokens / (context - reused), 1.0))
    batch = np.arange(1, min(replica.policy.num_slots, most) + 1)
    attend: FloatArray = np.asarray(surface.decode_context_ps, dtype=np.float64)[batch] * batch * context
    if surface.window_tokens is not None:
        windowed = _mean_up_to(float(traffic.mean_input_tokens), traffic.input_sigma, surface.window_tokens)
        attend = attend + np.asarray(surface.decode_window_ps)[batch] * batch * windowed
    decode_s = (np.asarray(surface.decode_base_ps)[batch] + attend) / PICOSECONDS_PER_S
    token_s = surface.num_stages * (decode_s + surface.stage_transfer_ps / PICOSECONDS_PER_S)
    return _DecodeSteps(batch, attend, decode_s, token_s)


def slow_alone(replica: ReplicaModel, traffic: Traffic, objectives: Objectives) -> SlowAlone | None:
    """Return why even the fastest batch of a replica misses the time per output token; None where one keeps it."""
    level = objectives.shortest("tpot")
    if level is None:
        return None
    least_s = float(_decode_steps(replica, traffic).token_s.min())
    return SlowAlone(level.name, least_s, level.limit_s) if least_s > level.limit_s else None


def least_prompt_s(replica: ReplicaModel, tokens: float) -> float:
    """Return the least time of a prompt of `tokens` tokens that waits for no other request [s].

    Source: the surface's cost of a token in the best of iterations, and of every pair of tokens.
    """
    surface = replica.surface
    most = replica.policy.max_num_batched_tokens
    token_ps = min(surface.mixed_base_ps[size] / size for size in iteration_tokens(most))
    return (token_ps + surface.prefill_pair_ps * tokens / 2.0) * tokens / PICOSECONDS_PER_S


def longest_alone(replica: ReplicaModel, traffic: Traffic, level: ServiceLevel) -> tuple[float, float]:
    """Return the longest prompt that an objective on TTFT must still cover [tokens], and its least time alone [s].
    Both are 0 for other metrics, and for traffic that does not state how much of a long prompt is reused."""
    if level.metric != "ttft" or traffic.conversations or traffic.trace or traffic.part:
        return 0.0, 0.0
    tokens = traffic.prompt_tokens(level.percent)
    reused = traffic.reused_input_tokens if replica.policy.prefix_caching else 0.0
    return tokens, least_prompt_s(replica, tokens - reused)


def too_long_a_prompt(replica: ReplicaModel, traffic: Traffic, objectives: Objectives) -> LongPrompts | None:
    """Return why the lengths of prompts alone miss an objective, at any load; None where they do not."""
    for level in objectives.levels:
        tokens, alone_s = longest_alone(replica, traffic, level)
        if alone_s > level.limit_s:
            one_in = 100.0 / (100.0 - level.percent)
            return LongPrompts(level.name, alone_s, level.limit_s, one_in, tokens)
    return None


def tail_note(replica: ReplicaModel, traffic: Traffic, objectives: Objectives) -> str:
    """How much of an objective the lengths of prompts alone take, where that is most of it; else empty."""
    for level in objectives.levels:
        tokens, alone_s = longest_alone(replica, traffic, level)
        if alone_s > _MOST_OF_LIMIT * level.limit_s:
            return (
                f"{level.name} depends on long prompts: one in {_one_in(level)} is longer than {tokens:,.0f} "
                f"tokens, which take {plain_number(alone_s, 2)} of the {level.limit_s:g} s alone on option 1"
            )
    return ""


def _one_in(level: ServiceLevel) -> str:
    return f"{plain_number(100.0 / (100.0 - level.percent))}"


def iteration_tokens(largest: int) -> list[int]:
    """Tokens of an iteration with a prompt chunk at which its time per token can be least, the largest included.

    Source: the surface's table is straight between its corners.
    """
    power = 1 << (largest.bit_length() - 1)
    return sorted({largest, *(max(1, int(power * eighth / 8)) for eighth in _EIGHTHS)})


def _mean_up_to(mean: float, sigma: float, most: float) -> float:
    """Mean of a lognormal length where what exceeds `most` counts as `most`.

    Source: partial expectation of the lognormal distribution.
    """
    if sigma <= 0.0:
        return min(mean, most)
    location = math.log(mean) - sigma**2 / 2.0
    z = (math.log(most) - location) / sigma
    return mean * _normal_cdf(z - sigma) + most * (1.0 - _normal_cdf(z))


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
