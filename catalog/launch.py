"""Start commands of engines: words of a command and options of a file, from an engine's record and settings."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Template
from typing import Any, Final, Literal

import yaml

from advisor.catalog.architectures import plugin_of
from advisor.catalog.dtypes import cache_halves
from advisor.catalog.errors import AdvisorError
from advisor.catalog.legible import Line
from advisor.catalog.published import SIXTEEN_BIT
from advisor.catalog.releases import version_key
from advisor.catalog.schema import Accelerator, Engine, LaunchFlags

PORT: Final = 8000
NODE_PORT: Final = 29500
"""Port at which the first machine of a replica waits for the others: the default of torch.distributed."""
_VISIBLE: Final = {
    "gaudi": "HABANA_VISIBLE_MODULES",
    "aws": "NEURON_RT_VISIBLE_CORES",
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "amd": "HIP_VISIBLE_DEVICES",
    "intel": "ZE_AFFINITY_MASK",
    "huawei": "ASCEND_RT_VISIBLE_DEVICES",
    "google": "TPU_VISIBLE_CHIPS",
}


@dataclass(frozen=True, slots=True)
class Guess:
    """Settings of speculative decoding as an engine takes them."""

    method: str
    """Method: mtp, eagle, ngram or draft."""
    num_tokens: int
    head: str = ""
    """Checkpoint of the head or of the draft model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """Settings with which a replica is started."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    weight_dtype: str = "bf16"
    checkpoint_dtype: str = "bf16"
    """Format in which the weights are stored."""
    kv_dtype: str = "bf16"
    own_kv_dtype: str = "bf16"
    """Format of the cache that the engine chooses for the checkpoint unless told otherwise."""
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int = 8192
    prefix_caching: bool | None = None
    """Whether prefix caching is on; None keeps the engine's default."""
    guess: Guess | None = None
    adapters: tuple[int, int, int] | None = None
    """LoRA adapters: number, rank, number at once; None without adapters."""
    adapted_matrices: Literal["all", "attention", "latent"] = "all"
    """Matrices that adapters may change where none is loaded at the start."""
    adapter_paths: tuple[tuple[str, str], ...] = ()
    """Adapters that were read, as name and path; none if only their number is known."""
    scaling_words: tuple[str, ...] = ()
    """Option that opens a context window beyond the native one."""
    runs_repository_code: bool = False
    """Whether the checkpoint loads only with Python code of its repository."""
    tokenizer: str = ""
    """Repository of the tokenizer; empty for that of the weights."""
    cache_tokens: int | None = None
    """Tokens that the planned caches hold, which sequences share; None if every sequence may be full."""
    memory_fraction: float | None = None
    """Fraction of the memory that the engine may use; None leaves its own."""
    num_nodes: int = 1
    """Number of machines that hold the replica."""
    dispatches: bool = False
    """Whether tokens go to the ranks of their experts alone, as they were priced."""
    takes_turns: bool = False
    """Whether two halves of a batch take turns to hide that exchange."""
    role: str = ""
    """Role in disaggregated serving: prefill or decode; empty otherwise."""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """Command that starts one replica, and the options that it reads from a file."""

    argv: tuple[Line, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    config_flag: str = ""
    lines: tuple[tuple[str, str], ...] = (("", ""),)
    """Words before and after the command, for each process that a person starts: one, or one for each machine."""

    @property
    def command(self) -> str:
        """Shell command (bash, if there is a file of options); of a replica on several machines, a line for each."""
        line = shlex.join(self.argv)
        first = ""
        if self.config and any(before for before, _ in self.lines):
            # Processes that MPI starts do not inherit the open file of a process substitution.
            first = f"echo {shlex.quote(json.dumps(self.config))} > engine.yaml\n"
            line = f"{line} {self.config_flag} engine.yaml"
        elif self.config:
            line = f"{line} {self.config_flag} <(echo {shlex.quote(json.dumps(self.config))})"
        return first + "\n".join(f"{before} {line} {after}".strip() for before, after in self.lines)

    def words(self, config_path: str) -> tuple[Line, ...]:
        """Return the command's words with the path of the options file in place."""
        return (*self.argv, Line(self.config_flag), Line(config_path)) if self.config else self.argv


def visible_variable(accelerator: Accelerator) -> str:
    """Return the name of the environment variable that gives a process its accelerators."""
    return _VISIBLE.get(plugin_of(accelerator)) or _VISIBLE.get(accelerator.vendor, "")


def device_words(engine: Engine, accelerator: Accelerator, count: int, on_machine: int) -> str:
    """Return the assignment in front of a command that gives a replica `count` of the devices of its machine; empty for
    engines that take no more than they are told, and where it has them all.

    Source: engines whose accelerators hold layers in turn divide a model among all that they see.
    """
    if not engine.holds_layers_in_turn or count >= on_machine or not visible_variable(accelerator):
        return ""
    return f"{visible_variable(accelerator)}={','.join(map(str, range(count)))}"


def launch(engine: Engine, model: str, settings: LaunchSettings) -> LaunchCommand:
    """Return the start command of the engine for a layout and precision.

    A weight format that the checkpoint already has needs no flag; another one needs the engine's flag for quantising on
    loading, if it has one. fp16 is always named: engines take bf16 checkpoints as they are.

    Assumes: one command per replica, or one for each machine of a replica that several hold.
    Raises: InputFileError: a word is not one line of printable characters.
    Source: the engines' command-line references, cited in each record.
    """
    flags = engine.flags
    converts = (
        settings.weight_dtype not in (settings.checkpoint_dtype, "bf16") or settings.weight_dtype == "fp16"
    )
    num_seqs = settings.max_num_seqs or engine.max_num_seqs
    dp = settings.dp
    total = settings.max_model_len * num_seqs
    is_shared = bool(flags.shared_slots) and num_seqs > 1
    if is_shared and settings.cache_tokens is not None:
        total = max(settings.max_model_len, min(total, settings.cache_tokens))
    ep = settings.ep
    is_16_bit = settings.kv_dtype in SIXTEEN_BIT
    is_kv_said = not (is_16_bit and settings.own_kv_dtype in SIXTEEN_BIT)
    values = {
        "model": model,
        "tp": settings.tp * dp if flags.tp_counts_dp_ranks else settings.tp,
        "pp": settings.pp,
        "dp": dp,
        "tp_flag": flags.tensor_parallel if settings.tp > 1 else "",
        "dp_flag": flags.data_parallel.format(dp=dp) if dp > 1 else "",
        "ep_flag": flags.expert_parallel.format(ep=ep) if ep > 1 else "",
        "dtype_flag": (flags.weights if converts else flags.stored).get(settings.weight_dtype, ""),
        "kv_flag": _kv_flag(flags, "bf16" if is_16_bit else settings.kv_dtype) if is_kv_said else "",
        "max_num_seqs": -(-num_seqs // dp) if engine.token_budget_of == "rank" else num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens or engine.max_num_batched_tokens,
        "max_model_len": settings.max_model_len,
        "total_context": total,
    }
    words: list[str] = []
    for word in engine.launch_template.split():
        filled = word.format(**values)
        words += shlex.split(filled) if word.endswith("_flag}") else [filled]
    if flags.repository and _is_on_hub(model):
        words = [flags.repository if word == flags.local else word for word in words]
    words += [flags.shared_slots] if is_shared else []
    if settings.memory_fraction is not None:
        words += shlex.split(flags.memory_fraction.format(fraction=f"{settings.memory_fraction:g}"))
    words += shlex.split(flags.dispatch) if settings.dispatches else []
    words += shlex.split(flags.micro_batches) if settings.takes_turns else []
    words += settings.scaling_words
    words += [flags.repository_code] if settings.runs_repository_code and flags.repository_code else []
    words += [flags.tokenizer, settings.tokenizer] if settings.tokenizer and flags.tokenizer else []
    more, sections = _lever_options(engine, settings)
    sections += [
        yaml.safe_load(line)
        for line in (flags.yaml_data_parallel if dp > 1 else "", flags.yaml_kv.get(settings.kv_dtype, ""))
        if line
    ]
    argv = tuple(Line(word, "a word of the start command") for word in (*words, *more))
    return LaunchCommand(argv, _merge_options(sections), flags.yaml_file, _node_lines(engine, settings))


def _kv_flag(flags: LaunchFlags, kv_dtype: str) -> str:
    """Return the options that set the format of the KV cache; empty if the engine has none for it."""
    if not flags.kv_halves or kv_dtype in SIXTEEN_BIT:
        return flags.kv.get(kv_dtype, "")
    keys, values = (flags.kv_words.get(half, half) for half in cache_halves(kv_dtype))
    return flags.kv_halves.format(keys=keys, values=values)


def plugin_for(engine: Engine, weight_dtype: str, release: str = "") -> str:
    """Return the package that must be installed with a release of the engine to load weights in a format; empty if
    none is needed. Without `release`, the one whose options are known counts.

    Source: data/support/engines.csv, rows of formats that came out of an engine's core.
    """
    flags = engine.flags
    since = flags.plugins_since
    is_built_in = bool(release and since) and version_key(release) < version_key(since)
    return "" if is_built_in else flags.plugins.get(weight_dtype, "")


def unsaid_parallelism(engine: Engine, *, tp: int, pp: int, dp: int, ep: int) -> str:
    """Return the kind of parallelism of a layout for which the engine's command has no words; empty if it has all."""
    flags = engine.flags
    template = engine.launch_template
    degrees = (
        ("tensor", tp, "{tp}" in template or flags.tensor_parallel),
        ("pipeline", pp, "{pp}" in template or engine.holds_layers_in_turn),
        ("data", dp, flags.data_parallel or flags.yaml_data_parallel),
        ("expert", ep, flags.expert_parallel),
    )
    return next((kind for kind, degree, words in degrees if degree > 1 and not words), "")


def _is_on_hub(name: str) -> bool:
    """Whether a name is that of a repository on a model hub, unlike any path."""
    return "/" in name and name[0] not in "./~"


def spans_machines(engine: Engine) -> bool:
    """Whether a way is known to start a replica of the engine on several machines."""
    return engine.flags.nodes is not None


def node_words(engine: Engine, num_nodes: int, per_node: int, *, rank: str, head: str) -> tuple[str, str]:
    """Return the words of every machine's command in a replica on several machines, and those of all but the first.

    `rank` and `head` are written as they are, so that they may be variables of a shell.

    Raises: AdvisorError: no such way is known for the engine.
    """
    nodes = engine.flags.nodes
    if nodes is None:
        raise AdvisorError(
            f"no way is known to start one replica of {engine.name} on {num_nodes} machines",
            fix=f"--max-gpus {per_node}, or --engine vllm",
        )
    values = {"nodes": num_nodes, "per_node": per_node, "rank": rank, "head": head, "port": NODE_PORT}
    return nodes.every.format(**values), nodes.workers


def _node_lines(engine: Engine, settings: LaunchSettings) -> tuple[tuple[str, str], ...]:
    """Return the words before and after the command for each machine of a replica, called HEAD, HOST_2 and so on."""
    nodes = engine.flags.nodes
    count = settings.num_nodes
    if count == 1 or nodes is None:
        return (("", ""),)
    per_node = settings.tp * settings.pp * settings.dp // count
    if nodes.launcher:
        hosts = ",".join(
            f"{'HEAD' if place == 1 else f'HOST_{place}'}:{per_node}" for place in range(1, count + 1)
        )
        every, _ = node_words(engine, count, per_node, rank="", head="HEAD")
        return ((f"mpirun -n {per_node * count} -H {hosts} {nodes.launcher}", every),)
    found = []
    for rank in range(count):
        every, workers = node_words(engine, count, per_node, rank=str(rank), head="HEAD")
        found.append(("", f"{every} {workers if rank else ''}".strip()))
    return tuple(found)


def _lever_options(engine: Engine, settings: LaunchSettings) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the words and options-file sections for prefix caching, speculation, adapters and pools."""
    flags = engine.flags
    templates = []
    loaded = ""
    if settings.prefix_caching is not None and settings.prefix_caching != engine.prefix_caching:
        on = settings.prefix_caching
        templates.append(
            (flags.prefix_caching_on, "") if on else (flags.prefix_caching_off, flags.yaml_prefix_off)
        )
    values: dict[str, object] = {}
    if settings.guess is not None:
        guess = settings.guess
        option = flags.repository_head if _is_on_hub(guess.head) else flags.local_head
        values = {"tokens": guess.num_tokens, "verified": guess.num_tokens + 1, "head": guess.head}
        values["head_option"] = option
        templates.append(
            (flags.speculation.get(guess.method, ""), flags.yaml_speculation.get(guess.method, ""))
        )
        # Options that scale positions open the head's window too.
        if guess.method == "eagle" and settings.max_model_len and not settings.scaling_words:
            templates.append((flags.head_window, ""))
    if settings.adapters is not None:
        count, rank, slots = settings.adapters
        values |= {"count": count, "rank": _usual_rank(rank), "slots": slots}
        paths = " ".join(
            shlex.quote(flags.adapter_path.format(name=name.replace("=", "-"), path=path))
            for name, path in settings.adapter_paths
        )
        loaded = (
            Template(flags.adapter_paths).substitute(adapters=paths) if paths and flags.adapter_paths else ""
        )
        matrices = flags.adapted_matrices.get(settings.adapted_matrices, "")
        later = "" if loaded else Template(flags.later_adapters).substitute(matrices=matrices)
        templates.append((f"{flags.adapters} {later}", flags.yaml_adapters))
    values |= {"seqs": settings.max_num_seqs or engine.max_num_seqs, "context": settings.max_model_len}
    templates.append((flags.pools.get(settings.role, ""), flags.yaml_pools.get(settings.role, "")))
    words = [Template(word).substitute(values) for one, _ in templates for word in shlex.split(one)]
    words += shlex.split(loaded)
    return words, [_fill_variables(yaml.safe_load(line), values) for _, line in templates if line]


def _fill_variables(option: Any, values: Mapping[str, object]) -> Any:
    """Return an option of a file with its variables filled in. The option is already parsed, so no value is read as
    YAML."""
    if isinstance(option, dict):
        return {name: _fill_variables(inner, values) for name, inner in option.items()}
    if not isinstance(option, str):
        return option
    is_variable = option.startswith("$") and option[1:] in values
    return values[option[1:]] if is_variable else Template(option).substitute(values)


def _usual_rank(rank: int) -> int:
    """Return the next LoRA rank that engines are built for. Source: vLLM's LoRAConfig, multiples of two up to 512."""
    return next((known for known in (8, 16, 32, 64, 128, 256, 320, 512) if known >= rank), rank)


def _merge_options(options: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the options of a file merged from its parts, which may name the same section."""
    merged: dict[str, Any] = {}
    for part in options:
        for key, value in part.items():
            inner = merged.get(key)
            merged[key] = {**inner, **value} if isinstance(inner, dict) else value
    return merged
