import pytest
import torch

from advisor.kernels import decode_attention as decode
from advisor.kernels import decode_attention_fp8 as fp8

# heads, key-value heads, head size, lengths, tokens per page
CASES = [
    (2, 1, 64, [1], 16),
    (4, 4, 64, [17, 40], 48),
    (8, 2, 128, [3, 100, 64], 16),
    (32, 2, 64, [65], 32),
    (14, 2, 256, [700, 31], 64),
    (32, 8, 128, [8192, 5, 777, 4096], 64),
]


@pytest.fixture
def _needs_a_gpu(on_gpu):
    if not on_gpu:
        pytest.skip(
            "layouts chosen by hand run on an NVIDIA GPU only; decode_attention is the twin for the interpreter"
        )


def with_cache_in_fp8(case, device, dtype, cache=torch.float8_e4m3fn):
    q, k, v, *rest = decode.make_inputs(*case, seed=case[0], device=device, dtype=dtype)
    k_pages, k_scale = decode.quantize(k, cache)
    v_pages, v_scale = decode.quantize(3 * v, cache)
    return (q, k_pages, v_pages, *rest), (k_scale, v_scale)


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("cache", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, cache, case, device, assert_close, poison):
    inputs, scales = with_cache_in_fp8(case, device, dtype, cache)
    assert fp8.is_supported(inputs[0], inputs[1])
    out = fp8.run(*inputs, out=poison(torch.empty_like(inputs[0])), scales=scales)
    assert_close(out, decode.reference(*inputs, scales), slack=2.0)


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("size", [1e-20, 1e-3, 1e3, 1e20])
def test_queries_of_any_size_fit_the_narrower_format(size, device, assert_close):
    (q, *rest), (k_scale, v_scale) = with_cache_in_fp8(CASES[2], device, torch.bfloat16)
    scales = (k_scale / size, v_scale)
    q = q * size
    assert_close(fp8.run(q, *rest, scales=scales), decode.reference(q, *rest, scales), slack=2.0)


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("programs_per_sm", [1, 2, 16])
def test_result_does_not_depend_on_the_split(programs_per_sm, device, assert_close):
    inputs, scales = with_cache_in_fp8((4, 2, 64, [900, 31], 32), device, torch.float16)
    config = decode.Config(block_n=16, num_warps=1, num_stages=1, programs_per_sm=programs_per_sm)
    out = fp8.run(*inputs, config=config, scales=scales)
    assert_close(out, decode.reference(*inputs, scales), slack=2.0)


@pytest.mark.usefixtures("_needs_a_gpu")
def test_tokens_beyond_the_length_are_never_seen(device):
    inputs, scales = with_cache_in_fp8((2, 1, 64, [10, 20], 16), device, torch.bfloat16)
    expected = fp8.run(*inputs, scales=scales)
    q, k_pages, v_pages, table, lengths = inputs
    for sequence, length in enumerate(lengths.tolist()):
        page = int(table[sequence, length // 16])
        for pages in (k_pages, v_pages):
            pages.view(torch.uint8)[page, length % 16 :] = 0x7F  # not a number
    assert torch.equal(fp8.run(q, k_pages, v_pages, table, lengths, scales=scales), expected)


def test_other_sizes_and_formats_are_refused(device):
    for case in ((2, 1, 32, [5], 16), (16, 1, 256, [5], 16), (2, 1, 64, [5], 8)):
        inputs, scales = with_cache_in_fp8(case, device, torch.bfloat16)
        assert not fp8.is_supported(inputs[0], inputs[1])
        with pytest.raises(ValueError, match="the kernel takes"):
            fp8.run(*inputs, scales=scales)
    with pytest.raises(ValueError, match="the kernel takes"):
        fp8.run(*decode.make_inputs(*CASES[0], seed=0, device=device))


def test_steps_lie_in_a_page_and_large_results_have_fewer_programs():
    assert fp8.choose_config(8, 128, 64).block_n == 32
    assert fp8.choose_config(8, 128, 48).block_n == 16
    assert fp8.choose_config(8, 128, 48).programs_per_sm == 16
    assert fp8.choose_config(8, 128, 64).programs_per_sm == 12
    assert fp8.choose_config(16, 128, 64).programs_per_sm == 8
    assert fp8.choose_config(8, 256, 64).programs_per_sm == 8
