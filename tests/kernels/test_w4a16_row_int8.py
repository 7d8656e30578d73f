import pytest
import torch

from advisor.kernels import w4a16, w4a16_row, w4a16_row_int8

SHAPES = [(16, 1024), (112, 1024), (1008, 8192), (4096, 4096), (30000, 2048), (6144, 5120)]
PLANS = [w4a16_row_int8.PLAN, w4a16_row_int8.BytePlan(4, 8, None, 2), w4a16_row_int8.BytePlan(16, 3, None, 1)]


@pytest.fixture
def _needs_a_gpu(on_gpu):
    if not on_gpu:
        pytest.skip("layouts chosen by hand run on an NVIDIA GPU only; w4a16 is the twin for the interpreter")


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, plan, device, assert_close, poison):
    if shape[1] % (plan.slices * w4a16.GROUP):
        pytest.skip("K cannot be sliced so")
    inputs = w4a16.make_inputs(1, *shape, seed=sum(shape), device=device, dtype=dtype)
    out = poison(inputs[0].new_empty((1, shape[0])))
    w4a16_row_int8.run(*inputs, out=out, plan=plan)
    assert_close(out, w4a16.reference(*inputs), slack=2.0)


def relative_error(out, exact):
    return float((out.double() - exact).norm() / exact.norm())


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("outlier", [1.0, 1e3, 1e6])
def test_an_outlier_costs_no_accuracy(outlier, device):
    """Against fp64; results in bf16 are rounded by 2^-9 at most, whatever the largest activation is."""
    x, words, _ = w4a16.make_inputs(1, 4096, 1024, seed=1, device=device, dtype=torch.bfloat16)
    x[0, ::300] *= outlier
    scale = torch.ones((8, 4096), dtype=torch.bfloat16, device=device)
    exact = x.double() @ (w4a16.unpack(words) - 8).double().T
    assert relative_error(w4a16_row_int8.run(x, words, scale), exact) < 2e-3


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("strange", [float("nan"), float("inf")])
def test_what_is_no_number_stays_none(strange, device):
    x, words, scale = w4a16.make_inputs(1, 64, 1024, seed=2, device=device)
    x[0, 700] = strange
    assert not torch.isfinite(w4a16_row_int8.run(x, words, scale)).any()


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-30, 1e30])
def test_groups_of_any_size(size, device):
    x, words, _ = w4a16.make_inputs(1, 64, 1024, seed=3, device=device)
    x = (x.float() * size).to(x.dtype)
    scale = torch.ones((8, 64), dtype=x.dtype, device=device)
    exact = x.double() @ (w4a16.unpack(words) - 8).double().T
    out = w4a16_row_int8.run(x, words, scale)
    # Below 2^-100 activations keep fewer bits; 1e-38 is 2^-26 of that.
    assert float((out.double() - exact).abs().max()) <= max(4e-3 * float(exact.abs().max()), 1e-34)


@pytest.mark.usefixtures("_needs_a_gpu")
def test_weights_copied_early_give_the_same(device):
    if torch.cuda.get_device_capability(device) < (9, 0):
        pytest.skip("launches that overlap need Hopper")
    sets = [w4a16.make_inputs(1, 4096, 4096, seed, device) for seed in range(4)]
    assert torch.equal(chain(sets, early=True), chain(sets, early=False))


def chain(sets, early):
    x = sets[0][0]
    for _, words, scale in sets * 5:
        x = w4a16_row_int8.run(x, words, scale * 0.01, early=early)
    return x


@pytest.mark.usefixtures("_needs_a_gpu")
def test_many_rows_of_weights_are_multiplied_as_bytes(device):
    x = torch.zeros((1, 4096), dtype=torch.bfloat16, device=device)
    many = 16 * 4 * 3 * torch.cuda.get_device_properties(device).multi_processor_count
    assert w4a16_row.fastest(x, many) is w4a16_row_int8.run
    assert w4a16_row.fastest(x, many - 16) is not w4a16_row_int8.run
    assert w4a16_row.fastest(torch.zeros_like(x).expand(2, -1).contiguous(), many) is not w4a16_row_int8.run


def test_without_a_gpu_no_kernel_is_faster(device, on_gpu):
    x = torch.zeros((1, 4096), dtype=torch.bfloat16, device=device)
    assert w4a16_row_int8.is_supported(x) is on_gpu
    assert w4a16_row_int8.is_faster(x, 57344, sms=132) is on_gpu
    assert not w4a16_row_int8.is_faster(torch.zeros((1, 16384), dtype=x.dtype, device=device), 57344, sms=132)


def test_several_rows_and_ragged_k_are_refused(device):
    for rows, k in ((2, 1024), (1, 128)):
        with pytest.raises(ValueError, match="slices"):
            w4a16_row_int8.run(*w4a16.make_inputs(rows, 64, k, seed=0, device=device))
