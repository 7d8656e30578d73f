"""What is started: an option of a recommendation with its replicas on machines, the same for every format."""

import math
import re
import shlex
from dataclasses import dataclass
from typing import Final, get_args

from advisor.catalog import accelerators, engines
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import PORT, Launch
from advisor.catalog.launch_options import check_command, launch_options
from advisor.catalog.schema import Engine
from advisor.catalog.units import GB, GIB
from advisor.decide.option import Option, Share
from advisor.decide.power import power_words
from advisor.emit.quantise import recipe

SHARES: Final = get_args(Share)
CONFIG: Final = "engine.yaml"
HEALTH: Final = "/health"
"""Path that answers once a replica is ready, of all engines whose commands are written."""
START_S: Final = 1800
"""Until a replica must answer: weights may have to be downloaded first."""
MOUNTED: Final = "/plan"
"""Where a container sees the folder of the plan."""
CACHE: Final = "/root/.cache/huggingface"
"""Where a container keeps weights: the publishers' images run as root."""
_VISIBLE: Final = {
    "nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES", "intel": "ZE_AFFINITY_MASK",
    "huawei": "ASCEND_RT_VISIBLE_DEVICES", "google": "TPU_VISIBLE_CHIPS",
}  # fmt: skip
_CPUS: Final = 8
"""Per accelerator: one process each, tokenisers and the server."""
_SPARE_BYTES: Final = 32 * GIB
_LOADING: Final = 1.2
"""Host memory over weights while they load."""

_POWER: Final = """\
#!/usr/bin/env bash
# As root, on each machine and again after it was started anew: limits last until the driver is loaded again.
set -euo pipefail

nvidia-smi --persistence-mode=1
{limit}
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """An option ready to be written down."""

    name: str
    model: str
    option: Option
    engine: Engine
    vendor: str
    launch: Launch
    """Of one replica, without its address."""
    config_name: str = CONFIG
    """File of its options, where it reads them from one."""
    port: int = PORT
    """At which it is asked: of the router where there are several replicas, which have the ports after it."""

    @property
    def release(self) -> str:
        return launch_options()[self.engine.id].release

    @property
    def num_replicas(self) -> int:
        return self.option.replica_layout.num_replicas

    @property
    def accelerators_per_replica(self) -> int:
        return self.option.replica_layout.accelerators_per_replica

    @property
    def replicas_per_host(self) -> int:
        """On one node."""
        return min(
            self.num_replicas,
            max(1, self.option.machine.accelerators_per_node // self.accelerators_per_replica),
        )

    @property
    def num_hosts(self) -> int:
        return math.ceil(self.num_replicas / self.replicas_per_host)

    @property
    def visible(self) -> str:
        """The variable by which a process is given its accelerators."""
        return _VISIBLE.get(self.vendor, "")

    @property
    def num_cpus(self) -> int:
        """Of one replica."""
        return _CPUS * self.accelerators_per_replica

    @property
    def memory_gib(self) -> int:
        """Of the host, for one replica: its weights as they load, and room for the server."""
        weights = self.option.explained.memory_bytes["weight_bytes"] * self.accelerators_per_replica
        return math.ceil((_LOADING * weights + _SPARE_BYTES) / GIB)

    @property
    def image(self) -> str:
        """The container of the engine's release.

        Raises: AdvisorError: none is known for this hardware.
        """
        images, chip = self.engine.flags.images, accelerators.by_id(self.option.machine.accelerator)
        found = images.get(chip.architecture) or images.get(self.vendor, "")
        if not found or not self.engine.flags.address:
            raise AdvisorError(
                f"no container of {self.engine.name} for {self.option.machine.accelerator} is in the catalog",
                fix="--emit command",
            )
        return found

    @property
    def image_doubt(self) -> tuple[str, ...]:
        """What to look at before the container is pulled."""
        if self.image in self.engine.flags.images_seen:
            return ()
        return (f"verify: the tag of {self.image} follows its publisher's pattern",)

    def words(self, *, in_container: bool = False) -> tuple[str, ...]:
        """The words that start a replica beside the plan's files, without its address."""
        folder = MOUNTED if in_container else "."
        words = self.launch.words(f"{folder}/{self.config_name}")
        return tuple(
            f"{MOUNTED}/{word[2:]}" if in_container and word.startswith("./") else word for word in words
        )

    def address(self, port: object = PORT) -> str:
        return self.engine.flags.address.format(port=port)

    def all_words(self) -> tuple[str, ...]:
        """The words in a container, its address included."""
        return (*self.words(in_container=True), *shlex.split(self.address()))

    @property
    def comments(self) -> tuple[str, ...]:
        """What stands above every file: what this is, and what to look at before it is started."""
        return (self.title, self.layout_words, *self.host_words, *self.checks, *self.remarks)

    @property
    def title(self) -> str:
        """Model, number formats and engine."""
        layout = self.option.replica_layout
        return f"{self.model} ({layout.weight_dtype}, cache {layout.kv_dtype}) with {self.engine.name} {self.release}"

    @property
    def layout_words(self) -> str:
        """Replicas and their parallelism."""
        layout, each = (
            self.option.replica_layout,
            f"{self.accelerators_per_replica} x {self.option.machine.accelerator}",
        )
        weight_bytes = self.option.explained.memory_bytes["weight_bytes"]
        return (
            f"{self.num_replicas} x {each}: TP{layout.tensor_parallel} PP{layout.pipeline_parallel} "
            f"DP{layout.data_parallel} EP{layout.expert_parallel}; weights {weight_bytes / GB:.1f} GB each"
        )

    @property
    def host_words(self) -> tuple[str, ...]:
        """How replicas stand on machines, where there are several."""
        if self.num_hosts == 1:
            return ()
        rest = self.num_replicas - (self.num_hosts - 1) * self.replicas_per_host
        last = "" if rest == self.replicas_per_host else f", the last one with {rest}"
        return (f"{self.num_hosts} machines, replicas on each: {self.replicas_per_host}{last}",)

    @property
    def checks(self) -> tuple[str, ...]:
        """What to do or to look at before it is started."""
        one, lines = self.option, list[str]()
        checkpoint = one.started.checkpoint
        if checkpoint is not None and checkpoint.origin == "quantise first":
            lines.append(f"first: quantise {checkpoint.repository} as quantise.sh does")
        elif checkpoint is not None and not checkpoint.verified:
            lines.append(
                f"verify: {checkpoint.repository} follows a pattern of names; look whether it is there"
            )
        guess = one.levers.get("speculation")
        head = next(
            (word for word in self.launch.argv if word.endswith("-eagle3") and word.startswith("./")), ""
        )
        if guess and head:
            lines.append(f"verify: no EAGLE head of {self.model} is in the catalog; put one into {head}")
        if limit_w := one.machine.power_limit_w:
            lines.append(f"first, on each machine: power.sh holds its boards to {limit_w:.0f} W")
        return tuple(lines)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else is to be known."""
        if not self.option.levers.get("adapters"):
            return ()
        return ("adapters are loaded by name: see the engine's documentation for their paths",)

    def files(self) -> dict[str, str]:
        """Files that every format may need: the options' file, and the recipe where nobody published the weights."""
        import yaml

        found = {}
        if self.launch.config:
            found[self.config_name] = yaml.safe_dump(dict(self.launch.config), sort_keys=True)
        checkpoint = self.option.started.checkpoint
        if checkpoint is not None and checkpoint.origin == "quantise first":
            target = next(word for word in self.launch.argv if word.startswith("./"))
            found["quantise.sh"] = recipe(
                checkpoint.repository, self.option.replica_layout.weight_dtype, target, self.engine.id
            )
        if limit_w := self.option.machine.power_limit_w:
            found["power.sh"] = _POWER.format(limit=" ".join(power_words(limit_w)))
        return found


def plan_of(model: str, option: Option) -> Plan:
    """An option, or a part of one, as it is started.

    Raises: AdvisorError: its engine's options are not known, one of the command is not among them, or a replica spans
        machines.
    """
    machine = option.machine
    engine, chip = engines.by_id(option.replica_layout.engine), accelerators.by_id(machine.accelerator)
    started = Launch(option.started.argv, option.started.config, engine.flags.yaml_file)
    if not started.argv:
        raise AdvisorError(f"{engine.name} has no start command", fix="another --engine")
    check_command(engine.id, (*started.words(CONFIG), *shlex.split(engine.flags.address.format(port=PORT))))
    name = re.sub(r"[^a-z0-9]+", "-", f"{model}-{machine.accelerator}".lower()).strip("-")
    config = CONFIG
    if option.role in SHARES:
        name, config = f"{name}-{option.role}", f"{option.role}.{CONFIG}"
    plan = Plan(name, model, option, engine, chip.vendor, started, config)
    if plan.accelerators_per_replica > machine.accelerators_per_node:
        raise AdvisorError(
            f"a replica of {plan.accelerators_per_replica} {machine.accelerator} spans machines of "
            f"{machine.accelerators_per_node}",
            why="engines of several machines need addresses of each other, which no file can know",
            fix=f"--max-gpus {machine.accelerators_per_node}",
        )
    return plan
