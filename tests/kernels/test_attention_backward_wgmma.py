"""The Gluon kernel of attention's backward pass; it runs on Hopper alone."""

import pytest
import torch

from advisor.kernels import attention, attention_backward, attention_backward_wgmma, attention_wgmma

# batch, queries, keys, heads, key-value heads, head size
CASES = [
    (1, 128, 128, 1, 1, 64),
    (1, 128, 128, 1, 1, 128),
    (2, 1000, 1000, 8, 2, 128),
    (1, 513, 777, 16, 16, 64),
    (1, 70, 300, 4, 1, 128),
    (3, 33, 33, 2, 2, 64),
    (9, 200, 260, 8, 8, 64),
    (20, 130, 130, 16, 4, 128),
]


def inputs_of(case, device, dtype, causal):
    q, k, v = attention.make_inputs(*case, 3, device, dtype)
    if not attention_backward_wgmma.is_supported(q):
        pytest.skip("Hopper only")
    logs = torch.empty((case[0], case[3], case[1]), device=device)
    result = attention_wgmma.run(q, k, v, causal, logs=logs)
    grad = torch.randn(q.shape, generator=torch.Generator(device=device).manual_seed(4), device=device)
    return q, k, v, result, logs, grad.to(dtype)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, case, causal, device, assert_close, poison):
    inputs = inputs_of(case, device, dtype, causal)
    q, k, v, _, _, grad = inputs
    out = tuple(poison(torch.empty_like(x)) for x in (q, k, v))
    attention_backward_wgmma.run(*inputs, causal, out=out)
    for found, expected in zip(out, attention_backward.reference(q, k, v, grad, causal), strict=True):
        # The weights and the gradients of scores are rounded to 16 bits between two products.
        assert_close(found, expected, slack=4.0)


def test_other_head_sizes_are_refused(device):
    q, k, v = attention.make_inputs(1, 16, 16, 1, 1, 80, 3, device)
    logs = torch.zeros((1, 1, 16), device=device)
    with pytest.raises(ValueError, match="64 and 128"):
        attention_backward_wgmma.run(q, k, v, q, logs, q)
