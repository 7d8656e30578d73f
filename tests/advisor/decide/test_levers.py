"""Levers: reuse of prompts in bounds and search, caches of fewer bits, speculation, adapters; each where it can act."""

import datetime
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.ask.levers import with_levers
from advisor.ask.options import Levers, LoadOptions
from advisor.ask.traffic import traffic_of
from advisor.catalog import accelerators, engines, models
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.decide.bounds import roofline_requests_per_s as roofline_rates
from advisor.decide.bounds import surface_requests_per_s as surface_rate
from advisor.decide.candidates import Candidate, candidates_of, candidates_within
from advisor.decide.levers import LEVERS, eagle_head, find_lever, replica_of, variants, with_lever
from advisor.decide.load_runs import spread_of_contexts
from advisor.decide.recommend import recommend
from advisor.decide.scenario import AdapterLoad, Constraints, Objectives, Scenario, Traffic
from advisor.simulator.replica_model import ReplicaModel, model_replica
from advisor.simulator.serving import ClosedLoop, FixedLengths, Workload, simulate
from advisor.simulator.serving.content import SharedPrefixes
from advisor.simulator.step_cost import StepSurface

Cli = Callable[[str], Any]
DAY = datetime.date(2026, 11, 20)
UNLIMITED = Objectives(ttft_p99_s=1e9, tpot_p99_s=1e9)


def scenario_of(**more: Any) -> Scenario:
    traffic = more.pop("traffic", Traffic(mean_input_tokens=1155, mean_output_tokens=211))
    return Scenario(model=more.pop("model", "llama-3.1-8b"), traffic=traffic, as_of=DAY, **more)


def candidate_of(scenario: Scenario, gpu: str, engine: str = "vllm") -> Candidate:
    found, reason = candidates_of(
        accelerators.by_id(gpu),
        models.by_id(scenario.model),
        [engines.by_id(engine)],
        mean_context_tokens=scenario.traffic.mean_context_tokens,
        max_context_tokens=scenario.traffic.longest_request_tokens,
    )
    assert found, reason
    return found[0]


@pytest.mark.parametrize("common", [0, 1500, 2900])
def test_bounds_hold_with_shared_beginnings(common: int) -> None:
    traffic = Traffic(
        mean_input_tokens=3000,
        mean_output_tokens=20,
        shared_prefix_tokens=common,
        shared_prefixes=2,
        reused_input_tokens=common,
    )
    scenario = scenario_of(traffic=traffic, objectives=UNLIMITED)
    candidate = candidate_of(scenario, "l4")
    roofline = float(roofline_rates([candidate], traffic, UNLIMITED)[0])
    replica = replica_of(candidate, scenario)
    surface = surface_rate(replica, traffic, UNLIMITED)
    contents = SharedPrefixes(common, 2, is_warm=True) if common else None
    workload = Workload(ClosedLoop(60), FixedLengths(3000 - common, 20), 600, contents)
    result = simulate(replica.surface, replica.policy, workload, seed=0)
    assert 0 < result.requests_per_s <= surface <= roofline


@pytest.mark.parametrize(("model", "name"), [("llama-3.1-8b", "eagle"), ("glm-4.7-flash", "mtp")])
def test_bounds_hold_with_speculation(model: str, name: str) -> None:
    scenario = scenario_of(model=model, levers=(name,), objectives=UNLIMITED)
    plain = candidate_of(scenario, "h100-sxm")
    candidate = with_lever(plain, LEVERS[name], scenario)
    before, roofline = roofline_rates([plain, candidate], scenario.traffic, UNLIMITED)
    replica = replica_of(candidate, scenario)
    surface = surface_rate(replica, scenario.traffic, UNLIMITED)
    workload = Workload(ClosedLoop(64), FixedLengths(1155, 211), 300)
    result = simulate(replica.surface, replica.policy, workload, seed=0)
    assert 0 < result.requests_per_s <= surface <= roofline
    assert before <= roofline


@pytest.mark.parametrize(("gpu", "engine"), [("l4", "vllm"), ("mi300x", "sglang")])
def test_a_remembered_replica_is_that_of_its_lengths_and_of_no_other_question(gpu: str, engine: str) -> None:
    """Limits of a question leave its replicas alone; prompts of another length make others."""
    asked = scenario_of()
    longer = scenario_of(traffic=Traffic(mean_input_tokens=4000, mean_output_tokens=211))
    candidate = candidate_of(asked, gpu, engine)
    first = replica_of(candidate, asked)
    assert replica_of(candidate, scenario_of(objectives=UNLIMITED)).surface is first.surface
    assert figures_of(replica_of(candidate, longer)) != figures_of(first)
    again = model_replica(
        candidate.deployment,
        mean_input_tokens=1155,
        mean_output_tokens=211,
        max_context_tokens=asked.traffic.longest_request_tokens,
        context_spread=spread_of_contexts(asked.traffic),
    )
    assert figures_of(again) == figures_of(first)


def figures_of(replica: ReplicaModel) -> tuple[object, ...]:
    """All that a simulation and an explanation read of a replica but its library."""
    times = (getattr(replica.surface, name) for name in StepSurface.__slots__)
    return (*times, replica.policy, replica.memory, replica.costs, replica.transferred_operators)


def shared_trace(folder: Path, rate_per_s: float = 5.0, num_documents: int = 8) -> Path:
    """95 % of every prompt is one of a few documents."""
    draw = random.Random(1)
    now = 0.0
    rows = []
    for number in range(2000):
        now += draw.expovariate(rate_per_s)
        document = draw.randrange(num_documents)
        ids = [100 * document + place for place in range(19)] + [10_000 + number]
        rows.append(
            {
                "timestamp": round(1000 * now),
                "input_length": 10_128,
                "output_length": draw.randint(100, 300),
                "hash_ids": ids,
            }
        )
    path = folder / "trace.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


@pytest.mark.slow
def test_a_trace_with_reuse_rents_four_where_eight_and_more_were_rented(tmp_path: Path) -> None:
    traffic = traffic_of(LoadOptions(trace=shared_trace(tmp_path)))
    assert 0.94 < traffic.reused_input_tokens / traffic.mean_input_tokens < 0.96
    limits = Constraints(accelerators=("h100-sxm",), engines=("vllm",))
    counts = {}
    for levers in (("auto",), ("none",)):
        scenario = scenario_of(model="llama-3.1-70b", traffic=traffic, constraints=limits, levers=levers)
        option = recommend(scenario).options[0]
        counts[levers] = option.machine.num_accelerators
        assert option.levers["prefix_caching"] is (levers == ("auto",))
        wanted = "--prefix-caching" if levers == ("auto",) else "--no-prefix-caching"
        assert wanted in option.started.simulate_args
    assert counts["auto",] == 4
    assert counts["none",] >= 16


@pytest.mark.slow
def test_speculation_is_proposed_at_batch_one() -> None:
    limits = Constraints(accelerators=("h200-sxm",), engines=("vllm",), precisions=("fp8",))
    quiet = Traffic(mean_input_tokens=1155, mean_output_tokens=211, concurrency=1)
    alone = recommend(scenario_of(model="llama-3.1-70b", traffic=quiet, constraints=limits))
    (trial,) = (each for each in alone.changes if each.name == "eagle")
    assert trial.verdict in ("cheaper", "faster")
    assert trial.tpot_p99_s is not None
    assert trial.tpot_p99_s.ratio < 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clients", "acceptance", "tpot_p99_s", "pays"),
    [
        (1, 0.6, 0.03, True),  # one card is too slow without it
        (1, 0.6, 0.1, True),  # one card is fast enough, costs the same and is faster with it
        (None, 0.1, 0.1, False),
    ],
)
def test_speculation_that_is_asked_for_is_left_where_it_loses(
    clients: int | None, acceptance: float, tpot_p99_s: float, pays: bool
) -> None:
    limits = Constraints(accelerators=("l4",), engines=("vllm",), precisions=("fp8",))
    traffic = Traffic(mean_input_tokens=1155, mean_output_tokens=211, concurrency=clients)
    found = recommend(
        scenario_of(
            traffic=traffic,
            constraints=limits,
            levers=("ngram",),
            acceptance=acceptance,
            objectives=Objectives(tpot_p99_s=tpot_p99_s),
        )
    )
    assert (found.options[0].levers["speculation"] is not None) is pays
    assert (
        any("no option is cheaper, or as cheap and faster, with ngram" in note for note in found.notes)
        is not pays
    )


def test_levers_act_only_where_they_are_supported() -> None:
    scenario = scenario_of(levers=("kv-fp8", "eagle"))
    model = models.by_id(scenario.model)
    found = list(variants(scenario, model, candidate_of(scenario, "h100-sxm")))
    assert {(one.deployment.kv_dtype, one.speculation is not None) for one in found} == {
        ("bf16", False),
        ("fp8", False),
        ("bf16", True),
        ("fp8", True),
    }
    with pytest.raises(InfeasibleError) as refused:
        with_lever(candidate_of(scenario, "h100-sxm"), LEVERS["kv-int8"], scenario)
    assert refused.value.fix == "--levers kv-fp8"
    limits = Constraints(accelerators=("h100-sxm",), engines=("vllm",))
    with pytest.raises(InfeasibleError, match="8-bit integers"):
        recommend(scenario_of(levers=("kv-int8",), constraints=limits))
    with pytest.raises(InfeasibleError, match="multi-token"):
        with_lever(candidate_of(scenario, "h100-sxm"), LEVERS["mtp"], scenario)


def test_fifty_adapters_are_one_deployment() -> None:
    limits = Constraints(accelerators=("l40s",), engines=("vllm",))
    traffic = Traffic(mean_input_tokens=300, mean_output_tokens=50, rate_per_s=1.0)
    load = AdapterLoad(count=50, rank=16, slots=50)
    option = recommend(scenario_of(traffic=traffic, constraints=limits, adapters=load)).options[0]
    assert option.layout.num_replicas == 1
    assert option.levers["adapters"] == load
    assert "--adapters 50" in " ".join(option.started.simulate_args)


@pytest.mark.parametrize(
    ("typed", "part"),
    [
        (Levers(levers="prefix"), "nothing in common"),
        (Levers(levers="kv-fp9"), "unknown lever"),
        (Levers(levers="auto,eagle"), "stand alone"),
        (Levers(levers="power-cap"), "does not act here"),
        (Levers(levers="power"), "does not act here"),
        (Levers(levers="pools"), "needs a load"),
        (Levers(acceptance=0.4), "needs a way"),
        (Levers(adapter_rank=4), "need adapters"),
        (Levers(adapters="no-such-folder"), "neither a number nor a folder"),
        (Levers(adapters="0"), "from 1 to"),
    ],
    ids=str,
)
def test_what_says_nothing_is_refused(typed: Levers, part: str) -> None:
    with pytest.raises(AdvisorError, match=part) as refused:
        with_levers(scenario_of(), typed)
    assert refused.value.fix


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        ("--rate 5 --levers pools --adapters 5", "pools and --adapters", "--levers split"),
        (
            "--rate 5 --profile agent --levers split,pools --adapters 5",
            "pools and --adapters",
            "--levers split",
        ),
        ("--rate 5 --profile agent --levers split --fast", "split and --fast", "drop --fast"),
        ("--rate 5 --levers pools --fast", "pools and --fast", "drop --fast"),
        ("--rate 5,10 --profile agent --levers split", "a load, and only one", "--rate 10 --levers split"),
        ("--concurrency 5 --levers pools", "a load, and only one", "--rate 10 --levers pools"),
        ("--rate 5 --levers split --sessions 6", "split and --sessions", "--levers prefix"),
        ("--rate 5 --levers pools --sessions 6", "pools and --sessions", "--levers prefix"),
        (
            "--rate 5 --levers split --input-tokens 5 --output-tokens 9",
            "no length at which",
            "--profile agent",
        ),
        ("--rate 5 --own 8xl40s --levers pools,power-cap", "pools and power-cap", "--levers power-cap"),
        ("--rate 5 --gpu h100-sxm --engine vllm --levers mtp", "no module", "--levers eagle"),
        ("--rate 5 --gpu mi300x --engine sglang --levers draft:70b", "small model", "--levers eagle"),
        ("--rate 5 --gpu h100-sxm --engine vllm --levers ngram", "is not known", "--acceptance"),
    ],
)
def test_levers_that_do_not_go_together_are_refused_with_what_goes(
    cli: Callable[[str], Any], words: str, what: str, fix: str
) -> None:
    run = cli(f"advisor recommend --model 8b {words}")
    assert run.code in (2, 3)
    error, why, told = run.err[run.err.index("error:") :].splitlines()[:3]
    assert what in error
    assert why.strip().startswith("why:")
    assert told.strip().startswith("To fix:")
    assert fix in told


@pytest.mark.parametrize("record", ["mistral-7b-v0.3", "llama-3.1-8b", "qwen3-8b", "gemma-3-12b", "phi-4"])
def test_an_adapter_fits_its_base_under_every_name(record: str, tmp_path: Path) -> None:
    repositories = models.by_id(record).hf_ids
    for base in repositories:
        (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 8, "base_model_name_or_path": base}))
        for name in (record, *repositories, repositories[0].lower()):
            found = with_levers(scenario_of(model=name), Levers(adapters=str(tmp_path)))
            assert found.adapters is not None
            assert found.adapters.count == 1
        with pytest.raises(AdvisorError, match=f"an adapter of {re.escape(record)}, not of"):
            with_levers(scenario_of(model="Qwen/Qwen3-32B"), Levers(adapters=str(tmp_path)))


def test_adapters_of_another_base_are_refused(tmp_path: Path) -> None:
    for number, base in enumerate(("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B")):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = json.dumps({"r": 8 * (number + 1), "base_model_name_or_path": base})
        (folder / "adapter_config.json").write_text(text)
    scenario = with_levers(scenario_of(), Levers(adapters=str(tmp_path)))
    paths = tuple((name, str(tmp_path / name)) for name in ("0", "1"))
    assert scenario.adapters == AdapterLoad(count=2, rank=16, slots=2, paths=paths)
    with pytest.raises(AdvisorError, match=r"an adapter of llama-3\.1-8b, not of llama-3\.1-70b"):
        with_levers(scenario_of(model="llama-3.1-70b"), Levers(adapters=str(tmp_path)))


def test_a_trace_without_hashes_is_refused_where_reuse_is_asked(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text("arrived_at_s,input_tokens,output_tokens\n0,100,10\n1,100,10\n2,100,10\n")
    run = cli(f"advisor recommend --model 8b --trace {path} --levers prefix")
    assert run.code == 2
    assert "has no hash_ids" in run.err
    assert "To fix:" in run.err


@pytest.mark.parametrize(
    ("name", "engine", "head"),
    [
        ("llama-3.3-70b", "sglang", "lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-SpecForge"),
        ("meta-llama/Llama-3.3-70B-Instruct", "vllm", "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3"),
        ("openai/gpt-oss-120b", "sglang", "lmsys/EAGLE3-gpt-oss-120b-bf16"),
        ("Qwen/Qwen3-32B", "vllm", "RedHatAI/Qwen3-32B-speculator.eagle3"),
        ("meta-llama/Llama-3.1-8B", "vllm", ""),  # a base model answers otherwise than the one of the head
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "vllm", ""),
    ],
)
def test_heads_belong_to_a_model_under_each_name_of_it(name: str, engine: str, head: str) -> None:
    model, _ = models.get(name)
    assert eagle_head(model, engine) == head


def test_no_speculation_is_planned_over_stages_where_the_engine_stops_at_both() -> None:
    """SGLang 0.5.23, arg_groups/validation_hook.py, check_pipeline_parallel_compat; vLLM 0.33.0 runs both."""
    for engine, runs in (("sglang", False), ("vllm", True)):
        limits = Constraints(accelerators=("h100-sxm",), engines=(engine,), precisions=("fp8",))
        scenario = scenario_of(model="deepseek-v3", constraints=limits, levers=("mtp",))
        chip = accelerators.by_id("h100-sxm")
        found, _ = candidates_within(scenario, chip, models.by_id("deepseek-v3"), (engines.by_id(engine),))
        over_stages = [each for each in found if each.deployment.pipeline_parallel > 1]
        assert over_stages
        for each in over_stages:
            able = [one for one in variants(scenario, each.deployment.model, each) if one.speculation]
            assert bool(able) is runs


@pytest.mark.parametrize(
    ("chip", "model", "fix"), [("a100-sxm-80gb", "gemma-3-27b", "--levers none"), ("l40s", "qwen3-8b", "")]
)
def test_a_cache_that_is_refused_is_never_its_own_way_out(chip: str, model: str, fix: str) -> None:
    limits = Constraints(accelerators=(chip,), engines=("vllm",))
    scenario = scenario_of(model=model, constraints=limits, levers=("kv-fp8",))
    found, _ = candidates_within(
        scenario, accelerators.by_id(chip), models.by_id(model), (engines.by_id("vllm"),)
    )
    if not fix:
        assert with_lever(found[0], find_lever("kv-fp8"), scenario).deployment.kv_dtype == "fp8"
        return
    with pytest.raises(InfeasibleError) as refused:
        with_lever(found[0], find_lever("kv-fp8"), scenario)
    assert refused.value.fix == fix


def test_adapters_have_at_most_the_rank_that_the_engine_takes() -> None:
    """vLLM 0.33.0, config/lora.py, MaxLoRARanks."""
    for engine, is_taken in (("vllm", False), ("sglang", True)):
        scenario = scenario_of(adapters=AdapterLoad(count=2, rank=1024, slots=2))
        candidate = candidate_of(scenario, "h100-sxm", engine)
        if is_taken:
            assert replica_of(candidate, scenario)
            continue
        with pytest.raises(InfeasibleError, match="rank 512 at most"):
            replica_of(candidate, scenario)
