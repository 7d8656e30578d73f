"""Grouped matmul of a mixture of experts in fp8, with the block scales of `fp8_block_gemm` and the schedule of
`grouped_gemm`: rows sorted by expert, each group times its expert's weights.

Tiled: row tiles that never cross experts. A tile's last rows may belong to the next expert: another program writes
those.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels import fp8_block_gemm
from advisor.kernels.backend import INTERPRET, check_formats, check_operands, normal, persistent_programs
from advisor.kernels.fp8_block_gemm import (
    BLOCK,
    choose_config,
    dequantize_rows,
    dequantize_weights,
    quantize_rows,
    quantize_weights,
    scaled_tile,
)
from advisor.kernels.gemm import tile_position
from advisor.kernels.gemm_tiles import Config
from advisor.kernels.grouped_gemm import Schedule, make_schedule

_INTERPRETER_CONFIG: Final = Config(16, BLOCK, BLOCK, num_warps=4, num_stages=1, split_epilogue=False)


@triton.jit
def _grouped_kernel(
    a_desc,
    b_desc,
    out_ptr,
    a_scale_ptr,
    b_scale_ptr,
    expert_ptr,
    first_row_ptr,
    end_row_ptr,
    num_slots,
    num_rows,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
):
    num_tiles_n = tl.cdiv(N, BLOCK_N)
    for tile_id in tl.range(tl.program_id(0), num_slots * num_tiles_n, NUM_PROGRAMS):
        slot, tile_n = tile_position(tile_id, num_slots, num_tiles_n, GROUP_M)
        expert = tl.load(expert_ptr + slot)
        if expert >= 0:
            first_row = tl.load(first_row_ptr + slot)
            end_row = tl.load(end_row_ptr + slot)
            column = tile_n * BLOCK_N
            acc = scaled_tile(
                a_desc,
                b_desc,
                a_scale_ptr,
                b_scale_ptr,
                first_row,
                end_row,
                column,
                expert,
                num_rows,
                N,
                K,
                BLOCK_M,
                BLOCK_N,
                BLOCK_K,
            )
            rows = first_row + tl.arange(0, BLOCK_M)
            columns = column + tl.arange(0, BLOCK_N)
            out = out_ptr + rows.to(tl.int64)[:, None] * N + columns[None, :]
            inside = (rows[:, None] < end_row) & (columns[None, :] < N)
            tl.store(out, acc.to(tl.bfloat16), mask=inside)


def reference(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    group_sizes: torch.Tensor,
) -> torch.Tensor:
    """Return each group of dequantised rows times its expert's dequantised weights, in fp64.

    Shapes: a [R, K] fp8, a_scale [⌈K / 128⌉, R], b [E, N, K] fp8, b_scale [E, ⌈N / 128⌉, ⌈K / 128⌉], group_sizes [E]
    -> [R, N].
    """
    parts = torch.split(dequantize_rows(a, a_scale), [int(size) for size in group_sizes.tolist()])
    weights = dequantize_weights(b, b_scale)
    return torch.cat([part @ weights[expert].T for expert, part in enumerate(parts)])


def check_sizes(
    a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor, group_sizes: torch.Tensor
) -> None:
    """Refuse operands that do not fit together.

    Raises: ValueError: no matrix of weights for each expert, or operands that `fp8_block_gemm.check_sizes` refuses.
    """
    if b.dim() != 3:
        raise ValueError(f"b is {tuple(b.shape)}, and the kernel wants a matrix of weights for each expert")
    fp8_block_gemm.check_sizes(a, a_scale, b, b_scale)
    check_formats(None, a=a, group_sizes=group_sizes)
    check_operands((torch.int32, torch.int64), group_sizes=(group_sizes, (b.shape[0],)))


def run(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    group_sizes: torch.Tensor,
    out: torch.Tensor | None = None,
    config: Config | None = None,
    schedule: Schedule | None = None,
) -> torch.Tensor:
    """Compute each group of rows times its expert's weights, in bf16.

    Shapes: a [R, K] fp8 sorted by expert, a_scale [⌈K / 128⌉, R] fp32, b [E, N, K] fp8, b_scale [E, ⌈N / 128⌉,
    ⌈K / 128⌉] fp32, group_sizes [E] with sum R -> [R, N].
    Raises: ValueError: operands that `check_sizes` refuses.
    """
    check_sizes(a, a_scale, b, b_scale, group_sizes)
    num_rows, k = a.shape
    num_experts, n, _ = b.shape
    check_operands((torch.bfloat16,), out=(out, (num_rows, n)))
    config = config or (_INTERPRETER_CONFIG if INTERPRET else choose_config(num_rows // num_experts))
    schedule = schedule or make_schedule(group_sizes, num_rows, config.block_m)
    out = torch.empty((num_rows, n), dtype=torch.bfloat16, device=a.device) if out is None else out
    num_slots = schedule.expert.numel()
    slots = fp8_block_gemm.PROGRAMS_PER_SM * persistent_programs(a.device)
    programs = min(slots, num_slots * triton.cdiv(n, BLOCK))
    _grouped_kernel[(programs,)](
        TensorDescriptor.from_tensor(a, [config.block_m, BLOCK]),
        TensorDescriptor.from_tensor(b, [1, BLOCK, BLOCK]),
        out,
        a_scale,
        b_scale,
        schedule.expert,
        schedule.first_row,
        schedule.end_row,
        num_slots,
        num_rows,
        n,
        k,
        NUM_PROGRAMS=programs,
        **config.launch,
    )
    return out


def flop(num_rows: int, n: int, k: int) -> int:
    """Multiplications and additions [flop]: 2 · rows · n · k; every row meets one expert."""
    return 2 * num_rows * n * k


def bytes(num_rows: int, n: int, k: int, num_active_experts: int) -> int:
    """Least traffic at device memory [bytes]: rows and weights of one byte, scales of four, results of two."""
    blocks = -(-k // BLOCK)
    weights = n * k + 4 * blocks * -(-n // BLOCK)
    return num_rows * (k + 4 * blocks + 2 * n) + num_active_experts * weights


def make_inputs(
    num_rows: int, num_experts: int, n: int, k: int, seed: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random quantised rows and weights; every row draws its expert uniformly, so some experts may get none.

    Shapes: a [num_rows, k] fp8, a_scale, b [num_experts, n, k] fp8, b_scale, group_sizes [num_experts] int64.
    """
    draw = normal(seed, device)
    generator = torch.Generator(device=device).manual_seed(seed)
    chosen = torch.randint(0, num_experts, (num_rows,), generator=generator, device=device)
    # Expert by expert, since all weights in fp32 would be four times as large as those in fp8.
    weights = [quantize_weights(draw(n, k)) for _ in range(num_experts)]
    return (
        *quantize_rows(draw(num_rows, k)),
        torch.stack([values for values, _ in weights]),
        torch.stack([scale for _, scale in weights]),
        torch.bincount(chosen, minlength=num_experts),
    )
