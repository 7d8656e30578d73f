"""Two parts of a fleet as files: workers of each, with the ports and variables of caches that they send each other, and
the router: the engine's own before two pools, nginx before pools by length of prompt."""

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
from advisor.emit.shell import FIRST_PORT, commented

FIRST_CACHE_PORT: Final = 5600
"""At which workers ask for caches: vLLM's default, and as good as another for SGLang."""
ROUTER_FILE: Final = "router.yaml"
TRT_POOLS: Final = {"prefill": "context_servers", "decode": "generation_servers"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the router finds a worker."""

    share: str
    host: str
    port: object
    cache_port: object


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Two unlike parts ready to be written down."""

    name: Line
    parts: tuple[Plan, ...]
    is_shared: bool
    """Whether one machine holds both."""

    @property
    def whole(self) -> Plan:
        return self.parts[-1]

    @property
    def comments(self) -> tuple[Line, ...]:
        """What stands above every file; the parts share what was quantised and what is to be verified."""
        shares = (f"{plan.layout_words}, for {plan.option.share_words}" for plan in self.parts)
        hosts = (line for plan in self.parts for line in plan.host_words)
        remarks = (line for plan in self.parts for line in plan.remarks)
        lines = (self.whole.title, *shares, *dict.fromkeys(hosts), *self.checks, *dict.fromkeys(remarks))
        return tuple(map(Line, lines))

    @property
    def checks(self) -> tuple[Line, ...]:
        """What to do or to look at before the parts are started."""
        of_parts = (line for plan in self.parts for line in plan.checks)
        return tuple(map(Line, (*dict.fromkeys(of_parts), self._doubt)))

    @property
    def _doubt(self) -> str:
        """What to look at before it is started."""
        flags = self.whole.engine.flags
        if share_of(self.whole) == "replica":
            return f"verify: each request names its conversation in the header {flags.sticky_header}"
        if self.longest_short is None:
            return "verify: NIXL must be in the image or environment of the workers (pip install nixl)"
        size = nginx.bytes_of(self.longest_short)
        return f"verify: the router takes requests below {size:,} bytes for short, at 4 bytes a token"

    @property
    def longest_short(self) -> int | None:
        """Tokens of a prompt up to which it goes to the first part; None where both have a part in every request."""
        return self.parts[0].option.max_prompt_tokens

    @property
    def router_file(self) -> str:
        """What the router reads, where it reads a file."""
        return ROUTER_FILE if self.longest_short is None else nginx.FILE

    @property
    def router_install(self) -> str:
        """What the router must be installed with; empty where it comes with the engine."""
        if self.longest_short is not None:
            return "apt-get update && apt-get install --yes nginx"
        return self.whole.engine.flags.pool_router_install

    def first(self, part: Plan) -> int:
        """Number of workers of the same machine before those of a part."""
        return self.parts[0].num_replicas if self.is_shared and part is not self.parts[0] else 0

    def devices_before(self, part: Plan) -> int:
        """Accelerators of the same machine before those of a part."""
        return self.first(part) * self.parts[0].accelerators_per_replica

    def per_machine(self, part: Plan) -> int:
        return part.num_replicas if self.is_shared else part.replicas_per_host

    @property
    def cache_stride(self) -> int:
        """Ports of one worker: each attention rank has one."""
        return max(part.option.replica_layout.data_parallel for part in self.parts)

    def addresses(self) -> Iterator[Address]:
        """Of all workers, machines by name where there are several."""
        for part in self.parts:
            each, share = self.per_machine(part), share_of(part)
            for place in range(part.num_replicas):
                host = "localhost" if self.is_shared else f"{share.upper()}_HOST_{place // each + 1}"
                number = self.first(part) + place % each
                yield Address(share, host, FIRST_PORT + number, FIRST_CACHE_PORT + number * self.cache_stride)

    def router(self, addresses: Sequence[Address]) -> str:
        """The router's command line. Source: engine records; nginx's documentation."""
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
        """What the router reads, where it takes its workers from a file."""
        if self.longest_short is not None:
            servers = {
                share_of(part): "\n    ".join(
                    f"server {each.host}:{each.port};" for each in addresses if each.share == share_of(part)
                )
                for part in self.parts
            }
            return {nginx.FILE: commented(self.comments) + self.router_conf(servers)}
        if self.whole.engine.flags.pool_router_worker:
            return {}
        content: dict[str, Any] = {"hostname": "0.0.0.0", "port": PORT, "backend": "pytorch"}
        for share, name in TRT_POOLS.items():
            urls = [f"{each.host}:{each.port}" for each in addresses if each.share == share]
            content[name] = {"num_instances": len(urls), "urls": urls}
        return {ROUTER_FILE: commented(self.comments) + yaml.safe_dump(content, sort_keys=False)}

    def router_conf(self, servers: Mapping[str, str]) -> str:
        """The configuration of nginx; `servers` by part."""
        counts = " and ".join(f"{part.num_replicas} for {part.option.share_words}" for part in self.parts)
        return nginx.conf(f"Replicas: {counts}", servers, self.longest_short)

    def install(self) -> str:
        return f"# once: {self.router_install}\n" if self.router_install else ""

    @property
    def hosts_note(self) -> str:
        """What is to be filled in where the parts stand on several machines."""
        names = ", ".join(f"{share_of(part).upper()}_HOST_1" for part in self.parts)
        where = f" in {nginx.FILE}" if self.longest_short is not None else ""
        return f"# Put the names of your machines in place of {names} and so on{where}.\n"


def fleet_plan(model: str, option: Option) -> FleetPlan:
    """An option of unlike parts as it is started.

    Raises: AdvisorError: as a plan of equal replicas; no router of its engine is known.
    """
    parts = tuple(plan_of(model, part) for part in option.parts or (_whole_part(option),))
    for part in parts:
        if share_of(part) not in ("short", "long") and not router_of(part):
            raise AdvisorError(
                f"no router of {part.engine.name} for {share_of(part)} workers is known", fix="--engine vllm"
            )
        check_command(part.engine.id, [*part.words(), *shlex.split(told(part, FIRST_PORT, FIRST_CACHE_PORT))])
    unit = option.machine.accelerators_per_node
    used = sum(part.num_replicas * part.accelerators_per_replica for part in parts)
    alike = all(part.option.machine.accelerators_per_node == unit for part in parts)
    is_shared = option.machine.num_nodes == 1 and used <= unit and alike
    return FleetPlan(Line(parts[-1].name.removesuffix(f"-{share_of(parts[-1])}")), parts, is_shared)


def _whole_part(option: Option) -> Option:
    """Equal replicas behind a router that keeps conversations with them."""
    return replace(option, role="replica")


def router_of(part: Plan) -> str:
    """The engine's router before workers like these; empty where none is known."""
    flags = part.engine.flags
    return flags.sticky_router if share_of(part) == "replica" else flags.pool_router


def share_of(plan: Plan) -> str:
    """Of the work: prefill or decode, short or long."""
    return plan.option.role


def moves_caches(plan: Plan) -> bool:
    """Whether its workers send caches to others, or get them."""
    return share_of(plan) in TRT_POOLS


def told(part: Plan, port: object, cache_port: object) -> str:
    """The address of a worker, and where its caches are asked for."""
    asked = part.engine.flags.pool_port.format(port=cache_port) if share_of(part) == "prefill" else ""
    return f"{part.address(port)} {asked}".strip()


def variables(part: Plan, host: str, cache_port: object) -> dict[str, str]:
    """What tells a worker where its caches are asked for."""
    found = part.engine.flags.pool_env if moves_caches(part) else {}
    return {name: text.format(host=host, port=cache_port) for name, text in found.items()}
