import pytest
import torch

from advisor.kernels import selective_scan, selective_scan_registers

# sequences, tokens, channels, states
SHAPES = [(1, 1, 1, 16), (2, 9, 12, 16), (1, 20, 8, 4), (2, 500, 300, 16), (3, 130, 70, 1), (1, 64, 40, 64)]


@pytest.fixture
def _needs_a_gpu(on_gpu):
    if not on_gpu:
        pytest.skip(
            "layouts chosen by hand run on an NVIDIA GPU only; selective_scan is the twin for the interpreter"
        )


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("lanes", [None, 1, 2, 8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_matches_reference(dtype, shape, lanes, device, assert_close, poison):
    if lanes is not None and lanes > shape[3]:
        pytest.skip("more lanes than states")
    inputs = selective_scan.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    assert selective_scan_registers.is_supported(inputs[0])
    y, state = selective_scan_registers.run(*inputs, out=poison(torch.empty_like(inputs[0])), lanes=lanes)
    expected_y, expected_state = selective_scan.reference(*inputs)
    assert_close(y, expected_y)
    assert_close(state, expected_state)


def test_states_must_be_a_power_of_two(device):
    with pytest.raises(ValueError, match="power of two"):
        selective_scan_registers.run(*selective_scan.make_inputs(1, 4, 4, 12, seed=0, device=device))


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("unroll", [1, 4, 16])
@pytest.mark.parametrize("num_tokens", [3, 16, 37])
def test_any_number_of_tokens_ahead(unroll, num_tokens, device, assert_close):
    inputs = selective_scan.make_inputs(2, num_tokens, 50, 16, seed=unroll, device=device)
    y, state = selective_scan_registers.run(*inputs, unroll=unroll, num_warps=2)
    expected_y, expected_state = selective_scan.reference(*inputs)
    assert_close(y, expected_y)
    assert_close(state, expected_state)


def test_lanes_share_states_where_channels_are_few():
    assert selective_scan_registers.choose_lanes(8 * 5120, 16, sms=132) == 2
    assert selective_scan_registers.choose_lanes(8192, 16, sms=132) == 4
    assert selective_scan_registers.choose_lanes(5120, 16, sms=132) == 8
    assert selective_scan_registers.choose_lanes(5120, 1, sms=132) == 1


def test_fewer_tokens_ahead_where_all_warps_then_run_at_once():
    assert selective_scan_registers.choose_unroll(8 * 5120, 2, sms=132) == 4
    assert selective_scan_registers.choose_unroll(64 * 8192, 2, sms=132) == 8
    assert selective_scan_registers.choose_unroll(5120, 8, sms=132) == 12


def test_it_does_not_run_on_a_cpu():
    assert not selective_scan_registers.is_supported(torch.zeros(1))
