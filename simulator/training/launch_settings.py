"""Launch commands of frameworks that read a settings file of their own: Axolotl, LLaMA-Factory, torchtune, ..."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any, Final, cast

import yaml

from advisor.catalog.architectures import needs_repository_code
from advisor.catalog.schema.accelerator import ASSUMED_ACCELERATORS_PER_NODE
from advisor.catalog.schema.tuner import SettingStyle, Tuner, Words
from advisor.catalog.training import chat_template_of, is_in_transformers, software_of, tuners
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_start import PORT, ranks_in_node
from advisor.simulator.training.launch_tuning import (
    LORA_ALPHA_PER_RANK,
    adapted_modules,
    attention_kernel,
    gradient_accumulation,
    has_template,
    packs_by_kernel,
    quantized_weights,
    weights_of,
)
from advisor.simulator.training.memory.account import adapted_part
from advisor.simulator.training.plan import TrainingPlan

PARTS: Final = (
    *("task", "method", "adapters", "optimizer", "precision", "attention", "sequences"),
    *("checkpointing", "sharding", "ranks", "code", "template", "length", "recipe"),
)
"""Parts of a plan for which every framework has words, in the order in which its settings say them."""
QUANTITY: Final = re.compile(r"\{(\w+)\}")
NAMES_OF_MATRICES: Final = ("{matrices}", "{matrix_names}")
"""Quantities that are names of the matrices with adapters, in Transformers' words."""


@dataclass(frozen=True, slots=True)
class MissingSetting:
    """Part of a plan for which a framework's release has no setting."""

    release: str
    part: str
    word: str

    def __str__(self) -> str:
        return f"no setting of {self.release} is known for {self.part} '{self.word}'"


def parts_of(job: TrainingJob, plan: TrainingPlan, task: str = "sft", num_steps: int = 0) -> dict[str, str]:
    """Return the word of each part of a plan, as records of frameworks list them.

    Source: catalog/schema/tuner.py, whose fields explain the words.
    """
    divided = plan.sharding in ("zero2", "zero3") and (plan.data_parallel > 1 or plan.offload_parameters)
    learns = "full" if job.method == "full" else "adapters"
    sharding: str = plan.sharding if plan.data_parallel > 1 and plan.sharding != "none" else "copies"
    if plan.data_parallel == 1:
        sharding = "alone"
    if plan.offload_parameters:
        sharding = "zero3 host"
    if plan.offload_optimizer:
        sharding = f"{sharding} with the optimizer in host memory"
    ranks = "one" if plan.data_parallel == 1 else "several"
    checkpointing = plan.recompute + (" divided" if divided and plan.recompute == "full" else "")
    checkpointing += " in host memory" if plan.offload_activations else ""
    sequences = "packed" if packs_by_kernel(job) else "wrapped"
    if job.mean_sequence_tokens:
        sequences = "padded"
    return {
        "task": task,
        "method": job.method,
        "adapters": _adapters(job),
        "optimizer": job.optimizer,
        "precision": f"{job.compute_dtype} {learns}",
        "attention": attention_kernel(job) or "default",
        "sequences": sequences if task == "sft" else "given",
        "checkpointing": checkpointing,
        "sharding": sharding,
        "ranks": "one" if plan.data_parallel == 1 else "node",
        "code": "own" if needs_repository_code(job.model, "transformers") else "published",
        "template": "named" if _template(job, task) else "own",
        "length": "steps" if num_steps else "epochs",
        "recipe": f"{task} {learns} {ranks}",
    }


def _adapters(job: TrainingJob) -> str:
    """Return the word for the matrices that have adapters; IA3's vectors have places of their own."""
    if job.method in ("full", "ia3"):
        return "none"
    return adapted_part(job, software_of(job.framework, job.software))


def _template(job: TrainingJob, task: str) -> str:
    """Return the framework's name of the template that formats conversations for a model; empty for the tokenizer's.

    Source: catalog/data/training/chat_templates.csv.
    """
    name, first = quantized_weights(job, task)
    others = job.model.hf_ids if first or has_template(name) else ()
    return chat_template_of(job.software, (name, *others))


def missing_settings(job: TrainingJob, plan: TrainingPlan, task: str = "sft") -> Iterator[MissingSetting]:
    """Yield the parts of a plan for which the job's framework has no setting.

    Source: catalog/data/training/tuners.toml.
    """
    record = tuners()[job.software]
    for part, word in parts_of(job, plan, task).items():
        words: Words | None = getattr(record, part)
        if words is not None and word not in words:
            yield MissingSetting(record.release, part, word)
    named = record.adapters.get(_adapters(job), {}).values()
    if set(NAMES_OF_MATRICES).intersection(map(str, named)) and not adapted_modules(job):
        yield MissingSetting(record.release, "adapters", f"on attention alone, of {job.model.id}")
    layers = (plan.tensor_parallel, plan.pipeline_parallel, plan.context_parallel, plan.expert_parallel)
    if max(layers) > 1:
        yield MissingSetting(record.release, "layout", "divided layers")
    if plan.recompute_layers >= 0 and plan.recompute != "none":
        yield MissingSetting(record.release, "checkpointing", "some of the layers")
    if plan.shard_group:
        yield MissingSetting(record.release, "sharding", "within a node")
    own_name = record.models.get(job.model.id, "")
    is_known = bool(own_name) if record.models else is_in_transformers(record.id, job.model.family)
    if not is_known:
        yield MissingSetting(record.release, "model", job.model.id)
    elif record.configurations:
        config = _configuration(record, job, plan, task)
        if config not in record.configurations:
            yield MissingSetting(record.release, "configuration", config)


def _configuration(record: Tuner, job: TrainingJob, plan: TrainingPlan, task: str) -> str:
    """Return the configuration of the release that a plan starts from, as the words of its recipe name it."""
    keys = (record.recipe or {}).get(parts_of(job, plan, task)["recipe"], {})
    return str(keys.get("$config", "")).replace("{model}", record.models.get(job.model.id, ""))


def settings_run(job: TrainingJob, plan: TrainingPlan, task: str = "sft") -> bool:
    """Whether the job's framework has settings for all of a plan, and Transformers the model.

    Source: catalog/data/training/tuners.toml.
    """
    record = tuners()[job.software]
    has_model = bool(record.models or weights_of(job.model))
    return has_model and job.framework in record.families and not any(missing_settings(job, plan, task))


def settings_flags(
    job: TrainingJob,
    plan: TrainingPlan,
    task: str = "sft",
    more: Mapping[str, Any] | None = None,
    *,
    node_size: int = ASSUMED_ACCELERATORS_PER_NODE,
    num_steps: int = 0,
) -> str:
    """Return the lines that write a framework's settings of a plan and start the run; on several machines they run on
    each, with RANK and HEAD as the machine's number and the first one's address.

    `more`: quantities of a loop of generation and training; a key whose quantity is None is left out.

    Source: catalog/data/training/tuners.toml.
    """
    record = tuners()[job.software]
    in_node = ranks_in_node(plan.data_parallel, node_size)
    accumulation = gradient_accumulation(job, plan)
    name, first = (record.models[job.model.id], "") if record.models else quantized_weights(job, task)
    quantities: dict[str, Any] = {
        "model": name,
        "rank": job.lora_rank,
        "alpha": LORA_ALPHA_PER_RANK * job.lora_rank,
        "matrices": list(adapted_modules(job)),
        "matrix_names": ",".join(adapted_modules(job)),
        "sequence": job.sequence_tokens,
        "batch": job.global_batch,
        "micro_batch": plan.micro_batch,
        "accumulation": accumulation,
        "steps": num_steps,
        "passes": num_steps * accumulation,
        "ranks": plan.data_parallel,
        "in_node": in_node,
        "nodes": plan.data_parallel // in_node,
        "port": PORT,
        "template": _template(job, task),
        **(more or {}),
    }
    words = parts_of(job, plan, task, num_steps)
    if plan.data_parallel > in_node:
        words["ranks"] = "nodes"
    keys: dict[str, Any] = dict(record.always)
    for part in PARTS:
        table: Words | None = getattr(record, part)
        if table is not None:
            keys |= table[words[part]]
    keys["$config"] = _configuration(record, job, plan, task)
    filled = {key: _fill(value, quantities) for key, value in keys.items()}
    filled = {key: value for key, value in filled.items() if value is not None}
    parts = {key.removeprefix("$"): value for key, value in filled.items() if key.startswith("$")}
    settings = _nest({key: value for key, value in filled.items() if not key.startswith("$")})
    texts = _WRITERS[record.style](settings)
    parts = {key: Template(str(value)).safe_substitute(texts | parts) for key, value in parts.items()}
    return first + Template(record.command).safe_substitute(texts | parts).strip()


def _fill(value: Any, quantities: Mapping[str, Any]) -> Any:
    """Return a value with the quantities of a plan in place of their names; a quantity alone keeps its type."""
    if isinstance(value, str):
        whole = QUANTITY.fullmatch(value)
        if whole:
            return quantities[whole[1]]
        return QUANTITY.sub(lambda found: str(quantities.get(found[1], found[0])), value)
    if isinstance(value, Mapping):
        return {key: _fill(inner, quantities) for key, inner in value.items()}
    return [_fill(inner, quantities) for inner in value] if isinstance(value, list | tuple) else value


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with dotted keys as nested tables."""
    found: dict[str, Any] = {}
    for path, value in flat.items():
        *above, last = path.split(".")
        table = found
        for name in above:
            table = table.setdefault(name, {})
        table[last] = value
    return found


def _as_yaml(settings: dict[str, Any]) -> dict[str, str]:
    text: str = yaml.safe_dump(settings, sort_keys=False, width=1000)
    return {"settings": text.rstrip()}


def _as_pairs(settings: dict[str, Any]) -> dict[str, str]:
    return {"settings": " ".join(shlex.quote(f"{key}={value}") for key, value in _flat(settings))}


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted keys with their values as words without spaces."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, list):
            yield f"{before}{key}", f"[{','.join(map(str, value))}]"
        else:
            yield f"{before}{key}", str(value)


def _as_python(settings: dict[str, Any]) -> dict[str, str]:
    """Return the arguments of each call of a program, by the name of its table."""
    return {
        call: ", ".join(f"{key}={value!r}" for key, value in cast(dict[str, Any], table).items())
        for call, table in settings.items()
    }


_WRITERS: Final[Mapping[SettingStyle, Callable[[dict[str, Any]], dict[str, str]]]] = {
    "yaml": _as_yaml,
    "pairs": _as_pairs,
    "python": _as_python,
}
