"""Grouped matmul of a mixture of experts: rows sorted by expert, each group times its expert's weights.

Groups have unequal sizes that only the device knows. A schedule of row tiles is made on the device, so that the
whole layer can be captured in a graph; programs without a tile leave at once.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.backend import FLOATS, INTERPRET, check_formats, check_operands, dot, persistent_programs
from advisor.kernels.gemm import align_rows, tile_position
from advisor.kernels.gemm_tiles import Config

LARGE_GROUPS: Final = Config(128, 256, 64, num_warps=8, num_stages=4, split_epilogue=False)
SMALL_GROUPS: Final = Config(64, 128, 128, num_warps=4, num_stages=4, split_epilogue=False)
_SMALL_GROUP_ROWS: Final = 96
"""Mean rows per expert below which large tiles would be mostly padding."""
_INTERPRETER_CONFIG: Final = Config(16, 32, 32, num_warps=4, num_stages=1, split_epilogue=False)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Row tiles of all groups, padded to their largest possible number; expert −1 marks an unused slot."""

    expert: torch.Tensor
    first_row: torch.Tensor
    end_row: torch.Tensor


@triton.jit
def _grouped_kernel(
    a_desc,
    b_desc,
    out_ptr,
    expert_ptr,
    first_row_ptr,
    end_row_ptr,
    num_slots,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
):
    num_tiles_n = tl.cdiv(N, BLOCK_N)
    num_tiles_k = tl.cdiv(K, BLOCK_K)
    for tile_id in tl.range(tl.program_id(0), num_slots * num_tiles_n, NUM_PROGRAMS):
        slot, tile_n = tile_position(tile_id, num_slots, num_tiles_n, GROUP_M)
        expert = tl.load(expert_ptr + slot)
        if expert >= 0:
            first_row = tl.load(first_row_ptr + slot)
            end_row = tl.load(end_row_ptr + slot)
            column = tile_n * BLOCK_N
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for k in range(num_tiles_k):
                a = a_desc.load([first_row, k * BLOCK_K])
                b = tl.reshape(b_desc.load([expert, column, k * BLOCK_K]), (BLOCK_N, BLOCK_K))
                acc = dot(a, b.T, acc)
            # The tile's last rows may belong to the next expert: another program writes those.
            rows = first_row + tl.arange(0, BLOCK_M)
            columns = column + tl.arange(0, BLOCK_N)
            out = out_ptr + rows.to(tl.int64)[:, None] * N + columns[None, :]
            inside = (rows[:, None] < end_row) & (columns[None, :] < N)
            tl.store(out, acc.to(a_desc.dtype), mask=inside)


def make_schedule(group_sizes: torch.Tensor, num_rows: int, block_m: int) -> Schedule:
    """Return the row tiles of every group, computed on the device without waiting for it.

    Shapes: group_sizes [E] int -> three tensors [⌈num_rows / block_m⌉ + E] int32.
    """
    num_experts = group_sizes.numel()
    num_slots = triton.cdiv(num_rows, block_m) + num_experts
    sizes = group_sizes.to(torch.int32)
    ends = torch.cumsum(sizes, 0, dtype=torch.int32)
    tiles = (sizes + block_m - 1) // block_m
    tile_ends = torch.cumsum(tiles, 0, dtype=torch.int32)
    slots = torch.arange(num_slots, dtype=torch.int32, device=group_sizes.device)
    owner = torch.searchsorted(tile_ends, slots, right=True)
    expert = torch.clamp(owner, max=num_experts - 1)
    within = slots - (tile_ends - tiles)[expert]
    first_row = (ends - sizes)[expert] + within * block_m
    used = torch.where(owner < num_experts, expert, -1).to(torch.int32)
    return Schedule(used, first_row.to(torch.int32), ends[expert])


def reference(a: torch.Tensor, b: torch.Tensor, group_sizes: torch.Tensor) -> torch.Tensor:
    """Return each group of rows times its expert's weights, in fp32.

    Shapes: a [R, K] sorted by expert, b [E, N, K], group_sizes [E] -> [R, N].
    """
    parts = torch.split(a.float(), [int(size) for size in group_sizes.tolist()])
    return torch.cat([part @ b[expert].float().T for expert, part in enumerate(parts)])


def choose_config(num_rows: int, num_experts: int) -> Config:
    """Return the tile shape for the mean rows per expert."""
    if INTERPRET:
        return _INTERPRETER_CONFIG
    return SMALL_GROUPS if num_rows < _SMALL_GROUP_ROWS * num_experts else LARGE_GROUPS


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    group_sizes: torch.Tensor,
    out: torch.Tensor | None = None,
    config: Config | None = None,
    schedule: Schedule | None = None,
) -> torch.Tensor:
    """Compute each group of rows times its expert's weights.

    Shapes: a [R, K] sorted by expert, b [E, N, K] contiguous, group_sizes [E] with sum R, bf16 or fp16 -> [R, N].
    Raises: ValueError: the inner sizes differ or K is not a multiple of 8.
    """
    num_rows, k = a.shape
    num_experts, n, b_k = b.shape
    if k != b_k or k % 8:
        raise ValueError(f"cannot multiply rows {tuple(a.shape)} by experts {tuple(b.shape)}")
    check_formats(FLOATS, a=a, b=b)
    check_operands(b=b, out=(out, (a.shape[0], b.shape[1])))
    check_formats(None, a=a, group_sizes=group_sizes)
    check_operands((torch.int32, torch.int64), group_sizes=(group_sizes, (num_experts,)))
    config = config or choose_config(num_rows, num_experts)
    schedule = schedule or make_schedule(group_sizes, num_rows, config.block_m)
    out = a.new_empty((num_rows, n)) if out is None else out
    num_slots = schedule.expert.numel()
    programs = min(persistent_programs(a.device), num_slots * triton.cdiv(n, config.block_n))
    _grouped_kernel[(programs,)](
        TensorDescriptor.from_tensor(align_rows(a), [config.block_m, config.block_k]),
        TensorDescriptor.from_tensor(b, [1, config.block_n, config.block_k]),
        out,
        schedule.expert,
        schedule.first_row,
        schedule.end_row,
        num_slots,
        n,
        k,
        NUM_PROGRAMS=programs,
        **config.launch,
    )
    return out


def flop(num_rows: int, n: int, k: int) -> int:
    """Multiplications and additions [flop]: 2 · rows · n · k; every row meets one expert."""
    return 2 * num_rows * n * k


def bytes(num_rows: int, n: int, k: int, num_active_experts: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: rows and the weights of experts that got any, results written."""
    return (num_rows * (k + n) + num_active_experts * n * k) * element_bytes


def make_inputs(
    num_rows: int,
    num_experts: int,
    n: int,
    k: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random rows and weights; every row draws its expert uniformly, so some experts may get none.

    Shapes: a [num_rows, k], b [num_experts, n, k], group_sizes [num_experts] int64.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    a = torch.randn((num_rows, k), generator=generator, device=device, dtype=dtype)
    b = torch.randn((num_experts, n, k), generator=generator, device=device, dtype=dtype)
    chosen = torch.randint(0, num_experts, (num_rows,), generator=generator, device=device)
    return a, b, torch.bincount(chosen, minlength=num_experts)
