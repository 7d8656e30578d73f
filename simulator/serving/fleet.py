"""Fleets: pools of equal replicas, their routing, scaling, failures and deployments."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from advisor.catalog.errors import AdvisorError, positive, whole
from advisor.simulator.serving.policy import UNLIMITED, SchedulerPolicy
from advisor.simulator.step_cost import StepSurface

ScalingMetric = Literal["rate", "outstanding", "kv"]
QueueOrder = Literal["arrival", "priority", "deadline"]
RouterRule = Literal["round_robin", "least_outstanding", "prefix_affinity", "session_affinity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """Cold start: time from the decision to start a replica until it serves [s], by machine, image, weights and engine.

    Source: own definition; sizes over bandwidths, times as the description of the fleet gives them.
    """

    provision_s: float = 0.0
    image_bytes: float = 0.0
    image_bytes_per_s: float = 1.0
    weight_bytes: float = 0.0
    weight_bytes_per_s: float = 1.0
    engine_start_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Sum of all parts of the cold start [s]."""
        return (
            self.provision_s
            + self.image_bytes / self.image_bytes_per_s
            + self.weight_bytes / self.weight_bytes_per_s
            + self.engine_start_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Autoscaling: the number of replicas that brings a metric per replica to its target, within bounds; decided every
    interval.

    rate: requests per second; outstanding: unfinished requests; kv: used fraction of the cache. Wanted = ceil(current ×
    metric / target), untouched within the tolerance; the largest number wanted in the last down_window_s counts, so
    that a short lull does not shrink the fleet.

    Source: the Kubernetes horizontal pod autoscaler's algorithm (ratio, tolerance 0.1, stabilisation window 300 s).
    """

    metric: ScalingMetric
    target: float
    min_replicas: int
    max_replicas: int
    interval_s: float = 15.0
    tolerance: float = 0.1
    down_window_s: float = 300.0

    def __post_init__(self) -> None:
        for name in ("target", "interval_s"):
            positive(f"{name} of a scaling rule", getattr(self, name))
        if self.down_window_s < 0 or self.tolerance < 0:
            raise AdvisorError("down_window_s and tolerance of a scaling rule are at least 0")
        if not 1 <= self.min_replicas <= self.max_replicas:
            raise AdvisorError(
                f"a scaling rule has min_replicas {self.min_replicas} and max_replicas {self.max_replicas}",
                fix="1 <= min_replicas <= max_replicas",
            )
        if self.metric == "kv" and self.target >= 1.0:
            raise AdvisorError(
                f"a target of {self.target} for kv is never exceeded", fix="a fraction below 1"
            )


def wanted_replicas(scaling: Scaling, current: int, per_replica: float) -> int:
    """Number of replicas that brings a metric per replica to its target, within bounds.

    Source: Scaling.
    """
    ratio = per_replica / scaling.target
    wanted = current if abs(ratio - 1.0) <= scaling.tolerance else math.ceil(current * ratio - 1e-9)
    return max(scaling.min_replicas, min(scaling.max_replicas, wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Random failures: exponential time between failures, and a fixed time until a replacement serves."""

    mtbf_s: float
    repair_s: float

    def __post_init__(self) -> None:
        positive("mtbf_s", self.mtbf_s)
        positive("repair_s", self.repair_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLoss:
    """Reclaimed spot machines: exponential life, a notice without new requests, a wait for another machine.

    Source: own definition; notices of 120 s (AWS) and 30 s (Azure, Google Cloud), as their documentation says.
    """

    mean_life_s: float
    notice_s: float = 120.0
    wait_s: float = 0.0
    """Time after the notice until the provider has another machine [s]; then the cold start begins."""

    def __post_init__(self) -> None:
        positive("mean_life_s", self.mean_life_s)
        if not (0 <= self.notice_s < math.inf and 0 <= self.wait_s < math.inf):
            raise AdvisorError("notice_s and wait_s of a spot loss are times of at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    """Rolling update: a new version replaces the replicas of a pool, a few at a time; a surge starts new ones first.

    Source: own definition; rolling update of Kubernetes (maxSurge, maxUnavailable).
    """

    at_s: float
    at_a_time: int = 1
    surge: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.at_s) and self.at_s >= 0) or self.at_a_time < 1:
            raise AdvisorError("a deploy begins at 0 s or later and replaces at least one replica at a time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Pool of equal replicas that are bought and scaled together."""

    name: str
    surface: StepSurface
    policy: SchedulerPolicy
    num_replicas: int
    usd_per_hour: float = 0.0
    """Price of one replica, from the beginning of its start to its end [$/h]."""
    min_input_tokens: int = 0
    max_input_tokens: int | None = None
    """Longest prompt that the pool takes [tokens]; None: any length."""
    tenants: tuple[str, ...] = ()
    """Names of the tenants that the pool serves; empty: all."""
    spill_above: int | None = None
    """Unfinished requests on the pool's least loaded replica from which on the next pool is taken; None: never."""
    max_outstanding: int | None = None
    """Unfinished requests of a replica at which it takes no more; None: no limit."""
    order: QueueOrder = "arrival"
    cold_start: ColdStart = field(default_factory=ColdStart)
    scaling: Scaling | None = None
    failures: Failures | None = None
    spot: SpotLoss | None = None
    deploys: tuple[Deploy, ...] = ()

    def __post_init__(self) -> None:
        whole(f"pool {self.name}: num_replicas", self.num_replicas)
        if not (math.isfinite(self.usd_per_hour) and self.usd_per_hour >= 0):
            raise AdvisorError(f"pool {self.name}: usd_per_hour must be at least 0, not {self.usd_per_hour}")

    @property
    def changes(self) -> bool:
        """Whether the number of replicas may change."""
        return bool(self.scaling or self.failures or self.spot or self.deploys)

    @property
    def token_limits(self) -> tuple[int, int, int]:
        """Least and most tokens of a prompt, and most of prompt and output, that the pool takes and can serve."""
        prompts = [self.max_input_tokens, self.policy.largest_prompt_tokens]
        most = min([limit for limit in prompts if limit is not None], default=UNLIMITED)
        whole = self.policy.largest_request_tokens
        return self.min_input_tokens, most, UNLIMITED if whole is None else whole


@dataclass(frozen=True, slots=True)
class Balance:
    """Balance of affinity and load: when load outweighs affinity, and how much of a prompt must be known to count.

    Source: defaults of SGLang's router (lightseekorg/smg, docs/getting-started/load-balancing.md, cache_aware): matched
    share 0.3, imbalance by 64 requests and by a factor of 1.5.
    """

    least_matched_fraction: float = 0.3
    most_requests_above: int = 64
    most_ratio_above: float = 1.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.least_matched_fraction <= 1.0:
            raise AdvisorError(f"a matched fraction lies in 0 to 1, not {self.least_matched_fraction}")
        if self.most_requests_above < 0 or self.most_ratio_above < 1.0:
            raise AdvisorError("a balance allows at least 0 requests more, and at least 1 times as many")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Pools in order of preference, and the router before them."""

    pools: tuple[Pool, ...]
    router: RouterRule = "least_outstanding"
    balance: Balance = field(default_factory=Balance)

    def __post_init__(self) -> None:
        if not self.pools:
            raise AdvisorError("a fleet needs at least one pool")
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise AdvisorError(f"two pools have the same name: {', '.join(names)}")
        if self.router not in get_args(RouterRule):
            rules = ", ".join(get_args(RouterRule))
            raise AdvisorError(f"router {self.router!r} is not known", fix=f"one of {rules}")
