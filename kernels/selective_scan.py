"""Selective state-space scan (Mamba): a linear recurrence whose coefficients depend on the token.

h[t] = exp(Δ[t] · A) · h[t−1] + Δ[t] · u[t] · B[t],  y[t] = C[t] · h[t] + skip · u[t]

Letters of shapes: B sequences, L tokens, D channels, N states per channel.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import INTERPRET, check_operands, normal

_CHUNK: Final = 8 if INTERPRET else 32
_BLOCK_D: Final = 8 if INTERPRET else 16
_NUM_WARPS: Final = 4


@triton.jit
def _compose(decay_first, add_first, decay_second, add_second):
    """Return two steps h → decay · h + add combined into one."""
    return decay_first * decay_second, add_first * decay_second + add_second


@triton.jit
def _scan_kernel(
    u_ptr,
    delta_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    skip_ptr,
    y_ptr,
    state_ptr,
    num_tokens,
    num_channels,
    CHUNK: tl.constexpr,
    BLOCK_D: tl.constexpr,
    N: tl.constexpr,
):
    sequence = tl.program_id(1)
    channels = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    states = tl.arange(0, N)
    is_channel = channels < num_channels
    a = tl.load(a_ptr + channels[:, None] * N + states[None, :], mask=is_channel[:, None], other=0.0)
    skip = tl.load(skip_ptr + channels, mask=is_channel, other=0.0).to(tl.float32)
    state = tl.zeros((BLOCK_D, N), tl.float32)
    steps = tl.arange(0, CHUNK)
    start = sequence.to(tl.int64) * num_tokens
    for first in tl.range(0, num_tokens, CHUNK):
        tokens = first + steps
        is_token = tokens < num_tokens
        mask = is_token[:, None] & is_channel[None, :]
        offsets = (start + tokens)[:, None] * num_channels + channels[None, :]
        u = tl.load(u_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        # Beyond the end Δ is 0, so the state stays unchanged.
        delta = tl.load(delta_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        bc_offsets = (start + tokens)[:, None] * N + states[None, :]
        b = tl.load(b_ptr + bc_offsets, mask=is_token[:, None], other=0.0).to(tl.float32)
        c = tl.load(c_ptr + bc_offsets, mask=is_token[:, None], other=0.0).to(tl.float32)
        decay = tl.exp(delta[:, :, None] * a[None, :, :])
        add = (delta * u)[:, :, None] * b[:, None, :]
        decays, adds = tl.associative_scan((decay, add), 0, _compose)
        history = adds + decays * state[None, :, :]
        y = tl.sum(history * c[:, None, :], axis=2) + skip[None, :] * u
        tl.store(y_ptr + offsets, y, mask=mask)
        state = tl.sum(tl.where((steps == CHUNK - 1)[:, None, None], history, 0.0), axis=0)
    state_offsets = (sequence * num_channels + channels)[:, None] * N + states[None, :]
    tl.store(state_ptr + state_offsets, state, mask=is_channel[:, None])


def reference(
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs and last state, token by token in fp32.

    Shapes: u [B, L, D], delta [B, L, D], a [D, N], b [B, L, N], c [B, L, N], skip [D] -> [B, L, D], [B, D, N].
    """
    u, delta, b, c = (x.float() for x in (u, delta, b, c))
    state = u.new_zeros((u.shape[0], u.shape[2], a.shape[1]))
    outputs = []
    for t in range(u.shape[1]):
        add = (delta[:, t] * u[:, t])[:, :, None] * b[:, t, None, :]
        state = torch.exp(delta[:, t, :, None] * a) * state + add
        outputs.append((state * c[:, t, None, :]).sum(dim=2) + skip * u[:, t])
    return torch.stack(outputs, dim=1), state


def check_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    out: torch.Tensor | None,
) -> None:
    """Refuse operands of a scan that do not fit together.

    Raises: ValueError: an operand has gaps, another shape, another format, or lies on another device than u.
    """
    num_sequences, num_tokens, num_channels = u.shape
    num_states = a.shape[1]
    check_operands(
        u=u,
        delta=(delta, u.shape),
        a=(a, (num_channels, num_states)),
        b=(b, (num_sequences, num_tokens, num_states)),
        c=(c, (num_sequences, num_tokens, num_states)),
        skip=(skip, (num_channels,)),
        out=(out, u.shape),
    )


def run(
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute outputs in the format of u, and the last state in fp32.

    Shapes: u [B, L, D], delta [B, L, D], a [D, N] fp32, b [B, L, N], c [B, L, N], skip [D] fp32, contiguous
    -> [B, L, D], [B, D, N].
    Raises: ValueError: N is not a power of two.
    """
    num_sequences, num_tokens, num_channels = u.shape
    check_scan(u, delta, a, b, c, skip, out)
    num_states = a.shape[1]
    if num_states != triton.next_power_of_2(num_states):
        raise ValueError(f"{num_states} states per channel is not a power of two")
    out = torch.empty_like(u) if out is None else out
    state = u.new_empty((num_sequences, num_channels, num_states), dtype=torch.float32)
    _scan_kernel[(triton.cdiv(num_channels, _BLOCK_D), num_sequences)](
        u,
        delta,
        a,
        b,
        c,
        skip,
        out,
        state,
        num_tokens,
        num_channels,
        CHUNK=_CHUNK,
        BLOCK_D=_BLOCK_D,
        N=num_states,
        num_warps=_NUM_WARPS,
    )
    return out, state


def flop(num_sequences: int, num_tokens: int, num_channels: int, num_states: int) -> int:
    """Operations [flop]: nine per state and token (decay, recurrence, output), three per channel and token."""
    return num_sequences * num_tokens * num_channels * (9 * num_states + 3)


def bytes(
    num_sequences: int, num_tokens: int, num_channels: int, num_states: int, element_bytes: int = 2
) -> int:
    """Least traffic at device memory [bytes]: u, Δ and y per channel, B and C per state, the last state."""
    per_token = (3 * num_channels + 2 * num_states) * element_bytes
    return num_sequences * (num_tokens * per_token + 4 * num_channels * num_states)


def make_inputs(
    num_sequences: int,
    num_tokens: int,
    num_channels: int,
    num_states: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random inputs with Mamba's initial A (−1 … −N) and step sizes around 0.1.

    Shapes: u [B, L, D], delta [B, L, D], a [D, N], b [B, L, N], c [B, L, N], skip [D].
    """
    draw = normal(seed, device)
    u = draw(num_sequences, num_tokens, num_channels).to(dtype)
    delta = torch.nn.functional.softplus(draw(num_sequences, num_tokens, num_channels) - 2).to(dtype)
    a = -torch.arange(1, num_states + 1, device=device, dtype=torch.float32).repeat(num_channels, 1)
    b = draw(num_sequences, num_tokens, num_states).to(dtype)
    c = draw(num_sequences, num_tokens, num_states).to(dtype)
    return u, delta, a.contiguous(), b, c, draw(num_channels)
