"""Predictions of published training runs from their conditions: step time, throughput, memory, time to train."""

import math
from collections.abc import Mapping
from typing import Final

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.units import MINUTE_S, TERA
from advisor.evidence.prediction import Prediction, predict_or_report
from advisor.evidence.training.case import TrainingCase, parse_case
from advisor.evidence.training.memory import memory_metrics
from advisor.evidence.training.unstated import ResolvedCase, resolve_knobs
from advisor.simulator.graph.training import attention_flop_per_token
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.training.convergence import convergence_of, time_to_train_s
from advisor.simulator.training.flop import hardware_flop_per_token, model_flop_per_token
from advisor.simulator.training.framework_costs import FrameworkCosts
from advisor.simulator.training.step import slow_host_factor, step_class, step_quantity

_CAUSAL_SINCE: Final = "25.09"
"""Version of Megatron-Bridge from which it counts half of the square of scores; all others in the table count all of
it."""
_CONVERGENCE_FACTOR: Final = 1.2
"""Half width of the interval of the time to converge, as a factor: 80 % of reference runs need between 1/1.2 and 1.2
times the median's samples, start-up included."""
_NO_TIMES: Final = "no times: the step of a reinforcement-learning run includes its rollouts"
_PEAKS: Final = {"mxfp8": "fp8", "nvfp4": "fp4", "fp32": "bf16", "tf32": "bf16"}


def predict_row(row: Mapping[str, str], row_number: int) -> Prediction:
    """Return the predicted metrics of one CSV row; no content of a row raises an error."""
    return predict_or_report(row, row_number, lambda: parse_case(row, row_number), predict_case)


def predict_case(case: TrainingCase, costs: FrameworkCosts | None = None) -> Prediction:
    """Return the predicted metrics of one case."""
    try:
        found = resolve_knobs(case, costs)
    except InfeasibleError as error:
        return Prediction(case.case_id, "infeasible", error.what)
    except AdvisorError as error:
        return Prediction(case.case_id, "unsupported", error.what)
    assumed = case.unstated & {"layout", "shape", "global_batch", "sequence_tokens"}
    basis: Basis = "assumed" if assumed else "modelled"
    reason = _reason(case)
    metrics = memory_metrics(case, found.job, found.plan, basis)
    if case.finetune == "grpo":
        reason = f"{_NO_TIMES}; {reason}" if reason else _NO_TIMES
    else:
        metrics = _time_metrics(case, found, basis) | metrics
    return Prediction(case.case_id, "ok", reason, basis, metrics)


def _reason(case: TrainingCase) -> str:
    """Return what a prediction assumed, and which words of the row it did not read."""
    parts = []
    if case.unstated:
        parts.append(f"assumed {', '.join(sorted(case.unstated))}")
    if case.unread:
        parts.append(f"not read: {', '.join(case.unread)}")
    return "; ".join(parts)


def _time_metrics(case: TrainingCase, found: ResolvedCase, basis: Basis) -> dict[str, Quantity]:
    job = found.job
    ranks = case.num_accelerators
    seconds = float(found.step.step_s[0])
    name = step_class(job, case.cluster, ranks, assumed="layout" in case.unstated)
    step = step_quantity(seconds, name, basis, slow_host_factor(job, found.plan, case.cluster))
    real = job.tokens_per_step
    if job.mean_sequence_tokens:
        real = round(job.global_batch * min(job.mean_sequence_tokens, job.sequence_tokens))
    metrics = {"tokens_per_s_per_gpu": real / ranks / step}
    if "global_batch" not in case.unstated:
        metrics["step_time_s"] = step
        convergence = convergence_of(job)
        if convergence is not None:
            share = float(found.step.forward_s[0] / seconds)
            train_s = time_to_train_s(job, seconds, share, convergence)
            metrics["time_to_train_min"] = widen_by_convergence(step.scale(train_s / seconds / MINUTE_S))
    flop = counted_flop_per_token(job.framework_version, case, found)
    achieved = flop * job.tokens_per_step / ranks / step
    metrics["tflops_per_gpu"] = achieved.scale(1.0 / TERA)
    peak = case.cluster.accelerator.peak_flop_per_s.get(_PEAKS.get(job.compute_dtype, job.compute_dtype))
    peak = peak or case.cluster.accelerator.peak_flop_per_s.get("bf16")
    if peak:
        metrics["mfu"] = achieved.scale(1.0 / peak)
    return metrics


def widen_by_convergence(quantity: Quantity) -> Quantity:
    """Return a time whose interval includes the spread of the number of samples that a run needs to converge.

    Assumes: both errors are independent, so that they add in squares on the logarithm.
    Source: spread of MLCommons' reference convergence points.
    """
    spread = math.log(_CONVERGENCE_FACTOR)
    low = math.exp(-math.hypot(math.log(quantity.value / quantity.low), spread))
    high = math.exp(math.hypot(math.log(quantity.high / quantity.value), spread))
    return Quantity(quantity.value, quantity.value * low, quantity.value * high, quantity.basis)


def counted_flop_per_token(version: str, case: TrainingCase, found: ResolvedCase) -> float:
    """Model FLOP of a token as the framework of the case counts them [flop].

    Source: formulas of llm-foundry, NeMo and MaxText count all scores; Megatron-Bridge those that causality leaves;
        InternEvo counts recomputation too, and DeepSpeed with transformers has no counter but the user's, who
        counts the causal half (stas00/ml-engineering).
    """
    flop = model_flop_per_token(found.job)
    if "intern" in case.job.software.casefold():
        flop = hardware_flop_per_token(found.job, found.plan)
    if case.job.framework == "megatron" and version >= _CAUSAL_SINCE:
        return flop
    if "deepspeed+hf" in case.job.software.casefold():
        return flop
    return flop + 3.0 * attention_flop_per_token(found.job.model, found.job.sequence_tokens)
