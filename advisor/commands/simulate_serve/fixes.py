"""Settings with which a deployment that does not fit does: asked after a refusal for want of memory."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from advisor.ask.deployment import LoadPlan, engine_settings
from advisor.ask.options import EngineFlags
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.decide.candidates import usable_precisions
from advisor.simulator.deployment import Deployment, activation_dtype_of, is_local
from advisor.simulator.replica_model import (
    EngineSettings,
    fraction_that_holds,
    holds_request,
    nearest_layout,
)

_SMALLER_CACHES: Final = ("fp8", "q8_0", "int8")
"""Cache formats of 8 bits that are tried, of which an engine has one."""


def with_fixes(
    error: InfeasibleError,
    deployment: Deployment,
    plan: LoadPlan,
    flags: EngineFlags,
    settings: EngineSettings,
    *,
    typed_precision: str | None,
) -> InfeasibleError:
    """Return the error of a deployment that does not fit, with every single option that lets it fit, the nearest one
    first and formats of the weights last; errors that name an option as they are."""
    if "--" in (error.fix or ""):
        return error
    fixes = tuple(_of_the_engine(deployment, plan, flags, settings))
    if not flags.max_model_len:
        fixes += tuple(_of_the_load(deployment, plan, settings))
    is_enough = bool(fixes)
    fixes += tuple(_of_the_layout(deployment, plan))
    if not is_enough:
        formats = fewer_bits(deployment) if typed_precision is None else ()
        fixes += tuple(_of_the_format(deployment, formats, settings, _lengths(plan, flags)))
        fixes += (error.fix,) if error.fix else ()
    return InfeasibleError(error.what, why=error.why, fix=", or ".join(fixes), hint=error.hint)


def fewer_bits(deployment: Deployment) -> tuple[str, ...]:
    """Return the weight formats with fewer bits than a deployment's that are planned unasked, as they cost no quality;
    those that the engine loads in the same layout."""
    size = bytes_per_element(deployment.weight_dtype)
    usable = usable_precisions(deployment.model, deployment.accelerator, deployment.engine, ())
    return tuple(dtype for dtype in usable if bytes_per_element(dtype) < size)


def _of_the_format(
    deployment: Deployment, formats: tuple[str, ...], settings: EngineSettings, lengths: tuple[int, float]
) -> Iterator[str]:
    """Yield the first of these weight formats with which the deployment fits."""
    for dtype in formats:
        activations = activation_dtype_of(deployment.model, dtype, deployment.accelerator)
        smaller = replace(deployment, weight_dtype=dtype, activation_dtype=activations)
        if holds_request(smaller, settings, *lengths):
            yield f"--precision {dtype}"
            return


def _of_the_engine(
    deployment: Deployment, plan: LoadPlan, flags: EngineFlags, settings: EngineSettings
) -> Iterator[str]:
    """Yield settings of the server: its part of the memory, a cache of 8 bits, layers in main memory."""
    engine = deployment.engine
    lengths = _lengths(plan, flags)
    if fraction := fraction_that_holds(deployment, settings, *lengths):
        word = engine.flags.memory_fraction.split()[0]
        yield f"--gpu-memory-utilization {fraction:g} ({engine.name}: {word})"
    for kv_dtype in _SMALLER_CACHES:
        smaller = replace(deployment, kv_dtype=kv_dtype)
        if kv_dtype in engine.kv_dtypes and holds_request(smaller, settings, *lengths):
            yield f"--kv-precision {kv_dtype}"
            break
    if is_local(engine) and not deployment.accelerator.unified_memory:
        layers = _most_layers(deployment, plan, flags)
        yield from (f"--gpu-layers {layers}",) if layers else ()


def _lengths(plan: LoadPlan, flags: EngineFlags) -> tuple[int, float]:
    """Return the tokens of the longest request and of a mean context."""
    return flags.max_model_len or plan.longest_request_tokens, _mean_context_tokens(plan)


def _mean_context_tokens(plan: LoadPlan) -> float:
    return plan.mean_input_tokens + plan.mean_output_tokens / 2.0


def _most_layers(deployment: Deployment, plan: LoadPlan, flags: EngineFlags) -> int:
    """Return the most layers that the accelerators hold beside the cache; 0 if they hold none, or no layer may lie
    elsewhere."""
    lengths = _lengths(plan, flags)
    total = sum(group.count for group in deployment.model.layers)
    typed = flags.gpu_layers or ""
    most = min(total, int(typed) - 1) if typed.isdecimal() else total
    for layers in range(most, 0, -1):
        try:
            settings = engine_settings(replace(flags, gpu_layers=str(layers)), deployment)
            if holds_request(deployment, settings, *lengths):
                return layers
        except AdvisorError:
            return 0
    return 0


def _of_the_load(deployment: Deployment, plan: LoadPlan, settings: EngineSettings) -> Iterator[str]:
    """Yield the option with which all requests are as long as the mean, where the longest ones alone do not fit."""
    mean = round(plan.mean_input_tokens + plan.mean_output_tokens)
    is_spread = plan.traffic.trace is None and plan.longest_request_tokens > mean
    if is_spread and holds_request(deployment, settings, mean, _mean_context_tokens(plan)):
        yield f"--length-dist fixed, if no request is longer than {mean:,} tokens"


def _of_the_layout(deployment: Deployment, plan: LoadPlan) -> Iterator[str]:
    """Yield the smallest layout that fits."""
    found = nearest_layout(deployment, plan.longest_request_tokens)
    if found is not None:
        stages = f" --pp {found.pipeline_parallel}" if found.pipeline_parallel > 1 else ""
        yield f"--tp {found.tensor_parallel}{stages}"
