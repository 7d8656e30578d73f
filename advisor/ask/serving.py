"""A question about serving one model: its load or several loads, objectives, limits, levers and context windows."""

from advisor.ask.levers import beside_of, largest_of, with_contexts, with_ladder, with_levers
from advisor.ask.options import SharedOptions
from advisor.ask.scenario import needed_model, scenario_of
from advisor.ask.work import WorkQuestion
from advisor.decide.scenario import Scenario


def serving_question(asked: WorkQuestion, shared: SharedOptions) -> tuple[Scenario, tuple[str, ...]]:
    """Return the whole question about serving a model, and notes on what was understood.

    Raises: AdvisorError and its kinds: something typed is malformed, unknown, out of range or contradictory.
    """
    load, ladder = largest_of(asked.load)
    scenario, notes = scenario_of(
        needed_model(asked.model),
        load,
        asked.objectives,
        asked.where,
        asked.shown.top,
        shared,
        ladder=asked.objectives.goal is None,
    )
    told = {"screened_only": asked.fast, "beside": beside_of(asked.beside)}
    scenario = with_ladder(scenario, ladder, asked.where.max_context).model_copy(update=told)
    scenario, more = with_contexts(with_levers(scenario, asked.levers), asked.where.max_context)
    return scenario, (*notes, *more)
