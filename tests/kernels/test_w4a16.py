import pytest
import torch

from advisor.kernels import w4a16

SHAPES = [(1, 16, 128), (1, 48, 384), (1, 16, 1152), (2, 64, 128), (5, 80, 384), (17, 32, 256)]
LARGE = [(1, 4096, 14336), (1, 1008, 8192), (16, 4096, 4096), (64, 1008, 4096), (100, 1008, 1024)]


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, device, on_gpu, assert_close, poison):
    if shape in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    x, words, scale = w4a16.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    out = w4a16.run(x, words, scale, poison(x.new_empty(shape[:2])))
    # With several rows the weights are rounded to 16 bits before the product.
    assert_close(out, w4a16.reference(x, words, scale), slack=2.0)


def test_packing_survives_a_round_trip(device):
    q = torch.randint(0, 16, (48, 256), device=device)
    assert torch.equal(w4a16.unpack(w4a16.pack(q)), q.to(torch.int32))


@pytest.mark.parametrize("position", [0, 1, 17, 50, 66, 83, 100, 127])
def test_each_weight_meets_its_activation(position, device):
    q = torch.full((16, 128), 8, device=device)
    q[:, position] = 15
    x = torch.zeros((1, 128), device=device, dtype=torch.float16)
    x[0, position] = 2.0
    scale = torch.ones((1, 16), device=device, dtype=torch.float16)
    assert torch.equal(w4a16.run(x, w4a16.pack(q), scale), torch.full_like(x[:, :16], 14.0))


def test_wrong_sizes_are_refused(device):
    x, words, scale = w4a16.make_inputs(1, 32, 256, seed=0, device=device)
    with pytest.raises(ValueError, match="words"):
        w4a16.run(x[:, :128], words, scale)
    with pytest.raises(ValueError, match="words"):
        w4a16.run(x, words[:24], scale[:, :24].contiguous())


def test_words_of_a_tile_lie_together(device):
    q = torch.zeros((32, 256), dtype=torch.int64, device=device)
    q[16, 128:] = 15
    words = w4a16.pack(q).flatten()
    filled = words.nonzero().flatten().tolist()
    # The second tile of rows, its second group of weights, the first row.
    assert filled == [2 * 256 + 256 + word for word in range(16)]


def test_counts():
    assert w4a16.weight_bytes(2, 256) == 256 + 8
    assert w4a16.bytes(1, 2, 256) == 264 + 258 * 2
    assert w4a16.flop(1, 2, 256) == 1024


def test_the_matrix_twin_is_for_few_rows_on_a_gpu(device, on_gpu):
    from advisor.kernels import w4a16_mma

    few, _, _ = w4a16.make_inputs(1, 64, 256, seed=0, device=device)
    many, _, _ = w4a16.make_inputs(w4a16_mma.LARGEST_M + 1, 64, 256, seed=0, device=device)
    assert w4a16_mma.is_supported(few, 64) is on_gpu
    assert not w4a16_mma.is_supported(many, 64)
    assert not w4a16_mma.is_supported(few, 63)
    assert not w4a16_mma.is_supported(few[:, :128], 64)


def test_programs_share_the_units_evenly():
    from advisor.kernels import w4a16_mma

    assert w4a16_mma.units_per_program(64 * 32, sms=132, programs_per_sm=6) == 3
    assert w4a16_mma.units_per_program(10, sms=132, programs_per_sm=6) == 1
    assert w4a16_mma.most_parts(units_per_tile=32, units=3) == 12
    assert w4a16_mma.most_parts(units_per_tile=1, units=5) == 1


def test_tall_tiles_are_taken_where_activations_are_read_often():
    """16 rows of activations or fewer need a large matrix, more need none; a matrix of fewer rows has no tall tile."""
    from advisor.kernels import w4a16_mma

    assert w4a16_mma.choose_plan(16, 57344, 8192, sms=132) == w4a16_mma.TALL
    assert w4a16_mma.choose_plan(16, 4096, 4096, sms=132) == w4a16_mma.SHORT
    assert w4a16_mma.choose_plan(17, 4096, 4096, sms=132) == w4a16_mma.TALL_WIDE
    assert w4a16_mma.choose_plan(32, 64, 1 << 20, sms=132) == w4a16_mma.SHORT
