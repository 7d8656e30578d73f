"""Memory of a training step: the memory of each accelerator of each pipeline stage, at the instant when it is
highest."""

from advisor.simulator.training.memory.peak import (
    MemoryColumns,
    MemoryVerdict,
    PeakStageMemory,
    fits,
    memory_verdict,
    peak_factors,
    peak_memory,
    stage_memory,
)

__all__ = [
    "MemoryColumns",
    "MemoryVerdict",
    "PeakStageMemory",
    "fits",
    "memory_verdict",
    "peak_factors",
    "peak_memory",
    "stage_memory",
]
