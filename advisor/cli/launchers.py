"""How many accelerators a start of a training run takes, whoever starts it: torchrun, accelerate, DeepSpeed, MPI, Slurm
or the variables of a framework; and how ranks divide the states, as files of DeepSpeed and accelerate say it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import read_text
from advisor.cli.shell_text import expand, variables_in, whole_lines

_ALL: Final = (
    r"--num[_-]processes[= ]+(\d+)",
    r"\b(?:mpirun|mpiexec|horovodrun)\b[^\n]*?\s-(?:np?|-np)[= ]+(\d+)",
    r"--world[_-]size[= ]+(\d+)",
)
"""Number of all processes, one an accelerator: accelerate's, MPI's."""
_OF_A_MACHINE: Final = (
    r"--nproc[_-]per[_-]node[= ]+(\d+)",
    r"\bNPROC_PER_NODE=(\d+)",
    r"--num[_-]gpus(?:[_-]per[_-]node)?[= ]+(\d+)",
    r"--gpus[_-]per[_-]node[= ]+(?:[A-Za-z]\w*:)?(\d+)",
    r"--gres[= ]gpu:(?:[\w.-]+:)?(\d+)",
    r"\b(?:GPUS_PER_NODE|NUM_GPUS_PER_NODE|NGPU)=(\d+)",
    r"--ntasks[_-]per[_-]node[= ]+(\d+)",
)
"""Number of processes on each machine, what a launcher is told before what a job asks for."""
_MACHINES: Final = (
    r"--nnodes[= ]+(\d+)(?!\d*:)",
    r"--num[_-](?:nodes|machines)[= ]+(\d+)",
    r"\bNNODES=(\d+)",
    r"(?<!\w)--nodes[= ]+(\d+)",
    r"(?:^#SBATCH|\bsrun\b[^\n]*?)\s-N[= ]?(\d+)",
    r"\b(?:NUM_NODES|NUM_MACHINES)=(\d+)",
)
_VISIBLE: Final = re.compile(r"\b(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES=['\"]?(\d+(?:,\d+)*)")
_HOSTS: Final = re.compile(r"\bdeepspeed\b[^\n]*?--hostfile[= ]+(\S+)")
_SLOTS: Final = re.compile(r"^[^#\s]\S*\s+slots=(\d+)", re.MULTILINE)
_JOB: Final = re.compile(r"^#SBATCH\s.*$", re.MULTILINE)

_ACCELERATE: Final = frozenset(("distributed_type", "compute_environment", "num_machines"))
"""Keys of accelerate's own file, of which it has at least two. Source: accelerate 1.15.0, commands/config."""
_DEEPSPEED: Final = frozenset(
    (
        "zero_optimization",
        "train_micro_batch_size_per_gpu",
        "train_batch_size",
        "zero_allow_untested_optimizer",
    )
)
"""Keys of DeepSpeed's configuration. Source: DeepSpeed 0.19.8, runtime/constants.py."""
_STRATEGIES: Final[Mapping[str, str]] = {
    "full_shard": "zero3",
    "1": "zero3",
    "true": "zero3",
    "shard_grad_op": "zero2",
    "2": "zero2",
    "false": "zero2",
    "no_shard": "none",
    "3": "none",
    "hybrid_shard": "zero3",
    "4": "zero3",
    "hybrid_shard_zero2": "zero2",
    "5": "zero2",
}
"""Division of states by the name and the number of a strategy of FSDP, and by whether it frees weights after a pass.

Source: PyTorch, torch.distributed.fsdp.ShardingStrategy; accelerate 1.15.0, utils/dataclasses.py.
"""
_TO_HOST: Final = ("cpu", "nvme", "true")


class Started(NamedTuple):
    """Accelerators of a start, as far as it states them."""

    accelerators: int | None
    machines: int | None
    """Machines that are stated where the accelerators of each are not."""


class States(NamedTuple):
    """How ranks divide weights, gradients and the optimizer's states, and what of them is in host memory."""

    sharding: str
    optimizer_in_host: bool = False
    parameters_in_host: bool = False


def script_of(text: str) -> str:
    """Return the lines that describe a job to Slurm, and the commands of its script with the variables in place that
    script or job set."""
    lines = whole_lines(text)
    outer = variables_of_job(text)
    return "\n".join((*_JOB.findall(text), expand(lines, outer | variables_in(lines, outer))))


def variables_of_job(text: str) -> dict[str, str]:
    """Return the variables that Slurm sets for the commands of a job, from the lines that describe the job.

    Source: Slurm, sbatch: output environment variables.
    """
    job = "\n".join(_JOB.findall(text))
    machines = _first(_MACHINES, job)
    in_machine = _first(_OF_A_MACHINE, job)
    found: dict[str, str] = {}
    if machines:
        found |= dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(machines))
    if in_machine:
        found |= dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), str(in_machine))
    if tasks := _first((r"--ntasks[_-]per[_-]node[= ]+(\d+)",), job):
        found |= {"SLURM_NTASKS_PER_NODE": str(tasks), "SLURM_NTASKS": str(tasks * (machines or 1))}
    return found


def read_start(text: str) -> Started:
    """Return the accelerators that a start command, or a script of one with its variables in place, states.

    A number of all processes counts before that of a machine times the machines, and a launcher before its job.

    Source: torchrun, accelerate 1.15.0, DeepSpeed 0.19.8 (launcher/runner.py), Open MPI and Slurm, their options.
    """
    if everything := _first(_ALL, text):
        return Started(everything, None)
    if (slots := _slots_of_hosts(text)) is not None:
        return Started(slots, None)
    machines = _first(_MACHINES, text)
    in_machine = _first(_OF_A_MACHINE, text)
    if in_machine is None and (visible := _VISIBLE.search(text)):
        in_machine = visible[1].count(",") + 1
    if in_machine is None:
        return Started(None, machines if machines and machines > 1 else None)
    return Started(in_machine * (machines or 1), None)


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    """Return the positive number that the first of several patterns finds."""
    for pattern in patterns:
        if (found := re.search(pattern, text, re.MULTILINE)) is not None and int(found[1]) > 0:
            return int(found[1])
    return None


def _slots_of_hosts(text: str) -> int | None:
    """Return the accelerators of a file of hosts that DeepSpeed is given; None if there is none."""
    named = _HOSTS.search(text)
    if named is None or not is_file(named[1]):
        return None
    slots = [int(one) for one in _SLOTS.findall(read_text(Path(named[1])))]
    return sum(slots) or None


def is_file(word: str) -> bool:
    """Whether a word is the path of a file that is there; a text too long for a path is none."""
    try:
        return Path(word[:4096]).is_file()
    except OSError:  # a text that is no path
        return False


def is_of_accelerate(settings: Mapping[str, Any]) -> bool:
    """Whether settings, by dotted keys, are those of accelerate's own file."""
    return len(_ACCELERATE.intersection(settings)) > 1


def refuse_file_of_states(name: str, settings: Mapping[str, Any]) -> None:
    """Raises: AdvisorError: settings, by dotted keys, are of a file that says how states are divided, and no more."""
    if is_of_accelerate(settings):
        raise AdvisorError(
            f"{name}: is accelerate's file: processes and how they divide the states",
            why="it says neither the model nor the batch",
            fix=f"paste the command too: accelerate launch --config_file {name} train.py --model_name_or_path ...",
        )
    if _DEEPSPEED.intersection(key.partition(".")[0] for key in settings):
        raise AdvisorError(
            f"{name}: is DeepSpeed's configuration: how ranks divide the states, and the batch",
            why="it says neither the model nor the accelerators",
            fix=f"paste the command too: deepspeed --num_gpus 8 train.py --model_name_or_path ... --deepspeed {name}",
        )


def states_of(settings: Mapping[str, Any]) -> States | None:
    """Return how settings divide states: DeepSpeed's configuration, else accelerate's or a trainer's words for FSDP;
    None if they do not say it.

    Source: DeepSpeed 0.19.8, runtime/zero/config.py; accelerate 1.15.0, utils/dataclasses.py; transformers 5.24.0,
        training_args.py (fsdp, fsdp_config).
    """
    if (stage := _last(settings, "zero_stage", "zero_optimization.stage")) is not None:
        optimizer = _last(settings, "offload_optimizer_device", "offload_optimizer.device")
        weights = _last(settings, "offload_param_device", "offload_param.device")
        return States(
            f"zero{stage}" if str(stage) in "123" else "none",
            str(optimizer).lower() in _TO_HOST,
            str(weights).lower() in _TO_HOST,
        )
    in_host = (
        str(_last(settings, "fsdp_offload_params", "offload_params", "fsdp_cpu_offload")).lower() == "true"
    )
    words = _last(settings, "fsdp")
    words = " ".join(map(str, words)) if isinstance(words, list) else str(words or "").replace(",", " ")
    strategy = _last(settings, "fsdp_sharding_strategy", "sharding_strategy")
    if strategy is None:
        strategy = next((word for word in words.split() if word in _STRATEGIES), None)
    if strategy is None and (_last(settings, "fsdp_version", "use_fsdp") or _says_fsdp(settings)):
        strategy = _last(settings, "fsdp_reshard_after_forward", "reshard_after_forward")
        strategy = True if strategy is None else strategy
    if strategy is None:
        return None
    in_host = in_host or "offload" in words.split()
    return States(_STRATEGIES.get(str(strategy).lower(), "zero3"), in_host, in_host)


def _says_fsdp(settings: Mapping[str, Any]) -> bool:
    return str(_last(settings, "distributed_type")).upper().startswith("FSDP")


def _last(settings: Mapping[str, Any], *names: str) -> Any:
    """Return the first setting whose key ends with one of several dotted names; None if none does."""
    for name in names:
        for key, value in settings.items():
            if (key == name or key.endswith(f".{name}")) and value not in (None, ""):
                return value
    return None


def settings_of_deepspeed(path: Path, sizes: Mapping[str, int | None], ranks: int | None) -> dict[str, Any]:
    """Return what DeepSpeed's configuration says on states, by dotted keys; empty if it is no JSON.

    `sizes` are the micro-batch and the passes that the trainer states, for which `auto` stands in the file.

    Raises: AdvisorError: its batch is not that of its micro-batches, with which DeepSpeed does not start.
    Source: DeepSpeed 0.19.8, runtime/config.py, _batch_assertion.
    """
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, Mapping):
        return {}
    stated = [
        found.get("train_batch_size"),
        found.get("train_micro_batch_size_per_gpu", "auto"),
        found.get("gradient_accumulation_steps", "auto"),
    ]
    batch, micro, passes = (
        one if isinstance(one, int) else sizes.get(name)
        for one, name in zip(stated, ("batch", "micro_batch", "accumulation"), strict=True)
    )
    if batch and micro and passes and ranks and batch != micro * passes * ranks:
        raise AdvisorError(
            f"{path}: its train_batch_size of {batch:,} is not {micro:,} x {passes:,} passes x {ranks:,} accelerators",
            why=f"these make {micro * passes * ranks:,}, and DeepSpeed starts only where both agree",
            fix="correct one of them, or --gpus N",
        )
    zero = found.get("zero_optimization")
    if not isinstance(zero, Mapping):
        return {"zero_optimization.stage": 0}
    settings: dict[str, Any] = {"zero_optimization.stage": zero.get("stage", 0)}
    for part in ("offload_optimizer", "offload_param"):
        if isinstance(inner := zero.get(part), Mapping) and inner.get("device"):
            settings[f"{part}.device"] = inner["device"]
    return settings
