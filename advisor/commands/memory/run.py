"""Answer of `advisor memory`, from its options."""

from dataclasses import replace
from typing import Final

from advisor.ask.deployment import engine_settings, layout_of, stated_deployment
from advisor.ask.host_layers import host_notes
from advisor.ask.measures import parse_tokens
from advisor.ask.options import LayoutOptions, SharedOptions
from advisor.catalog.dtypes import cached_value_bytes
from advisor.catalog.engines import support
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Engine
from advisor.commands.memory.links import cache_links
from advisor.commands.memory.options import MemoryInput
from advisor.commands.memory.view import BlockPool, memory_answer
from advisor.decide.scenario import check_window, context_window
from advisor.render.answer import Answer
from advisor.render.document import pick_attributes
from advisor.simulator.deployment import Deployment
from advisor.simulator.layout import check_generates, check_layout
from advisor.simulator.memory_account import account_memory, model_account
from advisor.simulator.replica_model import EngineSettings, fraction_that_holds

_CONTEXT_TOKENS: Final = 8192
"""Tokens of a sequence if none are typed and the model reads as many; own choice."""
_MOST_DEGREE: Final = 16
"""Highest degree of tensor parallelism that is tried for a model that does not fit."""
_WAYS: Final = ("--gpu-memory-utilization", "--kv-precision", "--tp", "--precision")
"""Options with another value of which sequences may fit that do not."""
_FEWER_BITS: Final = ("fp8", "q8_0", "int4", "q4_k_m", "q3_k_m", "q2_k")
"""Formats that are tried for a model that does not fit, of which an engine reads some."""


def memory(asked: MemoryInput, shared: SharedOptions) -> Answer:
    """Return the memory of a model on accelerators: each part, what is free, and how many sequences fit.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, the layout divides the model unevenly,
        or a sequence is longer than the model reads.
    """
    layout, taken = layout_of(asked.layout, asked.flags)
    deployment, notes = stated_deployment(asked.model, asked.gpu, layout, asked.flags)
    check_generates(deployment.model)
    check_layout(deployment)
    tokens = _tokens_of_a_sequence(asked.context, deployment)
    settings = engine_settings(asked.flags, deployment, asked.max_num_seqs, asked.max_num_batched_tokens)
    account = account_memory(deployment, tokens, asked.concurrency, settings)
    ids = {"model": deployment.model.id, "gpu": deployment.accelerator.id, "engine": deployment.engine.id}
    names = "tensor_parallel pipeline_parallel data_parallel expert_parallel weight_dtype activation_dtype kv_dtype"
    inputs = (
        ids
        | {"checkpoint": deployment.model.checkpoint or None, "context_tokens": tokens, "link": asked.link}
        | pick_attributes(deployment, names)
        | pick_attributes(asked, "concurrency max_num_seqs max_num_batched_tokens")
        | pick_attributes(
            asked.flags,
            "gpu_memory_utilization kv_cache_bytes block_size ubatch_size enforce_eager language_model_only "
            "engine_version",
        )
    )
    settled = BlockPool.of(account, deployment, settings.kv_block_tokens, tokens)
    links = cache_links(asked.link, deployment.accelerator) if asked.link else ()
    fitting: dict[str, float | int | str | None] = dict.fromkeys(_WAYS)
    if not account.fits:
        fitting = {
            "--gpu-memory-utilization": _fitting_fraction(deployment, tokens, asked.concurrency, settings),
            "--kv-precision": _fitting_cache(asked, layout, deployment, tokens),
            "--tp": _fitting_degree(deployment, tokens, asked.concurrency, settings),
            "--precision": _fitting_format(asked, layout, deployment.engine, tokens),
        }
    return memory_answer(
        deployment,
        tokens,
        account,
        model_account(deployment, tokens),
        settled,
        links,
        fitting,
        inputs,
        (*taken, *notes, *host_notes(asked.flags, deployment, reads=False)),
    )


def _fitting_fraction(
    deployment: Deployment, tokens: int, num_sequences: int, settings: EngineSettings
) -> float | None:
    """Return a fraction of the memory, larger than the engine's own, at which all sequences fit; None if none is."""
    fraction = fraction_that_holds(deployment, settings, tokens, tokens)
    if fraction is None:
        return None
    wider = replace(settings, memory_fraction=fraction)
    return fraction if account_memory(deployment, tokens, num_sequences, wider).fits else None


def _fitting_degree(
    deployment: Deployment, tokens: int, num_sequences: int, settings: EngineSettings
) -> int | None:
    """Return the smallest higher degree of tensor parallelism at which all sequences fit; None if there is none."""
    degree = 2 * deployment.tensor_parallel
    while degree <= _MOST_DEGREE and deployment.data_parallel == 1 and deployment.expert_parallel == 1:
        wider = replace(deployment, tensor_parallel=degree)
        try:
            check_layout(wider)
            if account_memory(wider, tokens, num_sequences, settings).fits:
                return degree
        except InfeasibleError:
            pass
        degree *= 2
    return None


def _fitting_cache(asked: MemoryInput, layout: LayoutOptions, deployment: Deployment, tokens: int) -> str:
    """Return the widest format of the cache, smaller than the one that is planned, in which all sequences fit; empty if
    the engine has none."""
    widths = {name: cached_value_bytes(name) for name in deployment.engine.kv_dtypes}
    smaller = [name for name, width in widths.items() if width < cached_value_bytes(deployment.kv_dtype)]
    for name in sorted(smaller, key=lambda name: -widths[name]):
        if _fitting_deployment(asked, replace(layout, kv_precision=name), tokens) is not None:
            return name
    return ""


def _fitting_format(asked: MemoryInput, layout: LayoutOptions, engine: Engine, tokens: int) -> str:
    """Return the format of weights in which all sequences fit, as it is typed; empty if none is: of those that the
    same engine computes with kernels of its own the one with most bits, else of all."""
    other = ""
    for format_ in _FEWER_BITS:
        smaller = _fitting_deployment(asked, replace(layout, precision=format_), tokens)
        if smaller is None:
            continue
        served = support(engine.id, smaller.accelerator.architecture, format_)
        if smaller.engine.id == engine.id and served.verdict == "native":
            return format_
        other = other or format_
    return other


def _fitting_deployment(asked: MemoryInput, layout: LayoutOptions, tokens: int) -> Deployment | None:
    """Return the deployment in other formats; None if there is none or its sequences do not fit."""
    try:
        found, _ = stated_deployment(asked.model, asked.gpu, layout, asked.flags)
        settings = engine_settings(asked.flags, found, asked.max_num_seqs, asked.max_num_batched_tokens)
        return found if account_memory(found, tokens, asked.concurrency, settings).fits else None
    except AdvisorError:
        return None


def _tokens_of_a_sequence(typed: str | None, deployment: Deployment) -> int:
    """Return the typed tokens of a sequence; else the usual ones, or the model's window if that is shorter.

    Raises: AdvisorError: the tokens are malformed. InfeasibleError: the model does not read as many.
    """
    if typed is None:
        return min(_CONTEXT_TOKENS, context_window(deployment.model) or _CONTEXT_TOKENS)
    tokens = parse_tokens(typed, "--context")
    check_window(tokens, deployment.model, "--context")
    return tokens
