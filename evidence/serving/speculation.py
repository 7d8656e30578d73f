"""Speculative decoding of published measurements, with published acceptance rates."""

import re
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.recipe import INFERENCEX, script_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.disaggregation import DisaggregatedModel, with_decode_worker
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel
from advisor.simulator.speculation import (
    ChosenSpeculation,
    chosen_speculation,
    speculative_replica,
    widen_by_factors,
)

_NONE: Final = ("", "none")
_NAME: Final = re.compile(r"(mtp|eagle|medusa|ngram|lookahead)[-_]?(\d*)(?::(\d+))?")
_INFERENCEX_MTP: Final = {False: 3, True: 1}
"""Draft tokens of InferenceX's runs with multi-token prediction, without and with attention data parallelism. Source:
SemiAnalysisAI/InferenceX, .github/configs/nvidia-master.yaml, dsr1-fp8-h200-trt-mtp."""


def speculation_of(case: ServingCase, target: Deployment) -> ChosenSpeculation | None:
    """Return the speculative decoding of a case: `mtp`, `mtp3` or `mtp:3`, `eagle` (or eagle3, its third version),
    `draft:MODEL`; None without.

    Raises: AdvisorError: it says neither that nor that it does not.
    Source: catalog/data/speculation.toml for acceptance, which no row states.
    """
    name = case.spec_decode.lower()
    if name in _NONE:
        return None
    if name.startswith("draft:"):
        return chosen_speculation(name, target)
    match = _NAME.fullmatch(name)
    if match is None:
        raise AdvisorError(f"speculative decoding ({case.spec_decode}) is not modelled")
    method, digits, guesses = match.groups()
    if method != "eagle":
        guesses = guesses or digits
    drafted = int(guesses) if guesses else None
    if drafted is None and method == "mtp" and script_of(case) == INFERENCEX:
        drafted = _INFERENCEX_MTP[case.dp > 1]
    return chosen_speculation(method, target, draft_tokens=drafted)


def speculating(
    replica: ReplicaModel, case: ServingCase, chosen: ChosenSpeculation | None, settings: EngineSettings
) -> ReplicaModel:
    """Return a replica with the speculative decoding of a case.

    Raises: InfeasibleError: the draft leaves no room for a request.
    """
    if chosen is None:
        return replica
    return speculative_replica(
        replica,
        chosen.speculation,
        mean_input_tokens=max(1.0, float(case.isl)),
        mean_output_tokens=max(1.0, float(case.osl)),
        settings=settings,
    )


def speculating_pools(
    model: DisaggregatedModel, case: ServingCase, chosen: ChosenSpeculation | None, settings: EngineSettings
) -> DisaggregatedModel:
    """Return two pools whose decode workers use the speculative decoding of a case.

    Raises: InfeasibleError: the draft leaves no room for a request.
    """
    if chosen is None:
        return model
    return with_decode_worker(model, speculating(model.decode_worker, case, chosen, settings))


def with_range(column: str, quantity: Quantity, chosen: ChosenSpeculation | None) -> Quantity:
    """Return a predicted column with the error of the acceptance rate added to its interval; TTFT has none.

    Source: ChosenSpeculation.time_factors.
    """
    if chosen is None or column.startswith(("ttft", "prefill")):
        return quantity
    low, high = chosen.time_factors
    is_time = column.startswith(("tpot", "e2e"))
    return widen_by_factors(quantity, (low, high) if is_time else (1.0 / high, 1.0 / low))
