"""Recipes: the first that covers a run counts, and only of the benchmark that was asked for."""

from advisor.catalog import accelerators, engines
from advisor.catalog.dtypes import DTYPES
from advisor.evidence.serving.scripts import (
    PublishedRun,
    all_decode_slots,
    all_layouts,
    all_recipes,
    first_of,
)

TRT_BLACKWELL = PublishedRun("inferencex", "tensorrt-llm", "deepseek-r1", "blackwell")


def test_recipes_name_engines_and_architectures_of_the_catalog() -> None:
    architectures = {record.architecture for record in accelerators.all_accelerators()}
    for recipe in all_recipes():
        assert recipe.engine in engines.all_ids()
        assert set(recipe.architectures) <= architectures


def test_first_recipe_counts() -> None:
    oss = first_of(all_recipes(), TRT_BLACKWELL._replace(model="gpt-oss-120b", date="2025-11-02"))
    assert oss is not None
    assert oss.max_num_batched_tokens == 20_000


def test_a_recipe_ends() -> None:
    runs = {
        date: first_of(all_recipes(), TRT_BLACKWELL._replace(date=date))
        for date in ("2025-11-02", "2026-01-29", "")
    }
    least = {date: recipe.min_num_batched_tokens for date, recipe in runs.items() if recipe}
    assert least == {"2025-11-02": 0, "2026-01-29": 8192, "": 8192}


def test_conditions_on_load_and_layout() -> None:
    def find_steps(**conditions: int) -> int:
        recipe = first_of(all_recipes(), TRT_BLACKWELL._replace(weight_dtype="fp8")._replace(**conditions))
        assert recipe is not None
        return recipe.gather_steps

    assert find_steps(input_tokens=1024, output_tokens=1024, concurrency=64) == 40
    assert find_steps(input_tokens=1024, output_tokens=1024, concurrency=32) == 0
    assert find_steps(input_tokens=8192, output_tokens=1024, concurrency=64) == 0
    assert find_steps(concurrency=64, data_parallel=8) == 60


def test_layouts_name_engines_formats_and_architectures_of_the_catalog() -> None:
    architectures = {record.architecture for record in accelerators.all_accelerators()}
    for layout in all_layouts():
        assert layout.engine in engines.all_ids()
        assert set(layout.architectures) <= architectures
        assert set(layout.weight_dtypes) <= set(DTYPES)


def test_a_layout_ends_with_the_scripts_that_chose_it() -> None:
    def find_steps(date: str, engine: str = "tensorrt-llm") -> bool:
        run = PublishedRun("inferencex", engine, "gpt-oss-120b", "hopper", "mxfp4", date)
        loaded = run._replace(tensor_parallel=8, input_tokens=1024, output_tokens=1024)
        return first_of(all_layouts(), loaded) is not None

    assert find_steps("2025-11-02")
    assert not find_steps("2025-12-15")
    assert not find_steps("")
    assert not find_steps("2025-11-02", "sglang")


def test_other_benchmarks_have_none() -> None:
    run = PublishedRun("someone-else", "sglang", "qwen3.5-397b-a17b", "blackwell")
    assert first_of(all_recipes(), run) is None
    assert first_of(all_recipes(), run._replace(benchmark="")) is None


def test_slots_of_decode_workers_are_those_of_one_benchmark_engine_and_model() -> None:
    def slots(benchmark: str, engine: str, model: str, clients: int = 27) -> int | None:
        run = PublishedRun(benchmark, engine, model, "blackwell", "fp8", "", "", 1024, 1024, clients)
        return all_decode_slots().of(run, "gb200", decode_workers=3)

    assert slots("inferencex", "tensorrt-llm", "deepseek-r1") == 8
    assert slots("inferencex", "sglang", "deepseek-r1") is None
    assert slots("inferencex", "tensorrt-llm", "llama-3.1-8b") is None
    assert slots("mlperf", "tensorrt-llm", "deepseek-r1") is None
    assert slots("inferencex", "tensorrt-llm", "deepseek-r1", clients=28) is None


def test_slots_name_accelerators_and_formats_of_the_catalog_once() -> None:
    for load in all_decode_slots().load:
        assert accelerators.by_id(load.accelerator)
        assert load.weight_dtype in DTYPES
        assert len({point[:2] for point in load.points}) == len(load.points)
