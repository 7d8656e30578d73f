"""Selective scan with the states of a channel in the registers of two or four lanes (Gluon): twin of `selective_scan`.

A thread walks through the tokens with its states in registers: only the sum over states is exchanged, by one or
two shuffles.
"""

import math
from typing import Final

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from advisor.kernels.backend import INTERPRET, num_sms
from advisor.kernels.selective_scan import check_scan

_LOG2_E = gl.constexpr(1.4426950408889634)
_PAIR_TO_FP32 = gl.constexpr("shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;")
_WARPS: Final = 1
_MOST_WARPS_PER_SM: Final = 10
"""Maximum number of warps per multiprocessor before a channel gets more lanes: with more warps, further lanes exchange
more than they hide."""
_FEWEST_LANES: Final = 2
_MOST_LANES: Final = 8
"""Range of lanes per channel: one lane holds too many registers to load ahead; eight are for few channels."""
_RATES: Final = {4: (24, 0.98), 8: (16, 1.07)}
"""Number of warps that a multiprocessor holds with two lanes, and their total rate [TB/s on an H200], by number of
tokens whose inputs are loaded while an equal number before them is computed."""
_MOST_UNROLL: Final = 12


@gluon.constexpr_function
def _words_layout(width, lanes, num_warps):
    """Return the layout that gives a thread the words of its own states, equal in every group of `lanes` lanes."""
    per_lane = width // lanes
    return gl.DistributedLinearLayout(
        reg_bases=[[1 << bit] for bit in range(per_lane.bit_length() - 1)],
        lane_bases=[[per_lane * (1 << bit) if 1 << bit < lanes else 0] for bit in range(5)],
        warp_bases=[[0]] * (num_warps.bit_length() - 1),
        block_bases=[],
        shape=[width],
    )


@gluon.jit
def _load_tokens(u_at, delta_at, b_at, c_at, UNROLL: gl.constexpr, D: gl.constexpr):
    """Load the inputs of the next tokens. All distances are constants, so no address is computed."""
    us = ()  # Triton's frontend does not support unpacking inside a tuple
    deltas = ()
    bs = ()
    cs = ()
    width: gl.constexpr = b_at.shape[0]
    for j in gl.static_range(UNROLL):
        us = us + (gl.load(u_at + j * D),)  # type: ignore[assignment]  # noqa: RUF005
        deltas = deltas + (gl.load(delta_at + j * D),)  # type: ignore[assignment]  # noqa: RUF005
        bs = bs + (gl.load(b_at + j * width),)  # type: ignore[assignment]  # noqa: RUF005
        cs = cs + (gl.load(c_at + j * width),)  # type: ignore[assignment]  # noqa: RUF005
    return us, deltas, bs, cs


@gluon.jit
def _by_state(x, IS_PAIRS: gl.constexpr, layout: gl.constexpr):
    """Return the values of the states in fp32; each half of a pair of bf16 becomes the upper half of an fp32 in one
    operation."""
    if IS_PAIRS:
        low, high = gl.inline_asm_elementwise(
            _PAIR_TO_FP32, "=r,=r,r", [x], dtype=(gl.float32, gl.float32), is_pure=True, pack=1
        )
        joined = gl.join(low, high)
        return gl.convert_layout(gl.reshape(joined, [2 * x.shape[0]]), layout, assert_trivial=True)
    else:
        return gl.convert_layout(x.to(gl.float32), layout, assert_trivial=True)


@gluon.jit
def _step(state, u, delta, b, c, a, skip):
    """Return the state after one token, and the token's output."""
    u = u.to(gl.float32)
    delta = delta.to(gl.float32)
    decay = gl.exp2(delta[None, :] * a)
    state = state * decay + (delta * u)[None, :] * b[:, None]
    return state, gl.sum(state * c[:, None], axis=0) + skip * u


@gluon.jit
def _ahead(u_at, delta_at, b_at, c_at, tokens, D: gl.constexpr, WIDTH: gl.constexpr):
    """Return the pointers to the inputs `tokens` tokens further."""
    return u_at + tokens * D, delta_at + tokens * D, b_at + tokens * WIDTH, c_at + tokens * WIDTH


@gluon.jit
def _scan_rest(
    state,
    u_at,
    delta_at,
    b_at,
    c_at,
    y_at,
    is_channel,
    a,
    skip,
    num_tokens,
    D: gl.constexpr,
    WIDTH: gl.constexpr,
    IS_PAIRS: gl.constexpr,
    by_state: gl.constexpr,
):
    """Return the state after the tokens that fill no round, one by one."""
    for _ in range(num_tokens):
        b = _by_state(gl.load(b_at), IS_PAIRS, by_state)
        c = _by_state(gl.load(c_at), IS_PAIRS, by_state)
        state, y = _step(state, gl.load(u_at), gl.load(delta_at), b, c, a, skip)
        gl.store(y_at, y.to(y_at.dtype.element_ty), mask=is_channel)
        u_at, delta_at, b_at, c_at = _ahead(u_at, delta_at, b_at, c_at, 1, D, WIDTH)
        y_at += D
    return state


@gluon.jit
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
    UNROLL: gl.constexpr,
    BLOCK_D: gl.constexpr,
    D: gl.constexpr,
    N: gl.constexpr,
    LANES: gl.constexpr,
    IS_PAIRS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Scan with every thread holding N / LANES states of one channel."""
    layout: gl.constexpr = gl.BlockedLayout([N // LANES, 1], [LANES, 32 // LANES], [1, num_warps], [0, 1])
    by_channel: gl.constexpr = gl.SliceLayout(0, layout)
    by_state: gl.constexpr = gl.SliceLayout(1, layout)
    sequence = gl.program_id(1).to(gl.int64)
    all_channels = gl.program_id(0) * BLOCK_D + gl.arange(0, BLOCK_D, layout=by_channel)
    states = gl.arange(0, N, layout=by_state)
    # With pairs a thread's states arrive as half as many words, which stay words until they are used.
    WIDTH: gl.constexpr = N // 2 if IS_PAIRS else N
    words = gl.arange(0, WIDTH, layout=_words_layout(WIDTH, LANES, num_warps))
    is_channel = all_channels < D  # beyond the last channel the last one is computed again, and not stored
    channels = gl.minimum(all_channels, D - 1)
    state_places = channels[None, :] * N + states[:, None]
    a = gl.load(a_ptr + state_places) * _LOG2_E
    skip = gl.load(skip_ptr + channels).to(gl.float32)
    state = gl.zeros([N, BLOCK_D], gl.float32, layout)
    u_at = u_ptr + sequence * num_tokens * D + channels
    delta_at = delta_ptr + sequence * num_tokens * D + channels
    y_at = y_ptr + sequence * num_tokens * D + channels
    b_at = b_ptr + sequence * num_tokens * WIDTH + words
    c_at = c_ptr + sequence * num_tokens * WIDTH + words
    num_rounds = num_tokens // UNROLL
    if num_rounds > 0:
        us, deltas, bs, cs = _load_tokens(u_at, delta_at, b_at, c_at, UNROLL, D)
        for num_left in range(num_rounds - 1, -1, -1):
            # After the last round its inputs are loaded once more, so that no load depends on a condition.
            ahead = min(num_left, 1) * UNROLL
            u_at, delta_at, b_at, c_at = _ahead(u_at, delta_at, b_at, c_at, ahead, D, WIDTH)
            next_us, next_deltas, next_bs, next_cs = _load_tokens(u_at, delta_at, b_at, c_at, UNROLL, D)
            for j in gl.static_range(UNROLL):
                b = _by_state(bs[j], IS_PAIRS, by_state)
                c = _by_state(cs[j], IS_PAIRS, by_state)
                state, y = _step(state, us[j], deltas[j], b, c, a, skip)
                gl.store(y_at + j * D, y.to(y_ptr.dtype.element_ty), mask=is_channel)
            y_at += UNROLL * D
            us = next_us
            deltas = next_deltas
            bs = next_bs
            cs = next_cs
        u_at, delta_at, b_at, c_at = _ahead(u_at, delta_at, b_at, c_at, UNROLL, D, WIDTH)
    rest = num_tokens - num_rounds * UNROLL
    state = _scan_rest(
        state, u_at, delta_at, b_at, c_at, y_at, is_channel, a, skip, rest, D, WIDTH, IS_PAIRS, by_state
    )
    gl.store(state_ptr + sequence * D * N + state_places, state, mask=is_channel[None, :])


def is_supported(u: torch.Tensor) -> bool:
    """Whether this kernel runs: on NVIDIA GPUs, whose warps have 32 lanes."""
    return not INTERPRET and u.device.type == "cuda" and torch.version.hip is None


def choose_lanes(num_scans: int, num_states: int, sms: int) -> int:
    """Number of lanes that share a channel's states [count]: more if few would leave multiprocessors almost empty.

    `num_scans` are channels times sequences.
    """
    lanes = _FEWEST_LANES
    while lanes < _MOST_LANES and 2 * lanes * num_scans <= 32 * _MOST_WARPS_PER_SM * sms:
        lanes *= 2
    return min(num_states, lanes)


def choose_unroll(num_scans: int, lanes: int, sms: int) -> int:
    """Number of tokens to load ahead [count]: the fastest if warps follow each other in rounds, the maximum if they are
    few.

    time ∝ rounds · warps at once / rate
    """
    if lanes > _FEWEST_LANES:
        return _MOST_UNROLL
    warps = num_scans * lanes / 32

    def time(unroll: int) -> float:
        at_once, rate = _RATES[unroll]
        return math.ceil(warps / (at_once * sms)) * at_once / rate

    return min(_RATES, key=time)


def run(
    u: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    out: torch.Tensor | None = None,
    lanes: int | None = None,
    unroll: int | None = None,
    num_warps: int = _WARPS,
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
    num_scans = num_sequences * num_channels
    sms = num_sms(u.device.index or 0)
    lanes = lanes or choose_lanes(num_scans, num_states, sms)
    unroll = unroll or choose_unroll(num_scans, lanes, sms)
    out = torch.empty_like(u) if out is None else out
    state = u.new_empty((num_sequences, num_channels, num_states), dtype=torch.float32)
    block = 32 // lanes * num_warps
    is_pairs = b.dtype == torch.bfloat16 and num_states >= 2 * lanes
    _scan_kernel[(triton.cdiv(num_channels, block), num_sequences)](
        u,
        delta,
        a,
        b.view(torch.int32) if is_pairs else b,
        c.view(torch.int32) if is_pairs else c,
        skip,
        out,
        state,
        num_tokens,
        UNROLL=unroll,
        BLOCK_D=block,
        D=num_channels,
        N=num_states,
        LANES=lanes,
        IS_PAIRS=is_pairs,
        num_warps=num_warps,
    )
    return out, state
