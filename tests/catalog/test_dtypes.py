"""Bits of number formats, scales included."""

import itertools

import pytest

from advisor.catalog.dtypes import (
    CACHE_DTYPES,
    DTYPES,
    EXL3_DTYPES,
    GGUF_DTYPES,
    bytes_per_element,
    cache_halves,
    cached_value_bytes,
    dtype_of,
    grouped_bits,
    joined_cache,
    known_cache,
)
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, read_csv


@pytest.mark.parametrize(("zero_point_bits", "bits"), [(0, 4.125), (4, 4.15625), (16, 4.25)])
def test_int4_in_groups_of_128(zero_point_bits: int, bits: float) -> None:
    assert grouped_bits(4, 128, 16, zero_point_bits) == bits


def test_block_formats_carry_their_scales() -> None:
    assert bytes_per_element("nvfp4") == 4.5 / 8
    assert bytes_per_element("mxfp4") == 4.25 / 8
    assert bytes_per_element("int4") == 4.15625 / 8


def test_exl3_formats_are_as_wide_as_their_names_say() -> None:
    assert {name: 8 * bytes_per_element(name) for name in EXL3_DTYPES} == {
        name: float(name.split("-")[1][:3]) for name in EXL3_DTYPES
    }
    assert not set(EXL3_DTYPES) & set(GGUF_DTYPES)


def test_every_format_has_a_size_and_an_unknown_one_is_refused() -> None:
    assert all(0.25 <= bytes_per_element(name) <= 4 for name in DTYPES)
    with pytest.raises(KeyError):
        bytes_per_element("fp5")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("int4", "int4"),
        ("AWQ", "int4"),
        ("gptq", "int4"),
        ("W4A16", "int4"),
        ("bitsandbytes", "nf4"),
        ("Q4_K_M", "q4_k_m"),
        ("iq3-xxs", "iq3_xxs"),
        ("FP8", "fp8"),
        ("bfloat16", "bf16"),
        ("EXL3-4.0bpw", "exl3-4.0bpw"),
    ],
)
def test_people_call_formats_by_other_names(name: str, dtype: str) -> None:
    assert dtype_of(name).id == dtype


def test_an_unknown_format_has_near_misses() -> None:
    with pytest.raises(UnknownNameError) as caught:
        dtype_of("q4_k_n")
    assert "q4_k_m" in caught.value.hint


def test_fewer_bits_in_the_name_are_fewer_bits() -> None:
    ladder = (
        "iq1_s",
        "iq2_xxs",
        "iq2_m",
        "q3_k_s",
        "q3_k_m",
        "q3_k_l",
        "q4_k_s",
        "q4_k_m",
        "q5_k_m",
        "q6_k",
        "q8_0",
    )
    bits = [bytes_per_element(name) for name in ladder]
    assert bits == sorted(set(bits))
    assert bytes_per_element("nf4") == pytest.approx(4.127 / 8, rel=1e-4)


def test_every_type_of_a_known_gguf_file_is_a_precision() -> None:
    rows = read_csv(DATA_DIR / "support" / "gguf_files.csv", ("repository", "file", "size_gib", "source"))
    for name in {row["file"] for _, row in rows}:
        kept = dtype_of(name).id
        assert kept in (*GGUF_DTYPES, "mxfp4", "bf16"), name
        assert dtype_of(name.lower().removeprefix("ud-")).id == kept


def test_a_cache_is_as_wide_as_its_keys_and_its_values() -> None:
    for keys, values in itertools.product(CACHE_DTYPES, repeat=2):
        joined = joined_cache(keys, values)
        assert known_cache(joined.upper()) == (joined, "")
        assert cache_halves(joined) == (keys, values)
        whole = cached_value_bytes(keys), cached_value_bytes(values)
        assert cached_value_bytes(joined) == pytest.approx(sum(whole) / 2)
        assert cached_value_bytes(joined, 0.75) == pytest.approx(0.75 * whole[0] + 0.25 * whole[1])
        assert cached_value_bytes(joined, 1.0) == whole[0]


def test_caches_of_llama_cpp_have_the_widths_of_its_blocks() -> None:
    """Source: ggml-org/llama.cpp, ggml-common.h: bytes of a block of 32."""
    blocks = {"fp16": 64, "q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18, "iq4_nl": 18}
    assert {name: 32 * cached_value_bytes(name) for name in blocks} == blocks
