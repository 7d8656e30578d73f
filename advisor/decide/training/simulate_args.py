"""Options of `advisor simulate train` that show a recommended plan again: the same step and the same memory."""

from collections.abc import Collection

from advisor.catalog.training import tuners
from advisor.catalog.units import GB
from advisor.decide.training.scenario import MachineConditions, TrainingTask
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import TrainingPlan


def simulate_args(
    model: str, accelerator: str, job: TrainingJob, plan: TrainingPlan, conditions: MachineConditions
) -> tuple[str, ...]:
    """Return the options by which `advisor simulate train` shows a plan of a job again.

    Source: options of the command; what is left out is its default.
    """
    found = ["--model", model, "--gpu", accelerator, "--gpus", str(plan.num_accelerators)]
    found += ["--framework", job.software if job.software in tuners() else job.framework]
    found += ["--precision", job.compute_dtype]
    if job.framework_version:
        found += ["--framework-version", job.framework_version]
    return (*found, *step_args(job), *layout_args(plan), *_condition_args(conditions))


def step_args(step: TrainingJob | TrainingTask) -> list[str]:
    """Return the options of `advisor simulate train` that state what one step learns from and how.

    Source: options of the command; what is left out is its default.
    """
    found = ["--sequence", str(step.sequence_tokens), "--global-batch", str(step.global_batch)]
    if step.method != "full":
        found += ["--method", step.method]
    if step.lora_rank and step.method not in ("full", "ia3"):
        found += ["--lora-rank", str(step.lora_rank)]
    if step.optimizer != "adamw":
        found += ["--optimizer", step.optimizer]
    if step.mean_sequence_tokens:
        found += ["--mean-length", f"{step.mean_sequence_tokens:g}"]
    return found


def layout_args(plan: TrainingPlan, typed: Collection[str] = ()) -> list[str]:
    """Return the options of `advisor simulate train` that state all of a plan.

    Degrees of 1 and the usual schedule are stated where `typed`, the names of options that were typed, has them.

    Source: options of the command; what is left out is its default.
    """
    degrees = {
        "tp": plan.tensor_parallel,
        "pp": plan.pipeline_parallel,
        "vpp": plan.virtual_stages if plan.schedule == "interleaved" else 1,
        "cp": plan.context_parallel,
        "ep": plan.expert_parallel,
    }
    stated = {name: degree for name, degree in degrees.items() if degree > 1 or name in typed}
    found = [part for name, degree in stated.items() for part in (f"--{name}", str(degree))]
    if plan.expert_tensor_parallel:
        found += ["--etp", str(plan.expert_tensor_parallel)]
    found += ["--dp", str(plan.data_parallel), "--micro-batch", str(plan.micro_batch)]
    found += ["--sharding", plan.sharding, "--recompute", plan.recompute]
    if plan.shard_group:
        found += ["--shard-group", str(plan.shard_group)]
    if plan.recompute_layers > 0:
        found += ["--recompute-layers", str(plan.recompute_layers)]
    if plan.pipeline_parallel > 1 or "schedule" in typed:
        found += ["--schedule", plan.schedule]
    for end in ("first", "last"):
        layers = getattr(plan, f"{end}_stage_layers")
        found += [f"--{end}-stage-layers", str(layers)] if layers else []
    if plan.tensor_parallel > 1 and not plan.sequence_parallel:
        found.append("--no-sequence-parallel")
    parts = ("optimizer", "parameters", "activations")
    return found + [f"--offload-{part}" for part in parts if getattr(plan, f"offload_{part}")]


def _condition_args(conditions: MachineConditions) -> list[str]:
    found = []
    if conditions.network:
        found += ["--network", conditions.network]
    if conditions.host_bytes:
        found += ["--host-memory", f"{conditions.host_bytes / GB:g}GB"]
    if conditions.power_cap_w:
        found += ["--power-cap-w", f"{conditions.power_cap_w:g}"]
    return found
