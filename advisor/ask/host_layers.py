"""Layers, experts and weights that a server keeps in main memory, as typed."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from advisor.ask.measures import parse_bytes
from advisor.ask.options import EngineFlags
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema.model import MoeFeedForward
from advisor.catalog.units import GB, GIB
from advisor.simulator.deployment import Deployment
from advisor.simulator.host_layers import (
    HOST_FRACTION,
    USUAL_HOST_BYTES_PER_S,
    HostLayers,
    link_bytes_per_s,
    num_expert_layers,
)
from advisor.simulator.memory import weight_bytes

_READERS: Final = ("vllm", "sglang")
"""Engines whose accelerators read weights in main memory over their link: --cpu-offload-gb."""
_ALL: Final = ("all", "max", "auto", "-1")
_DIVIDES: Final = "llama.cpp"
"""Engine that keeps layers in main memory and multiplies them there."""
_TENSORS: Final = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
"""Tensors of a layer's routed experts in a GGUF file."""
_MOST_PATTERN: Final = 200


def host_layers(flags: EngineFlags, deployment: Deployment) -> HostLayers | None:
    """Return the layers that stay in main memory; None if the accelerators hold all.

    Raises: AdvisorError: a value is malformed, or no layer is on the accelerators. InfeasibleError: another engine.
    """
    if flags.cpu_offload_gb:
        return _weights_in_host(flags.cpu_offload_gb, deployment)
    typed = {"--gpu-layers": flags.gpu_layers, "--host-experts": flags.host_experts}
    given = [name for name, value in typed.items() if value is not None]
    if not given:
        return None
    if deployment.engine.id != _DIVIDES:
        raise InfeasibleError(
            f"{given[0]} means nothing for {deployment.engine.name}",
            why="of the engines here llama.cpp alone multiplies layers in main memory",
            fix=f"--engine {_DIVIDES}, or drop {given[0]}",
        )
    total = sum(group.count for group in deployment.model.layers)
    layers = None if flags.gpu_layers is None else _gpu_layers(flags.gpu_layers, total)
    experts = 0 if flags.host_experts is None else _expert_layers(flags.host_experts, deployment)
    if (layers is None or layers > total) and not experts:
        return None
    if deployment.accelerator.unified_memory:
        return None  # one memory holds them all
    if layers == 0:
        raise AdvisorError(
            "--gpu-layers 0 puts no layer on the accelerator",
            why="the processors run the model alone",
            fix="advisor simulate offload --gpu none --host '2x Xeon Gold 6454S'",
        )
    text = flags.host_bandwidth
    rate = parse_bytes(text.removesuffix("/s"), "--host-bandwidth") if text else USUAL_HOST_BYTES_PER_S
    return HostLayers(layers, experts, rate)


def _weights_in_host(size_gib: float, deployment: Deployment) -> HostLayers | None:
    """Return the weights that each accelerator reads from main memory; None where both have one memory.

    Raises: InfeasibleError: the engine keeps none there.
    """
    if deployment.engine.id not in _READERS:
        raise InfeasibleError(
            f"--cpu-offload-gb means nothing for {deployment.engine.name}",
            why=f"{' and '.join(_READERS)} alone read weights from main memory",
            fix="--gpu-layers N or --host-experts N, or drop --cpu-offload-gb"
            if deployment.engine.id == _DIVIDES
            else "drop --cpu-offload-gb",
        )
    return None if deployment.accelerator.unified_memory else HostLayers(offloaded_bytes=size_gib * GIB)


def host_notes(flags: EngineFlags, deployment: Deployment, *, reads: bool = True) -> tuple[str, ...]:
    """Return what stays in main memory in words, and with `reads` at which rate it is read.

    Raises: AdvisorError and its kinds: as host_layers.
    """
    given = flags.gpu_layers is not None or flags.host_experts is not None or bool(flags.cpu_offload_gb)
    found = host_layers(flags, deployment)
    if found is None:
        is_one = given and deployment.accelerator.unified_memory
        return (f"{deployment.accelerator.id} has one memory, which holds all layers",) if is_one else ()
    if found.offloaded_bytes:
        link = link_bytes_per_s(deployment.accelerator) / GB
        reading = f", read over its link at {link:.0f} GB/s in each iteration" if reads else ""
        return (
            f"in main memory: {found.weights_in_host(deployment) / GB:.1f} GB of each accelerator's weights{reading}",
        )
    part = found.model_on_accelerators(deployment.model)
    alone = replace(deployment, tensor_parallel=1, pipeline_parallel=1, data_parallel=1, expert_parallel=1)
    size = (weight_bytes(alone) - weight_bytes(replace(alone, model=part))) / GB
    total = sum(group.count for group in deployment.model.layers)
    held = sum(group.count for group in part.layers)
    places = [f"{total - held} of {total} layers"] if held < total else []
    experts = num_expert_layers(deployment.model) - num_expert_layers(part) - (total - held)
    places += [f"the routed experts of {experts} layers"] if experts > 0 else []
    words = f"in main memory: {' and '.join(places)}, {size:.1f} GB of weights"
    if not reads:
        return (words,)
    rate = f"{found.bytes_per_s / GB:g} GB/s"
    source = (
        "" if flags.host_bandwidth else " (assumed: two channels of DDR5-5600; --host-bandwidth says another)"
    )
    return (f"{words}, read at {100 * HOST_FRACTION:.0f} % of {rate}{source}",)


def stage_fraction(flags: EngineFlags, deployment: Deployment) -> float | None:
    """Return the part of the layers that the fullest stage has; None for equal stages.

    Raises: AdvisorError: the proportions are malformed or as many as no stages.
    """
    if flags.tensor_split is None:
        return None
    try:
        parts = [float(part) for part in re.split(r"[,/;\s]+", flags.tensor_split.strip(" ,"))]
    except ValueError:
        parts = []
    parts = [part for part in parts if part]
    if (
        not parts
        or min(parts) < 0.0
        or not math.isfinite(sum(parts))
        or len(parts) != deployment.pipeline_parallel
    ):
        raise AdvisorError(
            f"--tensor-split {flags.tensor_split}: not a proportion for each of {deployment.pipeline_parallel} stages",
            why="layers are divided among the stages of --pp in these proportions",
            fix="--pp 2 --tensor-split 3,1",
        )
    return None if max(parts) == min(parts) else max(parts) / sum(parts)


def _gpu_layers(text: str, total: int) -> int:
    """Return a number of layers; all of them, or a fraction as LM Studio writes it, by name."""
    if text.lower() in _ALL:
        return total + 1
    if text.lower() == "off":
        return 0
    if re.fullmatch(r"0?\.\d+|1\.0+", text):
        return round(float(text) * (total + 1))
    if not text.isdigit():
        raise AdvisorError(f"--gpu-layers {text}: not a number of layers", fix="--gpu-layers 24, or all")
    return int(text)


def _expert_layers(text: str, deployment: Deployment) -> int:
    """Return the number of layers, from the first, whose routed experts stay in main memory; where a pattern names
    tensors of them, as many layers as the named tensors fill.

    Raises: AdvisorError: the model has no routed experts, or the text is neither a number nor such a pattern.
    """
    model = deployment.model
    feeds = [group.feed_forward for group in model.layers for _ in range(group.count)]
    routed = [place for place, feed in enumerate(feeds) if isinstance(feed, MoeFeedForward)]
    if not routed:
        raise AdvisorError(
            f"--host-experts {text}: {model.id} has no routed experts",
            why="it is for mixtures of experts",
            fix="--gpu-layers N",
        )
    if text.lower() in _ALL:
        return len(feeds)
    if text.isdigit():
        return int(text)
    places = list(map(_placement, text.split(",")))
    named = 0.0
    if all(pattern for pattern, _ in places):
        names = [f"blk.{layer}.{tensor}.weight" for layer in routed for tensor in _TENSORS]
        named = sum(_place_of(name, places) == _HOST for name in names) / len(_TENSORS)
    if _place_of(f"blk.{routed[0]}.attn_q.weight", places) == _HOST:
        named = 0.0
    if not named:
        raise AdvisorError(
            f"--host-experts {text}: names no routed experts alone",
            why="tensors are called blk.0.ffn_up_exps.weight, and only experts are planned in main memory",
            fix="--host-experts all, or --gpu-layers N",
        )
    return routed[0] + min(round(named), len(routed))


_HOST: Final = "CPU"
"""Place of tensors in main memory in llama.cpp's rules."""


def _placement(rule: str) -> tuple[re.Pattern[str] | None, str]:
    """Return pattern and place of a rule, PATTERN=PLACE; None for a pattern that cannot be read."""
    pattern, equals, place = rule.rpartition("=")
    try:
        return (re.compile(pattern[:_MOST_PATTERN]) if equals else None), place.upper()
    except re.error:
        return None, place.upper()


def _place_of(tensor: str, places: Sequence[tuple[re.Pattern[str] | None, str]]) -> str:
    """Return the place of a tensor: that of the first rule whose pattern occurs in its name; empty for none.

    Source: llama.cpp, src/llama-model.cpp (tensor_buft_overrides are tried in their order).
    """
    return next((place for pattern, place in places if pattern and pattern.search(tensor)), "")
