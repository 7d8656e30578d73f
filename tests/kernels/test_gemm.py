import pytest
import torch

from advisor.kernels import gemm
from advisor.kernels.backend import has_fp8, persistent_programs

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


@pytest.mark.parametrize("num", range(len(gemm.CONFIGS[2])))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_every_tile_shape(dtype, num, device, on_gpu, assert_close):
    if not on_gpu:
        pytest.skip("the tile shapes need a GPU's speed")
    a, b = gemm.make_inputs(700, 400, 520, seed=num, device=device, dtype=dtype)
    out = gemm.run(a, b, config=gemm.CONFIGS[dtype.itemsize][num])
    assert_close(out, gemm.reference(a, b))


# In the interpreter, with four programs: pieces alone, two waves and pieces of one tile more, ragged edges.
CUT = [(60, 64, 96), (64, 64, 32), (64, 576, 64), (60, 300, 50), (130, 170, 64)]
CUT_LARGE = [(512, 10240, 4096), (1536, 6144, 4096), (1100, 4000, 1000), (100, 300, 512)]


@pytest.mark.parametrize("num", range(2))
@pytest.mark.parametrize("shape", CUT + CUT_LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_pieces_of_the_last_wave_cover_it(dtype, shape, num, device, on_gpu, assert_close, poison):
    if shape in CUT_LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    m, n, k = shape
    cut = [config for config in gemm.CONFIGS[dtype.itemsize] if config.pieces > 1]
    config = cut[num] if on_gpu else gemm.Config(64, 64, 32, 4, 1, pieces=(4, 2)[num])
    a, b = gemm.make_inputs(m, n, k, seed=m + n + k, device=device, dtype=dtype)
    scale = torch.tensor([0.25], device=device) if dtype.itemsize == 1 else None
    out = poison(gemm.empty_output(m, n, torch.bfloat16, device))
    gemm.run(a, b, scale, out, config)
    assert_close(out, gemm.reference(a, b, 0.25 if scale is not None else 1.0))


def test_a_full_last_wave_cannot_be_cut(device):
    n = 64 * persistent_programs(device)
    a, b = gemm.make_inputs(64, n, 32, seed=0, device=device)
    with pytest.raises(ValueError, match="cannot cut"):
        gemm.run(a, b, config=gemm.Config(64, 64, 32, 4, 1, pieces=4))


@pytest.mark.parametrize(
    ("m", "n", "block_m", "pieces"),
    [
        (1536, 6144, 128, 4),
        (512, 6144, 64, 2),
        (512, 28672, 64, 1),
        (8192, 8192, 128, 1),
    ],
)
@pytest.mark.parametrize("element_bytes", [1, 2])
def test_a_nearly_empty_last_wave_is_cut(m, n, block_m, pieces, element_bytes, monkeypatch):
    monkeypatch.setattr(gemm, "INTERPRET", False)
    config = gemm.choose_config(m, n, element_bytes, programs=132)
    assert (config.block_m, config.block_n, config.pieces) == (block_m, 256, pieces)


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
    small = gemm.choose_config(64, 1024, 2, programs=132)
    assert (large.block_m, large.block_n) == (128, 256)
    assert small.block_m * small.block_n < large.block_m * large.block_n


def test_counts():
    assert gemm.flop(2, 3, 4) == 48
    assert gemm.bytes(2, 3, 4, 1) == 8 + 12 + 12
