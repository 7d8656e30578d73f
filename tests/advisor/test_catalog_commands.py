"""`advisor catalog`: filters, order, one record in full, and what a wrong name gets."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.models import all_models

Cli = Callable[[str], Any]
Golden = Callable[[str, str], None]


def listing(cli: Cli, command: str, key: str) -> list[dict[str, Any]]:
    run = cli(f"advisor catalog {command} --json")
    assert run.code == 0, run.err
    rows: list[dict[str, Any]] = json.loads(run.out)[key]
    return rows


def test_gpus_lists_every_accelerator(cli: Cli) -> None:
    rows = listing(cli, "gpus", "accelerators")
    assert [row["id"] for row in rows] == [record.id for record in all_accelerators()]


def test_models_lists_every_model(cli: Cli) -> None:
    assert len(listing(cli, "models", "models")) == len(all_models())


@pytest.mark.parametrize(
    ("filters", "keeps"),
    [
        ("--vendor amd", lambda row: row["vendor"] == "amd"),
        ("--family hopper", lambda row: row["architecture"] == "hopper"),
        ("--engine tensorrt-llm", lambda row: "tensorrt-llm" in row["engines"]),
        ("--min-memory 100GB", lambda row: (row["memory_bytes"] or 0) >= 100e9),
        (
            "--vendor nvidia --min-memory 0.1TB",
            lambda row: row["vendor"] == "nvidia" and row["memory_bytes"] >= 1e11,
        ),
    ],
)
def test_a_filter_keeps_all_that_passes_and_nothing_else(
    cli: Cli, filters: str, keeps: Callable[[dict[str, Any]], bool]
) -> None:
    everything = listing(cli, "gpus", "accelerators")
    kept = listing(cli, f"gpus {filters}", "accelerators")
    assert [row["id"] for row in kept] == [row["id"] for row in everything if keeps(row)]
    assert 0 < len(kept) < len(everything)


@pytest.mark.parametrize(
    ("sort", "field"),
    [("memory", "memory_bytes"), ("bandwidth", "bandwidth_bytes_per_s"), ("power", "tdp_w")],
)
def test_numbers_are_sorted_largest_first_and_unknown_last(cli: Cli, sort: str, field: str) -> None:
    values = [row[field] or 0.0 for row in listing(cli, f"gpus --sort {sort}", "accelerators")]
    assert values == sorted(values, reverse=True)


def test_models_filter_by_kind_and_size(cli: Cli) -> None:
    dense = listing(cli, "models --dense --max-parameters 10B", "models")
    assert dense
    assert all(row["num_experts"] is None and row["parameters"] <= 10e9 for row in dense)
    experts = listing(cli, "models --moe --sort active", "models")
    assert all(row["num_experts"] for row in experts)
    active = [row["active_parameters"] for row in experts]
    assert active == sorted(active, reverse=True)


def test_engines_filter_by_vendor_and_format(cli: Cli) -> None:
    assert "tensorrt-llm" not in {row["id"] for row in listing(cli, "engines --vendor amd", "engines")}
    # vLLM serves nvfp4 and runs on AMD, but not both at once.
    assert cli("advisor catalog engines --vendor amd --precision nvfp4").code == 3


@pytest.mark.parametrize(
    ("filters", "meant"), [("gpus --family hoper", "hopper"), ("models --family lama", "llama")]
)
def test_a_filter_value_that_nothing_has_is_a_mistake_not_an_empty_list(
    cli: Cli, filters: str, meant: str
) -> None:
    run = cli(f"advisor catalog {filters}")
    assert run.code == 2
    assert run.out == ""
    assert f"To fix: --family {meant}\n" in run.err


def transcript(cli: Cli, golden: Golden, command: str) -> Any:
    """The run of a command that is kept as it looked."""
    run = cli(f"advisor {command}")
    golden(command.replace("--", "").replace("/", "_").replace(" ", "-"), run.transcript())
    return run


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("catalog show h100", "h100-sxm"),
        ("catalog prices --gpu h200 --as-of 2026-08-01", "as known on 2026-08-01"),
        ("catalog show llama-3.1-8b", "llama-3.1-8b: "),
    ],
)
def test_what_is_shown_to_people(cli: Cli, golden: Golden, command: str, told: str) -> None:
    run = transcript(cli, golden, command)
    assert run.code == 0
    assert told in run.out


@pytest.mark.parametrize(
    ("command", "code", "named"),
    [
        (
            "catalog prices --gpu h200 --provider lambda --term spot --as-of 2026-11-20",
            3,
            "no price of h200-sxm",
        ),
        ("catalog prices --term sport", 2, "sport"),
        ("catalog prices --as-of 2020-01-01", 3, "2020-01-01"),
        ("catalog prices --price-file missing.csv", 2, "missing.csv"),
        ("catalog show h101", 2, "h101"),
        ("catalog gpus --vendor nvida", 2, "nvidia"),
        ("catalog gpus --min-memory 80", 2, "--min-memory"),
        ("catalog gpus --min-memory 900TB", 3, "no accelerator passes"),
        ("catalog models --max-parameters many", 2, "--max-parameters"),
        ("catalog engines --precision fp7", 2, "fp7"),
        ("catalog gpus -o gpus.xlsx", 2, "gpus.xlsx"),
        ("catalog gpus -o missing/gpus.csv", 2, "missing"),
        ("catalog gpus --as-of 2026-02-30", 2, "2026-02-30"),
        ("catalog gpus --sort size", 2, "size"),
        ("catalog gpu", 2, "gpus"),
        ("catalog show", 2, "ID"),
    ],
)
def test_a_mistake_is_named_and_prints_no_answer(
    cli: Cli, golden: Golden, command: str, code: int, named: str
) -> None:
    run = transcript(cli, golden, command)
    assert (run.code, run.out) == (code, "")
    assert named in run.err


def test_prices_are_those_known_on_the_day_with_their_age(cli: Cli) -> None:
    document = json.loads(cli("advisor catalog prices --term all --as-of 2026-07-01 --json").out)
    assert document["inputs"]["as_of"] == "2026-07-01"
    for row in document["prices"]:
        assert row["observed_on"] <= "2026-07-01"
        assert row["usd_per_accelerator_hour"] == row["usd_per_hour"] / row["num_accelerators"]
        assert row["is_stale"] is (row["age_days"] is None or row["age_days"] > 30)
        assert (row["age_days"] is None) is not row["is_dated"]


def test_stale_prices_warn_and_fresh_ones_do_not(cli: Cli) -> None:
    stale = cli("advisor catalog prices --gpu h100 --as-of 2026-11-20")
    assert stale.code == 0
    assert stale.err.count("warning: ") == 2
    assert "days old" in stale.err
    assert "bear no date" in stale.err
    assert cli("advisor catalog prices --gpu h100 --as-of 2026-11-20 -q").err == ""


def test_your_own_price_wins(cli: Cli, tmp_path: Any) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on\n"
        "desk,h100,8,on_demand,8.00,2026-11-19\n"
    )
    command = f"advisor catalog prices --gpu h100 --sort price --price-file {file} --as-of 2026-11-20 --json"
    first = json.loads(cli(command).out)["prices"][0]
    assert (first["provider"], first["usd_per_accelerator_hour"], first["is_stale"]) == ("desk", 1.0, False)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("desk,h100,8,on_demand,-8,2026-11-19", "usd_per_hour"),
        ("desk,h100,8,on_demand,nan,2026-11-19", "usd_per_hour"),
        ("desk,h1000,8,on_demand,8,2026-11-19", "accelerator"),
        ("desk,h100,8,sometimes,8,2026-11-19", "term"),
        ("desk,h100,8,on_demand,8,19.11.2026", "observed_on"),
        ("desk,h100,8,on_demand", "row 2"),
    ],
)
def test_a_bad_price_row_is_named(cli: Cli, tmp_path: Any, row: str, what: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"provider,accelerator,num_accelerators,term,usd_per_hour,observed_on\n{row}\n")
    run = cli(f"advisor catalog prices --price-file {file}")
    assert run.code == 2
    assert str(file) in run.err
    assert "row 2" in run.err
    assert what in run.err
    assert run.out == ""


def test_show_gives_each_figure_its_source(cli: Cli) -> None:
    document = json.loads(cli("advisor catalog show h100-sxm --json").out)
    record = document["record"]
    assert document["kind"] == "accelerator"
    assert record["id"] == "h100-sxm"
    assert record["sources"]
    assert set(record["field_sources"]) <= {
        *record,
        *(f"peak_flop_per_s.{d}" for d in record["peak_flop_per_s"]),
    }


def test_show_of_an_alias_says_what_was_chosen(cli: Cli) -> None:
    run = cli("advisor catalog show h100")
    assert "h100-sxm" in run.err
    assert cli("advisor catalog show h100 -q").err == ""


def test_show_of_a_model_computes_its_size(cli: Cli) -> None:
    derived = json.loads(cli("advisor catalog show llama-3.1-70b --json").out)["derived"]
    assert derived["parameters"] == pytest.approx(70.6e9, rel=0.01)
    assert derived["kv_bytes_per_token"] == 2 * 80 * 8 * 128 * 2


def test_show_reads_a_config_json(cli: Cli, tmp_path: Any) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')
    run = cli(f"advisor catalog show {config}")
    assert run.code == 2
    assert str(config) in run.err
    assert run.out == ""


def test_coverage_says_what_is_priced_supported_measured_and_dated(cli: Cli) -> None:
    document = json.loads(cli("advisor catalog coverage --as-of 2026-11-23 --json").out)
    assert [row["accelerator"] for row in document["accelerators"]] == [r.id for r in all_accelerators()]
    unpriced = {row["accelerator"]: row["reason"] for row in document["unpriced"]}
    for row in document["accelerators"]:
        if row["engines"]:
            assert (row["num_dedicated"] > 0) != (row["accelerator"] in unpriced)
    assert document["single_source"]
    assert all(row["is_stale"] or not row["is_dated"] for row in document["stale"])
    text = cli("advisor catalog coverage --as-of 2026-11-23").out
    for title in ("rental price", "Sellers", "without a usable price", "one seller only", "oldest first"):
        assert title in text
    one = json.loads(cli("advisor catalog coverage --gpu h100 --provider aws --json").out)
    assert [row["accelerator"] for row in one["accelerators"]] == ["h100-sxm"]
    assert [row["provider"] for row in one["providers"]] == ["aws"]
    assert cli("advisor catalog coverage --provider awz").code == 2


def test_show_and_engines_state_what_runs_where(cli: Cli) -> None:
    def support(command: str) -> dict[tuple[str, str, str], str]:
        rows = json.loads(cli(f"advisor catalog {command} --json").out)["support"]
        assert all(row["source"] for row in rows)
        return {(row["engine"], row["architecture"], row["what"]): row["verdict"] for row in rows}

    assert {key[1] for key in support("show mi300x")} == {"cdna3"}
    assert {key[0] for key in support("show vllm")} == {"vllm"}
    on_hopper = support("engines --gpu h100")
    assert on_hopper["vllm", "hopper", "mxfp4"] == "emulated"
    assert support("engines --vendor amd")["vllm", "cdna3", "fp8"] == "native"
    assert "emulated" in cli("advisor catalog engines --gpu h100").out
    assert "No source states" in cli("advisor catalog show atom").out


def test_show_of_a_model_names_checkpoints_and_the_context(cli: Cli) -> None:
    document = json.loads(cli("advisor catalog show qwen3-32b --json").out)
    assert (document["context"]["native"], document["context"]["with_scaling"]) == (40960, 131072)
    names = [row["repository"] for row in document["checkpoints"] if row["format"] == "int4-awq"]
    assert names[0] == "Qwen/Qwen3-32B-AWQ"
    text = cli("advisor catalog show qwen3-32b").out
    assert "131,072 with the scaling" in text
    assert "Qwen/Qwen3-32B-AWQ" in text


def test_an_unknown_hugging_face_id_says_how_to_use_its_config(cli: Cli) -> None:
    run = cli("advisor catalog show Qwen/Qwen9-7B")
    assert run.code == 2
    assert "download config.json of huggingface.co/Qwen/Qwen9-7B" in run.err


@pytest.mark.parametrize(
    "command",
    [
        "roofline --model 8b --gpu h100 --weight-dtype AWQ",
        "simulate serve --model 8b --gpu h100 --rate 1 --requests 20 --precision AWQ",
        "simulate embed --model bge-m3 --gpu h100 --precision half",
        "catalog engines --precision gptq",
    ],
)
def test_formats_go_by_their_usual_names(cli: Cli, command: str) -> None:
    run = cli(f"advisor {command} --json")
    assert run.code == 0, run.err
    bad = cli(f"advisor {command} --json".replace("AWQ", "fp7").replace("gptq", "fp7").replace("half", "fp7"))
    assert bad.code == 2
    assert len(bad.err) < 500
    assert "did you mean" in bad.err


def test_several_accelerators_are_listed_or_the_option_says_that_it_takes_one(cli: Cli) -> None:
    rows = cli("advisor catalog prices --gpu h200,l40s --as-of 2026-08-01 --json").document()["prices"]
    assert {row["accelerator"] for row in rows} == {"h200-sxm", "l40s"}
    run = cli("advisor catalog coverage --gpu h200,l40s")
    assert run.code == 2
    assert "names 2 accelerators" in run.err
    assert "unknown" not in run.err
