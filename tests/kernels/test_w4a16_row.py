import pytest
import torch

from advisor.kernels import w4a16, w4a16_mma, w4a16_row

SHAPES = [(16, 1024), (112, 1024), (1008, 14336), (4096, 4096), (6144, 5120), (20000, 2048)]


@pytest.fixture
def _needs_a_gpu(on_gpu):
    if not on_gpu:
        pytest.skip("layouts chosen by hand run on an NVIDIA GPU only; w4a16 is the twin for the interpreter")


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("plan", w4a16_row.PLANS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, plan, device, assert_close, poison):
    if shape[1] % (plan.slices * w4a16.GROUP):
        pytest.skip("K cannot be sliced so")
    inputs = w4a16.make_inputs(1, *shape, seed=sum(shape), device=device, dtype=dtype)
    out = poison(inputs[0].new_empty((1, shape[0])))
    w4a16_row.run(*inputs, out=out, plan=plan)
    assert_close(out, w4a16.reference(*inputs), slack=2.0)


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize(("slices", "depth"), [(1, 2), (2, 5), (4, 4), (8, 3), (16, 3)])
def test_any_number_of_slices(slices, depth, device, assert_close):
    inputs = w4a16.make_inputs(1, 496, 6144, seed=slices, device=device)
    plan = w4a16_row.WarpPlan(slices, depth, None, 1)
    assert_close(w4a16_row.run(*inputs, plan=plan), w4a16.reference(*inputs), slack=2.0)


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("plan", w4a16_row.PLANS, ids=str)
def test_weights_loaded_early_give_the_same(plan, device):
    if torch.cuda.get_device_capability(device) < (9, 0):
        pytest.skip("launches that overlap need Hopper")
    sets = [w4a16.make_inputs(1, 4096, 4096, seed, device) for seed in range(4)]
    assert torch.equal(chain(sets, plan, early=True), chain(sets, plan, early=False))


def chain(sets, plan, early):
    x = sets[0][0]
    for _, words, scale in sets * 5:
        x = w4a16_row.run(x, words, scale * 0.01, plan=plan, early=early)
    return x


@pytest.mark.parametrize(
    ("n", "k", "slices"),
    [
        (4096, 4096, 16),
        (4096, 14336, 16),
        (8192, 8192, 4),
        (6144, 4096, 8),
        (5120, 5120, 8),
        (4096, 4096 + 1024, 8),
        (8192, 28672, 4),
        (57344, 8192, 4),
        (512, 4096, 0),
    ],
)
def test_few_rows_of_weights_are_shared_by_many_warps(n, k, slices):
    plan = w4a16_row.choose_plan(n, k, sms=132)
    assert (plan.slices if plan else 0) == slices


def test_several_rows_and_ragged_k_are_left_to_the_other_kernels(device, on_gpu):
    several = torch.zeros((2, 4096), dtype=torch.bfloat16, device=device)
    assert w4a16_row.fastest(several, 4096) is (w4a16_mma.run if on_gpu else w4a16.run)
    assert w4a16_row.choose_plan(4096, 4096 + 128, sms=132) is None
    inputs = w4a16.make_inputs(1, 64, 128, seed=0, device=device)
    with pytest.raises(ValueError, match="slices"):
        w4a16_row.run(*inputs)
