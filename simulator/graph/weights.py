"""Weights of dense matrices, and how tensor parallelism divides them."""

from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """`count` equal blocks of columns or rows (heads, channels), dealt to tensor-parallel ranks or held by all."""

    count: int
    width: int = 1
    divided: bool = True

    @property
    def size(self) -> int:
        """Number of columns or rows of all blocks."""
        return self.count * self.width

    def local(self, tensor_parallel: int) -> int:
        """Number of columns or rows of one rank; blocks fewer than ranks are repeated."""
        return (max(1, self.count // tensor_parallel) if self.divided else self.count) * self.width

    @overload
    def share(self, tensor_parallel: float) -> float: ...
    @overload
    def share(self, tensor_parallel: FloatArray) -> FloatArray: ...
    def share(self, tensor_parallel: float | FloatArray) -> float | FloatArray:
        """Number of columns or rows of one rank if blocks may be cut, for one degree or an array of degrees."""
        parts = np.minimum(tensor_parallel, max(self.count, 1)) if self.divided else 1.0
        return self.size / parts


@dataclass(frozen=True, slots=True)
class Projection:
    """One dense matrix y[tokens, columns] = x[tokens, depth] · W, local to one accelerator."""

    name: str
    columns: int
    depth: int
    low_bit: bool = True
    """Whether the matrix is stored in the deployment's weight format; otherwise in bf16."""
    prefill_only: bool = False
    """Whether only prefill uses the matrix; decode uses an absorbed form instead (up-projection of latent
    attention)."""

    @property
    def elements(self) -> int:
        return self.columns * self.depth


@dataclass(frozen=True, slots=True)
class Matrix:
    """Weights of one dense matrix, fused as the engines fuse it, and how tensor parallelism divides them."""

    name: str
    columns: tuple[Block, ...]
    depth: Block
    low_bit: bool = True
    """Whether the matrix is stored in the deployment's weight format; otherwise in bf16."""
    prefill_only: bool = False
    """Whether only prefill uses the matrix; decode uses an absorbed form instead (up-projection of latent
    attention)."""

    @property
    def elements(self) -> int:
        """Number of weights of the whole matrix."""
        return sum(block.size for block in self.columns) * self.depth.size

    def local(self, tensor_parallel: int) -> Projection:
        """Return the part of the matrix that one rank multiplies with."""
        columns = sum(block.local(tensor_parallel) for block in self.columns)
        depth = self.depth.local(tensor_parallel)
        return Projection(self.name, columns, depth, self.low_bit, self.prefill_only)

    @overload
    def num_weights_on_rank(self, tensor_parallel: float) -> float: ...
    @overload
    def num_weights_on_rank(self, tensor_parallel: FloatArray) -> FloatArray: ...
    def num_weights_on_rank(self, tensor_parallel: float | FloatArray) -> float | FloatArray:
        """Number of weights on one rank, for one degree or an array of degrees."""
        columns = sum(block.share(tensor_parallel) for block in self.columns)
        return columns * self.depth.share(tensor_parallel)


class Weighted:
    """Part of a layer with matrices."""

    def __init__(self, matrices: tuple[Matrix, ...], convolutions: tuple[Matrix, ...] = ()) -> None:
        self.matrices = matrices
        self.convolutions = convolutions
        """Number of weights that small operators read, as many per channel as the kernel is long."""
        self._local: dict[int, tuple[Projection, ...]] = {}
        self._held: dict[int, tuple[float, float]] = {}

    def local(self, tensor_parallel: int) -> tuple[Projection, ...]:
        """Return the matrices as one of `tensor_parallel` ranks multiplies with them.

        Source: Megatron-LM column and row split (arXiv:1909.08053).
        """
        if tensor_parallel not in self._local:
            self._local[tensor_parallel] = tuple(matrix.local(tensor_parallel) for matrix in self.matrices)
        return self._local[tensor_parallel]

    def num_weights_on_rank(self, tensor_parallel: int) -> tuple[float, float]:
        """Number of weights outside routed experts on one rank: in the deployment's format, and in 16 bits."""
        if tensor_parallel not in self._held:
            held = [
                (matrix.low_bit, float(matrix.num_weights_on_rank(tensor_parallel))) for matrix in self.stored
            ]
            low_bit = sum(elements for is_low, elements in held if is_low)
            self._held[tensor_parallel] = low_bit, sum(elements for _, elements in held) - low_bit
        return self._held[tensor_parallel]

    @property
    def stored(self) -> tuple[Matrix, ...]:
        """All weights except those of routed experts."""
        return self.matrices + self.convolutions

    @property
    def parameters(self) -> float:
        """Number of weights of the part."""
        return float(sum(matrix.elements for matrix in self.stored))
