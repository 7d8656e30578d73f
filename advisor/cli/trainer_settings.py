"""Commands, settings and printed arguments of frameworks that train from scratch, as options of a training plan."""

import contextlib
import functools
import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.files import DATA_DIR, read_text, read_toml
from advisor.cli import launch_files
from advisor.cli.launchers import is_file, read_start, script_of
from advisor.cli.python_source import recipe_of_python

_LEAST_KNOWN: Final = 2
"""Fewest settings of a plan that make a text one of a framework that trains."""
_PRINTED: Final = re.compile(r"^\W*(?:\S*:\s*)?(\w+) \.{3,} *(.*?)\s*$", re.MULTILINE)
"""An argument as Megatron-LM prints it: micro_batch_size ................ 1."""
_JOB: Final = re.compile(r"^#SBATCH\s+--([\w-]+)[= ](\S+)", re.MULTILINE)
_WORD: Final = re.compile(r"\+*(?:--)?(?P<name>[A-Za-z_][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_ON: Final = ("true", "1", "yes", "on")
_OF_RECIPE: Final = re.compile(
    r"[_-](?:pretrain|sft|finetune|recipe|config|nemo|mcore|bf16|fp8|gpu|h100|debug|\d+gpus?)(?:[_.-].*)?$"
)
"""Words of a recipe behind the name of its model."""
_SETTINGS_FILE: Final = re.compile(r"(?:.*/)?(?P<stem>[^/]*)\.(?:toml|ya?ml|py)")
_NAMED_FILE: Final = re.compile(r"[\w.-]+\.(?:toml|ya?ml)\b")
_LLAMA_3_TOKENS: Final = 128_256
"""Vocabulary that is taken where none is stated: that of Llama 3."""
_CONTEXT_TOKENS: Final = 8192
"""Longest sequence of a model that is described by its shape alone."""
_VOCABULARIES: Final = {
    "gpt2bpetokenizer": 50_257,
    "llama2tokenizer": 32_000,
    "llama3tokenizer": 128_256,
    "gptsentencepiecetokenizer": 32_000,
}
"""Tokens of the tokenizers that Megatron-LM names by kind. Source: vocab.json of GPT-2, tokenizers of Llama 2 and 3."""


class _Table(NamedTuple):
    options: Mapping[str, str]
    counts: Mapping[str, str]
    names: Mapping[str, str]
    shape: Mapping[str, str]
    marks: Mapping[str, Sequence[str]]


@functools.cache
def _table() -> _Table:
    """Return the words of frameworks, each with what it means."""
    tables = read_toml(DATA_DIR / "training" / "trainers.toml")
    turned = {
        part: {word: own for own, words in tables[part].items() for word in words}
        for part in ("options", "counts", "names", "shape")
    }
    return _Table(**turned, marks=tables["marks"])


class _Trainer(NamedTuple):
    """Settings of a framework by the last part of their keys, in lower case, with underscores."""

    framework: str
    is_of_recipe: bool
    """Whether a recipe of NeMo sets what these settings leave out."""
    settings: Mapping[str, str]
    text: str

    def values_of(self, table: Mapping[str, str]) -> dict[str, str]:
        """Return the values that settings give to what words of a table mean."""
        found: dict[str, str] = {}
        for word, own in table.items():
            if self.settings.get(word, "") not in ("", "-1"):
                found.setdefault(own, self.settings[word])
        return found

    def is_on(self, name: str) -> bool:
        return name in self.settings and self.settings[name].lower() in _ON


def options_of_training(
    text: str, known: Collection[str], typed: Collection[str], num_accelerators: int | None
) -> tuple[dict[str, str], list[str]] | None:
    """Return the options for which a command, settings or printed arguments stand, and notes; None for other texts.

    A model and a number of accelerators that are `typed` count before those of the text.

    Raises: AdvisorError: the text names neither its model nor its whole shape.
    Source: data/training/trainers.toml.
    """
    trainer = _read(text)
    if trainer is None:
        return None
    notes = [f"settings of {trainer.framework}"]
    model = "" if "--model" in typed else _model(trainer, notes)
    found = {"--model": model, "--framework": trainer.framework}
    found |= {
        name: value
        for name, value in trainer.values_of(_table().options).items()
        if re.fullmatch(r"[1-9]\d*", value)
    }
    counts = {
        name: int(value) for name, value in trainer.values_of(_table().counts).items() if value.isdigit()
    }
    if layers := counts.get("layers_per_chunk"):
        total = int(trainer.settings.get("num_layers", "0"))
        found["--vpp"] = str(max(1, total // int(found.get("--pp", "1")) // layers))
    ranks = num_accelerators or _number_of_accelerators(counts, found, text, notes)
    found["--gpus"] = str(ranks)
    found |= _batch(found, ranks, notes) | _states(trainer)
    if trainer.is_of_recipe:
        notes.append(
            "what the recipe sets beside the stated settings is not known: Megatron's defaults are taken"
        )
    if (steps := counts.get("steps")) and "--sequence" in found:
        found["--tokens"] = str(steps * int(found["--global-batch"]) * int(found["--sequence"]))
    if "--gpu" in known and (asked := launch_files.accelerator_in(text)):
        found["--gpu"] = asked
    if "--workload" in known:
        found["--workload"] = "train"
    return {name: value for name, value in found.items() if name in known}, notes


def _read(text: str) -> _Trainer | None:
    """Return the settings of a text that states most of a plan; None if no framework that trains is in it."""
    if launch_files.has_long_row(text):
        return None
    candidates = [dict(_PRINTED.findall(text)), _document(text), _of_recipe(text)]
    with contextlib.suppress(InputFileError):
        candidates += [_of_words(words) for words in launch_files.commands_in(text)]
    table = _table()
    plan = {*table.options, *table.counts}
    best = max(candidates, key=lambda one: len(plan & one.keys()))
    job = {key.replace("-", "_"): value for key, value in _JOB.findall(text)}
    lower = text.lower().replace("-", "_")
    framework = next(
        (name for name, marks in table.marks.items() if any(mark in lower for mark in marks)), ""
    )
    if not framework or len(plan & best.keys()) < _LEAST_KNOWN:
        return None
    said = {key: value for key, value in {**job, **best}.items() if value.lower() not in ("none", "null")}
    return _Trainer("megatron" if framework == "nemo" else framework, framework == "nemo", said, text)


def _document(text: str) -> dict[str, str]:
    """Return the settings of a text in TOML or YAML; none for any other text."""
    for read in (tomllib.loads, yaml.safe_load):
        try:
            found = read(text)
        except (tomllib.TOMLDecodeError, yaml.YAMLError, RecursionError, ValueError):
            continue
        if isinstance(found, Mapping):
            return _flat(found)
    return {}


def _of_recipe(text: str) -> dict[str, str]:
    """Return what a script in Python asks a recipe of NeMo for, and sets in it; none for any other text.

    Source: NVIDIA NeMo 2.0, nemo/collections/llm/recipes: llm.NAME.pretrain_recipe(num_nodes=..., ...).
    """
    found: dict[str, str] = {}
    for key, value in recipe_of_python(text):
        found |= _by_name(key, str(value))
    return found


def _flat(found: Mapping[Any, Any], outer: str = "") -> dict[str, str]:
    """Return nested settings by the last part of their keys, and by the last two where the last is `name` or `mode`."""
    flat: dict[str, str] = {}
    for key, value in found.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, str(key))
        else:
            flat |= _by_name(f"{outer}.{key}", str(value))
    return flat


def _by_name(key: str, value: str) -> dict[str, str]:
    parts = key.lower().replace("-", "_").split(".")
    return {parts[-1]: value, ".".join(parts[-2:]): value}


def _of_words(words: Sequence[str]) -> dict[str, str]:
    """Return the settings of the words of a command: --name value, --name=value, section.name=value."""
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        match = _WORD.fullmatch(word)
        if match is None:
            continue
        behind = words[place + 1] if place + 1 < len(words) else "--"
        if match["value"] is not None:
            found |= _by_name(match["name"], match["value"].strip("'\""))
        elif word.startswith("-"):
            found |= _by_name(match["name"], "true" if behind.startswith("-") else behind)
    file = found.get("config_file", "")
    return (_document(read_text(Path(file))) if file.endswith(".toml") and is_file(file) else {}) | found


def _number_of_accelerators(
    counts: Mapping[str, int], found: Mapping[str, str], text: str, notes: list[str]
) -> int:
    """Return the number of accelerators that a launcher states, else the fewest that the degrees need."""
    if counts.get("accelerators_per_node"):
        return counts["accelerators_per_node"] * counts.get("nodes", 1)
    if counts.get("accelerators"):
        return counts["accelerators"]
    if started := read_start(script_of(text)).accelerators:
        return started
    degrees = [int(found.get(name, "1")) for name in ("--tp", "--pp", "--cp")]
    notes.append("the number of accelerators is not stated: the fewest of its degrees; --gpus says another")
    return degrees[0] * degrees[1] * degrees[2]


def _batch(found: Mapping[str, str], ranks: int, notes: list[str]) -> dict[str, str]:
    """Return micro-batch and batch; without a batch, one micro-batch on each data rank, as frameworks take it."""
    degrees = [int(found.get(name, "1")) for name in ("--tp", "--pp", "--cp")]
    data = max(1, ranks // (degrees[0] * degrees[1] * degrees[2]))
    micro = found.get("--micro-batch", "1")
    if "--global-batch" in found:
        return {"--micro-batch": micro}
    notes.append(f"the batch is not stated: {micro} on each of {data} data ranks")
    return {"--micro-batch": micro, "--global-batch": str(int(micro) * data)}


def _states(trainer: _Trainer) -> dict[str, str]:
    """Return how states are divided, what is computed again and in which format."""
    said = trainer.settings
    is_titan = trainer.framework == "torchtitan"
    strategy = {"optim_grads": "zero2", "optim_grads_params": "zero3", "optim": "zero1"}
    sharding = strategy.get(said.get("data_parallel_sharding_strategy", ""), "")
    if not sharding and is_titan:
        sharding = "none" if said.get("data_parallel_shard_degree") == "1" else "zero3"
    divides = trainer.is_on("use_distributed_optimizer") or trainer.is_of_recipe
    sharding = sharding or ("zero1" if divides else "none")
    recompute = said.get("recompute_granularity") or said.get("activation_checkpoint.mode") or "none"
    if trainer.is_on("recompute_activations"):
        recompute = "selective"
    if "recompute_modules" in said and recompute == "selective" and said["recompute_modules"] != "core_attn":
        recompute = "modules"
    precision = "fp16" if trainer.is_on("fp16") else "bf16"
    words = (
        f"{said.get('fp8_recipe', '')} {said.get('precision', '')} {said.get('mixed_precision', '')}".lower()
    )
    if (
        said.get("fp8_format")
        or said.get("fp8", "") in ("hybrid", "e4m3")
        or "fp8" in words
        or "float8" in said.get("converters", "")
    ):
        precision = "mxfp8" if "mxfp8" in words else "fp8"
    options = {"--sharding": sharding, "--recompute": recompute, "--precision": precision}
    if trainer.is_on("optimizer_cpu_offload"):
        options["--offload-optimizer"] = ""
    return options


def _model(trainer: _Trainer, notes: list[str]) -> str:
    """Return the model that settings name, or that has their shape.

    Raises: AdvisorError: they do neither.
    """
    said = trainer.settings
    flavor = f"{said.get('model.name', '')}-{said.get('model.flavor', '')}"
    if (found := models.find(flavor)) is not None:
        return found.id
    for name in (
        *trainer.values_of(_table().names).values(),
        said.get("job.config_file", ""),
        *_NAMED_FILE.findall(trainer.text),
    ):
        file = _SETTINGS_FILE.fullmatch(name)
        found = models.find(_OF_RECIPE.sub("", file["stem"] if file else name))
        if found is not None and name != said.get("tokenizer_model"):
            return found.id
    shape = {
        field: int(value) for field, value in trainer.values_of(_table().shape).items() if value.isdigit()
    }
    if {"num_hidden_layers", "hidden_size", "num_attention_heads"} <= shape.keys():
        return _of_shape(trainer, shape, notes)
    raise AdvisorError(
        f"the settings of {trainer.framework} name no model that the catalog has",
        why="they state neither a recipe of one nor layers, hidden size and heads",
        fix="--model NAME in front of them",
    )


def _of_shape(trainer: _Trainer, shape: dict[str, int], notes: list[str]) -> str:
    """Return a shape as a config.json, with what Megatron takes where settings leave it out."""
    said = trainer.settings
    hidden = shape["hidden_size"]
    gated = trainer.is_on("swiglu") or trainer.is_on("gated_linear_unit")
    shape.setdefault("intermediate_size", 8 * hidden // 3 if gated else 4 * hidden)
    shape.setdefault("num_key_value_heads", shape["num_attention_heads"])
    if "num_local_experts" in shape:
        shape["intermediate_size"] = shape.pop("moe_intermediate_size", shape["intermediate_size"])
        shape.setdefault("num_experts_per_tok", 2)
    tokenizer = said.get("tokenizer_model", "")
    named = models.find(tokenizer) if "/" in tokenizer else None
    kind = said.get("tokenizer_type", "").lower()
    vocabulary = shape.get("vocab_size") or (named.vocab_size if named else 0) or _VOCABULARIES.get(kind, 0)
    if not vocabulary:
        vocabulary = _LLAMA_3_TOKENS
        notes.append(f"the vocabulary is not stated: {vocabulary:,} tokens, as Llama 3 has")
    longest = said.get("max_position_embeddings", "")
    config = {
        **shape,
        "model_type": "mixtral" if "num_local_experts" in shape else "llama" if gated else "starcoder2",
        "vocab_size": vocabulary,
        "tie_word_embeddings": not trainer.is_on("untie_embeddings_and_output_weights"),
        "max_position_embeddings": (longest.isdigit() and int(longest)) or _CONTEXT_TOKENS,
    }
    notes.append(f"model of the stated shape: {shape['num_hidden_layers']} layers of {hidden}")
    return json.dumps(config)
