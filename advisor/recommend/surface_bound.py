"""Second screen: the best steady state that a replica's step-cost surface allows, without queues or randomness."""

import math

import numpy as np

from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.recommend.scenario import Objectives, Traffic
from advisor.simulator.replica_model import ReplicaModel

_EIGHTHS = (8, 7, 6, 5, 4, 3.5, 3, 2.5, 2, 1.5, 1, 0.5, 0.25)
"""Of a power of two of tokens: where the surface's table has its corners, between which it is straight."""


def max_requests_per_s(replica: ReplicaModel, traffic: Traffic, objectives: Objectives) -> float:
    """Most requests per second of one replica in an ideal steady state [1/s]; 0 where an objective cannot be met.

    At batch d a request needs (output − 1) / d decode iterations, its first token comes from its prompt, and
    prompt / P iterations that carry P prompt tokens instead of pure decoding. Where prompts run apart from
    decoding, both times add up. The best (d, P) within cache and TPOT counts. Stages of a pipeline work on
    different batches, so one stage's time counts, but a token passes them all. Beginnings that the cache holds are
    neither computed nor held again.

    Assumes: decoding sequences have the mean context at least; windows hold no more than the prompt fills.
    Source: own derivation; the simulator can only be slower, tests/advisor/recommend/test_bounds.py.
    """
    surface, policy = replica.surface, replica.policy
    context, reused = traffic.mean_context_tokens, 0.0
    if policy.prefix_caching:
        reused = traffic.reused_input_tokens
    prompt = traffic.mean_input_tokens - reused
    most = min(policy.num_slots, int(max(replica.memory.kv_capacity_tokens / (context - reused), 1.0)))
    batch = np.arange(1, most + 1)
    attend = np.asarray(surface.decode_context_ps)[batch] * batch * context
    if surface.window_tokens is not None:
        windowed = _mean_up_to(float(traffic.mean_input_tokens), traffic.input_sigma, surface.window_tokens)
        attend = attend + np.asarray(surface.decode_window_ps)[batch] * batch * windowed
    decode_s = (np.asarray(surface.decode_base_ps)[batch] + attend) / PICOSECONDS_PER_S
    token_s = surface.num_stages * (decode_s + surface.stage_transfer_ps / PICOSECONDS_PER_S)
    allowed = token_s <= objectives.largest_tpot_s
    if not allowed.any():
        return 0.0
    decoding_ps = np.asarray(surface.mixed_base_ps[: most + 1], dtype=np.float64)
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
