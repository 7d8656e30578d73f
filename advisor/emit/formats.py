"""Formats in which a plan is written, and the folder of files that results."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, Literal

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import PORT
from advisor.catalog.legible import Line, markdown
from advisor.decide.option import Option
from advisor.emit import fleet_manifests, fleet_scripts, operators, spanning
from advisor.emit.fleet import FleetPlan, fleet_plan, share_of, variable_of
from advisor.emit.manifests import LAST, compose_files, kubernetes_files, pod_notes, skypilot_files
from advisor.emit.plan import Plan, plan_of
from advisor.emit.shell import command_files, docker_files, slurm_files

Format = Literal[
    "command", "docker", "compose", "k8s", "skypilot", "slurm", "dynamo", "llm-d", "kserve", "ray"
]
_WRITERS: Final[Mapping[Format, tuple[Callable[[Plan], dict[str, str]], str]]] = {
    "command": (command_files, "bash start.sh"),
    "docker": (docker_files, "bash start.sh"),
    "compose": (compose_files, "docker compose up --detach"),
    "k8s": (kubernetes_files, "kubectl apply -f plan.k8s.yaml"),
    "skypilot": (skypilot_files, "sky serve up service.sky.yaml"),
    "slurm": (slurm_files, "sbatch replicas.sbatch"),
    "dynamo": (operators.dynamo_files, "kubectl apply -f plan.dynamo.yaml"),
    "llm-d": (operators.llmd_files, f"helm install {{}} {operators.CHART} --values values.yaml"),
    "kserve": (operators.kserve_files, "kubectl apply -f plan.kserve.yaml"),
    "ray": (operators.ray_files, "kubectl apply -f plan.ray.yaml"),
}
_FLEET_WRITERS: Final[Mapping[Format, Callable[[FleetPlan], dict[str, str]]]] = {
    "command": fleet_scripts.command_files,
    "docker": fleet_scripts.docker_files,
    "compose": fleet_manifests.compose_files,
    "k8s": fleet_manifests.kubernetes_files,
    "skypilot": fleet_manifests.skypilot_files,
    "slurm": fleet_scripts.slurm_files,
    "dynamo": lambda fleet: operators.dynamo_pool_files(fleet.name, fleet.parts),
    "llm-d": lambda fleet: operators.llmd_pool_files(fleet.parts),
    "kserve": lambda fleet: operators.kserve_pool_files(fleet.name, fleet.parts),
    "ray": lambda fleet: operators.ray_pool_files(fleet.name, fleet.parts),
}
_NO_FLEET: Final[Mapping[Format, str]] = {
    "dynamo": "its frontend sends requests to all workers in turns or by load, without weights or ranges of lengths",
    "llm-d": "its endpoint picker scores pods by their load, without weights for kinds of them",
    "kserve": "an InferenceService has one kind of predictor, and its graph's splitter returns no streams",
    "ray": "a deployment of Ray Serve has equal replicas, which its router chooses by their queues",
}
"""Why a form has no way to say how requests are shared among unlike replicas. Sources: NVIDIA Dynamo, router modes;
llm-d, inference scheduler; KServe, InferenceGraph; Ray Serve, request routing."""
_SPANNING_WRITERS: Final[Mapping[Format, tuple[Callable[[Plan], dict[str, str]], str]]] = {
    "command": (spanning.command_files, "RANK=N HEAD=ADDRESS bash start.sh"),
    "docker": (spanning.docker_files, "RANK=N HEAD=ADDRESS bash start.sh"),
    "compose": (
        spanning.compose_files,
        "HEAD=ADDRESS docker compose --profile head up --detach",
    ),
    "k8s": (spanning.kubernetes_files, "kubectl apply -f plan.k8s.yaml"),
    "skypilot": (spanning.skypilot_files, "sky serve up service.sky.yaml"),
    "slurm": (spanning.slurm_files, "sbatch replicas.sbatch"),
    **{form: _WRITERS[form] for form in ("dynamo", "llm-d", "kserve", "ray")},
}
"""Writers of replicas that hold several machines each, and how they are started."""
IN_CONTAINERS: Final = ("docker", "compose", "k8s", "skypilot", "llm-d", "kserve")

_VENDORS: Final = {
    **dict.fromkeys(("docker", "compose", "k8s", "skypilot", "kserve"), ("nvidia", "amd")),
    **dict.fromkeys(("dynamo", "llm-d", "ray"), ("nvidia",)),
}
"""Vendors of the accelerators that a form is written for; the other forms take any."""
_BY_MACHINE: Final = ("command", "docker", "compose")
"""Forms that a person starts on each machine."""
_ASKED: Final = {"RANK": "N", "HEAD": "ADDRESS", "HOST": "ADDRESS"}
"""Variables that a person sets on each machine, with what stands for their values in a README."""
_ON_KUBERNETES: Final = ("k8s", "dynamo", "llm-d", "kserve", "ray")


def emit_files(model: str, option: Option, form: Format, port: int = PORT) -> dict[str, str]:
    """Return the files that start an option, by name; clients use `port`. README.md says in three lines what is
    started, how, and what to verify.

    Raises: AdvisorError: an option of the command is not the release's, or this form does not go with the hardware.
    """
    if option.parts or (option.levers.get("sticky_router") and option.replica_layout.num_replicas > 1):
        return _fleet_files(fleet_plan(model, option), form)
    plan = replace(plan_of(model, option), port=port)
    check_form(plan, form)
    write, start = _WRITERS[form]
    if plan.nodes_per_replica > 1:
        write, start = _SPANNING_WRITERS[form]
    if plan.is_mpi:
        start = start.replace("RANK=N HEAD=ADDRESS", "HOSTS=NAME,NAME")
    files = {**write(plan), **_own_files(plan, form)}
    start = start.format(plan.name)
    return {**files, "README.md": markdown(_readme(plan, form, start, files))}


def check_form(plan: Plan, form: Format) -> None:
    """Refuse containers for hardware without a documented container option, and paths that Docker does not accept.

    Raises: AdvisorError: the form does not go with the hardware or with the path of a local model.
    """
    if form == "docker" and plan.model_folder and ":" in plan.model_folder:
        raise AdvisorError(
            f"{plan.model_folder}: Docker mounts no path with a colon",
            fix="rename the folder, or --emit compose",
        )
    check_hardware(form, (plan.option.machine.accelerator,))


def check_hardware(form: Format, names: Sequence[str], others: Sequence[str] = ()) -> None:
    """Refuse a form that is written for the hardware of other vendors than that of every named accelerator; the first
    of `others` for which it is written is the way out.

    Raises: AdvisorError: so it is.
    """
    vendors = {name: accelerators.by_id(name).vendor for name in (*names, *others)}
    written = _VENDORS.get(form, ())
    if not written or not names or any(vendors[name] in written for name in names):
        return
    able = next((f"--gpu {name}, or " for name in others if vendors[name] in written), "")
    in_pods = form in ("dynamo", "llm-d", "ray") and all(vendors[name] in _VENDORS["k8s"] for name in names)
    raise AdvisorError(
        f"--emit {form} is for accelerators of {' and '.join(map(str.upper, written))}, not for {', '.join(names)}",
        why="what a container needs to see it, or which image of the stack runs there, is not in the catalog",
        fix=f"{able}--emit {'k8s' if in_pods else 'command'}",
    )


def _fleet_files(fleet: FleetPlan, form: Format) -> dict[str, str]:
    """Return the files that start the pools of a fleet and their router, and a README.md of three lines."""
    has_roles = all(part.option.role in ("prefill", "decode") for part in fleet.parts)
    if form in _NO_FLEET and not has_roles:
        raise AdvisorError(
            f"--emit {form} writes equal replicas, or pools that prefill and decode, and no sticky router",
            why=_NO_FLEET[form],
            fix="--emit k8s" if fleet.is_weighted else "--emit k8s, or --levers none",
        )
    for part in fleet.parts:
        check_form(part, form)
    files = _FLEET_WRITERS[form](fleet)
    for part in fleet.parts:
        for name, text in _own_files(part, form).items():
            is_taken = files.get(name, text) != text
            files[f"{share_of(part)}.{name}" if is_taken else name] = text
    first, *rest = fleet.comments
    start = f"`{_WRITERS[form][1].format(fleet.name)}`; the router comes with it"
    if "router.sh" in files:
        by = {
            "slurm": "sbatch {}.sbatch",
            "compose": "docker compose --file {}.compose.yaml up --detach",
            "skypilot": "sky serve up {}.sky.yaml",
        }
        each = by.get(form, "bash {}.sh")
        by_machine = form in _BY_MACHINE
        asked = [_variables_in(files, share_of(part)) if by_machine else () for part in fleet.parts]
        starts = [
            "".join(f"{name}={_ASKED[name]} " for name in names) + each.format(share_of(part))
            for part, names in zip(fleet.parts, asked, strict=True)
        ]
        where = " on each machine of its pool" if by_machine else ""
        if any(part.nodes_per_replica > 1 for part in fleet.parts) and by_machine:
            where += "; in a worker of several machines, RANK is the machine's number and HEAD the first one"
            if form == "compose":
                where += ", which takes `--profile head`, and the others `--profile worker`"
        if any("HOST" in names for names in asked):
            where += "; HOST is the address of that machine, as the others reach it"
        all_parts = " and ".join(
            _on_machines(form, start, f"{variable_of(part)}_WORKERS", part)
            for part, start in zip(fleet.parts, starts, strict=True)
        )
        start = f"{all_parts}{where}; then `bash router.sh`"
    before = _before(files, "`")
    doubts = list(fleet.checks)
    doubts += map(Line, dict.fromkeys(chain(*(operators.stack_doubts(part, form) for part in fleet.parts))))
    if form in IN_CONTAINERS:
        doubts += dict.fromkeys(line for part in fleet.parts for line in part.image_doubt)
    if form == "slurm" and fleet.is_weighted:
        doubts.append(
            Line("first: add your cluster's name of each board, as in --gpus-per-node=NAME:2, to its job")
        )
    told = f"{first}; {'; '.join(line for line in rest if line not in doubts)}.\nStart: {before}{start}.\n"
    releases = dict.fromkeys(operators.release_in(part, form) for part in fleet.parts)
    options = f"options are those of {' and '.join(releases)}"
    return {**files, "README.md": markdown(f"{told}Before you deploy: {'; '.join(doubts)}; {options}.\n")}


def _variables_in(files: Mapping[str, str], share: str) -> tuple[str, ...]:
    """Return the variables that a machine's script or Compose file of a pool asks for, in the order of `_ASKED`."""
    text = files.get(f"{share}.compose.yaml") or files.get(f"{share}.sh", "")
    found = set(re.findall(r"\$\{(RANK|HEAD(?=:\?)|HOST(?=:\?)):", text))
    return tuple(name for name in _ASKED if name in found)


def _on_machines(form: Format, start: str, variable: str, plan: Plan) -> str:
    """Return the command that starts the replicas of a machine, and that of the last one if it has fewer."""
    each = plan.replicas_per_host
    last = plan.replicas_on_last
    if last == each or form not in _BY_MACHINE:
        return f"`{start}`"
    if form != "compose":
        return f"`{variable}={each} {start}` (on the last machine `{variable}={last} {start}`)"
    files = start if "--file" in start else start.replace("compose", "compose --file compose.yaml", 1)
    return f"`{start}` (on the last machine `{files.replace('compose.yaml', LAST)}`)"


def _own_files(plan: Plan, form: Format) -> dict[str, str]:
    """Return the files that any form may need, without an options file whose content is in the command."""
    files = plan.files(in_container=form in IN_CONTAINERS)
    return {name: text for name, text in files.items() if form != "dynamo" or name != plan.config_name}


def _before(files: Mapping[str, str], quote: str = "") -> str:
    """Return the commands that run once before the start; empty if there are none."""
    first = [f"{quote}bash {name}{quote}, then " for name in files if name.endswith("quantise.sh")]
    limits = [name for name in files if name.endswith("power.sh")]
    where = "each machine" if len(limits) < 2 else "each machine of its kind"
    first += [f"{quote}sudo bash {name}{quote} on {where}, then " for name in limits]
    return "".join(first)


def _readme(plan: Plan, form: Format, start: str, files: Mapping[str, str]) -> str:
    before = _before(files)
    by_machine = form in _BY_MACHINE
    where = f" on each of {plan.num_hosts} machines" if by_machine and plan.num_hosts > 1 else ""
    if by_machine and plan.nodes_per_replica > 1:
        where = spanning.where_words(plan, form)
    router = ""
    if plan.num_replicas > 1:
        router = "; then nginx with nginx.conf" if "nginx.conf" in files else "; the router comes with it"
        router = {"slurm": "; then bash router.sh", "compose": router}.get(form, router)
        if form == "compose" and plan.num_hosts == 1:
            router = "; the service named router answers"
    doubts: list[str] = [*plan.checks, *operators.stack_doubts(plan, form)]
    if form in _ON_KUBERNETES:
        doubts += pod_notes(plan)
    if form == "k8s" and plan.nodes_per_replica > 1:
        doubts.append(spanning.CONTROLLER_NOTE)
    if form in IN_CONTAINERS:
        doubts += plan.image_doubt
    return (
        f"{plan.title}; {plan.layout_words}.\n"
        f"Start: {before}{_on_machines(form, start, 'REPLICAS', plan)}{where}{router}.\n"
        f"Before you deploy: {'; '.join(doubts) or 'all names were read in a source'}; options are those of "
        f"{operators.release_in(plan, form)}.\n"
    )
