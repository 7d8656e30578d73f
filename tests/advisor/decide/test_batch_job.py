"""Batches with a deadline: done in time, at the least cost, spot included."""

import datetime

import pytest

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.launch_options import check_command
from advisor.decide.batch.purchase import kept_fraction
from advisor.decide.batch.recommend import recommend_batch, with_deadlines
from advisor.decide.batch.result import BatchJob
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic

DAY = datetime.date(2026, 11, 20)
HOUR = 3600.0
TRAFFIC = Traffic(
    profile="batch", mean_input_tokens=871, mean_output_tokens=82, input_sigma=0.42, output_sigma=0.37
)


def scenario(*terms: str, budget: float | None = None) -> Scenario:
    limits = Constraints(accelerators=("h100-sxm", "l40s", "h200-sxm"), terms=terms or ("on_demand",))
    return Scenario(
        model="llama-3.1-8b",
        traffic=TRAFFIC,
        constraints=limits,
        objectives=Objectives(budget_usd_per_hour=budget),
        as_of=DAY,
    )


def test_the_job_is_done_in_time_for_what_it_costs() -> None:
    job = BatchJob(1_000_000, 6 * HOUR)
    found = recommend_batch(scenario(), job)
    for option in found.options:
        assert option.batched.duration_s.value <= job.deadline_s
        assert option.job_usd.value == pytest.approx(
            option.bill.usd_per_hour * option.batched.duration_s.value / HOUR, rel=1e-9
        )
        served = option.batched.requests_per_s.value * option.batched.duration_s.value
        assert job.num_requests < served < 1.25 * job.num_requests  # the rest is starting up
        assert option.batched.usd_per_million_tokens.value == pytest.approx(
            option.job_usd.value / 953, rel=1e-6
        )
        check_command(option.replica_layout.engine, option.started.argv)
        assert str(option.replica_layout.max_num_seqs) in option.started.argv
    first, *others = (option.job_usd for option in found.options)
    assert [each.value for each in others] == sorted(each.value for each in others)
    assert first.value <= others[0].value or first.low <= others[0].high  # a safe one may head the list


def test_less_time_takes_more_machines_and_never_costs_less() -> None:
    slow, fast = (recommend_batch(scenario(), BatchJob(2_000_000, hours * HOUR)) for hours in (24, 1))
    assert fast.options[0].machine.num_accelerators > slow.options[0].machine.num_accelerators
    assert fast.options[0].job_usd.value >= 0.999 * slow.options[0].job_usd.value


def test_cost_is_about_linear_in_the_requests() -> None:
    answers = (recommend_batch(scenario(), BatchJob(n, 24 * HOUR)) for n in (10**6, 10**7))
    small, large = (min(each.job_usd.value for each in found.options) for found in answers)
    assert large == pytest.approx(10 * small, rel=0.1)


def test_spot_is_cheaper_although_machines_are_lost() -> None:
    job = BatchJob(1_000_000, 24 * HOUR)
    demand, spot = (
        recommend_batch(scenario(*terms), job).options[0] for terms in ((), ("on_demand", "spot"))
    )
    assert spot.offer.term == "spot"
    assert spot.job_usd.value < demand.job_usd.value
    assert kept_fraction("spot", 0.0, 300.0) == 1.0
    assert kept_fraction("spot", 24.0, 300.0) < kept_fraction("spot", 1.0, 300.0) < 1.0
    assert kept_fraction("on_demand", 24.0, 300.0) == 1.0


def test_what_cannot_be_done_in_time_is_told() -> None:
    with pytest.raises(InfeasibleError, match="nothing finishes") as caught:
        recommend_batch(scenario(), BatchJob(10, 60.0))  # shorter than starting a machine
    assert "--deadline" in caught.value.fix
    with pytest.raises(InfeasibleError):
        recommend_batch(scenario(budget=1.0), BatchJob(10**9, 1 * HOUR))


def test_the_same_seed_gives_the_same_answer() -> None:
    job = BatchJob(100_000, 24 * HOUR)
    assert recommend_batch(scenario(), job).options == recommend_batch(scenario(), job).options


def test_a_longer_deadline_never_costs_more() -> None:
    job = BatchJob(3_000_000, 24 * HOUR)
    asked = scenario()
    found = with_deadlines(
        recommend_batch(asked, job), asked, job, (100.0, HOUR, 6 * HOUR, 24 * HOUR, 168 * HOUR)
    )
    none, *rungs = found.ladder
    assert none.option is None  # machines start in two minutes and load weights
    picks = [rung.option for rung in rungs if rung.option]
    assert len(picks) == len(rungs)
    for rung, pick in zip(rungs, picks, strict=True):
        assert pick.batched.duration_s.value <= rung.deadline_s
    assert [pick.machine.num_accelerators for pick in picks] == sorted(
        (p.machine.num_accelerators for p in picks), reverse=True
    )
    assert picks[0].job_usd.value >= picks[-1].job_usd.value * 0.99
    assert picks[2] == found.options[0]


def test_a_commitment_is_paid_whole_also_by_a_short_job() -> None:
    asked = scenario("reserved_1y")
    option = recommend_batch(asked, BatchJob(100_000, 6 * HOUR)).options[0]
    assert option.job_usd.value == pytest.approx(option.bill.usd_per_hour * 8760)
    assert [line.usd for line in option.bill.lines] == pytest.approx([option.job_usd.value])
