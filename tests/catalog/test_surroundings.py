"""Conditions of a result that the text around it states: commands, headings, settings; and wrappings of texts."""

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InputFileError
from advisor.catalog.formats import registry
from advisor.catalog.formats.benchmark_result import BenchmarkResult
from advisor.catalog.formats.llama_bench import LlamaBenchRow
from advisor.catalog.formats.server_log import ServerLog, read_server_log

SUMMARY = """\
============ Serving Benchmark Result ============
Successful requests:                     1000
Benchmark duration (s):                  33.94
Total input tokens:                      215312
Total generated tokens:                  197922
Request throughput (req/s):              29.46
Output token throughput (tok/s):         5831.00
Mean TTFT (ms):                          6173.79
Mean TPOT (ms):                          49.48
==================================================
"""
TABLE = """\
| ISL | OSL | Concurrency | TTFT (ms) | TPOT (ms) |
|-----|-----|-------------|-----------|-----------|
| 128 | 128 |           1 |     208.5 |      31.2 |
"""


def only(text: str) -> BenchmarkResult:
    _, (found,) = registry.read(text, "text")
    assert isinstance(found, BenchmarkResult)
    return found


@pytest.mark.parametrize(
    ("around", "model", "gpu", "tensor", "rate", "clients"),
    [
        (
            "vllm serve gpt-oss-20b -tp 2\nvllm bench serve --model gpt-oss-20b\n",
            *("gpt-oss-20b", "", None, float("inf"), None),
        ),
        (
            "$ MODEL=openai/gpt-oss-20b SERVE_IMAGE_GPU=H100 TP=1 modal run bench.py --max-concurrency 32\n",
            *("gpt-oss-20b", "h100-sxm", 1, None, 32),
        ),
        (
            "python benchmark_serving.py --model Qwen/Qwen3-32B --request-rate 12\n",
            *("qwen3-32b", "", None, 12.0, None),
        ),
        ("# gpt-oss-120b on 8xH200\n", "gpt-oss-120b", "h200-sxm", 8, None, None),
    ],
)
def test_commands_and_headings_say_what_a_result_leaves_open(
    around: str, model: str, gpu: str, tensor: int | None, rate: float | None, clients: int | None
) -> None:
    """A condition that the text states with two values is left open."""
    found = only(around + SUMMARY)
    assert (found.model, found.gpu, found.tensor_parallel) == (model, gpu, tensor)
    assert (found.request_rate_per_s, found.concurrency) == (rate, clients)
    assert bool(found.notes) == bool(model)


@pytest.mark.parametrize(
    "line",
    [
        "MODEL: meta-llama/Llama-3.1-8B-Instruct",
        "**Model name**: Llama 3.1 8B",
        "#### Llama 3.1 8B Instruct (FP16)",
        "## Results of Llama 3.1 8B, bf16",
        "model_id = `llama-3.1-8b`",
        "genai-perf profile -m meta-llama/Llama-3.1-8B-Instruct --endpoint-type chat",
        "python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B-Instruct",
    ],
)
def test_a_line_names_the_model_of_a_result_and_of_a_log(line: str) -> None:
    assert models.get(only(f"{line}\n\n{TABLE}").model).record.id == "llama-3.1-8b"
    _, log = registry.read(f"{line}\nModel loading took 14.99 GiB and 5 seconds\n", "text")
    assert isinstance(log, ServerLog)
    assert log.model == "llama-3.1-8b"


def test_abbreviations_of_lengths_clients_and_degrees_are_read() -> None:
    """A degree of each column of a table is that of its result."""
    _, found = registry.read(
        "# MiniMax-M2.5 on H100\n\n### Results (8k1k, conc=4, TP=4/EP=4)\n\n"
        "| Metric | TP=8/EP=8 | TP=4/EP=4 | Delta |\n|---|---|---|---|\n"
        "| Mean TTFT | 83.9 ms | 129.8 ms | +54.7% |\n| Mean TPOT | 8.96 ms | 13.34 ms | +48.9% |\n",
        "text",
    )
    assert [(one.tensor_parallel, one.expert_parallel) for one in found] == [(8, 8), (4, 4)]
    assert {(one.mean_input_tokens, one.mean_output_tokens, one.concurrency) for one in found} == {
        (8192, 1024, 4)
    }


def test_a_repository_that_no_record_has_is_named_as_the_model() -> None:
    assert (
        only("genai-perf -m ours --tokenizer someone/ko-unheard-of-9x\n" + SUMMARY).model
        == "someone/ko-unheard-of-9x"
    )


def test_what_a_result_states_itself_counts_before_its_surroundings() -> None:
    found = only(
        "vllm bench serve --max-concurrency 8\n"
        + SUMMARY.replace("Successful", "Max request concurrency: 64\nSuccessful")
    )
    assert found.concurrency == 64


@pytest.mark.parametrize("text", ["# deepseek-r1 on 16xH100\n\n" + TABLE, "vllm serve qwen3-8b\n" + SUMMARY])
@pytest.mark.parametrize("mark", ["> ", "2024/07/11 23:37:56 "])
def test_quotations_and_times_before_each_line_change_nothing(text: str, mark: str) -> None:
    quoted = "".join(f"{mark}{line}\n" for line in text.splitlines())
    assert only(quoted) == only(text)


def test_a_title_of_another_program_is_read_by_the_names_below_it() -> None:
    """Mean lengths are the rates of tokens over that of requests."""
    found = only(
        "=== Serving Benchmark Result ===\nConcurrency: 5\nRequest throughput (req/sec): 3.0\n"
        "Prompt throughput (tokens/second) avg: 2250\nGeneration throughput (tokens/second) avg: 12\n"
        "End to End Latency (ms) avg: 1607\n"
    )
    assert (found.mean_input_tokens, found.mean_output_tokens, found.concurrency) == (750.0, 4.0, 5)


APACHE = """\
Concurrency Level:      20
Complete requests:      589
Failed requests:        0
{refused}Requests per second:    19.55 [#/sec] (mean)
Time per request:       1023.088 [ms] (mean)
Transfer rate:          1.43 [Kbytes/sec] received
"""


@pytest.mark.parametrize("mark", ["", "# "])
def test_figures_of_refused_requests_are_no_measurement(mark: str) -> None:
    """A rate of transfer is none of requests."""
    for refused, is_refused in (("", False), ("Non-2xx responses:      589\n", True)):
        text = "".join(f"{mark}{line}\n" for line in APACHE.format(refused=refused).splitlines())
        if is_refused:
            with pytest.raises(InputFileError, match="589 requests failed"):
                only(text)
        else:
            found = only(text)
            assert (found.concurrency, found.request_rate_per_s, found.requests_per_s) == (20, None, 19.55)


def test_columns_beside_names_of_figures_are_a_run_each() -> None:
    table = "| Metric | main | branch |\n|---|---|---|\n| Successful requests | 50 | 50 |\n"
    table += "| Mean TTFT (ms) | 240 | 180 |\n| Mean TPOT (ms) | 40 | 38 |\n"
    _, found = registry.read(table, "text")
    assert [(one.ttft.mean_s, one.tpot.mean_s) for one in found] == [(0.24, 0.04), (0.18, 0.038)]


def test_a_time_of_a_token_is_a_rate() -> None:
    text = (
        "llama_print_timings: prompt eval time = 10762.28 ms /  1245 tokens (    8.64 ms per token)\n"
        "llama_print_timings:        eval time = 34006.30 ms /   110 runs   (  309.15 ms per token)\n"
    )
    _, (prompt, output) = registry.read(text, "text")
    assert (prompt.num_prompt_tokens, output.num_output_tokens) == (1245, 110)
    assert output.tokens_per_s == pytest.approx(1000 / 309.15, rel=1e-3)


@pytest.mark.parametrize(
    ("around", "model", "gpu", "tensor"),
    [
        ("GPU : H100 80G *2\nModel : Llama 3.1 70B\n", "llama-3.1-70b", "h100-sxm", 2),
        ("On 2x DGX Spark (TP=2) it dies at start:\n", "", "gb10", 2),
        ("ran on b200 again\n", "", "b200-sxm", None),
        ("GPU 0: NVIDIA L20\nGPU 1: NVIDIA L20\n", "", "l20", None),
        ("2x faster on A100 40GB than on H100\n", "", "", None),
    ],
)
def test_a_start_up_log_is_of_the_machine_that_the_text_around_it_names(
    around: str, model: str, gpu: str, tensor: int | None
) -> None:
    _, log = registry.read(f"{around}INFO: GPU KV cache size: 168,928 tokens\n", "text")
    assert isinstance(log, ServerLog)
    assert (log.model, log.device, log.tensor_parallel) == (model, gpu, tensor)


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("vLLM version: 0.19.0", "0.19.0"),
        ("vLLM Version                 : 0.18.2", "0.18.2"),
        ("**vLLM version**: v0.10.0", "0.10.0"),
        ("[pip3] vllm==0.9.2", "0.9.2"),
        ("docker run vllm/vllm-openai:v0.11.0 --model x/y", "0.11.0"),
        ("- vllm (0.10.2)", "0.10.2"),
        ("sglang: 0.4.9.post2", ""),
        ("vllm 0.9.1 works, vllm 0.10.0 does not", ""),
    ],
)
def test_the_lines_around_a_log_say_its_release_and_its_machine(line: str, release: str) -> None:
    """A release of another program counts no more than one of two."""
    _, log = registry.read(f"{line}\nHardware: H20\nINFO: GPU KV cache size: 168,928 tokens\n", "text")
    assert isinstance(log, ServerLog)
    assert (log.version, log.device) == (release, "h20")


def test_the_fraction_that_a_warning_states_is_read() -> None:
    """TensorRT-LLM prints it in 32 bits when a limit of tokens is set too (issue 6294)."""
    log = read_server_log(
        "[TRT-LLM] [W] Both free_gpu_memory_fraction and max_tokens are set (to 0.800000011920929 and 860308, "
        "respectively). The smaller value will be used.\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 52.51 GiB for max tokens in paged KV cache (860320).\n"
    )
    assert (log.memory_fraction, log.kv_tokens) == (0.8, 860_320)


def test_a_time_of_zero_is_said_to_be_left_out() -> None:
    found = only(SUMMARY.replace("6173.79", "0.00"))
    assert found.ttft.is_empty
    assert "a TTFT of 0 was not measured: it is left out" in found.notes


def test_one_line_of_sglang_is_a_log() -> None:
    _, log = registry.read(
        "[2026-06-28 15:16:45] max_total_num_tokens=2086558, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=4096, context_len=256000, available_gpu_mem=17.22 GB\n",
        "text",
    )
    assert isinstance(log, ServerLog)
    assert (log.engine, log.kv_tokens, log.max_model_len) == ("sglang", 2_086_558, 256_000)


@pytest.mark.parametrize(
    ("around", "failed"),
    [
        ("--num-prompts 1000", None),
        ("--num-prompts 3000", 2000),
        ("vllm bench serve --num-prompts=1500", 500),
    ],
)
def test_requests_that_were_sent_and_did_not_succeed_have_failed(around: str, failed: int | None) -> None:
    assert only(f"{around}\n{SUMMARY}").num_failed == failed


@pytest.mark.parametrize(
    "prefix",
    [
        "авг 18 14:15:02 llm python3[28059]: ",
        "2026-06-09 14:01:52.982 [Error] (Process) (EngineCore pid=42521) ",
    ],
)
@pytest.mark.parametrize(
    ("refusal", "tokens"),
    [
        (
            "ValueError: To serve at least one request with the models's max seq len (131072), (4.11 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (4.0 GiB). Based on the available memory, the "
            "estimated maximum model length is 127776.",
            127776,
        ),
        (
            "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be stored "
            "in KV cache (3664).",
            3664,
        ),
    ],
)
def test_a_refusal_alone_is_a_log(prefix: str, refusal: str, tokens: int) -> None:
    _, log = registry.read(prefix + refusal + "\n", "text")
    assert isinstance(log, ServerLog)
    assert (log.kv_tokens, log.has_failed) == (tokens, True)


def test_ranks_of_which_some_are_missing_are_a_power_of_two() -> None:
    lines = [f"(Worker_TP{rank} pid=2814{rank}) Available KV cache memory: 5.35 GiB\n" for rank in (0, 2)]
    _, log = registry.read("".join(lines), "text")
    assert isinstance(log, ServerLog)
    assert log.tensor_parallel == 4


def test_a_server_without_free_memory_is_told_the_fraction_that_was_free() -> None:
    line = (
        "ValueError: Free memory on device (59.32/79.15 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 71.24 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    with pytest.raises(InputFileError, match=r"59\.32 of 79\.15 GiB were free") as caught:
        registry.read(line, "text")
    assert "--gpu-memory-utilization 0.74" in (caught.value.fix or "")


@pytest.mark.parametrize("around", ["在使用 H100 x4 压测\n", "# NVIDIA H100 BASELINE\n"])
def test_accelerators_stand_before_their_number_and_behind_their_maker(around: str) -> None:
    assert only(around + TABLE).gpu == "h100-sxm"
    unknown = around.replace("H100", "H105")
    assert (only(unknown + TABLE).gpu or "").lower() == "h105"  # so that the error can name it


OF_CLIENTS = (
    "| Concurrency | Throughput (tok/s) | TTFT (ms) | ITL (ms) |\n|---|---|---|---|\n| 8 | {} | {} | 32 |\n"
)


@pytest.mark.parametrize(("rate", "outputs", "total"), [(240, 240.0, None), (900, None, 900.0)])
def test_clients_and_times_say_which_tokens_a_rate_counts(
    rate: int, outputs: float | None, total: float | None
) -> None:
    """Eight clients at 32 ms a token generate at most 250 tokens/s: fewer are outputs, more are all tokens."""
    found = only(OF_CLIENTS.format(rate, 88))
    assert (found.output_tokens_per_s, found.total_tokens_per_s) == (outputs, total)


def test_a_rate_stays_open_where_prompts_may_be_short() -> None:
    """First tokens that take as long as 100 others leave room for prompts of 100 tokens among all tokens."""
    found = only(OF_CLIENTS.format(240, 3200))
    assert (found.output_tokens_per_s, found.total_tokens_per_s) == (None, None)
    assert any("may be the rate of output tokens" in note for note in found.notes)


@pytest.mark.parametrize(
    ("backend", "engine"), [("Ollama", "llama.cpp"), ("mlx", "mlx"), ("**vLLM**", "vllm")]
)
def test_a_column_names_the_program_of_each_row(backend: str, engine: str) -> None:
    table = (
        f"| Backend | Concurrency | TTFT (ms) | TPOT (ms) |\n|---|---|---|---|\n| {backend} | 4 | 88 | 32 |\n"
    )
    assert only(table).engine == engine


@pytest.mark.parametrize(
    ("words", "model", "gpu", "tensor"),
    [
        ("We ran Llama-3.1-8B-Instruct on one A10 24G with vllm 0.9.1.", "llama-3.1-8b", "a10", None),
        ("Tesla T4 x4, Qwen2.5-7B-Instruct, sglang", "qwen2.5-7b", "t4", 4),
        ("my two cards: NVIDIA RTX A6000 x2 (48 GB), model Qwen3-32B", "qwen3-32b", "rtx-a6000", 2),
        ("Qwen3-32B was slower than Qwen3-14B on this one", "", "", None),
        ("H100 or H200, Qwen3-14B", "qwen3-14b", "", None),
        ("see table L4 of the paper", "", "", None),
    ],
)
def test_prose_names_model_and_card_unless_it_names_two(
    words: str, model: str, gpu: str, tensor: int | None
) -> None:
    found = only(f"{words}\n\n{SUMMARY}")
    assert (found.model, found.gpu, found.tensor_parallel) == (model, gpu, tensor)


@pytest.mark.parametrize(
    ("words", "weights"),
    [
        ("# Qwen3-32B\nvllm serve Qwen/Qwen3-32B-AWQ --model Qwen/Qwen3-32B-AWQ", "int4"),
        ("--model /models/Llama-3.3-70B-Instruct-FP8-dynamic", "fp8"),
        ("We compare Qwen3-14B-FP8 here.", "fp8"),
    ],
)
def test_the_format_in_the_name_of_a_checkpoint_stays(words: str, weights: str) -> None:
    assert models.get(only(f"{words}\n\n{SUMMARY}").model).record.weights == weights


def test_two_checkpoints_of_one_model_are_two() -> None:
    words = "--model Qwen/Qwen3-32B-AWQ\n--model Qwen/Qwen3-32B-FP8\n"
    assert only(words + SUMMARY).model == ""


@pytest.mark.parametrize(
    ("words", "model", "weights", "gpu"),
    [
        (
            "MacBook (M3 Max, 64GB)\nmlx_lm.generate --model mlx-community/Qwen3-8B-4bit",
            "qwen3-8b",
            "int4",
            "m3-max-40-core-64gb",
        ),
        ("Here on an RTX 3090: mlx-community/Qwen3-14B-8bit", "qwen3-14b", "int8", "rtx-3090"),
    ],
)
def test_timings_of_a_local_run_are_of_what_the_words_around_name(
    words: str, model: str, weights: str, gpu: str
) -> None:
    timings = "Prompt: 812 tokens, 261.786 tokens-per-sec\nGeneration: 300 tokens, 23.146 tokens-per-sec\n"
    _, rows = registry.read(f"{words}\n\n==========\n{timings}Peak memory: 9.5 GB\n", "text")
    assert rows
    for row in rows:
        assert isinstance(row, LlamaBenchRow)
        assert (models.get(row.file_stem).record.id, row.weight_dtype, row.device) == (model, weights, gpu)


def test_the_log_of_a_second_engine_is_not_dropped_in_silence() -> None:
    second = "KV Cache is allocated. #tokens: 40000, K size: 2.00 GB, V size: 2.00 GB\n"
    first = "GPU KV cache size: 20,000 tokens\n"
    for text in (first + second, second + first):
        assert any("log of vllm" in note for note in read_server_log(text).notes)
    assert not any("log of" in note for note in read_server_log(second).notes)
