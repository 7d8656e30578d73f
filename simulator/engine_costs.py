"""What an engine adds to the kernels: host time, launches outside captured graphs, the way to and from the client."""

from dataclasses import dataclass
from functools import cache, lru_cache

from advisor.catalog.efficiencies import is_measured
from advisor.catalog.schema import Engine, Model
from advisor.simulator.graph.model import layers_of
from advisor.simulator.terms import Case, filled, value


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """What an engine and its host add, by the names of the table of terms; the defaults add nothing.

    Source: catalog/data/terms.csv.
    """

    step_s: float = 0.0
    """Exposed host time of each iteration: scheduling, input preparation, sampling, output handling."""
    sequence_s: float = 0.0
    """Added per running sequence and iteration."""
    mixed_step_s: float = 0.0
    """Added to each iteration that carries prefill: new requests, block tables, no captured graph to replay."""
    eager_launch_s: float = 0.0
    """Host time per operator of an iteration outside captured graphs; hides behind longer kernels."""
    eager_sequence_s: float = 0.0
    """Host time per sequence of such an iteration where it decodes: scheduling, inputs, answers."""
    kernel_scale: float = 1.0
    """Kernels inside the running engine against kernels measured alone."""
    release_scale: float = 1.0
    """Kernels of a release that lacks a configuration which others have, on top of kernel_scale."""
    release_layers_s: float = 0.0
    """Decode time of kernels that a release runs and others do not, all layers together."""
    prefill_scale: float = 1.0
    """The same in iterations with prefill, on top of kernel_scale: dense prompts without a pause meet the power limit,
    which kernels measured in bursts do not."""
    launch_scale: float = 1.0
    """Launch time of a kernel behind another one against that of a kernel measured alone."""
    expert_scale: float = 1.0
    """The same for routed experts in decode iterations, on top of kernel_scale, where there are many of them: real
    routing touches fewer than the measured kernels were given."""
    expert_prefill_scale: float = 1.0
    """The same for routed experts in iterations with prefill."""
    collective_wait_s: float = 0.0
    """Added to each collective: ranks do not arrive together, as they do where it is measured alone."""
    delivery_s: float = 0.0
    """What the process that turns tokens into answers spends on each: it serves all sequences one after the other."""
    message_s: float = 0.0
    """What it spends besides on each message to a client, which carries one token unless the engine is asked to send
    several at once."""
    request_s: float = 0.0
    """From arrival to the scheduler and from the first token back: HTTP, tokenizer, detokenizer."""
    request_launch_s: float = 0.0
    """Latency of a first token per operator of the model, which delays nobody else's tokens: the host launches a
    prompt's operators ahead of the device."""


def unmeasured_scale(architecture: str) -> float:
    """What kernels take on another vendor's hardware that nobody measured, in times what its relative's record makes.

    A relative lends the shares of the data sheet that mature libraries reach, which others do not.

    Source: catalog/data/terms.csv.
    """
    return 1.0 if is_measured(architecture) else value("engine", "unmeasured_scale", Case())


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
    if not turns.holds(version, date):
        return engine
    return engine.model_copy(update={"overlap_scheduling": False, "prompt_launches": "in_turns"})


@cache
def default_costs() -> EngineCosts:
    """What an engine adds of which nothing is known. Source: catalog/data/terms.csv."""
    return filled(EngineCosts, "engine", Case())


def engine_costs(engine: Engine, *, version: str = "", date: str = "") -> EngineCosts:
    """The costs of an engine's release on any hardware, for any model.

    Source: catalog/data/terms.csv.
    """
    return _engine_costs(engine.id, version, date)


@lru_cache(maxsize=512)
def _engine_costs(engine_id: str, version: str, date: str) -> EngineCosts:
    return filled(EngineCosts, "engine", Case(engine_id, version, date))
