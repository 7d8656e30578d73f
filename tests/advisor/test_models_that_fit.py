"""`advisor recommend` without a model: what a machine or a budget serves, by published quality."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.model_quality import read_quality

Cli = Callable[[str], Any]


def ask(cli: Cli, options: str) -> dict[str, Any]:
    return cli(f"advisor recommend {options} --json").document()


def test_every_score_is_of_a_model_of_the_catalog_and_has_a_source() -> None:
    for model, quality in read_quality().items():
        assert model in models.all_ids()
        assert quality.source
        assert 0 < quality.score_percent <= 100


def test_models_with_a_score_come_first_by_their_score(cli: Cli) -> None:
    found = ask(cli, "--own 8xh100-sxm --top 20")["models"]
    scores = [one["quality"]["score_percent"] if one["quality"] else None for one in found]
    known = [score for score in scores if score is not None]
    assert known == sorted(known, reverse=True)
    assert scores == known + [None] * (len(scores) - len(known))
    assert all(one["quality"]["source"] for one in found if one["quality"])


def test_what_is_listed_fits_when_it_is_asked_alone(cli: Cli) -> None:
    for one in ask(cli, "--own 1xrtx-4090 --top 4")["models"]:
        run = cli(
            f"advisor memory --model {one['model']} --gpu {one['accelerator']} --tp {one['tensor_parallel']} "
            f"--engine {one['engine']} --precision {one['weight_dtype']} --context 2048 --json"
        )
        assert run.code == 0, run.err
        assert json.loads(run.out)["fits"] is True


def test_a_budget_is_kept_and_a_larger_one_fits_no_fewer(cli: Cli) -> None:
    small = ask(cli, "--budget 1/h")
    large = ask(cli, "--budget 10/h")
    assert all(one["usd_per_hour"] <= 1.0 for one in small["models"])
    assert large["num_models_that_fit"] >= small["num_models_that_fit"] > 0


def test_a_larger_machine_fits_no_fewer(cli: Cli) -> None:
    numbers = [ask(cli, f"--own {count}xrtx-4090 --top 1")["num_models_that_fit"] for count in (1, 2, 4)]
    assert numbers == sorted(numbers)


def test_owned_accelerators_hold_a_model_together_in_the_widest_format_they_can(cli: Cli) -> None:
    widths = {}
    for count in (1, 2, 4):
        found = ask(cli, f"--own {count}xrtx-3090 --top 5")["models"]
        widths[count] = {one["model"]: bytes_per_element(one["weight_dtype"]) for one in found}
    for few, more in ((1, 2), (2, 4)):
        both = widths[few].keys() & widths[more].keys()
        assert all(widths[few][name] <= widths[more][name] for name in both)
    assert widths[2]["qwen3.5-27b"] == bytes_per_element("fp8")


@pytest.mark.parametrize("machine", ["strix-halo-8060s", "m4-max-64gb", "rtx-4090", "rtx-3060-12gb"])
def test_an_owned_machine_answers_fluently_or_with_the_fewest_bits(cli: Cli, machine: str) -> None:
    """A model of 27B in 16 bits fits a Strix Halo, and answers with three tokens a second."""
    for one in ask(cli, f"--own 1x{machine} --top 5")["models"]:
        is_fluent = one["output_tokens_per_s"]["value"] >= 20.0
        assert is_fluent or bytes_per_element(one["weight_dtype"]) <= bytes_per_element("q4_k_m")


def test_a_machine_of_one_s_own_is_not_given_up_for_the_format_of_an_engine(cli: Cli) -> None:
    run = cli("advisor recommend --model qwen2.5-32b --own 1xrtx-3090 --concurrency 1 --engine llama.cpp")
    assert run.code == 3
    assert "--precision q4_k_m" in run.err
    assert "--own" not in run.err


def test_a_use_case_leaves_out_models_that_are_too_slow_for_it(cli: Cli) -> None:
    document = ask(cli, "--budget 5/h --use-case code")
    assert document["inputs"]["traffic"]["profile"] == "code"
    assert all(one["output_tokens_per_s"]["value"] >= 1.0 / 0.040 for one in document["models"])


def test_a_tighter_objective_lists_some_of_the_same_models(cli: Cli) -> None:
    loose, tight = (
        {one["model"] for one in ask(cli, f"--own 1xrtx-4090 --tpot-p99 {limit} --top 40")["models"]}
        for limit in ("100ms", "10ms")
    )
    assert tight < loose


def test_a_faster_machine_is_taken_where_the_cheapest_is_too_slow(cli: Cli) -> None:
    machines = [
        next(
            (one["accelerator"], one["num_accelerators"])
            for one in ask(cli, f"--budget 10/h --tpot-p99 {limit} --top 40")["models"]
            if one["model"] == "qwen3.5-27b"
        )
        for limit in ("100ms", "15ms")
    ]
    assert machines[0] != machines[1]


@pytest.mark.parametrize(
    ("load", "question"),
    [
        ("--own 2xrtx-4090 --rate 2", "--own 2xrtx-4090 --rate 2"),
        (
            "--users 100k --use-case chatbot --gpu h100 --fast",
            "--users 100k --use-case chatbot --gpu h100 --fast",
        ),
        ("--concurrency 8 --budget 3/h --gpu l40s", "--concurrency 8 --budget 3/h --gpu l40s"),
    ],
)
def test_a_row_is_the_answer_about_its_model(cli: Cli, load: str, question: str) -> None:
    found = ask(cli, f"{load} --top 2")["models"]
    assert len(found) == 2
    for one in found:
        alone = ask(cli, f"{question} --model {one['model']} --top 1")["options"][0]
        for field in ("machine", "layout", "bill", "performance", "offer"):
            assert one["option"][field] == alone[field], field


def test_models_for_a_load_come_by_their_score(cli: Cli) -> None:
    found = ask(cli, "--users 1000 --use-case chatbot --gpu l40s,h100 --fast --top 4")["models"]
    scores = [one["quality"]["score_percent"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert len({one["model"] for one in found}) == 4


def test_a_page_says_that_quality_is_unknown(cli: Cli) -> None:
    run = cli("advisor recommend --own 1xrtx-3060-12gb --top 60")
    assert "unknown" in run.out
    assert "says nothing of their quality" in run.out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("", 2, "no model is named"),
        ("--own 1xno-such-card", 2, "no-such-card"),
        ("--own 1xrtx-4090 --headroom 0.1", 2, "--headroom says nothing without a model"),
        ("--own 1xrtx-4090 --rate 1 --emit docker", 2, "--emit needs a model"),
        ("--own 1xrtx-4090 --rate 1000000", 3, "no model of the catalog carries this load"),
        ("--budget 5", 2, "budget"),
        ("--budget 0.0001/h", 3, "no model of the catalog fits"),
        ("--own 1xl4 --tpot-p99 0.1ms", 3, "meets the objectives"),
    ],
)
def test_bad_questions_are_refused(cli: Cli, options: str, code: int, said: str) -> None:
    run = cli(f"advisor recommend {options}")
    assert run.code == code, run.out + run.err
    assert said in run.err
    assert "Traceback" not in run.err
