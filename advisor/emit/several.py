"""Files for several models on one fleet: a folder per model, and a script or Compose file per kind of machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import PORT
from advisor.catalog.legible import Line, markdown
from advisor.decide.option import Option, SharedMachines
from advisor.emit import nginx
from advisor.emit.formats import IN_CONTAINERS, Format, check_form, emit_files
from advisor.emit.manifests import compose_replica, dump_yaml
from advisor.emit.plan import Plan, plan_of, slug
from advisor.emit.shell import comment_lines, container_lines, replica_line, replica_loop, router_conf, script

_PORTS: Final = 1000
"""Distance between the ports of two models."""
_BY_MACHINE: Final = ("command", "docker", "compose")


@dataclass(frozen=True, slots=True)
class _Served:
    """Plan of one of the models, and the folder of its files."""

    folder: Line
    plan: Plan

    @property
    def first_port(self) -> int:
        """Port of the first replica. With several replicas the router takes the plan's port and they use the following
        ones."""
        return self.plan.port + (self.plan.num_replicas > 1)


@dataclass(frozen=True, slots=True)
class _Standing:
    """Replicas of one model on one machine."""

    served: _Served
    count: int
    first_device: int

    def devices(self, place: int) -> list[str]:
        """Return the accelerators of the replica at `place`, as device numbers."""
        each = self.served.plan.devices_per_replica
        first = self.first_device + place * each
        return [str(number) for number in range(first, first + each)]


def emitted_models(fleet: Option, form: Format) -> dict[str, str]:
    """Return the files that start all models, by name; each model has its own port.

    Raises: AdvisorError: as of one model; models share machines, and the form has none.
    """
    whole = [_on_one_node(option) for option in fleet.parts]
    served = list[_Served]()
    for place, option in enumerate(whole):
        model = option.model or ""
        plan = replace(plan_of(model, option), port=PORT + place * _PORTS)
        check_form(plan, form)
        folder = slug(model)
        is_taken = any(each.folder == folder for each in served)
        served.append(_Served(Line(f"{folder}-{place + 1}") if is_taken else folder, plan))
    if form in _BY_MACHINE:
        placed = [replace(each, plan=replace(each.plan, folder=each.folder)) for each in served]
        apart = {
            f"{each.folder}/{name}": text
            for each, option in zip(served, whole, strict=True)
            if each.plan.nodes_per_replica > 1
            for name, text in emit_files(each.plan.model, option, form, each.plan.port).items()
        }
        return _by_machine(fleet, placed, form) | apart
    if form == "skypilot" and any(each.shares_machines for each in fleet.purchases):
        raise AdvisorError(
            "services of SkyPilot do not share machines, and these models do",
            why="each of its services rents machines of its own",
            fix="--emit k8s, or --emit slurm",
        )
    files = dict[str, str]()
    lines = list[str]()
    for each, option in zip(served, whole, strict=True):
        own = emit_files(each.plan.model, option, form, each.plan.port)
        files |= {f"{each.folder}/{name}": text for name, text in own.items()}
        port = each.plan.port + (option.replica_layout.num_replicas == 1) if form == "slurm" else PORT
        lines.append(f"{each.plan.model}, port {port}: in {each.folder} as its README.md says.\n")
    return files | {"README.md": markdown("".join(lines))}


def _on_one_node(option: Option) -> Option:
    """Return the option as if one node held all of it; machines are assigned separately."""
    machine = replace(option.machine, accelerators_per_node=option.machine.num_accelerators, num_nodes=1)
    return replace(option, machine=machine)


def _by_machine(fleet: Option, served: Sequence[_Served], form: Format) -> dict[str, str]:
    """Return a script or Compose file for each kind of machine, and the files that each model needs in its folder.

    Replicas that hold several machines each are left out: they have scripts of their own.

    Raises: AdvisorError: such a replica shares machines with another model.
    """
    machines = [each for bought in fleet.purchases for each in bought.machines]
    spanning = [each for each in served if each.plan.nodes_per_replica > 1]
    names = {each.plan.model for each in spanning}
    if any(names & each.num_replicas.keys() and len(each.num_replicas) > 1 for each in machines):
        raise AdvisorError(
            f"--emit {form} starts no replica on several machines that it shares with another model",
            why="which accelerators of which machine each of them gets is left to a scheduler",
            fix="--emit k8s, or --emit slurm",
        )
    machines = [each for each in machines if not names & each.num_replicas.keys()]
    served = [each for each in served if each.plan.model not in names]
    comments = _comments(served)
    is_one = sum(each.count for each in machines) == 1
    files = {
        f"{each.folder}/{name}": text
        for each in served
        for name, text in each.plan.files(in_container=form in IN_CONTAINERS).items()
    }
    starts = list[str]()
    first = 1
    for number, machine in enumerate(machines, start=1):
        standing = list(_standing(machine, served))
        name = f"machine-{number}.{'compose.yaml' if form == 'compose' else 'sh'}"
        if form == "compose":
            files[name] = _compose(f"machine-{number}", comments, standing, is_one=is_one)
        else:
            files[name] = script(comments, _script(standing, form))
        start = f"docker compose --file {name} up --detach" if form == "compose" else f"bash {name}"
        last = first + machine.count - 1
        hosts = f"HOST_{first}" if last == first else f"each of HOST_{first} to HOST_{last}"
        starts.append(f"`{start}`" + ("" if is_one else f" on {hosts}"))
        first = last + 1
    starts += [f"{each.plan.model} in {each.folder} as its README.md says" for each in spanning]
    in_network = is_one and form == "compose"
    for each in served:
        if each.plan.num_replicas > 1:
            servers = "\n    ".join(_servers(each, machines, served, is_one=is_one, in_network=in_network))
            files[f"{each.folder}/{nginx.FILE}"] = comment_lines(each.plan.comments) + router_conf(
                each.plan, servers
            )
    return files | {
        "README.md": markdown(_readme(served, spanning, starts, machines, files, in_network=in_network))
    }


def _comments(served: Sequence[_Served]) -> tuple[Line, ...]:
    """Return the comment lines above every file of a machine."""
    return tuple(line for each in served for line in each.plan.comments)


def _standing(machine: SharedMachines, served: Sequence[_Served]) -> Iterator[_Standing]:
    """Yield the replicas on a machine, the largest first."""
    places = sorted(range(len(served)), key=lambda place: -served[place].plan.accelerators_per_replica)
    device = 0
    for place in places:
        count = machine.num_replicas.get(served[place].plan.model, 0)
        if count:
            yield _Standing(served[place], count, device)
            device += count * served[place].plan.devices_per_replica


def _script(standing: Sequence[_Standing], form: Format) -> str:
    """Return the commands that start the replicas of one machine; own files of a model are in its folder."""
    parts = []
    for each in standing:
        plan = each.served.plan
        head = f"# {plan.model}\n(\n"
        loop = replica_loop(plan, each.count, each.first_device)
        if form == "docker":
            parts.append(f"{head}{loop}{container_lines(plan)}done\n)\n")
        else:
            parts.append(f"{head}{loop}{replica_line(plan)}done\nwait\n) &\n")
    return "".join(parts) + ("" if form == "docker" else "wait\n")


def _compose(name: str, comments: tuple[Line, ...], standing: Sequence[_Standing], *, is_one: bool) -> str:
    """Return the Compose services of one machine; they include the routers if it is the only machine."""
    services: dict[str, Any] = {}
    for each in standing:
        plan = each.served.plan
        folder = each.served.folder
        names = [f"{folder}-{place}" for place in range(each.count)]
        for place, own in enumerate(names):
            services[own] = compose_replica(plan, each.devices(place), is_alone=False)
            if not is_one or plan.num_replicas == 1:
                services[own]["ports"] = [f"{each.served.first_port + place}:{PORT}"]
        if is_one and plan.num_replicas > 1:
            services[f"{folder}-router"] = {
                "image": nginx.IMAGE,
                "ports": [f"{plan.port}:{plan.port}"],
                "volumes": [f"./{folder}/{nginx.FILE}:/etc/nginx/nginx.conf:ro"],
                "depends_on": {own: {"condition": "service_healthy"} for own in names},
                "restart": "unless-stopped",
            }
    return dump_yaml(comments, {"name": name, "services": services})


def _servers(
    one: _Served,
    machines: Sequence[SharedMachines],
    served: Sequence[_Served],
    *,
    is_one: bool,
    in_network: bool,
) -> Iterator[str]:
    """Yield the replicas of a model as lines of nginx; machines are called HOST_1 and so on."""
    host = 0
    for machine in machines:
        for _ in range(machine.count):
            host += 1
            for number in range(machine.num_replicas.get(one.plan.model, 0)):
                if in_network:
                    yield f"server {one.folder}-{number}:{PORT};"
                else:
                    yield f"server {'127.0.0.1' if is_one else f'HOST_{host}'}:{one.first_port + number};"


def _host(one: _Served, machines: Sequence[SharedMachines], served: Sequence[_Served]) -> str:
    """Return the name of the first machine that holds the model."""
    server = next(_servers(one, machines, served, is_one=False, in_network=False))
    return server.split()[1].partition(":")[0]


def _readme(
    served: Sequence[_Served],
    spanning: Sequence[_Served],
    starts: Sequence[str],
    machines: Sequence[SharedMachines],
    files: dict[str, str],
    *,
    in_network: bool,
) -> str:
    """Return README.md: what is started, how, and at which address each model answers."""
    first = [
        f"in {each.folder} `bash quantise.sh`" for each in served if f"{each.folder}/quantise.sh" in files
    ]
    before = f"{', '.join(first)}, then " if first else ""
    asked = []
    for each in served:
        where = f"port {each.plan.port}"
        if each.plan.num_replicas > 1 and not in_network:
            where += f" of nginx with {each.folder}/{nginx.FILE}"
        elif sum(machine.count for machine in machines) > 1:
            where += f" of {_host(each, machines, served)}"
        asked.append(f"{each.plan.model} at {where}")
    asked += [f"{each.plan.model} at port {each.plan.port} of its own machines" for each in spanning]
    doubts = [line for each in served for line in each.plan.checks]
    doubts += dict.fromkeys(
        Line(f"options are those of {each.plan.engine.name} {each.plan.release}") for each in served
    )
    return (
        f"{len(asked)} models: {'; '.join(asked)}.\n"
        f"Start: {before}{'; '.join(starts)}.\n"
        f"Before you deploy: {'; '.join(doubts)}.\n"
    )
