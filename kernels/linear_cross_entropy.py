"""Linear layer onto a vocabulary with cross-entropy, without ever storing all logits.

loss[r] = log Σ_v exp(x[r] · w[v]) − x[r] · w[target[r]]; a target of −100 is ignored.

With 128k words and 8192 tokens the logits would be 2 GB in bf16 and 4 GB in fp32, several times the weights. Forward:
the kernel multiplies a tile of rows and words, and keeps of it each row's maximum, sum of exponentials and the logit
of its target; a second kernel merges the tiles of a row. Backward: the logits of a slice of rows are computed again,
and the kernel writes their gradient (softmax − one at the target) · dloss; two more products give the slice's part of
dx and dw.

Tiled: rows by words. Kept on the chip: the logits of a tile. Stored: three numbers per row and tile; one slice of
gradients, whose size is fixed.

Letters of shapes: R rows (tokens), C columns (hidden size), V words of the vocabulary.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels import gemm_layouts
from advisor.kernels.backend import (
    HALVES,
    INTERPRET,
    check_formats,
    check_operands,
    dot,
    normal,
    persistent_programs,
)
from advisor.kernels.gemm import align_rows, empty_output, tile_position
from advisor.kernels.gemm_tiles import Config

IGNORED: Final = -100
"""Target of a row without a loss, as in torch."""
CONFIG: Final = Config(128, 256, 64, num_warps=8, num_stages=3, group_m=16)
_INTERPRETER_CONFIG: Final = Config(32, 64, 32, num_warps=4, num_stages=1)
SLICE_BYTES: Final = 512 * 1024**2
"""Size of the gradients of logits that exist at a time [bytes]: large slices fill the chip, small ones save memory."""
_LOG2_E = tl.constexpr(1.4426950408889634)
_LOG_2 = tl.constexpr(0.6931471805599453)
_MASKED = tl.constexpr(-1e30)


@triton.jit
def _keep_tile(acc, target_ptr, top_ptr, sum_ptr, hit_ptr, row, column, part, num_parts, M, N):
    """Store maximum and sum of exponentials of each row of a tile, and the logit of its target if it is there."""
    rows = row + tl.arange(0, acc.shape[0])
    columns = column + tl.arange(0, acc.shape[1])
    is_row = rows < M
    scores = tl.where(columns[None, :] < N, acc, _MASKED)
    top = tl.max(scores, axis=1)
    total = tl.sum(tl.exp2((scores - top[:, None]) * _LOG2_E), axis=1)
    place = rows.to(tl.int64) * num_parts + part
    tl.store(top_ptr + place, top, mask=is_row)
    tl.store(sum_ptr + place, total, mask=is_row)
    target = tl.load(target_ptr + rows, mask=is_row, other=-1)
    is_here = (target >= column) & (target < column + acc.shape[1]) & (target < N)
    hit = tl.sum(tl.where(columns[None, :] == target[:, None], acc, 0.0), axis=1)
    tl.store(hit_ptr + rows, hit, mask=is_row & is_here)


@triton.jit
def _grad_tile(acc, target_ptr, log_ptr, grad_ptr, d_desc, row, column, M):
    """Store (softmax − one at the target) · dloss of a tile."""
    rows = row + tl.arange(0, acc.shape[0])
    columns = column + tl.arange(0, acc.shape[1])
    is_row = rows < M
    log = tl.load(log_ptr + rows, mask=is_row, other=0.0)
    target = tl.load(target_ptr + rows, mask=is_row, other=-1)
    grad = tl.load(grad_ptr + rows, mask=is_row, other=0.0)
    weights = tl.exp2((acc - log[:, None]) * _LOG2_E)
    d = (weights - tl.where(columns[None, :] == target[:, None], 1.0, 0.0)) * grad[:, None]
    d_desc.store([row, column], d.to(d_desc.dtype))


@triton.jit
def _logits_kernel(
    x_desc,
    w_desc,
    d_desc,
    target_ptr,
    top_ptr,
    sum_ptr,
    hit_ptr,
    log_ptr,
    grad_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    BACKWARD: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
):
    num_tiles_m = tl.cdiv(M, BLOCK_M)
    num_tiles_n = tl.cdiv(N, BLOCK_N)
    num_tiles_k = tl.cdiv(K, BLOCK_K)
    half: tl.constexpr = BLOCK_N // 2
    for tile_id in tl.range(tl.program_id(0), num_tiles_m * num_tiles_n, NUM_PROGRAMS):
        tile_m, tile_n = tile_position(tile_id, num_tiles_m, num_tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(num_tiles_k):
            x = x_desc.load([row, k * BLOCK_K])
            w = w_desc.load([column, k * BLOCK_K])
            acc = dot(x, w.T, acc)
        halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, half)), (0, 2, 1))
        left, right = tl.split(halves)
        if BACKWARD:
            _grad_tile(left, target_ptr, log_ptr, grad_ptr, d_desc, row, column, M)
            _grad_tile(right, target_ptr, log_ptr, grad_ptr, d_desc, row, column + half, M)
        else:
            parts = 2 * num_tiles_n
            part = 2 * tile_n
            _keep_tile(left, target_ptr, top_ptr, sum_ptr, hit_ptr, row, column, part, parts, M, N)
            _keep_tile(
                right, target_ptr, top_ptr, sum_ptr, hit_ptr, row, column + half, part + 1, parts, M, N
            )


@triton.jit
def _merge_kernel(top_ptr, sum_ptr, hit_ptr, target_ptr, loss_ptr, log_ptr, num_parts, PARTS: tl.constexpr):
    """Merge the tiles of one row into its logarithm of the sum of exponentials, and its loss."""
    row = tl.program_id(0)
    parts = tl.arange(0, PARTS)
    exists = parts < num_parts
    place = row.to(tl.int64) * num_parts + parts
    tops = tl.load(top_ptr + place, mask=exists, other=_MASKED)
    sums = tl.load(sum_ptr + place, mask=exists, other=0.0)
    top = tl.max(tops)
    log = top + tl.log2(tl.sum(sums * tl.exp2((tops - top) * _LOG2_E))) * _LOG_2
    target = tl.load(target_ptr + row)
    hit = tl.load(hit_ptr + row, mask=target >= 0, other=0.0)
    tl.store(log_ptr + row, log)
    tl.store(loss_ptr + row, tl.where(target >= 0, log - hit, 0.0))


def reference(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the loss of each row in fp64 with all logits in memory.

    Shapes: x [R, C], weight [V, C], target [R] -> [R].
    """
    logits = x.double() @ weight.double().T
    return torch.nn.functional.cross_entropy(logits, target.long(), ignore_index=IGNORED, reduction="none")


def reference_backward(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of rows and weights in fp64, by automatic differentiation.

    Shapes: x [R, C], weight [V, C], target [R], grad [R] -> [R, C], [V, C].
    """
    operands = [one.detach().double().requires_grad_() for one in (x, weight)]
    dx, dw = torch.autograd.grad(reference(operands[0], operands[1], target), operands, grad.double())
    return dx, dw


def _check(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1] or x.dtype != weight.dtype:
        raise ValueError(
            f"cannot multiply {tuple(x.shape)} {x.dtype} by {tuple(weight.shape)} {weight.dtype} transposed"
        )
    check_formats(HALVES, x=x, weight=weight)
    check_operands(None, place=x.new_empty(0), target=(target, (x.shape[0],)))
    check_operands((torch.int64, torch.int32), target=target)


def _launch(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    sums: tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None],
    log: torch.Tensor | None,
    grad: torch.Tensor | None,
    d: torch.Tensor | None,
) -> None:
    """Launch the kernel of the logits: forward with `sums`, backward with `log`, `grad` and `d`."""
    config = _INTERPRETER_CONFIG if INTERPRET else CONFIG
    rows = align_rows(x)
    num_rows = x.shape[0]
    num_words = weight.shape[0]
    programs = min(persistent_programs(x.device), config.num_tiles(num_rows, num_words))
    # The forward pass writes no tile, so any matrix of aligned rows stands for its descriptor.
    stored = rows if d is None else d
    _logits_kernel[(programs,)](
        TensorDescriptor.from_tensor(rows, [config.block_m, config.block_k]),
        TensorDescriptor.from_tensor(align_rows(weight), [config.block_n, config.block_k]),
        TensorDescriptor.from_tensor(stored, [config.block_m, config.block_n // 2]),
        target,
        *sums,
        log,
        grad,
        num_rows,
        num_words,
        rows.shape[1],
        BACKWARD=d is not None,
        NUM_PROGRAMS=programs,
        **config.launch,
    )


def run(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, out: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the loss of each row, and the logarithm of its sum of exponentials, which the backward pass needs.

    Shapes: x [R, C], weight [V, C], bf16 or fp16, target [R] int -> [R] fp32, [R] fp32.

    Assumes: a target is a word, or negative to be ignored; checking would make the host wait for the device.
    Raises: ValueError: the sizes or the formats differ, or operands that `check_operands` refuses.
    """
    _check(x, weight, target)
    num_rows = x.shape[0]
    check_operands((torch.float32,), out=(out, (num_rows,)))
    config = _INTERPRETER_CONFIG if INTERPRET else CONFIG
    num_parts = 2 * triton.cdiv(weight.shape[0], config.block_n)
    tops = torch.empty((num_rows, num_parts), dtype=torch.float32, device=x.device)
    totals = torch.empty_like(tops)
    # A target beyond the vocabulary is in no tile, and its loss is no number.
    hits = torch.full((num_rows,), float("nan"), dtype=torch.float32, device=x.device)
    log = torch.empty_like(hits)
    loss = torch.empty_like(hits) if out is None else out
    _launch(x, weight, target, (tops, totals, hits), None, None, None)
    padded = triton.next_power_of_2(num_parts)
    _merge_kernel[(num_rows,)](tops, totals, hits, target, loss, log, num_parts, PARTS=padded, num_warps=4)
    return loss, log


def run_backward(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    log: torch.Tensor,
    grad: torch.Tensor,
    slice_bytes: int = SLICE_BYTES,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the gradients of rows and weights from the gradient of each row's loss.

    Shapes: x [R, C], weight [V, C], target [R], log [R] fp32, grad [R] fp32 -> [R, C], [V, C].
    Raises: ValueError: the sizes or the formats differ, or operands that `check_operands` refuses.
    """
    _check(x, weight, target)
    num_rows, num_columns = x.shape
    num_words = weight.shape[0]
    check_operands((torch.float32,), log=(log, (num_rows,)), grad=(grad, (num_rows,)))
    grad = torch.where(target >= 0, grad, 0.0)
    multiple = 128
    rows_per_slice = max(multiple, slice_bytes // (2 * num_words) // multiple * multiple)
    dx = empty_output(num_rows, num_columns, x.dtype, x.device)
    # One slice's part is added to the others' in fp32; a single slice needs no second pass.
    is_one = num_rows <= rows_per_slice
    dw = empty_output(num_words, num_columns, x.dtype if is_one else torch.float32, x.device)
    for first in range(0, num_rows, rows_per_slice):
        some = slice(first, min(num_rows, first + rows_per_slice))
        d = empty_output(some.stop - first, num_words, x.dtype, x.device)
        _launch(x[some], weight, target[some], (None, None, None), log[some], grad[some], d)
        gemm_layouts.run(d, weight, dx[some])
        gemm_layouts.run(d.T, x[some], dw, add=first > 0)
    return dx, dw.to(weight.dtype)


def flop(num_rows: int, num_columns: int, num_words: int, backward: bool = False) -> int:
    """Multiplications and additions [flop]: one product forward, three backward; exponentials are not counted."""
    return (6 if backward else 2) * num_rows * num_columns * num_words


def bytes(num_rows: int, num_columns: int, num_words: int, element_bytes: int, backward: bool = False) -> int:
    """Least traffic at device memory [bytes]: rows and weights read, losses written; backward also both gradients.

    Backward, the gradients of the logits are written once and read twice, in slices.
    """
    once = (num_rows + num_words) * num_columns * element_bytes
    if not backward:
        return once + 16 * num_rows
    return 2 * once + 3 * num_rows * num_words * element_bytes


def make_inputs(
    num_rows: int,
    num_columns: int,
    num_words: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random rows, weights whose logits have a spread of one, and targets, of which the first is ignored.

    Shapes: x [R, C], weight [V, C], target [R] int64.
    """
    draw = normal(seed, device, dtype)
    generator = torch.Generator(device=device).manual_seed(seed)
    target = torch.randint(0, num_words, (num_rows,), generator=generator, device=device)
    target[0] = IGNORED
    return draw(num_rows, num_columns), draw(num_words, num_columns) / num_columns**0.5, target
