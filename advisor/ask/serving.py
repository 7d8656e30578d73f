"""A question about serving one model: its load or several loads, objectives, limits, levers and context windows."""

from advisor.ask.levers import beside_of, largest_of, with_contexts, with_ladder, with_levers
from advisor.ask.measures import parse_length_dist
from advisor.ask.need import stated_need
from advisor.ask.options import SharedOptions
from advisor.ask.scenario import needed_model, scenario_of
from advisor.ask.work import WorkQuestion
from advisor.catalog.errors import AdvisorError
from advisor.decide.scenario import Scenario


def serving_question(asked: WorkQuestion, shared: SharedOptions) -> tuple[Scenario, tuple[str, ...]]:
    """Return the whole question about serving a model, and notes on what was understood.

    Raises: AdvisorError and its kinds: something typed is malformed, unknown, out of range or contradictory.
    """
    typed, levels, needed = stated_need(asked.need, asked.load, asked.objectives)
    load, ladder = largest_of(typed)
    if parse_length_dist(load.length_dist)[0] == "uniform":
        raise AdvisorError(
            f"--length-dist {load.length_dist} is drawn by simulations alone",
            why="a recommendation draws lengths that are alike or lognormal",
            fix="--length-dist fixed, or advisor simulate serve",
        )
    scenario, notes = scenario_of(
        needed_model(asked.model),
        load,
        levels,
        asked.where,
        asked.shown.top,
        shared,
        ladder=asked.objectives.goal is None,
    )
    if load.trace is not None:
        from advisor.simulator.serving.trace_files import read_trace

        needed = (*needed, *read_trace(load.trace).notes)
    told = {"screened_only": asked.fast, "beside": beside_of(asked.beside)}
    scenario = with_ladder(scenario, ladder, asked.where.max_context).model_copy(update=told)
    scenario, more = with_contexts(with_levers(scenario, asked.levers), asked.where.max_context)
    return scenario, (*needed, *notes, *more)
