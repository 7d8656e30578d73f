import pytest
import torch

from advisor.kernels import selective_scan

# sequences, tokens, channels, states
SHAPES = [(1, 1, 1, 16), (2, 9, 12, 16), (1, 20, 8, 4)]
LARGE = [(2, 500, 300, 16)]


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_matches_reference(dtype, shape, device, on_gpu, assert_close, poison):
    if shape in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = selective_scan.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    y, state = selective_scan.run(*inputs, out=poison(torch.empty_like(inputs[0])))
    expected_y, expected_state = selective_scan.reference(*inputs)
    assert_close(y, expected_y)
    assert_close(state, expected_state)


def test_states_must_be_a_power_of_two(device):
    with pytest.raises(ValueError, match="power of two"):
        selective_scan.run(*selective_scan.make_inputs(1, 4, 4, 12, seed=0, device=device))


def test_counts():
    assert selective_scan.flop(1, 2, 3, 4) == 6 * 39
    assert selective_scan.bytes(1, 2, 3, 4) == 2 * (9 + 8) * 2 + 48
