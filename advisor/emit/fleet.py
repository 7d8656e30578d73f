"""Two pools as files: workers of each with the ports and variables of their caches, and the engine's router."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any, Final

import yaml

from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import PORT
from advisor.catalog.launch_options import check_command
from advisor.emit.plan import Plan, plan_of
from advisor.emit.shell import FIRST_PORT, commented
from advisor.recommend.result import SHARE_WORDS, Option

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
    """Two pools ready to be written down."""

    name: str
    parts: tuple[Plan, ...]
    is_shared: bool
    """Whether one machine holds both."""

    @property
    def whole(self) -> Plan:
        return self.parts[-1]

    @property
    def comments(self) -> tuple[str, ...]:
        """What stands above every file; the parts share what was quantised and what is to be verified."""
        shares = (f"{plan.comments[1]}, for {SHARE_WORDS[share_of(plan)]}" for plan in self.parts)
        more = (line for plan in self.parts for line in plan.comments[2:] if "machines with" not in line)
        needs = ("verify: NIXL must be in the image or environment of the workers (pip install nixl)",)
        return (self.whole.comments[0], *shares, *dict.fromkeys(more), *needs)

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
        return max(part.option.data_parallel for part in self.parts)

    def addresses(self) -> Iterator[Address]:
        """Of all workers, machines by name where there are several."""
        for part in self.parts:
            each, share = self.per_machine(part), share_of(part)
            for place in range(part.num_replicas):
                host = "localhost" if self.is_shared else f"{share.upper()}_HOST_{place // each + 1}"
                number = self.first(part) + place % each
                yield Address(share, host, FIRST_PORT + number, FIRST_CACHE_PORT + number * self.cache_stride)

    def router(self, addresses: Sequence[Address]) -> str:
        """The router's command line. Source: engine records."""
        flags = self.whole.engine.flags
        workers = " ".join(
            flags.pool_router_worker[each.share].format(
                url=f"http://{each.host}:{each.port}", port=each.cache_port
            )
            for each in addresses
            if each.share in flags.pool_router_worker
        )
        return Template(flags.pool_router).substitute(workers=workers).format(port=PORT)

    def router_files(self, addresses: Sequence[Address]) -> dict[str, str]:
        """What the router reads, where it takes its workers from a file."""
        if self.whole.engine.flags.pool_router_worker:
            return {}
        content: dict[str, Any] = {"hostname": "0.0.0.0", "port": PORT, "backend": "pytorch"}
        for share, name in TRT_POOLS.items():
            urls = [f"{each.host}:{each.port}" for each in addresses if each.share == share]
            content[name] = {"num_instances": len(urls), "urls": urls}
        return {ROUTER_FILE: commented(self.comments) + yaml.safe_dump(content, sort_keys=False)}

    def install(self) -> str:
        found = self.whole.engine.flags.pool_router_install
        return f"# once: {found}\n" if found else ""


def fleet_plan(model: str, option: Option) -> FleetPlan:
    """An option of two pools as it is started.

    Raises: AdvisorError: as a plan of equal replicas; no router of its engine is known.
    """
    parts = tuple(plan_of(model, part) for part in option.parts)
    for part in parts:
        if not part.engine.flags.pool_router:
            raise AdvisorError(f"no router of {part.engine.name} for two pools is known", fix="--engine vllm")
        check_command(part.engine.id, [*part.words(), *shlex.split(told(part, FIRST_PORT, FIRST_CACHE_PORT))])
    is_shared = all(part.option.accelerators_per_unit == option.accelerators_per_unit for part in parts)
    return FleetPlan(parts[-1].name.removesuffix("-decode"), parts, is_shared)


def share_of(plan: Plan) -> str:
    """Of the work: prefill or decode."""
    return str(getattr(plan.option, "share", ""))


def told(part: Plan, port: object, cache_port: object) -> str:
    """The address of a worker, and where its caches are asked for."""
    asked = part.engine.flags.pool_port.format(port=cache_port) if share_of(part) == "prefill" else ""
    return f"{part.address(port)} {asked}".strip()


def variables(part: Plan, host: str, cache_port: object) -> dict[str, str]:
    """What tells a worker where its caches are asked for."""
    return {
        name: text.format(host=host, port=cache_port) for name, text in part.engine.flags.pool_env.items()
    }
