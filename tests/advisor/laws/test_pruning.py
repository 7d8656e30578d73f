"""Pruning offers changes no answer, and the least budget that a refusal names is the least."""

import re
import shlex
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from asking import Reply, ask, expected_usd, leaves, with_option
from questions import DAYS, IS_THOROUGH, QUESTIONS, REGIONS, USUAL_USD, Row, price_file

from advisor.decide import race
from advisor.decide.batch import recommend as batch
from advisor.decide.items import recommend as items

Pruning = Callable[..., tuple[Any, ...]]
KINDS = ("l40s", "rtx-4090", "h100-sxm")
TERMS = ("on_demand", "on_demand", "on_demand", "spot")
WORK = (
    "recommend --model 8b --rate {rate} --engine vllm --precision fp8 --levers none",
    "recommend --model 8b --concurrency {clients} --engine vllm --precision fp8 --levers none",
    "recommend --model 8b --budget {budget}/h --engine vllm --precision fp8 --levers none",
    "recommend --model 8b --rate {rate} --budget {budget}/h --engine vllm --precision fp8 --levers none",
    "cost --model 8b --rate {rate} --engine vllm --precision fp8 --levers none --api none",
    "recommend --workload batch --model 8b --items 40k --deadline 4h --engine vllm --precision fp8",
    "recommend --workload batch --model 8b --items 40k --deadline 4h --engine vllm --budget {budget}/h",
    "recommend --workload speech --model whisper-large-v3 --rate {clients}",
    "recommend --workload speech --model whisper-large-v3 --rate {clients} --budget {budget}/h",
    "recommend --workload finetune --model 8b --method lora --tokens 20M --deadline 12h",
)
ONLY_A_BUDGET = 2
"""Place of the question that has a budget and no load."""
NUMBER = QUESTIONS or 2 * len(WORK)
"""Generated markets; each is asked about one kind of work."""


def rows_of(random: Random) -> tuple[Row, ...]:
    """Three to nine offers of each of two accelerators: prices, ages, places, terms, orders, storage and egress."""
    found = []
    for name in random.sample(KINDS, 2):
        for number in range(random.randint(3, 9)):
            size = random.choice((1, 1, 1, 2, 4, 8))
            usd = USUAL_USD[name] * random.uniform(0.75, 1.35) * size
            least = random.choice(("", "", "", str(2 * size)))
            found.append(
                Row(
                    f"{random.choice(('acme', 'bolt', 'crest'))}{number}",
                    name,
                    size,
                    usd,
                    random.choice(DAYS),
                    random.choice(("list", "quote", "tracker")),
                    random.randrange(len(REGIONS)),
                    random.choice(TERMS),
                    (
                        least,
                        random.choice(("", "", str(8 * size))),
                        f"{random.uniform(0.0, 3e-4):.2g}",
                        random.choice(("", "0", f"{random.uniform(0.0, 0.1):.2g}")),
                    ),
                )
            )
    return tuple(found)


def question_of(seed: int) -> str:
    """Words of a question about a market of its own."""
    random = Random(seed)
    rows = rows_of(random)
    budget = f"{random.uniform(0.5, 6.0):.2f}"
    rate = f"{10.0 ** random.uniform(-0.3, 1.2):.2g}"
    clients = str(random.randint(1, 90))
    words = WORK[seed % len(WORK)].format(rate=rate, clients=clients, budget=budget)
    kinds = ",".join(sorted({row.accelerator for row in rows}))
    sellers = ",".join(sorted({row.provider for row in rows}))
    terms = " --term spot,on-demand" if random.random() < 0.3 else ""
    if random.random() < 0.5 and "finetune" not in words:
        words += f" --storage-tb {random.choice((1, 5))} --egress-tb {random.choice((1, 10))}"
    return f"{words} --gpu {kinds} --provider {sellers} --price-file {price_file(rows)}{terms}"


def keep_all(ways: Any, *_: Any) -> tuple[Any, ...]:
    return tuple(ways)


def facts_of(answer: Reply) -> list[tuple[str, Any]]:
    """All that an answer says, but for how many candidates were counted on the way to it."""
    if answer.code:
        return [("refusal", answer.err)]
    result = {name: each for name, each in answer.result.items() if name != "counts"}
    return list(leaves(result))


@pytest.fixture
def without_pruning(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Reply]:
    """Asks a question while every offer is looked at."""

    def ask_all(words: str) -> Reply:
        with monkeypatch.context() as patch:
            for module in (race, batch, items):
                patch.setattr(module, "pareto_placements", keep_all)
            return ask.__wrapped__(words)

    return ask_all


@pytest.mark.parametrize("seed", range(NUMBER))
def test_pruning_changes_no_answer(seed: int, without_pruning: Callable[[str], Reply]) -> None:
    words = question_of(seed)
    short = ask(words)
    whole = without_pruning(words)
    if seed % len(WORK) != ONLY_A_BUDGET:
        assert facts_of(short) == facts_of(whole), words
        return
    # Of two offers that buy the same units within a budget, the fresher one is taken, and pruning leaves the one that
    # costs less as read and as expected.
    assert short.code == whole.code
    for each, other in zip(short.options, whole.options, strict=True):
        assert (
            each["performance"]["requests_per_s"]["value"] >= other["performance"]["requests_per_s"]["value"]
        )
        assert each["bill"]["usd_per_hour"] <= other["bill"]["usd_per_hour"]


def least_machines_usd(answer: Reply) -> float:
    """Lowest expected cost of machines among options and variants [USD/h], of a job its dollars: offers are compared by
    that, and storage and egress are paid besides."""
    return min(expected_usd(take) * machines_part(take) for take in answer.takes)


def machines_part(take: dict[str, Any]) -> float:
    """Machines' part of a bill, of a job of its dollars."""
    bill = take["bill"]
    unit = "usd_per_month" if bill["usd"] is None else "usd"
    lines = [float(line[unit]) for line in bill["lines"]]
    return lines[0] / sum(lines)


@pytest.mark.parametrize("seed", [seed for seed in range(NUMBER) if seed % len(WORK) != ONLY_A_BUDGET])
def test_a_fresher_price_never_hides_a_cheaper_card(seed: int) -> None:
    """Whatever one seller alone would answer, the answer about all of them costs no more.

    A budget without a load is spent whole, and has laws of its own.
    """
    words = question_of(seed)
    sellers = shlex.split(words)[shlex.split(words).index("--provider") + 1].split(",")
    together = ask(words)
    for seller in sellers[:: 1 if IS_THOROUGH else 4]:
        alone = ask(with_option(words, f"--provider {seller}"))
        if alone.code == 0:
            assert together.code == 0, (words, seller)
            assert least_machines_usd(together) <= 1.01 * least_machines_usd(alone), (words, seller)


def refused_budget(seed: int) -> str:
    """Words of a question whose budget buys nothing."""
    random = Random(seed)
    words = WORK[(3, 6, 8, 3)[seed % 4]]
    rate = f"{10.0 ** random.uniform(0.0, 1.2):.2g}"
    words = words.format(rate=rate, clients=random.randint(1, 90), budget="0.05")
    rows = rows_of(random)
    kinds = ",".join(sorted({row.accelerator for row in rows}))
    sellers = ",".join(sorted({row.provider for row in rows}))
    if random.random() < 0.5:
        words += f" --storage-tb {random.choice((1, 5))} --egress-tb {random.choice((1, 10))}"
    return f"{words} --gpu {kinds} --provider {sellers} --price-file {price_file(rows)}"


@pytest.mark.parametrize("seed", range(NUMBER))
def test_the_least_budget_that_a_refusal_names_is_the_least(seed: int) -> None:
    words = refused_budget(seed)
    refused = ask(words)
    assert refused.code == 3, refused.err
    named = re.search(r"--budget ([\d.]+)/h", refused.err)
    if named is None:
        return
    least = float(named[1])
    assert ask(with_option(words, f"--budget {least:.2f}/h")).code == 0, words
    assert ask(with_option(words, f"--budget {least - 0.01:.2f}/h")).code == 3, words
