"""Plans: the layout of a training step over accelerators, as one plan or as a lattice of plans in columns.

Formulas of memory and time take a `PlanLattice`, whose columns are arrays of one length, so that one plan and a
million plans go through the same lines.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Sharding = Literal["none", "zero1", "zero2", "zero3"]
"""State that data-parallel ranks divide among themselves: nothing, the optimizer (ZeRO-1, Megatron's distributed
optimizer), with it the gradients (ZeRO-2), with them the parameters (ZeRO-3, FSDP; HSDP with a shard group)."""
SHARDINGS: Final[tuple[Sharding, ...]] = get_args(Sharding)

Recompute = Literal["none", "selective", "full", "modules"]
"""Activations recomputed in the backward pass: none, attention's core, every layer from its input, or the cheap
modules: norms, activation functions, latent up-projections (Megatron-Core --recompute-modules; DeepSeek-V3)."""
RECOMPUTES: Final[tuple[Recompute, ...]] = get_args(Recompute)

Schedule = Literal["gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "dualpipe"]
"""Order of forward and backward passes in a pipeline."""
SCHEDULES: Final[tuple[Schedule, ...]] = get_args(Schedule)

_CODES: Final[dict[str, tuple[str, ...]]] = {
    "sharding": SHARDINGS,
    "recompute": RECOMPUTES,
    "schedule": SCHEDULES,
}
_SWITCHES: Final = ("sequence_parallel", "offload_optimizer", "offload_parameters", "offload_activations")
_SWITCH: Final = (False, True)
_BLOCK: Final = 64
"""Number of plans that are taken out of the columns at a time."""
_CODES_PER_PLAN: Final = 16
"""Number of possible codes per plan up to which a table finds distinct ones faster than sorting."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """One plan. The ranks are tensor × context × pipeline × data parallel; experts divide data × context ranks."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    virtual_stages: int = 1
    """Number of model chunks that each pipeline stage holds (VPP)."""
    context_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int = 0
    """Degree of tensor parallelism inside one expert; 0 is that of the dense layers."""
    data_parallel: int = 1
    micro_batch: int = 1
    """Number of sequences of one forward pass."""
    sharding: Sharding = "none"
    shard_group: int = 0
    """Number of ranks that one shard spans (HSDP, ZeRO within a node); 0 is all data-parallel ranks."""
    recompute: Recompute = "none"
    recompute_layers: int = -1
    """Number of layers of a stage that are recomputed; -1 is all of them."""
    schedule: Schedule = "1f1b"
    sequence_parallel: bool = True
    """Whether norms and residuals are divided along the sequence over the tensor-parallel ranks."""
    first_stage_layers: int = 0
    """Number of layers of the first stage, if it differs; 0 divides evenly."""
    last_stage_layers: int = 0
    offload_optimizer: bool = False
    offload_parameters: bool = False
    offload_activations: bool = False

    @property
    def num_accelerators(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel * self.data_parallel


@dataclass(frozen=True, slots=True)
class PlanLattice:
    """Plans of one job in columns: every field of `TrainingPlan` as an array; words as their index in SHARDINGS,
    RECOMPUTES and SCHEDULES, flags as 0 and 1."""

    tensor_parallel: IntArray
    pipeline_parallel: IntArray
    virtual_stages: IntArray
    context_parallel: IntArray
    expert_parallel: IntArray
    expert_tensor_parallel: IntArray
    data_parallel: IntArray
    micro_batch: IntArray
    sharding: IntArray
    shard_group: IntArray
    recompute: IntArray
    recompute_layers: IntArray
    schedule: IntArray
    sequence_parallel: IntArray
    first_stage_layers: IntArray
    last_stage_layers: IntArray
    offload_optimizer: IntArray
    offload_parameters: IntArray
    offload_activations: IntArray

    @classmethod
    def of(cls, plans: Iterable[TrainingPlan]) -> Self:
        """Return the lattice of these plans, in their order."""
        rows = list(plans)
        columns: dict[str, IntArray] = {}
        for field in fields(cls):
            words = _CODES.get(field.name)
            values = [getattr(plan, field.name) for plan in rows]
            codes = [words.index(value) for value in values] if words else [int(value) for value in values]
            columns[field.name] = np.array(codes, dtype=np.int64)
        return cls(**columns)

    def __len__(self) -> int:
        return len(self.tensor_parallel)

    def take(self, rows: IntArray | NDArray[np.bool_]) -> Self:
        """Return the plans at these positions, or those where the mask is true."""
        return type(self)(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def plan(self, row: int) -> TrainingPlan:
        """Return one plan of the lattice."""
        return next(self.plans(np.array([row])))

    def plans(self, rows: IntArray) -> Iterator[TrainingPlan]:
        """Yield the plans at these positions, one after the other."""
        names = [field.name for field in fields(self)]
        # By blocks: a reader who stops at the first plan does not pay for all of them.
        for block in (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)):
            columns = []
            for name in names:
                values = getattr(self, name)[block].tolist()
                words = _CODES.get(name, _SWITCH if name in _SWITCHES else ())
                columns.append([words[code] for code in values] if words else values)
            for cells in zip(*columns, strict=True):
                yield TrainingPlan(**dict(zip(names, cells, strict=True)))

    @property
    def num_accelerators(self) -> IntArray:
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel * self.data_parallel

    @property
    def tensor_parallel_of_experts(self) -> IntArray:
        """Degree of tensor parallelism inside one expert."""
        return np.where(self.expert_tensor_parallel == 0, self.tensor_parallel, self.expert_tensor_parallel)

    @property
    def expert_ranks(self) -> IntArray:
        """Number of ranks that divide the routed experts of a layer."""
        return self.expert_parallel * self.tensor_parallel_of_experts

    @property
    def expert_copies(self) -> FloatArray:
        """Number of accelerators of a stage that hold the same experts: tp · cp · dp / (ep · etp)
        (arXiv:2504.14960)."""
        ranks = self.tensor_parallel * self.context_parallel * self.data_parallel
        return np.maximum(ranks / self.expert_ranks, 1.0)

    @property
    def shard_ranks(self) -> IntArray:
        """Number of ranks over which a dense parameter's states are divided; context-parallel ranks hold the same
        weights."""
        ranks = self.data_parallel * self.context_parallel
        return np.where(self.shard_group == 0, ranks, np.minimum(self.shard_group, ranks))


def distinct(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the index of the first plan of each distinct combination of these columns, and the combination of each
    plan.

    Source: own definition.
    """
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        code = code * (int(column.max(initial=0)) + 1) + column
    top = int(code.max(initial=0)) + 1
    if top > _CODES_PER_PLAN * len(code):
        _, first_rows, of = np.unique(code, return_index=True, return_inverse=True)
        return first_rows.astype(np.int64), of.astype(np.int64)
    first = np.full(top, -1, dtype=np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    found = np.flatnonzero(first >= 0)
    table = np.zeros(top, dtype=np.int64)
    table[found] = np.arange(len(found))
    return first[found], table[code]
