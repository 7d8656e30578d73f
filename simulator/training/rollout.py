"""Rollouts: generating the samples of one reinforcement-learning step, by the serving simulator run until the last
sample ends."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from advisor.catalog import engines
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator, Model
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.device import device_of
from advisor.simulator.graph.model import is_moe
from advisor.simulator.layout import WIDEST_TENSOR_PARALLEL
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import (
    FixedLengths,
    Lengths,
    LognormalLengths,
    TraceArrivals,
    Workload,
    simulate,
)
from advisor.simulator.serving.content import ROOT, Contents, ContentTree
from advisor.simulator.training.reinforcement import GENERATION_MEMORY_FRACTION

_MOST_SEQUENCES = 1024
"""Limit of sequences that a rollout engine runs at once on one replica."""
_MOST_SIMULATED = 2048
"""Number of samples of a replica that are simulated; each further sample takes the time that the second half of these
added."""
_Z99_9 = 3.09
_SHARED_FRACTION = 0.95
"""Fraction of the mean prompt that all samples of a prompt surely share, as drawn prompts vary a little."""
_PROMPT_SIGMA = 0.01
"""Log-standard-deviation of prompt lengths: prompts are assumed alike, but drawn lengths need some spread."""


@dataclass(frozen=True, slots=True)
class RolloutLoad:
    """Samples of one step."""

    num_samples: int
    prompt_tokens: int
    response_tokens: int
    """Mean response length [tokens]."""
    response_sigma: float = 0.0
    """Log-standard-deviation of response lengths."""
    samples_per_prompt: int = 1
    """Number of samples that share a prompt: an engine with a prefix cache computes and holds it once."""

    def contents(self, num_samples: int) -> Contents | None:
        """Return the prompt of each sample; None if no two samples share one."""
        shared = int(_SHARED_FRACTION * self.prompt_tokens)
        if self.samples_per_prompt < 2 or shared < 1:
            return None
        tree = ContentTree()
        num_prompts = -(-num_samples // self.samples_per_prompt)
        nodes = [tree.add(ROOT, shared) for _ in range(num_prompts)]
        return Contents(tree, [nodes[sample // self.samples_per_prompt] for sample in range(num_samples)])

    @property
    def held_tokens(self) -> float:
        """Number of cached tokens that a finished sample of mean length holds, its share of a common prompt
        included."""
        return self.prompt_tokens / self.samples_per_prompt + self.response_tokens

    def lengths(self) -> Lengths:
        """Return the lengths of the samples: prompts of one length, responses with their spread."""
        if self.response_sigma <= 0:
            return FixedLengths(self.prompt_tokens, self.response_tokens)
        return LognormalLengths(
            self.prompt_tokens, self.response_tokens, sigma=_PROMPT_SIGMA, output_sigma=self.response_sigma
        )

    @property
    def longest_tokens(self) -> int:
        """Number of tokens of a sample that one in a thousand exceeds."""
        spread = math.exp(_Z99_9 * self.response_sigma - self.response_sigma**2 / 2.0)
        return round(self.prompt_tokens + self.response_tokens * spread)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Generation of one step on a number of accelerators."""

    time_s: float
    """Time until the last sample ends [s]."""
    half_done_s: float
    """Time until half of the samples have ended [s]: the rest is the tail in which the batch empties."""
    output_tokens_per_s: float
    tensor_parallel: int
    num_replicas: int
    engine: str
    basis: str

    @property
    def tail_fraction(self) -> float:
        """Fraction of the time after half of the samples have ended."""
        return 1.0 - self.half_done_s / self.time_s


def rollout(
    model: Model,
    accelerator: Accelerator,
    num_accelerators: int,
    load: RolloutLoad,
    *,
    engine: str = "vllm",
    memory_fraction: float = GENERATION_MEMORY_FRACTION,
    seed: int = 0,
) -> Rollout:
    """Return the generation of all samples of a step [s], with the tensor parallelism that makes it shortest.

    All samples are submitted at once and dealt evenly to equal replicas; the step ends with the slowest sample.
    Replicas are alike, so one is simulated with its share.

    Assumes: the engine gets `memory_fraction` of the memory while it generates, and is limited to no more samples at
        once than its cache holds at their full mean length; samples of one prompt go to the same
        replica; lengths are unknown in advance, so no replica gets the longer ones.
    Raises: InfeasibleError: no layout holds the model and one sample. UnknownNameError: no such engine.
    Source: advisor.simulator.serving.
    """
    tried: list[Rollout] = []
    refused: AdvisorError | None = None
    for tensor_parallel in _degrees(accelerator, num_accelerators):
        generator = _Generator(
            model, accelerator, engine, tensor_parallel, memory_fraction, replace(load, num_samples=1)
        )
        try:
            _replica(generator)
        except InfeasibleError as error:
            refused = error
            continue
        found = _run(generator, num_accelerators // tensor_parallel, load.num_samples, seed)
        if tried and found.time_s > tried[-1].time_s:
            break
        tried.append(found)
    if not tried:
        why = (refused.why or refused.what) if refused else "no layout divides the accelerators"
        raise InfeasibleError(
            f"{num_accelerators} × {accelerator.id} cannot generate with {model.id}",
            why=why,
            fix="more accelerators, or shorter samples",
        )
    return min(tried, key=lambda found: found.time_s)


def _degrees(accelerator: Accelerator, num_accelerators: int) -> Iterator[int]:
    degree = 1
    while degree <= min(WIDEST_TENSOR_PARALLEL, accelerator.fast_group_size, num_accelerators):
        if num_accelerators % degree == 0:
            yield degree
        degree *= 2


@dataclass(frozen=True, slots=True)
class _Generator:
    """One replica that generates samples of one kind.

    A search asks for the same generator at many cluster sizes, and at each for the samples of one replica, of which
    no more than `_MOST_SIMULATED` are simulated: equal questions are answered once.
    """

    model: Model
    accelerator: Accelerator
    engine: str
    tensor_parallel: int
    memory_fraction: float
    load: RolloutLoad
    """Kind of the samples: a load of one sample."""


class _Generation(NamedTuple):
    """Simulated generation of a number of samples on one replica."""

    duration_s: float
    half_done_s: float
    output_tokens: int


@lru_cache(maxsize=32)
def _replica(generator: _Generator) -> ReplicaModel:
    """Return the replica, limited to no more sequences at once than its cache holds.

    Raises: InfeasibleError: the model does not fit. UnknownNameError: no such engine.
    """
    replica = _replica_of(generator, _MOST_SEQUENCES)
    held = replica.memory.kv_capacity_tokens / generator.load.held_tokens
    # More sequences at once would only evict each other and recompute prompts.
    return replica if held >= _MOST_SEQUENCES else _replica_of(generator, max(1, int(held)))


def _replica_of(generator: _Generator, max_num_seqs: int) -> ReplicaModel:
    model = generator.model
    accelerator = generator.accelerator
    load = generator.load
    chosen = engines.get(generator.engine).record
    if chosen.id not in accelerator.engines:
        raise InfeasibleError(
            f"{chosen.name} does not run on {accelerator.id}",
            why=f"engines that do: {', '.join(accelerator.engines) or 'none'}",
        )
    deployment = Deployment(
        model=model,
        accelerator=accelerator,
        engine=chosen,
        tensor_parallel=generator.tensor_parallel,
        expert_parallel=generator.tensor_parallel if is_moe(model) else 1,
        weight_dtype="bf16",
        activation_dtype=activation_dtype_for("bf16", accelerator),
    )
    return model_replica(
        deployment,
        mean_input_tokens=load.prompt_tokens,
        mean_output_tokens=load.response_tokens,
        max_context_tokens=load.longest_tokens,
        settings=EngineSettings(max_num_seqs=max_num_seqs, memory_fraction=generator.memory_fraction),
        library=OperatorLibrary(device_of(accelerator), chosen.id),
    )


def _run(generator: _Generator, num_replicas: int, num_samples: int, seed: int) -> Rollout:
    replica = _replica(generator)
    share = -(-num_samples // num_replicas)
    simulated = min(share, _MOST_SIMULATED)
    whole = _generate(generator, simulated, seed)
    more_s = 0.0
    if share > simulated:
        half = _generate(generator, simulated // 2, seed)
        more_s = (share - simulated) / (simulated - simulated // 2) * (whole.duration_s - half.duration_s)
    time_s = whole.duration_s + more_s
    return Rollout(
        time_s=time_s,
        half_done_s=whole.half_done_s + more_s / 2.0,
        output_tokens_per_s=whole.output_tokens * share / simulated / time_s * num_replicas,
        tensor_parallel=generator.tensor_parallel,
        num_replicas=num_replicas,
        engine=replica.deployment.engine.id,
        basis=replica.basis,
    )


@lru_cache(maxsize=512)
def _generate(generator: _Generator, num_samples: int, seed: int) -> _Generation:
    """Return the simulated generation of samples that one replica gets all at once.

    Raises: InfeasibleError: the cache holds no sample.
    """
    replica = _replica(generator)
    load = generator.load
    workload = Workload(
        TraceArrivals([0.0] * num_samples), load.lengths(), num_samples, load.contents(num_samples)
    )
    result = simulate(replica.surface, replica.policy, workload, seed=seed)
    if not result.num_finished:
        raise InfeasibleError("no sample fits beside the weights", why="the cache is smaller than one sample")
    return _Generation(result.duration_s, result.e2e.p50_s, result.output_tokens)
