import pytest
import torch

from advisor.kernels import mla_decode

# heads, lengths, tokens per page
CASES = [(1, [1], 16), (16, [17, 40], 8), (20, [65, 3], 16)]
LARGE = [(128, [4096, 777, 1], 64), (16, [8192, 5], 64), (64, [1000] * 5, 16)]


@pytest.mark.parametrize("case", CASES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, case, device, on_gpu, assert_close, poison):
    if case in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = mla_decode.make_inputs(*case, seed=case[0], device=device, dtype=dtype)
    out = poison(inputs[0].new_empty((len(case[1]), case[0], mla_decode.LATENT)))
    mla_decode.run(*inputs, out=out)
    assert_close(out, mla_decode.reference(*inputs), slack=2.0)


def test_tokens_beyond_the_length_are_never_seen(device):
    q, pages, table, lengths, scale = mla_decode.make_inputs(4, [10, 20], 16, 2, device)
    expected = mla_decode.run(q, pages, table, lengths, scale)
    for sequence, length in enumerate(lengths.tolist()):
        pages[int(table[sequence, length // 16]), length % 16 :] = float("nan")
    assert torch.equal(mla_decode.run(q, pages, table, lengths, scale), expected)


def test_rows_of_another_width_are_refused(device):
    q, pages, table, lengths, scale = mla_decode.make_inputs(4, [10], 16, 2, device)
    with pytest.raises(ValueError, match="576"):
        mla_decode.run(q[:, :, :512].contiguous(), pages, table, lengths, scale)


def test_counts():
    assert mla_decode.flop(2, 10) == 2 * 2 * 1088 * 10
    assert mla_decode.bytes(1, 2, 10, 2) == (576 * 10 + 2 * 1088) * 2
