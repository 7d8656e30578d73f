"""Mamba mixers (Nemotron-H, Granite 4, Zamba; Jamba and Falcon-Mamba with the projections of Mamba-1): a state-space
model with a constant state."""

from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import Mamba2
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.graph.backward import KeptTensors, Style
from advisor.simulator.graph.operator import MixerOperators
from advisor.simulator.graph.weights import Block, Matrix
from advisor.simulator.operators.state_space import RecurrenceShape

CHUNK_TOKENS: Final = 128


class Operators(MixerOperators):
    """Operators of Mamba-2: one fused input projection, a short convolution, the scan, and a gated norm before the
    output."""

    kind = "mamba2"
    launches = 20
    recurrence_kernel = "mamba2"
    cached_state = True

    def __init__(self, record: Mamba2, hidden: int) -> None:
        self.record = record
        self.hidden = hidden
        inputs = Block(hidden, divided=False)
        inner = Block(record.num_heads, record.head_dim)
        groups = Block(record.num_groups, 2 * record.state_dim)
        rank = record.time_step_rank
        if rank is None:
            projections: tuple[Matrix, ...] = (
                Matrix("mamba_in", (inner, inner, groups, Block(record.num_heads)), inputs),
            )
        else:  # Mamba-1: input and output gates and time steps are projected from the inner values
            steps = Block(rank + 2 * record.state_dim, divided=False)
            projections = (
                Matrix("mamba_in", (inner, inner), inputs),
                Matrix("mamba_steps", (steps,), inner),
                Matrix("mamba_time", (inner,), Block(rank, divided=False)),
                Matrix("mamba_decay", (inner,), Block(record.state_dim, divided=False), low_bit=False),
            )
            groups = Block(0, divided=False)
        super().__init__(
            (*projections, Matrix("mamba_out", (inputs,), inner)),
            (
                Matrix(
                    "convolution", (inner, groups), Block(record.conv_kernel, divided=False), low_bit=False
                ),
            ),
        )
        self.head_counts = (record.num_heads,)

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Tensors kept for the backward pass: the input projection, from which the fused scan recomputes, and the
        output before and after its norm."""
        record = self.record
        inner = record.num_heads * record.head_dim
        projected = 2 * inner + 2 * record.num_groups * record.state_dim + record.num_heads
        return KeptTensors(sharded=BF16_BYTES * (projected + inner + (0 if style.compiled else inner)))

    def recurrence(self, tensor_parallel: int = 1) -> RecurrenceShape:
        return mamba2_shape(self.record, tensor_parallel)


def mamba2_shape(mixer: Mamba2, tensor_parallel: int = 1) -> RecurrenceShape:
    """Work of a Mamba-2 mixer on one of `tensor_parallel` accelerators.

    Per chunk of C tokens and head of width p with state n: 2 C² (n groups / heads + p) flop inside the chunk and
    4 C n p against the state.

    Assumes: groups split with heads, and are repeated where there are fewer than ranks.
    Source: Mamba-2, arXiv:2405.21060, section 6 (state-space duality algorithm).
    """
    heads = max(1.0, mixer.num_heads / tensor_parallel)
    groups = max(1.0, mixer.num_groups / tensor_parallel)
    width = mixer.head_dim
    state = mixer.state_dim
    chunk = CHUNK_TOKENS
    inside = 2.0 * chunk**2 * (state * groups / heads + width)
    return RecurrenceShape(
        num_heads=heads,
        chunk_tokens=chunk,
        chunk_flop=inside + 4.0 * chunk * state * width,
        token_elements=2.0 * heads * width + 2.0 * groups * state,
        state_elements=heads * width * state,
        state_bytes=heads * width * state * bytes_per_element(mixer.state_dtype),
        conv_channels=heads * width + 2.0 * groups * state,
        conv_kernel=mixer.conv_kernel,
    )
