"""Launch commands: a plan as the start and the options of the frameworks that run it (Megatron-LM, NeMo, torchtitan,
MaxText)."""

from functools import partial
from typing import Final, Literal

from advisor.catalog.schema.accelerator import ASSUMED_ACCELERATORS_PER_NODE
from advisor.catalog.training import defines_model, flavor_of, has_stages, model_words, recipe_of, tuners
from advisor.simulator.graph.model import layers_of
from advisor.simulator.training.families import OF_TRANSFORMERS
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import model_limits, states_allow_cuts
from advisor.simulator.training.launch_settings import settings_flags, settings_run
from advisor.simulator.training.launch_start import (
    has_mamba_layers,
    has_uneven_recomputation,
    mamba_tensor_ranks,
    maxtext_start,
    megatron_builds,
    megatron_start,
    nemo_start,
    recomputed_layers,
    torchtitan_start,
)
from advisor.simulator.training.launch_tuning import (
    deepspeed_flags,
    deepspeed_runs,
    trl_flags,
    trl_runs,
    weights_of,
)
from advisor.simulator.training.plan import Schedule, TrainingPlan
from advisor.simulator.training.schedule_orders import CHUNKS
from advisor.simulator.training.stages import chunk_sizes

TORCH_SCHEDULES: Final[dict[Schedule, str]] = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zbv": "ZBVZeroBubble",
    "dualpipe": "DualPipeV",
}
"""Names of schedules in torch.distributed.pipelining; DualPipe runs there in the folded form that stores parameters
once."""
_MODULES: Final = ("layernorm", "mla_up_proj", "moe_act")
_MEGATRON_PRECISIONS: Final = {
    "bf16": "--bf16",
    "fp16": "--fp16",
    "fp8": "--bf16 --fp8-format hybrid --fp8-recipe delayed",
    "mxfp8": "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8",
    "nvfp4": "--bf16 --fp4-format e2m1 --fp4-recipe nvfp4",
}
_MEGATRON_OPTIMIZERS: Final = {
    "adamw": "",
    "adamw_bf16": "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
    "sgd": "--optimizer sgd",
    "muon": "--optimizer muon",
}
_MUON_IN_PARTS: Final = "--optimizer dist_muon"
"""Muon that divides its states by layers. Source: Megatron-Core 0.16.0, core/optimizer/muon.py, which refuses the
distributed optimizer, as the trainer refuses overlap of its collectives."""
_NEMO_LONGEST_WARMUP: Final = 2000
"""Most steps of warm-up in a recipe of Megatron-Bridge 0.3.0."""
_NEMO_WARMUP_PART: Final = 10
"""Steps of a short run over those of its warm-up. Own choice: tuning recipes warm up over 50 of some hundred steps."""
_NEMO_PRECISIONS: Final = {
    "bf16": "bf16_mixed",
    "fp16": "fp16_mixed",
    "fp8": "bf16_with_fp8_delayed_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}
_NEMO_OPTIMIZERS: Final = {"adamw": "", "sgd": "optimizer.optimizer=sgd"}
_TITAN_PRECISIONS: Final = {
    "bf16": "",
    "fp8": "--model.converters quantize.linear.float8 --quantize.linear.float8.recipe_name rowwise",
    "mxfp8": "--model.converters quantize.linear.mx --quantize.linear.mx.recipe_name mxfp8_cublas",
}
_FLEX_ATTENTION: Final = ("llama4", "deepseek_v2", "deepseek_v3", "kimi_k2")
"""Model types whose sizes in torchtitan 0.2.0 have FlexAttention. Source: models/llama4 and models/deepseek_v3."""
_MAXTEXT_OPTIMIZERS: Final = {"adamw": "adamw", "sgd": "sgd", "muon": "muon"}
_MAXTEXT_RECOMPUTES: Final = {"none": "minimal_with_context", "full": "full"}
"""Smallest recomputation that MaxText offers: norms and activation functions, as compiled layers do anyway."""
_FAMILIES: Final = {
    "megatron-lm": ("megatron",),
    "nemo": ("megatron",),
    "torchtitan": ("torchtitan", "fsdp"),
    "trl": OF_TRANSFORMERS,
    "deepspeed": ("deepspeed",),
    "maxtext": ("maxtext",),
}
"""Framework families with the memory and time of each command's framework."""

Start = Literal["usual", "tuning", "new"]
"""Weights that a run starts from: those of its framework's own default; published ones, which trainers for pre-training
load only if they are told to; or random ones, which trainers of Transformers must find written."""

WITH_COMMANDS: Final = ("nvidia", "amd", "google")
"""Vendors whose frameworks' options are tabulated (catalog/data/training/launch_options.toml)."""
_ON_TPUS: Final = ("maxtext",)
"""Frameworks with tabulated options that run on Google's chips; the others need GPUs."""

_STAGES_FIRST: Final = {"megatron-lm": "--use-tp-pp-dp-mapping", "nemo": "dist.use_tp_pp_dp_mapping=true"}
"""Options that put stages before replicas in the order of ranks, for the frameworks that also take a layout of
stages."""

_LOADS: Final = {
    "megatron-lm": "--load WEIGHTS --finetune",
    "nemo": "checkpoint.pretrained_checkpoint=WEIGHTS",
    "torchtitan": "--checkpoint.enable --checkpoint.initial_load_path WEIGHTS --checkpoint.initial_load_in_hf",
    "maxtext": "load_parameters_path=WEIGHTS",
}
"""Options that load weights without optimizer states. Source: as the functions of the frameworks, and Megatron-Bridge
0.3.0, training/config.py, CheckpointConfig; maxtext, configs/base.yml."""


def launch_flags(
    job: TrainingJob,
    plan: TrainingPlan,
    *,
    on_bus: bool = False,
    as_priced: bool = False,
    layout: str = "",
    replicas_apart: bool = False,
    node_size: int = ASSUMED_ACCELERATORS_PER_NODE,
    num_steps: int = 0,
    start: Start = "usual",
    vendor: str = "nvidia",
) -> dict[str, str]:
    """Return, by framework, the command that makes it run this plan; frameworks that lack an option for any part are
    left out.

    `on_bus`: tensor-parallel ranks share PCIe alone, where nothing overlaps with multiplications. `as_priced`: only
    frameworks of the job's own family, whose memory and time the plan was priced with. `layout`: layers of each stage
    as Megatron-Core writes them, if they are a user's own. `replicas_apart`: ranks are numbered so that a replica's
    stages are neighbours. `node_size`: accelerators of one node. `num_steps`: optimizer steps of the whole job; 0
    leaves the frameworks their defaults, and to its user those of Megatron-LM, which has none. `start`: what the run
    starts from. `vendor`: of the accelerators, on which a framework must run; TPUs find each other, and recipes of NeMo
    are for NVIDIA's.

    Source: each framework's own function; NVIDIA/Megatron-LM, --use-tp-pp-dp-mapping (not with expert or context
    ranks).
    """
    machines = (node_size, on_bus, vendor)
    if vendor not in WITH_COMMANDS:
        return {}
    found = _all_flags(job, plan, machines, layout=layout, num_steps=num_steps, start=start)
    if vendor == "google":
        found = {name: flags for name, flags in found.items() if name in _ON_TPUS}
    if layout or replicas_apart:
        found = {name: flags for name, flags in found.items() if name in _STAGES_FIRST}
    if replicas_apart:
        plain = plan.context_parallel == plan.expert_parallel == 1
        found = {name: f"{flags} {_STAGES_FIRST[name]}" for name, flags in found.items() if plain}
    if start == "tuning":
        found = {name: f"{flags} {_LOADS.get(name, '')}".rstrip() for name, flags in found.items()}
    return {name: flags for name, flags in found.items() if not as_priced or job.framework in _families(name)}


def _families(name: str) -> tuple[str, ...]:
    return tuners()[name].families if name in tuners() else _FAMILIES[name]


def _all_flags(
    job: TrainingJob,
    plan: TrainingPlan,
    machines: tuple[int, bool, str],
    *,
    layout: str,
    num_steps: int,
    start: Start,
) -> dict[str, str]:
    node_size, on_bus, vendor = machines
    on_tpus = vendor == "google"
    found = {}
    is_new = start == "new"
    if job.model.workload != "decoder":
        return {}  # The trainers below learn to predict the next token.
    if job.software in tuners():
        if is_new or not settings_run(job, plan):
            return {}  # Their programs load weights that exist.
        return {job.software: settings_flags(job, plan, node_size=node_size, num_steps=num_steps)}
    tuned = partial(trl_flags, job, plan, node_size=node_size, num_steps=num_steps, is_new=is_new)
    if job.mean_sequence_tokens and job.framework not in OF_TRANSFORMERS:
        return {}  # Data loaders of pre-training do not pad.
    if deepspeed_runs(job, plan):
        found["deepspeed"] = deepspeed_flags(job, plan, node_size, num_steps, is_new=is_new)
    if job.method != "full":
        return found | ({"trl": tuned()} if trl_runs(job, plan) else {})
    if job.framework == "maxtext":
        if not _maxtext_runs(job, plan):
            return {}
        meeting = "" if on_tpus else maxtext_start(plan, node_size)
        device = "" if on_tpus else " hardware=gpu"
        return {"maxtext": f"{meeting}{maxtext_flags(job, plan, num_steps)}{device}"}
    if _megatron_runs(job, plan):
        # Transformer Engine's user buffers overlap on NVIDIA's accelerators: AMD's own scripts leave them out
        # (ROCm/Megatron-LM@02b8aa7, examples/llama/train_llama3.sh).
        options = megatron_flags(job, plan, on_bus=on_bus or vendor == "amd", layout=layout)
        length = str(num_steps) if num_steps else '"$STEPS"'
        if defines_model("megatron-lm", job.model.family):
            found["megatron-lm"] = f"{megatron_start(job, plan, node_size)} {options} --train-iters {length}"
        is_usual = job.optimizer in _NEMO_OPTIMIZERS and not plan.offload_activations
        is_usual = is_usual and "unfused_attention" not in job.features
        is_tuning = start == "tuning"
        is_usual = is_usual and (
            plan.micro_batch == 1 or not is_tuning
        )  # Rows of its packed data sets pass alone.
        if is_usual and vendor == "nvidia" and defines_model("nemo", job.model.family):
            overrides = nemo_flags(job, plan, on_bus=on_bus, layout=layout, is_tuning=is_tuning)
            length = _nemo_length(num_steps) if num_steps else ""
            recipe = recipe_of(job.model.id, is_tuning=is_tuning)
            found["nemo"] = f"{nemo_start(plan, node_size)} --recipe {recipe} {overrides}{length}"
    if _torchtitan_runs(job, plan):
        length = f" --training.steps {num_steps}" if num_steps else ""
        found["torchtitan"] = f"{torchtitan_start(plan, node_size)} {torchtitan_flags(job, plan)}{length}"
    if trl_runs(job, plan):
        found["trl"] = tuned()
    return found


def _megatron_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether Megatron-LM has options for all of a plan.

    Gradients and parameters are divided only by Megatron's own FSDP, which has no pipeline.

    Source: NVIDIA/Megatron-LM, training/arguments.py (validate_args).
    """
    divided = plan.sharding in ("zero2", "zero3")
    if has_mamba_layers(job.model) and not _runs_mamba(job, plan):
        return False
    if job.optimizer == "muon" and (
        divided or plan.offload_optimizer or job.compute_dtype in ("fp16", "fp8", "mxfp8")
    ):
        return False  # Weights kept in 8 bits need the distributed optimizer.
    if job.compute_dtype == "fp8" and plan.recompute == "modules":
        return False  # Delayed scales are not kept for a second pass of layer norms and activation functions.
    return (
        megatron_builds(job.model)
        and plan.schedule in ("1f1b", "interleaved")
        and not has_uneven_recomputation(plan)
        and job.compute_dtype in _MEGATRON_PRECISIONS
        and job.optimizer in _MEGATRON_OPTIMIZERS
        and not plan.offload_parameters
        and not (divided and (plan.pipeline_parallel > 1 or plan.offload_optimizer))
    )


def _runs_mamba(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether Megatron-LM has options for a plan of Mamba layers: whole groups on a tensor rank, stages of as many
    layers each, one chunk a stage, and nothing computed again.

    Source: Megatron-Core 0.16.0, core/ssm/mamba_block.py, _select_layers_for_pipeline_parallel.
    """
    is_even = model_limits(job.model).num_layers % plan.pipeline_parallel == 0
    ends = plan.first_stage_layers or plan.last_stage_layers
    has_groups = mamba_tensor_ranks(job.model) % plan.tensor_parallel == 0
    return has_groups and plan.recompute == "none" and plan.virtual_stages == 1 and is_even and not ends


def _torchtitan_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether torchtitan has options for all of a plan.

    Host memory takes weights, gradients and optimizer together or none of them; AdamW is the only optimizer that is an
    option; layers are recomputed all, or one in a fixed number. Expert ranks take whole groups of context and tensor
    ranks; models with FlexAttention have no context ranks.

    Source: as `states_allow_cuts`.
    """
    parts = (plan.offload_optimizer, plan.offload_parameters)
    degrees = (plan.tensor_parallel, plan.pipeline_parallel, plan.context_parallel, plan.data_parallel)
    if not states_allow_cuts(*degrees, plan.sharding):
        return False
    shared = plan.context_parallel * (1 if plan.expert_tensor_parallel > 1 else plan.tensor_parallel)
    if plan.expert_parallel > 1 and plan.expert_parallel % shared:
        return False
    if plan.context_parallel > 1 and job.model.family in _FLEX_ATTENTION:
        return False
    if plan.pipeline_parallel > 1 and not has_stages("torchtitan", job.model.family):
        return False
    if any(heads % plan.tensor_parallel for heads in model_limits(job.model).key_heads):
        return False  # Its attention splits columns into whole heads of keys.
    return (
        defines_model("torchtitan", job.model.family)
        and plan.schedule in TORCH_SCHEDULES
        and plan.sharding != "zero1"
        and plan.expert_tensor_parallel in (0, 1, plan.tensor_parallel)
        and job.compute_dtype in _TITAN_PRECISIONS
        and job.optimizer == "adamw"
        and parts[0] == parts[1]
        and not plan.offload_activations
        and plan.recompute != "modules"
        and _every_so_many(job, plan) is not None
        and (plan.pipeline_parallel == 1 or _shorter_ends(job, plan) is not None)
    )


def _every_so_many(job: TrainingJob, plan: TrainingPlan) -> int | None:
    """Interval of the layers that torchtitan recomputes: 1 is all; None if torchtitan has no option for it."""
    if plan.recompute != "full" or plan.recompute_layers < 0:
        return 1
    per_stage = -(-model_limits(job.model).num_layers // plan.pipeline_parallel)
    every, rest = divmod(per_stage, max(plan.recompute_layers, 1))
    return None if rest or not plan.recompute_layers else every


def _titan_chunks(plan: TrainingPlan) -> int:
    """Number of chunks of the model that all stages hold together: two each in the folded schedules."""
    return plan.pipeline_parallel * CHUNKS.get(plan.schedule, plan.virtual_stages)


def _shorter_ends(job: TrainingJob, plan: TrainingPlan) -> int | None:
    """Number of layers by which the first and the last chunk are shorter than the others, 0 or 1; None for another
    number.

    A remainder goes to the first chunks, which only DualPipe leaves without more micro-batches than the others hold.

    Source: pytorch/torchtitan 0.2.0, distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part.
    """
    layers = model_limits(job.model).num_layers
    chunks = _titan_chunks(plan)
    for fewer in (0, 1):
        held = layers + 2 * fewer
        divides = (
            held % chunks == 0 if plan.schedule != "dualpipe" else -(-held // -(-held // chunks)) == chunks
        )
        uneven = plan.first_stage_layers or plan.last_stage_layers
        if divides and bool(uneven) <= bool(fewer):
            return fewer
    return None


def megatron_flags(job: TrainingJob, plan: TrainingPlan, *, on_bus: bool = False, layout: str = "") -> str:
    """Return the options of Megatron-LM's pretrain_gpt.py.

    Source: NVIDIA/Megatron-LM, megatron/training/arguments.py; Megatron Core parallelism strategies guide.
    """
    in_parts = job.optimizer == "muon" and plan.sharding == "zero1"
    flags = [
        f"--tensor-model-parallel-size {plan.tensor_parallel}",
        f"--pipeline-model-parallel-size {plan.pipeline_parallel}",
        f"--micro-batch-size {plan.micro_batch}",
        f"--global-batch-size {job.global_batch}",
        f"--seq-length {job.sequence_tokens}",
        _MEGATRON_PRECISIONS[job.compute_dtype],
        _MUON_IN_PARTS if in_parts else _MEGATRON_OPTIMIZERS[job.optimizer],
    ]
    if layout := layout or stage_layout(job, plan):
        flags.append(f'--pipeline-model-parallel-layout "{layout}"')
    else:
        if plan.virtual_stages > 1:
            flags.append(f"--num-virtual-stages-per-pipeline-rank {plan.virtual_stages}")
        for place, layers in (("first", plan.first_stage_layers), ("last", plan.last_stage_layers)):
            flags += [f"--decoder-{place}-pipeline-num-layers {layers}"] if layers else []
    if plan.context_parallel > 1:
        flags.append(f"--context-parallel-size {plan.context_parallel}")
    if plan.sequence_parallel and plan.tensor_parallel > 1:
        flags.append("--sequence-parallel" if on_bus else "--sequence-parallel --tp-comm-overlap")
    if model_limits(job.model).num_experts:
        flags.append(f"--expert-model-parallel-size {plan.expert_parallel}")
        flags.append(f"--expert-tensor-parallel-size {plan.expert_tensor_parallel or plan.tensor_parallel}")
        # Single matmuls of all experts, which recomputation of their activation functions needs too.
        flags.append("--moe-grouped-gemm --moe-token-dispatcher-type alltoall")
    needs_parts = job.optimizer == "adamw_bf16" or "fp8_allgather" in job.features
    if plan.sharding == "none" and (plan.offload_optimizer or needs_parts):
        # Megatron refuses the precision-aware optimizer and 8-bit weights without it; on one rank it divides nothing.
        flags.append("--use-distributed-optimizer")
    if plan.sharding == "zero1" and not in_parts:
        flags.append("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather")
    elif plan.sharding in ("zero2", "zero3"):
        strategy = "optim_grads" if plan.sharding == "zero2" else "optim_grads_params"
        flags.append(f"--use-megatron-fsdp --data-parallel-sharding-strategy {strategy}")
        flags.append("--ckpt-format fsdp_dtensor")
    if plan.shard_group and plan.sharding != "none":
        copies = max(1, plan.data_parallel * plan.context_parallel // plan.shard_group)
        flags.append(f"--num-distributed-optimizer-instances {copies}")
    flags.append(_megatron_recompute(job, plan))
    if "unfused_attention" in job.features:
        flags.append("--transformer-impl local")
    if "fp8_allgather" in job.features:
        flags.append("--fp8-param-gather")
        if job.compute_dtype == "mxfp8" and plan.sharding not in ("zero2", "zero3"):
            # Transformer Engine maps no weights in mxfp8 into the buffer of the distributed optimizer.
            flags.append("--reuse-grad-buf-for-mxfp8-param-ag")
    if "bf16_grad_reduce" in job.features:
        flags.append("--grad-reduce-in-bf16")
    if plan.offload_optimizer:
        aware = "" if job.optimizer == "adamw_bf16" else "--use-precision-aware-optimizer "
        flags.append(f"{aware}--optimizer-cpu-offload")
    if plan.offload_activations:
        flags.append(
            "--fine-grained-activation-offloading --offload-modules core_attn attn_proj mlp_norm moe_act"
        )
    return " ".join(filter(None, flags))


def _megatron_recompute(job: TrainingJob, plan: TrainingPlan) -> str:
    """Return Megatron-LM's options of recomputation; empty without any."""
    if plan.recompute == "none":
        return ""
    if plan.recompute == "modules":
        return f"--recompute-granularity selective --recompute-modules {' '.join(recomputed_modules(job))}"
    if plan.recompute == "selective":
        return "--recompute-granularity selective"
    method, layers = recomputed_layers(plan)
    return f"--recompute-granularity full --recompute-method {method} --recompute-num-layers {layers}"


def recomputed_modules(job: TrainingJob) -> list[str]:
    """Return the modules of `modules` recomputation that a model has. Source: Megatron-LM, --recompute-modules."""
    limits = model_limits(job.model)
    latent = any(layer.attention is not None and layer.attention.latent for layer in layers_of(job.model))
    present = (True, latent, bool(limits.num_experts))
    return [name for name, held in zip(_MODULES, present, strict=True) if held]


def stage_layout(job: TrainingJob, plan: TrainingPlan) -> str:
    """Return the layers of each stage as Megatron-Core writes them if they do not divide evenly: Et*3|t*4|t*4L; else
    empty.

    Source: Megatron-Core, custom pipeline model parallel layout (E embedding, t layer, L loss).
    """
    layers = model_limits(job.model).num_layers
    stages = plan.pipeline_parallel
    chunks = plan.virtual_stages
    ends = (plan.first_stage_layers, plan.last_stage_layers)
    if chunks == 1 and (any(ends) or layers % stages == 0):
        return ""
    if not any(ends) and layers % (stages * chunks) == 0:
        return ""
    sizes = [f"t*{size}" if size else "" for size in chunk_sizes(layers, stages, chunks, *ends)]
    return f"E{'|'.join(sizes)}L"


def _nemo_length(num_steps: int) -> str:
    """Return the options for the steps of a run: rates fall over all of them, and rise over fewer, which a recipe's own
    warm-up may not be.

    Source: Megatron-Core 0.16.1, core/optimizer_param_scheduler.py, lr_warmup_steps < lr_decay_steps; recipes.
    """
    words = f" train.train_iters={num_steps} scheduler.lr_decay_iters={num_steps}"
    is_short = num_steps <= _NEMO_LONGEST_WARMUP
    return f"{words} scheduler.lr_warmup_iters={num_steps // _NEMO_WARMUP_PART}" if is_short else words


def _nemo_recompute(job: TrainingJob, plan: TrainingPlan) -> list[str]:
    """Return the options of recomputation, each said, as recipes set them otherwise and refuse them together.

    Source: Megatron-Core 0.16.1, core/transformer/transformer_config.py; Megatron-Bridge 0.3.0, recipes.
    """
    method, layers = recomputed_layers(plan) if plan.recompute == "full" else ("null", "null")
    granularity = {"none": "null", "full": "full"}.get(plan.recompute, "selective")
    said = {"granularity": granularity, "method": method, "num_layers": layers}
    if granularity == "selective":
        modules = recomputed_modules(job) if plan.recompute == "modules" else ["core_attn"]
        said["modules"] = f"[{','.join(modules)}]"
    return [f"model.recompute_{name}={value}" for name, value in said.items()]


def nemo_flags(
    job: TrainingJob,
    plan: TrainingPlan,
    *,
    on_bus: bool = False,
    layout: str = "",
    is_tuning: bool = False,
) -> str:
    """Return the overrides of a NeMo (Megatron-Bridge) recipe, of all that recipes set otherwise for some model.

    A data set has a length of its own, which must be the model's. Tuning packs sequences, pads each for context ranks,
    and counts the loss by token with them.

    Source: NVIDIA-NeMo/Megatron-Bridge 0.3.0, overrides of run_recipe.py; recipes. A part of a recipe that is None, as
        `comm_overlap` of Qwen's, takes no override.
    """
    stages = plan.virtual_stages if plan.virtual_stages > 1 else "null"
    flags = [
        f"model.tensor_model_parallel_size={plan.tensor_parallel}",
        f"model.pipeline_model_parallel_size={plan.pipeline_parallel}",
        f"model.context_parallel_size={plan.context_parallel}",
        f"model.sequence_parallel={str(plan.sequence_parallel and plan.tensor_parallel > 1).lower()}",
        f"model.seq_length={job.sequence_tokens}",
        *([] if is_tuning else [f"dataset.sequence_length={job.sequence_tokens}"]),
        f"train.micro_batch_size={plan.micro_batch}",
        f"train.global_batch_size={job.global_batch}",
        f"mixed_precision={_NEMO_PRECISIONS[job.compute_dtype]}",
        _NEMO_OPTIMIZERS[job.optimizer],
    ]
    flags.append(f"model.virtual_pipeline_model_parallel_size={stages}")
    if is_tuning:
        flags.insert(0, f"--packed_sequence --seq_length {job.sequence_tokens}")
        if plan.context_parallel > 1:
            pieces = 2 * plan.context_parallel
            flags.append(f"dataset.packed_sequence_specs.pad_seq_to_mult={pieces}")
            flags.append("model.calculate_per_token_loss=true ddp.average_in_collective=false")
    flags += [f"model.account_for_{end}_in_pipeline_split=false" for end in ("embedding", "loss")]
    if job.model.mtp_layers and "later_tokens" not in job.features:
        flags.append("model.mtp_num_layers=0")
    if layout := layout or stage_layout(job, plan):
        flags.append(f"model.pipeline_model_parallel_layout='{layout}'")
    else:
        flags.append("model.pipeline_model_parallel_layout=null")
        for place, layers in (("first", plan.first_stage_layers), ("last", plan.last_stage_layers)):
            flags += [f"model.num_layers_in_{place}_pipeline_stage={layers}"] if layers else []
    if plan.sequence_parallel and plan.tensor_parallel > 1 and not on_bus:
        flags.append("model.tp_comm_overlap=true")
    if model_limits(job.model).num_experts:
        flags.append(f"model.expert_model_parallel_size={plan.expert_parallel}")
        etp = plan.expert_tensor_parallel or plan.tensor_parallel
        flags.append(f"model.expert_tensor_parallel_size={etp}")
    if plan.sharding == "none":
        needed = plan.offload_optimizer or "fp8_allgather" in job.features
        flags += [f"{part}.use_distributed_optimizer={str(needed).lower()}" for part in ("ddp", "optimizer")]
        flags.append("ddp.overlap_param_gather=false")
    elif plan.sharding == "zero1":
        flags.append("ddp.use_distributed_optimizer=true ddp.overlap_grad_reduce=true")
    else:
        strategy = "optim_grads" if plan.sharding == "zero2" else "optim_grads_params"
        flags.append(f"ddp.use_megatron_fsdp=true ddp.data_parallel_sharding_strategy={strategy}")
        flags.append("checkpoint.ckpt_format=fsdp_dtensor")
    flags += _nemo_recompute(job, plan)
    if plan.shard_group and plan.sharding != "none":
        copies = max(1, plan.data_parallel * plan.context_parallel // plan.shard_group)
        flags.append(f"ddp.num_distributed_optimizer_instances={copies}")
    if "bf16_grad_reduce" in job.features:
        flags.append("ddp.grad_reduce_in_fp32=false")
    if plan.offload_optimizer:
        flags.append("optimizer.optimizer_cpu_offload=true optimizer.use_precision_aware_optimizer=true")
    return " ".join(filter(None, flags))


def torchtitan_flags(job: TrainingJob, plan: TrainingPlan) -> str:
    """Return the options of torchtitan's trainer.

    Source: pytorch/torchtitan, torchtitan/config/job_config.py.
    """
    shard = 1 if plan.sharding == "none" else plan.data_parallel
    if plan.shard_group and plan.sharding != "none":
        shard = max(1, min(plan.shard_group // plan.context_parallel, plan.data_parallel))
    name, flavor = model_words("torchtitan", job.model.family, job.model.id)
    flags = [
        f"--model.name {name} --model.flavor {flavor}",
        f"--training.local_batch_size {plan.micro_batch * _micro_batches_of_a_pass(job, plan)}",
        f"--training.global_batch_size {job.global_batch}",
        f"--training.seq_len {job.sequence_tokens}",
        f"--parallelism.data_parallel_replicate_degree {plan.data_parallel // shard}",
        f"--parallelism.data_parallel_shard_degree {shard}",
        f"--parallelism.tensor_parallel_degree {plan.tensor_parallel}",
        f"--parallelism.pipeline_parallel_degree {plan.pipeline_parallel}",
        f"--parallelism.context_parallel_degree {plan.context_parallel}",
    ]
    if plan.pipeline_parallel > 1:
        flags.append(f"--parallelism.pipeline_parallel_schedule {TORCH_SCHEDULES[plan.schedule]}")
        flags.append(f"--parallelism.pipeline_parallel_microbatch_size {plan.micro_batch}")
        flags.append(_titan_layers(job, plan))
    if model_limits(job.model).num_experts:
        flags.append(f"--parallelism.expert_parallel_degree {plan.expert_parallel}")
        if plan.expert_parallel > 1 and plan.tensor_parallel > 1:
            etp = plan.expert_tensor_parallel or plan.tensor_parallel
            flags.append(f"--parallelism.expert_tensor_parallel_degree {etp}")
    every = _every_so_many(job, plan) or 1
    if plan.recompute == "full" and every > 1:
        flags.append(
            f"--activation_checkpoint.mode selective --activation_checkpoint.selective_ac_option {every}"
        )
    else:
        flags.append(f"--activation_checkpoint.mode {plan.recompute}")
    if plan.recompute == "selective":
        flags.append("--activation_checkpoint.selective_ac_option op")
    flags.append(_TITAN_PRECISIONS[job.compute_dtype])
    if plan.sharding in ("zero2", "zero3") and plan.pipeline_parallel == 1:
        again = "always" if plan.sharding == "zero3" else "never"
        flags.append(f"--parallelism.fsdp_reshard_after_forward {again}")
    if plan.offload_parameters:
        flags.append("--training.enable_cpu_offload")
    return " ".join(filter(None, flags))


def _titan_layers(job: TrainingJob, plan: TrainingPlan) -> str:
    """Return the options for the layers of a chunk, and for how many fewer the first and the last one have."""
    fewer = _shorter_ends(job, plan) or 0
    layers = -(-(model_limits(job.model).num_layers + 2 * fewer) // _titan_chunks(plan))
    ends = " ".join(
        f"--parallelism.pipeline_parallel_{end}_stage_less_layers {fewer}" for end in ("first", "last")
    )
    return f"--parallelism.pipeline_parallel_layers_per_stage {layers} {ends}"


def _micro_batches_of_a_pass(job: TrainingJob, plan: TrainingPlan) -> int:
    """Number of micro-batches of one pass: a pipeline takes the whole local batch at once and cuts it itself."""
    if plan.pipeline_parallel == 1:
        return 1
    return job.global_batch // (plan.data_parallel * plan.micro_batch)


def _maxtext_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether MaxText has options for all of a plan.

    Parameters are divided over all chips that tensor, context and expert ranks leave; there is no other sharding.
    """
    return (
        plan.pipeline_parallel == 1
        and (plan.sharding == "zero3" or plan.data_parallel * plan.context_parallel == 1)
        and plan.expert_tensor_parallel in (0, 1, plan.tensor_parallel)
        and plan.data_parallel % plan.expert_parallel == 0
        and plan.recompute in _MAXTEXT_RECOMPUTES
        and plan.recompute_layers < 0
        and job.compute_dtype == "bf16"
        and job.optimizer in _MAXTEXT_OPTIMIZERS
        and not plan.offload_activations
    )


def maxtext_flags(job: TrainingJob, plan: TrainingPlan, num_steps: int = 0) -> str:
    """Return the options of MaxText's trainer; the remaining chips, within slices and across them, divide parameters.

    A micro-batch is a batch per device times the devices; tensor and context ranks share a sequence.

    Source: AI-Hypercomputer/maxtext, maxtext/configs/base.yml, which this module reads first (configs/pyconfig.py).
    """
    sharing = plan.tensor_parallel * plan.context_parallel
    inside = plan.shard_group // plan.context_parallel if plan.shard_group else 0
    flags = [
        "python3 -m maxtext.trainers.pre_train.train run_name=RUN base_output_directory=OUTPUT",
        # Without a type of data set the release trains on random tokens, and without a tokenizer it reads no text.
        f"model_name={flavor_of('maxtext', job.model.id) or 'MODEL'} dataset_type=tfds dataset_path=DATA",
        f"tokenizer_type=huggingface tokenizer_path={weights_of(job.model) or 'TOKENIZER'}",
        f"per_device_batch_size={plan.micro_batch / sharing:g}",
        f"gradient_accumulation_steps={job.global_batch // (plan.data_parallel * plan.micro_batch)}",
        f"max_target_length={job.sequence_tokens} dtype=bfloat16",
        f"opt_type={_MAXTEXT_OPTIMIZERS[job.optimizer]} remat_policy={_MAXTEXT_RECOMPUTES[plan.recompute]}",
        f"ici_tensor_parallelism={plan.tensor_parallel} ici_context_parallelism={plan.context_parallel}",
    ]
    if model_limits(job.model).num_experts:
        flags.append(f"ici_expert_parallelism={plan.expert_parallel}")
    if inside:
        flags.append(f"ici_fsdp_parallelism={inside // plan.expert_parallel} ici_data_parallelism=-1")
    else:
        flags.append("ici_fsdp_parallelism=-1 dcn_data_parallelism=1 dcn_fsdp_parallelism=-1")
    for part, held in (("optimizer", plan.offload_optimizer), ("parameter", plan.offload_parameters)):
        flags += [f"{part}_memory_host_offload=True"] if held else []
    flags += [f"steps={num_steps}"] if num_steps else []
    return " ".join(flags)
