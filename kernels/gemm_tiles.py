"""Tile shapes of the matmul kernel, readable without torch: what a program computes at a time."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Config:
    """Division of a matmul into tiles."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    group_m: int = 8
    """Number of rows of tiles that are walked together, so that their columns of B stay in the L2."""
    split_epilogue: bool = True
    """Whether the tile is stored in two halves, which halves the staging memory and makes room for one more stage."""
    pieces: int = 1
    """Number of pieces, side by side, into which the tiles of an incomplete last wave are cut."""
    rate: float = 1.0
    """Speed per output element, relative to the fastest tile shape (measured on an H200)."""
    piece_rate: float = 1.0
    """Speed of a piece per output element, relative to the fastest tile shape (measured on an H200)."""

    @property
    def num_threads(self) -> int:
        """Threads of a program [count]."""
        return 32 * self.num_warps

    def shared_bytes(self, element_bytes: int) -> int:
        """Shared memory of a program [bytes]: its stages of both operands, and where the result is staged."""
        stage = (self.block_m + self.block_n) * self.block_k * element_bytes
        store = self.block_m * self.block_n // (2 if self.split_epilogue else 1) * 2
        return self.num_stages * stage + store

    @property
    def launch(self) -> dict[str, int]:
        """Launch arguments of a kernel that walks over tiles."""
        blocks = {"BLOCK_M": self.block_m, "BLOCK_N": self.block_n, "BLOCK_K": self.block_k}
        return blocks | {"GROUP_M": self.group_m, "num_warps": self.num_warps, "num_stages": self.num_stages}

    def num_tiles(self, m: int, n: int) -> int:
        """Number of tiles of a matmul with m rows and n columns [count]."""
        return -(-m // self.block_m) * -(-n // self.block_n)


CONFIGS: Final[dict[int, tuple[Config, ...]]] = {
    2: (
        Config(128, 256, 64, num_warps=8, num_stages=4),
        Config(128, 256, 64, num_warps=8, num_stages=4, pieces=4, piece_rate=0.58),
        Config(128, 128, 64, num_warps=8, num_stages=4, split_epilogue=False, rate=0.9),
        Config(64, 256, 64, num_warps=4, num_stages=5, rate=0.96),
        Config(64, 256, 64, num_warps=4, num_stages=5, rate=0.96, pieces=2, piece_rate=0.7),
        Config(64, 128, 64, num_warps=4, num_stages=6, split_epilogue=False, rate=0.72),
    ),
    1: (
        Config(128, 256, 128, num_warps=8, num_stages=4),
        Config(128, 256, 128, num_warps=8, num_stages=4, pieces=4, piece_rate=0.62),
        Config(128, 128, 128, num_warps=8, num_stages=4, split_epilogue=False, rate=0.9),
        Config(64, 256, 128, num_warps=4, num_stages=5, rate=0.95),
        Config(64, 256, 128, num_warps=4, num_stages=5, rate=0.95, pieces=2, piece_rate=0.72),
        Config(64, 128, 128, num_warps=4, num_stages=6, split_epilogue=False, rate=0.75),
    ),
}
"""Candidate tile shapes by bytes per operand element."""
