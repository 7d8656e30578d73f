import pytest
import torch

from advisor.kernels import ssd, ssd_wgmma

# sequences, tokens, heads, channels, groups, states
SHAPES = [
    (1, 1, 1, 64, 1, 16),
    (2, 70, 6, 24, 2, 24),
    (1, 64, 2, 64, 1, 128),
    (1, 300, 3, 128, 1, 128),
    (1, 300, 3, 64, 3, 128),
    (2, 1000, 8, 64, 1, 128),
    (3, 515, 40, 64, 2, 64),
    (7, 130, 80, 64, 1, 128),
    (9, 200, 66, 64, 1, 128),
]


@pytest.fixture
def needs_hopper(on_gpu, device):
    if not on_gpu or not ssd_wgmma.is_supported(torch.empty(1, dtype=torch.bfloat16, device=device), 64):
        pytest.skip("roles of warps run on NVIDIA's Hopper only; ssd is the twin for the interpreter")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.usefixtures("needs_hopper")
def test_matches_reference(dtype, shape, device, assert_close, poison):
    inputs = ssd.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    expected_y, expected_state = ssd.reference(*inputs)
    for _ in range(3):  # the flags must be back at zero
        y, state = ssd_wgmma.run(*inputs, out=poison(torch.empty_like(inputs[0])))
        assert_close(y, expected_y, slack=2.0)
        assert_close(state, expected_state, dtype, slack=2.0)


@pytest.mark.parametrize("segments", [1, 2, 3])
@pytest.mark.usefixtures("needs_hopper")
def test_segments_start_with_their_states(segments, device, assert_close):
    inputs = ssd.make_inputs(2, 1000, 4, 64, 1, 128, 2, device, torch.float16)
    start = torch.randn((2, 4, 128, 64), device=device)
    y, state = ssd_wgmma.run(*inputs, start, num_segments=segments)
    expected_y, expected_state = ssd.reference(*inputs, start)
    assert_close(y, expected_y, slack=2.0)
    assert_close(state, expected_state, torch.float16, slack=2.0)


@pytest.mark.parametrize("factor", [0.01, 3.0, 10.0, 200.0])
@pytest.mark.usefixtures("needs_hopper")
def test_states_that_vanish_within_a_chunk_leave_no_trace(factor, device, assert_close):
    """Steps for which all, most, few and no chunks are computed from their ends."""
    x, delta, a, b, c, skip = ssd.make_inputs(1, 300, 8, 64, 1, 128, 5, device)
    inputs = (x, delta * factor, a, b, c, skip)
    y, state = ssd_wgmma.run(*inputs)
    expected_y, expected_state = ssd.reference(*inputs)
    assert_close(y, expected_y, slack=2.0)
    assert_close(state, expected_state, torch.bfloat16, slack=2.0)


@pytest.mark.usefixtures("needs_hopper")
def test_one_sequence_does_not_leak_into_another(device):
    x, delta, a, b, c, skip = ssd.make_inputs(2, 200, 6, 64, 1, 128, 3, device)
    alone, _ = ssd_wgmma.run(x[:1], delta[:1], a, b[:1], c[:1], skip)
    x[1] = float("nan")
    both, _ = ssd_wgmma.run(x, delta, a, b, c, skip)
    assert torch.equal(both[:1], alone)


def test_without_hopper_the_twin_runs(on_gpu, device):
    if on_gpu:
        pytest.skip("with a GPU the other tests run")
    assert ssd_wgmma.fastest(torch.empty(1, dtype=torch.bfloat16, device=device), 128) is ssd.run


def test_more_states_than_registers_are_refused(device):
    inputs = ssd.make_inputs(1, 8, 2, 64, 1, 136, 0, device)
    with pytest.raises(ValueError, match="128 states"):
        ssd_wgmma.run(*inputs)
