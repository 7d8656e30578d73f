"""Work of each kernel by its shape, readable without torch: what `advisor kernel` asks and holds a time against.

Counts repeat `flop` and `bytes` of the kernels' own modules, which need torch; a test compares the two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Sizes = tuple[int, ...]
Unit = Literal["16 bits", "fp8", "int8", "vector"]
"""Unit that does a kernel's arithmetic: the matrix unit in a format, or the vector unit."""
DELTA_CHUNK: Final = 64
"""Tokens of a chunk of the gated delta rule [count]."""
QUERIES_PER_KV: Final = 4
"""Query heads that share a head of keys and values, in the shapes of decode attention [count]."""
_ATTENTION: Final = ("batch", "heads", "tokens", "size")
_ROWS: Final = ("rows", "columns")
_MATMUL: Final = ("rows", "columns", "depth")


@dataclass(frozen=True, slots=True)
class KernelWork:
    """Dimensions of one kernel, and its work at a shape."""

    dimensions: tuple[str, ...]
    example: Sizes
    """Shape that is measured if none is given."""
    flop: Callable[[Sizes], int]
    num_bytes: Callable[[Sizes], int]
    """Least traffic at device memory, with elements of two bytes where the format is not part of the kernel [bytes]."""
    unit: Unit
    largest: Callable[[Sizes], int]
    """Number of elements of the largest array [count]."""


def _ssd_chunk(states: int) -> int:
    """Tokens of a chunk of the Mamba-2 scan [count]."""
    return 64 if states <= 64 else 32


def _pairs(tokens: int) -> int:
    return tokens * (tokens + 1) // 2


def _window_pairs(tokens: int, window: int) -> int:
    whole = min(tokens, window)
    return _pairs(whole) + (tokens - whole) * whole


def _blocks(size: int, block: int = 128) -> int:
    return -(-size // block)


def _attention_bytes(shape: Sizes, arrays: int) -> int:
    batch, heads, tokens, size = shape[:4]
    return arrays * batch * heads * tokens * size * 2


def _rows(flop: int, arrays: int, extra_rows: int = 0, example: Sizes = (32768, 8192)) -> KernelWork:
    """Return the work of a kernel that passes over rows: flop per element, arrays and single rows read or written."""
    return KernelWork(
        _ROWS,
        example,
        lambda s: flop * s[0] * s[1],
        lambda s: (arrays * s[0] + extra_rows) * s[1] * 2,
        "vector",
        lambda s: s[0] * s[1] * 2,
    )


def _decode(element_bytes: int) -> KernelWork:
    return KernelWork(
        ("sequences", "kv_heads", "tokens", "size"),
        (32, 8, 4096, 128),
        lambda s: 4 * QUERIES_PER_KV * s[0] * s[1] * s[2] * s[3],
        lambda s: 2 * s[0] * s[1] * s[2] * s[3] * element_bytes,
        "16 bits",
        lambda s: s[0] * s[1] * s[2] * s[3],
    )


def _fp4(group: int) -> KernelWork:
    return KernelWork(
        _ROWS,
        (28672, 8192),
        lambda s: 2 * s[0] * s[1],
        lambda s: s[0] * s[1] // 2 + s[0] * s[1] // group + 2 * s[0] * s[1],
        "vector",
        lambda s: s[0] * s[1],
    )


def _largest_of_matmul(s: Sizes) -> int:
    return max(s[0] * s[1], s[0] * s[2], s[1] * s[2])


WORKS: Final[Mapping[str, KernelWork]] = {
    "attention_backward": KernelWork(
        _ATTENTION,
        (1, 32, 16384, 128),
        lambda s: 10 * s[0] * s[1] * _pairs(s[2]) * s[3],
        lambda s: _attention_bytes(s, 8),
        "16 bits",
        lambda s: s[0] * s[1] * s[2] * s[3],
    ),
    "attention_packed": KernelWork(
        (*_ATTENTION, "window"),
        (4, 32, 8192, 128, 1024),
        lambda s: 4 * s[0] * s[1] * _window_pairs(s[2], s[4]) * s[3],
        lambda s: _attention_bytes(s, 4),
        "16 bits",
        lambda s: s[0] * s[1] * s[2] * s[3],
    ),
    "decode_attention": _decode(2),
    "decode_attention_fp8": _decode(1),
    "mla_decode": KernelWork(
        ("sequences", "heads", "tokens"),
        (64, 128, 8192),
        lambda s: 2 * s[1] * (2 * 512 + 64) * s[0] * s[2],
        lambda s: ((512 + 64) * s[0] * s[2] + s[0] * s[1] * (2 * 512 + 64)) * 2,
        "16 bits",
        lambda s: 576 * s[0] * max(s[1], s[2]),
    ),
    "rms_norm_backward": _rows(12, 4, 2),
    "layer_norm_backward": _rows(16, 3, 3),
    "softmax_backward": _rows(4, 3),
    "gelu_backward": _rows(8, 3),
    "swiglu_backward": _rows(10, 5, example=(16384, 14336)),
    "rope": KernelWork(
        ("tokens", "heads", "size"),
        (65536, 40, 128),
        lambda s: 3 * s[0] * s[1] * s[2],
        lambda s: s[0] * (4 * s[1] * s[2] + 4 * s[2] + 4),
        "vector",
        lambda s: s[0] * s[1] * s[2],
    ),
    "linear_gelu_backward": KernelWork(
        _MATMUL,
        (8192, 8192, 8192),
        lambda s: 6 * s[0] * s[1] * s[2] + 10 * s[0] * s[1],
        lambda s: (2 * (s[0] * s[2] + s[1] * s[2]) + 3 * s[0] * s[1] + 2 * s[1]) * 2,
        "16 bits",
        _largest_of_matmul,
    ),
    "linear_cross_entropy": KernelWork(
        ("rows", "columns", "words"),
        (8192, 4096, 128256),
        lambda s: 2 * s[0] * s[1] * s[2],
        lambda s: (s[0] + s[2]) * s[1] * 2 + 16 * s[0],
        "16 bits",
        _largest_of_matmul,
    ),
    "linear_cross_entropy_backward": KernelWork(
        ("rows", "columns", "words"),
        (8192, 4096, 128256),
        lambda s: 6 * s[0] * s[1] * s[2],
        lambda s: 2 * (s[0] + s[2]) * s[1] * 2 + 3 * s[0] * s[2] * 2,
        "16 bits",
        _largest_of_matmul,
    ),
    "gemm_layouts": KernelWork(
        _MATMUL,
        (8192, 8192, 8192),
        lambda s: 2 * s[0] * s[1] * s[2],
        lambda s: (s[0] * s[2] + s[1] * s[2] + s[0] * s[1]) * 2,
        "16 bits",
        _largest_of_matmul,
    ),
    "fp8_block_gemm": KernelWork(
        _MATMUL,
        (8192, 8192, 8192),
        lambda s: 2 * s[0] * s[1] * s[2],
        lambda s: s[0] * s[2] + s[1] * s[2] + 4 * _blocks(s[2]) * (s[0] + _blocks(s[1])) + 2 * s[0] * s[1],
        "fp8",
        _largest_of_matmul,
    ),
    "w8a8": KernelWork(
        _MATMUL,
        (8192, 8192, 8192),
        lambda s: 2 * s[0] * s[1] * s[2],
        lambda s: s[0] * s[2] + s[1] * s[2] + 4 * (s[0] + s[1]) + 2 * s[0] * s[1],
        "int8",
        _largest_of_matmul,
    ),
    "w4a16": KernelWork(
        _MATMUL,
        (1, 57344, 8192),
        lambda s: 2 * s[0] * s[1] * s[2],
        lambda s: s[1] * s[2] // 2 + s[1] * (s[2] // 128) * 2 + s[0] * (s[1] + s[2]) * 2,
        "16 bits",
        _largest_of_matmul,
    ),
    "grouped_gemm": KernelWork(
        ("rows", "experts", "columns", "depth"),
        (16384, 8, 14336, 4096),
        lambda s: 2 * s[0] * s[2] * s[3],
        lambda s: (s[0] * (s[2] + s[3]) + min(s[0], s[1]) * s[2] * s[3]) * 2,
        "16 bits",
        lambda s: max(s[0] * max(s[2], s[3]), s[1] * s[2] * s[3]),
    ),
    "grouped_gemm_fp8": KernelWork(
        ("rows", "experts", "columns", "depth"),
        (16384, 8, 14336, 4096),
        lambda s: 2 * s[0] * s[2] * s[3],
        lambda s: (
            s[0] * (s[3] + 4 * _blocks(s[3]) + 2 * s[2])
            + min(s[0], s[1]) * (s[2] * s[3] + 4 * _blocks(s[3]) * _blocks(s[2]))
        ),
        "fp8",
        lambda s: max(s[0] * max(s[2], s[3]), s[1] * s[2] * s[3]),
    ),
    "mxfp4": _fp4(32),
    "nvfp4": _fp4(16),
    "ssd": KernelWork(
        ("sequences", "tokens", "heads", "channels", "states"),
        (8, 4096, 80, 64, 128),
        lambda s: 2 * s[0] * s[1] * (s[2] * s[3] * (_ssd_chunk(s[4]) + 2 * s[4]) + _ssd_chunk(s[4]) * s[4]),
        lambda s: s[0] * (s[1] * (s[2] * (4 * s[3] + 4) + 4 * s[4]) + 4 * s[2] * s[3] * s[4]),
        "16 bits",
        lambda s: s[0] * s[1] * max(s[2] * s[3], s[4]),
    ),
    "gated_delta": KernelWork(
        ("sequences", "tokens", "heads", "keys", "values"),
        (8, 4096, 32, 128, 128),
        lambda s: s[0] * s[1] * s[2] * 2 * (DELTA_CHUNK * (3 * s[3] + 2 * s[4]) + 3 * s[3] * s[4]),
        lambda s: s[0] * s[2] * (s[1] * (4 * (s[3] + s[4]) + 8) + 4 * s[3] * s[4]),
        "16 bits",
        lambda s: s[0] * s[1] * s[2] * max(s[3], s[4]),
    ),
    "selective_scan": KernelWork(
        ("sequences", "tokens", "channels", "states"),
        (8, 4096, 5120, 16),
        lambda s: s[0] * s[1] * s[2] * (9 * s[3] + 3),
        lambda s: s[0] * (s[1] * (3 * s[2] + 2 * s[3]) * 2 + 4 * s[2] * s[3]),
        "vector",
        lambda s: s[0] * s[1] * s[2],
    ),
    "causal_conv1d": KernelWork(
        ("sequences", "tokens", "channels"),
        (8, 8192, 5120),
        lambda s: 13 * s[0] * s[1] * s[2],
        lambda s: 4 * s[0] * s[1] * s[2],
        "vector",
        lambda s: s[0] * s[1] * s[2],
    ),
}
"""Work of the kernels that the simulator has no model of."""
