"""Start-up log of a server compared with the memory plan: weights, KV cache and the tokens that it holds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import DTYPES, cached_value_bytes
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.formats.server_log import ServerLog
from advisor.catalog.formats.stated_settings import cache_format, weight_format
from advisor.catalog.published import checkpoint_format
from advisor.catalog.units import GIB
from advisor.evidence.own_server import accelerator_id, device_words, stored_formats
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.graph.model import kv_bytes_per_token, kv_share, unified_bytes_per_token
from advisor.simulator.host_layers import HostLayers
from advisor.simulator.layout import check_generates, check_layout
from advisor.simulator.memory import (
    MemoryPlan,
    TooLittleMemoryError,
    cache_bytes_per_token,
    expert_padding_bytes,
)
from advisor.simulator.replica_model import EngineSettings, engine_limits, micro_batch_of, replica_memory

_CLOSE: Final = 0.08
"""Largest relative difference that counts as equal: in the median, logs of published servers differ by less."""


@dataclass(frozen=True, slots=True)
class MemoryFigure:
    """One size or count of the log with the plan's."""

    name: str
    unit: str
    logged: float
    planned: float

    @property
    def ratio(self) -> float:
        return self.planned / self.logged

    @property
    def is_close(self) -> bool:
        return abs(self.ratio - 1.0) <= _CLOSE


@dataclass(frozen=True, slots=True)
class PlannedServer:
    """A server as a log describes it, with the memory that is planned for it."""

    deployment: Deployment
    settings: EngineSettings
    window: int
    """Longest request [tokens]."""
    plan: MemoryPlan

    def plan_of_release(self, version: str) -> MemoryPlan:
        """Return the memory of the same server in another release.

        Raises: TooLittleMemoryError: that release finds no room for its cache.
        """
        return _memory(self.deployment, replace(self.settings, version=version), self.window)


@dataclass(frozen=True, slots=True)
class MemoryComparison:
    """A server's log compared with the plan of the same deployment."""

    deployment: Deployment
    settings: EngineSettings
    plan: MemoryPlan
    figures: tuple[MemoryFigure, ...]
    assumed: tuple[str, ...]
    """Sentences about what neither log nor person states, and how it was taken."""
    causes: tuple[str, ...]
    """Likely reasons of differences."""


_FEWEST_BATCHED_TOKENS: Final = 2048
"""Tokens of one iteration that releases of vLLM without chunks took at least (vllm/config.py of 0.6.4)."""


def compare_memory(log: ServerLog, stated: Mapping[str, str]) -> MemoryComparison:
    """Return the memory of a log compared with the plan of its deployment.

    Raises: InputFileError: neither the log nor the person says which model or accelerator it is. InfeasibleError: the
        plan finds that the deployment does not fit.
    """
    assumed = list(log.notes)
    deployment = _deployment(log, stated, assumed)
    window = log.max_model_len or deployment.model.max_context_tokens or 4096
    settings = _settings(log, stated, deployment, assumed)
    earlier = engines.earlier_memory(deployment.engine, settings.version)
    whole = earlier.whole_prompts_up_to if earlier else None
    if whole and window <= whole and settings.max_num_batched_tokens is None:
        settings = replace(settings, max_num_batched_tokens=max(window, _FEWEST_BATCHED_TOKENS))
    check_generates(deployment.model)
    check_layout(deployment)
    try:
        plan = _memory(deployment, settings, window)
    except TooLittleMemoryError as error:
        if log.has_failed or not (log.kv_bytes or log.kv_tokens):
            raise
        plan = error.plan
        assumed.append(
            f"by the plan it does not fit ({error.why or error.what}), and the log says that it does"
        )
    server = PlannedServer(deployment, settings, window, plan)
    figures = _figures(server, log, assumed)
    if log.kv_bytes is None and log.kv_tokens is None:
        assumed.append("the log has no size of the cache: the cache is not compared")
    causes = _causes(figures, deployment, is_tp_known=bool(stated.get("tp") or log.tensor_parallel))
    held_cache = next((figure for figure in figures if figure.name.startswith("KV")), None)
    if held_cache is not None and not held_cache.is_close and not settings.version:
        causes += _of_a_release(server, held_cache.ratio)
    return MemoryComparison(deployment, settings, plan, tuple(figures), tuple(assumed), causes)


def _memory(deployment: Deployment, settings: EngineSettings, window: int) -> MemoryPlan:
    return replica_memory(deployment, settings, 1, max(1.0, 0.95 * window))


def _figures(server: PlannedServer, log: ServerLog, assumed: list[str]) -> list[MemoryFigure]:
    """Return the sizes and counts of a log with the plan's; sentences on how they were read go to `assumed`."""
    deployment = server.deployment
    plan = server.plan
    figures = []
    if log.device_bytes and (known := deployment.accelerator.memory_bytes):
        figures.append(MemoryFigure("memory of one accelerator", "bytes", log.device_bytes, known))
    if log.weight_bytes:
        held = plan.weight_bytes + expert_padding_bytes(deployment)
        figures.append(MemoryFigure("weights of one accelerator", "bytes", log.weight_bytes, held))
    if log.sizes_by_context and log.kv_bytes and log.kv_tokens:
        slots = log.max_num_seqs or 1
        footprint = kv_bytes_per_token(deployment.model, deployment.kv_dtype)
        of_slot = log.kv_tokens // slots
        micro = micro_batch_of(deployment.engine, server.settings)
        whole = replace(deployment, tensor_parallel=1, pipeline_parallel=1)
        cells = cache_bytes_per_token(whole, footprint, of_slot, micro) * of_slot
        planned = slots * (cells + footprint.state_bytes_per_sequence)
        figures.append(MemoryFigure("KV cache and states of all slots", "bytes", log.kv_bytes, planned))
    elif log.loaded_bytes and log.kv_tokens:
        cache = kv_bytes_per_token(deployment.model, deployment.kv_dtype).bytes_of(log.kv_tokens)
        planned = plan.weight_bytes + cache + plan.activation_bytes
        figures.append(MemoryFigure("all that is loaded", "bytes", log.loaded_bytes, planned))
    elif log.kv_bytes and log.sizes_by_context:
        assumed.append("the log does not say the context of its cache: the size of the cache is not compared")
    elif log.kv_bytes:
        held = plan.kv_bytes - plan.state_pool_bytes
        figures.append(MemoryFigure("KV cache of one accelerator", "bytes", log.kv_bytes, held))
    if log.kv_tokens and not log.sizes_by_context and plan.kv_bytes > 0.0:
        ranks = deployment.data_parallel
        name = "KV tokens of one rank" if ranks > 1 else "KV tokens"
        tokens = _printed_tokens(server, log, assumed)
        figures.append(MemoryFigure(name, "tokens", log.kv_tokens, tokens))
        if log.kv_bytes:
            name = "cache of one token"
            held = plan.kv_bytes - plan.state_pool_bytes
            figures.append(MemoryFigure(name, "bytes", log.kv_bytes / log.kv_tokens, held / tokens))
    return figures


def _of_a_release(server: PlannedServer, ratio: float) -> tuple[str, ...]:
    """Return a sentence on the earlier release whose plan comes nearest to a log that does not say its release; none
    where no release comes nearer than the newest one. `ratio` is the planned cache over that of the log."""
    found = []
    for span in server.deployment.engine.earlier_memory:
        if version := span.since.partition(" ")[0]:
            try:
                left = server.plan_of_release(version).kv_bytes
            except TooLittleMemoryError:
                continue
            found.append((abs(ratio * left / server.plan.kv_bytes - 1.0), version, left))
    error, version, left = min(found, default=(math.inf, "", 0.0))
    if error >= abs(ratio - 1.0):
        return ()
    return (
        f"the release is not stated: {_word(server.deployment)} {version} would leave {left / GIB:.3g} GiB for the "
        f"cache (--engine-version {version})",
    )


def _printed_tokens(server: PlannedServer, log: ServerLog, assumed: list[str]) -> float:
    """Return the tokens that the engine would print for the planned cache of one rank.

    Earlier releases count every layer as if it kept all tokens. Later ones of vLLM print how many requests of the
    longest length fit, times that length; a layer with a window then counts its window and one iteration's new tokens.
    With its prefix cache on, a hybrid holds the state of a sequence twice, one of them at the last block that can be
    shared.

    Source: vLLM 0.24.0, v1/core/kv_cache_utils.py (get_kv_cache_capacity) and v1/kv_cache_interface.py
    (SlidingWindowSpec.max_memory_usage_bytes).
    """
    deployment = server.deployment
    plan = server.plan
    window = server.window
    version = server.settings.version
    model = deployment.model
    share = kv_share(model, deployment.tensor_parallel) / deployment.pipeline_parallel
    earlier = engines.earlier_memory(deployment.engine, version)
    footprint = kv_bytes_per_token(model, deployment.kv_dtype)
    if earlier and earlier.states_all_layers and (footprint.windowed or footprint.state_bytes_per_sequence):
        assumed.append(
            f"{_word(deployment)} {version} prints tokens as if every layer kept all of them: it holds more"
        )
        return plan.kv_bytes / (unified_bytes_per_token(model, deployment.kv_dtype) * share)
    tokens = plan.kv_capacity_tokens / deployment.data_parallel
    if plan.state_pool_bytes:
        return (plan.kv_bytes - plan.state_pool_bytes) / plan.kv_bytes_per_token
    if footprint.windowed and deployment.engine.pads_cache_groups and not log.prefix_caching:
        _, chunk_tokens = engine_limits(deployment, server.settings, window)
        padded = kv_bytes_per_token(model, deployment.kv_dtype, pads_groups=True)
        return plan.kv_bytes / (padded.bytes_of(window, chunk_tokens) * share) * window
    if log.prefix_caching and plan.state_bytes_per_sequence:
        assumed.append("with its prefix cache on, the server keeps the state of a sequence twice")
        return plan.kv_bytes / (plan.kv_bytes / tokens + plan.state_bytes_per_sequence / window)
    return tokens


def _deployment(log: ServerLog, stated: Mapping[str, str], assumed: list[str]) -> Deployment:
    """Return the deployment that the log and the person describe."""
    model = stated.get("model") or models.name_in_path(log.model)
    gpu = stated.get("gpu", "") or accelerator_id(device_words(log.device)) or log.device
    if missing := [option for option, value in (("--model ID", model), ("--gpu ID", gpu)) if not value]:
        what = {"--model ID": "the model", "--gpu ID": "the accelerator"}
        raise InputFileError(
            f"the log does not say {' and '.join(what[option] for option in missing)}",
            why="; ".join(note for note in log.notes if note.startswith("the devices differ"))
            or "few start-up logs name the accelerator, and some no model",
            fix=" ".join(missing),
        )
    try:
        models.get(model)
    except UnknownNameError as error:
        if stated.get("model"):
            raise
        raise InputFileError(
            f"the log's model {model!r} is not in the catalog",
            why=error.why,
            fix="--model ID",
            hint=error.hint,
        ) from None
    # The name of a checkpoint says more than the method of its quantisation, which may have several formats.
    weights = stated.get("weight_dtype") or stored_formats(model).get("weight_dtype")
    weights = weights or weight_format(log.weight_dtype) or checkpoint_format(model)
    if not weights and log.weight_dtype:
        assumed.append(
            f"quantisation {log.weight_dtype!r} stands for several formats; --precision says which"
        )
    cache = stated.get("kv_dtype") or cache_format(log.kv_dtype)
    if log.kv_dtype and not cache:
        assumed.append(f"cache format {log.kv_dtype!r} is not known: bf16 is taken; --kv-precision says it")
    tp = int(stated.get("tp") or log.tensor_parallel or 1)
    dp = int(stated.get("dp") or log.data_parallel or 1)
    if not (stated.get("tp") or log.tensor_parallel):
        assumed.append("the log does not say how many accelerators share the model: 1 is taken; --tp says it")
    if log.attends_apart and not stated.get("tp"):
        tp = max(1, tp // dp)
        assumed.append(
            f"SGLang's --dp-size {dp} with attention data parallelism uses the {tp * dp} accelerators of --tp-size"
        )
    return named_deployment(
        model,
        gpu,
        stated.get("engine") or log.engine,
        weight_dtype=weights if weights in DTYPES else None,
        tensor_parallel=tp,
        pipeline_parallel=int(stated.get("pp") or log.pipeline_parallel or 1),
        data_parallel=dp if log.attends_apart or log.expert_parallel or stated.get("dp") else 1,
        expert_parallel=int(stated.get("ep") or log.expert_parallel or 1),
        kv_dtype=cache or ("bf16" if log.kv_dtype else None),
    )


def _settings(
    log: ServerLog, stated: Mapping[str, str], deployment: Deployment, assumed: list[str]
) -> EngineSettings:
    fraction = float(stated.get("memory_fraction") or log.memory_fraction or 0.0)
    if not fraction and not log.sizes_by_context:
        release = f" of release {log.version}" if log.version else ""
        assumed.append(
            f"the log does not say the memory fraction: {_word(deployment)}'s default{release} is taken"
        )
    if deployment.engine.earlier_memory and not (log.version or stated.get("engine_version")):
        assumed.append(
            f"the log does not say the release: the newest of {_word(deployment)} is planned; --engine-version says it"
        )
    return EngineSettings(
        max_num_seqs=_whole(stated.get("max_num_seqs")) or log.max_num_seqs,
        max_num_batched_tokens=_whole(stated.get("max_num_batched_tokens")) or log.max_num_batched_tokens,
        memory_fraction=fraction or None,
        host=HostLayers(log.gpu_layers, offloaded_bytes=log.offloaded_bytes)
        if log.gpu_layers is not None or log.offloaded_bytes
        else None,
        enforce_eager=log.enforce_eager or bool(stated.get("enforce_eager")),
        version=stated.get("engine_version") or log.version,
    )


def _word(deployment: Deployment) -> str:
    return engines.get(deployment.engine.id).record.name


def _whole(text: str | None) -> int | None:
    return int(text) if text else None


def _causes(figures: list[MemoryFigure], deployment: Deployment, *, is_tp_known: bool) -> tuple[str, ...]:
    """Return what the differences point at, by which of the sizes differ."""
    by_name = {figure.name.partition(" of ")[0]: figure for figure in figures}
    found = []
    board = by_name.get("memory")
    if board and not board.is_close:
        found.append(f"the accelerator of the log is not {deployment.accelerator.id}: --gpu names another")
    weights = by_name.get("weights")
    if weights and not weights.is_close:
        found.append(
            "weights differ: another format (--precision), unquantised layers, or another number of accelerators (--tp)"
        )
    token = by_name.get("cache")
    if token and not token.is_close:
        found.append(_cause_of_bytes_per_token(token, deployment, is_tp_known=is_tp_known))
    cache = by_name.get("KV cache") or by_name.get("KV tokens")
    if cache and not cache.is_close and (weights is None or weights.is_close):
        but = " although the weights agree" if weights else ""
        found.append(
            f"the cache differs{but}: memory fraction (--gpu-memory-utilization), other processes, graphs or workspaces"
        )
        if board is None and (others := accelerators.other_memories(deployment.accelerator)):
            options = " or ".join(f"--gpu {other}" for other in others)
            found.append(f"{deployment.accelerator.id} is also sold with another memory: {options}")
    return tuple(found)


def _cause_of_bytes_per_token(token: MemoryFigure, deployment: Deployment, *, is_tp_known: bool) -> str:
    """Return what makes the bytes of a token another number than planned: a cache format with just as many bytes, more
    accelerators, or what is usual."""
    formats = (name for name in deployment.engine.kv_dtypes if name != deployment.kv_dtype)
    same = [
        name
        for name in formats
        if abs(cached_value_bytes(name) / cached_value_bytes(deployment.kv_dtype) * token.ratio - 1.0)
        <= _CLOSE
    ]
    if not same:
        return "bytes per token differ: another cache format (--kv-precision), or the engine pads its pages"
    ranks = round(deployment.tensor_parallel * token.ratio)
    others = f", or of {ranks} accelerators (--tp {ranks})" if ranks > 1 and not is_tp_known else ""
    return f"bytes per token are those of an {same[0]} cache (--kv-precision {same[0]}){others}"
