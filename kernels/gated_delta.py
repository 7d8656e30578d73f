"""Gated delta rule in chunks on the matrix unit: a linear attention that overwrites what its keys point at.

state[t] = exp(g[t]) · state[t−1] + k[t] ⊗ u[t],  u[t] = β[t] · (v[t] − k[t] · exp(g[t]) · state[t−1])

y[t] = q[t] · state[t] / √K

Each u depends on all before it. Within a chunk they solve a triangular system: with s the sums of g from its start,

(I + A) · u = β ∘ (v − exp(s) ∘ k · state),  A[i, j] = β_i · exp(s_i − s_j) · k_i · k_j for j < i.

The first kernel inverts I + A of every chunk at once and stores U = (I + A)⁻¹ · (β ∘ v) and W = (I + A)⁻¹ · (β ∘
exp(s) ∘ k). The second walks over the chunks, as in `ssd`: u = U − W · state, y from the state and from the chunk's
own scores, state ← exp(s_Q) · state + (k ∘ exp(s_Q − s))ᵀ · u.

The inverse: blocks of 16 by forward substitution, four of them at a time in registers; then the blocks are joined to
32 and to 64, by two products each. Powers of A would need fewer steps and lose all digits where keys are alike.

Tiled: the first kernel by chunk and head, the second by head and block of values. Kept on the chip: A and its
inverse; the state.

Letters of shapes: B sequences, L tokens, H heads, K size of keys, V size of values. Source: Yang et al. 2024,
arXiv:2412.06464, section 3; the chunked form of the delta rule, arXiv:2406.06484, section 3.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.backend import HALVES, INTERPRET, check_operands, dot, normal, wide

CHUNK: Final = 64
"""Tokens of a chunk: four blocks of 16, which are joined twice."""
_LEAST_WIDTH: Final = 64
"""Width to which keys and values are padded on a GPU. Narrower ones with wide ones gave wrong numbers with Triton 3.6
on Hopper, from the second block of 16 tokens on (32 values, 64 keys); combinations of 64, 128 and 256 do not."""
_LOG2_E = tl.constexpr(1.4426950408889634)
_BLOCK = tl.constexpr(16)


@dataclass(frozen=True, slots=True)
class DeltaConfig:
    """Number of values of one program of the second kernel, warps of both, and stages of the second."""

    values: int
    solve_warps: int
    scan_warps: int
    stages: int


CONFIG: Final = DeltaConfig(values=64, solve_warps=4, scan_warps=4, stages=2)
_INTERPRETER_CONFIG: Final = DeltaConfig(values=32, solve_warps=4, scan_warps=4, stages=1)


@triton.jit
def _dot_fp32(a, b):
    """Return a · b of small fp32 matrices, on the matrix unit in tf32: their result is rounded to 16 bits."""
    if INTERPRET:
        return tl.dot(a, b, input_precision="ieee")
    else:
        return tl.dot(a, b, input_precision="tf32")


@triton.jit
def _invert(a, CHUNK: tl.constexpr):
    """Return the inverse of I + a, a strictly lower triangular."""
    blocks: tl.constexpr = CHUNK // _BLOCK
    rows = tl.arange(0, CHUNK)
    same = (rows // _BLOCK)[:, None] == (rows // _BLOCK)[None, :]
    # The blocks on the diagonal as [block, row, column].
    own = tl.sum(tl.reshape(tl.where(same, a, 0.0), (blocks, _BLOCK, blocks, _BLOCK)), axis=2)
    place = tl.arange(0, _BLOCK)
    identity = (place[:, None] == place[None, :]).to(tl.float32)
    inverse = tl.zeros((blocks, _BLOCK, _BLOCK), tl.float32) + identity[None, :, :]
    for i in range(1, _BLOCK):
        is_row = (place == i)[None, :, None]
        row = tl.sum(tl.where(is_row, own, 0.0), axis=1)
        change = tl.sum(row[:, :, None] * inverse, axis=1)
        inverse = tl.where(is_row, inverse - change[:, None, :], inverse)
    spread = tl.broadcast_to(inverse[:, :, None, :], (blocks, _BLOCK, blocks, _BLOCK))
    whole = tl.where(same, tl.reshape(spread, (CHUNK, CHUNK)), 0.0)
    # [[X, 0], [−Y · L · X, Y]] is the inverse of [[X⁻¹, 0], [L, Y⁻¹]].
    wider = (rows // (2 * _BLOCK))[:, None] == (rows // (2 * _BLOCK))[None, :]
    below = tl.where(wider & (same == 0), a, 0.0)
    whole -= _dot_fp32(_dot_fp32(whole, below), whole)
    if CHUNK > 2 * _BLOCK:
        below = tl.where(wider, 0.0, a)
        whole -= _dot_fp32(_dot_fp32(whole, below), whole)
    return whole


@triton.jit
def _solve_kernel(
    k_ptr,
    v_ptr,
    g_ptr,
    beta_ptr,
    w_ptr,
    u_ptr,
    num_tokens,
    num_heads,
    key_size,
    value_size,
    CHUNK: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
):
    head = tl.program_id(0)
    sequence = tl.program_id(2)
    steps = tl.arange(0, CHUNK)
    tokens = tl.program_id(1) * CHUNK + steps
    is_token = tokens < num_tokens
    place = (sequence.to(tl.int64) * num_tokens + tokens) * num_heads + head
    g = tl.load(g_ptr + place, mask=is_token, other=0.0).to(tl.float32) * _LOG2_E
    beta = tl.load(beta_ptr + place, mask=is_token, other=0.0).to(tl.float32)
    keys = tl.arange(0, KEYS)
    k_offsets = place[:, None] * key_size + keys[None, :]
    k_mask = is_token[:, None] & (keys[None, :] < key_size)
    k = wide(tl.load(k_ptr + k_offsets, mask=k_mask, other=0.0))
    sums = tl.cumsum(g, axis=0)
    is_past = steps[:, None] > steps[None, :]
    decays = tl.exp2(tl.where(is_past, sums[:, None] - sums[None, :], -float("inf")))
    a = dot(k, tl.trans(k), tl.zeros((CHUNK, CHUNK), tl.float32)) * decays * beta[:, None]
    inverse = _invert(a, CHUNK)
    weighted = (k.to(tl.float32) * (beta * tl.exp2(sums))[:, None]).to(k.dtype)
    w = dot(inverse.to(k.dtype), weighted, tl.zeros((CHUNK, KEYS), tl.float32))
    tl.store(w_ptr + k_offsets, w, mask=k_mask)
    values = tl.arange(0, VALUES)
    v_offsets = place[:, None] * value_size + values[None, :]
    v_mask = is_token[:, None] & (values[None, :] < value_size)
    v = wide(tl.load(v_ptr + v_offsets, mask=v_mask, other=0.0))
    weighted = (v.to(tl.float32) * beta[:, None]).to(v.dtype)
    u = dot(inverse.to(v.dtype), weighted, tl.zeros((CHUNK, VALUES), tl.float32))
    tl.store(u_ptr + v_offsets, u, mask=v_mask)


@triton.jit
def _scan_kernel(
    q_desc,
    k_desc,
    g_ptr,
    w_desc,
    u_desc,
    start_desc,
    y_desc,
    end_desc,
    num_tokens,
    num_heads,
    key_size,
    value_size,
    scale,
    HAS_START: tl.constexpr,
    CHUNK: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
):
    blocks = tl.cdiv(value_size, VALUES)
    head = tl.program_id(0) // blocks
    sequence = tl.program_id(1)
    first_value = tl.program_id(0) % blocks * VALUES
    state_row = sequence * num_heads + head
    state = tl.zeros((KEYS, VALUES), tl.float32)
    if HAS_START:
        state += tl.reshape(start_desc.load([state_row, 0, first_value]), (KEYS, VALUES))
    steps = tl.arange(0, CHUNK)
    for first in tl.range(0, num_tokens, CHUNK):
        tokens = first + steps
        is_token = tokens < num_tokens
        place = (sequence.to(tl.int64) * num_tokens + tokens) * num_heads + head
        g = tl.load(g_ptr + place, mask=is_token, other=0.0).to(tl.float32) * _LOG2_E
        w = wide(tl.reshape(w_desc.load([sequence, first, head, 0]), (CHUNK, KEYS)))
        q = wide(tl.reshape(q_desc.load([sequence, first, head, 0]), (CHUNK, KEYS)))
        k = wide(tl.reshape(k_desc.load([sequence, first, head, 0]), (CHUNK, KEYS)))
        u = tl.reshape(u_desc.load([sequence, first, head, first_value]), (CHUNK, VALUES)).to(tl.float32)
        sums = tl.cumsum(g, axis=0)
        last = tl.sum(g, axis=0)
        rounded = state.to(k.dtype)
        u -= dot(w, rounded, tl.zeros((CHUNK, VALUES), tl.float32))
        y = dot(q, rounded, tl.zeros((CHUNK, VALUES), tl.float32)) * tl.exp2(sums)[:, None]
        is_past = steps[:, None] >= steps[None, :]
        decays = tl.exp2(tl.where(is_past, sums[:, None] - sums[None, :], -float("inf")))
        scores = dot(q, tl.trans(k), tl.zeros((CHUNK, CHUNK), tl.float32)) * decays
        y = dot(scores.to(k.dtype), u.to(k.dtype), y)
        rows = tl.reshape((y * scale).to(y_desc.dtype), (1, CHUNK, 1, VALUES))
        y_desc.store([sequence, first, head, first_value], rows)
        left = (u * tl.exp2(last - sums)[:, None]).to(k.dtype)
        state = dot(tl.trans(k), left, state * tl.exp2(last))
    end_desc.store([state_row, 0, first_value], tl.reshape(state, (1, KEYS, VALUES)))


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    start: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return results and final states in fp64, token after token.

    Shapes: q [B, L, H, K], k [B, L, H, K], v [B, L, H, V], g [B, L, H], beta [B, L, H], start [B, H, K, V]
    -> [B, L, H, V], [B, H, K, V].
    """
    batch, num_tokens, num_heads, key_size = q.shape
    queries, keys, values, gates, strengths = (x.double() for x in (q, k, v, g, beta))
    shape = (batch, num_heads, key_size, v.shape[3])
    state = torch.zeros(shape, dtype=torch.float64, device=q.device) if start is None else start.double()
    rows = []
    for t in range(num_tokens):
        state = state * torch.exp(gates[:, t])[:, :, None, None]
        found = torch.einsum("bhk,bhkv->bhv", keys[:, t], state)
        u = strengths[:, t, :, None] * (values[:, t] - found)
        state = state + keys[:, t][:, :, :, None] * u[:, :, None, :]
        rows.append(torch.einsum("bhk,bhkv->bhv", queries[:, t], state) * key_size**-0.5)
    return torch.stack(rows, dim=1), state


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    start: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    config: DeltaConfig | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute results and final states, from zeros or from the states that an earlier call handed over.

    Shapes: q [B, L, H, K], k [B, L, H, K] of length at most 1, v [B, L, H, V], contiguous bf16 or fp16, g (at most 0),
    beta (0 to 1) [B, L, H], start [B, H, K, V] fp32 -> [B, L, H, V], [B, H, K, V] fp32.

    Assumes: keys of length at most 1, as the rule needs to be stable.
    Raises: ValueError: dimensions that do not fit, keys or values wider than 256 or no multiples of 8, or operands that
        `check_operands` refuses.
    """
    if q.dim() != 4 or v.dim() != 4 or min(q.shape) == 0 or min(v.shape) == 0:
        raise ValueError(f"the rule takes four dimensions, not q {tuple(q.shape)} and v {tuple(v.shape)}")
    batch, num_tokens, num_heads, key_size = q.shape
    value_size = v.shape[3]
    if max(key_size, value_size) > 256:
        raise ValueError(f"keys of {key_size} or values of {value_size} are wider than 256")
    if key_size % 8 or value_size % 8:
        raise ValueError(
            f"keys of {key_size} and values of {value_size} must be multiples of 8 to fill 16 bytes"
        )
    v_shape = (batch, num_tokens, num_heads, value_size)
    check_operands(HALVES, q=q, k=(k, q.shape), v=(v, v_shape), out=(out, v_shape))
    check_operands((q.dtype,), q=q, k=k, v=v)
    check_operands(None, q=q, g=(g, q.shape[:3]), beta=(beta, q.shape[:3]))
    check_operands(g=g, beta=beta)
    check_operands(None, q=q, start=(start, (batch, num_heads, key_size, value_size)))
    check_operands((torch.float32,), start=start)
    config = config or (_INTERPRETER_CONFIG if INTERPRET else CONFIG)
    out = torch.empty_like(v) if out is None else out
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    end = torch.empty((batch, num_heads, key_size, value_size), dtype=torch.float32, device=q.device)
    sizes = (num_tokens, num_heads, key_size, value_size)
    least = 16 if INTERPRET else _LEAST_WIDTH
    keys = max(least, triton.next_power_of_2(key_size))

    def describe_states(states: torch.Tensor) -> TensorDescriptor:
        return TensorDescriptor.from_tensor(states.view(-1, key_size, value_size), [1, keys, config.values])

    _solve_kernel[(num_heads, triton.cdiv(num_tokens, CHUNK), batch)](
        k,
        v,
        g,
        beta,
        w,
        u,
        *sizes,
        CHUNK=CHUNK,
        KEYS=keys,
        VALUES=max(least, triton.next_power_of_2(value_size)),
        num_warps=config.solve_warps,
    )
    _scan_kernel[(num_heads * triton.cdiv(value_size, config.values), batch)](
        *(TensorDescriptor.from_tensor(x, [1, CHUNK, 1, keys]) for x in (q, k)),
        g,
        TensorDescriptor.from_tensor(w, [1, CHUNK, 1, keys]),
        TensorDescriptor.from_tensor(u, [1, CHUNK, 1, config.values]),
        None if start is None else describe_states(start),
        TensorDescriptor.from_tensor(out, [1, CHUNK, 1, config.values]),
        describe_states(end),
        *sizes,
        key_size**-0.5,
        HAS_START=start is not None,
        CHUNK=CHUNK,
        KEYS=keys,
        VALUES=config.values,
        num_warps=config.scan_warps,
        num_stages=config.stages,
    )
    return out, end


def flop(batch: int, num_tokens: int, num_heads: int, key_size: int, value_size: int) -> int:
    """Multiplications and additions [flop]: per token and head 2 · (Q · (3 K + 2 V) + 3 K V), without the inverse.

    Q · K for A, for W and for the scores; Q · V for U and for the scores' values; K · V for u, for y and for the state.
    """
    per_token = 2 * (CHUNK * (3 * key_size + 2 * value_size) + 3 * key_size * value_size)
    return batch * num_tokens * num_heads * per_token


def bytes(
    batch: int, num_tokens: int, num_heads: int, key_size: int, value_size: int, element_bytes: int
) -> int:
    """Least traffic at device memory [bytes]: q, k, v, g and β (fp32) read once, y written once, final states.

    W and U, which pass through memory between the two kernels, and the second reading of k are not counted.
    """
    per_token = 2 * (key_size + value_size) * element_bytes + 8
    return batch * num_heads * (num_tokens * per_token + 4 * key_size * value_size)


def make_inputs(
    batch: int,
    num_tokens: int,
    num_heads: int,
    key_size: int,
    value_size: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random queries, keys of length one, values, gates near zero and strengths around a half.

    Shapes: q [B, L, H, K], k [B, L, H, K], v [B, L, H, V], g [B, L, H], beta [B, L, H].
    """
    draw = normal(seed, device)
    shape = (batch, num_tokens, num_heads, key_size)
    k = torch.nn.functional.normalize(draw(*shape), dim=3)
    rows = (batch, num_tokens, num_heads)
    return (
        draw(*shape).to(dtype),
        k.to(dtype),
        draw(*rows, value_size).to(dtype),
        -0.1 * draw(*rows).abs(),
        torch.sigmoid(draw(*rows)),
    )
