"""What limits an option: the part of a step that takes longest, named as the resource that it waits for."""

from collections.abc import Mapping

from advisor.recommend.roofline_bound import fastest_peak_flop_per_s
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.roofline import decode_step_work, is_compute_bound, total_work

_LINK = ("collectives",)
_HOST = ("host",)
_KV = ("attention",)
_WEIGHTS = ("projections", "feed_forward", "experts", "head")
NEARLY_FULL = 0.9
"""Of the cache: above it, requests wait for cache."""


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
    deployment, bandwidth = replica.deployment, replica.library.device.bandwidth_bytes_per_s
    parts = decode_step_work(deployment.model, batch, 1.0, weight_dtype=deployment.weight_dtype)
    weights = total_work(parts[name] for name in _WEIGHTS)
    return is_compute_bound(weights, fastest_peak_flop_per_s(deployment), bandwidth)
