"""`--models`: several models, each with its load and objectives: `8b@20,70b@2:profile=rag:tpot-p99=50ms`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from advisor.ask.levers import beside_of, with_levers
from advisor.ask.measures import parse_tokens
from advisor.ask.names import names_of
from advisor.ask.options import ExtraOptions, Levers, LoadOptions, ObjectiveOptions, SharedOptions, Where
from advisor.ask.scenario import scenario_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import near_misses
from advisor.decide.scenario import Scenario
from advisor.decide.several.sizing import MOST_MODELS

EXAMPLE: Final = "--models 8b@20,70b@2:profile=rag"
_SHARED_BY: Final = "its parts are of one model"
_ONE_LIMIT: Final = "models on one machine would share its limit"


def _tokens(text: str) -> int:
    return parse_tokens(text, "--models")


_LOAD: Final[Mapping[str, Callable[[str], Any]]] = {
    "input-tokens": _tokens,
    "output-tokens": _tokens,
    "profile": str,
    "trace": Path,
    "shared-prefix-tokens": _tokens,
    "shared-prefixes": _tokens,
}
_OBJECTIVES: Final = (
    "ttft-p99",
    "tpot-p99",
    "ttft-p95",
    "ttft-p50",
    "tpot-p95",
    "tpot-p50",
    "itl-p99",
    "e2e-p99",
)
_WHERE: Final = ("precision", "kv-precision", "engine")


def scenarios_of(
    text: str,
    objectives: ObjectiveOptions,
    where: Where,
    levers: Levers,
    beside: ExtraOptions,
    top: int,
    shared: SharedOptions,
) -> tuple[tuple[Scenario, ...], tuple[str, ...]]:
    """Return a question for each model, what is said for all of them included, and notes on what was understood.

    Raises: AdvisorError and its kinds: something typed is malformed, unknown or out of range, a model comes twice or
        has no rate.
    """
    found: dict[str, Scenario] = {}
    notes: list[str] = []
    for part in names_of(text, "--models"):
        name, load, own, limits = _parse_part(part, replace(objectives, budget=None), where)
        scenario, more = scenario_of(name, load, own, limits, top, shared)
        if scenario.model in found:
            raise AdvisorError(
                f"--models names {scenario.model} twice",
                why="its replicas would be one deployment",
                fix=f"once, with the sum of both rates: {name}@RATE",
            )
        if scenario.traffic.rate_per_s is None:
            raise AdvisorError(
                f"--models {part}: {name} has no rate",
                why="how many replicas it needs depends on it",
                fix=f"{name}@10 for 10 requests/s",
            )
        scenario = with_levers(scenario, levers, parts=_SHARED_BY, no_limit=_ONE_LIMIT)
        found[scenario.model] = scenario.model_copy(update={"beside": beside_of(beside)})
        notes += more
    if not 2 <= len(found) <= MOST_MODELS:
        raise AdvisorError(
            f"--models is for 2 to {MOST_MODELS} models",
            fix=EXAMPLE if len(found) > 1 else f"--model {next(iter(found))} --rate R, or {EXAMPLE}",
        )
    return tuple(found.values()), tuple(dict.fromkeys(notes))


def _parse_part(
    part: str, objectives: ObjectiveOptions, where: Where
) -> tuple[str, LoadOptions, ObjectiveOptions, Where]:
    """Return a model, and its own load, objectives and limits.

    Raises: AdvisorError: a setting is not NAME=VALUE, or there is none of that name.
    """
    head, *settings = part.split(":")
    name, _, rate = head.partition("@")
    changed: dict[str, Any]
    load = LoadOptions(rate=rate or None)
    for setting in settings:
        key, equals, value = setting.partition("=")
        field = key.replace("-", "_")
        known = ("rate", *_LOAD, *_OBJECTIVES, *_WHERE)
        if not equals or not value or key not in known:
            near = near_misses(key, known, {})
            raise AdvisorError(
                f"--models {part}: {setting!r} is no setting of a model",
                why=f"settings are NAME=VALUE, of {', '.join(known)}",
                fix=f"{near[0]}=VALUE" if near and equals and key not in known else EXAMPLE,
            )
        changed = {field: _LOAD.get(key, str)(value)}
        if key in _OBJECTIVES:
            objectives = replace(objectives, **changed)
        elif key in _WHERE:
            where = replace(where, **changed)
        else:
            load = replace(load, **changed)
    return name, load, objectives, where
