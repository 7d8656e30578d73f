"""Files for replicas that differ: their workers, with the ports and variables for sending caches to each other, and
the router: the engine's own for prefill and decode pools, nginx for pools by prompt length and for kinds of boards."""

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
from advisor.catalog.units import HOUR_S
from advisor.decide.option import Option, Performance
from advisor.emit import nginx
from advisor.emit.plan import Plan, plan_of
from advisor.emit.shell import FIRST_PORT, comment_lines

FIRST_CACHE_PORT: Final = 5600
"""First port on which a worker serves its KV cache to others. Default of vLLM; SGLang has none, so its workers use the
same."""
ROUTER_FILE: Final = "router.yaml"
TRT_POOLS: Final = {"prefill": "context_servers", "decode": "generation_servers"}
_ENGINE_ROUTED: Final = ("prefill", "decode", "replica")
"""Roles whose requests a router of the engine sends, as it knows of caches or conversations."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of one worker, as the router uses it."""

    share: str
    host: str
    port: object
    cache_port: object


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Pools that differ, ready to be written as files."""

    name: Line
    parts: tuple[Plan, ...]
    is_shared: bool
    """Whether one machine holds all pools."""
    requests_per_s: float = 0.0
    """Planned load of all pools together, which kinds of boards share by weights; 0 where the router has none."""

    @property
    def whole(self) -> Plan:
        return self.parts[-1]

    @property
    def comments(self) -> tuple[Line, ...]:
        """Comment lines above every file; pools repeat neither quantisation steps nor checks."""
        titles = tuple(dict.fromkeys(plan.title for plan in self.parts))
        shares = [f"{plan.layout_words}, for {plan.option.share_words}" for plan in self.parts]
        if len(titles) > 1:
            shares = [f"{plan.title}: {words}" for plan, words in zip(self.parts, shares, strict=True)]
        named = (f"requests name the model {plan.served_name}" for plan in self.parts if plan.served_name)
        hosts = (line for plan in self.parts for line in plan.host_words)
        lines = (
            *(titles if len(titles) == 1 else ()),
            *shares,
            *dict.fromkeys(named),
            *dict.fromkeys(hosts),
            *self.checks,
        )
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
        if self.is_weighted:
            return (
                f"verify: weights of the router are requests per hour at {self.requests_per_s:.4g} requests/s; a "
                "replica that is down leaves its part to all others"
            )
        if self.whole.option.role == "replica":
            return f"verify: each request names its conversation in the header {flags.sticky_header}"
        if self.longest_short is None:
            return "verify: NIXL must be in the image or environment of the workers (pip install nixl)"
        size = nginx.bytes_of(self.longest_short)
        return f"verify: the router takes requests below {size:,} bytes for short, at 4 bytes a token"

    @property
    def is_weighted(self) -> bool:
        """Whether the pools are kinds of boards, which get requests in proportion to what they carry."""
        return self.whole.option.role == "kind"

    @property
    def has_nginx(self) -> bool:
        """Whether nginx is the router, as every request goes to one replica of any engine."""
        return self.is_weighted or self.longest_short is not None

    @property
    def longest_short(self) -> int | None:
        """Longest prompt that goes to the first pool [tokens]; None if requests do not go by length."""
        return self.parts[0].option.max_prompt_tokens

    @property
    def router_file(self) -> str:
        """Name of the file from which the router reads its configuration."""
        return nginx.FILE if self.has_nginx else ROUTER_FILE

    @property
    def router_install(self) -> str:
        """Command that installs the router; empty if it comes with the engine."""
        if self.has_nginx:
            return "apt-get update && apt-get install --yes nginx"
        return self.whole.engine.flags.pool_router_install

    def before(self, part: Plan) -> tuple[Plan, ...]:
        """Return the pools in front of `part`."""
        return self.parts[: next(place for place, each in enumerate(self.parts) if each is part)]

    def first(self, part: Plan) -> int:
        """Number of workers on the same machine before those of `part`."""
        return sum(each.num_replicas for each in self.before(part)) if self.is_shared else 0

    def devices_before(self, part: Plan) -> int:
        """Number of devices on the same machine before those of `part`."""
        others = self.before(part) if self.is_shared else ()
        return sum(each.num_replicas * each.devices_per_replica for each in others)

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
                    yield Address(
                        share, f"{variable_of(part)}_HEAD_{place + 1}", FIRST_PORT, FIRST_CACHE_PORT
                    )
                    continue
                host = "localhost" if self.is_shared else f"{variable_of(part)}_HOST_{place // each + 1}"
                number = self.first(part) + place % each
                yield Address(share, host, FIRST_PORT + number, FIRST_CACHE_PORT + number * self.cache_stride)

    def router(self, addresses: Sequence[Address]) -> str:
        """Return the router's command line. Source: engine records; nginx's documentation."""
        if self.has_nginx:
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
        if self.has_nginx:
            servers = dict[str, str]()
            for part in self.parts:
                own = [each for each in addresses if each.share == share_of(part)]
                servers[share_of(part)] = "\n    ".join(
                    self.server_line(part, f"{each.host}:{each.port}", len(own)) for each in own
                )
            return {nginx.FILE: comment_lines(self.comments) + self.router_conf(servers)}
        if self.whole.engine.flags.pool_router_worker:
            return {}
        content: dict[str, Any] = {"hostname": "0.0.0.0", "port": PORT, "backend": "pytorch"}
        for share, name in TRT_POOLS.items():
            urls = [f"{each.host}:{each.port}" for each in addresses if each.share == share]
            content[name] = {"num_instances": len(urls), "urls": urls}
        return {ROUTER_FILE: comment_lines(self.comments) + yaml.safe_dump(content, sort_keys=False)}

    def router_conf(self, servers: Mapping[str, str]) -> str:
        """Return the configuration of nginx; `servers` holds the upstream lines by pool, of which kinds make one."""
        counts = " and ".join(f"{part.num_replicas} for {part.option.share_words}" for part in self.parts)
        if self.is_weighted:
            servers = {"replicas": "\n    ".join(servers.values())}
        return nginx.conf(f"Replicas: {counts}", servers, self.longest_short, is_weighted=self.is_weighted)

    def server_line(self, part: Plan, address: str, num_addresses: int) -> str:
        """Return the upstream line of one of the addresses that share the requests of a pool; of kinds of boards with
        its requests per hour as weight."""
        fraction = part.option.share_fraction
        if fraction is None:
            return f"server {address};"
        weight = max(1, round(self.requests_per_s * HOUR_S * fraction / num_addresses))
        return f"server {address} weight={weight};"

    def install(self) -> str:
        return f"# once: {self.router_install}\n" if self.router_install else ""

    @property
    def hosts_note(self) -> str:
        """Comment that says which machine names to fill in; used if the pools are on several machines."""
        kinds = ((variable_of(part), part.nodes_per_replica > 1) for part in self.parts)
        names = ", ".join(f"{share}_{'HEAD' if spans else 'HOST'}_1" for share, spans in kinds)
        where = f" in {nginx.FILE}" if self.has_nginx else ""
        machines = "first machines" if all(part.nodes_per_replica > 1 for part in self.parts) else "machines"
        return f"# Put the names of your {machines} in place of {names} and so on{where}.\n"


def fleet_plan(model: str, option: Option) -> FleetPlan:
    """Return the plan that starts an option of unlike parts, or of replicas behind a sticky router.

    Raises: AdvisorError: as a plan of equal replicas; no router of its engine is known.
    """
    parts = tuple(plan_of(model, part) for part in option.parts or (_whole_part(option),))
    if _are_named_apart(parts):
        parts = tuple(_with_name(part, Line(model)) for part in parts)
    for part in parts:
        if part.option.role in _ENGINE_ROUTED and not router_of(part):
            raise AdvisorError(
                f"no router of {part.engine.name} for {share_of(part)} workers is known", fix="--engine vllm"
            )
        check_command(
            part.engine.id,
            [*part.words(), *shlex.split(worker_options(part, FIRST_PORT, FIRST_CACHE_PORT))],
            part.release,
        )
        if part.nodes_per_replica > 1 and part.is_mpi:
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
    served = option.performance
    rate = served.requests_per_s.value if isinstance(served, Performance) else 0.0
    return FleetPlan(Line(parts[-1].name.removesuffix(f"-{share_of(parts[-1])}")), parts, is_shared, rate)


def _are_named_apart(parts: Sequence[Plan]) -> bool:
    """Whether the parts load unlike checkpoints, whose names requests would have to tell apart."""
    return len({part.option.started.checkpoint for part in parts}) > 1


def _with_name(part: Plan, name: Line) -> Plan:
    """Return a part that answers requests under `name`."""
    flag = part.engine.flags.served_name
    words = (Line(flag), name) if flag else ()
    return replace(part, launch=replace(part.launch, argv=(*part.launch.argv, *words)), served_name=name)


def _whole_part(option: Option) -> Option:
    """Return the option as equal replicas behind a router that keeps each conversation on one of them."""
    return replace(option, role="replica")


def router_of(part: Plan) -> str:
    """Return the engine's router for workers like these; empty if none is known."""
    flags = part.engine.flags
    return flags.sticky_router if part.option.role == "replica" else flags.pool_router


def share_of(plan: Plan) -> str:
    """Return the name of a pool: its role, prefill or decode, short or long, or replica; of kinds their accelerator."""
    return plan.option.machine.accelerator if plan.option.role == "kind" else plan.option.role


def variable_of(plan: Plan) -> str:
    """Return the name of a pool as variables of a shell and placeholders of its machines have it."""
    return share_of(plan).upper().replace("-", "_")


def moves_caches(plan: Plan) -> bool:
    """Whether the workers send caches to others or receive them."""
    return plan.option.role in TRT_POOLS


def worker_options(part: Plan, port: object, cache_port: object) -> str:
    """Return the options for a worker's port and, for prefill, its cache port."""
    asked = part.engine.flags.pool_port.format(port=cache_port) if part.option.role == "prefill" else ""
    return f"{part.address(port)} {asked}".strip()


def variables(part: Plan, host: str, cache_port: object) -> dict[str, str]:
    """Return the environment variables that tell a worker its cache address; empty if it moves no caches."""
    found = part.engine.flags.pool_env if moves_caches(part) else {}
    return {name: text.format(host=host, port=cache_port) for name, text in found.items()}
