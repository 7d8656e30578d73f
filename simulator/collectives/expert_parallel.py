"""Dispatch and combine of routed experts between ranks, as DeepEP-like libraries do it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from advisor.catalog.collectives import collective
from advisor.catalog.dtypes import bytes_per_element as stored_bytes
from advisor.simulator.collectives.alpha_beta import FloatArray
from advisor.simulator.collectives.topology import Topology

Mode = Literal["low_latency", "normal", "hybrid"]
"""DeepEP's kernels for decoding, those for training and prefill, and NVIDIA's in its branch hybrid-ep (HybridEP)."""


class GroupLimit(NamedTuple):
    """Routing in which a token chooses its experts in `chosen` of `num_groups` equal groups of neighbours."""

    num_groups: int
    chosen: int


UNLIMITED: Final = GroupLimit(1, 1)
FP8_SCALED_BYTES = stored_bytes("fp8") + stored_bytes("fp32") / 128
"""Bytes of an fp8 activation with its share of one fp32 scale per 128 values."""


def moe_dispatch_s(
    num_tokens: FloatArray | float,
    hidden_size: int,
    experts_per_token: int,
    topology: Topology,
    *,
    bytes_per_element: float = FP8_SCALED_BYTES,
    num_experts: int = 256,
    mode: Mode = "low_latency",
    neighbours: bool = False,
    groups: GroupLimit = UNLIMITED,
) -> FloatArray:
    """Time to send num_tokens per rank to their experts' ranks [s]; the group is the expert-parallel group.

    base + the slower of scale-up and network bytes over their links, see scale_up_exchange and
    network_exchange. Low-latency mode sends one copy per expert; normal mode one per rank that holds a chosen
    expert, over the network one per node; hybrid mode the same copies, by bulk copies of hardware.

    Assumes: uniform routing, within `groups` where they limit it, or with `neighbours` consecutive experts; one hidden
        vector per copy; 20 SMs in normal mode, 32 in hybrid mode, all in low-latency mode.
    Raises: ValueError: a count is negative or not finite, or a size is below 1.
    Error: docs/collectives.md.
    Source: DeepEP (deepseek-ai/DeepEP), parameters: catalog/data/efficiency/collectives.toml.
    """
    exchange = TokenExchange(
        hidden_size * bytes_per_element, experts_per_token, num_experts, mode, neighbours, groups
    )
    return _exchange_s("moe_dispatch", num_tokens, exchange, topology)


def moe_combine_s(
    num_tokens: FloatArray | float,
    hidden_size: int,
    experts_per_token: int,
    topology: Topology,
    *,
    bytes_per_element: float = 2.0,
    num_experts: int = 256,
    mode: Mode = "low_latency",
    neighbours: bool = False,
    groups: GroupLimit = UNLIMITED,
) -> FloatArray:
    """Time to bring the experts' outputs of num_tokens per rank back and sum them [s].

    Combine is dispatch (moe_dispatch_s) in the other direction, in bf16.

    Assumes: as moe_dispatch_s.
    Raises: ValueError: as moe_dispatch_s.
    Error: docs/collectives.md.
    Source: as moe_dispatch_s.
    """
    exchange = TokenExchange(
        hidden_size * bytes_per_element, experts_per_token, num_experts, mode, neighbours, groups
    )
    return _exchange_s("moe_combine", num_tokens, exchange, topology)


@dataclass(frozen=True, slots=True)
class TokenExchange:
    """Data sent for one token in dispatch or combine."""

    vector_bytes: float
    experts_per_token: int
    num_experts: int
    mode: Mode
    neighbours: bool = False
    """Whether a token's experts are neighbours, as in benchmarks with a gate of their own."""
    groups: GroupLimit = UNLIMITED

    def __post_init__(self) -> None:
        if not self.vector_bytes > 0 or self.experts_per_token < 1 or self.num_experts < 1:
            raise ValueError("hidden size, bytes per element, experts and experts per token must be positive")

    def copies(self, num_holders: int) -> float:
        """Number of copies of a token: one per expert in low-latency mode, one per holder of a chosen expert in the
        others."""
        if self.mode == "low_latency":
            return float(self.experts_per_token)
        if self.neighbours:
            return neighbouring_holders(self.num_experts // num_holders, self.experts_per_token)
        return distinct_holders(num_holders, self.experts_per_token, self.groups)


def distinct_holders(num_holders: int, experts_per_token: int, groups: GroupLimit = UNLIMITED) -> float:
    """Expected number of different ranks (or nodes) that hold the chosen experts of one token.

    h · (1 − (1 − 1/h)^k). If experts are chosen in g of G groups, a holder of a part of one group is in reach with the
    probability g / G; a holder of r groups holds j of the chosen ones with the hypergeometric probability, and no
    chosen expert with (1 − j/g)^k.

    Assumes: every group and every expert in reach is equally likely; experts are spread evenly, in order.
    Source: occupancy of k balls in h bins; routing limited to groups: DeepSeek-V3 (arXiv:2412.19437), section 2.1.2,
        and NVIDIA/Megatron-LM, core/transformer/moe/moe_utils.py (group_limited_topk).
    """
    num_groups, chosen = groups
    if num_holders >= num_groups:
        reachable = num_holders * chosen / num_groups
        return reachable * (1.0 - (1.0 - 1.0 / reachable) ** experts_per_token)
    held = num_groups // num_holders
    missed = sum(
        math.comb(held, both)
        * math.comb(num_groups - held, chosen - both)
        / math.comb(num_groups, chosen)
        * (1.0 - both / chosen) ** experts_per_token
        for both in range(min(held, chosen) + 1)
    )
    return num_holders * (1.0 - missed)


def neighbouring_holders(experts_each: int, experts_per_token: int) -> float:
    """Mean number of ranks (or nodes), with `experts_each` experts each, that hold k consecutive experts.

    (k + e − gcd(k, e)) / e: token t begins at expert t · k, so that only multiples of the divisor are beginnings.

    Source: NVIDIA-NeMo/Automodel, components/moe/layers.py, FakeBalancedGate without noise.
    """
    each = max(experts_each, 1)
    return (experts_per_token + each - math.gcd(experts_per_token, each)) / each


def scale_up_exchange(
    parameters: Mapping[str, float], exchange: TokenExchange, topology: Topology
) -> tuple[float, float]:
    """Start [s] and time per token [s] of the part inside a scale-up domain.

    start = base + expert · experts per rank; per token copies · copy time + (copies · (k − 1)/k + extra) · vector
    / rate, k ranks in the domain. `extra` is the token's own vector, read or written in addition to the copies. In
    low-latency mode every expert has its own thread blocks: below `full_experts` part of the chip is idle. In hybrid
    mode processors start copies that hardware moves meanwhile, so that the longer of both terms counts.

    Source: as moe_dispatch_s.
    """
    n = topology.num_ranks
    k = topology.ranks_in_node
    copies = exchange.copies(n)
    leaving = copies * (k - 1) / k + parameters["extra_copies"]
    rate = topology.intra_bytes_per_s * parameters["efficiency"]
    busy = min(exchange.num_experts / parameters.get("full_experts", 1.0), 1.0)
    start_s = parameters["base_s"] + parameters.get("expert_s", 0.0) * exchange.num_experts / n
    issued_s = copies * parameters["copy_s"]
    moved_s = leaving * exchange.vector_bytes / rate
    return start_s, (max(issued_s, moved_s) if exchange.mode == "hybrid" else issued_s + moved_s) / busy


def network_exchange(
    parameters: Mapping[str, float], exchange: TokenExchange, topology: Topology
) -> tuple[float, float]:
    """Extra start [s] and time per token [s] of the part between nodes.

    Low-latency mode sends every copy through the rank's own port; normal mode one copy per other node.

    Source: as moe_dispatch_s.
    """
    nodes = topology.num_nodes
    leaving = exchange.copies(nodes) * (nodes - 1) / nodes
    start_s = parameters["base_s"] + parameters["level_s"] * math.log2(nodes)
    rate = topology.inter_bytes_per_s * parameters["efficiency"]
    return start_s, leaving * exchange.vector_bytes / rate


def exchange_times(
    local: Mapping[str, float],
    network: Mapping[str, float] | None,
    exchange: TokenExchange,
    topology: Topology,
) -> tuple[float, float]:
    """Start [s] and time per token [s] of a whole exchange.

    Between nodes the slower of scale-up and network; forwarding of received tokens leaves `forward_fraction` of the
    scale-up rate.

    Source: as moe_dispatch_s.
    """
    start_s, token_s = scale_up_exchange(local, exchange, topology)
    if network is None:
        return start_s, token_s
    extra_s, network_token_s = network_exchange(network, exchange, topology)
    return start_s + extra_s, max(token_s / network["forward_fraction"], network_token_s)


def _exchange_s(
    operation: str, num_tokens: FloatArray | float, exchange: TokenExchange, topology: Topology
) -> FloatArray:
    tokens = np.asarray(num_tokens, dtype=np.float64)
    if not np.all(np.isfinite(tokens)) or np.any(tokens < 0):
        raise ValueError("num_tokens must be finite and not negative")
    if topology.num_ranks == 1:
        return np.zeros_like(tokens)
    algorithm = f"deepep-{exchange.mode.replace('_', '-')}"
    local = collective(topology.intra_fabric, operation, algorithm).record.parameters
    network = None
    if topology.num_nodes > 1:
        network = collective("network", operation, algorithm).record.parameters
    start_s, token_s = exchange_times(local, network, exchange, topology)
    return np.where(tokens > 0, start_s + tokens * token_s, 0.0)
