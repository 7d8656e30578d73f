"""RWKV-7 "Goose" mixers: a generalised delta rule with a decay per channel, and gates through low ranks."""

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema.model import Rwkv7
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.graph.backward import KeptTensors, Style
from advisor.simulator.graph.operator import MixerOperators
from advisor.simulator.graph.weights import Block, Matrix
from advisor.simulator.operators.state_space import RecurrenceShape

_CHUNK_TOKENS = 64


class Operators(MixerOperators):
    """Operators of RWKV-7. Receptance, key, value and output are square; decay, learning rate, value mix and gate go
    through low ranks.

    Assumes: kernels perform as those of Kimi delta attention, whose rule is a special case; the shift of one token is a
    convolution of two, and counts for the feed-forward part too.
    Source: arXiv:2503.14456, section 4; flash-linear-attention, layers/rwkv7.py.
    """

    kind = "rwkv7"
    launches = 30
    recurrence_kernel = "kda"
    lent_kernel = True
    cached_state = True

    def __init__(self, record: Rwkv7, hidden: int) -> None:
        self.record = record
        self.hidden = hidden
        inputs = Block(hidden, divided=False)
        heads = Block(record.num_heads, record.head_dim)
        matrices = [Matrix("receptance_key_value", (heads, heads, heads), inputs)]
        ranks = {
            "decay": record.decay_rank,
            "rate": record.rate_rank,
            "value": record.value_rank,
            "gate": record.gate_rank,
        }
        for name, rank in ranks.items():
            if rank is not None:
                narrow = Block(rank, divided=False)
                matrices += [
                    Matrix(f"{name}_down", (narrow,), inputs, low_bit=False),
                    Matrix(f"{name}_up", (heads,), narrow, low_bit=False),
                ]
        super().__init__((*matrices, Matrix("attention_out", (inputs,), heads)))
        self.head_counts = (record.num_heads,)

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Tensors kept for the backward pass: six mixes of a token with the previous one, the inputs of the rule, its
        output twice, and the gate.

        Source: own count over flash-linear-attention, layers/rwkv7.py (chunk_rwkv7 keeps its six inputs).
        """
        record = self.record
        width = self.record.num_heads * self.record.head_dim
        ranks = record.decay_rank + record.rate_rank + (record.value_rank or 0) + record.gate_rank
        taken = 8 if style.compiled else 9
        return KeptTensors(
            residual=5.0 * style.input_bytes * self.hidden + BF16_BYTES * ranks,
            sharded=BF16_BYTES * taken * width,
        )

    def recurrence(self, tensor_parallel: int = 1) -> RecurrenceShape:
        """Work of the recurrence. A chunk of C tokens takes, per head of width d, four matrices of scores, a triangular
        solve and three products with values inside the chunk, and four products with the state.

        Source: own count of the chunkwise form for a transition of diagonal plus rank one.
        """
        record = self.record
        chunk = _CHUNK_TOKENS
        heads = max(1.0, record.num_heads / tensor_parallel)
        width = record.head_dim
        inside = 2.0 * chunk**2 * 7.0 * width + 2.0 * chunk**3 / 3.0
        elements = heads * width * width
        return RecurrenceShape(
            num_heads=heads,
            chunk_tokens=chunk,
            chunk_flop=inside + 8.0 * chunk * width * width,
            token_elements=7.0 * heads * width,
            state_elements=elements,
            state_bytes=elements * bytes_per_element(record.state_dtype),
            conv_channels=2.0 * self.hidden,
            conv_kernel=2,
        )
