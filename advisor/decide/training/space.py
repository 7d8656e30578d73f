"""The search space of a job: frameworks and number formats of an accelerator, the plans that each allows, cluster
sizes.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.models import all_ids, by_id
from advisor.catalog.resolve import drop_separators, known_value
from advisor.catalog.schema import Accelerator, Model
from advisor.catalog.training import has_stages, loads_divided, tuner_named, tuners
from advisor.decide.reason import LayoutRefused, NoFramework, NoOptions, NotRanked, NoUnits, Reason
from advisor.decide.training.conditions import cluster_of
from advisor.decide.training.fixed_layout import fixed_limits, least_plan
from advisor.decide.training.scenario import MachineConditions, TrainingTask
from advisor.simulator.graph.model import num_layers, parameter_count
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.families import OF_TRANSFORMERS, family_by_whole_name
from advisor.simulator.training.job import OPTIMIZERS, Method, Optimizer, TrainingJob
from advisor.simulator.training.lattice import LatticeLimits
from advisor.simulator.training.launch_flags import WITH_COMMANDS, launch_flags
from advisor.simulator.training.launch_settings import MissingSetting, missing_settings, settings_run
from advisor.simulator.training.launch_start import (
    has_mamba_layers,
    has_uneven_recomputation,
    mamba_tensor_ranks,
    megatron_builds,
)
from advisor.simulator.training.launch_tuning import divides_sequences, stores_scores, trl_runs, weights_of
from advisor.simulator.training.memory.peak import is_too_large_to_load
from advisor.simulator.training.plan import Recompute, Schedule, Sharding, TrainingPlan
from advisor.simulator.training.reinforcement import generates
from advisor.simulator.training.release_months import UNDATED, release_month
from advisor.simulator.training.releases import (
    ACTIVATIONS_IN_HOST,
    features_at,
    features_of_compilation,
    has_feature,
    limits_at,
    missing_features,
)

FRAMEWORKS: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia": ("megatron", "torchtitan"),
    "amd": ("megatron", "torchtitan"),
    "google": ("maxtext",),
    "aws": ("megatron",),
    "intel": ("megatron", "torchtitan"),
}
"""Families that train from scratch, by vendor: Megatron-LM with its ROCm fork, NeuronX and Gaudi's own."""
ADAPTER_FRAMEWORKS: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia": ("peft",),
    "amd": ("peft",),
    "google": ("maxtext",),
    "intel": ("peft",),
    "aws": ("megatron",),
}
TUNING_FRAMEWORKS: Final = ("deepspeed", "peft")
"""Families that also tune all weights; each vendor's chips have others that train from scratch."""
COMPUTE_DTYPES: Final = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""Formats of a training step's multiplications."""
ADAPTER_FEATURES: Final = frozenset({"adapters_all_linear"})
"""Adapters on all matrices of the layers, as QLoRA found necessary (arXiv:2305.14314, section 4)."""
_COARSE_MICRO_BATCH: Final = (1, 2, 4)
_COARSE_CONTEXT: Final = (1, 2, 4)
"""Context-parallel degrees in the first, coarse search of a lattice."""
_PEAKS: Final[Mapping[str, str]] = {"mxfp8": "fp8", "nvfp4": "fp4"}
_BLOCK_SCALED: Final[Mapping[str, tuple[str, ...]]] = {
    "mxfp8": ("blackwell", "rubin", "cdna4", "cdna5", "trainium3"),
    "nvfp4": ("blackwell", "rubin"),
}
"""Architectures whose matrix units scale small blocks themselves: CUDA C++ Programming Guide, compute capabilities 10.0
and 12.0; AMD CDNA 4 white paper; aws.amazon.com/ec2/instance-types/trn3."""
_SOFTWARE: Final[Mapping[str, str]] = {"deepspeed": "trl", "peft": "trl"}
"""Software that runs a framework family's models, if not its own: DeepSpeed's and PEFT's run under TRL."""
_NOT_MODELLED: Final[Mapping[str, str]] = {"apple": "mlx-lm"}
"""Framework that tunes on a vendor's chips and has no model here. Source: mlx-lm (PyPI), mlx_lm.lora."""
_AS_IN_CATALOG: Final = MachineConditions()
_AT_LEAST_A_PAIR: Final = (2, 4, 8, 16)
"""Micro-batches of algorithms on given outputs: both outputs of a pair pass together (TRL's concatenated forward), and
KTO compares an output with those of other prompts of its micro-batch."""
_RUNS_TRANSFORMERS: Final = ("nvidia", "amd")
"""Vendors whose chips run Transformers' trainers by the options that are tabulated."""
_TRANSFORMERS_ONLY: Final = ("adamw_8bit", "adafactor", "lion")


@dataclass(frozen=True, slots=True)
class FrameworkRules:
    """The layouts that a family of frameworks supports."""

    shardings: tuple[Sharding, ...]
    schedules: tuple[Schedule, ...]
    recompute: tuple[Recompute, ...] = ("none", "full")
    recompute_shares: tuple[float, ...] = (1.0,)
    """Fractions of a stage's layers that full recomputation may be set to."""
    only_data_parallel: bool = False
    hybrid_sharding: bool = False
    """Shards may stay inside a node (HSDP)."""
    streams_weights: bool = False
    """Weights may live in host memory (CPU offload of FSDP and ZeRO-Infinity)."""
    host: tuple[tuple[bool, bool, tuple[Sharding, ...]], ...] = ()
    """Combinations of state that a full training may keep in host memory: (optimizer, parameters), and how ranks
    divide the rest."""
    host_optimizers: tuple[Optimizer, ...] = ("adamw",)
    """Optimizers with an implementation for host memory that the framework puts there. Source: Megatron-Core 0.16.0,
    core/optimizer (Adam and SGD); huggingface/accelerate@16cb6eb, utils/deepspeed.py, which replaces every optimizer
    but Lion by DeepSpeed's CPU Adam with 32-bit moments; torchtitan has AdamW alone."""
    no_stages: bool = False
    cuts_with_fsdp: bool = False
    """Layers and sequences are cut only where ranks divide the states too."""
    offloads_activations: bool = False
    """A search considers inputs of recomputed layers in host memory."""


RULES: Final[Mapping[str, FrameworkRules]] = {
    "megatron": FrameworkRules(
        ("none", "zero1"), ("1f1b", "interleaved"), recompute=("none", "selective", "full", "modules"),
        recompute_shares=(0.25, 0.5, 0.75, 1.0), host=((True, False, ("none", "zero1")),),
        host_optimizers=("adamw", "adamw_bf16", "sgd"),
    ),
    "torchtitan": FrameworkRules(
        ("none", "zero2", "zero3"), ("1f1b", "interleaved", "zbv", "dualpipe"), recompute=("none", "selective", "full"),
        recompute_shares=(0.25, 0.5, 1.0), hybrid_sharding=True,
        host=((True, True, ("zero3",)),), cuts_with_fsdp=True,
    ),
    "fsdp": FrameworkRules(("none", "zero2", "zero3"), ("1f1b",), only_data_parallel=True, hybrid_sharding=True),
    "deepspeed": FrameworkRules(
        ("none", "zero1", "zero2", "zero3"), ("1f1b",), only_data_parallel=True,
        host=((True, False, ("none", "zero1", "zero3")), (True, True, ("zero3",))), host_optimizers=("adamw", "lion"),
        cuts_with_fsdp=True, offloads_activations=True,
    ),
    "maxtext": FrameworkRules(("zero3",), ("1f1b",), hybrid_sharding=True, no_stages=True),
    "peft": FrameworkRules(
        ("none", "zero3"), ("1f1b",), only_data_parallel=True, streams_weights=True, cuts_with_fsdp=True,
        offloads_activations=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """One job in one framework and number format on one accelerator, and the plans to consider."""

    job: TrainingJob
    cluster: TrainingCluster
    limits: LatticeLimits
    is_last_resort: bool = False
    """Only where no other fits, or none is nearly as fast: host memory is slow, and at the mercy of the host."""


_PLANS_TO_TRY: Final = (TrainingPlan(), TrainingPlan(data_parallel=2, sharding="zero3"))
_LOOP_FRAMEWORKS: Final = ("verl", "openrlhf")
"""Frameworks whose commands are printed for loops of generation and training, and which train nothing else here."""


def family_asked(name: str, *, loop_method: Method | None = None) -> tuple[str, str]:
    """Return the family of frameworks that a user names, and a note if the name is another one of its frameworks'.

    `loop_method`: what learns in a loop of generation and training; None for another job. The trainers of loops run
    models of Transformers, with all weights as FSDP does, and adapters as PEFT does.

    Raises: UnknownNameError: no family has such a framework. AdvisorError: it runs loops alone, and the job is none.
    """
    record = tuner_named(name)
    family = name if name in RULES else family_by_whole_name(name)
    family = record.families[0] if record else family
    if drop_separators(name) in _LOOP_FRAMEWORKS:
        if loop_method is None:
            raise AdvisorError(
                f"--framework {name} does not go with this job",
                why=f"{name} runs loops of generation and training",
                fix="advisor recommend --workload rl, or --framework fsdp",
            )
        family = "fsdp"
    known_value(family or name, tuple(RULES), "framework")
    if loop_method and family in OF_TRANSFORMERS:
        family = "fsdp" if loop_method == "full" else "peft"
    if record:
        return (
            family,
            f"framework '{name}' is priced as {family}, and started by settings of {record.release}",
        )
    return family, "" if family == name else f"framework '{name}' is taken as {family}"


def release_note(software: str, version: str) -> str:
    """Return the note on what a stated release means for software whose settings are known of one release; empty if
    none is stated, or for other software."""
    record = tuners().get(software)
    if record is None or not version:
        return ""
    return (
        f"--framework-version {version} counts for what Transformers, PEFT and PyTorch of that month lack; "
        f"settings and habits are those of {record.release}"
    )


def program_asked(name: str) -> str:
    """Return the framework whose own command a name asks for; empty if the name is a family's."""
    record = tuner_named(name)
    plain = drop_separators(name)
    return record.id if record else plain if plain in (*_LOOP_FRAMEWORKS, "trl") else ""


def _programs(task: TrainingTask, framework: str) -> tuple[str, ...]:
    """Return the frameworks of a family whose commands a task asks for; an empty name stands for any."""
    # Plans of a loop with states in host memory run in the trainers that were named for it.
    family = "fsdp" if task.loop and framework == "deepspeed" else framework
    return tuple(program for named, program in task.programs if named == family) or ("",)


def peak_flop_per_s(accelerator: Accelerator, compute_dtype: str) -> float | None:
    """Dense peak in which a training format multiplies [flop/s]; None where the chip has no such unit.

    Source: catalog record of the accelerator.
    """
    peaks = accelerator.peak_flop_per_s
    if not accelerator.architecture.startswith(_BLOCK_SCALED.get(compute_dtype, "")):
        return None
    if compute_dtype == "fp16":
        return peaks.get("fp16") or peaks.get("bf16")
    return peaks.get(_PEAKS.get(compute_dtype, compute_dtype))


def rated_flop_per_s(accelerator: Accelerator, compute_dtype: str) -> float:
    """Dense peak without a power limit, over which utilisation is told [flop/s]; 1 without such a unit.

    Source: as `peak_flop_per_s`; MFU is over the peak of the data sheet (PaLM, arXiv:2204.02311, appendix B).
    """
    return (peak_flop_per_s(accelerator, compute_dtype) or 1.0) / accelerator.power_fraction


def features_of(method: str, framework: str, compute_dtype: str) -> frozenset[str]:
    """Switches that a plan of one's own is run with: adapters on all matrices; Megatron's parameters held in the format
    of its matrices.

    Source: Megatron-LM, --fp8-param-gather.
    """
    if method != "full":
        return ADAPTER_FEATURES
    in_8_bits = framework == "megatron" and compute_dtype in ("fp8", "mxfp8")
    return frozenset({"fp8_allgather"}) if in_8_bits else frozenset()


def option_faults(job: TrainingJob, plan: TrainingPlan) -> Iterator[tuple[str, str]]:
    """Yield the parts of a plan that its framework has no option for, as (what, why).

    Source: RULES; DeepSpeed divides sequences by heads (Ulysses); checkpoints in host memory: Megatron-LM's
        --fine-grained-activation-offloading, DeepSpeed's cpu_checkpointing, PyTorch's offload_wrapper, TRL's
        activation_offloading, MaxText's remat policies; Megatron-LM shards gradients and parameters with its own FSDP,
        which has no pipeline.
    """
    rules = RULES[job.framework]
    name = job.framework
    ranks = plan.data_parallel * plan.context_parallel
    stages = plan.pipeline_parallel
    degrees = [plan.tensor_parallel, plan.pipeline_parallel, plan.expert_parallel]
    if rules.only_data_parallel and max(degrees) > 1:
        beside = ", context parallelism and sharding" if name in _DIVIDING_SEQUENCES else " and sharding"
        yield f"{name} divides no layers", f"it has data parallelism{beside} alone"
    if rules.only_data_parallel and plan.context_parallel > 1:
        yield from _context_faults(job, plan)
    if rules.no_stages and stages > 1:
        yield f"{name} has no pipeline here", "its plans divide parameters over all chips"
    elif stages > 1 and not has_stages(name, job.model.family):
        yield f"{name} has no pipeline for {job.model.id}", "its release divides no layers of this model type"
    sharded = plan.sharding in ("zero2", "zero3")
    own_fsdp = name == "megatron" and sharded and stages == 1
    if own_fsdp and plan.offload_optimizer:
        yield (
            f"{name} keeps no optimizer in host memory with {plan.sharding}",
            "its own FSDP has no option for it",
        )
    if plan.sharding not in rules.shardings and ranks > 1 and not own_fsdp:
        yield f"{name} has no {plan.sharding} with {stages} stages", f"it has {', '.join(rules.shardings)}"
    if stages > 1 and plan.schedule not in rules.schedules:
        yield f"{name} has no schedule {plan.schedule}", f"it has {', '.join(rules.schedules)}"
    moved = (plan.offload_optimizer, plan.offload_parameters)
    if job.method == "full" and any(moved) and moved not in [held[:2] for held in rules.host]:
        parts = " and ".join(w for w, there in zip(("optimizer", "weights"), moved, strict=True) if there)
        yield f"{name} does not keep {parts} in host memory", _host_words(rules)
    if plan.offload_optimizer and job.optimizer not in rules.host_optimizers:
        yield (
            f"{name} does not keep {job.optimizer} in host memory",
            f"its optimizers for host memory are {', '.join(rules.host_optimizers)}",
        )
    if plan.offload_activations and name == "torchtitan":
        yield f"{name} does not keep activations in host memory", "its checkpoints stay on the accelerator"
    if name == "megatron" and not megatron_builds(job.model):
        yield (
            f"{name} does not build {job.model.id}",
            "it has attention, Mamba-2 and gated delta rules as layers",
        )
    elif name == "megatron" and mamba_tensor_ranks(job.model) % plan.tensor_parallel:
        ranks = mamba_tensor_ranks(job.model)
        yield (
            f"{name} divides the Mamba layers of {job.model.id} over no {plan.tensor_parallel} tensor ranks",
            f"each has whole groups of states, of which there {'is 1' if ranks == 1 else f'are {ranks}'}",
        )
    if name == "megatron" and plan.recompute != "none" and has_mamba_layers(job.model):
        yield f"{name} recomputes no layers of {job.model.id}", "its Mamba layers have no recomputation"
    if name == "megatron" and plan.virtual_stages > 1 and has_mamba_layers(job.model):
        yield f"{name} has no chunks of stages for {job.model.id}", "its Mamba layers have one chunk a stage"
    if name == "megatron" and has_uneven_recomputation(plan):
        chunks = plan.virtual_stages
        yield (
            f"{name} recomputes as many layers in each of the {chunks} chunks of a stage",
            f"{plan.recompute_layers} layers of a stage do not divide by {chunks}",
        )
    if plan.recompute not in rules.recompute:
        yield f"{name} recomputes no single modules", f"it has {', '.join(rules.recompute)}"


_DIVIDING_SEQUENCES: Final = ("peft", "deepspeed")
"""Families without layers in parts whose trainers divide sequences: FSDP's in a ring, DeepSpeed's by heads."""


def _context_faults(job: TrainingJob, plan: TrainingPlan) -> Iterator[tuple[str, str]]:
    name = job.software if job.software in tuners() else job.framework
    if not divides_sequences(job):
        how = "by heads (Ulysses)" if job.exchanges_heads else "in a ring of causal attention to all tokens"
        known = (
            f"Accelerate divides them {how}"
            if job.framework in _DIVIDING_SEQUENCES
            else "it has no option for it"
        )
        yield f"{name} divides no sequences of {job.model.id}", known
    elif plan.sharding == "none":
        yield f"{name} divides sequences only with the states", "--sharding zero3 divides them"


def _host_words(rules: FrameworkRules) -> str:
    known = {(True, False): "the optimizer", (False, True): "the weights", (True, True): "both together"}
    return f"it has options for {' or '.join(known[held[:2]] for held in rules.host) or 'neither'}"


def training_job(
    model: Model,
    sequence_tokens: int,
    global_batch: int,
    compute_dtype: str,
    framework: str,
    *,
    method: Method = "full",
    lora_rank: int = 0,
    optimizer: Optimizer = "adamw",
    mean_sequence_tokens: float = 0.0,
    version: str = "",
    switches: frozenset[str] = frozenset(),
    architecture: str = "",
    is_loop: bool = False,
    generates_too: bool = False,
    software: str = "",
) -> TrainingJob:
    """Return the job that a plan of one's own runs in a framework, with the switches that it has by default.

    `is_loop`: trained on preferences or rewards, whose losses are others than plain tuning's.
    `generates_too`: a loop, whose own frameworks hold whole logits; TRL's other trainers compute the loss in tiles.
    `software`: the framework that is named, if it has settings of its own, with the features that these have.

    Source: features_of; TRL 1.16.0, kernels/chunked_logprob.py; advisor.simulator.training.releases for a release of
        which the month is stated.
    """
    old = features_at(framework, version if version.startswith("20") else "", architecture, method)
    compiled = features_of_compilation(framework, switches, release_month(framework, version) or UNDATED)
    stores = stores_scores(model, framework, architecture, software) and "flash_attention" not in switches
    habits = frozenset({"unfused_attention"} if stores else ())
    record = tuners().get(software)
    if record is not None:
        habits |= {*record.features, *(() if is_loop else record.loss_features)}
    elif framework in TUNING_FRAMEWORKS and not version and not generates_too:
        habits |= {"linear_ce", "tiled_head"}
    return TrainingJob(
        model,
        sequence_tokens,
        global_batch,
        compute_dtype,
        framework,
        software=software or _SOFTWARE.get(framework, ""),
        framework_version=version,
        method=method,
        lora_rank=lora_rank,
        optimizer=optimizer,
        mean_sequence_tokens=mean_sequence_tokens,
        features=features_of(method, framework, compute_dtype) | old | compiled | habits | switches,
    )


def variants_of(
    accelerator: Accelerator,
    model: Model,
    task: TrainingTask,
    conditions: MachineConditions = _AS_IN_CATALOG,
    *,
    whole: bool = True,
) -> tuple[list[Variant], Reason | None]:
    """The jobs that an accelerator could run, and, where there are none, the reason.

    Source: own enumeration; frameworks by vendor as FRAMEWORKS says.
    """
    if accelerator.unranked_reason:
        return [], NotRanked(accelerator.unranked_reason)
    frameworks = _frameworks(accelerator.vendor, task)
    if not frameworks and task.loop and task.frameworks:
        known = _usual_frameworks(accelerator.vendor, task)
        trained = f"it trains in {' or '.join(known)}" if known else "no framework of its vendor has one"
        return [], NoFramework(
            f"{', '.join(task.frameworks)} has no {task.loop} loop here: {trained}", elsewhere=known
        )
    if not frameworks:
        other = _NOT_MODELLED.get(accelerator.vendor, "")
        beside = f"; {other} does, and is not modelled" if other else ""
        return [], NoFramework(f"no training framework that the advisor models runs on it{beside}")
    if accelerator.vendor not in WITH_COMMANDS:
        return [], NoFramework(
            f"the options of {accelerator.vendor}'s training frameworks are not in the catalog, so that no command "
            "would start a plan; advisor simulate train prices one"
        )
    wanted = task.compute_dtypes or (accelerator.sixteen_bit_dtype,)
    dtypes = [dtype for dtype in wanted if peak_flop_per_s(accelerator, dtype)]
    if not dtypes:
        usable = tuple(dtype for dtype in COMPUTE_DTYPES if peak_flop_per_s(accelerator, dtype))
        return [], NoUnits(tuple(wanted), usable)
    if not accelerator.memory_bytes or not accelerator.bandwidth_bytes_per_s:
        return [], NotRanked("its memory or bandwidth has no source")
    cluster = cluster_of(accelerator, conditions)
    found: list[Variant] = []
    jobs = _jobs_with_commands(model, task, frameworks, dtypes, accelerator.architecture)
    if jobs and all(is_too_large_to_load(job, cluster.accelerator.memory_bytes) for job in jobs):
        jobs += _jobs_that_load(model, task, frameworks, dtypes, accelerator.architecture)
    if (
        not jobs
        and not task.frameworks
        and "torchtitan" in frameworks
        and not _any_defines(frameworks, model)
    ):
        # Transformers runs layers that the others lack, as code of the model's repository.
        jobs = _jobs_with_commands(model, task, ("fsdp",), dtypes, accelerator.architecture)
    faults: list[Reason] = []
    if not jobs:
        lacking = [
            name for framework in frameworks for name in _programs(task, framework) if name in tuners()
        ]
        if lacking:
            asked = (model, task, frameworks[0], lacking[0], dtypes[0])
            return [], _without_setting(*asked, accelerator.architecture)
        return [], _without_options(task, frameworks, dtypes, model, accelerator.vendor)
    for job in jobs:
        fault = _fixed_fault(job, task, cluster)
        if fault is None:
            found += _layouts(job, cluster, task, whole=whole)
        else:
            faults.append(fault)
    return found, faults[0] if not found else None


def _jobs_with_commands(
    model: Model, task: TrainingTask, frameworks: Sequence[str], dtypes: Sequence[str], architecture: str
) -> list[TrainingJob]:
    """Return the jobs by framework and format that a framework has options for."""
    jobs = (
        training_job(
            model,
            task.sequence_tokens,
            task.global_batch,
            dtype,
            framework,
            method=task.method,
            lora_rank=task.lora_rank,
            optimizer=task.optimizer,
            mean_sequence_tokens=task.mean_sequence_tokens,
            version=task.framework_version,
            switches=frozenset({"scalar_head"} if task.loop == "reward" else ()),
            architecture=architecture,
            is_loop=task.loop is not None,
            generates_too=task.loop is not None and generates(task.loop),
            software="" if program == "trl" else program,
        )
        for framework, dtype in itertools.product(frameworks, dtypes)
        for program in _programs(task, framework)
    )
    return [job for job in jobs if _is_startable(job, task)]


def _jobs_that_load(
    model: Model, task: TrainingTask, frameworks: Sequence[str], dtypes: Sequence[str], architecture: str
) -> list[TrainingJob]:
    """Return the jobs of frameworks that read a model in parts, of those that the question leaves open."""
    named = tuple(
        (framework, name)
        for framework in frameworks
        if all(family != framework for family, _ in task.programs)
        for name, record in tuners().items()
        if record.loads_divided and framework in record.families
    )
    within = [framework for framework, _ in named]
    return _jobs_with_commands(
        model, task.model_copy(update={"programs": named}), within, dtypes, architecture
    )


def _is_startable(job: TrainingJob, task: TrainingTask) -> bool:
    """Whether the job's framework has options for it on a single accelerator, or on several where its release has no
    program for one."""
    if job.software not in tuners():
        return bool(launch_flags(job, TrainingPlan(), as_priced=True))
    return any(settings_run(job, plan, task.loop or "sft") for plan in _PLANS_TO_TRY)


def _any_defines(frameworks: Sequence[str], model: Model) -> bool:
    """Whether a framework has the model, whatever optimizer and format are asked for."""
    plan = TrainingPlan()
    jobs = (TrainingJob(model, 1, 1, framework=framework) for framework in frameworks)
    return any(launch_flags(job, plan, as_priced=True) for job in jobs)


def _without_setting(
    model: Model, task: TrainingTask, framework: str, software: str, dtype: str, architecture: str
) -> NoOptions:
    """Return the reason that a named framework has no setting for a job, with others that have them all."""
    job = training_job(
        *(model, task.sequence_tokens, task.global_batch, dtype, framework),
        method=task.method,
        lora_rank=task.lora_rank,
        optimizer=task.optimizer,
        mean_sequence_tokens=task.mean_sequence_tokens,
        architecture=architecture,
        software=software,
    )
    goal = task.loop or "sft"
    lacks = next(missing_settings(job, _PLANS_TO_TRY[0], goal), None)
    what = f"{lacks.part} '{lacks.word}'" if lacks else f"the model {model.id}"
    if lacks and lacks.part == "recipe":
        what = f"{goal} of {'all weights' if task.method == 'full' else 'adapters on several accelerators'}"
    return NoOptions((tuners()[software].release,), what, (), frameworks_with_settings(job, goal))


def frameworks_with_settings(
    job: TrainingJob, goal: str, plan: TrainingPlan | None = None
) -> tuple[str, ...]:
    """Return other frameworks with settings or options for a job, or for a plan of it; TRL is the last. Its PPO trainer
    is called from Python alone."""
    plans = _PLANS_TO_TRY if plan is None else (plan,)
    others = [
        name
        for name, record in tuners().items()
        if name != job.software
        and any(
            settings_run(replace(job, software=name, framework=record.families[0]), each, goal)
            for each in plans
        )
    ]
    in_trl = goal != "ppo" and job.software != "trl" and any(trl_runs(job, each) for each in plans)
    return (*others, *(["trl"] if in_trl else []))


def lacking_setting(job: TrainingJob, plan: TrainingPlan, goal: str) -> MissingSetting | None:
    """Return the first part of a plan that a named framework has no setting for; None if it has them all, or is none
    with settings of its own."""
    return next(missing_settings(job, plan, goal), None) if job.software in tuners() else None


def _fixed_fault(job: TrainingJob, task: TrainingTask, cluster: TrainingCluster) -> Reason | None:
    """Return why a framework, or its stated release, cannot run what the user fixes; None if it can."""
    layout = task.layout
    if layout.is_free and not job.framework_version:
        return None
    plan = least_plan(layout, limits_at(limits_of(job, cluster), job))
    # A rank alone divides nothing, so that any sharding passes: two ranks ask the framework whether it has it.
    if layout.sharding not in (None, "none"):
        plan = replace(plan, data_parallel=max(2, plan.data_parallel))
    fault = next(option_faults(job, plan), None)
    if fault is not None:
        return LayoutRefused(*fault, "another --framework, or fix less of the plan")
    goal = task.loop or "sft"
    lacks = lacking_setting(job, plan, goal)
    if lacks is not None and layout.sharding is not None and lacks.part == "sharding":
        others = frameworks_with_settings(job, goal, plan)
        why = "its settings are those of the release's own package"
        return LayoutRefused(str(lacks), why, "fix less of the plan", others)
    missing = max(missing_features(job, plan), key=lambda each: each.first.month, default=None)
    if missing is None:
        return None
    came = f"it came in {missing.first.month} with {missing.first.release}"
    fix = f"a --framework-version of {missing.first.month} or later, or fix less of the plan"
    return LayoutRefused(missing.words, came, fix, month=missing.first.month)


def _without_options(
    task: TrainingTask, frameworks: Sequence[str], dtypes: Sequence[str], model: Model, vendor: str
) -> NoOptions:
    """Return the reason that no framework has options for a method, optimizer and format, with the optimizers that
    have them, and the vendor's frameworks that have them all."""
    how = "full training" if task.method == "full" else task.method
    others = dict.fromkeys((*_usual_frameworks(vendor, task), *TUNING_FRAMEWORKS))

    def jobs_with_options(
        names: Iterable[str], optimizers: Sequence[Optimizer], model: Model = model
    ) -> Iterator[TrainingJob]:
        for framework, dtype, name in itertools.product(names, dtypes, optimizers):
            job = TrainingJob(
                model, 1, 1, dtype, framework, method=task.method, lora_rank=task.lora_rank, optimizer=name
            )
            if launch_flags(job, TrainingPlan(), as_priced=True):
                yield job

    usable = dict.fromkeys(job.optimizer for job in jobs_with_options(frameworks, OPTIMIZERS))
    able = dict.fromkeys(job.framework for job in jobs_with_options(others, (task.optimizer,)))
    elsewhere = tuple(able) if task.frameworks and vendor in _RUNS_TRANSFORMERS else ()
    what = f"{how} with {task.optimizer} in {'/'.join(dtypes)}" if usable else f"{how} of {model.id}"
    by_model = not usable and not able and vendor in _RUNS_TRANSFORMERS
    siblings = _siblings(model) if by_model else ()
    trains = (each.id for each in siblings if any(jobs_with_options(others, (task.optimizer,), each)))
    sibling = next(trains, "")
    return NoOptions(tuple(frameworks), what, tuple(usable), elsewhere, by_model, sibling)


def _siblings(model: Model) -> list[Model]:
    """Return the models of the same family of which Transformers finds a checkpoint, the nearest in size first."""
    others = [each for each in map(by_id, all_ids()) if each.family == model.family and each.id != model.id]
    size = parameter_count(model).total
    able = [each for each in others if weights_of(each)]
    return sorted(able, key=lambda each: abs(math.log(parameter_count(each).total / size)))


def _usual_frameworks(vendor: str, task: TrainingTask) -> tuple[str, ...]:
    """Return the families that run a job on a vendor's chips if no framework is asked for."""
    usual = (FRAMEWORKS if task.method == "full" else ADAPTER_FRAMEWORKS).get(vendor, ())
    if task.loop and "torchtitan" in usual:
        usual = ("megatron", "fsdp") if generates(task.loop) else ("fsdp",)
    return usual


def _frameworks(vendor: str, task: TrainingTask) -> list[str]:
    """Families to consider: what was asked for, or what trains on the vendor's chips; where states may leave the chips
    DeepSpeed too, and Transformers for the optimizers that Megatron and torchtitan lack."""
    usual = _usual_frameworks(vendor, task)
    found = [f for f in usual if not task.frameworks or f in task.frameworks]
    if (
        task.loop
        and task.may_offload
        and task.method == "full"
        and "fsdp" in found
        and "fsdp" not in task.named
    ):
        found.append("deepspeed")
    if task.frameworks:
        return found or [f for f in task.frameworks if f in RULES and usual and not task.loop]
    tunes = task.may_offload and task.method == "full" and "torchtitan" in usual
    return [*found, *TUNING_FRAMEWORKS] if tunes else found


def _layouts(
    job: TrainingJob, cluster: TrainingCluster, task: TrainingTask, *, whole: bool
) -> Iterator[Variant]:
    """The plans of a framework on the accelerators, and as a last resort those with states in host memory."""
    known = limits_of(job, cluster, whole=whole)
    if task.loop is not None and RULES[job.framework].only_data_parallel:
        known = replace(known, context_parallel=(1,))  # Accelerate divides sequences of plain tuning alone.
    limits = fixed_limits(limits_at(known, job), task.layout)
    if task.loop is not None and not generates(task.loop):
        limits = replace(limits, micro_batch=_AT_LEAST_A_PAIR)
    full = task.method == "full"
    asked = (
        job.framework in task.frameworks
        or job.optimizer in _TRANSFORMERS_ONLY
        or bool(task.mean_sequence_tokens)
    )
    if not full or job.framework not in ("deepspeed", "peft") or asked:
        yield Variant(job, cluster, limits)
    # In a loop the trainers of Transformers alone have options for states in host memory.
    if task.may_offload and (task.loop is None or job.framework == "deepspeed"):
        for held in host_layouts(job, cluster, limits):
            if task.layout.sharding in (None, *held.limits.sharding):
                yield replace(held, limits=fixed_limits(held.limits, task.layout))


def host_layouts(job: TrainingJob, cluster: TrainingCluster, limits: LatticeLimits) -> Iterator[Variant]:
    """The plans of a framework with states in host memory; adapters have too few states for one, and 4-bit weights
    are held there only by frameworks that read them in parts.

    Source: RULES.
    """
    rules = RULES[job.framework]
    if _may_offload_checkpoints(job) and "full" in limits.recompute:
        moved = replace(limits, recompute=("full",), offloads_checkpoints=True)
        yield Variant(job, cluster, replace(moved, offload_parameters=(False,)), is_last_resort=True)
    held = rules.host if job.method == "full" else ()
    if job.method == "qlora" and loads_divided(job.software):
        held = _FROZEN_IN_HOST
    if job.optimizer not in rules.host_optimizers:
        return
    for optimizer, parameters, shardings in held:
        moved = replace(limits, offload=(optimizer,), offload_parameters=(parameters,), sharding=shardings)
        yield Variant(job, cluster, replace(moved, shard_groups=(0,)), is_last_resort=True)


def _may_offload_checkpoints(job: TrainingJob) -> bool:
    """Whether a search considers inputs of recomputed layers in host memory: the job's framework has an option for it
    that is not always on."""
    record = tuners().get(job.software)
    if not has_feature(job, ACTIVATIONS_IN_HOST):
        return False
    if record is None:
        return RULES[job.framework].offloads_activations
    return "full in host memory" in record.checkpointing and not record.offloads_checkpoints


def offloads_checkpoints(job: TrainingJob) -> bool:
    """Whether the job's framework keeps inputs of recomputed layers in host memory by itself.

    Source: catalog/data/training/tuners.toml.
    """
    return job.software in tuners() and tuners()[job.software].offloads_checkpoints


def limits_of(job: TrainingJob, cluster: TrainingCluster, *, whole: bool = True) -> LatticeLimits:
    """The plans of a framework: everything, or the coarser grid of a first look.

    Source: RULES; a first look takes fewer chunks and micro-batches.
    """
    rules = RULES.get(job.framework, RULES["megatron"])
    too_large = is_too_large_to_load(job, cluster.accelerator.memory_bytes)
    shardings: tuple[Sharding, ...] = ("none",) if too_large else rules.shardings
    limits = LatticeLimits(
        domain=cluster.domain,
        sharding=shardings,
        cuts_with_fsdp=rules.cuts_with_fsdp,
        schedules=rules.schedules,
        recompute=rules.recompute,
        offloads_checkpoints=offloads_checkpoints(job),
        shard_groups=(0, cluster.domain) if rules.hybrid_sharding and cluster.domain <= 72 else (0,),
    )
    if rules.only_data_parallel:
        limits = replace(limits, tensor_parallel=(1,), pipeline_parallel=(1,), expert_parallel=(1,))
        if not divides_sequences(job):
            limits = replace(limits, context_parallel=(1,))
    if rules.no_stages or not has_stages(job.framework, job.model.family):
        limits = replace(limits, pipeline_parallel=(1,))
    if job.framework == "megatron" and job.compute_dtype == "fp8":
        # Delayed scales are not kept for a second pass of single modules.
        limits = replace(limits, recompute=tuple(kind for kind in limits.recompute if kind != "modules"))
    if job.framework == "megatron" and has_mamba_layers(job.model):
        layers = num_layers(job.model)
        stages = tuple(count for count in range(1, layers + 1) if layers % count == 0)
        ranks = mamba_tensor_ranks(job.model)
        tensor = tuple(count for count in range(1, min(ranks, cluster.domain) + 1) if ranks % count == 0)
        limits = replace(
            limits,
            recompute=("none",),
            schedules=("1f1b",),
            tensor_parallel=tensor,
            pipeline_parallel=stages,
        )
    if rules.streams_weights and job.method not in ("full", "qlora"):
        limits = replace(limits, offload_parameters=(False, True))
    if whole:
        limits = replace(limits, recompute_shares=rules.recompute_shares)
    else:
        limits = replace(
            limits,
            micro_batch=_COARSE_MICRO_BATCH,
            shard_groups=(0,),
            sharding=_coarse_shardings(job, shardings),
            context_parallel=limits.context_parallel or _COARSE_CONTEXT,
        )
    return limits


_FROZEN_IN_HOST: Final[tuple[tuple[bool, bool, tuple[Sharding, ...]], ...]] = ((False, True, ("zero3",)),)
"""FSDP's offload_params holds a model's frozen weights in host memory."""


def _coarse_shardings(job: TrainingJob, shardings: tuple[Sharding, ...]) -> tuple[Sharding, ...]:
    """Return the ways to shard of a first look: whole copies of the states only where adapters leave few to shard, as
    gathering the frozen weights would there take most of a step over slow links."""
    if job.method != "full":
        return shardings
    return tuple(each for each in shardings if each != "none") or shardings


def counts_of(accelerator: Accelerator, largest: int) -> Iterator[int]:
    """Cluster sizes worth considering, ascending: powers of two, in whole nodes beyond one node.

    Accelerators without a network to other machines stay in one.
    """
    domain = accelerator.scale_up_domain
    in_node = accelerator.node_size
    node = max(in_node, domain) if domain <= 72 else in_node
    limit = largest
    if not accelerator.scale_out_bytes_per_s and domain <= in_node:
        limit = min(limit, in_node)
    elif not accelerator.scale_out_bytes_per_s:
        limit = min(limit, domain)
    sizes = {1 << i for i in range(limit.bit_length())}
    if node % in_node == 0 and node > in_node:  # racks: whole ones, and their powers of two
        sizes |= {node * (1 << i) for i in range(max(1, limit // node).bit_length())}
    yield from sorted(size for size in sizes if size <= limit)
