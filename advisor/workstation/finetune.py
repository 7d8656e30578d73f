"""QLoRA on a few cards: whether it fits, its speed, and the largest model that would fit."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from advisor.catalog import models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Model
from advisor.catalog.training import loads_divided, tuners
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.quantity import Quantity
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.peak import is_too_large_to_load, peak_factors, peak_memory
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.step import step_class, step_quantity, step_time
from advisor.simulator.training.step_host import host_bytes
from advisor.workstation.hardware import Hardware, HardwareRun

RANK: Final = 16
SEQUENCES: Final = 8
"""Number of sequences of one optimizer step."""
UNTESTED: Final = (0.6, 1.7)
"""Interval of the step time over its prediction if no run was published."""
VENDORS: Final = ("nvidia", "amd", "intel")
"""Vendors whose accelerators run the 4-bit kernels of bitsandbytes (its installation guide, 0.50)."""
SEVERAL_CARDS_VENDORS: Final = ("nvidia",)
"""Vendors on whose cards a source states QLoRA with several cards: the guides of FSDP-QLoRA (bitsandbytes, PEFT) name
CUDA only. Of others several cards are not planned."""
SOFTWARE_DOUBTS: Final = {
    "amd": "bitsandbytes runs 4-bit kernels on ROCm, but guides and recipes of QLoRA are written for CUDA: try yours "
    "on a rented card before you buy",
    "intel": "bitsandbytes runs 4-bit kernels on XPU, but guides and recipes of QLoRA are written for CUDA: try "
    "yours before you buy",
}
"""Words on the software of fine-tuning by vendor; a vendor that is not here has none. Source: the guides named
above."""
ENGINE: Final = "peft"
"""Name of the engine that a run of fine-tuning has."""
SIZES: Final = ("llama-3.1-8b", "qwen3-14b", "gemma-3-27b", "qwen3-32b", "llama-3.1-70b", "llama-3.1-405b")
"""Dense models in order of size, of which the largest that fits is reported."""


def tuning_job(model: Model, sequence_tokens: int) -> TrainingJob:
    """Return the usual QLoRA job on a workstation: rank-16 adapters on every linear layer, batches of eight sequences.

    Source: Dettmers et al. 2023, arXiv:2305.14314; defaults of PEFT recipes.
    """
    return TrainingJob(model, sequence_tokens, SEQUENCES, framework="peft", method="qlora", lora_rank=RANK)


def tuning_plans(num: int) -> tuple[tuple[str, TrainingPlan], ...]:
    """Return the training plans for `num` cards, each with its name."""
    if num == 1:
        return (("one card", TrainingPlan(recompute="full")),)
    return (
        ("a copy on each card", TrainingPlan(data_parallel=num, recompute="full")),
        ("sharded (FSDP)", TrainingPlan(data_parallel=num, sharding="zero3", recompute="full")),
        (
            "sharded, weights in main memory (FSDP)",
            TrainingPlan(data_parallel=num, sharding="zero3", recompute="full", offload_parameters=True),
        ),
    )


def best_tuning(hardware: Hardware, model: Model, sequence_tokens: int) -> HardwareRun | None:
    """Return the fastest plan of QLoRA that fits, with trained tokens per second as its speed; None if none fits. A
    plan fits if the upper end of its predicted peak does: a machine is not bought for one that may run out of memory.
    """
    accelerator = hardware.record()
    if accelerator.vendor not in (VENDORS if hardware.num == 1 else SEVERAL_CARDS_VENDORS):
        return None
    job = tuning_job(model, sequence_tokens)
    named = tuning_plans(hardware.num)
    lattice = PlanLattice.of(plan for _, plan in named)
    memory = accelerator.memory_bytes or 0.0
    try:
        peaks = peak_memory(job, lattice)
        cluster = TrainingCluster(accelerator, ranks_per_node=hardware.num)
        steps = step_time(job, lattice, cluster).step_s
    except (AdvisorError, ValueError, KeyError):
        return None  # a figure of the record, or of its links, is missing
    held = host_bytes(job, lattice) * hardware.num <= hardware.host_capacity_bytes
    able = (peaks.peak_bytes * peak_factors(job)[1] <= memory) & held
    usable = [row for row, fit in enumerate(able) if fit]
    if not usable:
        return None
    program = _program(job, memory)
    if not program:
        return None
    row = min(usable, key=lambda r: float(steps[r]))
    seconds = _interval(float(steps[row]), step_class(job, cluster, hardware.num))
    tokens = job.tokens_per_step
    speed = type(seconds)(tokens / seconds.value, tokens / seconds.high, tokens / seconds.low, seconds.basis)
    return HardwareRun(
        engine=program,
        split=named[row][0],
        weight_dtype="nf4",
        output_tokens_per_s=speed,
        ttft_s=None,
        weight_bytes_per_card=float(peaks.peak_bytes[row]),
        kv_tokens=0,
    )


def _program(job: TrainingJob, memory_bytes: float) -> str:
    """Return the framework that loads the job's model: PEFT's trainers where one card holds its 4-bit weights, else one
    that divides them as it reads them; empty if there is none.

    Source: catalog/data/training/tuners.toml.
    """
    if not is_too_large_to_load(job, memory_bytes):
        return job.framework
    able = (name for name in tuners() if loads_divided(name) and job.framework in tuners()[name].families)
    return next(able, "")


def _interval(seconds: float, class_name: str) -> Quantity:
    """Return a step time with its interval; for a kind of chip without published runs the interval is wide and
    assumed."""
    if class_name == "untested":
        return Quantity(seconds, seconds * UNTESTED[0], seconds * UNTESTED[1], "assumed")
    return step_quantity(seconds, class_name)


@dataclass(frozen=True, slots=True)
class TuningNeed:
    """Memory that QLoRA of a model takes in one plan on several cards."""

    split: str
    """Name of the plan."""
    card_bytes: float
    """Memory of each card at the upper end of the predicted peak [bytes]."""
    host_bytes: float
    """Main memory of the machine that holds weights [bytes]; 0 if the cards hold all."""

    def fits(self, hardware: Hardware) -> bool:
        """Whether the cards and the main memory hold it."""
        memory = hardware.record().memory_bytes or 0.0
        return self.card_bytes <= memory and self.host_bytes <= hardware.host_capacity_bytes


def tuning_need(model: Model, hardware: Hardware, sequence_tokens: int) -> TuningNeed:
    """Return what QLoRA of a model takes: in the plan with the least main memory that fits, else in the one that asks
    least of each card."""
    needs = _needs(model, hardware.num, sequence_tokens)
    able = [need for need in needs if need.fits(hardware)]
    return (
        min(able, key=lambda need: need.host_bytes) if able else min(needs, key=lambda need: need.card_bytes)
    )


@lru_cache(maxsize=256)
def _needs(model: Model, num: int, sequence_tokens: int) -> tuple[TuningNeed, ...]:
    job = tuning_job(model, sequence_tokens)
    named = tuning_plans(num)
    lattice = PlanLattice.of(plan for _, plan in named)
    peaks = peak_memory(job, lattice).peak_bytes * peak_factors(job)[1]
    held = host_bytes(job, lattice) * num
    return tuple(
        TuningNeed(name, float(peak), float(host))
        for (name, _), peak, host in zip(named, peaks, held, strict=True)
    )


def largest_tuning(hardware: Hardware, sequence_tokens: int, too_large: Model | None = None) -> str:
    """Return the largest of a few dense models that QLoRA fits on the hardware, of those smaller than a model that it
    does not fit; empty if none does. Experts are not quantised, so that a dense model may fit where a smaller mixture
    of experts does not; the answer then names a smaller one."""
    most = parameter_count(too_large).total if too_large is not None else math.inf
    for name in reversed(SIZES):
        model = models.by_id(name)
        if parameter_count(model).total < most and tuning_need(model, hardware, sequence_tokens).fits(
            hardware
        ):
            return name
    return ""
