"""Decoding and prompts with routed experts on the host's processors, the rest of the model on accelerators."""

from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.hosts import Host
from advisor.catalog.schema import Model
from advisor.catalog.schema.model import DenseFeedForward, LayerGroup, MoeFeedForward
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import parameter_count, routed_layers
from advisor.simulator.host_layers import EXPERT_FRACTION
from advisor.simulator.replica_model import model_replica
from advisor.simulator.step_cost import decode_iteration_s, prefill_s
from advisor.simulator.workloads.tiers import HAND_OVER_S, ExpertOffload, expert_offload

QUEUED_HAND_OVER_S: Final = 0.075e-3
"""Time of one layer's way to the processors and back where the host runs ahead of the accelerator (kt-kernel under
SGLang) [s]: Qwen3-Next in fp8 on four RTX 4090s, 10 to 90 % of the experts with the accelerators, placed uniformly."""
FOLLOWED_CHOICES: Final = 0.23
"""Power of the resident fraction that is the fraction of chosen experts which the accelerators hold, where each prompt
moves its own experts there: 10 % of Qwen3-Next's experts take 59 % of the choices, 50 % take 83 % (kt-kernel)."""
HOST_ALONE_EFFICIENCY: Final = 0.5
"""Fraction of the memory's bandwidth at which processors decode a whole model: 6.2 tokens/s of a 671B model in eight
bits on an EPYC 9754 with 461 GB/s (inference.duchess.capital/epyc.html)."""
_EXPERT_KERNELS_S: Final = 20e-6
"""Time of routing and grouping tokens in a layer whose experts the accelerators hold in part, however few bytes they
read [s]: six small kernels. Own assumption."""
_FLOP_PER_CYCLE: Final = {"amx": 64.0, "avx512": 64.0, "avx2": 32.0, "sve": 32.0, "neon": 16.0}
"""Operations of one core per cycle in 32 bits, by its vector units: two multiply-adds of a vector."""
_VECTOR_FRACTION: Final = 0.38
"""Fraction of the vector units' peak at which prompts run through experts in 4 bits: 88 tokens/s of DeepSeek-V3 on
two Xeon 6454S (KTransformers 0.2.1)."""
_AMX_GAIN: Final = 2.8
"""Speed of prompts with AMX's matrix instructions in eight bits over vector units: 250 against 88 tokens/s of the same
model and machine (KTransformers 0.3)."""


@dataclass(frozen=True, slots=True)
class HostedDecode:
    """One decode step with experts on the host, by part [s]."""

    own_s: float
    """Everything but routed experts, on the accelerators."""
    resident_s: float
    """Routed experts that the accelerators hold."""
    offload: ExpertOffload

    @property
    def step_s(self) -> float:
        """Time of the step, experts in the faster of the two ways [s]. Source: definition."""
        return self.own_s + self.resident_s + self.offload.best_s


def without_routed_experts(model: Model) -> Model:
    """Return the model without its routed experts; shared experts stay. Source: definition."""
    groups = list[LayerGroup]()
    for group in model.layers:
        part = group.feed_forward
        if isinstance(part, MoeFeedForward):
            shared = part.shared_intermediate_size
            bare = DenseFeedForward(intermediate_size=shared, gated=part.gated) if shared else None
            groups.append(group.model_copy(update={"feed_forward": bare}))
        else:
            groups.append(group)
    return model.model_copy(update={"layers": tuple(groups), "published_parameters": None})


def hosted_decode(
    deployment: Deployment,
    *,
    context_tokens: float,
    host_bytes_per_s: float,
    batch: int = 1,
    resident_fraction: float | None = None,
    hand_over_s: float = HAND_OVER_S,
    host_dtype: str | None = None,
    resident_choices: float | None = None,
) -> HostedDecode:
    """Time of one decode step with routed experts on the host [s].

    everything else on the accelerators + their share of the experts at the memory's bandwidth + the rest of the experts
    on the host

    Assumes: accelerator and host take turns in each layer; `resident_fraction` None fills the accelerators.
    Raises: InfeasibleError: the model without its experts does not fit. AdvisorError: it has none.
    Error: tests/evidence/test_hosted_experts.py.
    Source: expert_offload; KTransformers, SOSP 2025.
    """
    bare = replace(deployment, model=without_routed_experts(deployment.model))
    replica = model_replica(bare, mean_input_tokens=max(1, round(context_tokens)), mean_output_tokens=256)
    own_s = decode_iteration_s(replica.surface, batch, max(1.0, context_tokens))
    found = expert_offload(
        deployment,
        batch=batch,
        host_bytes_per_s=host_bytes_per_s,
        resident_fraction=resident_fraction,
        hand_over_s=hand_over_s,
        host_dtype=host_dtype,
        resident_choices=resident_choices,
    )
    rate = (deployment.accelerator.bandwidth_bytes_per_s or 0.0) * deployment.accelerators_per_replica
    resident_s = found.resident_bytes_per_step / (rate * EXPERT_FRACTION)
    if found.resident_fraction > 0.0:
        resident_s += _EXPERT_KERNELS_S * sum(layers for layers, _ in routed_layers(deployment.model))
    return HostedDecode(own_s, resident_s, found)


def prompt_flop_per_s(host: Host, *, uses_amx: bool = False) -> float:
    """Rate at which processors multiply prompts [flop/s]; 0 if they are not known.

    cores · clock · operations a cycle · 38 %, times 2.8 with matrix instructions

    Source: own model, of two Xeon 6454S.
    """
    if host.units is None:
        return 0.0
    rate = host.cores * host.clock_hz * _FLOP_PER_CYCLE[host.units] * _VECTOR_FRACTION
    return rate * (_AMX_GAIN if uses_amx and host.units == "amx" else 1.0)


def hosted_prompt_s(
    deployment: Deployment, host: Host, prompt_tokens: int, *, uses_amx: bool = False
) -> float | None:
    """Time of one prompt whose experts the host multiplies [s]; None if its processors are not known.

    prompt on the accelerators + the longer of tokens · 2 · chosen experts' weights / (cores · clock · operations a
    cycle · 38 %) and reading them once + handing over each layer

    Source: own model; KTransformers' prompts of DeepSeek-V3.
    """
    if host.units is None:
        return None
    bare = replace(deployment, model=without_routed_experts(deployment.model))
    replica = model_replica(bare, mean_input_tokens=prompt_tokens, mean_output_tokens=16)
    own_s = prefill_s(replica.surface, prompt_tokens, replica.policy.max_num_batched_tokens)
    rate = prompt_flop_per_s(host, uses_amx=uses_amx)
    chosen = sum(
        layers * each.num_chosen(1.0) * each.elements for layers, each in routed_layers(deployment.model)
    )
    read = expert_offload(
        deployment, batch=prompt_tokens, host_bytes_per_s=host.bytes_per_s, resident_fraction=0.0
    )
    return own_s + max(prompt_tokens * 2.0 * chosen / rate, read.step_host_s)


def host_alone_s(model: Model, weights: str, host: Host) -> float:
    """Time of one decode step of one sequence on the processors alone [s].

    weights of a token / (bandwidth · 50 %)

    Assumes: the cache is small beside the weights; sockets read each other's memory no faster than one its own, so that
    the second adds nothing unless it keeps copies.
    Source: own model; HOST_ALONE_EFFICIENCY.
    """
    active = parameter_count(model).active * bytes_per_element(weights)
    return active / (host.bytes_per_s / host.sockets * HOST_ALONE_EFFICIENCY)
