"""What is fitted of training frameworks: parameters with their priors, and what their documentation fixes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Parameter:
    """One number to fit: where it applies, what is believed before."""

    selector: Mapping[str, Any]
    name: str
    prior: float
    sigma: float
    """Of the logarithm, or of the number itself where it is a share."""
    low: float
    high: float

    @property
    def is_share(self) -> bool:
        return self.name.endswith("overlap")

    def encoded(self, value: float) -> float:
        return value if self.is_share else float(np.log(value))

    def decoded(self, code: float) -> float:
        value = code if self.is_share else float(np.exp(code))
        return float(np.clip(value, self.low, self.high))


MEGATRON = {"family": "megatron"}
MODERN = {"family": "megatron", "legacy": False}
LEGACY = {"family": "megatron", "legacy": True}
PARAMETERS = (
    Parameter({}, "kernel_scale", 1.1, 0.1, 0.9, 1.5),
    Parameter({"architecture": "ampere"}, "kernel_scale", 1.05, 0.08, 0.9, 1.4),
    Parameter({"architecture": "tpu"}, "kernel_scale", 1.1, 0.1, 0.9, 1.5),
    Parameter({}, "low_bit_scale", 1.0, 0.1, 0.8, 1.5),
    Parameter({}, "attention_scale", 1.0, 0.2, 0.5, 2.0),
    Parameter({"architecture": "hopper"}, "attention_backward", 2.7, 0.1, 2.0, 3.5),
    Parameter({}, "elementwise_passes", 1.3, 0.3, 0.7, 5.0),
    Parameter({}, "eager_passes", 1.8, 0.25, 1.0, 5.0),
    Parameter({"family": "peft"}, "eager_passes", 2.3, 0.25, 1.0, 5.0),
    Parameter({}, "interference", 0.15, 0.5, 0.03, 0.6),
    Parameter({"family": "fsdp"}, "interference", 0.25, 0.4, 0.03, 0.8),
    Parameter({}, "recurrence_scale", 1.3, 0.3, 0.7, 3.0),
    Parameter({}, "expert_scale", 1.3, 0.2, 0.5, 3.0),
    Parameter({}, "launch_s", 6e-6, 0.4, 2e-6, 2e-5),
    Parameter({}, "communication_scale", 1.1, 0.12, 0.8, 1.6),
    Parameter(MEGATRON, "pipeline_sync_s", 3e-4, 0.7, 2e-5, 5e-3),
    Parameter(MODERN, "tensor_overlap", 0.5, 0.3, 0.0, 0.9),
    Parameter(MODERN, "expert_overlap", 0.2, 0.3, 0.0, 0.9),
    Parameter(MODERN, "expert_kernels", 80.0, 0.5, 10.0, 400.0),
    Parameter(MODERN, "local_expert_kernels", 12.0, 0.4, 1.0, 100.0),
    Parameter(MODERN, "block_scaled_kernels", 1.8, 0.4, 1.0, 5.0),
    Parameter({**MODERN, "since": "2026-05"}, "expert_scale", 1.0, 0.2, 0.5, 3.0),
    Parameter({**MODERN, "since": "2026-05"}, "local_expert_kernels", 4.0, 0.7, 1.0, 100.0),
    Parameter(LEGACY, "elementwise_passes", 1.5, 0.4, 0.7, 5.0),
    Parameter(LEGACY, "kernels_per_layer", 80.0, 0.7, 10.0, 300.0),
    Parameter(LEGACY, "tensor_kernels", 20.0, 0.7, 1.0, 200.0),
    Parameter(LEGACY, "optimizer_passes", 1.5, 0.3, 0.7, 5.0),
    Parameter({"family": "fsdp"}, "elementwise_passes", 1.8, 0.3, 0.7, 5.0),
    Parameter({"family": "fsdp", "before": "2024-07"}, "attention_scale", 1.4, 0.3, 0.7, 3.0),
)
PLAIN_TORCH = {
    "main_gradient_bytes": 0.0,
    "partial_recompute": 1.0,
    "shard_copies": 1.0,
    "table_exposed": 1.0,
}
"""Gradients leave the multiplication in 16 bits; checkpoints that are not reentrant stop early (torch 2.1); FSDP2
copies what it gathers and scatters (torch/distributed/fsdp/_fully_shard); the input table's gradient comes last."""
UNTIL_CUDNN = {"architecture": "hopper", "before": "2026-03", "parameters": {"attention_scale": 1.4}}
FIXED: tuple[Mapping[str, Any], ...] = (
    {"family": "fsdp", "parameters": {"gradient_bytes": 2.0}},
    *({"family": family, "parameters": PLAIN_TORCH} for family in ("fsdp", "torchtitan")),
    {"family": "torchtitan", "parameters": {"interference": 0.3}},
    {"family": "fsdp", "before": "2024-09", "parameters": {"shard_copies": 0.0}},
    *({"family": family, **UNTIL_CUDNN} for family in ("fsdp", "torchtitan", "peft", "deepspeed")),
    {"family": "deepspeed", "parameters": {"gradient_bytes": 2.0, "gather_overlap": 0.0}},
    {"family": "peft", "parameters": {"gradient_bytes": 2.0}},
    {"family": "maxtext", "parameters": {"graphs": 1.0}},
    {
        "family": "megatron",
        "legacy": True,
        "parameters": {"gradient_bytes": 2.0, "data_overlap": 0.0, "interference": 0.0},
    },
)
"""What a framework does by default, from its documentation: formats of gradients, what overlaps at all; PyTorch's own
attention was FlashAttention-2, two thirds of what newer kernels reach on Hopper (arXiv:2407.08608), until torch 2.11
came with a cuDNN that it prefers there (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)."""


def records_of(values: Iterable[float]) -> list[dict[str, Any]]:
    """Records as the catalog stores them, general ones first so that special ones override them."""
    found: dict[str, dict[str, Any]] = {}
    fixed = [dict(record) for record in FIXED]
    for parameter, value in zip(PARAMETERS, values, strict=True):
        key = str(sorted(parameter.selector.items()))
        record = found.setdefault(key, {**parameter.selector, "parameters": {}})
        record["parameters"][parameter.name] = value
    ordered = sorted(found.values(), key=len)
    return [record for record in ordered if len(record) == 1] + fixed + [r for r in ordered if len(r) > 1]
