"""Framework of a run by its name: its family, and the switches that it has on by default."""

import re
from collections.abc import Mapping
from typing import Final

from advisor.catalog.schema import Model
from advisor.simulator.training.families import named_family
from advisor.simulator.training.job import OPTIMIZERS, Optimizer
from advisor.simulator.training.plan import Schedule
from advisor.simulator.training.releases import features_at

_SCHEDULES: Final[Mapping[Schedule, tuple[str, ...]]] = {
    "dualpipe": ("dualpipe",),
    "zbv": ("zbv", "zerobubblev", "vschedule"),
    "zb_h1": ("zbh1", "zerobubble"),
    "interleaved": ("interleaved", "vpp"),
    "gpipe": ("gpipe",),
}
"""Parts of a run's word for its schedule, by schedule; the first match applies, and 1F1B if there is none."""


_ADAPTER_FEATURES: Final = {
    "adapters_beside_matrices": (
        "prompt_tuning",
        "p_tuning",
        "prefix_tuning",
        "trainable_tokens",
        "ln_tuning",
        "beft",
    ),
    "whole_matrix_adapters": ("loha", "lokr", "hira", "fourierft", "waveft", "randlora", "peanut"),
}
"""Methods of PEFT by the work of their forward pass: none at matrices, or one more matrix of the whole size."""


def adapter_features(method: str) -> frozenset[str]:
    """Return the features of a job whose adapters are of one of PEFT's methods (`peft:loha`).

    Assumes: methods that are not listed cost what LoRA costs.
    Source: huggingface/peft, tuners/*/layer.py: forward.
    """
    name = method.removeprefix("peft:")
    return frozenset(feature for feature, names in _ADAPTER_FEATURES.items() if name in names)


def family_of(framework: str, sharding: str) -> str:
    """Return the family of a framework, as `TrainingJob.framework` names it.

    Assumes: what is not recognised is plain PyTorch (fsdp), unless it divides the optimizer alone.
    """
    if named := named_family(framework):
        return named
    if "torch" in framework.casefold() or sharding in ("fsdp", "hsdp", "zero3", ""):
        return "fsdp"
    return "deepspeed"


def schedule_of(text: str, framework: str, chunks: int) -> Schedule:
    """Return the schedule of a pipeline by the run's name for it (1F1B, interleaved_1f1b, ZB-H1, ZBV, DualPipe).

    Assumes: without a word it is the framework's own: DualPipe in HAI-LLM, interleaved with chunks, else 1F1B.
    Source: DeepSeek-V3 (arXiv:2412.19437), section 3.2; zero-bubble schedules by their names in arXiv:2401.10241.
    """
    words = re.sub(r"[^a-z0-9]", "", text.casefold())
    for name, parts in _SCHEDULES.items():
        if any(part in words for part in parts):
            return name
    if not words and "hai" in re.split(r"[^a-z]", framework.casefold()):
        return "dualpipe"
    return "interleaved" if chunks > 1 else "1f1b"


def default_features(framework: str, family: str, version: str, date: str) -> frozenset[str]:
    """Return the switches that a framework of this date has if the row states none: `unfused_attention`, `no_overlap`.

    Megatron-LM by itself overlaps nothing but weight gradients with sums along the sequence and moves each token once
    per expert; NVIDIA's recipes (a container's version) set its options and sum gradients in 16 bits
    (`bf16_grad_reduce`). AutoModel's benchmarks replace the router by one that gives each token experts one after the
    other (`neighbouring_experts`).

    Source: NVIDIA/Megatron-LM megatron/training/arguments.py: --use-flash-attn, --transformer-impl, --tp-comm-overlap,
        --overlap-grad-reduce, --overlap-param-gather, --moe-token-dispatcher-type; NVIDIA-NeMo/Megatron-Bridge
        scripts/performance, ddp.grad_reduce_in_fp32; NVIDIA-NeMo/Automodel, examples/benchmark/configs
        (fake_balanced_gate).
    """
    plain_megatron = framework.casefold().startswith("megatron-lm") and not version
    if plain_megatron and (old := features_at(family, date)):
        return old
    if family == "megatron" and framework.casefold().startswith("megatron-lm"):
        return frozenset({"no_overlap", "alltoall_dispatcher"})
    if family == "megatron" and version:
        return frozenset({"bf16_grad_reduce"})
    if "automodel" in framework.casefold():
        return frozenset({"neighbouring_experts"})
    if "liger" in framework.casefold():
        return frozenset({"linear_ce"})
    return frozenset()


def parameter_features(
    family: str, features: frozenset[str], precision: str, *, blockwise: bool
) -> frozenset[str]:
    """Return the switch that NVIDIA's recipes set in 8 bits, but with scales for blocks on Hopper: parameters are held
    and gathered in fp8.

    Source: NVIDIA-NeMo/Megatron-Bridge v0.4.2, src/megatron/bridge/training/mixed_precision.py (fp8_param_gather: on in
        fp8 and mxfp8, off in nvfp4 and with subchannel scaling); mlcommons/training_results_v4.0, NVIDIA's
        llama2_70b_lora (fp8_params).
    """
    recipe = family == "megatron" and "no_overlap" not in features
    return frozenset({"fp8_allgather"} if recipe and precision in ("fp8", "mxfp8") and not blockwise else ())


def optimizer_of(text: str) -> tuple[Optimizer, bool]:
    """Return the optimizer that a text names, and whether its state is paged to the host.

    Assumes: a name that is not recognised is AdamW.

    Source: bitsandbytes (PagedAdamW8bit) and peft (lora-fa) for the names.
    """
    words = text.casefold().replace("-", "_").replace("_", "")
    paged = "paged" in words
    if "8bit" in words:
        return "adamw_8bit", paged
    for name in OPTIMIZERS:
        if name.replace("_", "") in words:
            return name, paged
    return "adamw", paged


def virtual_tokens(method: str, trainable_parameters: float, model: Model) -> int:
    """Number of learned tokens that prompt tuning puts in front of every sequence: its parameters over the hidden
    size.

    Source: arXiv:2104.08691; huggingface/peft tuners/prompt_tuning/model.py.
    """
    return round(trainable_parameters / model.hidden_size) if method == "peft:prompt_tuning" else 0
