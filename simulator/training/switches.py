"""Switches of a training run: the words that users and published tables have for them, as features of a job."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

SWITCHES: Final[Mapping[str, str]] = {
    "act_offload": "inputs of layers wait in host memory",
    "adapters_attention": "adapters are on the matrices of attention alone",
    "adapters_query_value": "adapters are on queries and values alone",
    "async_tp": "multiplications are cut into pieces that travel meanwhile (torchtitan)",
    "autocast": "fp32 weights, and every operator casts",
    "chunked_ce": "the loss is computed in chunks of tokens",
    "compile": "layers are compiled (torch.compile)",
    "deepep": "tokens of experts travel with DeepEP",
    "flash_attention": "attention stores no scores, where Transformers' own would",
    "fp32_grad_reduce": "gradients are summed in fp32",
    "fp32_logits": "the logits are in fp32",
    "fp32_params": "16-bit copies are gathered from fp32 shards",
    "fp8_allgather": "parameters are gathered in fp8",
    "fused_ce": "the loss is one fused or compiled kernel over the logits",
    "fused_optimizer": "the optimizer is one kernel",
    "liger": "Liger's kernels, its fused loss included",
    "later_tokens": "modules that predict later tokens are trained too (multi-token prediction)",
    "linear_ce": "head and loss are one kernel that never holds all logits (Liger, Cut Cross Entropy, tiled loss)",
    "optim_in_backward": "each gradient is applied and dropped as soon as it is known",
    "optim_offload": "optimizer states in host memory",
    "paged_optimizer": "optimizer states page between the accelerator and the host",
    "tiled_mlp": "the feed-forward part runs one tile of the sequence after another",
    "transformer_engine": "Transformer Engine's fused layers",
    "ulysses_sp": "context parallelism exchanges heads (Ulysses) instead of passing keys in a ring",
    "unfused_ce": "the loss is computed operator by operator",
}
"""Meaning of each switch, by the name that `simulate train --features` prints."""

OTHER_WORDS: Final = (
    "adapters_all_linear",
    "adapters_beside_matrices",
    "alltoall_dispatcher",
    "bf16_grad_reduce",
    "bf16_states",
    "degrees_count_cores",
    "dropout",
    "graphed_mixers",
    "graphed_routers",
    "graphed_step",
    "hybrid_dispatcher",
    "neighbouring_experts",
    "no_overlap",
    "overlapped_experts",
    "pad_to_batch_max",
    "recomputed_core",
    "recomputed_experts",
    "scalar_head",
    "single_quantization",
    "tiled_head",
    "unfused_attention",
    "untied_embeddings",
    "wide_tables",
    "whole_matrix_adapters",
)
"""Words of a published run's conditions that act without being switches that a user types: a framework's or a recipe's
own. Sequences of which a mean length is stated are padded to the longest of their batch (`pad_to_batch_max`)."""

_BUNDLES: Final[Mapping[str, tuple[str, ...]]] = {
    "alst": ("ulysses_sp", "tiled_mlp", "linear_ce", "act_offload"),
    "arcticlongsequencetraining": ("ulysses_sp", "tiled_mlp", "linear_ce", "act_offload"),
}
"""Switches that one word stands for. Source: Arctic Long Sequence Training (arXiv:2506.13996), section 3."""

_LONGEST_NAME: Final = 4
"""Most words of the name of a switch: `activation checkpoint CPU offload`."""

_ALIASES: Final[Mapping[str, str]] = {
    "activationoffload": "act_offload",
    "activationoffloading": "act_offload",
    "activationcheckpointoffload": "act_offload",
    "activationcheckpointoffloading": "act_offload",
    "actckptoffload": "act_offload",
    "ckptoffload": "act_offload",
    "checkpointoffload": "act_offload",
    "offloadactivations": "act_offload",
    "alstulysses": "ulysses_sp",
    "ulysses": "ulysses_sp",
    "ulyssessequenceparallel": "ulysses_sp",
    "ulyssessequenceparallelism": "ulysses_sp",
    "deepspeedulysses": "ulysses_sp",
    "spulysses": "ulysses_sp",
    "tiledmlpcompute": "tiled_mlp",
    "tilemlp": "tiled_mlp",
    "mlptiling": "tiled_mlp",
    "sequencetiledmlp": "tiled_mlp",
    "tiledloss": "linear_ce",
    "tiledlogits": "linear_ce",
    "tiledlogitsloss": "linear_ce",
    "tiledce": "linear_ce",
    "tiledfusedlogitsloss": "linear_ce",
    "fusedlinearce": "linear_ce",
    "fusedlinearcrossentropy": "linear_ce",
    "ligerce": "linear_ce",
    "ligerfusedce": "linear_ce",
    "ligerfusedloss": "linear_ce",
    "ligerfusedlinearcrossentropy": "linear_ce",
    "ligerflce": "linear_ce",
    "flce": "linear_ce",
    "cutcrossentropy": "linear_ce",
    "cce": "linear_ce",
    "ligerkernel": "liger",
    "ligerkernels": "liger",
    "chunkedcrossentropy": "chunked_ce",
    "chunkedloss": "chunked_ce",
    "fusedcrossentropy": "fused_ce",
    "compiledloss": "fused_ce",
    "torchcompile": "compile",
    "compiled": "compile",
    "optimizeroffload": "optim_offload",
    "offloadoptimizer": "optim_offload",
    "optimizercpuoffload": "optim_offload",
    "optimcpuoffload": "optim_offload",
    "cpuoffload": "optim_offload",
    "adamoffload": "optim_offload",
    "optimizerinbackward": "optim_in_backward",
    "flashattn": "flash_attention",
    "flashattention2": "flash_attention",
    "fusedattention": "flash_attention",
    "fusedadamw": "fused_optimizer",
    "fusedadam": "fused_optimizer",
    "asynctp": "async_tp",
    "asynctensorparallel": "async_tp",
    "te": "transformer_engine",
    "mtp": "later_tokens",
    "multitokenprediction": "later_tokens",
}
"""Switches by other words for them, written without marks between letters."""


@dataclass(frozen=True, slots=True)
class Switches:
    """Switches of a run as they act: on the job, on the plan, on the name of its software."""

    features: frozenset[str] = frozenset()
    """Features of the job, as `TrainingJob.features` names them."""
    offloads_optimizer: bool = False
    offloads_activations: bool = False
    has_liger: bool = False
    unknown: tuple[str, ...] = ()
    """Words that no switch has, in their order."""

    def software(self, name: str) -> str:
        """Return the name of a software with the kernels that are put in: `DeepSpeed+HF` becomes one with Liger."""
        return f"{name} with Liger" if self.has_liger and "liger" not in name.casefold() else name


def words_of(text: str) -> list[str]:
    """Return the words of a text for its switches: names of several words stay together, marks between words go.

    Source: own definition.
    """
    parts = [part for part in re.split(r"[\s,;+|()]+", text) if part]
    found: list[str] = []
    while parts:
        longest = min(_LONGEST_NAME, len(parts))
        sizes = range(longest, 0, -1)
        size = next((size for size in sizes if switches_named(" ".join(parts[:size]))), 1)
        found.append(" ".join(parts[:size]))
        parts = parts[size:]
    return found


def switches_named(word: str) -> tuple[str, ...]:
    """Return the switches that a word stands for, of which a name of a whole method has several.

    Source: own definition.
    """
    named = switch_named(word)
    return (named,) if named else _BUNDLES.get(_plain(word), ())


def switch_named(word: str) -> str:
    """Return the switch that a word means, whatever its case and marks; empty if it means none.

    Source: own definition.
    """
    plain = _plain(word)
    return _BY_PLAIN.get(plain, "") or _ALIASES.get(plain, "")


def read_switches(words: Iterable[str]) -> Switches:
    """Return the switches of a run from its words for them. Source: own definition."""
    given = tuple(words)
    by_word = {word: switches_named(word) for word in given}
    named = {name for names in by_word.values() for name in names}
    features = frozenset(named) - {"act_offload", "optim_offload", "liger"}
    return Switches(
        features | ({"linear_ce"} if "liger" in named else frozenset()),
        offloads_optimizer="optim_offload" in named,
        offloads_activations="act_offload" in named,
        has_liger="liger" in named,
        unknown=tuple(word for word in given if not by_word[word] and word not in OTHER_WORDS),
    )


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.casefold())


_BY_PLAIN: Final = {_plain(name): name for name in SWITCHES}
