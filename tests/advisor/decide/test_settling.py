"""What the search's own error may not decide: engines with the same bill, a replica more or fewer, the last places."""

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from advisor.cli.options import Load
from advisor.cli.traffic_input import traffic_of
from advisor.decide import capacity, ranking, settling
from advisor.decide.purchase import Demand, demands_of
from advisor.decide.ranking import Planned, is_tie, planned, preferred
from advisor.decide.recommend import searched
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic
from advisor.decide.screening import Found, Searched
from advisor.decide.settling import Settled, confirmed, leading

RATE_PER_S = 120.0


@pytest.fixture(autouse=True, scope="module")
def quick() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capacity, "ESTIMATE_REQUESTS", 150)
        yield


@pytest.fixture(scope="module")
def done(quick: None) -> Searched:
    traffic = Traffic(
        mean_input_tokens=300,
        mean_output_tokens=50,
        input_sigma=0.4,
        output_sigma=0.4,
        rate_per_s=RATE_PER_S,
    )
    limits = Constraints(accelerators=("l4", "l40s", "h100-sxm"))
    return searched(
        Scenario(
            model="llama-3.1-8b",
            traffic=traffic,
            constraints=limits,
            as_of=datetime.date(2026, 11, 20),
            top=3,
        )
    )


def plan_of(done: Searched, found: Found) -> Planned:
    return planned(done.scenario, Demand("rate", RATE_PER_S), found)


@pytest.fixture
def plans(done: Searched) -> list[Planned]:
    """The best of each accelerator, cheapest first."""
    return [plan_of(done, options[0]) for options in done.ranked(3)]


def carrying(done: Searched, plan: Planned, num_replicas: float) -> Planned:
    """The plan as if so many of its replicas just carried the load, headroom included."""
    load = RATE_PER_S / num_replicas / (1.0 - done.scenario.headroom_fraction)
    able = replace(plan.found.capacity, load=load, requests_per_s=load)
    bought = settling._with_capacity(done.scenario, plan, able)
    assert bought is not None
    return bought


def with_engine(plan: Planned, engine: str, expected_cost: float) -> Planned:
    candidate = plan.found.candidate
    other = candidate.deployment.engine.model_copy(update={"id": engine})
    deployment = replace(candidate.deployment, engine=other)
    found = replace(plan.found, candidate=replace(candidate, deployment=deployment))
    return replace(plan, found=found, expected_cost=expected_cost)


def test_of_engines_with_one_bill_the_seed_does_not_choose(plans: list[Planned]) -> None:
    first = plans[0]
    ours, others = with_engine(first, "sglang", 1.0), with_engine(first, "vllm", 1.01)
    chosen = preferred([ours, others]).found.candidate.deployment.engine.id
    swapped = [replace(ours, expected_cost=1.01), replace(others, expected_cost=1.0)]
    assert preferred(swapped).found.candidate.deployment.engine.id == chosen
    assert is_tie(ours, others)
    # A smaller bill is no matter of the seed.
    bill = replace(first.found.purchase, cost=0.5 * first.found.purchase.cost)
    cheap = replace(ours, found=replace(ours.found, purchases=(bill,)), expected_cost=0.5)
    assert preferred([others, cheap]) is cheap


def test_what_the_search_kept_out_by_its_error_is_settled_too(
    done: Searched, plans: list[Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def better(of: str) -> Callable[..., Planned]:
        def settle(scenario: Scenario, plan: Planned, known: Settled) -> Planned:
            asked.append(plan.found.accelerator_id)
            return replace(plan, expected_cost=0.01) if plan.found.accelerator_id == of else plan

        return settle

    first, second, third = (
        replace(carrying(done, plan, 2.0), expected_cost=cost)
        for plan, cost in zip(plans, (1.0, 2.0, 2.1), strict=True)
    )
    near = carrying(done, third, 1.9)  # one replica more than it would need with a tenth more capacity
    monkeypatch.setattr(settling, "confirmed", better(third.found.accelerator_id))
    best = leading(done.scenario, [first, second, near], Settled(), 2)
    assert third.found.accelerator_id in asked
    assert len(best) == 2
    assert third.found.accelerator_id in {plan.found.accelerator_id for plan in best}
    asked.clear()
    ladder = done.scenario.model_copy(update={"ladder_per_s": (1.0,)})
    leading(ladder, [first, second, near], Settled(), 2)
    assert third.found.accelerator_id not in asked


def test_longer_runs_decide_whether_one_replica_fewer_is_enough(
    done: Searched, plans: list[Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short runs say that two replicas nearly carry it: the load of two is run at length, and counts."""
    plan, lengths = plans[0], list[tuple[float, int]]()

    def held(holds: bool) -> Callable[..., Any]:
        def confirm(*_: Any, found: Any, least: float = 0.0, num_requests: int = 600, **__: Any) -> Any:
            lengths.append((found.load, num_requests))
            if num_requests == 600:
                return replace(found, load=0.96 * two, requests_per_s=0.96 * two)
            return found if holds else None

        return confirm

    two = carrying(done, plan, 2.0).found.capacity.load
    for holds, replicas in ((True, 2), (False, 3)):
        lengths.clear()
        monkeypatch.setattr(settling, "confirm", held(holds))
        monkeypatch.setattr(settling, "shown", lambda scenario, plan: plan)
        settled = confirmed(done.scenario, carrying(done, plan, 2.0), Settled())
        assert settled is not None
        assert settled.found.purchase.num_replicas == replicas
        assert lengths[-1] == (pytest.approx(two), 2400)


def test_what_is_settled_and_shown_once_is_not_run_again(
    done: Searched, plans: list[Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Settled()
    before = confirmed(done.scenario, plans[0], known)
    assert before is not None
    monkeypatch.setattr(settling, "planning_point", None)
    monkeypatch.setattr(settling, "confirm", None)
    again = confirmed(done.scenario, plans[0], known)
    assert again is not None
    assert (again.result, again.found.purchase) == (before.result, before.found.purchase)


@pytest.mark.parametrize("sessions", [None, 6.0])
def test_a_planning_point_rests_on_longer_runs_or_on_other_conversations(
    plans: list[Planned], monkeypatch: pytest.MonkeyPatch, sessions: float | None
) -> None:
    """Where percentiles stay uncertain: conversations last longer than a run, another seed brings other ones."""
    runs = list[tuple[int, int]]()
    whole = settling.run_at

    def run_at(replica: Any, traffic: Any, load: float, num_requests: int, seed: int, **more: Any) -> Any:
        runs.append((num_requests, seed))
        return whole(replica, traffic, load, num_requests, seed, **more)

    monkeypatch.setattr(settling, "run_at", run_at)
    monkeypatch.setattr(settling, "sampling_error", lambda *_: 1.0)
    traffic = traffic_of(Load(rate="5", input_tokens=100, output_tokens=20, sessions=sessions))
    replica = plans[0].found.replica
    shown = settling.planning_point(replica, traffic, Objectives(), 2.0, 0, spacing_s=0.0)
    lengths, seeds = ([run[place] for run in runs] for place in (0, 1))
    if sessions:
        assert set(lengths) == {1200}
        assert len(set(seeds)) == len(seeds) == 12
    else:
        assert lengths == [1200] * 3 + [2400] * 3 + [4800] * 3
        assert len(set(seeds)) == 3
    assert shown.num_requests == 14_400


def test_another_engine_of_the_same_accelerator_may_need_fewer(
    done: Searched, plans: list[Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = carrying(done, with_engine(plans[0], "vllm", 1.0), 3.0)
    other = carrying(done, with_engine(plans[0], "sglang", 1.0), 2.1)
    enough = carrying(done, other, 2.0)
    assert [plan.found.purchase.num_replicas for plan in (first, other, enough)] == [3, 3, 2]
    monkeypatch.setattr(
        settling, "confirmed", lambda scenario, plan, known: first if plan is first else enough
    )
    assert leading(done.scenario, [first, other], Settled(), 2) == [enough]
    hopeless = carrying(done, other, 2.9)
    assert leading(done.scenario, [first, hopeless], Settled(), 2) == [first]


def test_the_cheapest_safe_deployment_competes_whatever_its_accelerator_costs_elsewhere(
    done: Searched, plans: list[Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old price far below a firm one must not hide the latter behind dearer hardware."""
    safe = {2.0, 3.0, 4.0}
    costs = dict(
        zip([plan.found.accelerator_id for plan in plans], [(0.5, 2.0), (3.0,), (4.0,)], strict=True)
    )
    monkeypatch.setattr(Planned, "is_founded", property(lambda plan: plan.expected_cost in safe))
    monkeypatch.setattr(ranking, "overlap", lambda first, second: False)

    firsts = {name: options[:1] for name, options in done.outcome.found.items()}
    done = replace(done, outcome=replace(done.outcome, found=firsts))

    def bought(scenario: Scenario, demand: Demand, found: Found, place: int) -> list[Planned]:
        return [
            replace(plan, expected_cost=usd)
            for plan in plans
            if plan.found.candidate is found.candidate
            for usd in costs[found.accelerator_id]
        ]

    monkeypatch.setattr(settling, "plans_of", bought)
    order = settling._order(done, demands_of(done.scenario), 0, 3)
    assert [plan.expected_cost for plan in order[:3]] == [2.0, 3.0, 4.0]
