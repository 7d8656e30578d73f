"""A Llama-3.1-8B-shaped model with random weights from this project's kernels and torch's products, to be timed.

Ten kernels a layer, as engines fuse them: norm, query-key-value product, rotation with the write to the paged cache,
attention (two kernels in decode), output product, norm, gate and up, SwiGLU, down.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from advisor.kernels import activations, attention, decode_attention, rms_norm

PAGE = 16
ROTARY_BASE = 500_000.0
MOST_CACHE_BYTES = 34e9
"""Layers take turns in caches of at most this much together; two of them already exceed any cache of the chip."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a dense decoder; the defaults are Llama-3.1-8B's."""

    layers: int = 32
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    ffn: int = 14336
    vocab: int = 128256

    @property
    def qkv_columns(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim


@triton.jit
def _rotate_kernel(
    qkv_ptr,
    cos_ptr,
    sin_ptr,
    position_ptr,
    slot_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    HEADS: tl.constexpr,  # noqa: N803
    KV_HEADS: tl.constexpr,  # noqa: N803
    HALF: tl.constexpr,  # noqa: N803
):
    """One head of one token: queries rotated, keys rotated into their slot, values copied into theirs."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    half = tl.arange(0, HALF)
    start = qkv_ptr + token * (HEADS + 2 * KV_HEADS) * 2 * HALF + head * 2 * HALF
    first = tl.load(start + half).to(tl.float32)
    second = tl.load(start + HALF + half).to(tl.float32)
    position = tl.load(position_ptr + token)
    cos = tl.load(cos_ptr + position * HALF + half)
    sin = tl.load(sin_ptr + position * HALF + half)
    if head < HEADS:
        out = q_ptr + (token * HEADS + head) * 2 * HALF
    else:
        slot = tl.load(slot_ptr + token)
        if head < HEADS + KV_HEADS:
            out = k_ptr + (slot * KV_HEADS + head - HEADS) * 2 * HALF
        else:
            out = v_ptr + (slot * KV_HEADS + head - HEADS - KV_HEADS) * 2 * HALF
            cos = cos * 0.0 + 1.0
            sin = sin * 0.0
    tl.store(out + half, (first * cos - second * sin).to(q_ptr.dtype.element_ty))
    tl.store(out + HALF + half, (second * cos + first * sin).to(q_ptr.dtype.element_ty))


class Llama:
    """Weights on one device and the two passes that engines run."""

    def __init__(self, device: torch.device, shape: Shape | None = None) -> None:
        self.device = device
        self.shape = shape or Shape()
        s = self.shape
        sizes = {
            "qkv": (s.qkv_columns, s.hidden),
            "out": (s.hidden, s.heads * s.head_dim),
            "gate_up": (2 * s.ffn, s.hidden),
            "down": (s.hidden, s.ffn),
        }
        self.layers = [{name: self._draw(*size) for name, size in sizes.items()} for _ in range(s.layers)]
        self.norm = torch.ones(s.hidden, device=device, dtype=torch.bfloat16)
        self.embedding, self.head = self._draw(s.vocab, s.hidden), self._draw(s.vocab, s.hidden)
        frequencies = ROTARY_BASE ** (-torch.arange(0, s.head_dim, 2, device=device) / s.head_dim)
        angles = torch.outer(torch.arange(32768, device=device), frequencies)
        self.cos = angles.cos()
        self.sin = angles.sin()

    def _draw(self, *size: int) -> torch.Tensor:
        return torch.randn(size, device=self.device, dtype=torch.bfloat16).mul_(size[-1] ** -0.5)

    def prepare_decode(self, batch: int, context: int) -> None:
        """Caches of scattered pages in which every sequence holds `context` tokens, the new one included."""
        s = self.shape
        pages = -(-context // PAGE)
        layer_bytes = 4.0 * batch * pages * PAGE * s.kv_heads * s.head_dim
        num_caches = max(2, min(s.layers, int(MOST_CACHE_BYTES / layer_bytes)))
        size = (batch * pages, PAGE, s.kv_heads, s.head_dim)
        self.caches = [(self._draw(*size), self._draw(*size)) for _ in range(num_caches)]
        order = torch.randperm(batch * pages, device=self.device)
        self.table = order.to(torch.int32).reshape(batch, pages)
        self.lengths = torch.full((batch,), context, dtype=torch.int32, device=self.device)
        self.tokens = torch.randint(s.vocab, (batch,), device=self.device)
        self.positions = (self.lengths - 1).long()
        self.slots = self.table[:, -1].long() * PAGE + (context - 1) % PAGE
        self.context = context

    def prepare_prefill(self, num_tokens: int) -> None:
        """One prompt whose keys and values go to consecutive places."""
        s = self.shape
        size = (1, num_tokens, s.kv_heads, s.head_dim)
        self.caches = [(self._draw(*size), self._draw(*size)) for _ in range(2)]
        self.tokens = torch.randint(s.vocab, (num_tokens,), device=self.device)
        self.positions = torch.arange(num_tokens, device=self.device)
        self.slots = self.positions
        self.context = num_tokens

    def decode(self) -> torch.Tensor:
        """One step: the next token of every sequence. Shapes: -> [batch]."""
        return self._run(prefill=False)

    def prefill(self) -> torch.Tensor:
        """The first token after one prompt. Shapes: -> [1]."""
        return self._run(prefill=True)

    def _run(self, *, prefill: bool) -> torch.Tensor:
        s = self.shape
        x = self.embedding[self.tokens]
        residual = torch.zeros_like(x)
        for number, layer in enumerate(self.layers):
            k, v = self.caches[number % len(self.caches)]
            x, residual = rms_norm.run(x, residual, self.norm)
            q = self._rotate(x @ layer["qkv"].T, k, v)
            if prefill:
                x = attention.run(q[None], k, v, True)[0]
            else:
                x = decode_attention.run(q, k, v, self.table, self.lengths, self.context)
            x = self.partial_product(x.reshape(-1, s.heads * s.head_dim), layer["out"])
            x, residual = rms_norm.run(x, residual, self.norm)
            x = self.partial_product(activations.run("swiglu", x @ layer["gate_up"].T), layer["down"])
        x, _ = (
            rms_norm.run(x[-1:], residual[-1:], self.norm)
            if prefill
            else rms_norm.run(x, residual, self.norm)
        )
        return torch.argmax(x @ self.head.T, dim=1)

    def partial_product(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The products whose columns tensor parallelism divides; there the ranks' results are summed."""
        return x @ weight.T

    def _rotate(self, qkv: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        s = self.shape
        q = qkv.new_empty((qkv.shape[0], s.heads, s.head_dim))
        _rotate_kernel[(qkv.shape[0], s.heads + 2 * s.kv_heads)](
            qkv,
            self.cos,
            self.sin,
            self.positions,
            self.slots,
            q,
            k,
            v,
            HEADS=s.heads,
            KV_HEADS=s.kv_heads,
            HALF=s.head_dim // 2,
            num_warps=1,
        )
        return q
