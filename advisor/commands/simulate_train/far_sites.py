"""A plan on several sites that a slow network joins: what the exchange between them adds to a step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.ask.together import OptionDependency, check_together
from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import BITS_PER_BYTE, GIGA
from advisor.decide.training.runs import trained_parameters
from advisor.decide.training.search import PlanFound
from advisor.render.numbers import TIME, digits, show
from advisor.simulator.quantity import Quantity
from advisor.simulator.training.framework_costs import framework_costs
from advisor.simulator.training.sites import Sites, exchange_s, local_step_s, synchronous_step_s
from advisor.simulator.training.step_sharding import gradient_bytes

_PARAMETER_BYTES = 4.0
"""Bytes of an averaged parameter: DiLoCo's outer optimizer works on differences in fp32 (arXiv:2311.08105)."""
_TOGETHER: Final = (
    *(
        OptionDependency(name, "--sites", f"add --sites 2, or drop {name}", why="there is one site")
        for name in ("--between-gbps", "--inner-steps")
    ),
    OptionDependency(
        "--sites", "--between-gbps", "--between-gbps 100", why="how fast the network between them is decides"
    ),
)


@dataclass(frozen=True, slots=True)
class FarSites:
    """Sites with a plan each, and how they agree."""

    sites: Sites
    inner_steps: int | None
    """Steps apart before parameters are averaged; None: gradients cross every step."""

    def exchanged_bytes(self, found: PlanFound) -> float:
        """Return the bytes that a site sends for each averaging."""
        job = found.job
        costs = framework_costs(job, found.cluster.accelerator.architecture)
        size = _PARAMETER_BYTES if self.inner_steps else gradient_bytes(job, costs)
        return trained_parameters(job) * size

    def step_s(self, found: PlanFound, *, overlapped: bool = False) -> float:
        """Return the mean time of a step [s]; gradients hide behind the last micro-batch's backward pass."""
        plan = found.plan
        num_bytes = self.exchanged_bytes(found)
        if self.inner_steps:
            return local_step_s(self.sites, found.step_s, self.inner_steps, num_bytes, overlapped=overlapped)
        rounds = max(1, found.job.global_batch // (plan.data_parallel * plan.micro_batch))
        return synchronous_step_s(self.sites, found.step_s, found.breakdown_s["backward"] / rounds, num_bytes)

    def result(self, found: PlanFound, rate: Quantity) -> dict[str, object]:
        """Return fields of the answer; `rate` is a site's alone [tokens/s per accelerator]."""
        seconds = self.step_s(found)
        return {
            "num_sites": self.sites.num_sites,
            "between_bytes_per_s": self.sites.bytes_per_s,
            "latency_s": self.sites.latency_s,
            "inner_steps": self.inner_steps,
            "exchange_s": exchange_s(self.sites, self.exchanged_bytes(found)),
            "step_time_s": seconds,
            "overlapped_step_time_s": self.step_s(found, overlapped=True) if self.inner_steps else None,
            "tokens_per_s_per_accelerator": rate.scale(found.step_s / seconds),
        }

    def words(self, found: PlanFound, rate: Quantity) -> str:
        """Return the answer in two sentences."""
        number = self.sites.num_sites
        seconds = self.step_s(found)
        exchange = exchange_s(self.sites, self.exchanged_bytes(found))
        what = "Gradients cross" if not self.inner_steps else "Parameters are averaged"
        often = f"every {digits(self.inner_steps)} steps" if self.inner_steps else "every step"
        beside = judged = ""
        if self.inner_steps:
            beside = f", {show(self.step_s(found, overlapped=True), TIME)} beside the next steps"
            judged = "; what drifting apart costs in loss is not judged"
        return (
            f"{number} such sites, {number * found.num_accelerators} accelerators: {show(seconds, TIME)} a step of "
            f"{number * found.job.global_batch} sequences{beside}, {digits(rate.value * found.step_s / seconds)} "
            f"tokens/s per accelerator. {what} {often}, {show(exchange, TIME)} at "
            f"{digits(self.sites.bytes_per_s * BITS_PER_BYTE / GIGA)} Gb/s between a site and the others{judged}."
        )


def far_sites(values: Mapping[str, Any]) -> FarSites | None:
    """Return the sites that are asked for, if any.

    Raises: AdvisorError: a network between sites or steps apart without sites, or sites without a network between.
    """
    if "beside" in values:
        return None
    check_together(values, _TOGETHER)
    if "sites" not in values:
        return None
    between = float(values["between_gbps"]) * GIGA / BITS_PER_BYTE
    if values["sites"] < 2 or not 0.0 < between < math.inf:
        raise AdvisorError(
            f"{values['sites']} sites with {values['between_gbps']} Gb/s between them",
            why="two at least have something to exchange, over a network that has a rate",
            fix="--sites 2 --between-gbps 100",
        )
    return FarSites(Sites(int(values["sites"]), between), values.get("inner_steps"))
