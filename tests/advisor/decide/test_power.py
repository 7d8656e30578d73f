"""Power limits as a lever: which are tried, what they cost and save, and that files and commands set them."""

import datetime
import functools
import io
import json
import shlex
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, get_args

import pytest

from advisor.__main__ import main
from advisor.catalog import accelerators
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import ownership
from advisor.catalog.schema.accelerator import PowerPoint
from advisor.decide.power import limits_of, rate_factors, with_power_limit
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Scenario, Traffic
from advisor.emit.formats import Format, emit_files

Cli = Callable[[str], Any]
ASK = "recommend --model 8b --engine vllm --precision fp8 --max-gpus 1 --as-of 2026-11-20 --own 8xl40s"
SWEPT = tuple(
    PowerPoint(
        limit_w=watts, matmul_flop_per_s=flop, matmul_w=watts, bandwidth_bytes_per_s=read, bandwidth_w=150
    )
    for watts, flop, read in ((150, 1.2e14, 7e11), (250, 2.6e14, 8.4e11), (350, 3e14, 8.6e11))
)


@pytest.mark.parametrize(
    ("chip", "name", "limits"),
    [
        ("a100-sxm-80gb", "power-cap", (360, 320, 280)),
        ("a100-sxm-80gb", "power-cap:300W", (300,)),
        ("h100-sxm", "power-cap:80%", (560,)),
        ("rtx-5080", "power-cap", (324, 300)),  # its driver takes no less than 83.4 %
    ],
)
def test_limits_are_shares_of_rated_power_that_the_driver_takes(
    chip: str, name: str, limits: tuple[float, ...]
) -> None:
    assert limits_of(accelerators.by_id(chip), name) == limits


def test_a_sweep_says_which_limits_there_are_and_what_they_leave() -> None:
    chip = accelerators.by_id("l40s").model_copy(update={"power_points": SWEPT})
    assert limits_of(chip) == (250, 150)
    assert rate_factors(chip) == (1.0, 1.0)
    held = with_power_limit(chip, 150)
    assert held.tdp_w == 150
    assert held.peak_flop_per_s["bf16"] == pytest.approx(0.4 * chip.peak_flop_per_s["bf16"])
    with pytest.raises(InfeasibleError, match="100 W is no power limit"):
        limits_of(chip, "power-cap:100W")


@pytest.mark.parametrize("chip", ["mi300x", "gb10", "m4-max-40-core"])
def test_boards_that_nothing_limits_are_refused(chip: str) -> None:
    with pytest.raises(InfeasibleError, match="no power limit"):
        limits_of(accelerators.by_id(chip))


def test_a_limit_below_what_was_measured_is_refused_with_the_nearest(cli: Cli) -> None:
    run = cli(f"advisor {ASK} --rate 1 --levers power-cap:100W")
    assert run.code != 0
    fix = next(line for line in run.err.splitlines() if "To fix" in line)
    watts = fix.split()[2].rstrip(",W")
    assert limits_of(accelerators.by_id("l40s"), f"power-cap:{watts}W") == (245,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model 8b --rate 1 --gpu l40s --levers power-cap", "may seldom set"),
        ("--models 8b@1,70b@1 --own 8xh100-sxm --levers power-cap", "share its limit"),
        ("--model 8b --rate 1 --own 8xl40s --profile agent --levers power-cap,split", "exclude each other"),
        ("--model 8b --rate 1 --own 8xl40s --levers power-cap:120%", "not a share"),
        ("--model 8b --rate 1 --own 8xl40s --levers power-cap:abc", "not a power"),
        ("--model 8b --rate 1 --own 8xmi300x --levers power-cap", "no power limit"),
    ],
)
def test_what_cannot_be_limited_is_refused(cli: Cli, words: str, said: str) -> None:
    run = cli(f"advisor recommend {words}")
    assert run.code != 0
    assert said in run.err
    assert "To fix:" in run.err


@functools.cache
def ask(words: str) -> dict[str, Any]:
    out = io.StringIO()
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(shlex.split(f"{ASK} {words} --json")) == 0, err.getvalue()
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def usd_of_power(watts: float) -> float:
    """Electricity of boards that draw this power [USD/h]."""
    return ownership(datetime.date(2026, 11, 20)).energy_usd_per_hour(watts)


def test_a_limit_saves_and_costs_what_is_said(cli: Cli) -> None:
    plain, held = (ask(f"--rate 6 --levers {levers}")["options"][0] for levers in ("none", "power-cap"))
    assert held["machine"]["power_limit_w"] == 245
    assert plain["machine"]["power_limit_w"] is None
    drawn = [one["performance"]["power_w"]["value"] for one in (plain, held)]
    saved = plain["bill"]["usd_per_hour"] - held["bill"]["usd_per_hour"]
    assert 0 < saved == pytest.approx(usd_of_power(drawn[0] - drawn[1]))
    assert saved < usd_of_power(held["machine"]["num_accelerators"] * (350.0 - 245.0))
    # A prediction under a limit that nobody measured is less sure.
    wide, narrow = (
        one["performance"]["tpot_s"]["p50"]["high"] / one["performance"]["tpot_s"]["p50"]["low"]
        for one in (held, plain)
    )
    assert wide > narrow
    args = shlex.join(held["launch"]["simulate_args"])
    assert "--power-cap 245W" in args
    run = json.loads(cli(f"advisor simulate serve {args} --json").out)
    again = run["metrics"]["tpot_s"]["p50"]["value"]
    assert again == held["performance"]["tpot_s"]["p50"]["value"]


def test_a_power_limit_is_compared_with_full_power() -> None:
    (trial,) = ask("--rate 6 --levers power-cap")["changes"]
    assert trial["verdict"] == "applied"
    assert trial["name"] == "power-cap:245W"
    assert trial["tpot_p99_s"]["before"] < trial["tpot_p99_s"]["after"]
    saved = trial["usd_per_hour"]["before"] - trial["usd_per_hour"]["after"]
    assert f"boards draw {saved / usd_of_power(1.0):,.0f} W less" in trial["note"]


def test_auto_tries_the_lowest_limit_that_holds() -> None:
    found = ask("--rate 5")
    (trial,) = (each for each in found["changes"] if each["name"].startswith("power-cap"))
    assert found["options"][0]["machine"]["power_limit_w"] is None
    assert trial["verdict"] == "cheaper"
    hourly = trial["usd_per_hour"]
    before = found["options"][0]
    assert hourly["before"] == pytest.approx(before["bill"]["usd_per_hour"])
    assert 0.5 * hourly["before"] < hourly["after"] < hourly["before"]
    cost = trial["usd_per_million_tokens"]
    assert cost["after"] / cost["before"] == pytest.approx(hourly["after"] / hourly["before"])


def test_a_power_budget_feeds_more_boards_that_draw_less() -> None:
    few, more = (
        ask(f"--fast --power-budget 1.5kW --levers {levers}")["options"][0]
        for levers in ("none", "power-cap")
    )
    assert (few["machine"]["num_accelerators"], more["machine"]["num_accelerators"]) == (3, 5)
    assert (
        more["performance"]["requests_per_s"]["value"] > 1.2 * few["performance"]["requests_per_s"]["value"]
    )
    assert (
        ask("--rate 1 --power-budget 300W --levers power-cap")["options"][0]["machine"]["num_accelerators"]
        == 1
    )


def test_files_set_the_limit() -> None:
    scenario = Scenario(
        model="llama-3.1-8b",
        traffic=Traffic(mean_input_tokens=300, mean_output_tokens=50, rate_per_s=20.0),
        constraints=Constraints(
            own=((8, "l40s"),), engines=("vllm",), precisions=("fp8",), max_accelerators=1
        ),
        as_of=datetime.date(2026, 11, 20),
        levers=("power-cap:80%",),
    )
    option = recommend(scenario, whole=False).options[0]
    for form in get_args(Format):
        files = emit_files("llama-3.1-8b", option, form)
        assert "nvidia-smi --power-limit=280\n" in files.pop("power.sh")
        assert "sudo bash power.sh on each machine" in files.pop("README.md")
        assert files
        assert all("power.sh holds its boards to 280 W" in text for text in files.values())
