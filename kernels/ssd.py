"""State-space duality scan (Mamba-2) in chunks on the matrix unit: a linear recurrence with one decay per head and
token.

state[t] = exp(Δ[t] · a) · state[t−1] + Δ[t] · b[t] ⊗ x[t],  y[t] = c[t] · state[t] + skip · x[t]

Within a chunk of Q tokens the recurrence is attention without a softmax. With s the sums of Δ · a from the chunk's
start:

y = (c · bᵀ ∘ exp(s_i − s_j) ∘ [i ≥ j]) · (Δ ∘ x) + exp(s) ∘ (c · state)

state ← exp(s_Q) · state + (b ∘ exp(s_Q − s) ∘ Δ)ᵀ · x

so four products of the matrix unit replace Q steps. Heads that share b and c share c · bᵀ: a first kernel
computes it once for all of them. Mamba-1 (`selective_scan`) has a decay per channel and state, so
its chunks are no products, and exponentials bound it.

Tiled: a program takes one head of one sequence and walks over its chunks. Kept on the chip: the state, so that it
never passes through memory; x is read once and y written once. Where sequences and heads are fewer than a GPU runs
programs, a sequence is cut into segments: a first pass computes the end states of all but the last, half a segment a
program, a short one joins them, and the last pass starts each segment with the state handed over to it. A caller hands
over states between calls in the same way.

Letters of shapes: B sequences, L tokens, H heads, P channels of a head, G groups of heads that share b and c, N
states. Source: Dao and Gu 2024, arXiv:2405.21060, section 6.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.backend import (
    HALVES,
    INTERPRET,
    check_operands,
    dot,
    normal,
    persistent_programs,
    wide,
)

_LOG2_E = tl.constexpr(1.4426950408889634)
LARGEST_EXPONENT = tl.constexpr(120.0)
"""Exponent of 2 that keeps a decay finite."""
PROGRAMS_PER_SM: Final = 2
"""Number of programs of a multiprocessor that all run at once."""
_LEAST_CHUNKS: Final = 8
"""Least number of chunks of a segment: shorter ones cost more for their states than the further programs gain."""
PARTS: Final = 2
"""Number of programs of the first pass for each segment and head: they keep no results and need fewer registers, so two
run where one of the last pass does. One takes 268 us for 16384 tokens of 80 heads on an H200, two 230, four 241."""


@dataclass(frozen=True, slots=True)
class ChunkConfig:
    """Number of tokens of a chunk and of channels of a program, with warps and stages."""

    chunk: int
    channels: int
    num_warps: int
    num_stages: int


_SCORE_WARPS: Final = 4
FEW_STATES: Final = ChunkConfig(chunk=64, channels=64, num_warps=4, num_stages=3)
"""Configuration of at most 64 states: 0.52 ms for 8 x 4096 tokens of 80 heads on an H100, with chunks of 32 0.63."""
MANY_STATES: Final = ChunkConfig(chunk=32, channels=64, num_warps=4, num_stages=3)
"""Configuration of more states: with chunks of 64 the state and the scores do not fit the registers (0.77, not 0.88
ms)."""
_INTERPRETER_CONFIG: Final = ChunkConfig(chunk=16, channels=16, num_warps=4, num_stages=1)


@triton.jit
def store_scores(
    b_desc,
    c_desc,
    scores_desc,
    chunk,
    group,
    num_groups,
    sequence,
    num_chunks,
    CHUNK: tl.constexpr,
    STATES: tl.constexpr,
):
    """Store c · bᵀ of one chunk of one group, zero where b's token comes later than c's."""
    b = wide(tl.reshape(b_desc.load([sequence, chunk * CHUNK, group, 0]), (CHUNK, STATES)))
    c = wide(tl.reshape(c_desc.load([sequence, chunk * CHUNK, group, 0]), (CHUNK, STATES)))
    scores = dot(c, tl.trans(b), tl.zeros((CHUNK, CHUNK), tl.float32))
    steps = tl.arange(0, CHUNK)
    scores = tl.where(steps[:, None] >= steps[None, :], scores, 0.0).to(scores_desc.dtype)
    row = (sequence * num_chunks + chunk) * num_groups + group
    scores_desc.store([row, 0, 0], tl.reshape(scores, (1, CHUNK, CHUNK)))


@triton.jit
def _scores_kernel(b_desc, c_desc, scores_desc, CHUNK: tl.constexpr, STATES: tl.constexpr):
    store_scores(
        b_desc,
        c_desc,
        scores_desc,
        tl.program_id(0),
        tl.program_id(1),
        tl.num_programs(1),
        tl.program_id(2),
        tl.num_programs(0),
        CHUNK,
        STATES,
    )


@triton.jit
def _ssd_kernel(
    x_desc,
    delta_ptr,
    a_ptr,
    b_desc,
    c_desc,
    scores_desc,
    skip_ptr,
    start_desc,
    y_desc,
    end_desc,
    decay_ptr,
    num_tokens,
    num_heads,
    num_channels,
    num_groups,
    num_states,
    segment_tokens,
    STATE_ONLY: tl.constexpr,
    HAS_START: tl.constexpr,
    CHUNK: tl.constexpr,
    CHANNELS: tl.constexpr,
    STATES: tl.constexpr,
):
    # Neighbouring heads run together: they share b and c in the L2.
    blocks = tl.cdiv(num_channels, CHANNELS)
    head = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    segment = tl.program_id(1)
    num_segments = tl.num_programs(1)
    sequence = tl.program_id(2)
    group = head // (num_heads // num_groups)
    decay_rate = tl.load(a_ptr + head).to(tl.float32) * _LOG2_E
    state_row = (sequence * num_segments + segment) * num_heads + head
    state = tl.zeros((STATES, CHANNELS), tl.float32)
    if HAS_START:
        state += tl.reshape(start_desc.load([state_row, 0, block * CHANNELS]), (STATES, CHANNELS))
    total_decay = 0.0
    begin = segment * segment_tokens
    end = min(num_tokens, begin + segment_tokens)
    steps = tl.arange(0, CHUNK)
    for first in tl.range(begin, end, CHUNK):
        tokens = first + steps
        is_token = tokens < end
        place = sequence.to(tl.int64) * num_tokens + tokens
        delta = tl.load(delta_ptr + place * num_heads + head, mask=is_token, other=0.0).to(tl.float32)
        x = wide(tl.reshape(x_desc.load([sequence, first, head, block * CHANNELS]), (CHUNK, CHANNELS)))
        b = wide(tl.reshape(b_desc.load([sequence, first, group, 0]), (CHUNK, STATES)))
        # Beyond the end Δ is 0, so the state stays unchanged.
        sums = tl.cumsum(delta * decay_rate, axis=0)
        last = tl.sum(delta * decay_rate, axis=0)
        if not STATE_ONLY:
            c = wide(tl.reshape(c_desc.load([sequence, first, group, 0]), (CHUNK, STATES)))
            score_row = (sequence * tl.cdiv(num_tokens, CHUNK) + first // CHUNK) * num_groups + group
            scores = tl.reshape(scores_desc.load([score_row, 0, 0]), (CHUNK, CHUNK)).to(tl.float32)
            # Scores of later tokens are zero, so their decays need only be finite.
            decays = tl.exp2(tl.minimum(sums[:, None] - sums[None, :], LARGEST_EXPONENT))
            weights = scores * decays * delta[None, :]
            y = dot(c, state.to(c.dtype), tl.zeros((CHUNK, CHANNELS), tl.float32))
            y = dot(weights.to(x.dtype), x, y * tl.exp2(sums)[:, None])
            y += tl.load(skip_ptr + head).to(tl.float32) * x.to(tl.float32)
            rows = tl.reshape(y.to(y_desc.dtype), (1, CHUNK, 1, CHANNELS))
            y_desc.store([sequence, first, head, block * CHANNELS], rows)
        left = x.to(tl.float32) * (tl.exp2(last - sums) * delta)[:, None]
        state = dot(tl.trans(b), left.to(x.dtype), state * tl.exp2(last))
        total_decay += last
    end_desc.store([state_row, 0, block * CHANNELS], tl.reshape(state, (1, STATES, CHANNELS)))
    if STATE_ONLY and block == 0:
        tl.store(decay_ptr + state_row, total_decay)


@triton.jit
def _join_kernel(
    ends_ptr,
    decay_ptr,
    given_ptr,
    start_ptr,
    num_segments,
    state_size,
    num_heads,
    HAS_START: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the states with which segments start, from the end states of their parts, each from a state of zero."""
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < state_size
    state = tl.zeros((BLOCK,), tl.float32)
    if HAS_START:
        row = (sequence * num_heads + head).to(tl.int64)
        state += tl.load(given_ptr + row * state_size + places, mask=mask, other=0.0)
    row = (sequence * num_segments).to(tl.int64) * num_heads + head
    tl.store(start_ptr + row * state_size + places, state, mask=mask)
    for segment in tl.range(1, num_segments):
        first = (sequence * (num_segments - 1) + segment - 1) * PARTS
        for part in tl.static_range(PARTS):
            row = (first + part).to(tl.int64) * num_heads + head
            own = tl.load(ends_ptr + row * state_size + places, mask=mask, other=0.0)
            state = state * tl.exp2(tl.load(decay_ptr + row)) + own
        row = (sequence * num_segments + segment).to(tl.int64) * num_heads + head
        tl.store(start_ptr + row * state_size + places, state, mask=mask)


def reference(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    start: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return results and final states in fp64, token after token.

    Shapes: x [B, L, H, P], delta [B, L, H], a [H], b [B, L, G, N], c [B, L, G, N], skip [H], start [B, H, N, P]
    -> [B, L, H, P], [B, H, N, P].
    """
    batch, num_tokens, num_heads, num_channels = x.shape
    per_group = num_heads // b.shape[2]
    values = x.double()
    steps = delta.double()
    inputs, outputs = (one.double().repeat_interleave(per_group, dim=2) for one in (b, c))
    shape = (batch, num_heads, b.shape[3], num_channels)
    state = torch.zeros(shape, dtype=torch.float64, device=x.device) if start is None else start.double()
    rows = []
    for t in range(num_tokens):
        decay = torch.exp(steps[:, t] * a.double())[:, :, None, None]
        add = (steps[:, t, :, None] * inputs[:, t])[:, :, :, None] * values[:, t][:, :, None, :]
        state = decay * state + add
        rows.append(torch.einsum("bhn,bhnp->bhp", outputs[:, t], state))
    return torch.stack(rows, dim=1) + skip.double()[:, None] * values, state


def choose_config(num_states: int) -> ChunkConfig:
    """Return the configuration that takes the least time for a number of states."""
    return FEW_STATES if num_states <= 64 else MANY_STATES


def choose_segments(num_programs: int, num_tokens: int, chunk: int, slots: int) -> int:
    """Number of segments of a sequence [count]: 1 where the programs fill half of the slots, else what fills them."""
    if 2 * num_programs >= slots:
        return 1
    return max(1, min(slots // num_programs, num_tokens // (_LEAST_CHUNKS * chunk)))


def check_sizes(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    start: torch.Tensor | None,
    out: torch.Tensor | None,
) -> None:
    """Refuse operands that do not fit together.

    Raises: ValueError: dimensions or groups that do not fit, more than 256 states, sizes that are no multiples of
    8, no tokens, or operands that `check_operands` refuses.
    """
    if x.dim() != 4 or b.dim() != 4 or min(x.shape) == 0 or min(b.shape) == 0:
        raise ValueError(f"the scan takes four dimensions, not x {tuple(x.shape)} and b {tuple(b.shape)}")
    batch, num_tokens, num_heads, num_channels = x.shape
    groups, num_states = b.shape[2:]
    if num_heads % groups or num_states > 256:
        raise ValueError(f"{num_heads} heads do not share {groups} groups of {num_states} states")
    if num_channels % 8 or num_states % 8:
        raise ValueError(
            f"{num_channels} channels and {num_states} states must be multiples of 8 to fill 16 bytes"
        )
    check_operands(
        HALVES, x=x, b=(b, (batch, num_tokens, groups, num_states)), c=(c, b.shape), out=(out, x.shape)
    )
    check_operands((x.dtype,), x=x, b=b, c=c)
    check_operands(None, x=x, delta=(delta, x.shape[:3]), a=(a, (num_heads,)), skip=(skip, (num_heads,)))
    check_operands(delta=delta, a=a, skip=skip)
    check_operands(None, x=x, start=(start, (batch, num_heads, num_states, num_channels)))
    check_operands((torch.float32,), start=start)


def compute_scores(b: torch.Tensor, c: torch.Tensor, chunk: int) -> torch.Tensor:
    """Return c · bᵀ of every chunk of every group.

    Shapes: b [B, L, G, N], c [B, L, G, N] -> [B · chunks · G, chunk, chunk].
    """
    batch, num_tokens, groups, num_states = b.shape
    num_chunks = int(triton.cdiv(num_tokens, chunk))
    scores = b.new_empty((batch * num_chunks * groups, chunk, chunk))
    states = max(16, triton.next_power_of_2(num_states))
    _scores_kernel[(num_chunks, groups, batch)](
        *(TensorDescriptor.from_tensor(one, [1, chunk, 1, states]) for one in (b, c)),
        TensorDescriptor.from_tensor(scores, [1, chunk, chunk]),
        CHUNK=chunk,
        STATES=states,
        num_warps=_SCORE_WARPS,
    )
    return scores


def cut(num_tokens: int, chunk: int, segments: int) -> tuple[int, int]:
    """Return the number of segments that are not empty and of the chunks of each, which its parts share [counts]."""
    chunks = int(triton.cdiv(triton.cdiv(num_tokens, chunk * PARTS), segments)) * PARTS
    return int(triton.cdiv(num_tokens, chunks * chunk)), chunks


def find_starts(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    start: torch.Tensor | None,
    segments: int,
    segment_tokens: int,
) -> torch.Tensor:
    """Return the state with which each segment starts: a first pass over parts of segments, and one that joins them.

    Shapes: x [B, L, H, P], delta [B, L, H], a [H], b [B, L, G, N], start [B, H, N, P] -> [B, segments, H, N, P] fp32.
    """
    batch, _, num_heads, num_channels = x.shape
    num_states = b.shape[3]
    shape = (batch, (segments - 1) * PARTS, num_heads, num_states, num_channels)
    ends = torch.empty(shape, dtype=torch.float32, device=x.device)
    decay = torch.empty(shape[:3], dtype=torch.float32, device=x.device)
    # Without scores the larger chunk leaves registers for twice as many states as that of the last pass.
    config = _INTERPRETER_CONFIG if INTERPRET else choose_config(num_states // 2)
    _launch(x, delta, a, b, None, None, None, None, None, ends, decay, segment_tokens // PARTS, config)
    return join_states(ends, decay, start, segments)


def join_states(
    ends: torch.Tensor, decay: torch.Tensor, start: torch.Tensor | None, segments: int
) -> torch.Tensor:
    """Return the state with which each segment starts, from the end states and decays of the parts of all but the last.

    Shapes: ends [B, parts, H, N, P] fp32, decay [B, parts, H] fp32, exponents of 2, start [B, H, N, P]
    -> [B, segments, H, N, P] fp32.
    """
    batch, parts, num_heads, num_states, num_channels = ends.shape
    starts = ends.new_empty((batch, segments, num_heads, num_states, num_channels))
    state_size = num_states * num_channels
    _join_kernel[(triton.cdiv(state_size, 1024), num_heads, batch)](
        ends,
        decay,
        start,
        starts,
        segments,
        state_size,
        num_heads,
        HAS_START=start is not None,
        PARTS=parts // (segments - 1),
        BLOCK=1024,
    )
    return starts


def _launch(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor | None,
    scores: torch.Tensor | None,
    skip: torch.Tensor | None,
    starts: torch.Tensor | None,
    out: torch.Tensor | None,
    ends: torch.Tensor,
    decay: torch.Tensor | None,
    segment_tokens: int,
    config: ChunkConfig,
) -> None:
    """Scan every segment from its start state; without `out`, for the end states and decays alone."""
    batch, num_tokens, num_heads, num_channels = x.shape
    groups, num_states = b.shape[2:]
    states = max(16, triton.next_power_of_2(num_states))

    def describe(tensor: torch.Tensor | None, width: int) -> TensorDescriptor | None:
        return tensor if tensor is None else TensorDescriptor.from_tensor(tensor, [1, config.chunk, 1, width])

    def describe_states(tensor: torch.Tensor | None) -> TensorDescriptor | None:
        if tensor is None:
            return None
        flat = tensor.view(-1, num_states, num_channels)
        return TensorDescriptor.from_tensor(flat, [1, states, config.channels])

    chunk = config.chunk
    _ssd_kernel[(num_heads * triton.cdiv(num_channels, config.channels), ends.shape[1], batch)](
        describe(x, config.channels),
        delta,
        a,
        describe(b, states),
        describe(c, states),
        None if scores is None else TensorDescriptor.from_tensor(scores, [1, chunk, chunk]),
        skip,
        describe_states(starts),
        describe(out, config.channels),
        describe_states(ends),
        decay,
        num_tokens,
        num_heads,
        num_channels,
        groups,
        num_states,
        segment_tokens,
        STATE_ONLY=out is None,
        HAS_START=starts is not None,
        CHUNK=chunk,
        CHANNELS=config.channels,
        STATES=states,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )


def run(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    start: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    config: ChunkConfig | None = None,
    num_segments: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute results and final states, from zeros or from the states that an earlier call handed over.

    Shapes: x [B, L, H, P], b [B, L, G, N], c [B, L, G, N] bf16 or fp16, delta [B, L, H], a [H] (negative), skip [H],
    start [B, H, N, P] fp32, contiguous -> [B, L, H, P], [B, H, N, P] fp32.
    Raises: ValueError: operands that `check_sizes` refuses.
    """
    check_sizes(x, delta, a, b, c, skip, start, out)
    batch, num_tokens, num_heads, num_channels = x.shape
    num_states = b.shape[3]
    config = config or (_INTERPRETER_CONFIG if INTERPRET else choose_config(num_states))
    out = torch.empty_like(x) if out is None else out
    programs = batch * num_heads * int(triton.cdiv(num_channels, config.channels))
    slots = PROGRAMS_PER_SM * persistent_programs(x.device)
    segments = num_segments or choose_segments(programs, num_tokens, config.chunk, slots)
    segments, chunks = cut(num_tokens, config.chunk, segments)
    tokens = chunks * config.chunk
    starts = start
    if segments > 1:
        starts = find_starts(x, delta, a, b, start, segments, tokens)
    ends = x.new_empty((batch, segments, num_heads, num_states, num_channels), dtype=torch.float32)
    scores = compute_scores(b, c, config.chunk)
    _launch(x, delta, a, b, c, scores, skip, starts, out, ends, None, tokens, config)
    return out, ends[:, -1].contiguous()


def flop(
    batch: int,
    num_tokens: int,
    num_heads: int,
    num_channels: int,
    num_groups: int,
    num_states: int,
    chunk: int,
) -> int:
    """Multiplications and additions of the four products [flop].

    Per token 2 · (Q P + 2 N P) for each head, and 2 · Q N for each group.
    """
    per_head = chunk * num_channels + 2 * num_states * num_channels
    return 2 * batch * num_tokens * (num_heads * per_head + num_groups * chunk * num_states)


def bytes(
    batch: int,
    num_tokens: int,
    num_heads: int,
    num_channels: int,
    num_groups: int,
    num_states: int,
    element_bytes: int,
) -> int:
    """Least traffic at device memory [bytes]: x, Δ (fp32), b and c read once, y written once, final states in fp32."""
    per_token = (
        num_heads * (2 * num_channels * element_bytes + 4) + 2 * num_groups * num_states * element_bytes
    )
    return batch * (num_tokens * per_token + 4 * num_heads * num_states * num_channels)


def make_inputs(
    batch: int,
    num_tokens: int,
    num_heads: int,
    num_channels: int,
    num_groups: int,
    num_states: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random inputs with steps of 0.001 to 0.1 and decay rates of −1 to −16, as trained models have.

    Shapes: x [B, L, H, P], delta [B, L, H], a [H], b [B, L, G, N], c [B, L, G, N], skip [H].
    Source: Dao and Gu 2024, arXiv:2405.21060, appendix: initialisation of Δ and A.
    """
    draw = normal(seed, device)
    delta = 10.0 ** (-2.0 + 0.5 * draw(batch, num_tokens, num_heads).clamp(-2.0, 2.0))
    a = -1.0 - 15.0 * torch.sigmoid(draw(num_heads))
    bc_shape = (batch, num_tokens, num_groups, num_states)
    return (
        draw(batch, num_tokens, num_heads, num_channels).to(dtype),
        delta,
        a,
        (draw(*bc_shape) / num_states**0.25).to(dtype),
        (draw(*bc_shape) / num_states**0.25).to(dtype),
        torch.ones(num_heads, device=device),
    )
