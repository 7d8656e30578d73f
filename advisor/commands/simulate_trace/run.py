"""Describe a recorded trace in a few numbers."""

from advisor.ask.measures import positive
from advisor.ask.options import SharedOptions
from advisor.commands.simulate_trace.options import TraceInput
from advisor.commands.simulate_trace.view import trace_answer
from advisor.render.answer import Answer
from advisor.simulator.serving.trace_files import read_trace
from advisor.simulator.serving.trace_replay import fit_trace


def trace(asked: TraceInput, shared: SharedOptions) -> Answer:
    """Return the fit of a trace.

    Raises: AdvisorError: the speed is not positive. InputFileError: the trace is malformed.
    """
    recorded = read_trace(asked.file).sped_up(positive(asked.speed, "--speed", example="2"))
    return trace_answer(
        fit_trace(recorded), asked.file, asked.speed, recorded.notes, has_times=recorded.has_times
    )
