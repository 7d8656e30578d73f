"""Which checkpoint serves a deployment, how sure it is that there is one, and which requests it reads."""

from dataclasses import dataclass
from typing import Literal

from advisor.catalog.engines import weight_formats
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.published import checkpoint_for, context_limits, published
from advisor.catalog.schema import Model
from advisor.recommend.scenario import Scenario, Traffic
from advisor.simulator.deployment import Deployment

Origin = Literal["published", "pattern", "quantised on loading", "quantise first"]
_SIXTEEN_BIT = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class ServedCheckpoint:
    """What an engine loads."""

    repository: str
    format: str
    """In which it is stored."""
    origin: Origin
    """published: a source spells its name out; pattern: a source states how such names are made, so look first;
    quantised on loading: the 16-bit one, which the engine converts; quantise first: nobody published the format."""

    @property
    def verified(self) -> bool:
        return self.origin in ("published", "quantised on loading")


def served_checkpoint(deployment: Deployment) -> ServedCheckpoint:
    """The checkpoint for a deployment's weight format.

    Source: catalog.published; hf_ids of the model record; the engine's flags.
    """
    model, engine, dtype = deployment.model, deployment.engine, deployment.weight_dtype
    named = checkpoint_for(model, dtype, engine.id)
    if named.weight_dtype == dtype or (dtype in _SIXTEEN_BIT and named.weight_dtype in _SIXTEEN_BIT):
        return ServedCheckpoint(named.hf_id, dtype, "published")
    found = published(model, dtype, engine.id)
    if found:
        return ServedCheckpoint(found[0].repository, dtype, "published" if found[0].is_seen else "pattern")
    if dtype in engine.flags.weights and dtype in weight_formats(engine, deployment.accelerator):
        return ServedCheckpoint(named.hf_id, named.weight_dtype, "quantised on loading")
    return ServedCheckpoint(named.hf_id, named.weight_dtype, "quantise first")


def within_window(traffic: Traffic, model: Model) -> tuple[Traffic, str]:
    """The traffic as a model's context window lets it be, and a note where long requests are cut.

    Assumes: the scaling that the publisher states may be switched on.
    Raises: InfeasibleError: the mean request is longer than the window.
    """
    limits = context_limits(model)
    window = max(limits.with_scaling or 0, limits.native or 0)
    if not window or traffic.longest_request_tokens <= window:
        return traffic, _scaling_note(traffic.longest_request_tokens, model)
    mean = traffic.mean_input_tokens + traffic.mean_output_tokens
    if mean > window:
        raise InfeasibleError(
            f"{model.id} reads at most {window:,} tokens, a mean request has {mean:,}",
            why=f"its context window ends there ({limits.source})",
            fix=f"--input-tokens {max(1, window - traffic.mean_output_tokens)} or less, or another model",
        )
    output = min(traffic.longest_output_tokens, max(traffic.mean_output_tokens, window // 2))
    cut = traffic.model_copy(update={"max_output_tokens": output, "max_input_tokens": window - output})
    note = f"requests are cut to the {window:,} tokens that {model.id} reads"
    return cut, "; ".join(filter(None, (note, _scaling_note(window, model))))


def _scaling_note(tokens: int, model: Model) -> str:
    """What a server of longer requests than the configured window must switch on; empty within it."""
    limits = context_limits(model)
    if not limits.native or tokens <= limits.native:
        return ""
    return (
        f"beyond {limits.native:,} tokens {model.id} needs the scaling of positions that its publisher states "
        f"({limits.source}): add its option to the command"
    )


def windowed(scenario: Scenario, model: Model) -> tuple[Scenario, str]:
    """The scenario with its requests within the model's window, and a note where that changed them.

    Raises: InfeasibleError: the mean request is longer than the window.
    """
    traffic, note = within_window(scenario.traffic, model)
    return scenario.model_copy(update={"traffic": traffic}), note
