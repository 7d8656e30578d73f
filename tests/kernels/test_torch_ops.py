"""Registered operators: the right result, and fakes that agree with it in shape, format and strides."""

import pytest
import torch

from advisor.kernels import attention, decode_attention, gemm, grouped_gemm, rms_norm, torch_ops, w4a16, w8a8


def cases(device):
    q, k, v = attention.make_inputs(1, 33, 33, 2, 1, 64, seed=1, device=device)
    decode = decode_attention.make_inputs(2, 1, 64, [20, 5], 16, seed=2, device=device)
    return {
        "gemm": (torch_ops.gemm_op, gemm.make_inputs(20, 33, 40, seed=3, device=device), gemm.reference),
        "rms_norm": (
            torch_ops.rms_norm_op,
            rms_norm.make_inputs(3, 100, seed=4, device=device),
            lambda *inputs: rms_norm.reference(*inputs)[0],
        ),
        "attention": (torch_ops.attention_op, (q, k, v), attention.reference),
        "decode_attention": (
            torch_ops.decode_attention_op,
            (*decode, 20),
            lambda *inputs: decode_attention.reference(*inputs[:5]),
        ),
        "grouped_gemm": (
            torch_ops.grouped_gemm_op,
            grouped_gemm.make_inputs(20, 3, 32, 32, seed=5, device=device),
            grouped_gemm.reference,
        ),
        "w4a16": (torch_ops.w4a16_op, w4a16.make_inputs(1, 64, 256, seed=6, device=device), w4a16.reference),
        "w8a8": (torch_ops.w8a8_op, w8a8.make_inputs(9, 20, 32, seed=7, device=device), w8a8.reference),
    }


@pytest.mark.parametrize(
    "name", ["gemm", "rms_norm", "attention", "decode_attention", "grouped_gemm", "w4a16", "w8a8"]
)
def test_operator_and_its_fake(name, device, assert_close):
    operator, inputs, reference = cases(device)[name]
    assert hasattr(torch.ops.advisor, name)
    found = operator(*inputs)
    first = found[0] if isinstance(found, tuple) else found
    assert_close(first, reference(*inputs), slack=2.0)
    torch.library.opcheck(operator, inputs, test_utils=("test_schema", "test_faketensor"))
