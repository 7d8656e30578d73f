import pytest
import torch

from advisor.kernels import attention

# batch, queries, keys, heads, key-value heads, head size
SHAPES = [
    (1, 1, 1, 1, 1, 64),
    (1, 32, 32, 2, 1, 64),
    (2, 33, 33, 2, 2, 64),
    (1, 70, 70, 4, 2, 128),
    (2, 5, 75, 2, 1, 64),
    (1, 35, 50, 2, 1, 80),
    (1, 35, 50, 2, 1, 96),
    (1, 40, 40, 2, 2, 192),
    (2, 17, 40, 2, 1, 24),
]
LARGE = [
    (2, 1000, 1000, 8, 2, 128),
    (1, 515, 2051, 4, 4, 128),
    (1, 300, 300, 2, 1, 256),
    (3, 129, 257, 4, 1, 64),
]


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, causal, device, on_gpu, assert_close, poison):
    if shape in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    q, k, v = attention.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    out = attention.run(q, k, v, causal, poison(torch.empty_like(q)))
    # Probabilities are rounded to 16 bits before the second product: one rounding more than in a product.
    assert_close(out, attention.reference(q, k, v, causal), slack=2.0)


def test_large_scores_do_not_overflow(device, assert_close):
    q, k, v = attention.make_inputs(1, 40, 40, 1, 1, 64, seed=1, device=device, dtype=torch.float16)
    assert_close(attention.run(50 * q, k, v), attention.reference(50 * q, k, v), slack=2.0)


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:All-NaN")
def test_one_sequence_does_not_leak_into_another(device):
    q, k, v = attention.make_inputs(2, 33, 33, 1, 1, 64, seed=2, device=device)
    alone = attention.run(q[:1], k[:1], v[:1])
    k[1] = float("nan")
    v[1] = float("inf")
    assert torch.equal(attention.run(q, k, v)[:1], alone)


@pytest.mark.parametrize(
    "shape", [(1, 8, 8, 2, 1, 100), (1, 8, 8, 2, 1, 264), (1, 8, 8, 3, 2, 64), (1, 9, 8, 2, 1, 64)], ids=str
)
def test_undefined_shapes_are_refused(shape, device):
    with pytest.raises(ValueError, match="not defined"):
        attention.run(*attention.make_inputs(*shape, seed=0, device=device))


def test_keys_of_another_batch_or_head_size_are_refused(device):
    q, k, v = attention.make_inputs(2, 8, 8, 2, 1, 64, seed=0, device=device)
    for other in (k[:1], k[..., :32].contiguous()):
        with pytest.raises(ValueError, match="want"):
            attention.run(q, other, torch.empty_like(other))
    with pytest.raises(ValueError, match="not defined"):
        attention.run(q, k[:, :0], v[:, :0], causal=False)
    with pytest.raises(ValueError, match="four dimensions"):
        attention.run(q[0], k[0], v[0])


def test_counts():
    assert attention.flop(1, 4, 4, 1, 8, causal=True) == 4 * 10 * 8
    assert attention.flop(1, 1, 4, 1, 8, causal=True) == 4 * 4 * 8
    assert attention.flop(2, 4, 6, 3, 8, causal=False) == 4 * 2 * 3 * 24 * 8
    assert attention.bytes(1, 4, 6, 2, 1, 8, 2) == 2 * (8 + 6) * 8 * 2
