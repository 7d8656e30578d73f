"""Models that carry a load: the answer of `advisor recommend` to a number of users or a rate without a model."""

import functools
from collections.abc import Callable, Sequence
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
from advisor.decide.models_that_fit import FittingModel, machines_within, models_by_quality
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
from advisor.simulator.graph.model import parameter_count

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
    found, are_faster = _find(asked, shared, scenario)
    if are_faster:
        notes = (
            *notes,
            f"the {_MOST_TRIED * asked.shown.top} models of highest quality that fit do not carry the load: "
            "the best of those that compute less for a token are shown",
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
        OptionColumn("basis!", lambda option: option.served.basis),
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


def _find(
    asked: RecommendInput, shared: SharedOptions, scenario: Scenario
) -> tuple[list[ModelForLoad], bool]:
    """Return the models that carry the load, the best first, and whether none of high quality is among them.

    Where none of high quality carries it, the slowest model that does is looked for by halves, and the best are asked
    about that compute no more for a token.

    Raises: InfeasibleError: not even the fastest carries it; says what that one lacks.
    """
    most = asked.shown.top
    fitting = models_by_quality(scenario, machines_within(scenario))
    best = fitting[: _MOST_TRIED * most]
    with progress(quiet=shared.quiet) as line:
        kept = _carrying(best, most, asked, shared, line)
        if kept or not fitting:
            return kept, False
        by_speed = sorted(fitting, key=_active)
        carries = functools.cache(
            lambda place: bool(_carrying(by_speed[place : place + 1], 1, asked, shared, line))
        )
        if not carries(0):
            raise _refusal(by_speed[0].model.id, asked, shared)
        fewest = 0
        most_active = len(by_speed)
        while most_active - fewest > 1:
            middle = (fewest + most_active) // 2
            fewest, most_active = (middle, most_active) if carries(middle) else (fewest, middle)
        tried = {one.model.id for one in best}
        able = [
            one for one in fitting if _active(one) <= _active(by_speed[fewest]) and one.model.id not in tried
        ]
        return _carrying(able[: _MOST_TRIED * most], most, asked, shared, line), True


def _active(fitting: FittingModel) -> float:
    """Number of parameters that compute one token, on which its time depends most."""
    return parameter_count(fitting.model).active


def _carrying(
    fitting: Sequence[FittingModel],
    most: int,
    asked: RecommendInput,
    shared: SharedOptions,
    line: Callable[[str], None],
) -> list[ModelForLoad]:
    """Return up to `most` of some models that carry the load, in their order, each with its first option."""
    kept = list[ModelForLoad]()
    for one in fitting:
        line(f"{len(kept)} of {most} models found, asking about {one.model.id}")
        try:
            question, _ = serving_question(replace(asked, model=one.model.id), shared)
            decision = recommend(question.model_copy(update={"top": 1}), whole=False, suggests=False)
        except AdvisorError:  # it does not carry the load, or is of a kind that is not priced by the token
            continue
        kept.append(ModelForLoad(one.model.id, one.quality, decision.options[0]))
        if len(kept) == most:
            break
    return kept


def _refusal(model: str, asked: RecommendInput, shared: SharedOptions) -> InfeasibleError:
    """Return the refusal of a load that no model carries: what the fastest one lacks, and what would do for it."""
    question, _ = serving_question(replace(asked, model=model), shared)
    lacks = InfeasibleError("", fix=f"--model {model}")
    try:
        recommend(question.model_copy(update={"top": 1}), whole=False)
    except InfeasibleError as error:
        lacks = error
    return InfeasibleError(
        "no model of the catalog carries this load within the objectives and limits",
        why=f"neither those of highest quality nor {model}, which computes least for a token: {lacks.what}",
        fix=lacks.fix,
        hint=lacks.hint,
    )


def _headline(found: list[ModelForLoad]) -> str:
    """Return the best model and the cheapest one, as a sentence."""
    first = found[0]
    cheapest = min(found, key=lambda one: one.option.bill.usd_per_hour)
    place = (
        "has the highest published quality" if first.quality else "is the newest, none has a published score,"
    )
    said = f"{first.model} {place} and costs {usd(first.option.bill.usd_per_hour)}/h"
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
