"""Context windows: each gets a real answer, a larger one never costs less, and nobody reads beyond the model's."""

import datetime
from itertools import pairwise
from typing import Any

import pytest

from advisor.catalog.errors import InfeasibleError
from advisor.decide.reason import WindowTooSmall
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Scenario, Traffic

DAY = datetime.date(2026, 11, 20)


def scenario(*windows: int, model: str = "llama-3.1-8b", **more: Any) -> Scenario:
    gpus = more.pop("gpus", ("rtx-4090", "l40s"))
    return Scenario(
        model=model,
        traffic=Traffic(
            mean_input_tokens=1000, mean_output_tokens=200, input_sigma=0.5, output_sigma=0.5, rate_per_s=1.0
        ),
        constraints=Constraints(accelerators=gpus),
        as_of=DAY,
        max_contexts=windows,
        levers=("none",),
        top=2,
        **more,
    )


def test_every_window_gets_a_deployment_that_holds_it_or_a_reason() -> None:
    found = recommend(scenario(16_000, 100_000, 131_072, 200_000))
    small, large, whole, beyond = found.contexts
    for tier in (small, large, whole):
        assert not tier.needs_rope_scaling
        assert tier.option is not None
        assert tier.option.explained.kv_capacity_tokens >= tier.max_context_tokens
        assert tier.requests_at_once is not None
        assert tier.requests_at_once >= 1
        assert tier.max_context_tokens <= limit_of(tier.option.started.argv)
    assert (beyond.option, beyond.reason) == (None, WindowTooSmall("llama-3.1-8b", 131_072))
    assert whole.option is not None
    assert whole.option.machine.accelerator == found.options[0].machine.accelerator
    assert whole.option.bill.usd_per_hour == found.options[0].bill.usd_per_hour


@pytest.mark.parametrize(
    ("engine", "model", "gpus", "windows"),
    [
        ("tensorrt-llm", "llama-3.1-8b", ("l40s",), (16_000, 100_000)),
        ("tensorrt-llm", "llama-3.1-70b", ("h200-sxm",), (32_000, 128_000)),
        ("sglang", "qwen3-32b", ("h100-sxm", "l40s"), (16_000, 128_000)),
        ("vllm", "llama-3.1-8b", ("rtx-4090", "l40s"), (4_000, 60_000)),
        ("llama.cpp", "llama-3.1-8b", ("rtx-4090", "a100-sxm-80gb"), (8_000, 64_000)),
    ],
)
def test_a_window_asked_with_others_answers_as_alone(
    engine: str, model: str, gpus: tuple[str, ...], windows: tuple[int, ...]
) -> None:
    """An engine that processes prompts whole has the token budget of its own window, not that of the largest."""
    limits = Constraints(accelerators=gpus, engines=(engine,))

    def tiers(*asked: int) -> list[Any]:
        found = recommend(scenario(*asked, model=model).model_copy(update={"constraints": limits})).contexts
        return [
            (
                tier.max_context_tokens,
                tier.requests_at_once,
                tier.first_token_s,
                tier.option and (tier.option.machine, tier.option.layout, tier.option.bill.usd_per_hour),
            )
            for tier in found
        ]

    together = tiers(*windows)
    assert together[:1] == tiers(windows[0])
    assert together[-1:] == tiers(windows[-1])


def limit_of(argv: tuple[str, ...]) -> int:
    names = ("--max-model-len", "--context-length", "--max_seq_len")
    return next(int(value) for name, value in pairwise(argv) if name in names)


def test_a_larger_window_never_costs_less_and_its_first_token_comes_later() -> None:
    tiers = recommend(scenario(4_000, 32_000, 120_000)).contexts
    costs = [tier.option.bill.usd_per_hour for tier in tiers if tier.option]
    times = [tier.first_token_s for tier in tiers if tier.first_token_s]
    assert len(costs) == len(times) == 3
    assert costs == sorted(costs)
    assert times == sorted(times)


def test_the_models_own_scaling_is_stated() -> None:
    found = recommend(scenario(32_000, 100_000, model="qwen3-8b", gpus=("l40s",)))
    assert [tier.needs_rope_scaling for tier in found.contexts] == [False, True]
    assert any("beyond 40,960 tokens qwen3-8b needs the scaling" in note for note in found.notes)


@pytest.mark.parametrize(
    ("windows", "fix"),
    [((200_000, 1_000_000), "--max-context 131072 or less"), ((500, 900), "--max-context 1200 or more")],
)
def test_windows_that_nothing_serves_name_the_nearest(windows: tuple[int, ...], fix: str) -> None:
    with pytest.raises(InfeasibleError) as refused:
        recommend(scenario(*windows))
    assert fix in str(refused.value.fix)
