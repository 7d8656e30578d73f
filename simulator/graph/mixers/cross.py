"""Cross-attention: a decoder's queries on keys and values of what its encoder read (Whisper, T5)."""

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema.model import CrossAttention
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.operator import Attention, FloatArray, Line, MixerOperators
from advisor.simulator.graph.weights import Block, Matrix, Projection
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention import DecodeEfficiency, attention_decode_s

_KEY_VALUE = "cross_key_value"


class Operators(MixerOperators):
    """Keys and values are projected once from what the encoder read; a token brings its query alone.

    A prompt is read by an encoder, and kept here; what a decoder writes is kept by its own attention. Where both have
    heads of one shape, every token of the context is kept and read once, which the decoder's own attention counts.
    """

    kind = "cross"
    launches = 8
    follows_encoder = True

    def __init__(self, record: CrossAttention, hidden: int) -> None:
        self.record = record
        inputs, heads = Block(hidden, divided=False), Block(record.num_heads, record.head_dim)
        super().__init__(
            (
                Matrix("query", (heads,), inputs),
                Matrix(_KEY_VALUE, (heads, heads), inputs),
                Matrix("attention_out", (inputs,), heads),
            )
        )
        self.head_counts = (record.num_heads,)
        apart = record.source_tokens is not None
        self.attention = Attention(
            num_heads=record.num_heads,
            num_kv_heads=record.num_heads,
            key_dim=record.head_dim,
            value_dim=record.head_dim,
            cached_values=2 * heads.size if apart else 0,
            cached_heads=record.num_heads,
            decode_pair_flop=4.0 * heads.size if apart else 0.0,
            kept=False,
            in_prompts=False,
            cross_tokens=record.source_tokens,
        )

    def projections(self, tensor_parallel: int, *, decode: bool) -> tuple[Projection, ...]:
        local = self.local(tensor_parallel)
        return tuple(matrix for matrix in local if (matrix.name == _KEY_VALUE) != decode)

    def decode_lines(
        self,
        deployment: Deployment,
        library: OperatorLibrary,
        batch: FloatArray,
        context_low: float,
        context_high: float,
    ) -> tuple[Line, ...]:
        """The same at every context."""
        record = self.record
        key = "fp8" if deployment.kv_dtype == "fp8" else "bf16"
        heads = record.num_heads // deployment.tensor_parallel
        one_s = attention_decode_s(
            batch, record.source_tokens or 1, heads, heads, record.head_dim, library.device,
            library.parameters(DecodeEfficiency, "attention_decode", key),
            kv_bytes_per_element=bytes_per_element(deployment.kv_dtype),
        )  # fmt: skip
        return (Line(one_s, 0.0 * batch),)

    def attends_prompts(self, deployment: Deployment, input_tokens: float) -> bool:
        return False
