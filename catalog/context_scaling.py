"""Longer context windows: the scaling of positions that a publisher states, as an engine's option for it."""

import functools
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from advisor.catalog.engines import SUPPORT_FOLDER, sources_of
from advisor.catalog.files import read_csv
from advisor.catalog.published import context_limits
from advisor.catalog.releases import version_key
from advisor.catalog.schema import Engine, Model


@dataclass(frozen=True, slots=True)
class ContextScaling:
    """YaRN scaling of one model family for windows beyond its native one."""

    original_tokens: int
    """Window that the factor multiplies [tokens]."""
    max_factor: float
    """Largest factor that the publisher states."""
    engines: tuple[str, ...]
    """Engines whose option is known to open the window."""
    nested: str
    """Key of the configuration below which the values stand; empty at its top."""
    parameters: Mapping[str, Any]
    """Further values of the configuration that the option must repeat."""
    source: str


@functools.cache
def _scalings() -> Mapping[tuple[str, int], ContextScaling]:
    columns = ("family", "native", "original", "factor", "engines", "nested", "parameters", "source")
    titles = sources_of("context_scaling")
    return {
        (cells["family"], int(cells["native"])): ContextScaling(
            int(cells["original"]),
            float(cells["factor"]),
            tuple(cells["engines"].split()),
            cells["nested"],
            json.loads(cells["parameters"]),
            titles[cells["source"]],
        )
        for _, cells in read_csv(SUPPORT_FOLDER / "context_scaling.csv", columns)
    }


def scaling_of(model: Model, tokens: int) -> ContextScaling | None:
    """Return the scaling that a window of `tokens` needs; None within the native window, or if none is known."""
    native = context_limits(model).native
    return _scalings().get((model.family, native)) if native and tokens > native else None


def can_open(engine: Engine, model: Model, tokens: float) -> bool:
    """Whether an engine can serve requests of `tokens`: within the native window, or by an option that is known."""
    native = context_limits(model).native
    if not native or tokens <= native:
        return True
    scaling = scaling_of(model, math.ceil(tokens))
    return scaling is not None and engine.id in scaling.engines and bool(engine.flags.context_scaling)


def scaling_words(engine: Engine, model: Model, tokens: int, release: str = "") -> tuple[str, ...]:
    """Return the words that open a window of `tokens`; none within the native window or without a known option.

    `release` is that of the engine; empty for the one whose options are known.

    The factor is the smallest whole one that reaches `tokens`: a larger one lowers the quality of short prompts.

    Source: data/support/context_scaling.csv.
    """
    scaling = scaling_of(model, tokens)
    if scaling is None or not can_open(engine, model, tokens):
        return ()
    factor = min(float(math.ceil(tokens / scaling.original_tokens)), scaling.max_factor)
    values = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": scaling.original_tokens,
        **scaling.parameters,
    }
    key = engine.flags.context_scaling_key
    window = math.ceil(factor * scaling.original_tokens) if engine.flags.scales_by_positions else tokens
    changed: dict[str, Any] = {key: values, "max_position_embeddings": window}
    until = engine.flags.rope_scaling_until
    if release and until and version_key(release) < version_key(until):
        changed = {"rope_theta": values.pop("rope_theta", None), "rope_scaling": values}
    whole = {scaling.nested: changed} if scaling.nested else changed
    filled = {"factor": f"{factor:g}", "original": scaling.original_tokens, "json": json.dumps(whole)}
    return tuple(Template(word).substitute(filled) for word in shlex.split(engine.flags.context_scaling))
