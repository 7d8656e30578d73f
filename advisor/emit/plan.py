"""Plan of a start: an option of a recommendation with its replicas on machines, for all output formats."""

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from advisor.catalog import accelerators, engines
from advisor.catalog.architectures import plugin_of
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import (
    PORT,
    LaunchCommand,
    device_words,
    node_words,
    plugin_for,
    visible_variable,
)
from advisor.catalog.launch_options import check_command, launch_options
from advisor.catalog.legible import Line
from advisor.catalog.schema import Accelerator, Engine
from advisor.catalog.units import GB, GIB
from advisor.decide.option import Option, Share
from advisor.decide.power import power_words
from advisor.decide.reason import UnsureClass
from advisor.decide.starting import host_size
from advisor.emit.quantise import recipe

SHARES: Final = get_args(Share)
CONFIG: Final = "engine.yaml"
HEALTH: Final = "/health"
"""Path that answers once a replica is ready, on all engines whose commands are written."""
_START_S: Final = 1800
"""Shortest time allowed until a replica answers [s]; weights may have to be downloaded first."""
_DOWNLOAD_BYTES_PER_S: Final = 100e6
"""Slowest download of weights for which a replica has time to start. Own assumption; a faster one only waits less."""
MOUNTED: Final = "/plan"
"""Path in a container at which the folder of the plan is mounted."""
MODEL: Final = "/model"
"""Path in a container at which a local model outside that folder is mounted."""
ADAPTERS: Final = "/adapters"
"""Path in a container at which the folder of LoRA adapters is mounted."""
CACHE: Final = "/root/.cache/huggingface"
"""Path in a container at which weights are cached; the publishers' images run as root."""
_CPUS: Final = 6
"""CPU cores per accelerator, for its process, the tokenisers and the server. Own assumption: a node of 8 cores
(g6.2xlarge, g2-standard-8) runs no pod that asks for all, as Kubernetes keeps a part."""
_SERVER_BYTES: Final = 6 * GIB
"""Host memory of the server and its tokenisers. Own assumption."""
_PROCESS_BYTES: Final = 4 * GIB
"""Host memory of the process of one accelerator in addition to its weights, whose files stay in memory while read. Own
assumption: 16 GB of weights load on a machine of 32 GB."""
_SPARE_DISK_GIB: Final = 20
"""Disk of a pod in addition to its checkpoint, for logs and pieces of the download [GiB]. Own assumption."""

_POWER: Final = """\
#!/usr/bin/env bash
# As root, on each machine and after every restart: limits last until the driver is loaded again.
set -euo pipefail

nvidia-smi --persistence-mode=1
{limit}
"""


_MOST_NAME_CHARACTERS: Final = 48
"""Longest name of a deployment [characters]. Kubernetes accepts 63, which leaves room for a pool and a number."""


def slug(text: str, otherwise: str = "model", most: int = _MOST_NAME_CHARACTERS) -> Line:
    """Return a name that Kubernetes, Docker, Slurm and file systems accept: a letter, then letters, digits, hyphens, of
    at most `most` characters."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:most].strip("-")
    return Line(name if name[:1].isalpha() else f"{otherwise}-{name}".strip("-"))


@dataclass(frozen=True, slots=True)
class Plan:
    """Option of a recommendation, ready to be written as files."""

    name: Line
    model: Line
    option: Option
    engine: Engine
    vendor: str
    launch: LaunchCommand
    """Start command of one replica, without its address."""
    config_name: str = CONFIG
    """Name of the options file, for engines that read their options from one."""
    served_name: str = ""
    """Name by which requests name the model; empty for the name of its checkpoint."""
    port: int = PORT
    """Port that clients use: the replica's or, with several replicas, the router's; the replicas then use the
    following ports."""
    folder: str = ""
    """Folder of the plan's own files, below the one where its scripts start; empty if both are the same."""

    @property
    def release(self) -> str:
        """Release of the engine whose words the command has."""
        return self.option.replica_layout.engine_version or launch_options()[self.engine.id].release

    @property
    def num_replicas(self) -> int:
        return self.option.replica_layout.num_replicas

    @property
    def accelerators_per_replica(self) -> int:
        return self.option.replica_layout.accelerators_per_replica

    @property
    def host_size(self) -> int:
        """Accelerators of one machine with an operating system of its own; a rack of one fabric has several."""
        return host_size(self.option.machine)

    @property
    def nodes_per_replica(self) -> int:
        """Number of machines that hold one replica."""
        return math.ceil(self.accelerators_per_replica / self.host_size)

    @property
    def is_mpi(self) -> bool:
        """Whether MPI starts the processes of a replica on several machines, from the first one."""
        nodes = self.engine.flags.nodes
        return nodes is not None and bool(nodes.launcher)

    @property
    def accelerators_per_process(self) -> int:
        """Accelerators of a replica on one machine."""
        return self.accelerators_per_replica // self.nodes_per_replica

    @property
    def replicas_per_host(self) -> int:
        """Number of replicas on one machine; 1 if a replica needs several machines."""
        return min(
            self.num_replicas,
            max(1, self.host_size // self.accelerators_per_replica),
        )

    @property
    def replicas_on_last(self) -> int:
        """Number of replicas on the last machine, which may have fewer than the others."""
        return self.num_replicas % self.replicas_per_host or self.replicas_per_host

    @property
    def num_hosts(self) -> int:
        return math.ceil(self.num_replicas / self.replicas_per_host) * self.nodes_per_replica

    @property
    def visible(self) -> str:
        """Name of the environment variable that gives a process its accelerators."""
        return visible_variable(self.chip)

    @property
    def own_devices(self) -> str:
        """Words in front of the command of a replica alone on a machine that has more devices than it takes; empty
        otherwise."""
        on_machine = self.host_size * self.chip.devices
        words = device_words(self.engine, self.chip, self.devices_per_replica, on_machine)
        return f"{words} " if words else ""

    @property
    def chip(self) -> Accelerator:
        return accelerators.by_id(self.option.machine.accelerator)

    @property
    def devices_per_replica(self) -> int:
        """Devices of a replica as drivers number them: those that software sees, but whole chips of Google."""
        devices = 1 if self.vendor == "google" else self.chip.devices
        return self.accelerators_per_replica * devices

    @property
    def devices_per_process(self) -> int:
        """Devices of a replica on one machine, as drivers number them."""
        return self.devices_per_replica // self.nodes_per_replica

    @property
    def num_cpus(self) -> int:
        """CPU cores of one replica on one machine."""
        return _CPUS * self.accelerators_per_process

    @property
    def memory_gib(self) -> int:
        """Host memory of one replica on one machine [GiB]: its weights while they load, and room for the server."""
        each = self.option.explained.memory_bytes["weight_bytes"] + _PROCESS_BYTES
        return math.ceil((each * self.accelerators_per_process + _SERVER_BYTES) / GIB)

    @property
    def disk_gib(self) -> int:
        """Disk of a pod for a checkpoint that it downloads [GiB]; 0 if the checkpoint lies on a volume."""
        is_there = self.model_folder or self.own_paths
        return 0 if is_there else math.ceil(_SPARE_DISK_GIB + self.download_bytes / GIB)

    @property
    def download_bytes(self) -> float:
        """Size of the checkpoint, which each machine downloads whole [bytes]: 16 bits if the engine quantises it."""
        weights = self.option.explained.memory_bytes["weight_bytes"] * self.accelerators_per_replica
        checkpoint = self.option.started.checkpoint
        if checkpoint is None or checkpoint.origin != "quantised on loading":
            return weights
        return (
            weights * bytes_per_element("bf16") / bytes_per_element(self.option.replica_layout.weight_dtype)
        )

    @property
    def start_s(self) -> int:
        """Time allowed until a replica answers [s], in whole minutes."""
        return max(_START_S, math.ceil(self.download_bytes / _DOWNLOAD_BYTES_PER_S / 60) * 60)

    @property
    def image(self) -> str:
        """Container image of the engine's release.

        Raises: AdvisorError: none is known for this hardware.
        """
        images = self.engine.flags.images
        found = images.get(self.chip.architecture) or images.get(self.vendor, "")
        if not found or not self.engine.flags.address:
            raise AdvisorError(
                f"no container of {self.engine.name} for {self.option.machine.accelerator} is in the catalog",
                fix="--emit command",
            )
        return found.replace(f":v{launch_options()[self.engine.id].release}", f":v{self.release}")

    @property
    def image_doubt(self) -> tuple[Line, ...]:
        """Lines that say what to verify before the image is pulled; empty if a source names its tag."""
        if self.image in self.engine.flags.images_seen:
            return ()
        return (Line(f"verify: the tag of {self.image} follows its publisher's pattern"),)

    @property
    def model_folder(self) -> Line | None:
        """Path of a local model outside the folder of the plan, which needs its own mount; None for any other model."""
        path = self.local_path
        is_apart = path is not None and not path.startswith("./") and path in self.launch.argv
        return path if is_apart else None

    @property
    def local_path(self) -> Line | None:
        """Path of a local model; None for a model that the engine downloads."""
        checkpoint = self.option.started.checkpoint
        is_local = checkpoint is not None and checkpoint.is_local
        return Line(checkpoint.repository) if checkpoint is not None and is_local else None

    def words(self, *, in_container: bool = False) -> tuple[Line, ...]:
        """Return the command that starts a replica from the folder where the scripts start, without its address."""
        words = tuple(map(self._in_own_folder, self.launch.words(f"./{self.config_name}")))
        if not in_container:
            return words
        program = self.engine.flags.image_program
        return tuple(map(self._in_container, (Line(program), *words[1:]) if program else words))

    @property
    def own_paths(self) -> tuple[Line, ...]:
        """Paths below the plan's folder that the command and its options file name: weights, draft heads."""
        words = (*self.launch.argv, *_texts_of(self.launch.config))
        return tuple(Line(word) for word in words if word.startswith("./"))

    def options_text(self, *, in_container: bool) -> str:
        """Return the options file as YAML, with the paths that the engine sees."""
        import yaml

        def place(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: place(inner) for key, inner in value.items()}
            if not isinstance(value, str) or not value.startswith("./"):
                return value
            word = self._in_own_folder(Line(value))
            return str(self._in_container(word) if in_container else word)

        text: str = yaml.safe_dump(place(dict(self.launch.config)), sort_keys=True)
        return text

    def _in_own_folder(self, word: Line) -> Line:
        """Return a word with the plan's folder in it if it names one of the plan's own files."""
        is_own = self.folder and word.startswith("./") and word != self.local_path
        return Line(f"./{self.folder}/{word[2:]}") if is_own else word

    @property
    def adapter_folder(self) -> Line | None:
        """Folder that holds all LoRA adapters which were read; None if only their number is known."""
        load = self.option.levers.get("adapters")
        paths = [path for _, path in getattr(load, "paths", ())]
        return Line(os.path.commonpath(paths)) if paths else None

    def _in_container(self, word: Line) -> Line:
        folder = self.adapter_folder
        if folder and f"={folder}" in word:
            return Line(word.replace(f"={folder}", f"={ADAPTERS}", 1))
        if word == self.model_folder:
            return Line(MODEL)
        return Line(f"{MOUNTED}/{word[2:]}") if word.startswith("./") else word

    def address(self, port: object = PORT) -> str:
        return self.engine.flags.address.format(port=port)

    def all_words(self) -> tuple[Line, ...]:
        """Return the command that starts a replica in a container, with its address."""
        return (*self.words(in_container=True), *map(Line, shlex.split(self.address())))

    @property
    def runs_code(self) -> bool:
        """Whether the command lets the engine run Python files of the model's repository."""
        return (
            bool(self.engine.flags.repository_code) and self.engine.flags.repository_code in self.launch.argv
        )

    @property
    def comments(self) -> tuple[Line, ...]:
        """Comment lines above every file: what is started, and what to verify first."""
        lines = (self.title, self.layout_words, *self.host_words, *self.checks)
        return tuple(map(Line, lines))

    @property
    def title(self) -> Line:
        """Line with model, number formats and engine."""
        layout = self.option.replica_layout
        formats = f"{layout.weight_dtype}, cache {layout.kv_dtype}"
        return Line(f"{self.model} ({formats}) with {self.engine.name} {self.release}")

    @property
    def layout_words(self) -> Line:
        """Line with the number of replicas and their layout."""
        layout = self.option.replica_layout
        each = f"{self.accelerators_per_replica} x {self.option.machine.accelerator}"
        if self.chip.devices > 1:
            each += f" (of {self.chip.devices} devices each)"
        weight_bytes = self.option.explained.memory_bytes["weight_bytes"]
        return Line(
            f"{self.num_replicas} x {each}: TP{layout.tensor_parallel} PP{layout.pipeline_parallel} "
            f"DP{layout.data_parallel} EP{layout.expert_parallel}; weights {weight_bytes / GB:.1f} GB each"
        )

    @property
    def host_words(self) -> tuple[Line, ...]:
        """Line with the replicas per machine; empty if there is one machine."""
        if self.num_hosts == 1:
            return ()
        if self.nodes_per_replica > 1:
            each = f"{self.nodes_per_replica} machines of {self.accelerators_per_process} accelerators"
            return (Line(f"each replica on {each}, {self.num_hosts} machines in all"),)
        rest = self.replicas_on_last
        last = "" if rest == self.replicas_per_host else f", the last one with {rest}"
        return (Line(f"{self.num_hosts} machines, replicas on each: {self.replicas_per_host}{last}"),)

    @property
    def checks(self) -> tuple[Line, ...]:
        """Lines that say what to do or verify before the start."""
        one = self.option
        lines = list[str]()
        checkpoint = one.started.checkpoint
        if checkpoint is not None and checkpoint.is_made_first:
            everywhere = ", and give every machine the result" if self.num_hosts > 1 else ""
            lines.append(
                f"first: {checkpoint.origin.split()[0]} {checkpoint.repository} as quantise.sh does{everywhere}"
            )
        elif checkpoint is not None and checkpoint.is_local:
            lines.append(
                f"verify: of {checkpoint.repository} only config.json was read; its weights must lie beside it, "
                "and a relative path counts from the folder where the engine starts"
            )
        elif checkpoint is not None and not checkpoint.verified:
            lines.append(
                f"verify: {checkpoint.repository} follows a pattern of names; look whether it is there"
            )
        if plugin := plugin_for(self.engine, one.replica_layout.weight_dtype, self.release):
            lines.append(
                f"first: pip install {plugin}, where the engine runs and in its image too: without it "
                f"{self.engine.name} {self.release} loads no {one.replica_layout.weight_dtype} weights"
            )
        guess = one.levers.get("speculation")
        head = next((path for path in self.own_paths if path.endswith("-eagle3")), "")
        if guess and head:
            lines.append(f"verify: no EAGLE head of {self.model} is in the catalog; put one into {head}")
        if (flag := self.engine.flags.local_head) and flag in self.launch.argv:
            draft = self.launch.argv[self.launch.argv.index(Line(flag)) + 1]
            lines.append(
                f"first: no GGUF file of the draft model is in the catalog; convert one into {draft}"
            )
        if package := self.engine.flags.plugins_on.get(plugin_of(self.chip)):
            lines.append(
                f"first: install {package}, which runs {self.engine.name} on {self.chip.id} and has releases of its own"
            )
        if self.runs_code:
            lines.append(
                f"first: read the Python files of the model's repository, which {self.engine.flags.repository_code} "
                "lets the engine run with your rights; pin what you read with --revision"
            )
        if self.nodes_per_replica > 1:
            lines.append(
                "verify: the machines of a replica reach each other on all ports, over the network that was planned; "
                "NCCL_SOCKET_IFNAME names its interface if there are several"
            )
        if one.levers.get("adapters") and not (self.adapter_folder and self.engine.flags.adapter_paths):
            lines.append(
                "first: the command has room for adapters and loads none: --adapters FOLDER writes their names and "
                f"paths into it, or see how {self.engine.name} loads them later"
            )
        lines += [str(reason) for reason in one.reasons if isinstance(reason, UnsureClass)]
        if limit_w := one.machine.power_limit_w:
            lines.append(f"first, on each machine: power.sh holds its boards to {limit_w:.0f} W")
        return tuple(map(Line, lines))

    def files(self, *, in_container: bool = False) -> dict[str, str]:
        """Return files that any format may need: options file, power limits, and a quantisation recipe if no weights
        are published."""
        found = {}
        if self.launch.config:
            found[self.config_name] = self.options_text(in_container=in_container)
        checkpoint = self.option.started.checkpoint
        if checkpoint is not None and checkpoint.is_made_first:
            target = next(word for word in self.launch.argv if word.startswith("./"))
            source = Line(checkpoint.repository)
            if self.folder and checkpoint.is_local and not source.startswith("/"):
                source = Line(f"../{source.removeprefix('./')}")  # the recipe runs in the plan's folder
            found["quantise.sh"] = recipe(
                source,
                checkpoint.format,
                self.option.replica_layout.weight_dtype,
                target,
                self.engine.id,
                is_local=checkpoint.is_local,
                runs_code=self.runs_code,
            )
        if limit_w := self.option.machine.power_limit_w:
            found["power.sh"] = _POWER.format(limit=" ".join(power_words(limit_w)))
        return found


def _texts_of(value: object) -> Iterator[str]:
    """Yield the texts of an options file."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_of(inner)
    elif isinstance(value, str):
        yield value


def plan_of(model: str, option: Option) -> Plan:
    """Return the plan that starts an option, or one pool of an option.

    Raises: AdvisorError: its engine's options are not known, one of the command is not among them, or no way is known
        to start a replica of the engine on several machines.
    """
    machine = option.machine
    engine = engines.by_id(option.replica_layout.engine)
    chip = accelerators.by_id(machine.accelerator)
    argv = tuple(map(Line, option.started.argv))
    started = LaunchCommand(argv, option.started.config, engine.flags.yaml_file)
    if not started.argv:
        raise AdvisorError(f"{engine.name} has no start command", fix="another --engine")
    release = option.replica_layout.engine_version or ""
    address = shlex.split(engine.flags.address.format(port=PORT))
    check_command(engine.id, (*started.words(CONFIG), *address), release)
    name = slug(f"{model}-{machine.accelerator}")
    config = CONFIG
    if option.role == "kind":
        # Names of kinds differ in their accelerators, which no long name of a model may cut off.
        name = Line(
            f"{slug(model, most=_MOST_NAME_CHARACTERS - len(machine.accelerator))}-{machine.accelerator}"
        )
        config = f"{machine.accelerator}.{CONFIG}"
    elif option.role in SHARES:
        name = Line(f"{name}-{option.role}")
        config = f"{option.role}.{CONFIG}"
    plan = Plan(name, Line(model), option, engine, chip.vendor, started, config)
    if plan.nodes_per_replica > 1:
        # Refuses engines that no way is known for.
        words = " ".join(
            node_words(engine, plan.nodes_per_replica, plan.accelerators_per_process, rank="0", head="H")
        )
        check_command(engine.id, [*started.words(CONFIG), *shlex.split(words)], release)
    return plan
