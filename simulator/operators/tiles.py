"""What tiled matrix kernels share: waves of tiles over the SMs, the work of one tile, and overlap."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def paid_waves(num_tiles: FloatArray, num_sms: int, smoothing: float) -> FloatArray:
    """Rounds of tiles that the kernel's time pays for [rounds].

    (1 - smoothing) ceil(tiles / SMs) + smoothing max(tiles / SMs, 1)

    Assumes: equal tiles, one at a time per SM; `smoothing` stands for what spreads a partial last round
    (several small tiles per SM, splits along K, tiles of unequal size).
    Source: NVIDIA, Matrix Multiplication Background User's Guide, "Wave quantization".
    """
    waves = num_tiles / num_sms
    return np.asarray(smoothing * np.maximum(waves, 1.0) + (1.0 - smoothing) * np.ceil(waves))


def tile_flop(
    tile_rows: FloatArray | float,
    tile_columns: FloatArray | float,
    depth: FloatArray | float,
    ramp_depth: float,
    tile_half: float,
) -> FloatArray:
    """Work of one tile in units of what an endless big tile does in the same time [flop].

    2 rows columns (depth + ramp_depth) (1 + tile_half (1 / rows + 1 / columns) / 2)

    Assumes: the last factor is operand feed: bytes per flop grow as the tile shrinks.
    Source: own model; the feed term is the arithmetic intensity of a tile.
    """
    feed = 1.0 + tile_half * (1.0 / tile_rows + 1.0 / tile_columns) / 2.0
    return np.asarray(2.0 * tile_rows * tile_columns * (depth + ramp_depth) * feed)


def overlapped_s(first_s: FloatArray, second_s: FloatArray, norm: float) -> FloatArray:
    """Time of two overlapping activities, (a^p + b^p)^(1/p) [s].

    Assumes: p = 1 is no overlap, p = infinity is perfect overlap.
    Source: own definition.
    """
    longer = np.maximum(first_s, second_s)
    return np.asarray(longer * (1.0 + (np.minimum(first_s, second_s) / longer) ** norm) ** (1.0 / norm))
