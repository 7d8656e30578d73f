"""Answers of `advisor cost`: from typed options to the report."""

from advisor.ask.costs import cost_question
from advisor.ask.options import SharedOptions
from advisor.cli.notes import progress
from advisor.commands.cost.options import CostInput
from advisor.commands.cost.view import cost_answer
from advisor.commands.cost.what_if import check_what_if, with_what_if
from advisor.economics.report import priced_report
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration


def cost(asked: CostInput, shared: SharedOptions) -> Answer:
    """Return the report as an answer.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, a file is wrong, or nothing serves
        the model within the objectives.
    """
    question, notes = cost_question(asked, shared)
    if asked.what_if:
        check_what_if(question)
    with progress(quiet=shared.quiet) as line:
        priced = priced_report(question, progress=line)
        answer = cost_answer(priced.report, question, notes)
        if asked.what_if:
            answer = with_what_if(answer, question, priced, line)
    scenario = question.scenario
    return with_calibration(answer, scenario.calibration, scenario.constraints.accelerators)
