import pytest
import torch

from advisor.kernels import w4a16, w4a16_mma

SHAPES = [(1, 64, 256), (1, 112, 512), (3, 4096, 4096), (8, 1008, 1280), (16, 144, 2048), (32, 4096, 14336)]


@pytest.fixture(autouse=True)
def _needs_a_gpu(on_gpu):
    if not on_gpu:
        pytest.skip("layouts chosen by hand run on an NVIDIA GPU only; w4a16 is the twin for the interpreter")


PLANS = [
    w4a16_mma.TilePlan(64, 1, 255),
    w4a16_mma.TilePlan(64, 6, 80),
    w4a16_mma.SHORT,
    w4a16_mma.TALL,
    w4a16_mma.TALL_WIDE,
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, plan, device, assert_close, poison):
    if shape[1] < plan.rows:
        pytest.skip("fewer rows than a tile has")
    inputs = w4a16.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    assert w4a16_mma.is_supported(inputs[0], shape[1])
    for _ in range(3):  # the counters must be back at zero
        out = w4a16_mma.run(*inputs, out=poison(inputs[0].new_empty(shape[:2])), plan=plan)
        assert_close(out, w4a16.reference(*inputs), slack=2.0)


def test_weights_loaded_early_give_the_same(device, assert_close):
    if torch.cuda.get_device_capability(device) < (9, 0):
        pytest.skip("launches that overlap need Hopper")
    sets = [w4a16.make_inputs(1, 4096, 4096, seed, device) for seed in range(4)]
    torch.cuda.synchronize()
    x = sets[0][0]
    for _, words, scale in sets * 3:  # each multiplies what the one before gave
        expected = w4a16.reference(x, words, scale)
        torch.cuda.synchronize()
        y = w4a16_mma.run(x, words, scale, early=True)
        assert_close(y, expected, slack=2.0)
        x = y / y.float().std().to(y.dtype)
    chained, plain = (chain(sets, early) for early in (True, False))
    assert torch.equal(chained, plain)


def chain(sets, early):
    x = sets[0][0]
    for _, words, scale in sets * 5:
        x = w4a16_mma.run(x, words, scale * 0.01, early=early)
    return x
