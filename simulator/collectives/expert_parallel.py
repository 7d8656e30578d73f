"""Dispatch and combine of routed experts between ranks, as DeepEP-like libraries do it."""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from advisor.catalog.collectives import collective
from advisor.catalog.dtypes import bytes_per_element as stored_bytes
from advisor.simulator.collectives.alpha_beta import FloatArray
from advisor.simulator.collectives.topology import Topology

Mode = Literal["low_latency", "normal"]
FP8_SCALED_BYTES = stored_bytes("fp8") + stored_bytes("fp32") / 128
"""An fp8 activation with its share of one fp32 scale per 128 values."""


def moe_dispatch_s(
    num_tokens: FloatArray | float,
    hidden_size: int,
    experts_per_token: int,
    topology: Topology,
    *,
    bytes_per_element: float = FP8_SCALED_BYTES,
    mode: Mode = "low_latency",
) -> FloatArray:
    """Time to send num_tokens per rank to their experts' ranks [s]; the group is the expert-parallel group.

    base + copies · copy time + the slower of scale-up and network bytes over their links. Low-latency mode
    sends one copy per expert; normal mode one per rank that holds a chosen expert, over the network one per
    node.

    Assumes: uniform routing; one hidden vector per copy; the library's usual share of SMs.
    Raises: ValueError: a count is negative or not finite, or experts_per_token or hidden_size below 1.
    Error: docs/collectives.md.
    Source: DeepEP (deepseek-ai/DeepEP), parameters: catalog/data/efficiency/collectives.toml.
    """
    return _exchange_s(
        "moe_dispatch", num_tokens, hidden_size, experts_per_token, topology, bytes_per_element, mode
    )


def moe_combine_s(
    num_tokens: FloatArray | float,
    hidden_size: int,
    experts_per_token: int,
    topology: Topology,
    *,
    bytes_per_element: float = 2.0,
    mode: Mode = "low_latency",
) -> FloatArray:
    """Time to bring the experts' outputs of num_tokens per rank back and sum them [s].

    As moe_dispatch_s in the other direction, in bf16.

    Assumes: as moe_dispatch_s.
    Raises: ValueError: as moe_dispatch_s.
    Error: docs/collectives.md.
    Source: as moe_dispatch_s.
    """
    return _exchange_s(
        "moe_combine", num_tokens, hidden_size, experts_per_token, topology, bytes_per_element, mode
    )


def distinct_holders(num_holders: int, experts_per_token: int) -> float:
    """Expected number of different ranks (or nodes) that the chosen experts of one token sit on.

    h · (1 − (1 − 1/h)^k)

    Assumes: every expert is equally likely and experts are spread evenly.
    Source: occupancy of k balls in h bins.
    """
    return num_holders * (1.0 - (1.0 - 1.0 / num_holders) ** experts_per_token)


def _exchange_s(
    operation: str,
    num_tokens: FloatArray | float,
    hidden_size: int,
    experts_per_token: int,
    topology: Topology,
    bytes_per_element: float,
    mode: Mode,
) -> FloatArray:
    tokens = np.asarray(num_tokens, dtype=np.float64)
    if not np.all(np.isfinite(tokens)) or np.any(tokens < 0):
        raise ValueError("num_tokens must be finite and not negative")
    if hidden_size < 1 or experts_per_token < 1 or not bytes_per_element > 0:
        raise ValueError("hidden_size, experts_per_token and bytes_per_element must be positive")
    if topology.num_ranks == 1:
        return np.zeros_like(tokens)
    algorithm = f"deepep-{mode.replace('_', '-')}"
    local = collective(topology.intra_fabric, operation, algorithm).record.parameters
    vector_bytes = hidden_size * bytes_per_element
    start_s, token_s = scale_up_exchange(local, vector_bytes, experts_per_token, topology, mode)
    if topology.num_nodes > 1:
        network = collective("network", operation, algorithm).record.parameters
        extra_s, network_token_s = network_exchange(network, vector_bytes, experts_per_token, topology, mode)
        start_s, token_s = start_s + extra_s, max(token_s, network_token_s)
    return np.where(tokens > 0, start_s + tokens * token_s, 0.0)


def scale_up_exchange(
    parameters: Mapping[str, float],
    vector_bytes: float,
    experts_per_token: int,
    topology: Topology,
    mode: Mode,
) -> tuple[float, float]:
    """Start [s] and time per token [s] of the part inside a scale-up domain.

    Copies that leave the rank: k · (n − 1)/n in low-latency mode, distinct ranks · (n − 1)/n in normal mode.

    Source: as moe_dispatch_s.
    """
    n = topology.ranks_in_node if mode == "normal" else topology.num_ranks
    copies = distinct_holders(n, experts_per_token) if mode == "normal" else float(experts_per_token)
    leaving = copies * (n - 1) / n
    byte_s = 1.0 / (topology.intra_bytes_per_s * parameters["efficiency"])
    return parameters["base_s"], copies * parameters["copy_s"] + leaving * vector_bytes * byte_s


def network_exchange(
    parameters: Mapping[str, float],
    vector_bytes: float,
    experts_per_token: int,
    topology: Topology,
    mode: Mode,
) -> tuple[float, float]:
    """Extra start [s] and time per token [s] of the part between nodes.

    Low-latency mode sends every copy through the rank's own port; normal mode one copy per other node.

    Source: as moe_dispatch_s.
    """
    nodes = topology.num_nodes
    copies = distinct_holders(nodes, experts_per_token) if mode == "normal" else float(experts_per_token)
    leaving = copies * (nodes - 1) / nodes
    start_s = parameters["base_s"] + parameters["level_s"] * math.log2(nodes)
    return start_s, leaving * vector_bytes / (topology.inter_bytes_per_s * parameters["efficiency"])
