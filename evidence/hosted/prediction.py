"""Predictions of published runs with weights in the host's memory, from their conditions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import accelerators, models
from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError, UnknownNameError
from advisor.catalog.hosts import Host, parse_host
from advisor.catalog.schema import Model
from advisor.catalog.schema.model import MoeFeedForward
from advisor.evidence.prediction import Prediction, UnsupportedCaseError, predict_or_report
from advisor.evidence.table import Cells
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.quantity import Quantity
from advisor.simulator.workloads.host_experts import (
    FOLLOWED_CHOICES,
    QUEUED_HAND_OVER_S,
    host_alone_s,
    hosted_decode,
    hosted_prompt_s,
)
from advisor.simulator.workloads.tiers import HAND_OVER_S, OFFLOAD_RANGE

INPUT_COLUMNS: Final = (
    "case_id",
    "engine",
    "engine_version",
    "model",
    "weights",
    "experts",
    "gpu",
    "n_gpus",
    "cpu",
    "sockets",
    "dram",
    "isl",
    "osl",
)
"""Columns that a prediction may read."""
METRICS: Final = ("decode_tok_s", "prefill_tok_s")
_USUAL_CONTEXT: Final = 512
"""Tokens of a prompt whose length is not a number; ShareGPT's prompts and answers have a few hundred."""
_PERCENT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_MATRIX_FORMATS: Final = ("int8", "bf16")
"""Formats that hosts multiply with matrix instructions; vector units multiply fp8 (kt-kernel's tutorial of formats)."""
_ACCELERATOR_FORMATS: Final = {"fp8": "fp8", "bf16": "bf16", "fp16": "bf16"}
"""Formats that accelerators keep as they are; they multiply all narrower ones from 4 bits."""


@dataclass(frozen=True, slots=True)
class HostedCase:
    """One published run with weights in the host's memory."""

    case_id: str
    model: Model
    deployment: Deployment | None
    """Deployment of what accelerators run; None: the processors run all."""
    host: Host
    host_dtype: str
    uses_amx: bool
    context_tokens: int
    output_tokens: int
    resident_fraction: float
    resident_choices: float | None
    """Fraction of chosen experts that accelerators hold; None: all experts are equally popular."""
    hand_over_s: float


def predict_row(row: Mapping[str, str], row_number: int) -> Prediction:
    """Return the prediction of one row; no content of a row raises an error."""
    return predict_or_report(row, row_number, lambda: parse_case(row, row_number), _predict)


def parse_case(row: Mapping[str, str], row_number: int) -> HostedCase:
    """Return a case from a CSV row.

    Raises: UnsupportedCaseError: model, accelerator, host or format is not modelled.
    """
    cells = Cells(row, row_number)
    try:
        model = models.get(cells.text("model")).record
        host = parse_host(cells.text("cpu"), cells.text("dram"), cells.degree("sockets"))
    except AdvisorError as error:
        raise UnsupportedCaseError(error.what) from None
    experts = cells.text("experts")
    model = with_chosen_experts(model, int(experts)) if experts.isdigit() else model
    percent = _PERCENT.search(experts)
    resident = float(percent[1]) / 100.0 if percent else 0.0
    weights = cells.text("weights").lower()
    queued = "sglang" in cells.text("engine_version").lower() or "sglang" in cells.text("engine").lower()
    host_dtype = _format(weights)
    isl = cells.text("isl")
    osl = cells.text("osl")
    return HostedCase(
        cells.text("case_id"),
        model,
        None if _runs_on_host_alone(cells, host) else _deployment(cells, model, host_dtype),
        host,
        host_dtype,
        "amx" in weights or host_dtype in _MATRIX_FORMATS,
        int(isl) if isl.isdigit() else _USUAL_CONTEXT,
        int(osl) if osl.isdigit() else 0,
        resident,
        resident**FOLLOWED_CHOICES if "dynamic" in experts else None,
        QUEUED_HAND_OVER_S if queued else HAND_OVER_S,
    )


def _runs_on_host_alone(cells: Cells, host: Host) -> bool:
    """Whether the processors run all: llama.cpp over two sockets, which keeps no copy of the weights for each."""
    return cells.text("engine").lower().startswith("llama.cpp") and host.sockets > 1


def with_chosen_experts(model: Model, experts_per_token: int) -> Model:
    """Return the model with another number of experts for each token."""
    groups = tuple(
        group.model_copy(
            update={
                "feed_forward": group.feed_forward.model_copy(update={"experts_per_token": experts_per_token})
            }
        )
        if isinstance(group.feed_forward, MoeFeedForward)
        else group
        for group in model.layers
    )
    return model.model_copy(update={"layers": groups})


def _format(weights: str) -> str:
    """Return the format of the host's weights: the first that is named."""
    for word in re.split(r"[ ,;(]+", weights):
        try:
            name, _ = known_dtype(word)
        except AdvisorError:
            continue
        if name is not None:
            return name
    raise UnsupportedCaseError(f"weights {weights!r} are not modelled")


def _deployment(cells: Cells, model: Model, host_dtype: str) -> Deployment | None:
    """Return the deployment of what accelerators run; None without accelerators.

    Accelerators keep 8 and 16 bits as they are; of narrower and mixed formats they multiply 4-bit weights. A range of
    accelerators (1-4) is one.
    """
    name = cells.text("gpu")
    if not name or name in ("-", "none", "cpu"):
        return None
    try:
        chip = accelerators.get(name).record
    except UnknownNameError as error:
        raise UnsupportedCaseError(error.what) from None
    count = cells.text("n_gpus").split("-")[0] or "1"
    own = (
        "int4"
        if "int4 gpu" in cells.text("weights").lower()
        else _ACCELERATOR_FORMATS.get(host_dtype, "int4")
    )
    found = named_deployment(
        model.id,
        chip.id,
        "sglang" if "sglang" in chip.engines else "vllm",
        weight_dtype=own,
        tensor_parallel=int(count) if count.isdigit() else 1,
    )
    return replace(found, model=model)


def _predict(case: HostedCase) -> Prediction:
    low, high = OFFLOAD_RANGE
    values = dict[str, float]()
    if case.deployment is None:
        values["decode_tok_s"] = 1.0 / host_alone_s(case.model, case.host_dtype, case.host)
    else:
        found = hosted_decode(
            case.deployment,
            context_tokens=case.context_tokens + case.output_tokens / 2.0,
            host_bytes_per_s=case.host.bytes_per_s,
            resident_fraction=case.resident_fraction,
            hand_over_s=case.hand_over_s,
            host_dtype=case.host_dtype,
            resident_choices=case.resident_choices,
        )
        values["decode_tok_s"] = 1.0 / (found.own_s + found.resident_s + found.offload.step_host_s)
        prompt_s = hosted_prompt_s(case.deployment, case.host, case.context_tokens, uses_amx=case.uses_amx)
        if prompt_s is not None:
            values["prefill_tok_s"] = case.context_tokens / prompt_s
    ranges = {name: Quantity(value, value / high, value / low, "assumed") for name, value in values.items()}
    return Prediction(case.case_id, "ok", "", "assumed", ranges)
