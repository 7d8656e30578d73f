"""Files for two pools that differ: their workers, with the ports and variables for sending caches to each other, and
the router: the engine's own for prefill and decode pools, nginx for pools by prompt length."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Any, Final

import yaml

from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import PORT
from advisor.catalog.launch_options import ROUTERS, check_command
from advisor.catalog.legible import Line
from advisor.decide.option import Option
from advisor.emit import nginx
from advisor.emit.plan import Plan, plan_of
from advisor.emit.shell import FIRST_PORT, comment_lines
from advisor.emit.spanning import is_mpi

FIRST_CACHE_PORT: Final = 5600
"""First port on which a worker serves its KV cache to others. Default of vLLM; SGLang has none, so its workers use the
same."""
ROUTER_FILE: Final = "router.yaml"
TRT_POOLS: Final = {"prefill": "context_servers", "decode": "generation_servers"}


@dataclass(frozen=True, slots=True)
class Address:
    """Address of one worker, as the router uses it."""

    share: str
    host: str
    port: object
    cache_port: object


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Two pools that differ, ready to be written as files."""

    name: Line
    parts: tuple[Plan, ...]
    is_shared: bool
    """Whether one machine holds both pools."""

    @property
    def whole(self) -> Plan:
        return self.parts[-1]

    @property
    def comments(self) -> tuple[Line, ...]:
        """Comment lines above every file; pools repeat neither quantisation steps nor checks."""
        shares = (f"{plan.layout_words}, for {plan.option.share_words}" for plan in self.parts)
        hosts = (line for plan in self.parts for line in plan.host_words)
        remarks = (line for plan in self.parts for line in plan.remarks)
        lines = (self.whole.title, *shares, *dict.fromkeys(hosts), *self.checks, *dict.fromkeys(remarks))
        return tuple(map(Line, lines))

    @property
    def checks(self) -> tuple[Line, ...]:
        """Lines that say what to do or verify before the pools are started."""
        of_parts = (line for plan in self.parts for line in plan.checks)
        return tuple(map(Line, (*dict.fromkeys(of_parts), self._doubt)))

    @property
    def _doubt(self) -> str:
        """Line that says what to verify about the router or the transfer of caches."""
        flags = self.whole.engine.flags
        if share_of(self.whole) == "replica":
            return f"verify: each request names its conversation in the header {flags.sticky_header}"
        if self.longest_short is None:
            return "verify: NIXL must be in the image or environment of the workers (pip install nixl)"
        size = nginx.bytes_of(self.longest_short)
        return f"verify: the router takes requests below {size:,} bytes for short, at 4 bytes a token"

    @property
    def longest_short(self) -> int | None:
        """Longest prompt that goes to the first pool [tokens]; None if both pools take part in every request."""
        return self.parts[0].option.max_prompt_tokens

    @property
    def router_file(self) -> str:
        """Name of the file from which the router reads its configuration."""
        return ROUTER_FILE if self.longest_short is None else nginx.FILE

    @property
    def router_install(self) -> str:
        """Command that installs the router; empty if it comes with the engine."""
        if self.longest_short is not None:
            return "apt-get update && apt-get install --yes nginx"
        return self.whole.engine.flags.pool_router_install

    def first(self, part: Plan) -> int:
        """Number of workers on the same machine before those of `part`."""
        return self.parts[0].num_replicas if self.is_shared and part is not self.parts[0] else 0

    def devices_before(self, part: Plan) -> int:
        """Number of accelerators on the same machine before those of `part`."""
        return self.first(part) * self.parts[0].accelerators_per_replica

    def per_machine(self, part: Plan) -> int:
        return part.num_replicas if self.is_shared else part.replicas_per_host

    @property
    def cache_stride(self) -> int:
        """Number of cache ports per worker: each attention rank has one."""
        return max(part.option.replica_layout.data_parallel for part in self.parts)

    def addresses(self) -> Iterator[Address]:
        """Yield the addresses of all workers; machines have placeholder names if there are several."""
        for part in self.parts:
            each = self.per_machine(part)
            share = share_of(part)
            for place in range(part.num_replicas):
                if part.nodes_per_replica > 1:
                    yield Address(share, f"{share.upper()}_HEAD_{place + 1}", FIRST_PORT, FIRST_CACHE_PORT)
                    continue
                host = "localhost" if self.is_shared else f"{share.upper()}_HOST_{place // each + 1}"
                number = self.first(part) + place % each
                yield Address(share, host, FIRST_PORT + number, FIRST_CACHE_PORT + number * self.cache_stride)

    def router(self, addresses: Sequence[Address]) -> str:
        """Return the router's command line. Source: engine records; nginx's documentation."""
        if self.longest_short is not None:
            return f'nginx -c "$PWD/{nginx.FILE}" -g "daemon off;"'
        flags = self.whole.engine.flags
        workers = " ".join(
            flags.pool_router_worker[each.share].format(
                url=f"http://{each.host}:{each.port}", port=each.cache_port
            )
            for each in addresses
            if each.share in flags.pool_router_worker
        )
        command = Template(router_of(self.whole)).substitute(workers=workers).format(port=PORT)
        if self.whole.engine.id in ROUTERS:
            check_command(ROUTERS[self.whole.engine.id], shlex.split(command))
        return command

    def router_files(self, addresses: Sequence[Address]) -> dict[str, str]:
        """Return the router's configuration file by name; empty if the router takes its workers on the command line."""
        if self.longest_short is not None:
            servers = {
                share_of(part): "\n    ".join(
                    f"server {each.host}:{each.port};" for each in addresses if each.share == share_of(part)
                )
                for part in self.parts
            }
            return {nginx.FILE: comment_lines(self.comments) + self.router_conf(servers)}
        if self.whole.engine.flags.pool_router_worker:
            return {}
        content: dict[str, Any] = {"hostname": "0.0.0.0", "port": PORT, "backend": "pytorch"}
        for share, name in TRT_POOLS.items():
            urls = [f"{each.host}:{each.port}" for each in addresses if each.share == share]
            content[name] = {"num_instances": len(urls), "urls": urls}
        return {ROUTER_FILE: comment_lines(self.comments) + yaml.safe_dump(content, sort_keys=False)}

    def router_conf(self, servers: Mapping[str, str]) -> str:
        """Return the configuration of nginx; `servers` holds the upstream lines by pool."""
        counts = " and ".join(f"{part.num_replicas} for {part.option.share_words}" for part in self.parts)
        return nginx.conf(f"Replicas: {counts}", servers, self.longest_short)

    def install(self) -> str:
        return f"# once: {self.router_install}\n" if self.router_install else ""

    @property
    def hosts_note(self) -> str:
        """Comment that says which machine names to fill in; used if the pools are on several machines."""
        kinds = ((share_of(part).upper(), part.nodes_per_replica > 1) for part in self.parts)
        names = ", ".join(f"{share}_{'HEAD' if spans else 'HOST'}_1" for share, spans in kinds)
        where = f" in {nginx.FILE}" if self.longest_short is not None else ""
        machines = "first machines" if all(part.nodes_per_replica > 1 for part in self.parts) else "machines"
        return f"# Put the names of your {machines} in place of {names} and so on{where}.\n"


def fleet_plan(model: str, option: Option) -> FleetPlan:
    """Return the plan that starts an option of two pools, or of replicas behind a sticky router.

    Raises: AdvisorError: as a plan of equal replicas; no router of its engine is known.
    """
    if any(part.role == "kind" for part in option.parts):
        raise AdvisorError(
            "--emit writes no router for boards of several kinds",
            why="no engine's router is known to weigh replicas by what they carry",
            fix="start each part with its command, and weigh them in your router by their shares of the requests",
        )
    parts = tuple(plan_of(model, part) for part in option.parts or (_whole_part(option),))
    for part in parts:
        if share_of(part) not in ("short", "long") and not router_of(part):
            raise AdvisorError(
                f"no router of {part.engine.name} for {share_of(part)} workers is known", fix="--engine vllm"
            )
        check_command(
            part.engine.id,
            [*part.words(), *shlex.split(worker_options(part, FIRST_PORT, FIRST_CACHE_PORT))],
            part.release,
        )
        if part.nodes_per_replica > 1 and is_mpi(part):
            raise AdvisorError(
                f"no way is known to start pools of {part.engine.name} whose workers hold several machines",
                fix="--engine sglang, or --levers none",
            )
    unit = min(part.host_size for part in parts)
    used = sum(part.num_replicas * part.accelerators_per_replica for part in parts)
    alike = all(
        part.option.machine.accelerators_per_node == option.machine.accelerators_per_node for part in parts
    )
    is_shared = option.machine.num_nodes == 1 and used <= unit and alike
    return FleetPlan(Line(parts[-1].name.removesuffix(f"-{share_of(parts[-1])}")), parts, is_shared)


def _whole_part(option: Option) -> Option:
    """Return the option as equal replicas behind a router that keeps each conversation on one of them."""
    return replace(option, role="replica")


def router_of(part: Plan) -> str:
    """Return the engine's router for workers like these; empty if none is known."""
    flags = part.engine.flags
    return flags.sticky_router if share_of(part) == "replica" else flags.pool_router


def share_of(plan: Plan) -> str:
    """Return the role of the workers: prefill or decode, short or long, or replica."""
    return plan.option.role


def moves_caches(plan: Plan) -> bool:
    """Whether the workers send caches to others or receive them."""
    return share_of(plan) in TRT_POOLS


def worker_options(part: Plan, port: object, cache_port: object) -> str:
    """Return the options for a worker's port and, for prefill, its cache port."""
    asked = part.engine.flags.pool_port.format(port=cache_port) if share_of(part) == "prefill" else ""
    return f"{part.address(port)} {asked}".strip()


def variables(part: Plan, host: str, cache_port: object) -> dict[str, str]:
    """Return the environment variables that tell a worker its cache address; empty if it moves no caches."""
    found = part.engine.flags.pool_env if moves_caches(part) else {}
    return {name: text.format(host=host, port=cache_port) for name, text in found.items()}
