"""Replicas that a process remembers: the one place in front of the models of replicas and workers."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from advisor.simulator.deployment import Deployment
from advisor.simulator.disaggregation import decode_replica, prefill_replica
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica

Work = Literal["both", "prefill", "decode"]
"""Part of the work on a request that a replica does: all of it, or that of one pool."""
_REMEMBERED_REPLICAS: Final = 640
"""Replicas that a process remembers, of 0.1 MB each: a question about the whole catalog models up to 400, and workers
of some ten accelerators."""


@dataclass(frozen=True, slots=True)
class ReplicaCase:
    """Everything that decides a replica without levers, as a key; a shared library only saves work."""

    deployment: Deployment
    settings: EngineSettings | None
    mean_input_tokens: float
    mean_output_tokens: float
    context_spread: float = 0.0
    longest_request_tokens: int | None = None
    """Tokens of the longest request, which whole replicas hold; None for workers of pools."""
    work: Work = "both"
    library: OperatorLibrary | None = field(default=None, compare=False)


@lru_cache(maxsize=_REMEMBERED_REPLICAS)
def plain_replica(case: ReplicaCase) -> ReplicaModel:
    """Return the replica of a case; searches that change limits, offers or the load of a question have the same.

    Raises: InfeasibleError: it does not fit.
    """
    if case.work == "prefill":
        return prefill_replica(case.deployment, case.mean_input_tokens, case.settings or EngineSettings())
    if case.work == "decode":
        settings = case.settings or EngineSettings()
        return decode_replica(
            case.deployment,
            case.mean_input_tokens,
            case.mean_output_tokens,
            settings.max_num_seqs or case.deployment.engine.max_num_seqs,
            settings,
            context_spread=case.context_spread,
        )
    return model_replica(
        case.deployment,
        settings=case.settings,
        mean_input_tokens=case.mean_input_tokens,
        mean_output_tokens=case.mean_output_tokens,
        max_context_tokens=case.longest_request_tokens,
        context_spread=case.context_spread,
        library=case.library,
    )
