"""Registered operators: the right result, and fakes that agree with it in shape, format and strides."""

import pytest
import torch

from advisor.kernels import (
    attention,
    attention_packed,
    causal_conv1d,
    decode_attention,
    fp4,
    fp8_block_gemm,
    gated_delta,
    gemm,
    grouped_gemm,
    grouped_gemm_fp8,
    mla_decode,
    rms_norm,
    ssd,
    torch_ops,
    w4a16,
    w8a8,
)


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
        "w4a16": (torch_ops.w4a16_op, w4a16.make_inputs(1, 16, 128, seed=6, device=device), w4a16.reference),
        "w8a8": (torch_ops.w8a8_op, w8a8.make_inputs(9, 20, 32, seed=7, device=device), w8a8.reference),
        "attention_packed": (
            torch_ops.attention_packed_op,
            (*attention_packed.make_inputs([20, 7], 2, 1, 64, 8, device, torch.float16), 20, True, 9),
            lambda *inputs: attention_packed.reference(*inputs[:4], window=9),
        ),
        "mla_decode": (
            torch_ops.mla_decode_op,
            (*mla_decode.make_inputs(4, [20, 5], 16, 9, device, torch.float16), 20),
            lambda *inputs: mla_decode.reference(*inputs[:5]),
        ),
        "fp8_block_gemm": (
            torch_ops.fp8_block_gemm_op,
            fp8_block_gemm.make_inputs(9, 20, 144, 10, device),
            fp8_block_gemm.reference,
        ),
        "grouped_gemm_fp8": (
            torch_ops.grouped_gemm_fp8_op,
            grouped_gemm_fp8.make_inputs(9, 2, 24, 32, 11, device),
            grouped_gemm_fp8.reference,
        ),
        "dequantize_mxfp4": (
            torch_ops.dequantize_mxfp4_op,
            fp4.make_inputs("mxfp4", 3, 64, 12, device)[:2],
            lambda *inputs: fp4.reference("mxfp4", *inputs),
        ),
        "dequantize_nvfp4": (
            torch_ops.dequantize_nvfp4_op,
            fp4.make_inputs("nvfp4", 3, 64, 13, device),
            lambda *inputs: fp4.reference("nvfp4", *inputs),
        ),
        "ssd": (
            torch_ops.ssd_op,
            ssd.make_inputs(1, 20, 2, 16, 1, 16, 14, device, torch.float16),
            lambda *inputs: ssd.reference(*inputs)[0],
        ),
        "gated_delta": (
            torch_ops.gated_delta_op,
            gated_delta.make_inputs(1, 20, 2, 16, 16, 15, device, torch.float16),
            lambda *inputs: gated_delta.reference(*inputs)[0],
        ),
        "causal_conv1d": (
            torch_ops.causal_conv1d_op,
            causal_conv1d.make_inputs(1, 20, 8, 4, 16, device),
            causal_conv1d.reference,
        ),
    }


NAMES = (
    "gemm",
    "rms_norm",
    "attention",
    "decode_attention",
    "grouped_gemm",
    "w4a16",
    "w8a8",
    "attention_packed",
    "mla_decode",
    "fp8_block_gemm",
    "grouped_gemm_fp8",
    "dequantize_mxfp4",
    "dequantize_nvfp4",
    "ssd",
    "gated_delta",
    "causal_conv1d",
)


@pytest.mark.parametrize("name", NAMES)
def test_operator_and_its_fake(name, device, assert_close):
    operator, inputs, reference = cases(device)[name]
    assert hasattr(torch.ops.advisor, name)
    found = operator(*inputs)
    first = found[0] if isinstance(found, tuple) else found
    assert_close(first, reference(*inputs), slack=4.0)
    # The check of the schema multiplies its operands, and torch has no product of fp8 numbers.
    is_fp8 = any(x.dtype == torch.float8_e4m3fn for x in inputs if isinstance(x, torch.Tensor))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(operator, inputs, test_utils=checks[1:] if is_fp8 else checks)


@pytest.mark.parametrize("name", NAMES)
def test_operators_are_traced_without_breaks(name, device, on_gpu):
    operator, inputs, _ = cases(device)[name]
    torch._dynamo.reset()
    compiled = torch.compile(operator, fullgraph=True, backend="inductor" if on_gpu else "aot_eager")
    found = compiled(*inputs)
    expected = operator(*inputs)
    if not isinstance(found, tuple):
        found = (found,)
        expected = (expected,)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
