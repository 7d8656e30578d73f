"""Second screen: the best steady state that a replica's step-cost surface allows, without queues or randomness."""

import numpy as np

from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.recommend.scenario import Objectives, Traffic
from advisor.simulator.replica_model import ReplicaModel

_PREFILL_SHARES = (0.0625, 0.125, 0.25, 0.5, 1.0)


def max_requests_per_s(replica: ReplicaModel, traffic: Traffic, objectives: Objectives) -> float:
    """Most requests per second of one replica in an ideal steady state [1/s]; 0 where an objective cannot be met.

    At batch d a request needs output/d of each decode iteration and input/P iterations that carry P prompt tokens
    instead of pure decoding. The best (d, P) within cache and TPOT counts.

    Assumes: mean lengths; perfectly even arrivals.
    Source: own derivation; the simulator can only be slower, tests/advisor/test_bounds.py.
    """
    surface, policy = replica.surface, replica.policy
    batch = np.unique(np.geomspace(1, policy.num_slots, 40).round()).astype(int)
    context, output = traffic.mean_context_tokens, float(traffic.mean_output_tokens)
    prompt = float(traffic.mean_input_tokens)
    cache_tokens = replica.memory.kv_capacity_tokens
    batch = batch[batch * context <= max(cache_tokens, context)]
    decode = np.array([surface.decode_base_ps[d] for d in batch], dtype=np.float64)
    attend = np.array([surface.decode_context_ps[d] * d * context for d in batch], dtype=np.float64)
    if surface.window_tokens is not None:
        windowed = min(context, surface.window_tokens)
        attend += np.array([surface.decode_window_ps[d] * d * windowed for d in batch])
    decode_step_s = (decode + attend) / PICOSECONDS_PER_S
    allowed = decode_step_s <= objectives.tpot_p99_s
    if not allowed.any():
        return 0.0
    best = 0.0
    per_token_pair = surface.prefill_pair_ps * prompt / 2.0
    for share in _PREFILL_SHARES:
        chunk = max(1.0, share * (policy.max_num_batched_tokens - batch.max()))
        mixed = np.array(
            [surface.mixed_base_ps[min(int(chunk) + d, policy.max_num_batched_tokens)] for d in batch]
        )
        mixed_s = (mixed + attend + per_token_pair * chunk) / PICOSECONDS_PER_S
        iterations, carrying = output / batch, prompt / chunk
        pure = np.maximum(0.0, iterations - carrying)
        seconds = pure * decode_step_s + carrying * mixed_s
        best = max(best, float((np.where(allowed, 1.0 / seconds, 0.0)).max()))
    return best * surface.num_stages
