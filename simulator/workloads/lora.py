"""LoRA adapters on one base model: their memory, the time that they add to a step, and the cost of loading a cold
one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Model
from advisor.catalog.units import BF16_BYTES, GB, PICOSECONDS_PER_S
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import layers_of
from advisor.simulator.graph.operator import Layer
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import ReplicaModel

FloatArray = NDArray[np.float64]
_KERNELS: Final = 2
"""Number of kernels per adapted matrix: shrink to the rank and expand from it."""
USUAL_RANK: Final = 16
MOST_SLOTS: Final = 64
"""Number of adapters in the accelerators' memory at once if the user gives none: more hardly fit into one batch."""
OVERHEAD_RANGE: Final = (0.5, 2.5)
"""Range of real over predicted time that adapters add to a step: Punica's 2 ms against 0.8 to 2.4 ms predicted."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Set of adapters and how requests choose among them."""

    count: int
    rank: int
    slots: int
    """Number of adapters in the accelerators' memory at once (vLLM: max_loras)."""
    popularity: float = 1.0
    """Exponent of Zipf's law; 0 is uniform."""

    def __post_init__(self) -> None:
        if self.count < 1 or self.rank < 1 or self.slots < 1:
            raise AdvisorError("adapters, their rank and their slots are at least one each")
        if self.popularity < 0:
            raise AdvisorError(
                f"popularity {self.popularity} is not an exponent", fix="0 is uniform, 1 is Zipf's law"
            )

    @property
    def probabilities(self) -> FloatArray:
        """Fraction of requests that go to each adapter. Source: Zipf's law."""
        weights = np.arange(1, self.count + 1, dtype=np.float64) ** -self.popularity
        return np.asarray(weights / weights.sum())


def adapter_bytes(model: Model, rank: int) -> float:
    """Size of one adapter on every projection of every layer, but not on routed experts [bytes]: Σ rank · (columns +
    depth) · 2.

    Source: Hu et al. 2021, arXiv:2106.09685, section 4.1; huggingface/peft, all-linear.
    """
    widths = (layer.count * _adapted_width(layer, 1) for layer in layers_of(model))
    return rank * bytes_per_element("bf16") * sum(widths)


def _adapted_width(layer: Layer, tensor_parallel: int) -> float:
    return float(sum(matrix.columns + matrix.depth for matrix in layer.local(tensor_parallel)))


def slot_bytes(deployment: Deployment, rank: int) -> float:
    """Memory that an accelerator keeps for one adapter [bytes]: factors for every projection, and for each expert of
    engines that adapt those, whether the adapter has them or not.

    Assumes: ranks hold the factors of their parts of a matrix; the side that is not cut is whole on each.
    Source: vLLM 0.33.0, lora/layers/fused_moe.py, _create_lora_a_weights and _create_lora_b_weights; SGLang 0.5.23,
        lora/mem_pool.py.
    """
    adapts_experts = deployment.weight_dtype in deployment.engine.adapts_experts
    experts_per_rank = 1.0 / deployment.expert_parallel if adapts_experts else 0.0
    total = 0.0
    for layer in layers_of(deployment.model):
        width = _adapted_width(layer, deployment.tensor_parallel)
        if (experts := layer.experts) is not None:
            inner = experts.intermediate_size / deployment.expert_tensor_parallel
            num_matrices = 3 if experts.gated else 2
            width += experts.num_experts * experts_per_rank * num_matrices * (experts.hidden_size + inner)
        total += layer.count * width
    return rank * bytes_per_element("bf16") * total / deployment.pipeline_parallel


_MOST_TERMS = 4_000_000
_NUM_SIZES = 100
_ALMOST_ONE = 1.0 - 1e-16


def distinct_adapters(probabilities: FloatArray, num_sequences: FloatArray) -> FloatArray:
    """Expected number of different adapters in a batch.

    Σ over adapters of 1 − (1 − p)^n

    Assumes: sequences choose independently. Beyond millions of terms it is computed at a hundred sizes of the batch
    and interpolated: it is smooth.
    Source: occupancy problem.
    """
    sizes = np.asarray(num_sequences, dtype=np.float64)
    if len(sizes) * len(probabilities) > _MOST_TERMS and len(sizes) > 2 * _NUM_SIZES:
        low = max(1.0, float(sizes.min()))
        high = max(2.0, float(sizes.max()))
        some = np.concatenate(([0.0], np.geomspace(low, high, _NUM_SIZES)))
        return np.interp(sizes, some, distinct_adapters(probabilities, some))
    missed = np.log1p(-np.minimum(probabilities, _ALMOST_ONE))
    return np.array([-np.expm1(missed * size).sum() for size in sizes])


def lru_hit_fraction(probabilities: FloatArray, slots: int) -> float:
    """Fraction of requests whose adapter is among the `slots` last used [fraction].

    Σ p (1 − e^(−p T)) with T such that Σ (1 − e^(−p T)) = slots

    Assumes: requests choose independently.
    Source: Che, Tung and Wang 2002, IEEE JSAC 20(7), eq. 5.
    """
    if slots >= len(probabilities):
        return 1.0
    low = 0.0
    high = 1.0
    while (1.0 - np.exp(-probabilities * high)).sum() < slots:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        filled = (1.0 - np.exp(-probabilities * middle)).sum()
        low, high = (middle, high) if filled < slots else (low, middle)
    return float((probabilities * (1.0 - np.exp(-probabilities * high))).sum())


def adapter_step_s(
    deployment: Deployment,
    library: OperatorLibrary,
    adapters: Adapters,
    num_tokens: FloatArray,
    num_sequences: FloatArray,
) -> FloatArray:
    """Time that adapters add to an iteration [s], per entry of tokens and sequences.

    per adapted matrix two kernels that read the distinct adapters' factors, tokens in, rank in between, tokens out

    Assumes: gathered kernels (SGMV) read each distinct adapter once and are memory-bound, as they are up to ranks of
    several hundred; split like the matrices they belong to.
    Error: 2 ms a token on Llama-2-7B at rank 16 and batches up to 32 (Punica, section 7): within a factor of two.
    Source: Chen et al. 2023 (Punica), arXiv:2310.18547; Sheng et al. 2023 (S-LoRA), arXiv:2311.03285.
    """
    tp = deployment.tensor_parallel
    distinct = distinct_adapters(adapters.probabilities, num_sequences)
    total = np.zeros_like(distinct)
    for layer in layers_of(deployment.model):
        for matrix in layer.local(tp):
            for width in (matrix.depth, matrix.columns):
                moved = distinct * adapters.rank * width + num_tokens * (width + adapters.rank)
                total += layer.count * library.elementwise_s(moved * BF16_BYTES)
    return np.asarray(total / deployment.pipeline_parallel)


def lora_replica(replica: ReplicaModel, adapters: Adapters) -> ReplicaModel:
    """Return the replica with adapters: steps take longer, and slots of adapters reduce the cache.

    The number of concurrent sequences is limited so that the expected number of different adapters fits the slots.

    Assumes: every request uses an adapter.
    Raises: InfeasibleError: the slots leave no room for a cache.
    Source: vLLM's max_loras: a batch holds at most that many different adapters.
    """
    deployment = replica.deployment
    surface = replica.surface
    batches = np.arange(len(surface.decode_base_ps), dtype=np.float64)
    decode = adapter_step_s(deployment, replica.library, adapters, batches, batches)
    tokens = np.arange(len(surface.mixed_base_ps), dtype=np.float64)
    mixed = adapter_step_s(deployment, replica.library, adapters, tokens, np.minimum(tokens, adapters.slots))
    needed = adapters.slots * slot_bytes(deployment, adapters.rank)
    left = replica.memory.kv_bytes - needed
    if left <= 0:
        raise InfeasibleError(
            f"{adapters.slots} adapters of rank {adapters.rank} leave no room for a cache",
            why=f"{needed / GB:.1f} GB per accelerator of {replica.memory.kv_bytes / GB:.1f} GB",
            fix="fewer slots, a smaller rank, or more accelerators per replica",
        )
    blocks = replica.policy.kv_capacity_blocks
    policy = replace(
        replica.policy,
        max_num_seqs=min(
            replica.policy.max_num_seqs, sequences_within(adapters, replica.policy.max_num_seqs)
        ),
        kv_capacity_blocks=None if blocks is None else max(1, int(blocks * left / replica.memory.kv_bytes)),
    )
    costlier = replace(
        surface,
        decode_base_ps=_add_time(surface.decode_base_ps, decode),
        mixed_base_ps=_add_time(surface.mixed_base_ps, mixed),
    )
    return replace(replica, surface=costlier, policy=policy)


def sequences_within(adapters: Adapters, most: int) -> int:
    """Largest batch whose expected number of different adapters fits the slots.

    Source: distinct_adapters.
    """
    batches = np.arange(1, most + 1, dtype=np.float64)
    fits = distinct_adapters(adapters.probabilities, batches) <= adapters.slots
    return int(batches[fits][-1]) if fits.any() else 1


def _add_time(base_ps: Sequence[int], extra_s: FloatArray) -> list[int]:
    return [
        base_ps[0],
        *(
            int(base + extra * PICOSECONDS_PER_S)
            for base, extra in zip(base_ps[1:], extra_s[1:], strict=True)
        ),
    ]
