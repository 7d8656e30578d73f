import pytest
import torch

from advisor.kernels import w4a16, w4a16_mma, w4a16_ring, w4a16_row

SHAPES = [(2, 256, 128), (3, 272, 384), (8, 1008, 2048), (16, 4096, 4096), (17, 512, 1152), (32, 2000, 1024)]


@pytest.fixture
def _needs_a_gpu(on_gpu):
    if not on_gpu:
        pytest.skip("layouts chosen by hand run on an NVIDIA GPU only; w4a16 is the twin for the interpreter")


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("plan", [w4a16_ring.FEW, w4a16_ring.SOME, w4a16_ring.MANY], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, plan, device, assert_close, poison):
    if shape[0] > 16 and plan is w4a16_ring.FEW:
        pytest.skip("results of so many rows leave that plan no registers")
    inputs = w4a16.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    # Twice: the counters of the first launch must be zero again.
    for _ in range(2):
        out = w4a16_ring.run(*inputs, out=poison(inputs[0].new_empty(shape[:2])), plan=plan)
        assert_close(out, w4a16.reference(*inputs), slack=2.0)


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("position", [0, 1, 6, 17, 50, 66, 83, 100, 127])
def test_each_weight_meets_its_activation(position, device):
    q = torch.full((256, 128), 8, device=device)
    q[:, position] = 15
    x = torch.zeros((2, 128), device=device, dtype=torch.float16)
    x[1, position] = 2.0
    scale = torch.ones((1, 256), device=device, dtype=torch.float16)
    out = w4a16_ring.run(x, w4a16.pack(q), scale)
    assert torch.equal(out, torch.tensor([[0.0], [14.0]], device=device).to(out.dtype).expand(2, 256))


@pytest.mark.usefixtures("_needs_a_gpu")
@pytest.mark.parametrize("rows", [2, 16, 32])
def test_weights_copied_early_give_the_same(rows, device):
    if torch.cuda.get_device_capability(device) < (9, 0):
        pytest.skip("launches that overlap need Hopper")
    sets = [w4a16.make_inputs(rows, 2048, 2048, seed, device) for seed in range(4)]
    assert torch.equal(chain(sets, early=True), chain(sets, early=False))


def chain(sets, early):
    x = sets[0][0]
    for _, words, scale in sets * 5:
        x = w4a16_ring.run(x, words, scale * 0.01, early=early)
    return x


@pytest.mark.parametrize(
    ("rows", "n", "k", "is_large"),
    [
        (1, 57344, 8192, False),
        (4, 28672, 4096, True),
        (16, 57344, 8192, True),
        (16, 10240, 8192, False),
        (32, 28672, 4096, False),
        (32, 57344, 8192, True),
        (33, 57344, 8192, False),
        (8, 240, 1 << 16, False),
    ],
)
def test_large_matrices_go_through_the_ring(rows, n, k, is_large, device, on_gpu):
    x = torch.zeros((rows, k), dtype=torch.bfloat16, device=device)
    assert w4a16_ring.is_faster(x, n, sms=132) is (is_large and on_gpu)


@pytest.mark.usefixtures("_needs_a_gpu")
def test_the_fastest_kernel_of_several_rows(device):
    x = torch.zeros((16, 8192), dtype=torch.bfloat16, device=device)
    assert w4a16_row.fastest(x, 1 << 20) is w4a16_ring.run
    assert w4a16_row.fastest(x, 4096) is w4a16_mma.run


def test_too_many_rows_and_too_few_of_weights_are_refused(device):
    for rows, n in ((33, 256), (2, 240)):
        with pytest.raises(ValueError, match="rows of weights"):
            w4a16_ring.run(*w4a16.make_inputs(rows, n, 128, seed=0, device=device))
