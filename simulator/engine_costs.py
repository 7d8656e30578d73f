"""What an engine adds to the kernels: host time, launches outside captured graphs, the way to and from the client."""

from dataclasses import dataclass, fields

from advisor.catalog.schema import Engine, EngineEra


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """Parameters of one (engine, era); fitted on published measurements, stored in the engine's record.

    Source: tools/fit/fit_engines.py; residuals stand beside the parameters.
    """

    step_s: float = 0.2e-3
    """Exposed host time of each iteration: scheduling, input preparation, sampling, output handling."""
    sequence_s: float = 3.0e-6
    """Added per running sequence and iteration."""
    mixed_step_s: float = 1.0e-3
    """Added to each iteration that carries prefill: new requests, block tables, no captured graph to replay."""
    eager_layer_s: float = 150.0e-6
    """Host launch time per layer of an iteration outside captured graphs; hides behind longer kernels."""
    eager_expert_layer_s: float = 300.0e-6
    """The same, added for a layer with routed experts."""
    kernel_scale: float = 1.0
    """Kernels inside the running engine against kernels measured alone."""
    expert_scale: float = 1.0
    """The same for routed experts in decode iterations, on top of kernel_scale."""
    expert_prefill_scale: float = 1.0
    """The same for routed experts in iterations with prefill."""
    request_s: float = 10.0e-3
    """From arrival to the scheduler and from the first token back: HTTP, tokenizer, detokenizer."""
    request_expert_layer_s: float = 100.0e-6
    """Latency of a first token per layer with routed experts that delays nobody else's tokens."""


DEFAULT_COSTS = EngineCosts()


def era_of(engine: Engine, *, version: str = "", date: str = "") -> EngineEra | None:
    """The era of an engine that a version or a date belongs to; the newest where neither is given.

    Source: own definition; version numbers compare by their leading integers, dates as ISO text.
    """
    if not engine.eras:
        return None
    key = _version_key(version)
    if key:
        known = [era for era in engine.eras if _version_key(era.from_version) <= key]
        return known[-1] if known else engine.eras[0]
    if date:
        known = [era for era in engine.eras if era.from_date <= date]
        return known[-1] if known else engine.eras[0]
    return engine.eras[-1]


def engine_costs(engine: Engine, *, version: str = "", date: str = "") -> EngineCosts:
    """The fitted parameters of an engine's era; defaults for what was never fitted.

    Source: own definition.
    """
    era = era_of(engine, version=version, date=date)
    if era is None:
        return DEFAULT_COSTS
    known = {field.name for field in fields(EngineCosts)}
    return EngineCosts(**{name: value for name, value in era.parameters.items() if name in known})


def _version_key(version: str) -> tuple[int, ...]:
    """Leading integers of a version; () where there are none."""
    parts: list[int] = []
    for piece in version.lstrip("v").split("."):
        digits = ""
        for character in piece:
            if not character.isdigit():
                break
            digits += character
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)
