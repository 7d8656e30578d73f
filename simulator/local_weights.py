"""The weights that an engine for one user's machine reads in a step, as GGUF files keep them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.parameters import parameter_count
from advisor.catalog.schema import Model, MoeFeedForward
from advisor.simulator.projections import expert_elements

FloatArray = NDArray[np.float64]

_MIXED_FORMATS: Final = {"mxfp4": "q8_0", "q4_k_xl": "q8_0", "q5_k_xl": "q8_0"}
"""Format of what is not a routed expert, where published GGUF files keep more bits for it (ggml-org's gpt-oss files;
Unsloth's dynamic ones)."""


@dataclass(frozen=True, slots=True)
class RoutedExperts:
    """Routed experts of equal layers."""

    num_layers: int
    num_experts: int
    per_token: int
    elements: int
    """Of one expert."""

    def active_elements(self, num_tokens: FloatArray) -> FloatArray:
        """Weights of experts that at least one of the tokens chose, all layers together."""
        idle = (1.0 - self.per_token / self.num_experts) ** num_tokens
        return np.asarray(self.num_layers * self.num_experts * (1.0 - idle) * self.elements)


@dataclass(frozen=True, slots=True)
class LocalWeights:
    """What the whole model multiplies with."""

    dense_elements: float
    dense_bytes_per_element: float
    experts: tuple[RoutedExperts, ...]
    expert_bytes_per_element: float

    @property
    def expert_flop_per_token(self) -> float:
        """Multiplications and additions with the experts that one token chose."""
        return sum(2.0 * e.num_layers * e.per_token * e.elements for e in self.experts)

    def read(self, num_tokens: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bytes and elements that a step over so many tokens reads."""
        active = sum((e.active_elements(num_tokens) for e in self.experts), np.zeros_like(num_tokens))
        num_bytes = (
            self.dense_elements * self.dense_bytes_per_element + active * self.expert_bytes_per_element
        )
        return num_bytes, self.dense_elements + active


def local_weights(model: Model, weight_dtype: str) -> LocalWeights:
    """What one step multiplies with, in a weight format.

    Assumes: tokens choose experts independently and evenly; the input table is looked up, not multiplied with.
    Raises: KeyError: the format is not known.
    Source: shapes of the model's record; formats as GGUF files of that name hold them.
    """
    experts = tuple(
        RoutedExperts(
            group.count,
            group.feed_forward.num_experts,
            group.feed_forward.experts_per_token,
            expert_elements(group.feed_forward, model.hidden_size),
        )
        for group in model.layers
        if isinstance(group.feed_forward, MoeFeedForward)
    )
    routed = sum(e.num_layers * e.per_token * e.elements for e in experts)
    elsewhere = _MIXED_FORMATS.get(weight_dtype, weight_dtype) if experts else weight_dtype
    return LocalWeights(
        parameter_count(model).active - routed,
        bytes_per_element(elsewhere),
        experts,
        bytes_per_element(weight_dtype),
    )
