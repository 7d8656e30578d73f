"""The plan search: the optimum of the closed form, memory before time, event graphs, cluster sizes, money."""

import datetime
import itertools
import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import ownership
from advisor.catalog.schema import Price
from advisor.catalog.units import DAY_S, GIB, HOUR_S, duration_words
from advisor.decide.offers import OWN
from advisor.decide.reason import OverJobBudget, TakesTooLong
from advisor.decide.training.market import LEAST_OF_COARSE, firm_runs, ranked_runs, search_training
from advisor.decide.training.money import (
    ClusterOffer,
    cheapest_by_term,
    cluster_offers,
    contract_needed,
    energy_of,
    largest_cluster,
)
from advisor.decide.training.recommend import recommend_training
from advisor.decide.training.runs import TrainingRun, checkpoint_of, run_of, trained_parameters
from advisor.decide.training.scenario import (
    MachineConditions,
    Reliability,
    TrainingLimits,
    TrainingScenario,
    TrainingTask,
)
from advisor.decide.training.search import (
    Tally,
    best_plans,
    does_fit,
    evaluate_plan,
    pipeline_to_draw,
    simulate_pipeline,
)
from advisor.decide.training.space import RULES, counts_of, limits_of, peak_flop_per_s, variants_of
from advisor.decide.training.uncertainty import verdict_of
from advisor.simulator.training.job import OPTIMIZERS, Optimizer, TrainingJob
from advisor.simulator.training.lattice import enumerate_lattice
from advisor.simulator.training.memory.formats import formats_of
from advisor.simulator.training.plan import TrainingPlan

DAY = datetime.date(2026, 11, 20)
TASK = TrainingTask(tokens=1e11, sequence_tokens=4096, global_batch=64)


def scenario(model: str = "llama-3.1-8b", *, task: TrainingTask = TASK, **limits: object) -> TrainingScenario:
    within = TrainingLimits.model_validate({"accelerators": ("h100-sxm", "a100-sxm-80gb", "l40s"), **limits})
    return TrainingScenario(model=model, task=task, limits=within, as_of=DAY)


def test_the_search_finds_the_optimum_of_the_closed_form() -> None:
    """Against every plan evaluated by itself."""
    h100 = accelerators.by_id("h100-sxm")
    model = models.get("llama-3.1-8b").record
    task = TASK.model_copy(update={"frameworks": ("megatron",), "global_batch": 4})
    variants, _ = variants_of(h100, model, task)
    effort = Tally()
    best = best_plans(variants, 4, effort, keep=3)
    seconds = []
    lattice = enumerate_lattice(variants[0].job, 4, variants[0].limits)
    for row in range(len(lattice)):
        found = evaluate_plan(variants[0].job, variants[0].cluster, lattice.plan(row))
        if verdict_of(found) == "fits":
            seconds.append(found.step_s)
    seconds.sort()
    assert [plan.step_s for plan in best] == pytest.approx(seconds[:3])
    assert all(does_fit(plan) for plan in best)
    assert 0 < effort.num_evaluated <= effort.num_considered


def test_gpt_3_on_1024_is_searched_whole_in_seconds() -> None:
    started = time.process_time()
    task = TrainingTask(tokens=3e11, sequence_tokens=2048, global_batch=1536)
    variants, _ = variants_of(accelerators.by_id("a100-sxm-80gb"), models.get("gpt-3-175b").record, task)
    effort = Tally()
    best = best_plans(variants, 1024, effort)
    assert time.process_time() - started < 10.0
    assert effort.num_considered > 10_000
    assert best[0].plan.num_accelerators == 1024


def test_the_event_graph_agrees_with_the_closed_form_where_stages_are_equal() -> None:
    job = TrainingJob(models.get("gpt-3-175b").record, 2048, 1536)
    cluster = variants_of(accelerators.by_id("a100-sxm-80gb"), job.model, TASK)[0][0].cluster
    for schedule, virtual in (("1f1b", 1), ("interleaved", 4), ("zb_h1", 1)):
        plan = TrainingPlan(8, 8, virtual, data_parallel=16, sharding="zero1", schedule=schedule)  # type: ignore[arg-type]
        closed = evaluate_plan(job, cluster, plan)
        graph = simulate_pipeline(closed)
        assert graph.step_s == pytest.approx(closed.step_s, rel=0.03)
        assert graph.run is not None
        assert sum(graph.breakdown_s.values()) == pytest.approx(graph.step_s)
        shown = pipeline_to_draw(graph)
        assert shown is not None
        assert shown.num_micro_batches == 16


def test_long_schedules_are_continued_at_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    job = TrainingJob(models.get("llama-3.1-8b").record, 4096, 512)
    cluster = variants_of(accelerators.by_id("h100-sxm"), job.model, TASK)[0][0].cluster
    plan = TrainingPlan(1, 4, 2, data_parallel=2, schedule="interleaved")
    whole = simulate_pipeline(evaluate_plan(job, cluster, plan))
    monkeypatch.setattr("advisor.decide.training.search.MOST_SIMULATED_PASSES", 1500)
    short = simulate_pipeline(evaluate_plan(job, cluster, plan))
    assert short.run is not None
    assert whole.run is not None
    assert short.run.num_micro_batches < whole.run.num_micro_batches
    assert short.step_s == pytest.approx(whole.step_s, rel=1e-6)


def test_adapters_stay_in_the_frameworks_that_train_them() -> None:
    task = TASK.model_copy(update={"method": "qlora", "lora_rank": 16})
    variants, _ = variants_of(accelerators.by_id("rtx-4090"), models.get("llama-3.1-8b").record, task)
    assert {variant.job.framework for variant in variants} == {"peft"}
    lattice = enumerate_lattice(variants[0].job, 4, variants[0].limits)
    assert set(lattice.tensor_parallel) == set(lattice.pipeline_parallel) == {1}
    assert trained_parameters(variants[0].job) == pytest.approx(41.9e6, rel=0.01)


def test_why_an_accelerator_cannot_train() -> None:
    model = models.get("llama-3.1-8b").record
    for name, task, part in (
        ("m3-ultra", TASK, "no training framework"),
        ("a100-sxm-80gb", TASK.model_copy(update={"compute_dtypes": ("fp8",)}), "no units for fp8"),
        ("rubin", TASK, "announced"),
    ):
        variants, reason = variants_of(accelerators.by_id(name), model, task)
        assert not variants
        assert part in str(reason)
    assert peak_flop_per_s(accelerators.by_id("b200-sxm"), "nvfp4") > 4e15  # type: ignore[operator]


def test_cluster_sizes() -> None:
    assert list(counts_of(accelerators.by_id("h100-sxm"), 64)) == [1, 2, 4, 8, 16, 32, 64]
    assert max(counts_of(accelerators.by_id("rtx-4090"), 1024)) == 8
    assert 72 in counts_of(accelerators.by_id("gb200"), 1024)


def test_a_deadline_is_kept_by_the_cheapest_cluster() -> None:
    outcome = search_training(
        scenario(deadline_s=10 * DAY_S), models.get("llama-3.1-8b").record, lambda message: None
    )
    runs = list(itertools.chain(*outcome.runs.values()))
    assert runs
    assert all(run.wall_s <= 10 * DAY_S for run in runs)
    assert "l40s" in {**outcome.reasons, **outcome.bounds}


def test_a_run_at_a_firm_price_has_the_network_that_the_question_states() -> None:
    """A cluster that is looked at again, since another one of its accelerator is better, is as if asked for alone."""
    name = "a100-sxm-80gb"
    conditions = MachineConditions(network="Ethernet 1x10Gb")
    asked = scenario(accelerators=(name,)).model_copy(update={"conditions": conditions})
    model = models.get("llama-3.1-8b").record
    outcome = search_training(asked, model, lambda message: None)
    first, *others = outcome.runs[name]
    run = next(each for each in others if each.num_accelerators > 8)
    firm = run.offer.price.model_copy(update={"observed_on": DAY, "kind": "list"})
    outcome.offers = {(name, each.num_accelerators): [] for each in (first, *others)}
    outcome.offers[name, run.num_accelerators] = [replace(run.offer, price=firm)]
    (again,) = firm_runs(asked, model, outcome)
    alone = search_training(
        asked.with_limits(num_accelerators=run.num_accelerators), model, lambda message: None
    )
    assert again.step_s == pytest.approx(alone.runs[name][0].step_s)


def test_a_budget_buys_the_fastest_run() -> None:
    """A week and less count alike: of those the cheapest is taken, not the largest cluster."""
    for dollars in (12_000.0, 40_000.0):
        asked = scenario(budget_usd=dollars)
        found = recommend_training(asked)
        assert all(option.usd.value <= dollars for option in found.options)
        days = [max(7.0, option.performance.days.value) for option in found.options]
        assert days == sorted(days)
        first = found.options[0]
        twice = scenario(
            num_accelerators=2 * first.machine.num_accelerators, accelerators=(first.machine.accelerator,)
        )
        larger = recommend_training(twice).options[0]
        assert larger.usd.value > dollars or (days[0] == 7.0 and larger.usd.value >= first.usd.value)


def test_a_budget_alone_lists_no_run_that_takes_longer_than_public_ones() -> None:
    """Eight A100s keep the budget for 396 days; a deadline, or a stated cluster, says that this is wanted."""
    task = TASK.model_copy(update={"tokens": 1e12})
    asked = scenario(task=task, budget_usd=150_000.0, accelerators=("h100-sxm", "a100-sxm-80gb"))
    found = recommend_training(asked)
    assert all(option.performance.days.value <= 120.0 for option in found.options)
    (slow,) = (one for one in found.rejected if one.accelerator == "a100-sxm-80gb")
    assert isinstance(slow.reason, TakesTooLong | OverJobBudget)
    stated = scenario(task=task, budget_usd=150_000.0, accelerators=("a100-sxm-80gb",), num_accelerators=8)
    assert recommend_training(stated).options[0].performance.days.value > 120.0


@pytest.mark.parametrize(("count", "batch", "is_told"), [(72, 512, True), (64, 512, False)])
def test_a_batch_that_accelerators_do_not_divide_is_named_with_one_that_takes_less_time(
    count: int, batch: int, is_told: bool
) -> None:
    limits = {"num_accelerators": count, "accelerators": ("gb200",)}
    found = recommend_training(scenario(task=TASK.model_copy(update={"global_batch": batch}), **limits))
    told = [note for note in found.notes if f"a batch of {batch}" in note]
    assert bool(told) == is_told
    if told:
        (near,) = re.findall(r"--global-batch (\d+)", told[0])
        task = TASK.model_copy(update={"global_batch": int(near)})
        better = recommend_training(scenario(task=task, **limits)).options[0]
        assert int(near) % count == 0
        assert better.performance.days.value < found.options[0].performance.days.value


def test_dollars_are_linear_in_the_price() -> None:
    found = recommend_training(scenario(num_accelerators=8, accelerators=("h100-sxm",)))
    option = found.options[0]
    hours = math.ceil(option.performance.days.value * DAY_S / HOUR_S)
    assert option.usd.value == pytest.approx(hours * option.bill.usd_per_hour)
    assert option.bill.usd_per_hour == pytest.approx(8 * option.usd_per_accelerator_hour)
    assert option.usd.low < option.usd.value < option.usd.high
    terms = {bill.term for bill in option.bills}
    assert {"on_demand", "spot", "owned"} <= terms
    spot = next(bill for bill in option.bills if bill.term == "spot")
    assert spot.goodput_fraction < option.performance.goodput_fraction
    parts = sum(option.performance.breakdown_s.values())
    assert parts == pytest.approx(option.performance.step_time_s.value)


def test_pareto_points_beat_each_other_in_one_thing_only() -> None:
    points = recommend_training(scenario(deadline_s=30 * DAY_S)).pareto
    assert points
    for one, other in itertools.pairwise(points):
        assert one.days < other.days
        assert one.usd > other.usd


def test_failures_cost_time_and_money() -> None:
    base = scenario(num_accelerators=64, accelerators=("h100-sxm",))
    shaky = base.model_copy(update={"reliability": Reliability(accelerator_mtbf_s=500 * HOUR_S)})
    steady, failing = (recommend_training(question).options[0] for question in (base, shaky))
    assert failing.performance.goodput_fraction < steady.performance.goodput_fraction < 1.0
    assert failing.performance.days.value > steady.performance.days.value
    assert failing.performance.failures.interruptions_per_day == pytest.approx(24 * 64 / 500)
    slow = base.model_copy(update={"reliability": Reliability(straggler_spread=0.05)})
    assert (
        recommend_training(slow).options[0].performance.step_time_s.value
        > steady.performance.step_time_s.value
    )


def test_nothing_within_the_limits_tells_the_nearest() -> None:
    for limits, hint in (
        ({"deadline_s": DAY_S / 24, "accelerators": ("h100-sxm",), "max_accelerators": 64}, ""),
        ({"num_accelerators": 100}, "nearest cluster that works"),
        ({"num_accelerators": 8, "deadline_s": DAY_S}, "with it: 8 x"),
        ({"budget_usd": 10.0}, "with it: "),
    ):
        with pytest.raises(InfeasibleError) as error:
            recommend_training(scenario(**limits))  # type: ignore[arg-type]
        assert hint in error.value.hint
        assert error.value.why


@pytest.mark.parametrize(
    "limits",
    [
        {"budget_usd": 10.0},
        {"budget_usd": 10.0, "deadline_s": 30 * DAY_S},
        {"budget_usd": 100.0, "num_accelerators": 64, "accelerators": ("h100-sxm",)},
    ],
    ids=str,
)
def test_the_budget_that_a_refusal_names_is_the_least_that_has_an_answer(limits: dict[str, Any]) -> None:
    asked = scenario(**limits)
    with pytest.raises(InfeasibleError) as error:
        recommend_training(asked)
    enough = float(error.value.fix.removeprefix("--budget "))
    option = recommend_training(asked.with_limits(budget_usd=enough)).options[0]
    assert option.usd.value <= enough + 0.01
    with pytest.raises(InfeasibleError):
        recommend_training(asked.with_limits(budget_usd=0.999 * enough))


@pytest.mark.parametrize("limit", ["budget_usd", "deadline_s"])
def test_what_an_answer_takes_is_a_limit_that_it_keeps(limit: str) -> None:
    """The coarse lattice holds slower plans than the one that is shown."""
    for number in (8, 64):
        asked = scenario(num_accelerators=number, accelerators=("h100-sxm", "mi300x"))
        option = recommend_training(asked).options[0]
        least = {"budget_usd": option.usd.value, "deadline_s": option.performance.days.value * DAY_S}[limit]
        again = recommend_training(asked.with_limits(**{limit: (1.0 + 1e-6) * least})).options[0]
        assert again.usd.value == pytest.approx(option.usd.value)


def test_too_little_memory_is_said_in_gigabytes() -> None:
    with pytest.raises(InfeasibleError) as error:
        recommend_training(scenario("llama-3.1-405b", num_accelerators=8))
    assert "GB per accelerator" in error.value.why


def price(provider: str, count: int, usd: float, term: str = "on_demand") -> Price:
    return Price(
        provider=provider,
        sku=f"x{count}",
        region="",
        accelerator="h100-sxm",
        num_accelerators=count,
        term=term,  # type: ignore[arg-type]
        usd_per_hour=usd,
        observed_on=DAY,
        valid_from=DAY,
    )


def test_clusters_are_whole_machines_and_no_larger_than_sold() -> None:
    h100 = accelerators.by_id("h100-sxm")
    assert [o.usd_per_hour for o in cluster_offers(16, [price("aws", 8, 80.0)], h100)] == [160.0]
    assert [o.usd_per_hour for o in cluster_offers(4, [price("aws", 8, 80.0)], h100)] == [80.0]
    assert cluster_offers(12, [price("aws", 8, 80.0)], h100) == []
    assert cluster_offers(40_000, [price("aws", 8, 80.0)], h100) == []
    assert cluster_offers(16, [price("vast", 8, 80.0)], h100) == []
    assert largest_cluster(price("runpod", 8, 1.0)) == 64
    assert cluster_offers(8, [price("huggingface", 8, 1.0)], h100) == []


def test_energy_and_ownership() -> None:
    known = ownership(DAY)
    h100 = accelerators.by_id("h100-sxm")
    one = energy_of(h100, 8, HOUR_S, None, "us", known)
    assert one.energy_kwh == pytest.approx(one.power_w / 1000)
    assert one.power_w > 8 * 0.85 * 700
    assert one.carbon_kg_co2e == pytest.approx(
        2 * energy_of(h100, 4, HOUR_S, None, "us", known).carbon_kg_co2e
    )


def test_spot_machines_fail_more_often() -> None:
    question = scenario(num_accelerators=8, accelerators=("h100-sxm",))
    variants, _ = variants_of(accelerators.by_id("h100-sxm"), models.get("llama-3.1-8b").record, TASK)
    plan = best_plans(variants, 8, Tally())[0]
    offer = cluster_offers(8, [price("aws", 8, 80.0)], accelerators.by_id("h100-sxm"))[0]
    spot = replace(offer, price=offer.price.model_copy(update={"term": "spot"}))
    assert run_of(question, plan, spot).goodput.mtbf_s < run_of(question, plan, offer).goodput.mtbf_s


def test_every_framework_has_rules_and_words_of_time() -> None:
    job = TrainingJob(models.get("llama-3.1-8b").record, 4096, 64)
    cluster = variants_of(accelerators.by_id("h100-sxm"), job.model, TASK)[0][0].cluster
    for name in RULES:
        assert len(
            enumerate_lattice(
                replace(job, framework=name), 8, limits_of(replace(job, framework=name), cluster)
            )
        )
    assert duration_words(2.0) == "2 days"
    assert duration_words(0.1) == "2.4 h"
    assert duration_words(0.01) == "14 min"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("framework", ["megatron", "deepspeed"])
def test_a_checkpoint_holds_the_states_that_memory_holds(optimizer: Optimizer, framework: str) -> None:
    job = TrainingJob(models.get("llama-3.1-8b").record, 4096, 64, framework=framework, optimizer=optimizer)
    state_bytes = checkpoint_of(job, 8, 1, Reliability()).state_bytes
    assert state_bytes / trained_parameters(job) == pytest.approx(2.0 + formats_of(job).layers.optimizer)


@pytest.mark.parametrize("network", ["Ethernet 1x10Gb", "Ethernet 1x100Gb", ""])
@pytest.mark.parametrize(("gpu", "count"), [("a100-sxm-80gb", 32), ("b200-sxm", 32), ("l40s", 32)])
def test_a_first_look_misses_no_plan_that_is_much_faster(gpu: str, count: int, network: str) -> None:
    """On slow networks stages are many and schedules without bubbles are best: a first look has them too."""
    conditions = MachineConditions(network=network)
    coarse, whole = (
        best_plans(
            variants_of(
                accelerators.by_id(gpu),
                models.get("llama-3.1-8b").record,
                TASK,
                conditions,
                whole=is_whole,
            )[0],
            count,
            Tally(),
            keep=1,
        )[0].step_s
        for is_whole in (False, True)
    )
    assert LEAST_OF_COARSE * coarse <= whole <= coarse


def test_states_in_host_memory_are_held_by_the_machine_that_is_rented(tmp_path: Path) -> None:
    """A cheaper machine whose provider states less memory than the plan needs is not taken; where no machine has as
    much, the plan is another one or there is none."""
    task = TASK.model_copy(update={"tokens": 1e7, "may_offload": True})

    def best_run(*ram_gib: float | None) -> TrainingRun | None:
        file = tmp_path / "prices.csv"
        header = "provider,sku,region,accelerator,num_accelerators,term,usd_per_hour,observed_on,ram_gb"
        rows = [
            f"mine{place},x1,any,h100-sxm,1,on_demand,{2.0 + 0.1 * place},{DAY},{ram or ''}"
            for place, ram in enumerate(ram_gib)
        ]
        file.write_text("\n".join([header, *rows]) + "\n")
        names = tuple(f"mine{place}" for place in range(len(rows)))
        asked = scenario(
            task=task,
            num_accelerators=1,
            accelerators=("h100-sxm",),
            price_file=file,
            providers=names,
        )
        asked = asked.model_copy(update={"workload": "finetune"})
        outcome = search_training(asked, models.get("llama-3.1-8b").record)
        found = ranked_runs(asked, outcome)
        return found[0][0] if found else None

    small_first = best_run(32, 256)
    assert small_first is not None
    assert small_first.found.host_bytes > 32 * GIB
    assert small_first.offer.price.provider == "mine1"
    unknown = best_run(None, 256)
    assert unknown is not None
    assert unknown.offer.price.provider == "mine0"
    alone = best_run(32)
    assert alone is None or alone.found.host_bytes <= 32 * GIB


def test_no_list_price_sells_thousands_of_accelerators_at_once() -> None:
    """What a provider's page sells to anyone bounds a list price; beyond it the provider says price and start."""
    few, many = (ClusterOffer(price("lambda", 8, 2.0), count, 2.0 * count) for count in (1_024, 4_096))
    assert contract_needed(few) is None
    needed = contract_needed(many)
    assert needed is not None
    assert "lambda" in needed.text
    assert "4,096" in needed.text
    assert contract_needed(replace(many, price=price("nobody-knows", 8, 2.0))) is not None
    assert contract_needed(replace(many, price=price(OWN, 8, 2.0))) is None


def test_a_commitment_that_costs_more_than_none_is_no_option() -> None:
    offers = [
        ClusterOffer(price("a", 8, usd, term=term), 8, usd)
        for term, usd in (("on_demand", 4.0), ("reserved_1y", 7.0), ("spot", 4.0), ("reserved_3y", 3.0))
    ]
    assert set(cheapest_by_term(offers, "on_demand")) == {"on_demand", "reserved_3y"}
    assert set(cheapest_by_term(offers, "reserved_1y")) == {"on_demand", "reserved_1y", "reserved_3y"}
    assert set(cheapest_by_term(offers[1:], "spot")) == {"reserved_1y", "spot", "reserved_3y"}
