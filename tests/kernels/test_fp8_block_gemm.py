"""Products in fp8 with scales of blocks, whole and by expert, against the dequantised operands in fp64."""

import pytest
import torch

from advisor.kernels import fp8_block_gemm, fp8_block_gemm_wgmma, grouped_gemm_fp8
from advisor.kernels.backend import has_fp8

SIZES = [(1, 8, 16), (33, 136, 144), (70, 100, 256), (5, 300, 400)]
LARGE = [(1000, 1032, 2048), (4096, 512, 4096)]


@pytest.fixture(autouse=True)
def _needs_fp8(device):
    if not has_fp8(device):
        pytest.skip("no fp8 matrix unit")


@pytest.fixture(params=["triton", "wgmma"])
def run(request, device):
    """Launch function of the kernel, or of its twin with roles of warps."""
    if request.param == "triton":
        return fp8_block_gemm.run
    if not fp8_block_gemm_wgmma.is_supported(device):
        pytest.skip(
            "roles of warps run on NVIDIA's Hopper only; fp8_block_gemm is the twin for the interpreter"
        )
    return fp8_block_gemm_wgmma.run


@pytest.fixture
def run_grouped(run):
    """Launch function of the grouped kernel that belongs to `run`."""
    return fp8_block_gemm_wgmma.run_grouped if run is fp8_block_gemm_wgmma.run else grouped_gemm_fp8.run


@pytest.mark.parametrize("sizes", SIZES + LARGE, ids=str)
def test_matches_reference(run, sizes, device, on_gpu, assert_close):
    if sizes in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = fp8_block_gemm.make_inputs(*sizes, 1, device)
    out = run(*inputs)
    # Sums of 128 products keep 14 bits in the matrix unit of Hopper.
    assert_close(out, fp8_block_gemm.reference(*inputs), slack=2.0)


def test_each_block_has_its_own_scale(run, device, assert_close):
    a, a_scale, b, b_scale = fp8_block_gemm.make_inputs(20, 200, 272, 2, device)
    steps = torch.arange(a_scale.numel(), device=device).reshape(a_scale.shape) % 7
    a_scale *= 2.0**steps
    b_scale *= 1.0 + torch.arange(b_scale.numel(), device=device).reshape(b_scale.shape)
    out = run(a, a_scale, b, b_scale)
    assert_close(out, fp8_block_gemm.reference(a, a_scale, b, b_scale), slack=2.0)


def test_quantised_rows_are_near_the_rows(device):
    x = torch.randn(5, 300, generator=torch.Generator(device=device).manual_seed(3), device=device)
    values = fp8_block_gemm.dequantize_rows(*fp8_block_gemm.quantize_rows(x))
    assert float((values - x).norm() / x.norm()) < 0.05
    squares = fp8_block_gemm.dequantize_weights(*fp8_block_gemm.quantize_weights(x))
    assert float((squares - x).norm() / x.norm()) < 0.05


def test_large_tiles_count_the_multiprocessors_without_work():
    filled = fp8_block_gemm_wgmma.filled_fraction
    assert filled(192, 128, 132) == 1 / 132
    assert filled(192 * 12, 128 * 11, 132) == 1.0
    # 168 tiles of 192 x 128 take two rounds of 132.
    assert filled(512, 7168, 132) == 168 / 264


# rows, experts, n, k
CASES = [(5, 2, 40, 32), (100, 3, 136, 144), (20, 7, 8, 256)]
LARGE_CASES = [(4096, 8, 1024, 2048), (300, 64, 512, 512)]


@pytest.mark.parametrize("case", CASES + LARGE_CASES, ids=str)
def test_grouped_matches_reference(run_grouped, case, device, on_gpu, assert_close, poison):
    if case in LARGE_CASES and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = grouped_gemm_fp8.make_inputs(*case, 4, device)
    out = poison(torch.empty((case[0], case[2]), dtype=torch.bfloat16, device=device))
    run_grouped(*inputs, out=out)
    assert_close(out, grouped_gemm_fp8.reference(*inputs), slack=2.0)


@pytest.mark.parametrize("sizes", [[0, 0, 20], [20, 0, 0], [0, 1, 19], [7, 6, 7], [0, 0, 0]], ids=str)
def test_groups_without_rows_and_of_unequal_sizes(run_grouped, sizes, device, assert_close, poison):
    *operands, _ = grouped_gemm_fp8.make_inputs(max(1, sum(sizes)), 3, 32, 144, 5, device)
    group_sizes = torch.tensor(sizes, device=device)
    out = poison(torch.empty((max(1, sum(sizes)), 32), dtype=torch.bfloat16, device=device))
    run_grouped(*operands, group_sizes, out=out)
    if sum(sizes):
        assert_close(out, grouped_gemm_fp8.reference(*operands, group_sizes), slack=2.0)
    else:
        assert bool(out.isnan().all()), "a row of no expert was written"


def test_an_inner_size_that_the_copy_engine_cannot_read_is_refused(device):
    a, a_scale, b, b_scale = fp8_block_gemm.make_inputs(4, 8, 24, 1, device)
    with pytest.raises(ValueError, match="16 bytes"):
        fp8_block_gemm.run(a, a_scale, b, b_scale)


def test_counts():
    assert fp8_block_gemm.flop(2, 3, 4) == 48
    assert fp8_block_gemm.bytes(2, 130, 200) == 400 + 26000 + 4 * 2 * (2 + 2) + 520
    assert grouped_gemm_fp8.bytes(2, 130, 200, 3) == 2 * (200 + 8 + 260) + 3 * (26000 + 16)
