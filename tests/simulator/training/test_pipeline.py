"""Pipeline schedules: closed forms for equal stages, laws for unequal ones, what each refuses."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog.errors import AdvisorError
from advisor.simulator.training.pipeline import (
    ChunkTimes,
    bubbles_s,
    run_schedule,
)
from advisor.simulator.training.plan import SCHEDULES, Schedule
from advisor.simulator.training.schedule_orders import Kind, ScheduleOrder, order_of

SHAPES = [(4, 8), (8, 32), (16, 64)]


def positions(schedule: Schedule, stages: int, virtual: int) -> int:
    return order_of(schedule, stages, 4 * stages, virtual).num_positions


def equal_run(schedule: Schedule, stages: int, micro: int, virtual: int = 1, send_s: float = 0.0):  # type: ignore[no-untyped-def]
    chunks = positions(schedule, stages, virtual)
    share = stages / chunks
    times = ChunkTimes.equal(chunks, share, share, share, send_s)
    return run_schedule(schedule, stages, micro, times, virtual_stages=virtual)


def least_possible_s(times: ChunkTimes, order: ScheduleOrder) -> float:
    """A time that no order can beat: one micro-batch down and up, or all work of the busiest stage."""
    chain = sum(times.forward_s) + sum(times.input_s) + times.weight_s[0]
    hops = sum(order.stage_of(0, p) != order.stage_of(0, p + 1) for p in range(order.num_positions - 1))
    work = [sum(times.of(step) for slot in slots for step in slot) for slots in order.stages]
    return max(chain + 2 * hops * times.send_s, *work)


@pytest.mark.parametrize(("stages", "micro"), SHAPES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("virtual", [2, 4])
def test_equal_stages_have_the_published_bubble(
    schedule: Schedule, stages: int, micro: int, virtual: int
) -> None:
    virtual = virtual if schedule == "interleaved" else 1
    run = equal_run(schedule, stages, micro, virtual)
    counts = (np.array([value]) for value in (SCHEDULES.index(schedule), stages, virtual))
    expected = bubbles_s(*counts, *(np.array([1.0]) for _ in range(3)))
    assert run.bubble_s == pytest.approx(float(expected[0]))


def test_question_24() -> None:
    assert equal_run("1f1b", 8, 32).bubble_fraction == pytest.approx(0.179, abs=5e-4)
    assert equal_run("interleaved", 8, 32, 4).bubble_fraction == pytest.approx(0.052, abs=5e-4)
    zbv = equal_run("zbv", 8, 32)
    assert zbv.period_s == pytest.approx(3 * 32)
    assert zbv.bubble_fraction == pytest.approx(0.035, abs=5e-4)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("gpipe", (16.0,) * 4),
        ("1f1b", (4.0, 3.0, 2.0, 1.0)),
        ("interleaved", (5.5, 4.5, 3.5, 2.5)),
        ("zb_h1", (4.0,) * 4),
        ("zbv", (4.0,) * 4),
        ("dualpipe", (5.0,) * 4),
    ],
)
def test_activations_in_flight(schedule: Schedule, expected: tuple[float, ...]) -> None:
    assert equal_run(schedule, 4, 16, 2 if schedule == "interleaved" else 1).max_in_flight == expected


@given(
    schedule=st.sampled_from(SCHEDULES),
    stages=st.sampled_from([2, 4, 6]),
    rounds=st.integers(2, 4),
    seconds=st.lists(st.floats(0.1, 3.0), min_size=36, max_size=36),
    send_s=st.floats(0.0, 0.5),
)
@settings(max_examples=60, deadline=None)
def test_every_pass_runs_once_after_what_it_needs(
    schedule: Schedule, stages: int, rounds: int, seconds: list[float], send_s: float
) -> None:
    virtual = 2 if schedule == "interleaved" else 1
    chunks = positions(schedule, stages, virtual)
    micro = stages * rounds
    times = ChunkTimes(
        tuple(seconds[:chunks]), tuple(seconds[12 : 12 + chunks]), tuple(seconds[24 : 24 + chunks]), send_s
    )
    run = run_schedule(schedule, stages, micro, times, virtual_stages=virtual)
    forward = {}
    gradient = {}
    weights = {}
    for stage in run.slots:
        assert all(a.end_at_s <= b.start_at_s for a, b in itertools.pairwise(stage))
        for slot in stage:
            for step in slot.passes:
                key = (step.micro_batch, step.position)
                if step.kind is Kind.FORWARD:
                    assert key not in forward
                    forward[key] = slot
                if step.kind in (Kind.BACKWARD, Kind.INPUT):
                    assert key not in gradient
                    gradient[key] = slot
                if step.kind in (Kind.BACKWARD, Kind.WEIGHT):
                    assert key not in weights
                    weights[key] = slot
    assert len(forward) == len(gradient) == len(weights) == micro * chunks
    for (m, position), slot in forward.items():
        if position:
            assert slot.start_at_s >= forward[m, position - 1].end_at_s
    for (m, position), slot in gradient.items():
        assert slot.start_at_s >= forward[m, position].end_at_s
        if position + 1 < chunks:
            assert slot.start_at_s >= gradient[m, position + 1].end_at_s
    for key, slot in weights.items():
        assert slot is gradient[key] or slot.start_at_s >= gradient[key].end_at_s
    floor = least_possible_s(times, order_of(schedule, stages, micro, virtual))
    assert run.makespan_s >= floor * (1 - 1e-9)


@given(stages=st.sampled_from([2, 4, 8]), factor=st.floats(0.1, 10), send_s=st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_time_scales_and_slower_sends_are_never_faster(stages: int, factor: float, send_s: float) -> None:
    for schedule in SCHEDULES:
        virtual = 2 if schedule == "interleaved" else 1
        chunks = positions(schedule, stages, virtual)
        plain = ChunkTimes.equal(chunks, 1.0, 1.2, 0.9, send_s)
        scaled = ChunkTimes.equal(chunks, factor, 1.2 * factor, 0.9 * factor, send_s * factor)
        free = ChunkTimes.equal(chunks, 1.0, 1.2, 0.9)
        spans = [
            run_schedule(schedule, stages, 4 * stages, times, virtual_stages=virtual).makespan_s
            for times in (plain, scaled, free)
        ]
        assert spans[1] == pytest.approx(factor * spans[0])
        assert spans[2] <= spans[0] * (1 + 1e-9)


def test_one_stage_has_no_bubble() -> None:
    for schedule in ("gpipe", "1f1b", "interleaved", "zb_h1", "zbv"):
        assert equal_run(schedule, 1, 5, 3 if schedule == "interleaved" else 1).bubble_s == pytest.approx(0.0)


def test_few_micro_batches_still_run() -> None:
    for schedule in ("gpipe", "1f1b", "zb_h1", "zbv"):
        assert equal_run(schedule, 8, 3).makespan_s > 9.0


@pytest.mark.parametrize(
    ("schedule", "stages", "micro"),
    [("interleaved", 4, 6), ("dualpipe", 3, 12), ("dualpipe", 4, 6), ("1f1b", 0, 4)],
)
def test_impossible_pipelines_are_refused_with_a_way_out(schedule: Schedule, stages: int, micro: int) -> None:
    with pytest.raises(AdvisorError) as error:
        order_of(schedule, stages, micro, 2)
    assert error.value.fix


def test_times_must_match_the_chunks() -> None:
    with pytest.raises(ValueError, match="chunk times"):
        run_schedule("zbv", 4, 8, ChunkTimes.equal(4, 1, 1, 1))
