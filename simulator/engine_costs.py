"""What an engine adds to the kernels: host time, launches outside captured graphs, the way to and from the client."""

from dataclasses import dataclass, fields

from advisor.catalog.schema import Engine, ExpertPadding, Model
from advisor.simulator.graph.model import layers_of
from advisor.simulator.releases import belongs_to, era_of


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """What an engine and its host add. The way of a request is fitted by (engine, era) and stored in the engine's
    record; the rest is common to all engines: fitted by engine or era it predicts groups left out of the fit worse.

    Source: evidence/fit/engines.py; residuals stand beside the parameters.
    """

    step_s: float = 0.2e-3
    """Exposed host time of each iteration: scheduling, input preparation, sampling, output handling."""
    sequence_s: float = 3.0e-6
    """Added per running sequence and iteration."""
    mixed_step_s: float = 1.0e-3
    """Added to each iteration that carries prefill: new requests, block tables, no captured graph to replay."""
    eager_launch_s: float = 22.0e-6
    """Host time per operator of an iteration outside captured graphs; hides behind longer kernels."""
    eager_sequence_s: float = 0.0
    """Host time per sequence of such an iteration where it decodes: scheduling, inputs, answers."""
    kernel_scale: float = 1.0
    """Kernels inside the running engine against kernels measured alone."""
    release_scale: float = 1.0
    """Kernels of a release that lacks a configuration which others have, on top of kernel_scale; set by its record."""
    release_layers_s: float = 0.0
    """Decode time of kernels that a release runs and others do not, all layers together; set by its record."""
    prefill_scale: float = 1.05
    """The same in iterations with prefill, on top of kernel_scale: dense prompts without a pause meet the power limit,
    which kernels measured in bursts do not."""
    launch_scale: float = 0.8
    """Launch time of a kernel behind another one against that of a kernel measured alone. Above 1 it counts kernels
    around quantised and recurrent operators that were not measured with them; plain operators stay at 1."""
    expert_scale: float = 0.78
    """The same for routed experts in decode iterations, on top of kernel_scale, where there are many of them: real
    routing touches fewer than the measured kernels were given."""
    expert_prefill_scale: float = 1.15
    """The same for routed experts in iterations with prefill."""
    collective_wait_s: float = 3.0e-6
    """Added to each collective: ranks do not arrive together, as they do where it is measured alone. Steps of a dense
    model on two and four H200s take 1 to 3 µs more per collective than their parts (docs/probes.md)."""
    delivery_s: float = 25.0e-6
    """What the process that turns tokens into answers spends on each: it serves all sequences one after the other."""
    message_s: float = 0.0
    """What it spends besides on each message to a client, which carries one token unless the engine is asked to send
    several at once."""
    request_s: float = 10.0e-3
    """From arrival to the scheduler and from the first token back: HTTP, tokenizer, detokenizer."""
    request_launch_s: float = 45.0e-6
    """Latency of a first token per operator of the model, which delays nobody else's tokens: the host launches a
    prompt's operators ahead of the device."""


DEFAULT_COSTS = EngineCosts()


def expert_padding_of(
    engine: Engine, architecture: str, expert_format: str, tensor_parallel: int, *, version: str = ""
) -> ExpertPadding | None:
    """How a release pads the rows of routed experts on an architecture; None where it does not, or none is named.

    `tensor_parallel` ranks split each expert; `expert_format` is that of the multiplication, e.g. fp8_block.

    Source: the engine's record.
    """
    for padding in engine.expert_padding:
        split = padding.below_tensor_parallel is None or tensor_parallel < padding.below_tensor_parallel
        applies = architecture in padding.architectures and expert_format == padding.format
        if split and applies and belongs_to(padding, version=version):
            return padding
    return None


def engine_in_turns(engine: Engine, model: Model, *, version: str = "", date: str = "") -> Engine:
    """The engine as it schedules a model: a release that takes turns with the device does not overlap batches.

    Without version and date it is the newest release, which does not.

    Assumes: Kimi delta attention is served without a prefix cache, and therefore overlaps.
    Source: the engine's record; SGLang 0.5.9, server_args.py _handle_mamba_radix_cache.
    """
    turns = engine.in_turns_with_state
    if turns is None or not engine.prefix_caching:
        return engine
    if not any(layer.mixer is not None and layer.mixer.cached_state for layer in layers_of(model)):
        return engine
    if not belongs_to(turns, version=version, date=date):
        return engine
    return engine.model_copy(update={"overlap_scheduling": False, "prompt_launches": "in_turns"})


def engine_costs(engine: Engine, *, version: str = "", date: str = "") -> EngineCosts:
    """The parameters of an engine's era, measured or fitted; defaults for the others.

    Source: own definition.
    """
    era = era_of(engine, version=version, date=date)
    if era is None:
        return DEFAULT_COSTS
    known = {field.name for field in fields(EngineCosts)}
    own = {**era.measured, **era.parameters}
    return EngineCosts(**{name: value for name, value in own.items() if name in known})
