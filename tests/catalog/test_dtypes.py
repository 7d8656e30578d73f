"""Bits of number formats, scales included."""

import pytest

from advisor.catalog.dtypes import DTYPES, EXL3_DTYPES, GGUF_DTYPES, bytes_per_element, grouped_bits


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
