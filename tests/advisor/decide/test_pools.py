"""Two pools in the search: bounds that hold, what is bought, that runs show it again, and what is refused."""

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from advisor.ask.options import LoadOptions
from advisor.ask.traffic import traffic_of
from advisor.catalog import accelerators, engines
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.launch_options import check_command
from advisor.decide.pools import PoolPair, agree, sides_of
from advisor.decide.purchase import Demand
from advisor.decide.ranking import Planned
from advisor.decide.recommend import recommend, search_scenario
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic
from advisor.decide.unlike_parts import Asked, Side, cheapest_cell, num_accelerators
from advisor.simulator.disaggregation import PoolPlan, join_pools
from advisor.simulator.serving import ClosedLoop, FixedLengths, Workload
from advisor.simulator.serving.disaggregated import simulate_disaggregated

Cli = Callable[[str], Any]
DAY = datetime.date(2026, 11, 20)
LONG = traffic_of(LoadOptions(rate="5", profile="rag"))
STEADY = Objectives(tpot_p99_s=0.04)
H100 = Constraints(accelerators=("h100-sxm",), engines=("vllm",), precisions=("fp8",))


def scenario_of(**more: Any) -> Scenario:
    known = {"traffic": LONG, "objectives": STEADY, "constraints": H100, "levers": ("pools",)}
    return Scenario(model="qwen3-32b", as_of=DAY, **(known | more))


@pytest.fixture(scope="module")
def plain() -> tuple[Scenario, Planned, Any]:
    scenario = scenario_of(levers=("none",))
    done = search_scenario(scenario)
    return scenario, done.race.entries(-1, 1)[0], done


def test_a_worker_carries_no_more_than_its_bound(plain: tuple[Scenario, Planned, Any]) -> None:
    scenario, plan, done = plain
    prompts, answers = sides_of(scenario, plan, done.accelerators, done.offers)
    assert prompts
    assert answers
    for first, second, counts, index in (
        (prompts[0], answers[-1], (1, 8), 0),
        (prompts[-1], answers[0], (8, 1), 1),
    ):
        pair = PoolPair(first, second)
        plans = [PoolPlan(side.candidate.deployment, n) for side, n in zip(pair.sides, counts, strict=True)]
        pools = join_pools(*plans, first.replica, second.replica)
        workload = Workload(ClosedLoop(200), FixedLengths(9429, 685), 400)
        result = simulate_disaggregated(pools.prefill, pools.decode, pools.link, workload)
        bound = pair.sides[index].rate_bound
        assert 0.2 * bound < result.requests_per_s <= bound


def test_one_machine_or_machines_of_one_seller_in_one_place(plain: tuple[Scenario, Planned, Any]) -> None:
    scenario, plan, done = plain
    prompts, answers = sides_of(scenario, plan, done.accelerators, done.offers)
    pair = PoolPair(prompts[0], answers[0])
    size = num_accelerators(pair, (1, 1)) // 2
    asked = Asked(scenario, Demand("rate", 5.0), done.offers)
    small = cheapest_cell(asked, pair, (1, 1))
    large = cheapest_cell(asked, pair, (16, 9))
    assert small is not None
    assert large is not None
    assert small.is_shared
    assert small.whole.accelerators_per_unit >= 2 * size
    assert not large.is_shared
    assert {way.price.provider for way in large.ways} == {large.whole.price.provider}
    bills = zip(large.ways, large.units, strict=True)
    assert large.usd_per_hour == pytest.approx(sum(n * way.usd_per_unit_hour for way, n in bills))
    spare = Asked(scenario.model_copy(update={"redundancy": "n+1"}), Demand("rate", 5.0), done.offers)
    more = cheapest_cell(spare, pair, (16, 9))
    assert more is not None
    assert more.whole.accelerators_per_unit > large.whole.accelerators_per_unit


def test_caches_are_understood_by_like_accelerators_and_where_an_engine_says_so(
    plain: tuple[Scenario, Planned, Any],
) -> None:
    scenario, plan, done = plain
    (first, *_), (second, *_) = sides_of(scenario, plan, done.accelerators, done.offers)

    def on(side: Side, gpu: str, engine: str = "vllm") -> Side:
        deployment = replace(
            side.candidate.deployment, accelerator=accelerators.by_id(gpu), engine=engines.by_id(engine)
        )
        return replace(side, candidate=replace(side.candidate, deployment=deployment))

    assert agree(first, second)
    assert agree(on(first, "h200-sxm"), second)
    assert not agree(on(first, "b200-sxm"), second)
    assert not agree(on(first, "h200-sxm", "sglang"), on(second, "h100-sxm", "sglang"))


@pytest.mark.slow
def test_pools_are_ranked_started_and_shown_again(cli: Cli) -> None:
    best, without = (recommend(scenario_of(levers=levers)).options[0] for levers in (("pools",), ("none",)))
    assert not without.parts
    prompts, answers = best.parts
    assert (prompts.role, answers.role) == ("prefill", "decode")
    assert best.bill.usd_per_hour <= 0.9 * without.bill.usd_per_hour
    assert best.bill.usd_per_hour == pytest.approx(
        prompts.bill.usd_per_hour + answers.bill.usd_per_hour, rel=1e-6
    )
    assert best.layout.num_replicas == prompts.layout.num_replicas + answers.layout.num_replicas
    for part, role in ((prompts, "kv_producer"), (answers, "kv_consumer")):
        check_command(part.layout.engine, part.started.argv)
        assert role in part.started.command
        assert part.started.argv[part.started.argv.index("--tensor-parallel-size") + 1] == str(
            part.layout.tensor_parallel
        )
    assert best.served.ttft_s["p99"].value <= 2.0
    assert best.served.tpot_s["p99"].value <= 0.04
    args = " ".join(best.started.simulate_args)
    again = json.loads(cli(f"advisor simulate serve {args} --json").out)
    shown = again["metrics"]
    assert shown["tpot_s"]["p99"]["value"] == pytest.approx(best.served.tpot_s["p99"].value, rel=1e-9)
    assert shown["ttft_s"]["p99"]["value"] <= 2.0
    assert shown["requests_per_s"]["value"] == pytest.approx(5.0, rel=0.1)


@pytest.mark.slow
def test_naming_the_seller_of_a_safe_pick_gives_no_cheaper_pools() -> None:
    """Pools of one make may be bought at an old price and at a firm one: the safe pick is the firm one."""
    asked = scenario_of(
        traffic=traffic_of(LoadOptions(rate="6", profile="rag")),
        objectives=Objectives(ttft_p99_s=2.0, tpot_p99_s=0.03),
        constraints=Constraints(accelerators=("h200-sxm",), engines=("vllm",)),
    )
    picked = recommend(asked).safe_pick
    assert picked is not None
    assert picked.offer is not None
    named = asked.with_limits(providers=(picked.offer.provider,))
    again = recommend(named).safe_pick
    assert again is not None
    assert picked.bill.usd_per_hour <= 1.01 * again.bill.usd_per_hour


@pytest.mark.slow
def test_pools_that_gain_nothing_are_noted() -> None:
    traffic = Traffic(mean_input_tokens=300, mean_output_tokens=300, rate_per_s=1.0)
    limits = Constraints(accelerators=("h100-sxm",), engines=("vllm",))
    found = recommend(
        Scenario(model="llama-3.1-8b", traffic=traffic, constraints=limits, as_of=DAY, levers=("pools",))
    )
    assert not found.options[0].parts
    assert any("no option is cheaper, or as cheap and faster, with pools" in note for note in found.notes)


def test_pools_where_no_engine_has_them_are_refused() -> None:
    limits = Constraints(accelerators=("l40s",))
    with pytest.raises(InfeasibleError, match="disaggregate prefill and decode") as lacking:
        recommend(scenario_of(constraints=limits))
    assert "--gpu h100-sxm --engine vllm" in (lacking.value.fix or "")
    other = Constraints(accelerators=("h100-sxm",), engines=("llama.cpp",))
    with pytest.raises(InfeasibleError, match="disaggregate prefill and decode") as lacking:
        recommend(scenario_of(constraints=other))
    assert lacking.value.fix in {f"--engine {name}" for name in ("sglang", "tensorrt-llm", "vllm")}


def test_pools_on_machines_that_may_lack_a_network_are_safe_only_if_they_are_asked_for(cli: Cli) -> None:
    asked = "advisor recommend --model llama-3.3-70b --rate 17.6 --gpu gh200-96gb --json"
    taken = json.loads(cli(asked).out)
    options = [taken["safe_pick"], *taken["options"], *taken["options"][0]["variants"]]
    pools = [each for each in options if each and each["parts"]]
    assert all(each["role"] != "safe_pick" for each in pools)
    assert all("unsure_network" in [reason["code"] for reason in each["reasons"]] for each in pools)
    run = cli(f"{asked} --levers pools")
    option = json.loads(run.out)["options"][0]
    assert [part["role"] for part in option["parts"]] == ["prefill", "decode"]
    assert "send caches from machine to machine" in run.err


def test_a_slower_network_between_pools_is_never_faster(cli: Cli) -> None:
    typed = "--model llama-3.3-70b --gpu gh200-96gb --precision fp8 --prefill-workers 1 --decode-workers 1 --rate 1"
    whole = []
    for network in ("--network 'InfiniBand 400Gb'", "--network 'RoCE 100Gb'", "--network 'TCP 10Gb'"):
        run = cli(f"advisor simulate serve {typed} {network} --json")
        assert "says nothing about it" not in run.err
        whole.append(json.loads(run.out)["metrics"]["e2e_s"]["mean"]["value"])
    assert whole == sorted(whole)
    assert whole[-1] > 1.05 * whole[0]
