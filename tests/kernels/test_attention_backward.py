import pytest
import torch

from advisor.kernels import attention, attention_backward, attention_wgmma

# batch, queries, keys, heads, key-value heads, head size
CASES = [(1, 1, 3, 1, 1, 64), (2, 33, 33, 4, 2, 64), (1, 20, 50, 2, 1, 80), (1, 65, 65, 2, 2, 128)]
LARGE = [
    (2, 1000, 1000, 8, 2, 128),
    (1, 513, 777, 16, 16, 64),
    (1, 300, 301, 4, 1, 256),
    (1, 640, 640, 4, 2, 96),
]


@pytest.mark.parametrize(
    ("dtype", "case", "causal"),
    [
        *((torch.bfloat16, case, causal) for case in CASES + LARGE for causal in (True, False)),
        *((torch.float16, case, True) for case in (CASES[0], CASES[2], *LARGE)),
    ],
    ids=str,
)
def test_matches_reference(dtype, case, causal, device, on_gpu, assert_close, poison):
    if case in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = attention_backward.make_inputs(*case, 3, device, dtype, causal)
    q, k, v, _, _, grad = inputs
    out = tuple(poison(torch.empty_like(x)) for x in (q, k, v))
    attention_backward.run(*inputs, causal, out=out)
    for found, expected in zip(out, attention_backward.reference(q, k, v, grad, causal), strict=True):
        # The weights and the gradients of scores are rounded to 16 bits between two products.
        assert_close(found, expected, slack=4.0)


def test_logarithms_are_those_of_the_sums(device, assert_close):
    q, k, v = attention.make_inputs(1, 20, 33, 2, 1, 64, 1, device, torch.float16)
    logs = torch.full((1, 2, 20), float("nan"), device=device)
    run = attention_wgmma.fastest(q)
    run(q, k, v, False, logs=logs)
    scores = torch.einsum("bshd,btd->bhst", q.double(), k[:, :, 0].double()) / 8.0
    assert_close(logs, torch.logsumexp(scores, dim=3) / torch.log(torch.tensor(2.0, dtype=torch.float64)))


def test_counts():
    assert attention_backward.flop(1, 4, 4, 2, 8, False) == 10 * 16 * 2 * 8
    assert attention_backward.bytes(1, 4, 4, 2, 1, 8, 2) == 4 * (4 * 2 + 4) * 8 * 2
