"""Caches and experts outside the accelerator's memory: cost of fetching, and when it beats recomputing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GB, HOUR_S
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import kv_bytes_per_token, routed_layers
from advisor.simulator.host_layers import EXPERT_FRACTION
from advisor.simulator.host_link import host_link_bytes_per_s
from advisor.simulator.memory import weight_bytes
from advisor.simulator.step_cost import StepSurface, prefill_s

LINK_RANGE: Final = (0.85, 1.5)
"""Range of real over predicted time of a copy: pinned and alone at best, together with other traffic at worst. Own
assumption."""
OFFLOAD_RANGE: Final = (0.8, 1.6)
"""Range of real over predicted time of experts in host memory: four published runs within 5 % (KTransformers), hosts
differ."""
DEFAULT_HOST_BYTES_PER_S: Final = 614 * GB
"""Memory bandwidth of a two-socket server with eight channels of DDR5-4800 each [bytes/s]."""
FP8_HOST_EFFICIENCY: Final = 0.31
"""Fraction of the host bandwidth that fp8 experts reach, which vector units must widen: a further tenth of Qwen3-Next's
experts takes the processors 0.79 ms (kt-kernel with two Xeon 6454S, experts placed uniformly)."""
HAND_OVER_S: Final = 0.4e-3
"""Time to the processors and back, per layer with experts there [s]: what the runs of releases 0.2 and 0.2.1 leave
beside the experts and the accelerator's own part, 0.33 to 0.5 ms."""
_RESERVED_BYTES: Final = 4 * GB
"""Memory of each accelerator reserved for caches and computation [bytes]."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Place for caches below the accelerator's memory."""

    name: str
    bytes_per_s: float
    """Rate per accelerator, towards it [bytes/s]."""
    latency_s: float
    usd_per_gb_month: float
    source: str = ""


_NVME_DRIVES: Final = 4
"""Number of local flash drives of one node. Own assumption."""


def tiers_of(accelerator: Accelerator) -> tuple[Tier, ...]:
    """Return host memory, local flash and a remote store as servers of this accelerator usually have them, nearest
    first.

    Assumes: the accelerators of a node share four NVMe drives of 7 GB/s; the remote store is reached over the
    accelerator's own network port, 25 Gbit/s if none is recorded.
    Source: PCIe rates; NVMe: datasheets of PCIe 4 drives; prices: rounded street and cloud list prices, 2026.
    """
    drives = _NVME_DRIVES * 7.0 * GB
    sharing = accelerator.node_size
    network = (accelerator.scale_out_bytes_per_s or 3.125 * GB) * 0.8
    link = host_link_bytes_per_s(accelerator)
    return (
        Tier("host", link, 20e-6, 3.0, "PCIe copies from pinned memory"),
        Tier(
            "nvme",
            min(link, drives / sharing),
            200e-6,
            0.10,
            f"{_NVME_DRIVES} drives for {sharing} accelerators",
        ),
        Tier("remote", min(link, network), 2e-3, 0.05, "over the accelerator's share of the network"),
    )


@dataclass(frozen=True, slots=True)
class Fetch:
    """Time of reading a cached prefix back, compared with recomputing it."""

    tier: Tier
    num_bytes: float
    fetch_s: float
    recompute_s: float

    @property
    def pays(self) -> bool:
        """Whether fetching is faster."""
        return self.fetch_s < self.recompute_s


def fetch_or_recompute(
    deployment: Deployment, surface: StepSurface, prefix_tokens: int, tiers: Sequence[Tier], chunk_tokens: int
) -> tuple[Fetch, ...]:
    """Return, for each tier, the time to read a prefix of a prompt back and the time to recompute it [s].

    fetch = latency + cache / (bytes per second · accelerators); recompute = prefill in chunks

    Assumes: every accelerator of the replica reads its own share; nothing else uses the link.
    Source: definition; surface: prefill.
    """
    footprint = kv_bytes_per_token(deployment.model, deployment.kv_dtype)
    num_bytes = footprint.bytes_of(prefix_tokens)
    recompute_s = prefill_s(surface, prefix_tokens, chunk_tokens)
    ranks = deployment.accelerators_per_replica
    return tuple(
        Fetch(tier, num_bytes, tier.latency_s + num_bytes / (tier.bytes_per_s * ranks), recompute_s)
        for tier in tiers
    )


def worth_keeping_s(fetch: Fetch, usd_per_accelerator_hour: float, num_accelerators: int) -> float:
    """Longest wait of a cache for its next use before keeping it costs more than recomputing it [s].

    saved accelerator time · price / price of the bytes per second kept

    Assumes: the accelerators are busy, so that saved time is worth its price.
    Source: the five-minute rule: Gray and Putzolu 1987, SIGMOD.
    """
    saved_usd = (
        max(0.0, fetch.recompute_s - fetch.fetch_s) * num_accelerators * usd_per_accelerator_hour / HOUR_S
    )
    month_s = 30 * 24 * HOUR_S
    return saved_usd / (fetch.num_bytes / GB * fetch.tier.usd_per_gb_month / month_s)


@dataclass(frozen=True, slots=True)
class ExpertOffload:
    """Decoding with routed experts in host memory."""

    resident_fraction: float
    """Fraction of the experts' weights that fit the accelerators."""
    step_read_s: float
    """Time of fetching the chosen experts over the link, per step of one sequence [s]."""
    step_host_s: float
    """Time of multiplying the chosen experts with the host's processors [s]."""
    host_bytes: float
    resident_bytes_per_step: float = 0.0
    """Bytes of chosen experts that the accelerators read from their own memory in a step."""

    @property
    def best_s(self) -> float:
        """Time of the faster of the two ways [s]."""
        return min(self.step_read_s, self.step_host_s)


def host_efficiency(dtype: str) -> float:
    """Return the fraction of the host's memory bandwidth at which processors multiply one token by weights of a format.

    Source: FP8_HOST_EFFICIENCY, EXPERT_FRACTION.
    """
    return FP8_HOST_EFFICIENCY if dtype == "fp8" else EXPERT_FRACTION


def expert_offload(
    deployment: Deployment,
    *,
    batch: int = 1,
    host_bytes_per_s: float = DEFAULT_HOST_BYTES_PER_S,
    resident_fraction: float | None = None,
    hand_over_s: float = HAND_OVER_S,
    host_dtype: str | None = None,
    resident_choices: float | None = None,
) -> ExpertOffload:
    """Time per decode step that experts outside the accelerators' memory add [s].

    touched = experts · (1 − (1 − k / experts)^batch) · (1 − resident fraction) of every layer; over the link, or
    through the processors at 57 % (fp8: 31 %) of their memory bandwidth, with 0.4 ms to hand over each layer

    `resident_fraction` None fills the accelerators; `host_dtype` None keeps the weights' format with the host;
    `resident_choices` is the fraction of chosen experts that the accelerators hold, None: all experts are equally
    popular.

    Assumes: everything but the routed experts stays on the accelerators; reading is
    not overlapped with computing.
    Raises: InfeasibleError: the rest alone does not fit. AdvisorError: the model has no experts.
    Error: DeepSeek-V3 in 4 bits on one RTX 4090: 12.2 tokens/s with both sockets of two Xeons, 8.73 with one
    (KTransformers 0.2, eight experts; its 13.7 is of six), see tests/simulator/workloads/test_tiers.py.
    Source: Eliseev and Mazur 2023, arXiv:2312.17238; KTransformers, SOSP 2025.
    """
    routed = routed_layers(deployment.model)
    model = deployment.model
    if not routed:
        raise AdvisorError(f"{model.id} has no experts to move to the host", fix="a mixture-of-experts model")
    width = bytes_per_element(host_dtype or deployment.weight_dtype)
    experts = touched = 0.0
    num_handed_over = 0
    for layers, each in routed:
        experts += layers * each.num_experts * each.elements * width
        touched += layers * each.num_chosen(float(batch)) * each.elements * width
        num_handed_over += layers
    resident = resident_fraction
    if resident is None:
        resident = min(1.0, _room_for_experts(deployment, experts) / experts)
    kept = resident if resident_choices is None else resident_choices
    missing = touched * (1.0 - kept)
    ranks = deployment.accelerators_per_replica
    return ExpertOffload(
        resident_fraction=resident,
        step_read_s=missing / (host_link_bytes_per_s(deployment.accelerator) * ranks),
        step_host_s=missing / (host_bytes_per_s * host_efficiency(host_dtype or deployment.weight_dtype))
        + (hand_over_s * num_handed_over if missing > 0.0 else 0.0),
        host_bytes=experts * (1.0 - resident),
        resident_bytes_per_step=touched * kept,
    )


def _room_for_experts(deployment: Deployment, experts: float) -> float:
    ranks = deployment.accelerators_per_replica
    others = max(0.0, weight_bytes(deployment) * ranks - experts)
    memory = (deployment.accelerator.memory_bytes or 0.0) * ranks
    left = memory - others - _RESERVED_BYTES * ranks
    if left < 0:
        raise InfeasibleError(
            f"{deployment.model.id} without its experts does not fit {ranks} × {deployment.accelerator.id}",
            why=f"{others / GB:.1f} GB of other weights and {_RESERVED_BYTES / GB:.0f} GB per accelerator for caches",
            fix="more accelerators, or fewer bits",
        )
    return left
