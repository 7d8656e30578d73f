"""Choice of the module that answers a recommendation: each kind of work loads only the code that it needs."""

from dataclasses import replace

from advisor.ask.acts import TRAINING, refuse_idle
from advisor.ask.options import SharedOptions
from advisor.commands.recommend.options import RecommendInput, ReplayInput, WatchInput
from advisor.render.answer import Answer


def recommend(asked: RecommendInput, shared: SharedOptions) -> Answer:
    """Return the answer to what was typed after `advisor recommend`.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or nothing satisfies it.
    """
    is_serving = asked.workload == "serve"
    refuse_idle(asked, shared.given)
    if asked.workload in TRAINING or (is_serving and asked.training.from_plan is not None):
        from advisor.commands.recommend.training_run import answer_typed_training

        return answer_typed_training(asked, shared)
    if asked.workload == "distill":
        from advisor.commands.recommend.distillation import answer_distillation

        return answer_distillation(asked, shared)
    if not is_serving:
        from advisor.commands.recommend.other_work import other_work

        return other_work(asked, shared)
    if asked.models is not None:
        from advisor.commands.recommend.models_answer import several

        return several(asked, asked.models, shared)
    has_limit = asked.where.own is not None or asked.objectives.budget is not None
    has_need = asked.need.users is not None or asked.need.use_case is not None
    if asked.model is None and (has_limit or has_need):
        load = (asked.need.users, asked.load.rate, asked.load.concurrency)
        if any(each is not None for each in load):
            from advisor.commands.recommend.models_for_load import models_for_load

            return models_for_load(asked, shared)
        from advisor.commands.recommend.fitting import fitting

        return fitting(asked, shared)
    from advisor.ask.scenario import has_levels
    from advisor.ask.serving import serving_question
    from advisor.commands.recommend.serving import answer_scenario, goal_answer_of

    scenario, notes = serving_question(asked, shared)
    goal = asked.objectives.goal
    if goal is not None:
        return goal_answer_of(goal, scenario, notes, asked.shown, shared)
    usual = asked.where.own is not None and asked.need.use_case is None and not has_levels(asked.objectives)
    answer = answer_scenario(scenario, notes, asked.shown, shared, asked.emission, limits_are_usual=usual)
    if not asked.what_if:
        return answer
    from advisor.commands.recommend.what_if import with_what_if

    return with_what_if(answer, scenario, shared)


def replay(asked: ReplayInput, shared: SharedOptions) -> Answer:
    """Ask the question of a plan file again, with a warning for what differs now.

    Raises: InputFileError: the file is no plan. AdvisorError: nothing satisfies the question any more.
    """
    from advisor.commands.recommend.plan_file import differences, read_plan
    from advisor.commands.recommend.serving import answer_scenario
    from advisor.commands.recommend.training_run import answer_training
    from advisor.decide.scenario import Scenario

    scenario, content = read_plan(asked.file)
    if isinstance(scenario, Scenario):
        answer = answer_scenario(scenario, (), asked.shown, shared, whole=True)
    else:
        answer = answer_training(scenario, (), asked.shown, shared)
    changed = differences(content, answer, scenario)
    same = () if changed else (f"the same answer as in {asked.file}",)
    return replace(
        answer,
        inputs={**answer.inputs, "as_of": scenario.as_of},
        notes=(*answer.notes, *same),
        warnings=(*answer.warnings, *changed),
        seed=scenario.seed,
    )


def watch(asked: WatchInput, shared: SharedOptions) -> Answer:
    """Ask the questions of plan files again at today's prices, with a verdict on the option that was taken.

    Raises: AdvisorError: --since is no day, or the price file is malformed.
    """
    from advisor.ask.measures import parse_day
    from advisor.cli.notes import tell
    from advisor.commands.recommend.watch import watch_plan
    from advisor.commands.recommend.watch_view import watch_answer

    if asked.since not in (None, "plan"):
        parse_day(asked.since, "--since")
    plans = [
        watch_plan(path, asked.option, asked.threshold, asked.price_file, asked.since, shared)
        for path in dict.fromkeys(asked.files)
    ]
    # A plan that cannot be read is an error although the others are answered, and errors are told even with --quiet.
    for plan in plans:
        if "unreadable" in plan.findings:
            tell(f"error: {plan.reason}")
            tell(f"  To fix: {plan.fix}")
    inputs = {name: getattr(asked, name) for name in ("files", "option", "threshold", "since", "price_file")}
    return watch_answer(plans, inputs, asked.threshold)
