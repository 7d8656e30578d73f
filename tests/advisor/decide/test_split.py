"""Pools by length of prompt in the search: halves of a traffic, what is taken, that a fleet shows it, refusals."""

import datetime
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.ask.levers import with_levers
from advisor.ask.options import Levers, LoadOptions
from advisor.ask.traffic import traffic_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch_options import check_command
from advisor.decide import unlike_parts
from advisor.decide.load_runs import LoadShare, SplitModel, lengths_of, prompt_pairs, run_at
from advisor.decide.race import run_planning_point
from advisor.decide.ranking import Planned
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Scenario
from advisor.decide.split import boundaries, traffic_in
from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import model_replica
from advisor.simulator.serving import Poisson, Workload
from advisor.simulator.serving.fleet import Fleet, Pool
from advisor.simulator.serving.fleet_simulation import simulate_fleet
from advisor.simulator.serving.load import draw_load

DAY = datetime.date(2026, 11, 20)
H100 = Constraints(accelerators=("h100-sxm",), engines=("vllm",), precisions=("fp8",))


def trace_file(folder: Path, count: int = 3000, rate: float = 20.0) -> Path:
    """One prompt in ten is long."""
    draw = random.Random(1)
    at = 0.0
    lines = ["arrived_at_s,input_tokens,output_tokens"]
    for _ in range(count):
        at += draw.expovariate(rate)
        mean, spread = (20_000, 0.5) if draw.random() < 0.1 else (800, 0.6)
        prompt, answer = (
            round(median * draw.lognormvariate(0, s)) for median, s in ((mean, spread), (250, 0.5))
        )
        lines.append(f"{at:.4f},{max(1, min(prompt, 110_000))},{max(2, answer)}")
    path = folder / "mixed.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_halves_of_a_traffic_are_the_traffic(tmp_path: Path) -> None:
    loads = (
        LoadOptions(rate="8", profile="agent"),
        LoadOptions(rate="8", trace=trace_file(tmp_path)),
        LoadOptions(rate="8", input_tokens=4000, output_tokens=200, shared_prefix_tokens=1000),
    )
    for load in loads:
        whole = traffic_of(load)
        ends = boundaries(whole)
        assert ends
        for end in ends:
            short = traffic_in(whole, 1, end)
            long = traffic_in(whole, end + 1)
            assert (short.rate_per_s or 0) + (long.rate_per_s or 0) == pytest.approx(8.0)
            pairs = [prompt_pairs(half) for half in (short, long)]
            assert pairs[0][:, 0].max() <= end < pairs[1][:, 0].min()
            assert sum(map(len, pairs)) == len(prompt_pairs(whole))
            assert short.longest_request_tokens <= end + whole.longest_output_tokens
            assert long.longest_request_tokens == whole.longest_request_tokens
            assert short.mean_input_tokens < whole.mean_input_tokens < long.mean_input_tokens


def test_a_share_of_a_trace_keeps_its_instants(tmp_path: Path) -> None:
    whole = traffic_of(LoadOptions(trace=trace_file(tmp_path)))
    long = traffic_in(whole, 4097)
    replica = model_replica(
        named_deployment("llama-3.1-8b", "h100-sxm"), mean_input_tokens=20_000, mean_output_tokens=250
    )
    result = run_at(replica, long, long.rate_per_s or 0.0, 10_000, 0)
    count = len(prompt_pairs(long))
    assert result.num_requests == count
    assert count == pytest.approx(300, rel=0.2)
    assert result.input_tokens == prompt_pairs(long)[:, 0].sum()


def test_shares_are_seen_as_the_clients_see_them() -> None:
    whole = traffic_of(LoadOptions(rate="4", profile="agent"))
    halves = traffic_in(whole, 1, 8192), traffic_in(whole, 8193)
    deployment = named_deployment("llama-3.1-8b", "h100-sxm", tensor_parallel=4)
    replica = model_replica(deployment, mean_input_tokens=13_000, mean_output_tokens=347)
    parts = [(half.rate_per_s or 0.0) / 4.0 for half in halves]
    shares = tuple(LoadShare(replica, half, part, 1) for half, part in zip(halves, parts, strict=True))
    both = run_at(SplitModel(shares), whole, 4.0, 4000, 0)
    alone = [
        run_at(replica, half, 4.0 * part, round(4000 * part), 0)
        for half, part in zip(halves, parts, strict=True)
    ]
    assert both.num_requests == sum(one.num_requests for one in alone) == pytest.approx(4000, abs=1)
    assert alone[0].ttft.mean_s < both.ttft.mean_s < alone[1].ttft.mean_s
    mean_s = sum(part * one.ttft.mean_s for part, one in zip(parts, alone, strict=True))
    assert both.ttft.mean_s == pytest.approx(mean_s, rel=0.01)
    assert both.steady_requests_per_s == pytest.approx(4.0, rel=0.1)


@pytest.mark.slow
def test_long_prompts_apart_are_cheaper_and_hold_behind_a_router() -> None:
    traffic = traffic_of(LoadOptions(rate="5", profile="agent"))
    h200 = H100.model_copy(update={"accelerators": ("h200-sxm",)})
    scenario = Scenario(model="llama-3.1-8b", as_of=DAY, traffic=traffic, constraints=h200, top=1)
    split, plain = (
        recommend(scenario.model_copy(update={"levers": (name,)})).options[0] for name in ("split", "none")
    )
    assert not plain.parts
    short, long = split.parts
    assert split.bill.usd_per_hour <= 0.8 * plain.bill.usd_per_hour
    assert split.bill.usd_per_hour == pytest.approx(short.bill.usd_per_hour + long.bill.usd_per_hour)
    end = short.max_prompt_tokens or 0
    windows = [int(part.started.argv[part.started.argv.index("--max-model-len") + 1]) for part in split.parts]
    assert end < windows[0] < 0.5 * windows[1]
    pools = []
    for part, least, most in ((short, 0, end), (long, end + 1, None)):
        check_command(part.layout.engine, part.started.argv)
        deployment = named_deployment(
            "llama-3.1-8b", "h200-sxm", tensor_parallel=part.layout.tensor_parallel, weight_dtype="fp8"
        )
        mean = prompt_pairs(traffic_in(traffic, least + 1, most))[:, 0].mean()
        replica = model_replica(deployment, mean_input_tokens=mean, mean_output_tokens=347)
        pool = Pool(
            name=part.role,
            surface=replica.surface,
            policy=replica.policy,
            num_replicas=part.layout.num_replicas,
        )
        pools.append(replace(pool, min_input_tokens=least, max_input_tokens=most))
    load = draw_load(Workload(Poisson(5.0), lengths_of(traffic), 2500), 77)
    fleet = simulate_fleet(Fleet(pools=tuple(pools)), load)
    assert fleet.tenants[0].ttft.p99_s <= scenario.objectives.largest_ttft_s
    assert fleet.tenants[0].tpot.p99_s <= scenario.objectives.largest_tpot_s
    assert fleet.num_rejected == 0


@pytest.mark.slow
def test_a_split_that_gains_nothing_is_noted() -> None:
    traffic = traffic_of(LoadOptions(rate="1", profile="chat"))
    found = recommend(
        Scenario(model="llama-3.1-8b", traffic=traffic, constraints=H100, as_of=DAY, levers=("split",))
    )
    assert not found.options[0].parts
    assert any("no option is cheaper, or as cheap and faster, with split" in note for note in found.notes)


def test_a_split_that_means_nothing_is_refused(tmp_path: Path) -> None:
    alike = tmp_path / "alike.csv"
    alike.write_text(
        "arrived_at_s,input_tokens,output_tokens\n" + "".join(f"{n},512,64\n" for n in range(99))
    )
    for load, words in (
        (LoadOptions(profile="agent"), "needs a load"),
        (LoadOptions(trace=alike), "finds no length"),
    ):
        scenario = Scenario(model="llama-3.1-8b", traffic=traffic_of(load), as_of=DAY)
        with pytest.raises(AdvisorError, match=words) as refused:
            with_levers(scenario, Levers(levers="split"))
        assert refused.value.fix


@pytest.mark.slow
def test_parts_that_other_seeds_do_not_show_are_grown_or_others_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario(
        model="llama-3.1-8b",
        as_of=DAY,
        traffic=traffic_of(LoadOptions(rate="5", profile="agent")),
        constraints=H100.model_copy(update={"accelerators": ("h200-sxm",)}),
        levers=("split",),
        top=1,
    )
    seen: list[float] = []

    def strict(asked: Scenario, plan: Planned, **more: Any) -> Planned | None:
        seen.append(plan.found.purchase.usd_per_hour)
        return run_planning_point(asked, plan, **more) if len(seen) > 1 else None

    monkeypatch.setattr(unlike_parts, "run_planning_point", strict)
    option = recommend(scenario).options[0]
    assert option.parts
    assert seen[0] <= option.bill.usd_per_hour == pytest.approx(seen[-1])
