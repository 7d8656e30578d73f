"""Occupancy against NVIDIA's published examples, and what cannot be launched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.errors import AdvisorError
from advisor.simulator.occupancy import LIMITS, limits_of, occupancy

KIB = 1024


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks", "fraction", "limit"),
    [
        # CUDA C++ Best Practices Guide, "Calculating Occupancy".
        ("7.0", 128, 37, 0, 12, 0.75, "registers"),
        ("7.0", 320, 37, 0, 4, 0.625, "registers"),
        ("7.0", 1024, 32, 0, 2, 1.0, "registers"),
        # CUDA C++ Programming Guide: small blocks run out of slots.
        ("10.0", 32, 16, 0, 32, 0.5, "block slots"),
        # Tuning guides: the largest block of shared memory leaves room for no other.
        ("8.0", 256, 32, 163 * KIB, 1, 8 / 64, "shared memory"),
        ("9.0", 128, 32, 227 * KIB, 1, 4 / 64, "shared memory"),
        ("9.0", 384, 168, 100 * KIB, 1, 12 / 64, "registers"),
        # 24 slots of an Ada SM against 16 of a GA10x.
        ("8.9", 32, 16, 0, 24, 0.5, "block slots"),
        ("8.6", 32, 16, 0, 16, 1 / 3, "block slots"),
        ("7.5", 1024, 32, 0, 1, 1.0, "threads"),
    ],
)
def test_published_examples(capability, threads, registers, shared, blocks, fraction, limit):
    found = occupancy(limits_of(capability), threads, registers, shared)
    assert found.blocks_per_sm == blocks
    assert found.fraction == pytest.approx(fraction)
    assert limit in found.limits


@pytest.mark.parametrize(
    ("registers", "threads"), [(255, 256), (128, 512), (100, 512), (64, 1024), (32, 1536)]
)
def test_threads_that_registers_allow_on_ada(registers, threads):
    assert occupancy(limits_of("8.9"), 64, registers).warps_per_sm * 32 == threads


def test_each_block_costs_the_drivers_kibibyte_since_ampere():
    assert occupancy(limits_of("9.0"), 64, 32, 56 * KIB).blocks_per_sm == 4
    assert occupancy(limits_of("9.0"), 64, 32, 57 * KIB).blocks_per_sm == 3
    assert occupancy(limits_of("7.0"), 64, 32, 48 * KIB).blocks_per_sm == 2
    assert occupancy(limits_of("9.0"), 64, 32, 56 * KIB).shared_bytes_left == 0


@given(st.sampled_from(sorted(LIMITS)), st.integers(1, 1024), st.integers(1, 60), st.integers(0, 60 * KIB))
def test_more_of_anything_never_fits_more_blocks(capability, threads, registers, shared):
    limits = limits_of(capability)
    base = occupancy(limits, threads, registers, shared)
    assert 0 < base.fraction <= 1
    assert base.warps_per_sm <= base.max_warps_per_sm
    assert occupancy(limits, threads, registers + 4, shared).blocks_per_sm <= base.blocks_per_sm
    assert occupancy(limits, threads, registers, shared + 1024).blocks_per_sm <= base.blocks_per_sm


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "what"),
    [
        (0, 32, 0, "threads per block"),
        (1025, 32, 0, "threads per block"),
        (32, 0, 0, "registers per thread"),
        (32, 256, 0, "registers per thread"),
        (32, 32, -1, "shared memory"),
        (32, 32, 228 * KIB, "shared memory"),
        (1024, 128, 0, "does not fit an SM"),
    ],
)
def test_what_cannot_be_launched_is_refused(threads, registers, shared, what):
    with pytest.raises(AdvisorError, match=what) as error:
        occupancy(limits_of("9.0"), threads, registers, shared)
    assert error.value.fix


@pytest.mark.parametrize("capability", ["gfx942", "", "6.0"])
def test_unknown_capabilities_are_refused(capability):
    with pytest.raises(AdvisorError, match="no occupancy limits"):
        limits_of(capability)
