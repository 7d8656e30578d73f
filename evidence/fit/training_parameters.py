"""Fitted parameters of training frameworks, with their priors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.catalog.terms import UNITS, Term, Terms, all_terms, by_name
from advisor.evidence.fit.base import merge_terms


@dataclass(frozen=True)
class TrainingParameter:
    """One number to fit: the cases to which it applies, and its prior."""

    selector: Mapping[str, Any]
    name: str
    prior: float
    sigma: float
    """Standard deviation of the prior, on the logarithm, or on the number itself if it is a fraction."""
    low: float
    high: float

    @property
    def is_share(self) -> bool:
        return self.name.endswith("overlap")

    def encode(self, value: float) -> float:
        return value if self.is_share else float(np.log(value))

    def decode(self, code: float) -> float:
        value = code if self.is_share else float(np.exp(code))
        return float(np.clip(value, self.low, self.high))


FSDP = {"name": ("fsdp",)}
MEGATRON = {"name": ("megatron",)}
MODERN = {**MEGATRON, "operator": ("fused_attention",)}
LEGACY = {**MEGATRON, "operator": ("unfused_attention",)}
BLACKWELL_HEAT = 1.28
"""Ratio, the median over 30 matmuls (two dense models, forward and both gradients), of the time on a B200 that ran
them in Transformer Engine's layouts over the time of isolated kernels of serving: MooreThreads/SimuMax,
configs/system/b200_bf16_ceperm.json. The machine is that of the runs of simumax-b200."""
NCCL_LATENCY_S = 3e-5
"""Time of a gather of nothing in NCCL on eight accelerators [s]: 23 µs and 1 to 9 µs a rank on the B200s of
MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json (all_gather, fixed_latency_us)."""
PARAMETERS = (
    TrainingParameter({}, "kernel_scale", 1.1, 0.1, 0.9, 1.5),
    TrainingParameter({"architecture": ("ampere*",)}, "kernel_scale", 1.05, 0.08, 0.9, 1.4),
    TrainingParameter({"architecture": ("tpu*",)}, "kernel_scale", 1.1, 0.1, 0.9, 1.5),
    TrainingParameter({"architecture": ("blackwell*",)}, "kernel_scale", BLACKWELL_HEAT, 0.08, 0.9, 1.5),
    TrainingParameter({}, "low_bit_scale", 1.0, 0.1, 0.8, 1.5),
    TrainingParameter(
        {"architecture": ("blackwell*",), "until": "2025-08"}, "low_bit_scale", 1.15, 0.08, 0.8, 1.5
    ),
    TrainingParameter({}, "attention_scale", 1.0, 0.2, 0.5, 2.0),
    TrainingParameter({}, "elementwise_passes", 1.3, 0.3, 0.7, 2.0),
    TrainingParameter({}, "eager_passes", 1.8, 0.25, 1.0, 5.0),
    TrainingParameter({}, "interference", 0.15, 0.5, 0.03, 0.6),
    TrainingParameter(FSDP, "interference", 0.25, 0.4, 0.03, 0.8),
    TrainingParameter({}, "recurrence_scale", 1.3, 0.3, 0.7, 3.0),
    TrainingParameter({}, "launch_s", 6e-6, 0.1, 2e-6, 2e-5),
    TrainingParameter({}, "communication_scale", 1.1, 0.12, 1.0, 1.6),
    TrainingParameter({}, "collective_wait_s", NCCL_LATENCY_S, 0.5, 1e-6, 2e-4),
    TrainingParameter(MEGATRON, "pipeline_sync_s", 3e-4, 0.7, 2e-5, 5e-3),
    TrainingParameter(MODERN, "tensor_overlap", 0.5, 0.2, 0.0, 0.9),
    TrainingParameter(MODERN, "low_bit_expert_kernels", 32.0, 0.2, 1.0, 100.0),
    TrainingParameter(MODERN, "block_scaled_kernels", 1.8, 0.4, 1.0, 5.0),
    TrainingParameter({}, "fused_expert_scale", 0.9, 0.1, 0.6, 1.2),
    TrainingParameter(LEGACY, "tensor_kernels", 20.0, 0.7, 1.0, 200.0),
    TrainingParameter(FSDP, "elementwise_passes", 1.8, 0.3, 0.7, 5.0),
    TrainingParameter({**FSDP, "until": "2024-07"}, "attention_scale", 1.4, 0.3, 0.7, 3.0),
)
SOURCE = "evidence/fit/training.py"


def shipped_values() -> list[float]:
    """Return the shipped value of each parameter, from which a fit starts; its prior if none is shipped."""
    known = {_key(term): term.value for term in all_terms()}
    wanted = rows_of([parameter.prior for parameter in PARAMETERS])
    return [known.get(_key(term), term.value) for term in wanted]


def _key(term: Term) -> tuple[tuple[str, str], ...]:
    left_out = {"value", "source", "fitted_on", "residual", "kind"}
    return tuple(sorted((k, str(v)) for k, v in term.model_dump().items() if k not in left_out))


def rows_of(values: Iterable[float], fitted_on: str = SOURCE, residual: str = SOURCE) -> list[Term]:
    """Return rows of the table of terms with these values."""
    return [
        Term(
            scope="framework",
            term=parameter.name,
            value=value,
            unit=UNITS["framework"][parameter.name],
            kind="fitted on runs",
            source=SOURCE,
            fitted_on=fitted_on,
            residual=residual,
            **parameter.selector,
        )
        for parameter, value in zip(PARAMETERS, values, strict=True)
    ]


def terms_of(values: Iterable[float]) -> Terms:
    """Return the table of terms with these values in place of the shipped ones. Documented behaviour of a framework
    stays as it is shipped."""
    return by_name(merge_terms(all_terms(), rows_of(values)))
