import pytest
import torch

from advisor.kernels import decode_attention as decode

# heads, key-value heads, head size, lengths, tokens per page
CASES = [
    (2, 1, 64, [1], 16),
    (4, 4, 64, [17, 40], 8),
    (8, 2, 128, [3, 100, 64], 16),
    (32, 1, 64, [65], 32),
]
LARGE = [(32, 8, 128, [8192, 5, 777, 4096], 16), (64, 8, 128, [3000] * 5, 64), (16, 16, 256, [999, 1000], 16)]


@pytest.mark.parametrize("case", CASES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, case, device, on_gpu, assert_close, poison):
    if case in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = decode.make_inputs(*case, seed=case[0] + case[4], device=device, dtype=dtype)
    out = decode.run(*inputs, out=poison(torch.empty_like(inputs[0])))
    assert_close(out, decode.reference(*inputs), slack=2.0)


@pytest.mark.parametrize("case", CASES + LARGE, ids=str)
def test_a_cache_in_fp8_is_read_with_its_scales(case, device, on_gpu, assert_close, poison):
    if case in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    q, k, v, *rest = decode.make_inputs(*case, seed=case[0], device=device, dtype=torch.float16)
    k_pages, k_scale = decode.quantize(k)
    v_pages, v_scale = decode.quantize(3 * v)
    scales = (k_scale, v_scale)
    out = decode.run(q, k_pages, v_pages, *rest, out=poison(torch.empty_like(q)), scales=scales)
    assert_close(out, decode.reference(q, k_pages, v_pages, *rest, scales), slack=2.0)


def test_a_cache_in_fp8_needs_scales(device):
    q, k, v, *rest = decode.make_inputs(2, 1, 64, [5], 16, seed=0, device=device)
    with pytest.raises(ValueError, match="needs scales"):
        decode.run(q, decode.quantize(k)[0], decode.quantize(v)[0], *rest)
    with pytest.raises(ValueError, match="takes no scales"):
        decode.run(q, k, v, *rest, scales=(torch.ones(1, device=device), torch.ones(1, device=device)))


def test_result_does_not_depend_on_the_split(device, assert_close):
    inputs = decode.make_inputs(4, 2, 64, [90, 31], 16, seed=1, device=device)
    for programs_per_sm in (1, 16):
        config = decode.Config(block_n=16, num_warps=4, num_stages=2, programs_per_sm=programs_per_sm)
        assert_close(decode.run(*inputs, config=config), decode.reference(*inputs), slack=2.0)


def test_tokens_beyond_the_length_are_never_seen(device):
    inputs = decode.make_inputs(2, 1, 64, [10, 20], 16, seed=2, device=device)
    expected = decode.run(*inputs)
    q, k_pages, v_pages, table, lengths = inputs
    for sequence, length in enumerate(lengths.tolist()):
        page = int(table[sequence, length // 16])
        slot = length % 16
        k_pages[page, slot:] = float("nan")
        v_pages[page, slot:] = float("inf")
    assert torch.equal(decode.run(q, k_pages, v_pages, table, lengths), expected)


def test_parts_fill_the_chip_but_stay_long_enough():
    config = decode.Config(block_n=64, num_warps=4, num_stages=3, programs_per_sm=8)
    assert decode.choose_parts(1, 8, 131072, config, num_sms=132) == 132
    assert decode.choose_parts(1, 8, 1024, config, num_sms=132) == 4
    assert decode.choose_parts(4096, 8, 1024, config, num_sms=132) == 1


@pytest.mark.parametrize("num_sequences", [1, 3, 8, 16, 50, 64])
def test_all_parts_run_at_once(num_sequences):
    parts = decode.choose_parts(num_sequences, 8, 1 << 20, decode.CONFIG, num_sms=132)
    capacity = decode.CONFIG.programs_per_sm * 132
    assert num_sequences * 8 * parts <= capacity < num_sequences * 8 * (parts + 1)


def test_heads_that_do_not_divide_are_refused(device):
    inputs = decode.make_inputs(3, 2, 64, [4], 16, seed=0, device=device)
    with pytest.raises(ValueError, match="not defined"):
        decode.run(*inputs)


def test_counts():
    assert decode.flop(2, 8, 10) == 640
    assert decode.bytes(1, 8, 10, 2) == 320
