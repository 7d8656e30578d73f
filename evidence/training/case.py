"""Published training run as a case: its parsed conditions, without measured values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, cast

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator
from advisor.evidence.prediction import UnsupportedCaseError
from advisor.evidence.table import Cells
from advisor.evidence.training.cluster import cluster_of
from advisor.evidence.training.frameworks import (
    adapter_features,
    default_features,
    family_of,
    optimizer_of,
    parameter_features,
    schedule_of,
    virtual_tokens,
)
from advisor.evidence.training.model import model_of
from advisor.evidence.training.recipes import recipe_of, usual_dispatcher
from advisor.simulator.graph.model import num_experts
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.job import Method, TrainingJob
from advisor.simulator.training.plan import RECOMPUTES, Sharding, TrainingPlan
from advisor.simulator.training.release_months import release_month
from advisor.simulator.training.releases import features_of_compilation
from advisor.simulator.training.switches import (
    OTHER_WORDS,
    Switches,
    read_switches,
    switches_named,
    words_of,
)

INPUT_COLUMNS: Final = (
    "case_id",
    "date",
    "framework",
    "framework_version",
    "model",
    "params_b",
    "active_params_b",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "ffn",
    "vocab",
    "gpu",
    "gpu_mem_gb",
    "power_cap_w",
    "n_gpus",
    "gpus_per_node",
    "interconnect",
    "precision",
    "seq_len",
    "global_batch_seqs",
    "micro_batch",
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "dp",
    "sharding",
    "shard_group",
    "recompute",
    "compile",
    "finetune",
    "lora_rank",
    "optimizer",
    "reduced_layers",
    "grad_accum",
    "local_batch",
    "packed",
    "mean_seq_len",
    "act_offload",
    "async_tp",
    "pp_schedule",
    "mem_bw_tb_s",
    "trainable_params",
    "features",
    "peak_mem_kind",
)
"""Columns that a prediction may read; tier, group, source, source_ref, notes and measured values are not among them."""

METRICS: Final = (
    "tokens_per_s_per_gpu",
    "tflops_per_gpu",
    "mfu",
    "step_time_s",
    "time_to_train_min",
    "peak_mem_gb",
    "oom",
)
"""Columns that are predicted, and compared if they were measured."""

_SHARDING: Final[Mapping[str, Sharding]] = {
    "none": "none",
    "dist_opt": "zero1",
    "zero1": "zero1",
    "zero2": "zero2",
    "zero3": "zero3",
    "fsdp": "zero3",
    "hsdp": "zero3",
}
_PRECISIONS: Final = ("bf16", "fp16", "fp32", "tf32", "fp8", "mxfp8", "nvfp4", "int8")
_PRECISION_PARTS: Final = (
    ("mxfp8", "mxfp8"),
    ("fp8", "fp8"),
    ("fp4", "nvfp4"),
    ("bf16", "bf16"),
    ("16", "fp16"),
)
"""Format by a part of its name, for names that are not formats themselves (fp8-tensorwise, bf16-mixed); the first part
that the name contains decides."""
_DEFAULT_SEQUENCE: Final = {"maxtext": 2048}
_ROUNDS: Final = 8
_DEFAULT_RANK: Final = 16
_ULYSSES_ONLY: Final = ("peft",)
"""Families whose only context parallelism exchanges heads: recipes on transformers (ms-swift, XTuner, axolotl)."""


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """One training run to predict."""

    case_id: str
    job: TrainingJob
    plan: TrainingPlan
    cluster: TrainingCluster
    num_accelerators: int
    finetune: str = "pretrain"
    peak_mem_kind: str = ""
    """Kind of a peak memory figure: allocated, reserved, active or unspecified."""
    grad_accumulation: int | None = None
    """Micro-batches of one data-parallel rank and step; None if not stated."""
    unread: tuple[str, ...] = ()
    """Words among the row's features for which the simulator has no mechanism."""
    unstated: frozenset[str] = field(default_factory=frozenset)
    """Knobs that the row leaves open, for which plan and job hold a placeholder: accelerator, num_accelerators,
    precision, sequence_tokens, global_batch, micro_batch, layout (tensor, pipeline and context parallelism),
    data_parallel, virtual_stages, sharding, recompute, shape."""


def parse_case(row: Mapping[str, str], row_number: int) -> TrainingCase:
    """Return a case from a CSV row; blanks mean unknown.

    Raises: InputFileError: a field is not a number of the right kind; names row and field. UnsupportedCaseError: the
    size of the model is unknown.

    Columns: see docs/training-time.md.
    """
    cells = Cells(row, row_number)
    unstated: set[str] = set()
    cluster, num_accelerators = cluster_of(cells, unstated)
    family = family_of(cells.text("framework"), cells.text("sharding"))
    plan = _plan(cells, num_accelerators, cluster.accelerator.node_size, family, unstated)
    plan, job = _job(cells, plan, cluster.accelerator, family, unstated)
    if cells.degree("ep") is None and "layout" not in unstated:
        plan = replace(plan, expert_parallel=_expert_parallel(job, plan, cluster.domain))
    return TrainingCase(
        case_id=cells.text("case_id") or f"row-{row_number}",
        job=job,
        plan=plan,
        cluster=cluster,
        num_accelerators=num_accelerators,
        finetune=cells.text("finetune") or "pretrain",
        peak_mem_kind=cells.text("peak_mem_kind"),
        grad_accumulation=cells.degree("grad_accum"),
        unread=_switches(cells).unknown,
        unstated=frozenset(unstated),
    )


def _plan(
    cells: Cells, num_accelerators: int, node_size: int, family: str, unstated: set[str]
) -> TrainingPlan:
    tp, pp, cp = (cells.degree(name) or 1 for name in ("tp", "pp", "cp"))
    dp = cells.degree("dp")
    switches = _switches(cells)
    tp, dp = _chips(cells, num_accelerators, tp, pp, cp, dp)
    if dp is None:
        dp = max(1, num_accelerators // (tp * pp * cp))
    if tp * pp * cp * dp != num_accelerators:
        # The source counts other units (nodes, cores, replicas): degrees that divide the model count before copies.
        unstated.add("data_parallel")
        dp = max(1, num_accelerators // (tp * pp * cp))
    if num_accelerators > 1 and not any(cells.text(name) for name in ("tp", "pp", "dp", "sharding")):
        unstated.add("layout")
    if not cells.text("recompute"):
        unstated.add("recompute")
    recompute = cells.text("recompute") or "none"
    vpp = cells.degree("vpp") or 1
    recipes = not cells.text("framework").casefold().startswith("megatron-lm")
    if (
        pp > 1
        and not cells.text("vpp")
        and family == "megatron"
        and recipes
        and cells.text("framework_version")
    ):
        unstated.add("virtual_stages")
    schedule = schedule_of(cells.text("pp_schedule"), cells.text("framework"), vpp) if pp > 1 else "1f1b"
    return TrainingPlan(
        tensor_parallel=tp,
        pipeline_parallel=pp,
        virtual_stages=max(vpp, 2) if schedule in ("interleaved", "zbv") else 1,
        context_parallel=cp,
        expert_parallel=cells.degree("ep") or 1,
        expert_tensor_parallel=cells.degree("etp") or 0,
        data_parallel=dp,
        micro_batch=cells.degree("micro_batch") or 1,
        sharding=_sharding(cells, dp * cp, family, unstated),
        shard_group=_shard_group(cells, tp, dp * cp, node_size, unstated),
        recompute=recompute if recompute in RECOMPUTES else "full",
        schedule=schedule,
        sequence_parallel=tp > 1
        and (family == "megatron" or recompute == "selective" or family == "torchtitan"),
        offload_optimizer="offload" in cells.text("optimizer").casefold() or switches.offloads_optimizer,
        offload_activations=bool(cells.flag("act_offload")) or switches.offloads_activations,
    )


def _words(cells: Cells) -> list[str]:
    """Return the words of a row for its switches, those of its framework's name among them."""
    named = [word for word in words_of(cells.text("framework")) if switches_named(word)]
    return [*words_of(cells.text("features")), *named]


def _switches(cells: Cells) -> Switches:
    return read_switches(_words(cells))


def _chips(
    cells: Cells, num_accelerators: int, tp: int, pp: int, cp: int, dp: int | None
) -> tuple[int, int | None]:
    """Return degrees in chips if the row counts cores: the cores of a chip are first of all a tensor-parallel group."""
    if "degrees_count_cores" not in _words(cells) or dp is None:
        return tp, dp
    cores = max(1, tp * pp * cp * dp // num_accelerators)
    inside = min(tp, cores)
    return tp // inside, dp // (cores // inside)


def _shard_group(cells: Cells, tp: int, ranks: int, node_size: int, unstated: set[str]) -> int:
    """Ranks that a shard spans; 0 means all. A number below a node's accelerators is a count of replicas or of
    dimensions: parameters are copied between nodes, not inside one."""
    stated = cells.degree("shard_group") or 0
    in_node = max(1, (cells.degree("gpus_per_node") or node_size) // tp)
    if stated and stated < min(ranks, in_node):
        unstated.add("shard_group")
        return 0
    return stated


def _sharding(cells: Cells, ranks: int, family: str, unstated: set[str]) -> Sharding:
    text = cells.text("sharding")
    if text in _SHARDING:
        return _SHARDING[text]
    unstated.add("sharding")
    if ranks == 1:
        return "none"
    return {"megatron": "zero1", "deepspeed": "zero1", "peft": "none"}.get(family, "zero3")  # type: ignore[return-value]


def _job(
    cells: Cells, plan: TrainingPlan, accelerator: Accelerator, family: str, unstated: set[str]
) -> tuple[TrainingPlan, TrainingJob]:
    try:
        model, assumed_shape = model_of(cells)
    except AdvisorError as error:
        raise UnsupportedCaseError(error.what) from error
    if assumed_shape:
        unstated.add("shape")
    sequence = cells.degree("seq_len")
    if sequence is None:
        unstated.add("sequence_tokens")
        sequence = _DEFAULT_SEQUENCE.get(family, min(4096, model.max_context_tokens or 4096))
    plan, global_batch = _batches(cells, plan, family, unstated)
    text = cells.text("finetune") or "pretrain"
    method: Method = "full"
    if text in ("lora", "qlora", "dora"):
        method = cast(Method, text)
    elif text.startswith("peft:"):
        method = "ia3" if text == "peft:ia3" else "lora"
    rank = cells.degree("lora_rank") or (_DEFAULT_RANK if method != "full" else 0)
    optimizer, paged = optimizer_of(cells.text("optimizer"))
    version = cells.text("framework_version")
    date = cells.text("date")
    switches = _switches(cells)
    framework = switches.software(cells.text("framework"))
    features = set(_words(cells)) & set(OTHER_WORDS)
    features |= (
        switches.features | default_features(framework, family, version, date) | adapter_features(text)
    )
    if plan.context_parallel > 1 and family in _ULYSSES_ONLY:
        features |= {"ulysses_sp"}
    precision = _precision(cells, accelerator, family, unstated)
    if family == "megatron" and num_experts(model) and "no_overlap" not in features:
        recipe = recipe_of(model.id, accelerator.id, precision, version)
        features |= recipe.features if recipe else usual_dispatcher(accelerator.id, version)
        if recipe:
            unstated.discard("sharding")
            model = (
                model.model_copy(update={"mtp_layers": recipe.later_tokens}) if recipe.later_tokens else model
            )
        if recipe and "recompute" in unstated:
            unstated.discard("recompute")
            plan = replace(plan, recompute="modules" if recipe.recomputes else "none")
    blockwise = model.fp8_scaling == "block" and accelerator.architecture == "hopper"
    features |= parameter_features(family, frozenset(features), precision, blockwise=blockwise)
    features |= {name for name in ("compile", "async_tp") if cells.flag(name)}
    features |= features_of_compilation(
        family, features, release_month(family, version) or release_month(family, date)
    )
    features |= {"paged_optimizer"} if paged else set()
    features |= {"fused_optimizer"} if "fused" in cells.text("optimizer").casefold() else set()
    return plan, TrainingJob(
        model=model,
        sequence_tokens=sequence,
        global_batch=global_batch,
        compute_dtype=precision,
        framework=family,
        software=framework,
        framework_version=version,
        date=date,
        method=method,
        lora_rank=rank,
        trainable_parameters=cells.number("trainable_params") or 0.0,
        optimizer=optimizer,
        virtual_tokens=virtual_tokens(text, cells.number("trainable_params") or 0.0, model),
        mean_sequence_tokens=0.0 if cells.flag("packed") else cells.number("mean_seq_len") or 0.0,
        features=frozenset(features),
    )


def usual_accumulation(plan: TrainingPlan) -> int:
    """Micro-batches of a rank and step if the row states none: one, or enough that a pipeline's bubble stays small."""
    return _ROUNDS * plan.pipeline_parallel if plan.pipeline_parallel > 1 else 1


def _expert_parallel(job: TrainingJob, plan: TrainingPlan, domain: int) -> int:
    """Ranks over which a Megatron or DeepSpeed run spreads experts if it does not state it: as many as divide them
    within the fast fabric, all if DeepEP moves the tokens. Other frameworks shard experts like all other parameters."""
    if "deepep" in job.features:
        return math.gcd(num_experts(job.model), plan.data_parallel * plan.context_parallel) or 1
    if job.framework not in ("megatron", "deepspeed") or plan.sharding == "zero3":
        return 1
    ranks = math.gcd(plan.data_parallel * plan.context_parallel, max(1, domain // plan.tensor_parallel))
    return math.gcd(num_experts(job.model), ranks) or 1


def _batches(cells: Cells, plan: TrainingPlan, family: str, unstated: set[str]) -> tuple[TrainingPlan, int]:
    """Return the plan with its micro-batch, and the global batch [sequences], each from the stated value of the
    others."""
    micro = cells.degree("micro_batch")
    whole = cells.degree("global_batch_seqs")
    accumulation = cells.degree("grad_accum")
    local = cells.degree("local_batch")
    dp = plan.data_parallel
    if micro is None and local is not None and plan.pipeline_parallel == 1:
        micro = local
    if micro is None and local is not None and family == "torchtitan":
        # torchtitan cuts a rank's batch into as many micro-batches as pipeline ranks (pipeline_parallel_degree).
        micro = max(1, local // plan.pipeline_parallel)
    if (
        micro is None
        and "layout" not in unstated
        and whole
        and accumulation
        and whole % (dp * accumulation) == 0
    ):
        micro = whole // (dp * accumulation)
    if family == "maxtext" and micro is None and whole:
        # MaxText runs a batch at once: a chip's part of it, or a piece of a sequence if there are more chips.
        if whole < dp and dp % whole == 0 and cells.degree("cp") is None:
            unstated.add("context_parallel")
            plan = replace(plan, context_parallel=plan.context_parallel * dp // whole, data_parallel=whole)
            dp = whole
        micro = max(1, whole // (dp * (accumulation or 1)))
    if micro is None:
        unstated.add("micro_batch")
        micro = 1
    if whole is None:
        unstated.add("global_batch")
        whole = dp * (accumulation or usual_accumulation(plan)) * (local or micro)
    return replace(plan, micro_batch=micro), whole


def _precision(cells: Cells, accelerator: Accelerator, family: str, unstated: set[str]) -> str:
    text = cells.text("precision").lower()
    if text in _PRECISIONS:
        return text
    if text and not any(part in text for part, _ in _PRECISION_PARTS):
        raise UnsupportedCaseError(f"precision {text!r} is not modelled")
    unstated.add("precision")
    if "accelerator" in unstated:
        return "bf16"
    for part, precision in _PRECISION_PARTS:
        if part in text:
            return precision
    # NVIDIA's own recipes train in fp8 if the chip has it; other frameworks run in bf16 by default.
    has_fp8 = "fp8" in accelerator.peak_flop_per_s
    return "fp8" if family in ("megatron", "deepspeed") and has_fp8 else "bf16"
