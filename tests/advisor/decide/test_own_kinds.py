"""Own boards of several kinds together: what they carry, what a power budget allows, and what is refused."""

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[[str], Any]
OWN = "advisor recommend --model 8b --engine vllm --levers none --precision fp8 --as-of 2026-11-20 --own 2xl4,2xl40s"
SERVE = "advisor simulate serve --model 8b --gpu l40s --precision fp8 --rate 5 --requests 400"


def kinds_of(option: dict[str, Any]) -> dict[str, int]:
    """Number of boards of each kind."""
    parts = option["parts"] or [option]
    return {part["machine"]["accelerator"]: part["machine"]["num_accelerators"] for part in parts}


def test_a_small_board_helps_where_a_second_large_one_would_idle(cli: Cli) -> None:
    options = json.loads(cli(f"{OWN} --rate 6 --json").out)["options"]
    first, second = options
    assert kinds_of(first) == {"l4": 1, "l40s": 1}
    assert kinds_of(second) == {"l40s": 2}
    assert first["bill"]["usd_per_hour"] < second["bill"]["usd_per_hour"]
    shares = [part["share_fraction"] for part in first["parts"]]
    assert sum(shares) == pytest.approx(1.0)
    assert first["performance"]["power_w"]["value"] < second["performance"]["power_w"]["value"]
    args = shlex.join(first["launch"]["simulate_args"])
    again = json.loads(cli(f"advisor simulate serve {args} --json").out)["metrics"]
    assert again["tpot_s"]["p99"] == first["performance"]["tpot_s"]["p99"]


def test_alternatives_never_serve_together(cli: Cli) -> None:
    """A or B: each is an option of its own, and a load that both would carry together is refused."""
    either = OWN.replace("2xl4,2xl40s", "'2xl4 or 1xl40s'")
    assert [kinds_of(one) for one in json.loads(cli(f"{either} --rate 1 --json").out)["options"]] == [
        {"l4": 1},
        {"l40s": 1},
    ]
    together = OWN.replace("2xl4,2xl40s", "2xl4,1xl40s")
    assert cli(f"{together} --rate 6").code == 0
    assert cli(f"{either} --rate 6").code == 3


def test_a_power_budget_holds_for_all_kinds_together(cli: Cli) -> None:
    run = cli(f"{OWN} --rate 12.3 --power-budget 0.5kW")
    assert run.code == 3
    assert cli(f"{OWN} --rate 12.3 --power-budget 1.2kW").code == 0


def test_more_than_all_kinds_carry_is_told_with_what_they_do(cli: Cli) -> None:
    run = cli(f"{OWN} --rate 20")
    assert run.code == 3
    told = float(run.err.split("--rate ")[1].split()[0].rstrip(","))
    assert 12.3 < told < 20.0
    assert cli(f"{OWN} --rate {told}").code == 0


def test_a_budget_buys_what_a_load_costs(cli: Cli) -> None:
    bought = json.loads(cli(f"{OWN} --budget 0.14/h --json").out)["options"][0]
    assert kinds_of(bought) == {"l4": 2, "l40s": 1}
    assert bought["bill"]["usd_per_hour"] <= 0.14
    # A capacity is up to 2 % off where it is led on from a load that was tried, in either question.
    carried = 0.96 * bought["performance"]["requests_per_s"]["value"]
    asked = json.loads(cli(f"{OWN} --rate {carried:.4g} --json").out)["options"][0]
    assert asked["bill"]["usd_per_hour"] <= bought["bill"]["usd_per_hour"]


def test_kinds_that_are_tried_alone_are_told(cli: Cli) -> None:
    run = cli(f"{OWN} --concurrency 100")
    assert run.code == 0
    assert "each kind of own boards is tried alone" in run.err
    refused = cli(f"{OWN} --concurrency 300 --ttft-p99 2s")
    assert refused.code == 3
    assert "a --rate or a --budget" in refused.err


def test_cost_takes_one_kind_and_says_why(cli: Cli) -> None:
    run = cli("advisor cost --model 8b --rate 6 --own 2xl4,2xl40s")
    assert run.code == 2
    assert "why:" in run.err
    assert "advisor recommend --own 2xl4,2xl40s" in run.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--other-replicas share=0:gpu=l4", "each kind needs a share above 0"),
        ("--other-replicas share=0.6:gpu=l4,share=0.5:gpu=t4", "each kind needs a share above 0"),
        ("--other-replicas gpu=l4", "each kind needs a share above 0"),
        ("--other-replicas share=some:gpu=l4", "is not a number"),
        ("--other-replicas shore=0.4", "share=VALUE"),
        ("--other-replicas share=0.4 --long-prompts from=4000", "exclude each other"),
        ("--other-replicas share=0.4 --prefill-workers 1 --decode-workers 1", "exclude each other"),
    ],
)
def test_other_replicas_need_a_share(cli: Cli, words: str, said: str) -> None:
    run = cli(f"{SERVE} {words}")
    assert run.code == 2
    assert said in run.err
    assert "To fix:" in run.err
