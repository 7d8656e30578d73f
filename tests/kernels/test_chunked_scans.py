"""Chunked scans and the convolution before them: against token after token in fp64, and with states handed over."""

import itertools

import pytest
import torch

from advisor.kernels import causal_conv1d, gated_delta, ssd

# sequences, tokens, heads, channels, groups, states
SSD = [(1, 1, 1, 16, 1, 16), (2, 40, 4, 24, 2, 24), (1, 70, 2, 64, 1, 32)]
LARGE_SSD = [(2, 1000, 8, 64, 1, 128), (1, 515, 4, 64, 2, 64), (1, 4096, 2, 64, 1, 128)]


@pytest.mark.parametrize("case", SSD + LARGE_SSD, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_ssd_matches_reference(dtype, case, device, on_gpu, assert_close, poison):
    if case in LARGE_SSD and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = ssd.make_inputs(*case, 1, device, dtype)
    y, state = ssd.run(*inputs, out=poison(torch.empty_like(inputs[0])))
    expected_y, expected_state = ssd.reference(*inputs)
    assert_close(y, expected_y, slack=2.0)
    # Weighted inputs are rounded before the product.
    assert_close(state, expected_state, dtype, slack=2.0)


@pytest.mark.parametrize(("segments", "has_start"), [(2, False), (3, True), (5, False)])
def test_segments_give_the_same(segments, has_start, device, assert_close):
    inputs = ssd.make_inputs(1, 100, 2, 24, 1, 16, 2, device, torch.float16)
    start = torch.randn((1, 2, 16, 24), device=device) if has_start else None
    y, state = ssd.run(*inputs, start, num_segments=segments)
    expected_y, expected_state = ssd.reference(*inputs, start)
    assert_close(y, expected_y, slack=2.0)
    assert_close(state, expected_state, torch.float16, slack=2.0)


def test_states_that_vanish_within_a_chunk_leave_no_trace(device, assert_close):
    # Decays among a chunk's tokens span thousands of powers of two, in both directions of time.
    x, delta, a, b, c, skip = ssd.make_inputs(1, 100, 2, 16, 1, 16, 5, device, torch.float16)
    inputs = (x, delta * 200.0, a, b, c, skip)
    y, state = ssd.run(*inputs)
    expected_y, expected_state = ssd.reference(*inputs)
    assert_close(y, expected_y, slack=2.0)
    assert_close(state, expected_state, torch.float16, slack=2.0)


def test_segments_fill_a_chip_that_sequences_leave_idle():
    assert ssd.choose_segments(640, 4096, 64, 264) == 1
    assert ssd.choose_segments(80, 8192, 64, 264) == 3
    assert ssd.choose_segments(24, 1024, 64, 264) == 2


@pytest.mark.parametrize("cut", [1, 17, 64, 80])
def test_states_are_handed_over(cut, device, assert_close):
    inputs = ssd.make_inputs(1, 90, 2, 16, 1, 16, 3, device, torch.float16)
    whole, whole_state = ssd.reference(*inputs)
    x, delta, a, b, c, skip = inputs

    def some(part, start):
        return ssd.run(
            *(one[:, part].contiguous() for one in (x, delta)),
            a,
            b[:, part].contiguous(),
            c[:, part].contiguous(),
            skip,
            start,
        )

    first, state = some(slice(0, cut), None)
    second, state = some(slice(cut, 90), state)
    assert_close(torch.cat((first, second), dim=1), whole, slack=2.0)
    assert_close(state, whole_state, torch.float16, slack=2.0)


# sequences, tokens, heads, key size, value size
DELTA = [(1, 1, 1, 16, 16), (2, 40, 2, 24, 40), (1, 130, 1, 64, 32)]
LARGE_DELTA = [(2, 1000, 4, 128, 128), (1, 777, 2, 64, 256), (1, 140, 2, 24, 128), (1, 140, 2, 128, 24)]


@pytest.mark.parametrize("case", DELTA + LARGE_DELTA, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gated_delta_matches_reference(dtype, case, device, on_gpu, assert_close, poison):
    if case in LARGE_DELTA and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = gated_delta.make_inputs(*case, 4, device, dtype)
    y, state = gated_delta.run(*inputs, out=poison(torch.empty_like(inputs[2])))
    expected_y, expected_state = gated_delta.reference(*inputs)
    # The inverse, the solved values and the state are rounded before the products that follow.
    assert_close(y, expected_y, slack=4.0)
    assert_close(state, expected_state, dtype, slack=4.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_delta_rule_is_right_at_every_width(dtype, device, on_gpu):
    """A compiler that divides narrow and wide operands of one kernel among its warps may err at some pair of widths."""
    if not on_gpu:
        pytest.skip("widths decide what is compiled: GPU only")
    for key_size, value_size in itertools.product((8, 16, 24, 32, 40, 64, 96, 128, 200, 256), repeat=2):
        inputs = gated_delta.make_inputs(1, 140, 2, key_size, value_size, 4, device, dtype)
        for found, expected in zip(gated_delta.run(*inputs), gated_delta.reference(*inputs), strict=True):
            assert (found.double() - expected).norm() < 6e-3 * expected.norm(), (key_size, value_size)


def test_like_keys_keep_their_digits(device, assert_close):
    """With one key for all tokens, full strength and no decay, each token overwrites the value of the one before."""
    _, k, v, g, beta = gated_delta.make_inputs(1, 64, 1, 16, 16, 5, device, torch.float16)
    k = k[:, :1].expand(-1, 64, -1, -1).contiguous()
    k[:] = 0.25  # of length one, without rounding
    y, state = gated_delta.run(k * 4, k, v, torch.zeros_like(g), torch.ones_like(beta))
    assert_close(y, v.double(), slack=4.0)
    assert_close(
        torch.einsum("k,kv->v", k[0, 0, 0].float(), state[0, 0]), v[0, -1, 0].double(), torch.float16, 4.0
    )


@pytest.mark.parametrize("cut", [1, 64, 77])
def test_states_of_the_delta_rule_are_handed_over(cut, device, assert_close):
    inputs = gated_delta.make_inputs(1, 100, 2, 16, 16, 6, device, torch.float16)
    whole, whole_state = gated_delta.reference(*inputs)
    first, state = gated_delta.run(*(x[:, :cut].contiguous() for x in inputs))
    second, state = gated_delta.run(*(x[:, cut:].contiguous() for x in inputs), state)
    assert_close(torch.cat((first, second), dim=1), whole, slack=4.0)
    assert_close(state, whole_state, torch.float16, slack=4.0)


CONVOLUTIONS = [
    *itertools.product(
        [torch.bfloat16, torch.float16, torch.float32], [True, False], [(1, 1, 1, 2), (2, 17, 20, 4)]
    ),
    (torch.bfloat16, True, (1, 20, 40, 3)),
]
"""Formats decide how elements are read, and shapes how many programs there are: the most programs have one format."""


@pytest.mark.parametrize(("dtype", "silu", "case"), CONVOLUTIONS, ids=str)
def test_convolution_matches_reference(dtype, silu, case, device, assert_close, poison):
    inputs = causal_conv1d.make_inputs(*case, 7, device, dtype)
    y, _ = causal_conv1d.run(*inputs, silu=silu, out=poison(torch.empty_like(inputs[0])))
    assert_close(y, causal_conv1d.reference(*inputs, silu=silu), slack=2.0)


@pytest.mark.parametrize("cut", [1, 2, 3, 20])
def test_tokens_of_the_convolution_are_handed_over(cut, device, assert_close):
    x, weight, bias = causal_conv1d.make_inputs(2, 24, 10, 4, 8, device, torch.float32)
    first, state = causal_conv1d.run(x[:, :cut].contiguous(), weight, bias)
    second, _ = causal_conv1d.run(x[:, cut:].contiguous(), weight, bias, state)
    assert_close(torch.cat((first, second), dim=1), causal_conv1d.reference(x, weight, bias))


def test_shapes_that_mean_nothing_are_refused(device):
    x, weight, bias = causal_conv1d.make_inputs(1, 8, 4, 4, 0, device)
    with pytest.raises(ValueError, match="no convolution"):
        causal_conv1d.run(x, weight.repeat(1, 3), bias)
    inputs = ssd.make_inputs(1, 8, 3, 16, 1, 16, 0, device)
    with pytest.raises(ValueError, match="groups"):
        ssd.run(*inputs[:3], *(one.expand(-1, -1, 2, -1).contiguous() for one in inputs[3:5]), inputs[5])
    delta = gated_delta.make_inputs(1, 8, 1, 512, 16, 0, device)
    with pytest.raises(ValueError, match="wider"):
        gated_delta.run(*delta)


def test_counts():
    assert ssd.flop(1, 2, 3, 4, 1, 5, 6) == 2 * 2 * (3 * (24 + 40) + 30)
    assert ssd.bytes(1, 2, 3, 4, 1, 5, 2) == 2 * (3 * 20 + 20) + 4 * 3 * 20
    assert gated_delta.flop(1, 2, 3, 4, 5) == 6 * 2 * (64 * 22 + 60)
    assert gated_delta.bytes(1, 2, 3, 4, 5, 2) == 3 * (2 * 44 + 80)
    assert causal_conv1d.flop(1, 2, 3, 4) == 78
    assert causal_conv1d.bytes(1, 2, 3, 2) == 24
