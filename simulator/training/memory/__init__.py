"""Memory of a training step: what each accelerator of each pipeline stage holds, at the instant when it holds most."""

from advisor.simulator.training.memory.peak import (
    MemoryColumns,
    MemoryVerdict,
    StageMemory,
    fits,
    memory_verdict,
    peak_memory,
    stage_memory,
)

__all__ = [
    "MemoryColumns",
    "MemoryVerdict",
    "StageMemory",
    "fits",
    "memory_verdict",
    "peak_memory",
    "stage_memory",
]
