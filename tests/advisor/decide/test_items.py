"""Fleets for images, texts and audio: bounds, promises, prices, and reasons against."""

import datetime
import re
from dataclasses import replace

import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.prices import bundled_prices
from advisor.catalog.schema import Price
from advisor.decide.items.recommend import recommend_items
from advisor.decide.items.result import ItemScenario
from advisor.decide.option import Option
from advisor.decide.reason import MayNotHold, NoKernels, Reason, TooSlowAlone
from advisor.decide.safe_picks import doubts_of, order_by_trust, safe_pick_words
from advisor.decide.scenario import Constraints
from advisor.simulator.quantity import Quantity
from advisor.simulator.workloads.batch_queue import poisson_arrivals, simulate_batches
from advisor.simulator.workloads.diffusion import ImageJob
from advisor.simulator.workloads.embedding import Texts
from advisor.simulator.workloads.services import ItemJob, item_service

DAY = datetime.date(2026, 11, 20)
CHIPS = ("h100-sxm", "l40s", "b200-sxm", "rtx-4090")


def images(
    steps: int,
    rate: float | None = 256.0,
    latency_s: float = 0.1,
    chips: tuple[str, ...] = CHIPS,
    **limits: object,
) -> ItemScenario:
    job = ItemJob("diffusion", "torch-compile", image=ImageJob(256, 256, steps, True), max_batch=32)
    constraints = Constraints(accelerators=chips, **limits)  # type: ignore[arg-type]
    return ItemScenario("dit-xl-2", job, rate, latency_s, constraints, DAY)


def test_ten_steps_at_256_images_a_second() -> None:
    """Worked question 21, first half."""
    found = recommend_items(images(10))
    assert [option.of_items.usd_per_thousand_items.value for option in found.options] == sorted(
        option.of_items.usd_per_thousand_items.value for option in found.options
    )
    by_chip = {option.machine.accelerator: option for option in found.options}
    assert 5 <= by_chip["h100-sxm"].machine.num_accelerators <= 8
    assert found.safe_pick is not None
    assert found.safe_pick.of_items.holds != "marginal"
    for option in found.options:
        assert option.of_items.latency_s["p99"].value <= 0.1
        assert option.of_items.usd_per_thousand_items.value == pytest.approx(
            option.bill.usd_per_hour / 3600 / 256 * 1000
        )
        assert (
            option.machine.num_accelerators
            >= option.layout.num_replicas * option.layout.accelerators_per_replica
        )


def test_fifty_steps_need_the_fastest_chips_and_both_halves_of_guidance_apart() -> None:
    """Worked question 21, second half: one H100 needs more than 100 ms for a single image."""
    found = recommend_items(images(50))
    assert [option.machine.accelerator for option in found.options] == ["b200-sxm"]
    assert found.options[0].levers["split"] == "guidance 2"
    reasons = {item.accelerator: item.reason for item in found.rejected}
    assert isinstance(reasons["h100-sxm"], TooSlowAlone)


def test_the_fleet_keeps_its_promise_on_other_arrivals() -> None:
    option = next(o for o in recommend_items(images(10)).options if o.machine.accelerator == "h100-sxm")
    scenario = images(10)
    service = item_service(models.by_id("dit-xl-2"), accelerators.by_id("h100-sxm"), scenario.job)
    arrivals = poisson_arrivals(256.0, 20_000, seed=99)
    run = simulate_batches(
        arrivals, service.batch_s[: option.layout.max_num_seqs + 1], option.layout.num_replicas
    )
    assert run.percentile_s(99.0) < 0.1 * 1.15
    fewer = simulate_batches(
        arrivals, service.batch_s[: option.layout.max_num_seqs + 1], option.layout.num_replicas - 1
    )
    assert fewer.percentile_s(99.0) > 0.1


def test_less_work_or_more_time_never_costs_more() -> None:
    def usd(scenario: ItemScenario) -> float:
        return recommend_items(scenario).options[0].of_items.usd_per_thousand_items.value

    base = usd(images(10))
    assert usd(images(5)) <= base
    assert usd(images(10, latency_s=0.3)) <= base
    assert usd(images(10, rate=512.0)) <= 1.05 * base  # larger fleets waste no more
    unguided = images(10)
    assert unguided.job.image is not None
    cheap = replace(unguided, job=replace(unguided.job, image=ImageJob(256, 256, 10, False)))
    assert usd(cheap) < base


def test_without_a_rate_the_cheapest_item_is_sought() -> None:
    found = recommend_items(images(10, rate=None, chips=("h100-sxm",)))
    best = found.options[0]
    assert best.of_items.items_per_s.low < best.of_items.items_per_s.value < best.of_items.items_per_s.high
    assert best.of_items.usd_per_thousand_items.value == pytest.approx(
        best.bill.usd_per_hour / 3600 / best.of_items.items_per_s.value * 1000
    )


def test_own_hardware_is_charged_its_electricity_and_not_exceeded() -> None:
    found = recommend_items(images(10, own=((8, "h100-sxm"),)))
    assert found.options[0].offer is None
    assert found.options[0].bill.usd_per_hour < 5
    with pytest.raises(InfeasibleError):
        recommend_items(images(10, rate=1000.0, own=((8, "h100-sxm"),)))


def test_embeddings_are_served_where_they_are_cheap() -> None:
    job = ItemJob("embed", "tensorrt", texts=Texts(256))
    found = recommend_items(ItemScenario("bge-m3", job, 500.0, 0.2, Constraints(accelerators=CHIPS), DAY))
    assert found.unit == "text"
    assert found.options[0].machine.accelerator in ("l40s", "rtx-4090")
    pairs = ItemJob("rerank", "tensorrt", texts=Texts(256, 64))
    dearer = recommend_items(ItemScenario("bge-m3", pairs, 500.0, 0.2, Constraints(accelerators=CHIPS), DAY))
    assert (
        dearer.options[0].of_items.usd_per_thousand_items.value
        >= found.options[0].of_items.usd_per_thousand_items.value
    )


def test_what_cannot_be_done_is_told() -> None:
    with pytest.raises(InfeasibleError, match="p99 latency of 1 ms") as caught:
        recommend_items(images(10, latency_s=0.001))
    assert "alone takes" in caught.value.why
    wrong = replace(images(10), model="llama-3.1-8b")
    with pytest.raises(AdvisorError, match="no model for"):
        recommend_items(wrong)
    long = ItemJob("embed", "tensorrt", texts=Texts(100_000))
    with pytest.raises(AdvisorError, match="cannot read"):
        item_service(models.by_id("bge-m3"), accelerators.by_id("h100-sxm"), long)


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (recommend_items(images(10, chips=("l40s",))) for _ in range(2))
    assert first.options == second.options


def test_a_ladder_answers_every_load_as_if_it_were_asked_alone() -> None:
    found = recommend_items(replace(images(10, rate=None, latency_s=1.0), ladder_per_s=(1.0, 64.0, 256.0)))
    picks = [rung.option for rung in found.ladder]
    assert picks[2] == found.options[0]
    assert all(pick is not None for pick in picks)
    alone = recommend_items(images(10, rate=64.0, latency_s=1.0)).options[0]
    assert picks[1] == alone
    per_item = [pick.of_items.usd_per_thousand_items.value for pick in picks if pick]
    assert per_item == sorted(per_item, reverse=True)


PRICE = bundled_prices()[0]


def offer(kind: str, days: int, tenancy: str = "dedicated") -> Price:
    day = DAY - datetime.timedelta(days=days)
    return PRICE.model_copy(update={"price_kind": kind, "observed_on": day, "tenancy": tenancy})


def options(*costs: tuple[float, float, str]) -> list[Option]:
    one = recommend_items(images(10, latency_s=1.0)).options[0]
    return [
        replace(
            one,
            rank=rank,
            machine=replace(one.machine, accelerator=f"chip{rank}"),
            performance=replace(one.of_items, usd_per_thousand_items=Quantity(v, v * 0.8, high, basis)),
        )  # type: ignore[arg-type]
        for rank, (v, high, basis) in enumerate(costs, 1)
    ]


SWAPPED = "safe_pick cheapest_if_it_holds"


@pytest.mark.parametrize(
    ("costs", "prices", "order", "roles"),
    [
        # an assumed row gives way to a measured one that may cost no more, and says what it would save
        (((1.0, 1.6, "assumed"), (1.5, 1.9, "modelled")), ("list 9", "list 9"), "21", SWAPPED),
        # not to one that costs more in any case
        (
            ((1.0, 1.1, "assumed"), (1.5, 1.9, "modelled")),
            ("list 9", "list 9"),
            "12",
            "cheapest_if_it_holds safe_pick",
        ),
        # nor does a tracker's price, a shared host's or an old one head the list
        (((1.0, 1.6, "modelled"), (1.5, 1.9, "modelled")), ("tracker 9", "list 9"), "21", SWAPPED),
        (((1.0, 1.6, "modelled"), (1.5, 1.9, "modelled")), ("shared 9", "list 9"), "21", SWAPPED),
        (((1.0, 1.6, "modelled"), (1.5, 1.9, "modelled")), ("list 600", "list 9"), "21", SWAPPED),
        # what is safe and cheapest stays
        (((1.0, 1.6, "modelled"), (1.5, 1.9, "modelled")), ("list 9", "list 9"), "12", "safe_pick other"),
    ],
)
def test_what_is_assumed_or_foreign_heads_no_list(costs, prices, order, roles) -> None:
    sold = [
        offer("list" if kind == "shared" else kind, int(days), "shared" if kind == "shared" else "dedicated")
        for kind, days in (text.split() for text in prices)
    ]
    made = [
        replace(option, reasons=doubts_of(basis, price, DAY))
        for option, (_, _, basis), price in zip(options(*costs), costs, sold, strict=True)
    ]
    found = order_by_trust(made, sold, lambda option: option.of_items.usd_per_thousand_items, DAY)
    assert "".join(option.machine.accelerator.removeprefix("chip") for option in found) == order
    assert " ".join(option.role for option in found) == roles
    assert [option.rank for option in found] == [1, 2]
    words = safe_pick_words(found, lambda option: option.of_items.usd_per_thousand_items)
    doubt = "it holds: try" if costs[0][2] == "assumed" else "its price still stands: ask about"
    assert (f"saves 33 % if {doubt} it first" in words) == ("cheapest" in roles)


def test_what_may_miss_its_limit_heads_no_list() -> None:
    """An item that may miss its limit gives way to what is likely to keep the limit and may cost no more."""
    first, second = options((1.0, 1.6, "modelled"), (1.5, 1.9, "modelled"))
    sold = [offer("list", 9)] * 2
    bold = replace(first, reasons=(MayNotHold(0.6),))
    found = order_by_trust([bold, second], sold, lambda option: option.of_items.usd_per_thousand_items, DAY)
    assert [option.role for option in found] == ["safe_pick", "cheapest_if_it_holds"]
    words = safe_pick_words(found, lambda option: option.of_items.usd_per_thousand_items)
    assert "saves 33 % if it holds: try it first" in words


def test_the_first_option_can_be_paid_where_a_firm_price_may_cost_no_more() -> None:
    """The cheapest offers of images are undated and a tracker's: beside them stands what a seller lists today."""
    job = ItemJob("diffusion", "torch-compile", image=ImageJob(1024, 1024, 28, False), max_batch=8)
    chips = ("h100-sxm", "gh200-96gb", "mi355x")
    found = recommend_items(
        ItemScenario("flux.1-dev", job, 10.0, 10.0, Constraints(accelerators=chips), DAY, top=2)
    ).options
    first = found[0]
    cheapest = min(found, key=lambda option: option.bill.usd_per_hour)
    assert (first.role, cheapest.role) == ("safe_pick", "cheapest_if_it_holds")
    assert first.offer.kind in ("list", "quote")
    assert first.bill.usd_per_hour > cheapest.bill.usd_per_hour
    assert len({option.machine.accelerator for option in found}) == len(found) == 2


def test_a_safe_offer_that_costs_more_in_any_case_is_named_beside() -> None:
    """An old price of half the fresh one is not hidden by it, and the fresh one is named."""
    job = ItemJob("rerank", "torch-compile", texts=Texts(512, 32), max_batch=8)
    sold = Constraints(accelerators=("l40s",), providers=("novita", "runpod"))
    found = recommend_items(ItemScenario("bge-m3", job, 0.2, 2000.0, sold, DAY, top=3))
    assert [(each.offer.provider, each.role) for each in (*found.options, found.safe_pick)] == [
        ("novita", "cheapest_if_it_holds"),
        ("runpod", "safe_pick"),
    ]
    words = safe_pick_words(
        found.options, lambda option: option.of_items.usd_per_thousand_items, found.safe_pick
    )
    assert words == (
        "the safe pick is 1 x l40s from runpod for $1.09/h, which costs 1.98 times as "
        "much as 1; 1 is the cheapest if its price still stands."
    )


JOBS = [
    ("bge-m3", ItemJob("embed", "tensorrt", texts=Texts(300))),
    ("bge-m3", ItemJob("rerank", "tensorrt", texts=Texts(300, 20))),
    ("whisper-large-v3", ItemJob("speech", "torch-compile", tokens_per_segment=90.0)),
    ("flux.1-dev", ItemJob("diffusion", "torch-compile", image=ImageJob(512, 768, 21, False))),
]


@pytest.mark.parametrize(("model", "job"), JOBS, ids=[job.workload for _, job in JOBS])
def test_what_the_engine_cannot_run_on_is_not_ranked(model, job):
    """An option without a start command does not win against options that have one."""
    scenario = ItemScenario(model, job, 2.0, 20.0, Constraints(), DAY, top=50)
    found = recommend_items(scenario)
    lacking = {
        option.machine.accelerator: option.launch
        for option in found.options
        if isinstance(option.launch, Reason)
    }
    assert not lacking or len({str(reason) for reason in lacking.values()}) == 1
    assert len(lacking) in (0, len(found.options))
    reasons = {item.accelerator: item.reason for item in found.rejected}
    if job.workload != "diffusion":
        assert isinstance(reasons["v100-sxm2-16gb"], NoKernels)


def test_the_size_of_an_item_is_said() -> None:
    for (_, job), numbers in zip(JOBS, ("300", "300 20", "30 90", "512 768 21"), strict=True):
        assert re.findall(r"\d+", job.size_words) == numbers.split()
