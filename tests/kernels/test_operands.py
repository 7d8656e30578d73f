"""Operands that a kernel would read wrongly are refused before launch: gaps, other formats, other shapes."""

import contextlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from advisor.kernels import (
    activations,
    attention,
    copy,
    decode_attention,
    gather,
    gemm,
    grouped_gemm,
    layer_norm,
    linear_gelu_residual,
    pointer_chase,
    rms_norm,
    selective_scan,
    softmax,
    transpose,
    w4a16,
    w8a8,
)

Case = tuple[Callable[..., Any], tuple[Any, ...]]


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
)


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
        out = tuple(outputs) if name == "rms_norm" else outputs[0]
        with pytest.raises(ValueError, match=r"strides|want"):
            run(*operands, out=out)


TWINS = {
    "attention_wgmma": "attention",
    "w4a16_mma": "w4a16",
    "w4a16_row": "w4a16",
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
    patterns = {"activations": {"gelu", "swiglu"}, "copy": {"copy", "triad"}}
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
    "name", ["rms_norm", "layer_norm", "selective_scan", "decode_attention", "attention"]
)
def test_operands_of_unlike_shapes_are_refused(name: str, device: torch.device) -> None:
    run, operands = cases(device)[name]
    with pytest.raises(ValueError, match="want"):
        run(operands[0], operands[1], operands[2][..., :-1].contiguous(), *operands[3:])


def test_a_transposed_matrix_is_no_row_major_one(device: torch.device) -> None:
    x, residual, weight = rms_norm.make_inputs(32, 32, seed=0, device=device, dtype=torch.float32)
    with pytest.raises(ValueError, match="strides"):
        rms_norm.run(x.T, residual, weight)
