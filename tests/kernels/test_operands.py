"""Operands that a kernel would read wrongly are refused before launch: gaps, other formats, other shapes."""

import contextlib
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from advisor.kernels import (
    activations,
    activations_backward,
    attention,
    attention_backward,
    attention_packed,
    causal_conv1d,
    copy,
    decode_attention,
    fp4,
    fp8_block_gemm,
    gated_delta,
    gather,
    gemm,
    gemm_layouts,
    grouped_gemm,
    grouped_gemm_fp8,
    layer_norm,
    layer_norm_backward,
    linear_cross_entropy,
    linear_gelu_backward,
    linear_gelu_residual,
    mla_decode,
    pointer_chase,
    rms_norm,
    rms_norm_backward,
    rope,
    selective_scan,
    softmax,
    softmax_backward,
    ssd,
    transpose,
    w4a16,
    w8a8,
)

Case = tuple[Callable[..., Any], tuple[Any, ...]]


@cache
def cases(device: torch.device) -> dict[str, Case]:
    """Small operands of every kernel that the interpreter runs, with its launch function."""
    half = {"seed": 1, "device": device, "dtype": torch.float16}
    x, residual, weight = rms_norm.make_inputs(8, 32, **half)
    row, row_weight, bias = layer_norm.make_inputs(8, 32, **half)
    numbers = torch.randn(64, device=device)
    index = torch.tensor([3, 1, 2, 0], device=device)
    group_sizes = torch.tensor([5, 3], device=device, dtype=torch.int32)
    draw = torch.Generator(device=device).manual_seed(2)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw, device=device).half()

    query = normal(1, 16, 2, 64)
    keys = normal(1, 16, 2, 64)
    pages = normal(4, 16, 2, 64)
    table = torch.arange(4, device=device, dtype=torch.int32).reshape(2, 2)
    lengths = torch.tensor([20, 17], device=device, dtype=torch.int32)
    first, first_scale = w8a8.quantize(normal(16, 64))
    second, second_scale = w8a8.quantize(normal(16, 64))
    chain = pointer_chase.make_inputs(4096, 1, device)[0]
    states = torch.rand(8, 4, generator=draw, device=device) - 1.0
    tokens = torch.randn(1, 6, 8, generator=draw, device=device)
    pairs = torch.randn(1, 6, 4, generator=draw, device=device)
    return {
        "rms_norm": (rms_norm.run, (x, residual, weight)),
        "layer_norm": (layer_norm.run, (row, row_weight, bias)),
        "softmax": (softmax.run, (normal(8, 32),)),
        "gelu": (lambda one, out=None: activations.run("gelu", one, out), (normal(8, 32),)),
        "swiglu": (lambda one, out=None: activations.run("swiglu", one, out), (normal(8, 32),)),
        "pointer_chase": (lambda one, out=None: pointer_chase.run(one, 5, out), (chain,)),
        "copy": (lambda one, two, out=None: copy.run("copy", one, two, out), (numbers, numbers.clone())),
        "triad": (lambda one, two, out=None: copy.run("triad", one, two, out), (numbers, numbers.clone())),
        "transpose": (transpose.run, (normal(8, 16),)),
        "gather": (gather.run, (normal(4, 16), index)),
        "gemm": (gemm.run, (normal(32, 64), normal(32, 64))),
        "grouped_gemm": (grouped_gemm.run, (normal(8, 32), normal(2, 16, 32), group_sizes)),
        "linear_gelu_residual": (
            linear_gelu_residual.run,
            (normal(32, 64), normal(32, 64), normal(32), normal(32, 32)),
        ),
        "attention": (attention.run, (query, keys, keys.clone())),
        "decode_attention": (
            decode_attention.run,
            (normal(2, 2, 64), pages, pages.clone(), table, lengths),
        ),
        "w8a8": (w8a8.run, (first, first_scale, second, second_scale)),
        "w4a16": (w4a16.run, w4a16.make_inputs(1, 16, 128, **half)),
        "selective_scan": (
            selective_scan.run,
            (tokens, tokens.abs(), states, pairs, pairs.clone(), torch.ones(8, device=device)),
        ),
    } | newer_cases(device)


def newer_cases(device: torch.device) -> dict[str, Case]:
    """Operands of the backward passes, of attention's variants, of low precision and of chunked scans."""
    half = {"device": device, "dtype": torch.float16}
    mx, nv = (fp4.make_inputs(kind, 4, 64, 1, device) for kind in ("mxfp4", "nvfp4"))
    return {
        "rms_norm_backward": (rms_norm_backward.run, rms_norm_backward.make_inputs(8, 32, 1, **half)),
        "layer_norm_backward": (layer_norm_backward.run, layer_norm_backward.make_inputs(8, 32, 1, **half)),
        "softmax_backward": (softmax_backward.run, softmax_backward.make_inputs(8, 32, 1, **half)),
        "gelu_backward": (
            lambda x, grad, out=None: activations_backward.run("gelu", x, grad, out),
            activations_backward.make_inputs("gelu", 8, 32, 1, **half),
        ),
        "swiglu_backward": (
            lambda x, grad, out=None: activations_backward.run("swiglu", x, grad, out),
            activations_backward.make_inputs("swiglu", 8, 32, 1, **half),
        ),
        "rope": (rope.run, rope.make_inputs(4, 2, 16, 1, **half)),
        "linear_gelu_backward": (
            linear_gelu_backward.run,
            linear_gelu_backward.make_inputs(32, 64, 64, 1, **half),
        ),
        "linear_cross_entropy": (
            lambda *operands, out=None: linear_cross_entropy.run(*operands, out=out)[0],
            linear_cross_entropy.make_inputs(8, 32, 64, 1, **half),
        ),
        "gemm_layouts": (gemm_layouts.run, gemm_layouts.make_inputs(32, 64, 32, 1, **half)),
        "attention_packed": (
            attention_packed.run,
            attention_packed.make_inputs([9, 7], 2, 1, 64, 1, **half),
        ),
        "attention_backward": (
            attention_backward.run,
            attention_backward.make_inputs(1, 16, 16, 2, 1, 64, 1, **half),
        ),
        "mla_decode": (mla_decode.run, mla_decode.make_inputs(2, [9, 20], 16, 1, **half)),
        "fp8_block_gemm": (fp8_block_gemm.run, fp8_block_gemm.make_inputs(32, 256, 256, 1, device)),
        "grouped_gemm_fp8": (
            grouped_gemm_fp8.run,
            grouped_gemm_fp8.make_inputs(8, 2, 32, 128, 1, device),
        ),
        "mxfp4": (lambda codes, scale, out=None: fp4.run("mxfp4", codes, scale, out=out), mx[:2]),
        "nvfp4": (lambda *operands, out=None: fp4.run("nvfp4", *operands, out=out), nv),
        "ssd": (ssd.run, ssd.make_inputs(1, 6, 2, 16, 1, 16, 1, **half)),
        "gated_delta": (gated_delta.run, gated_delta.make_inputs(1, 6, 2, 16, 16, 1, **half)),
        "causal_conv1d": (causal_conv1d.run, causal_conv1d.make_inputs(1, 6, 16, 4, 1, **half)),
    }


NAMES = (
    "rms_norm",
    "layer_norm",
    "softmax",
    "gelu",
    "swiglu",
    "pointer_chase",
    "copy",
    "triad",
    "transpose",
    "gather",
    "gemm",
    "grouped_gemm",
    "linear_gelu_residual",
    "attention",
    "decode_attention",
    "w8a8",
    "w4a16",
    "selective_scan",
    "rms_norm_backward",
    "layer_norm_backward",
    "softmax_backward",
    "gelu_backward",
    "swiglu_backward",
    "rope",
    "linear_gelu_backward",
    "linear_cross_entropy",
    "gemm_layouts",
    "attention_packed",
    "attention_backward",
    "mla_decode",
    "fp8_block_gemm",
    "grouped_gemm_fp8",
    "mxfp4",
    "nvfp4",
    "ssd",
    "gated_delta",
    "causal_conv1d",
)
WITH_SEVERAL_OUTPUTS = (
    "rms_norm",
    "rms_norm_backward",
    "layer_norm_backward",
    "attention_backward",
    "linear_gelu_backward",
)
"""Kernels whose `out` is a tuple of all results; that of the scans takes the results without the final states."""


def with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers with every second element of a wider array between them."""
    wide = tensor.new_zeros((*tensor.shape, 2))
    wide[..., 0] = tensor
    return wide[..., 0]


def parts_of(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", NAMES)
def test_an_operand_with_gaps_gives_the_same_or_is_refused(name: str, device: torch.device) -> None:
    run, operands = cases(device)[name]
    expected = parts_of(run(*operands))
    for place, operand in enumerate(operands):
        if not isinstance(operand, torch.Tensor):
            continue  # a softmax scale
        strided = [*operands[:place], with_gaps(operand), *operands[place + 1 :]]
        with contextlib.suppress(ValueError):
            for one, other in zip(parts_of(run(*strided)), expected, strict=True):
                torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_an_output_with_gaps_or_of_another_shape_is_refused(name: str, device: torch.device) -> None:
    run, operands = cases(device)[name]
    results = parts_of(run(*operands))
    gaps = [with_gaps(torch.empty_like(one)) for one in results]
    shapes = [one.new_empty((*one.shape[:-1], one.shape[-1] + 16)) for one in results]
    for outputs in (gaps, shapes):
        if name in ("pointer_chase", "selective_scan") and outputs is gaps and results[0].numel() == 1:
            continue  # one element has no gaps
        out = tuple(outputs) if name in WITH_SEVERAL_OUTPUTS else outputs[0]
        with pytest.raises(ValueError, match=r"strides|want"):
            run(*operands, out=out)


TWINS = {
    "attention_wgmma": "attention",
    "fp8_block_gemm_wgmma": "fp8_block_gemm",
    "attention_backward_wgmma": "attention_backward",
    "decode_attention_fp8": "decode_attention",
    "ssd_wgmma": "ssd",
    "w4a16_mma": "w4a16",
    "w4a16_ring": "w4a16",
    "w4a16_row": "w4a16",
    "w4a16_row_int8": "w4a16",
    "selective_scan_registers": "selective_scan",
}
"""Kernels that run on a GPU only, by the kernel that takes the same operands."""


@pytest.mark.parametrize("name", TWINS)
def test_kernels_of_a_gpu_refuse_gaps_before_launch(name: str, device: torch.device) -> None:
    _, operands = cases(device)[TWINS[name]]
    run = importlib.import_module(f"advisor.kernels.{name}").run
    for place, operand in enumerate(operands):
        strided = [*operands[:place], with_gaps(operand), *operands[place + 1 :]]
        with pytest.raises(ValueError, match="strides"):
            run(*strided)


def test_every_kernel_is_asked() -> None:
    """Modules with a launch function; an empty kernel reads nothing."""
    folder = Path(gemm.__file__).parent
    launched = {file.stem for file in folder.glob("*.py") if "\ndef run(" in file.read_text()}
    patterns = {
        "activations": {"gelu", "swiglu"},
        "activations_backward": {"gelu_backward", "swiglu_backward"},
        "copy": {"copy", "triad"},
        "fp4": {"mxfp4", "nvfp4"},
    }
    asked = {name for name in launched if name in NAMES or name in TWINS}
    asked |= {name for name, parts in patterns.items() if parts <= set(NAMES)}
    assert launched - asked == {"empty"}


@pytest.mark.parametrize("name", NAMES)
def test_a_format_that_a_kernel_does_not_take_is_refused(name: str, device: torch.device) -> None:
    if name in ("transpose", "gather"):
        pytest.skip("moves bits of any format")
    run, operands = cases(device)[name]
    with pytest.raises(ValueError, match=r"torch\.complex64|cannot multiply"):
        run(operands[0].to(torch.complex64), *operands[1:])


@pytest.mark.parametrize(
    "name",
    [
        "rms_norm",
        "layer_norm",
        "selective_scan",
        "decode_attention",
        "attention",
        "rms_norm_backward",
        "layer_norm_backward",
        "rope",
        "linear_cross_entropy",
        "attention_packed",
        "attention_backward",
        "ssd",
        "gated_delta",
        "causal_conv1d",
    ],
)
def test_operands_of_unlike_shapes_are_refused(name: str, device: torch.device) -> None:
    run, operands = cases(device)[name]
    with pytest.raises(ValueError, match=r"want|multiples"):
        run(operands[0], operands[1], operands[2][..., :-1].contiguous(), *operands[3:])


def test_a_transposed_matrix_is_no_row_major_one(device: torch.device) -> None:
    x, residual, weight = rms_norm.make_inputs(32, 32, seed=0, device=device, dtype=torch.float32)
    with pytest.raises(ValueError, match="strides"):
        rms_norm.run(x.T, residual, weight)


@pytest.mark.parametrize("name", NAMES)
def test_each_operand_of_a_foreign_format_is_refused(name: str, device: torch.device) -> None:
    if name in ("transpose", "gather"):
        pytest.skip("moves bits of any format")
    run, operands = cases(device)[name]
    for place, operand in enumerate(operands):
        if isinstance(operand, torch.Tensor):
            foreign = torch.zeros(operand.shape, dtype=torch.complex64, device=device)
            with pytest.raises(ValueError, match=r"torch\.complex64|cannot multiply"):
                run(*operands[:place], foreign, *operands[place + 1 :])


BY_INDEX = {
    "attention_packed",
    "decode_attention",
    "gather",
    "grouped_gemm",
    "grouped_gemm_fp8",
    "linear_cross_entropy",
    "mla_decode",
    "pointer_chase",
    "rope",
}
"""Kernels that read an operand at places that integers on the device say: to check those, the host would wait."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_INDEX])
def test_each_operand_that_is_shorter_is_refused_or_changes_the_result(
    name: str, device: torch.device
) -> None:
    """No operand is read beyond its end: a row or a column less is another problem, or none."""
    run, operands = cases(device)[name]
    shape = [one.shape for one in parts_of(run(*operands))]
    for place, operand in enumerate(operands):
        if not isinstance(operand, torch.Tensor):
            continue
        for dim in range(operand.dim()):
            if operand.shape[dim] == 1:
                continue
            shorter = operand.narrow(dim, 0, operand.shape[dim] - 1).contiguous()
            try:
                found = [
                    one.shape for one in parts_of(run(*operands[:place], shorter, *operands[place + 1 :]))
                ]
            except ValueError:
                continue
            assert found != shape, f"operand {place} lost an element of dimension {dim}"
