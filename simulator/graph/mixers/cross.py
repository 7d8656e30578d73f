"""Cross-attention: a decoder's queries on keys and values of its encoder's output (Whisper, T5)."""

from dataclasses import replace

from advisor.catalog.dtypes import cached_value_bytes
from advisor.catalog.schema import GroupedQueryAttention
from advisor.catalog.schema.model import CrossAttention
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.mixers import gqa
from advisor.simulator.graph.operator import AttentionLine, Decoding, FloatArray
from advisor.simulator.graph.weights import Block, Matrix, Projection
from advisor.simulator.operators.attention import attention_decode_s
from advisor.simulator.operators.attention_kernels import DecodeEfficiency

_KEY_VALUE = "cross_key_value"


class Operators(gqa.Operators):
    """Operators of cross-attention. Keys and values are projected once from the encoder's output; a token brings its
    query alone.

    An encoder reads the prompt, whose keys and values this layer keeps; the decoder's own attention keeps those of the
    text that it writes. Where both have heads of one shape, every token of the context is kept and read once, which the
    decoder's own attention counts.

    Assumes: in training, a decoder reads as many tokens as it writes.
    """

    kind = "cross"
    follows_encoder = True

    def __init__(self, record: CrossAttention, hidden: int) -> None:
        heads = record.num_heads
        super().__init__(
            GroupedQueryAttention(num_heads=heads, num_kv_heads=heads, head_dim=record.head_dim), hidden
        )
        inputs = Block(hidden, divided=False)
        width = Block(heads, record.head_dim)
        self.matrices = (
            Matrix("query", (width,), inputs),
            Matrix(_KEY_VALUE, (width, width), inputs),
            Matrix("attention_out", (inputs,), width),
        )
        self.source_tokens = record.source_tokens
        apart = record.source_tokens is not None
        self.attention = replace(
            self.attention,
            cached_values=2 * width.size if apart else 0,
            decode_pair_flop=4.0 * width.size if apart else 0.0,
            kept=False,
            in_prompts=False,
            cross_tokens=record.source_tokens,
        )

    def projections(self, tensor_parallel: int, *, decode: bool) -> tuple[Projection, ...]:
        local = self.local(tensor_parallel)
        return tuple(matrix for matrix in local if (matrix.name == _KEY_VALUE) != decode)

    def decode_lines(
        self, at: Decoding, batch: FloatArray, low: float, high: float
    ) -> tuple[AttentionLine, ...]:
        """Return decode attention as lines without slope: its time is equal at every context."""
        key = "fp8" if at.deployment.kv_dtype == "fp8" else "bf16"
        heads, kv_heads, dim = self._shape(at.deployment)
        one_s = attention_decode_s(
            batch,
            self.source_tokens or 1,
            heads,
            kv_heads,
            dim,
            at.library.device,
            at.library.parameters(DecodeEfficiency, "attention_decode", key),
            kv_bytes_per_element=cached_value_bytes(at.deployment.kv_dtype),
        )
        return (AttentionLine(one_s, 0.0 * batch),)

    def attends_prompts(self, deployment: Deployment, input_tokens: float) -> bool:
        return False
