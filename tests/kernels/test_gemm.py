import pytest
import torch

from advisor.kernels import gemm
from advisor.kernels.backend import has_fp8

SHAPES = [(1, 16, 16), (64, 128, 96), (130, 72, 40), (65, 33, 50)]
LARGE = [(1000, 1536, 1000), (4096, 4096, 4096), (513, 6144, 4096)]


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn], ids=str)
def test_matches_reference(dtype, shape, device, on_gpu, assert_close, poison):
    if shape in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    if dtype.itemsize == 1 and not has_fp8(device):
        pytest.skip("no fp8 matrix unit")
    m, n, k = shape
    a, b = gemm.make_inputs(m, n, k, seed=m + n + k, device=device, dtype=dtype)
    scale = torch.tensor([0.25], device=device) if dtype.itemsize == 1 else None
    out = poison(gemm.empty_output(m, n, torch.bfloat16 if dtype.itemsize == 1 else dtype, device))
    gemm.run(a, b, scale, out)
    assert_close(out, gemm.reference(a, b, 0.25 if scale is not None else 1.0))


@pytest.mark.parametrize("num", range(4))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_every_tile_shape(dtype, num, device, on_gpu, assert_close):
    if not on_gpu:
        pytest.skip("the tile shapes need a GPU's speed")
    a, b = gemm.make_inputs(700, 1100, 520, seed=num, device=device, dtype=dtype)
    out = gemm.run(a, b, config=gemm.CONFIGS[dtype.itemsize][num])
    assert_close(out, gemm.reference(a, b))


def test_unaligned_rows_are_padded_and_views_survive(device, assert_close):
    a, b = gemm.make_inputs(20, 24, 70, seed=3, device=device)
    assert_close(gemm.run(a[:, 3:36], b[:, 3:36]), gemm.reference(a[:, 3:36], b[:, 3:36]))


def test_wrong_shapes_are_refused(device):
    a, b = gemm.make_inputs(16, 16, 16, seed=0, device=device)
    with pytest.raises(ValueError, match="cannot multiply"):
        gemm.run(a, b[:, :8])


def test_many_small_tiles_beat_few_large_ones_when_the_grid_is_starved(monkeypatch):
    monkeypatch.setattr(gemm, "INTERPRET", False)
    large = gemm.choose_config(8192, 8192, 2, programs=132)
    small = gemm.choose_config(128, 1024, 2, programs=132)
    assert (large.block_m, large.block_n) == (128, 256)
    assert small.block_m * small.block_n < large.block_m * large.block_n


def test_counts():
    assert gemm.flop(2, 3, 4) == 48
    assert gemm.bytes(2, 3, 4, 1) == 8 + 12 + 12
