"""Gated linear attention and retention (RetNet): a state that decays, without a delta rule."""

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema.model import GatedLinearAttention
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.graph.backward import KeptTensors, Style
from advisor.simulator.graph.operator import MixerOperators
from advisor.simulator.graph.weights import Block, Matrix
from advisor.simulator.operators.state_space import RecurrenceShape

_CHUNK_TOKENS = 64


class Operators(MixerOperators):
    """Operators of gated linear attention. Queries, keys, values and an output gate are one matrix; the decay per
    channel goes through a low rank.

    Assumes: kernels perform as those of Mamba-2, whose chunks have the same products.
    Source: arXiv:2312.06635, section 4; arXiv:2307.08621, section 2; flash-linear-attention, layers/gla.py.
    """

    kind = "gla"
    launches = 16
    recurrence_kernel = "mamba2"
    lent_kernel = True
    cached_state = True

    def __init__(self, record: GatedLinearAttention, hidden: int) -> None:
        self.record = record
        self.hidden = hidden
        inputs = Block(hidden, divided=False)
        queries, values = (
            Block(record.num_heads, width) for width in (record.key_head_dim, record.value_head_dim)
        )
        keys = Block(record.num_kv_heads, record.key_head_dim)
        kept = Block(record.num_kv_heads, record.value_head_dim)
        fused = (queries, keys, kept, values) if record.output_gate else (queries, keys, kept)
        matrices = [Matrix("linear_attention_in", fused, inputs)]
        if record.decay_rank:
            narrow = Block(record.decay_rank, divided=False)
            matrices += [Matrix("decay_down", (narrow,), inputs), Matrix("decay_up", (keys,), narrow)]
        matrices.append(Matrix("linear_attention_out", (inputs,), values))
        convolutions: tuple[Matrix, ...] = ()
        if record.conv_kernel:
            kernel = Block(record.conv_kernel, divided=False)
            convolutions = (Matrix("convolution", (queries, keys, kept), kernel, low_bit=False),)
        super().__init__(tuple(matrices), convolutions)
        self.head_counts = (record.num_heads,)
        self.repeated_heads = record.num_kv_heads

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Tensors kept for the backward pass: queries, keys, values, gate and decay, and the output before and after
        its norm.

        Source: own count over flash-linear-attention, layers/gla.py.
        """
        record = self.record
        keys = record.num_kv_heads * record.key_head_dim
        values = record.num_kv_heads * record.value_head_dim
        outputs = record.num_heads * record.value_head_dim
        projected = record.num_heads * record.key_head_dim + keys * (2 if record.decay_rank else 1) + values
        passes = (1 if style.compiled else 2) + record.output_gate
        return KeptTensors(
            residual=BF16_BYTES * (record.decay_rank or 0),
            sharded=BF16_BYTES * (projected + passes * outputs),
        )

    def recurrence(self, tensor_parallel: int = 1) -> RecurrenceShape:
        """Work of the recurrence. A chunk of C tokens takes, per head, 2 C² (k + v) flop for scores and outputs inside,
        and 4 C k v against the state.

        Source: arXiv:2312.06635, section 3.2 (chunkwise form).
        """
        record = self.record
        chunk = _CHUNK_TOKENS
        heads, shared = (
            max(1.0, count / tensor_parallel) for count in (record.num_heads, record.num_kv_heads)
        )
        key = record.key_head_dim
        value = record.value_head_dim
        channels = heads * key + shared * (key + value)
        return RecurrenceShape(
            num_heads=heads,
            chunk_tokens=chunk,
            chunk_flop=2.0 * chunk**2 * (key + value) + 4.0 * chunk * key * value,
            token_elements=channels + heads * value,
            state_elements=heads * key * value,
            state_bytes=heads * key * value * bytes_per_element(record.state_dtype),
            conv_channels=channels if record.conv_kernel else 0.0,
            conv_kernel=record.conv_kernel or 1,
        )
