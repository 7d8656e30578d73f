"""Gated delta nets (Qwen3-Next, Qwen3.5) and Kimi delta attention: linear attention with a constant state."""

from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import GatedDeltaNet
from advisor.catalog.units import BF16_BYTES, FP32_BYTES
from advisor.simulator.graph.backward import KeptTensors, Style
from advisor.simulator.graph.operator import MixerOperators
from advisor.simulator.graph.weights import Block, Matrix
from advisor.simulator.operators.state_space import RecurrenceShape

CHUNK_TOKENS: Final = 64


class Operators(MixerOperators):
    """Operators of gated delta nets: one fused input projection, a short convolution, the delta rule, and a gated norm
    before the output."""

    kind = "gdn"
    launches = 26

    def __init__(self, record: GatedDeltaNet, hidden: int) -> None:
        self.record = record
        self.hidden = hidden
        inputs = Block(hidden, divided=False)
        values = Block(record.num_value_heads, record.value_head_dim)
        keys = Block(record.num_key_heads, 2 * record.key_head_dim)
        fused = [keys, values, Block(record.num_value_heads)]
        beside: list[Matrix] = []
        channels = record.key_head_dim if record.channel_gate_rank else 1
        for name, rank, block in (
            ("output_gate", record.output_gate_rank, values),
            ("decay", record.channel_gate_rank, Block(record.num_value_heads, channels)),
        ):
            if rank is None:
                fused.append(block)
            else:
                narrow = Block(rank, divided=False)
                beside += [Matrix(f"{name}_down", (narrow,), inputs), Matrix(f"{name}_up", (block,), narrow)]
        super().__init__(
            (
                Matrix("linear_attention_in", tuple(fused), inputs),
                *beside,
                Matrix("linear_attention_out", (inputs,), values),
            ),
            (Matrix("convolution", (keys, values), Block(record.conv_kernel, divided=False), low_bit=False),),
        )
        self.head_counts = (record.num_value_heads, record.num_key_heads)
        self.recurrence_kernel = "kda" if record.channel_gate_rank else "gdn"
        self.cached_state = record.channel_gate_rank is None

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Tensors kept for the backward pass: projections before and after the convolution, the output before and after
        its gated norm, chunk matrices."""
        record = self.record
        values = record.num_value_heads * record.value_head_dim
        channels = 2 * record.num_key_heads * record.key_head_dim + values
        outputs = values * (1 if style.compiled else 2)
        chunk = record.num_value_heads * (CHUNK_TOKENS + FP32_BYTES)
        return KeptTensors(sharded=BF16_BYTES * (2 * channels + values + outputs + chunk))

    def recurrence(self, tensor_parallel: int = 1) -> RecurrenceShape:
        return delta_net_shape(self.record, tensor_parallel)


def delta_net_shape(mixer: GatedDeltaNet, tensor_parallel: int = 1) -> RecurrenceShape:
    """Work of a gated delta net (or Kimi delta attention) on one of `tensor_parallel` accelerators.

    Per chunk of C tokens and value head: 2 C² (3 k + 2 v) + 2 C³ / 3 flop inside the chunk (scores, the triangular
    solve, outputs) and 6 C k v against the state.

    Assumes: key heads split with value heads, and are repeated where there are fewer than ranks.
    Source: Gated DeltaNet, arXiv:2412.06464, section 3.3 (chunkwise form).
    """
    key_heads = max(1.0, mixer.num_key_heads / tensor_parallel)
    value_heads = max(1.0, mixer.num_value_heads / tensor_parallel)
    key = mixer.key_head_dim
    value = mixer.value_head_dim
    chunk = CHUNK_TOKENS
    inside = 2.0 * chunk**2 * (3.0 * key + 2.0 * value) + 2.0 * chunk**3 / 3.0
    return RecurrenceShape(
        num_heads=value_heads,
        chunk_tokens=chunk,
        chunk_flop=inside + 6.0 * chunk * key * value,
        token_elements=2.0 * key_heads * key + 2.0 * value_heads * value,
        state_elements=value_heads * key * value,
        state_bytes=value_heads * key * value * bytes_per_element(mixer.state_dtype),
        conv_channels=2.0 * key_heads * key + value_heads * value,
        conv_kernel=mixer.conv_kernel,
    )
