"""Models that carry a load: the answer of `advisor recommend` to a number of users or a rate without a model."""

from dataclasses import dataclass, replace
from typing import Final

from advisor.ask.acts import option_of
from advisor.ask.options import SharedOptions
from advisor.ask.serving import serving_question
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.model_quality import Quality, sources_of
from advisor.cli.notes import progress
from advisor.commands.recommend.fitting import question_without_model
from advisor.commands.recommend.options import RecommendInput
from advisor.decide.models_that_fit import machines_within, models_by_quality
from advisor.decide.option import Option
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Scenario
from advisor.render.answer import Answer, Paragraph, bullet_list
from advisor.render.numbers import LEGEND, MISSING, percent, usd
from advisor.render.option_table import (
    PER_HOUR,
    PRICE,
    TAKE,
    OptionColumn,
    latency_columns,
    runs_of,
    table_of,
)

_MOST_TRIED: Final = 3
"""Models that are asked about for each one that is shown, at most: each takes as long as a recommendation."""
_OF_ONE_MODEL: Final = ("emit", "emit_dir", "plan", "explain", "max_context", "goal", "trace", "levers")
"""Options that say something only about one named model."""


@dataclass(frozen=True, slots=True)
class ModelForLoad:
    """One model with the first option of its own recommendation."""

    model: str
    """Id in the catalog."""
    quality: Quality | None
    """Published score; None if the catalog has no sourced one."""
    option: Option


def models_for_load(asked: RecommendInput, shared: SharedOptions) -> Answer:
    """Return the models that carry a load within the objectives, by published quality, each with what it costs.

    A row is the first option of `advisor recommend --model` with the same options.

    Raises: AdvisorError and its kinds: something typed is malformed or needs a model, or no model carries the load.
    """
    for name in _OF_ONE_MODEL:
        if name in shared.given:
            option = option_of(name)
            raise AdvisorError(
                f"{option} needs a model",
                why="without --model the answer compares models",
                fix=f"--model NAME, or no {option}",
            )
    scenario, notes = question_without_model(asked, shared)
    found = _find(asked, shared, scenario)
    if not found:
        raise InfeasibleError(
            "no model of the catalog carries this load within the objectives and limits",
            why=f"the first {_MOST_TRIED * asked.shown.top} models by quality that fit were tried",
            fix="a larger --budget, looser objectives, or --model NAME to see why one does not",
        )
    options = [one.option for one in found]
    shown = {id(one.option): one for one in found}
    columns = (
        OptionColumn("model", lambda option: shown[id(option)].model),
        OptionColumn("quality>", lambda option: _score_words(shown[id(option)])),
        TAKE,
        OptionColumn("runs~", runs_of),
        PER_HOUR,
        OptionColumn("$/Mtok>?", lambda option: usd(option.served.usd_per_million_tokens.value)),
        *latency_columns(scenario.objectives.levels),
        PRICE,
        OptionColumn("answers?", lambda option: _setting_words(shown[id(option)])),
        OptionColumn("basis?", lambda option: option.served.basis),
    )
    return Answer(
        result={"models": [_record(one) for one in found]},
        inputs={"traffic": scenario.traffic, "objectives": scenario.objectives, "top": asked.shown.top},
        blocks=(
            Paragraph(_headline(found), emphasis=True),
            table_of(options, columns, "Models that carry the load, by published quality"),
            Paragraph(
                "Each row is the first option of `advisor recommend --model` with the same options. Models without a "
                f"sourced score follow those with one, the newest first.\n{LEGEND}"
            ),
            bullet_list("Sources of quality", sources_of(one.quality for one in found)),
        ),
        records="models",
        notes=notes,
    )


def _find(asked: RecommendInput, shared: SharedOptions, scenario: Scenario) -> list[ModelForLoad]:
    """Return the models that carry the load, the best first."""
    most = asked.shown.top
    kept = list[ModelForLoad]()
    with progress(quiet=shared.quiet) as line:
        for one in models_by_quality(scenario, machines_within(scenario))[: _MOST_TRIED * most]:
            line(f"{len(kept)} of {most} models found, asking about {one.model.id}")
            question, _ = serving_question(replace(asked, model=one.model.id), shared)
            try:
                decision = recommend(question.model_copy(update={"top": 1}), whole=False, suggests=False)
            except InfeasibleError:
                continue
            kept.append(ModelForLoad(one.model.id, one.quality, decision.options[0]))
            if len(kept) == most:
                break
    return kept


def _headline(found: list[ModelForLoad]) -> str:
    """Return the best model and the cheapest one, as a sentence."""
    first = found[0]
    cheapest = min(found, key=lambda one: one.option.bill.usd_per_hour)
    said = (
        f"{first.model} has the highest published quality and costs {usd(first.option.bill.usd_per_hour)}/h"
    )
    if cheapest is first:
        return f"{said}, the least of {len(found)} models"
    return f"{said}; {cheapest.model} costs least, {usd(cheapest.option.bill.usd_per_hour)}/h"


def _record(found: ModelForLoad) -> dict[str, object]:
    """Return one model as a record for scripts."""
    quality = None if found.quality is None else found.quality._asdict()
    return {"model": found.model, "quality": quality, "option": found.option}


def _score_words(found: ModelForLoad) -> str:
    return percent(found.quality.score_percent / 100.0) if found.quality else "unknown"


def _setting_words(found: ModelForLoad) -> str:
    """Return how the model answered where its score was measured: directly, or after reasoning."""
    return found.quality.setting if found.quality else MISSING
