"""Recipes: the first that covers a run counts, and only of the benchmark that was asked for."""

from advisor.catalog import accelerators, engines
from advisor.catalog.dtypes import DTYPES
from advisor.catalog.recipes import (
    all_decode_slots,
    all_layouts,
    all_recipes,
    decode_slots_of,
    layout_of,
    recipe_of,
)
from advisor.catalog.schema.recipe import PublishedRun

TRT_BLACKWELL = PublishedRun("inferencex", "tensorrt-llm", "deepseek-r1", "blackwell")


def test_recipes_name_engines_and_architectures_of_the_catalog() -> None:
    architectures = {record.architecture for record in accelerators.all_accelerators()}
    for recipe in all_recipes():
        assert recipe.engine in engines.all_ids()
        assert set(recipe.architectures) <= architectures


def test_first_recipe_counts() -> None:
    oss = recipe_of(TRT_BLACKWELL._replace(model="gpt-oss-120b", date="2025-11-02"))
    assert oss is not None
    assert oss.max_num_batched_tokens == 20_000


def test_a_recipe_ends() -> None:
    runs = {date: recipe_of(TRT_BLACKWELL._replace(date=date)) for date in ("2025-11-02", "2026-01-29", "")}
    least = {date: recipe.min_num_batched_tokens for date, recipe in runs.items() if recipe}
    assert least == {"2025-11-02": 0, "2026-01-29": 8192, "": 8192}


def test_conditions_on_load_and_layout() -> None:
    def found(**conditions: int) -> int:
        recipe = recipe_of(TRT_BLACKWELL._replace(weight_dtype="fp8"), **conditions)
        assert recipe is not None
        return recipe.gather_steps

    assert found(input_tokens=1024, output_tokens=1024, concurrency=64) == 40
    assert found(input_tokens=1024, output_tokens=1024, concurrency=32) == 0
    assert found(input_tokens=8192, output_tokens=1024, concurrency=64) == 0
    assert found(concurrency=64, data_parallel=8) == 60


def test_layouts_name_engines_formats_and_architectures_of_the_catalog() -> None:
    architectures = {record.architecture for record in accelerators.all_accelerators()}
    for layout in all_layouts():
        assert layout.engine in engines.all_ids()
        assert set(layout.architectures) <= architectures
        assert set(layout.weight_dtypes) <= set(DTYPES)


def test_a_layout_ends_with_the_scripts_that_chose_it() -> None:
    def found(date: str, engine: str = "tensorrt-llm") -> bool:
        run = PublishedRun("inferencex", engine, "gpt-oss-120b", "hopper", "mxfp4", date)
        layout = layout_of(run, tensor_parallel=8, input_tokens=1024, output_tokens=1024)
        return layout is not None

    assert found("2025-11-02")
    assert not found("2025-12-15")
    assert not found("")
    assert not found("2025-11-02", "sglang")


def test_other_benchmarks_have_none() -> None:
    assert recipe_of(PublishedRun("someone-else", "sglang", "qwen3.5-397b-a17b", "blackwell")) is None


def test_slots_of_decode_workers_are_those_of_one_benchmark_engine_and_model() -> None:
    asked = {
        "weight_dtype": "fp8",
        "input_tokens": 1024,
        "output_tokens": 1024,
        "clients": 27,
        "decode_workers": 3,
    }
    runs = {
        (benchmark, engine, model): decode_slots_of(benchmark, engine, model, "gb200", **asked)
        for benchmark, engine, model in (
            ("inferencex", "tensorrt-llm", "deepseek-r1"), ("inferencex", "sglang", "deepseek-r1"),
            ("inferencex", "tensorrt-llm", "llama-3.1-8b"), ("mlperf", "tensorrt-llm", "deepseek-r1"),
        )
    }  # fmt: skip
    assert list(runs.values()) == [8, None, None, None]
    assert (
        decode_slots_of("inferencex", "tensorrt-llm", "deepseek-r1", "gb200", **{**asked, "clients": 28})
        is None
    )


def test_slots_name_accelerators_and_formats_of_the_catalog_once() -> None:
    for load in all_decode_slots().load:
        assert accelerators.by_id(load.accelerator)
        assert load.weight_dtype in DTYPES
        assert len({point[:2] for point in load.points}) == len(load.points)
