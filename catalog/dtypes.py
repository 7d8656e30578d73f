"""Number formats: bits per element, and the matrix unit that multiplies them."""

import re
from collections.abc import Mapping
from typing import Final, Literal, get_args

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.resolve import Resolution, near_misses, resolve
from advisor.catalog.units import BITS_PER_BYTE

Dtype = Literal[
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "int8",
    "fp6",
    "nvfp4",
    "mxfp4",
    "int4",
    "nf4",
    "w4a8",
    "aqlm-2bit",
    "quip-2bit",
    "sparse24",
    "iq1_s",
    "iq1_m",
    "iq2_xxs",
    "iq2_xs",
    "iq2_s",
    "iq2_m",
    "iq3_xxs",
    "iq3_xs",
    "iq3_s",
    "iq3_m",
    "iq4_xs",
    "iq4_nl",
    "q2_k_s",
    "q2_k",
    "q3_k_s",
    "q3_k_m",
    "q3_k_l",
    "q4_0",
    "q4_k_s",
    "q4_k_m",
    "q4_k_xl",
    "q5_k_s",
    "q5_k_m",
    "q5_k_xl",
    "q6_k",
    "q8_0",
    "q8_k_xl",
    "exl3-2.0bpw",
    "exl3-2.5bpw",
    "exl3-3.0bpw",
    "exl3-3.5bpw",
    "exl3-4.0bpw",
    "exl3-4.5bpw",
    "exl3-5.0bpw",
    "exl3-6.0bpw",
    "exl3-8.0bpw",
]
DTYPES: Final[tuple[str, ...]] = get_args(Dtype)
GGUF_DTYPES: Final = tuple(
    name for name in DTYPES if name.startswith(("q2", "q3", "q4", "q5", "q6", "q8", "iq"))
)
"""Formats of llama.cpp's files, which also cover input table and head."""
GGUF_STEPS: Final = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")
"""Usual formats of those files, from the most bits to the fewest: one is named in place of another that does not
fit."""
EXL3_DTYPES: Final = tuple(name for name in DTYPES if name.startswith("exl3-"))
"""Formats of exllamav3's files at the average widths that are usually published."""
EXL3_HEAD_DTYPE: Final = "exl3-6.0bpw"
"""Width of the output head of EXL3 files unless another is requested (exllamav3, doc/convert.md)."""
FILE_DTYPES: Final = GGUF_DTYPES + EXL3_DTYPES
"""Weight formats that only the engine of one kind of file reads; activations keep 16 bits or more."""


def grouped_bits(bits: float, group_size: int, scale_bits: float, zero_point_bits: float = 0.0) -> float:
    """Storage of one element of a format whose groups share a scale and, where the format has one, a zero point [bits].

    bits + (scale_bits + zero_point_bits) / group_size
    """
    return bits + (scale_bits + zero_point_bits) / group_size


_BITS_PER_ELEMENT: Final[dict[str, float]] = {
    "fp32": 32.0,
    "tf32": 32.0,
    "bf16": 16.0,
    "fp16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "fp6": 6.0,
    # Block formats carry their scales: nvfp4 one fp8 scale per 16 elements, mxfp4 one e8m0 scale per 32,
    # int4 one fp16 scale per group of 128 and a 4-bit zero point (GPTQ and AWQ checkpoints).
    "nvfp4": grouped_bits(4.0, 16, 8.0),
    "mxfp4": grouped_bits(4.0, 32, 8.0),
    "int4": grouped_bits(4.0, 128, 16.0, 4.0),
    # 4-bit weights with 8-bit activations (QServe, arXiv:2405.04532): one fp16 scale per group of 128.
    "w4a8": grouped_bits(4.0, 128, 16.0),
    # Two codebooks of 8 bits for each 8 weights, codebooks and scales included (AQLM, arXiv:2401.06118, table 1).
    "aqlm-2bit": 2.02,
    # One 16-bit entry of the E8P lattice for each 8 weights (QuIP#, arXiv:2402.04396, section 4.2).
    "quip-2bit": 2.0,
    # Two of four neighbours in 16 bits, and 2 bits of position for each that is kept (NVIDIA A100 whitepaper).
    "sparse24": 0.5 * (16.0 + 2.0),
    # bitsandbytes: one fp8 scale per 64 elements, and one fp32 per 256 of those ("double quantisation").
    "nf4": grouped_bits(4.0, 64, 8.0 + 32.0 / 256),
    # llama.cpp's quants: published bits per weight of whole Llama-3.1-8B files (ggml-org/llama.cpp, quantize README).
    "iq1_s": 2.00,
    "iq1_m": 2.15,
    "iq2_xxs": 2.38,
    "iq2_xs": 2.59,
    "iq2_s": 2.74,
    "iq2_m": 2.93,
    "iq3_xxs": 3.25,
    "iq3_xs": 3.50,
    "iq3_s": 3.66,
    "iq3_m": 3.76,
    "iq4_xs": 4.46,
    "iq4_nl": 4.68,
    "q2_k_s": 2.97,
    "q2_k": 3.16,
    "q3_k_s": 3.64,
    "q3_k_m": 4.00,  # 3.91 in the table of Llama-2-7B; raised because the two neighbouring formats are
    "q3_k_l": 4.30,
    "q4_k_s": 4.67,
    "q4_k_m": 4.89,
    "q5_k_s": 5.57,
    "q5_k_m": 5.70,
    "q6_k": 6.56,
    # One fp16 scale per block of 32 (ggml-org/llama.cpp, ggml-common.h: block_q4_0, block_q8_0).
    "q4_0": grouped_bits(4.0, 32, 16.0),
    "q8_0": grouped_bits(8.0, 32, 16.0),
    # Unsloth's dynamic quants mix formats: size of a whole file over the parameters (unsloth/Qwen3-30B-A3B-GGUF).
    "q4_k_xl": 4.64,
    "q5_k_xl": 5.70,
    "q8_k_xl": 9.43,
    # EXL3 codes weights along a trellis, without group scales: the width in the name is an average over the layers'
    # weights; two 16-bit vectors per matrix add less than 0.01 bits (exllamav3, doc/exl3.md).
    **{name: float(name.removeprefix("exl3-").removesuffix("bpw")) for name in EXL3_DTYPES},
}


_Q2_K_BITS: Final = 2.625
_Q3_K_BITS: Final = 3.4375
_Q4_K_BITS: Final = 4.5
_Q5_K_BITS: Final = 5.5
_Q6_K_BITS: Final = 6.5625
_IQ3_S_BITS: Final = 3.4375
_IQ4_XS_BITS: Final = 4.25
_LLAMA_TABLE_FRACTION: Final = 128256 * 4096 / 8.0303e9
"""Fraction of the weights of Llama-3.1-8B in its input table, and again in its head: on that model the widths of whole
files were measured."""
_GGUF_TABLES: Final[dict[str, tuple[float, float]]] = {
    "iq1_s": (_Q2_K_BITS, _Q5_K_BITS),
    "iq1_m": (_Q2_K_BITS, _Q5_K_BITS),
    "iq2_xxs": (_Q2_K_BITS, _Q5_K_BITS),
    "iq2_xs": (_Q2_K_BITS, _Q5_K_BITS),
    "iq2_s": (_IQ3_S_BITS, _Q5_K_BITS),
    "iq2_m": (_IQ3_S_BITS, _Q5_K_BITS),
    "iq3_xxs": (_IQ3_S_BITS, _Q5_K_BITS),
    "iq3_xs": (_IQ3_S_BITS, _Q6_K_BITS),
    "iq3_s": (_IQ3_S_BITS, _Q6_K_BITS),
    "iq3_m": (_IQ3_S_BITS, _Q6_K_BITS),
    "iq4_xs": (_IQ4_XS_BITS, _Q6_K_BITS),
    "iq4_nl": (_Q4_K_BITS, _Q6_K_BITS),
    "q2_k_s": (_Q2_K_BITS, _Q6_K_BITS),
    "q2_k": (_Q2_K_BITS, _Q6_K_BITS),
    "q3_k_s": (_Q3_K_BITS, _Q6_K_BITS),
    "q3_k_m": (_Q3_K_BITS, _Q6_K_BITS),
    "q3_k_l": (_Q3_K_BITS, _Q6_K_BITS),
    "q4_k_s": (_Q4_K_BITS, _Q6_K_BITS),
    "q4_k_m": (_Q4_K_BITS, _Q6_K_BITS),
    "q5_k_s": (_Q5_K_BITS, _Q6_K_BITS),
    "q5_k_m": (_Q5_K_BITS, _Q6_K_BITS),
    "q6_k": (_Q6_K_BITS, _Q6_K_BITS),
}
"""Widths of input table and head in llama.cpp's mixes [bits]: wider than the layers. Source: ggml-org/llama.cpp,
src/llama-quant.cpp (types of token_embd and output) and ggml-common.h (block sizes)."""


GgufKind = Literal["layers", "embedding", "head"]
"""Weights that a GGUF mix stores in types of their own."""


def gguf_bits(dtype: str, kind: GgufKind) -> float:
    """Mean width of the weights of a GGUF mix in layers, input table or head, block scales included [bits].

    layers = (whole file − table fraction · (table + head)) / (1 − 2 · table fraction)

    Assumes: the layers of other models are mixed as those of Llama-3.1-8B. One table that serves as head too has the
    head's type. Formats of one type and Unsloth's dynamic ones have one width throughout.
    Error: 2 % on DeepSeek-R1 (tests/catalog/test_checkpoint_sizes.py).
    Source: ggml-org/llama.cpp, tools/quantize/README.md (widths of whole files).
    """
    whole = BITS_PER_BYTE * bytes_per_element(dtype)
    tables = _GGUF_TABLES.get(dtype)
    if tables is None:
        return whole
    table, head = tables
    if kind != "layers":
        return head if kind == "head" else table
    return (whole - _LLAMA_TABLE_FRACTION * (table + head)) / (1.0 - 2.0 * _LLAMA_TABLE_FRACTION)


GGUF_BLOCK: Final = 256
"""Weights of a row that a block of llama.cpp's k-quants and i-quants covers (ggml-common.h, QK_K)."""
_LAYER_TYPES: Final[dict[str, tuple[float, tuple[float, ...]]]] = {
    "iq1_s": (1.5625, (_Q2_K_BITS,)),
    "iq1_m": (1.75, (_Q2_K_BITS,)),
    "iq2_xxs": (2.0625, (_Q2_K_BITS,)),
    "iq2_xs": (2.3125, (_Q2_K_BITS,)),
    "iq2_s": (2.3125, (_IQ3_S_BITS,)),
    "iq2_m": (2.5625, (_IQ3_S_BITS,)),
    "iq3_xxs": (3.0625, (_Q3_K_BITS,)),
    "iq3_xs": (3.0625, (_IQ3_S_BITS,)),
    "iq3_s": (_IQ3_S_BITS, (_IQ3_S_BITS,)),
    "iq3_m": (_IQ3_S_BITS, (_Q4_K_BITS,)),
    "iq4_xs": (_IQ4_XS_BITS, (_IQ4_XS_BITS,)),
    "q2_k_s": (_Q2_K_BITS, (_Q2_K_BITS,)),
    "q2_k": (_Q2_K_BITS, (_Q3_K_BITS,)),
    "q3_k_s": (_Q3_K_BITS, (_Q3_K_BITS,)),
    "q3_k_m": (_Q3_K_BITS, (_Q4_K_BITS,)),
    "q3_k_l": (_Q3_K_BITS, (_Q5_K_BITS,)),
    "q4_k_s": (_Q4_K_BITS, (_Q4_K_BITS,)),
    "q4_k_m": (_Q4_K_BITS, (_Q4_K_BITS, _Q6_K_BITS)),
    "q4_k_xl": (_Q4_K_BITS, (_Q4_K_BITS, _Q6_K_BITS)),
    "q5_k_s": (_Q5_K_BITS, (_Q5_K_BITS,)),
    "q5_k_m": (_Q5_K_BITS, (_Q5_K_BITS, _Q6_K_BITS)),
    "q5_k_xl": (_Q5_K_BITS, (_Q5_K_BITS, _Q6_K_BITS)),
    "q6_k": (_Q6_K_BITS, (_Q6_K_BITS,)),
}
"""Width of most matrices in layers of a mix, and those of the matrices behind the activation [bits], to equal parts.
Source: ggml-org/llama.cpp, src/llama-quant.cpp (types of ffn_down)."""
_BY_BLOCKS_OF_32: Final = ((_Q6_K_BITS, 8.5), (_Q5_K_BITS, 6.0), (_Q4_K_BITS, 5.5), (0.0, 4.5))
"""Widths of types with blocks of 32 that take the place of wider and narrower ones [bits]: q8_0, q5_1, q5_0, iq4_nl.
Source: ggml-org/llama.cpp, src/llama-quant.cpp (fallback of tensors whose rows are no multiple of QK_K)."""


def gguf_row_bits(dtype: str, kind: GgufKind, *, is_down: bool = False) -> float:
    """Bits that a weight of a GGUF mix takes more where rows are no whole number of blocks: a type with blocks of 32
    takes the place of the mix's own. `is_down` means matrices behind the activation.

    Assumes: rows are a whole number of 32 weights.
    """
    usual: tuple[float, ...] = ()
    if kind == "layers" and dtype in _LAYER_TYPES:
        base, down = _LAYER_TYPES[dtype]
        usual = down if is_down else (base,)
    elif dtype in _GGUF_TABLES:
        table, head = _GGUF_TABLES[dtype]
        usual = (head if kind == "head" else table,)
    wider = [next(new for least, new in _BY_BLOCKS_OF_32 if bits >= least) - bits for bits in usual]
    return sum(wider) / len(wider) if wider else 0.0


_NAMES: Final = {
    "aqlm": "aqlm-2bit",
    "quip": "quip-2bit",
    "quip#": "quip-2bit",
    "qserve": "w4a8",
    "w4afp8": "w4a8",
    "2:4": "sparse24",
    "sparse-2:4": "sparse24",
    "awq": "int4",
    "gptq": "int4",
    "w4a16": "int4",
    "w8a8": "int8",
    "bnb": "nf4",
    "bitsandbytes": "nf4",
    "bnb-4bit": "nf4",
    "fp4": "nvfp4",
    "mlx-4bit": "int4",
    "mlx-8bit": "int8",
    "int4-awq": "int4",
    "int4-gptq": "int4",
    "int8-gptq": "int8",
    "fp8-block": "fp8",
    "fp8-per-tensor": "fp8",
    "fp8-per-block": "fp8",
    "fp8-per-channel": "fp8",
    "auto-awq": "int4",
    "auto-gptq": "int4",
    "q2_k_l": "q2_k",
    "q2_k_xl": "q2_k",
    "q3_k_xl": "q3_k_m",
    "q6_k_xl": "q6_k",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "f32": "fp32",
}
"""Other names of a format among users and checkpoints."""


def dtype_of(name: str, kind: str = "precision") -> Resolution:
    """Return the format that a name stands for in any case, and a note if the name is an alias: awq and gptq are int4,
    because both hold groups of 4 bits.

    Raises: UnknownNameError: there is no such format; `hint` lists near misses.
    """
    if name.casefold() in DTYPES:
        return Resolution(name.casefold())
    try:
        name = re.sub(
            "^ud-(?=i?q)", "", name, flags=re.IGNORECASE
        )  # Unsloth's mark of files with types of their own
        return resolve(name, DTYPES, _NAMES, kind)
    except UnknownNameError:
        near = near_misses(name, DTYPES, _NAMES)
        raise UnknownNameError(
            f"unknown {kind} '{name}'",
            why="formats are bf16, fp8, int8, int4 (awq, gptq), nf4, nvfp4, mxfp4, names of GGUF files such as q4_k_m "
            "and widths of EXL3 such as exl3-4.0bpw",
            fix=f"--{kind} {near[0] if near else 'fp8'}",
            hint=f"did you mean: {', '.join(near)}" if near else "",
        ) from None


def known_dtype(name: str | None, option: str = "precision") -> tuple[str | None, str]:
    """Return the number format that an option names, and a note if the name is an alias; None if the option is empty.

    Raises: UnknownNameError: there is no such format.
    """
    if name is None:
        return None, ""
    found = dtype_of(name, option)
    return found.id, found.note


_HALVES: Final = "/"
"""Sign between the formats of keys and values, where a cache keeps them in two."""
_CACHE_BITS: Final[Mapping[str, float]] = {
    "q4_1": grouped_bits(4.0, 32, 16.0, 16.0),
    "iq4_nl": grouped_bits(4.0, 32, 16.0),
    "q5_0": grouped_bits(5.0, 32, 16.0),
    "q5_1": grouped_bits(5.0, 32, 16.0, 16.0),
}
"""Bits of a cached value in blocks of one type, where no format of weights has that width. Source: ggml-org/llama.cpp,
ggml-common.h (block_q4_1, block_iq4_nl, block_q5_0, block_q5_1)."""


CACHE_DTYPES: Final = (*DTYPES, *(name for name in _CACHE_BITS if name not in DTYPES))
"""Formats of the keys or the values of a cache."""


def joined_cache(keys: str, values: str) -> str:
    """Return the format of a cache from those of its keys and its values: q8_0/q4_0; q8_0 if both have it."""
    return keys if keys == values else f"{keys}{_HALVES}{values}"


def cache_halves(kv_dtype: str) -> tuple[str, str]:
    """Return the formats of keys and of values of a cache."""
    keys, _, values = kv_dtype.partition(_HALVES)
    return keys, values or keys


def known_cache(name: str | None) -> tuple[str | None, str]:
    """Return the format of a cache that an option names, keys/values if they differ, and notes on aliases.

    Raises: UnknownNameError: there is no such format.
    """
    if name is None:
        return None, ""
    halves = [
        Resolution(half.casefold()) if half.casefold() in CACHE_DTYPES else dtype_of(half, "kv-precision")
        for half in name.split(_HALVES, 1)
    ]
    notes = dict.fromkeys(half.note for half in halves if half.note)
    return joined_cache(halves[0].id, halves[-1].id), "; ".join(notes)


def cached_value_bytes(kv_dtype: str, key_fraction: float = 0.5) -> float:
    """Mean storage of one value of a cache including its share of block scales [bytes]; `key_fraction` of the values
    are keys.

    Raises: KeyError: the format is unknown.
    """
    keys, values = (
        _CACHE_BITS[half] / BITS_PER_BYTE if half in _CACHE_BITS else bytes_per_element(half)
        for half in cache_halves(kv_dtype)
    )
    if keys == values:
        return keys
    return key_fraction * keys + (1.0 - key_fraction) * values


def bytes_per_element(dtype: str) -> float:
    """Storage of one element including its share of block scales [bytes].

    Raises: KeyError: the format is unknown.
    """
    return _BITS_PER_ELEMENT[dtype] / 8.0
