"""Every setting that a result states becomes a condition of its prediction, or is named as not used."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import BenchmarkResult
from advisor.catalog.formats.documents import document_of
from advisor.catalog.formats.llama_bench import LlamaBenchRow
from advisor.catalog.formats.prometheus_text import ServerMetrics
from advisor.catalog.formats.registry import read
from advisor.catalog.formats.stated_settings import settings_among
from advisor.evidence.own_server import rows_of
from advisor.simulator.serving.trace_files import read_trace

FOLDER: Final = Path(__file__).parent / "formats"
BROUGHT: Final = [
    json.loads(line)
    for line in (Path(__file__).parent / "brought_files.jsonl").read_text(encoding="utf-8").splitlines()
]
STATED: Final[dict[str, tuple[Any, str]]] = {
    "pipeline_parallel_size": (2, "pp 2"),
    "kv_cache_dtype": ("fp8_e5m2", "kv_dtype fp8"),
    "vllm_version": ("0.11.0", "engine_version 0.11.0"),
    "gpu_memory_utilization": (0.85, "memory_fraction 0.85"),
    "enforce_eager": ("True", "enforce_eager 1"),
    "disable_radix_cache": ("true", "prefix_cache 0"),
    "random_prefix_len": (512, "shared_prefix_len 512"),
    "speculative_algorithm": ("EAGLE3", "spec_decode eagle"),
    "power_limit": ("300W", "power_cap_w 300"),
    "max_model_len": (32768, "not used: max_model_len 32768"),
    "burstiness": (0.5, "not used: burstiness 0.5"),
    "prefix_cache_hit_rate": (0.4, "not used: prefix_cache_hit_rate 0.4"),
    "enable_lora": ("True", "not used: enable_lora True"),
    "quantization": ("compressed-tensors", "not used: quantization compressed-tensors"),
}
"""Settings by their names in files: a value, and words by which a reader of the answer knows what became of it."""
NEEDED: Final = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "isl": "1000", "osl": "200", "load": "closed"}


def remarks(text: str) -> str:
    """Everything that an answer says of how a file was read; empty for a file of another kind."""
    _, found = read(text, "file")
    results = (found.result,) if isinstance(found, ServerMetrics) else found
    if not isinstance(results, tuple) or not isinstance(results[0], BenchmarkResult):
        return ""
    rows = rows_of(results, NEEDED | {"concurrency": "4"}, {}, is_local=False)
    return " | ".join(sentence for _, assumed in rows for sentence in assumed)


def with_settings(text: str) -> str:
    """The text with all settings: as keys in each of its objects, or in a line behind it."""
    added = {name: value for name, (value, _) in STATED.items()}
    document = document_of(text)
    if document is None:
        return f"{text}\nNamespace({', '.join(f'{name}={value!r}' for name, value in added.items())})\n"
    if isinstance(document, list):
        return "\n".join(json.dumps(added | one) for one in document)
    return json.dumps(added | document)


def brought_texts() -> list[Any]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())}
    texts |= {row["name"]: row["text"] for row in BROUGHT if row["kind"] == "results"}
    return [pytest.param(text, id=name) for name, text in texts.items()]


@pytest.mark.parametrize("text", brought_texts())
def test_a_stated_setting_counts_or_is_said_to_be_unused(text: str) -> None:
    try:
        before = remarks(text)
    except InputFileError:
        before = ""
    if not before:
        return
    said = f"{before} {remarks(with_settings(text))}"
    silent = [
        name
        for name, (value, words) in STATED.items()
        if words not in said and f"not used: {name} {value} (" not in said
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("burstiness", 1.0),
        ("enable_lora", False),
        ("kv_cache_dtype", "auto"),
        ("quantization", None),
        ("disable_radix_cache", False),
    ],
)
def test_a_setting_with_its_usual_value_says_nothing(name: str, value: Any) -> None:
    found = settings_among([(name, value)])
    assert (found.columns, found.notes) == ({}, ())


def test_a_setting_with_several_values_is_not_used_and_each_is_named() -> None:
    found = settings_among([("a.kv_cache_dtype", "fp8"), ("b.kv_cache_dtype", "bfloat16")])
    assert found.columns == {}
    assert len(found.notes) == 2


def test_an_interface_that_many_engines_have_contradicts_no_engine() -> None:
    found = settings_among([("input_config.backend", "vllm"), ("input_config.endpoint_type", "chat")])
    assert (found.columns, found.notes) == ({"engine": "vllm"}, ())


def test_each_object_of_a_file_has_its_own_settings() -> None:
    one = json.loads((FOLDER / "vllm_bench.json").read_text(encoding="utf-8"))
    text = "\n".join(json.dumps({**one, "tp": tensor}) for tensor in (1, 2))
    assert [result.settings["tp"] for result in read(text, "file")[1]] == ["1", "2"]


def test_what_llama_bench_keeps_in_main_memory_is_said() -> None:
    """The prediction is for a model that lies on the accelerator as a whole."""
    test = {
        "build_commit": "a",
        "gpu_info": "NVIDIA GeForce RTX 4090",
        "model_filename": "Qwen3-32B-Q4_K_M.gguf",
        "model_type": "qwen3 32B Q4_K - Medium",
        "type_k": "q8_0",
        "n_gpu_layers": 40,
        "n_cpu_moe": 4,
        "n_prompt": 0,
        "n_gen": 128,
        "n_depth": 0,
        "avg_ts": 12.5,
    }
    _, found = read(json.dumps([test]), "file")
    assert isinstance(found[0], LlamaBenchRow)
    ((row, assumed),) = rows_of(found, {}, {}, is_local=True)
    assert row["kv_dtype"] == "q8_0/bf16"
    assert any(words.startswith("40 of 64 layers") for words in assumed)
    assert any(words.startswith("not used: n_cpu_moe 4") for words in assumed)


@pytest.mark.parametrize(
    ("gpu", "memory", "taken"),
    [("NVIDIA A100", 40, "a100-sxm-40gb"), ("M3 Pro", 18, "m3-pro-18gb"), ("NVIDIA H100", 80, "h100-sxm")],
)
def test_the_memory_beside_a_name_tells_the_board(gpu: str, memory: int, taken: str) -> None:
    one = {
        "gpu": gpu,
        "vram_gb": memory,
        "model": "qwen3-8b",
        "users": 8,
        "isl": 1000,
        "osl": 200,
        "tpot_ms": 14,
    }
    ((row, _),) = rows_of(read(json.dumps(one), "file")[1], {}, {}, is_local=False)
    assert row["gpu"] == taken


def test_a_program_without_a_plan_is_named() -> None:
    text = "# TGI 3.3.4, 1x H100\n\n| Users | TTFT (ms) | TPOT (ms) |\n|---|---|---|\n| 8 | 90 | 11 |\n"
    for brought in (text, json.dumps({"backend": "tgi", "users": 8, "ttft_ms": 90, "tpot_ms": 11})):
        assert "plan" in remarks(brought)


@pytest.mark.parametrize("name", ["arrived_at_s", "created"])
def test_a_trace_says_which_columns_bear_on_a_request_and_are_not_used(name: str, tmp_path: Path) -> None:
    """A log of calls, whatever it is of, and a trace of own columns."""
    lengths = (
        ("prompt_tokens", "completion_tokens") if name == "created" else ("input_tokens", "output_tokens")
    )
    path = tmp_path / "trace.jsonl"
    rows = [
        {
            name: 1741569952 + place,
            lengths[0]: 90,
            lengths[1]: 9,
            "model": f"m{place}",
            "priority": "low",
            "num_images": 0,
        }
        for place in range(2)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    notes = " ".join(read_trace(path).notes)
    assert "column model is not used" in notes
    assert "column priority is not used" in notes
    assert "images" not in notes


@pytest.mark.parametrize(
    ("heading", "column", "value"),
    [
        ("Qwen3-8B on 1x H100 (vLLM 0.10.2)", "engine_version", "0.10.2"),
        ("Qwen3-8B on 1x H100, prefix caching off", "prefix_cache", "0"),
        ("Qwen3-8B on 1x H100, fp8 KV cache", "kv_dtype", "fp8"),
        ("Qwen3-8B on 1x H100, KV cache: fp8", "kv_dtype", "fp8"),
        ("Qwen3-8B on 4x H100, TP2 PP2", "pp", "2"),
        ("Qwen3-8B on 1x H100 with EAGLE-3", "spec_decode", "eagle"),
        ("Qwen3-8B on 1x H100, limited to 400 W", "power_cap_w", "400"),
        ("Qwen3-8B on 1x H100, 512-token shared prefix", "shared_prefix_len", "512"),
    ],
)
def test_settings_in_a_heading_count(heading: str, column: str, value: str) -> None:
    titles = "| Users | ISL | OSL | TTFT (ms) | TPOT (ms) |\n|---|---|---|---|---|"
    table = f"# {heading}\n\n{titles}\n| 8 | 1024 | 128 | 90 | 11 |\n"
    ((row, _),) = rows_of(read(table, "file")[1], {}, {}, is_local=False)
    assert row[column] == value


def test_settings_around_a_table_of_a_local_run_count() -> None:
    heading = "# Qwen3-14B Q4_K_M, llama.cpp, KV cache q8_0\nRTX 3090, --n-cpu-moe 10"
    text = f"{heading}\n\n| Context | Decode (tok/s) |\n|---|---|\n| 1024 | 60 |\n"
    ((row, assumed),) = rows_of(read(text, "file")[1], {}, {}, is_local=True)
    assert row["kv_dtype"] == "q8_0"
    assert any(words.startswith("not used: n-cpu-moe 10") for words in assumed)


def test_a_measured_mean_does_not_contradict_a_setting() -> None:
    found = settings_among([("max_concurrency", "4"), ("Concurrency", "3.97")])
    assert (found.columns, found.notes) == ({"concurrency": "4"}, ())
    assert settings_among([("enforce_eager", "true"), ("enforce_eager", "false")]).columns == {}
