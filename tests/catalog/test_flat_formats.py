"""Flat files of benchmarks, timings of a request, matrices of copy rates, logs of calls and sheets of prices."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.ask.texts import text_of
from advisor.catalog import accelerators, prices
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.formats.aiperf import read_aiperf
from advisor.catalog.formats.benchmark_result import BenchmarkResult
from advisor.catalog.formats.copy_matrices import read_copy_matrices
from advisor.catalog.formats.flat_results import read_flat_results
from advisor.catalog.formats.guidellm import read_guidellm
from advisor.catalog.formats.llama_bench import read_llama_bench
from advisor.catalog.formats.nccl_tests import parse_nccl_tests
from advisor.catalog.formats.prometheus_text import read_prometheus_text
from advisor.catalog.formats.server_log import read_server_log
from advisor.catalog.formats.vllm_bench import read_vllm_bench
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIB
from advisor.evidence.own_server import local_row_of
from advisor.simulator.serving.trace_files import read_trace

FOLDER: Final = Path(__file__).parent / "formats"
EXPECTED: Final[dict[str, dict[str, Any]]] = {
    "llmperf.json": {
        "tool": "llmperf",
        "model": "meta-llama/Llama-3.1-70B-Instruct",
        "concurrency": 4,
        "lengths": (1000.0, 200.0),
        "rates": (190.0, None, 0.95),
        "means": (0.16, None, 4.2),
    },
    "inference_perf.json": {
        "tool": "inference-perf",
        "request_rate_per_s": 10.0,
        "num_requests": 600,
        "lengths": (512.0, 256.0),
        "rates": (2540.0, 7640.0, 9.9),
        "means": (0.05, 0.0093, 2.4),
    },
    "trtllm_bench.json": {
        "tool": "trtllm-bench",
        "engine": "tensorrt-llm",
        "concurrency": 900,
        "tensor_parallel": 1,
        "lengths": (128.0, 128.0),
        "rates": (14222.0, 28444.0, 111.0),
        "means": (None, None, 5.0),
    },
    "one_batch.jsonl": {
        "tool": "sglang bench_one_batch",
        "engine": "sglang",
        "concurrency": 16,
        "num_requests": 16,
        "max_num_seqs": 16,
        "lengths": (1024.0, 128.0),
        "rates": (None, 13653.0, None),
        "means": (0.35, None, 1.35),
    },
    "batched_bench.txt": {
        "tool": "llama-batched-bench",
        "engine": "llama.cpp",
        "concurrency": 1,
        "lengths": (512.0, 128.0),
        "rates": (None, 581.82, None),
        "means": (0.1, None, 1.1),
    },
    "vllm_latency.json": {
        "tool": "vllm bench latency",
        "engine": "vllm",
        "lengths": (None, None),
        "rates": (None, None, None),
        "means": (None, None, 1.05),
    },
    "vllm_throughput.json": {
        "tool": "vllm bench throughput",
        "num_requests": 1000,
        "request_rate_per_s": float("inf"),
        "lengths": (None, None),
        "rates": (None, 15794.7, 12.34),
        "means": (None, None, None),
    },
    "k6.json": {
        "tool": "k6",
        "concurrency": 20,
        "lengths": (None, None),
        "rates": (None, None, 9.8),
        "means": (None, None, 2.3505),
    },
    "locust.csv": {
        "tool": "locust",
        "num_requests": 1200,
        "lengths": (None, None),
        "rates": (None, None, 9.8),
        "means": (None, None, 2.3505),
    },
}


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPECTED)
def test_each_figure_of_a_flat_file_is_found_at_its_place(name: str) -> None:
    found = read_flat_results(read(name))[0]
    expected = dict(EXPECTED[name])
    assert (found.mean_input_tokens, found.mean_output_tokens) == expected.pop("lengths")
    rates = (found.output_tokens_per_s, found.total_tokens_per_s, found.requests_per_s)
    assert rates == pytest.approx(expected.pop("rates"))
    assert (found.ttft.mean_s, found.tpot.mean_s, found.e2e.mean_s) == pytest.approx(expected.pop("means"))
    assert {each: getattr(found, each) for each in expected} == expected


def test_every_row_of_a_table_and_every_line_of_json_is_a_load() -> None:
    assert [one.concurrency for one in read_flat_results(read("batched_bench.txt"))] == [1, 8]
    line = json.loads(read("one_batch.jsonl"))
    lines = "\n".join(json.dumps(line | {"batch_size": size}) for size in (1, 4, 16))
    assert [one.concurrency for one in read_flat_results(f"{lines}\n{lines[:40]}")] == [1, 4, 16]


def test_a_shared_prompt_and_a_csv_without_fixed_columns_are_refused() -> None:
    with pytest.raises(InputFileError, match="share one prompt"):
        read_flat_results(read("batched_bench.txt").replace("is_pp_shared = 0", "is_pp_shared = 1"))
    for head in ("Type,Run Id,Id,Name", "Run Info,Run Info,Benchmark"):
        with pytest.raises(InputFileError) as raised:
            read_guidellm(f"{head}\n1,2,3,4\n")
        assert "benchmarks.json" in raised.value.fix


def test_k6_is_read_from_both_of_its_exports() -> None:
    flat = json.loads(read("k6.json"))
    nested = {name: {"type": "x", "values": values} for name, values in flat["metrics"].items()}
    assert read_flat_results(json.dumps({"metrics": nested})) == read_flat_results(json.dumps(flat))


def test_the_printed_latency_of_a_batch_is_that_of_the_file() -> None:
    printed = "Avg latency: 1.05 seconds\n50% percentile latency: 1.05 seconds\n99% percentile latency: 1.06 seconds\n"
    found: BenchmarkResult = read_flat_results(printed)[0]
    assert found == read_flat_results(read("vllm_latency.json"))[0]


def test_offline_throughput_of_sglang_sends_all_requests_at_once() -> None:
    printed = (
        "====== Offline Throughput Benchmark Result =======\nBackend: engine\nSuccessful requests: 10\n"
        "Total input tokens: 1896\nTotal generated tokens: 2970\nRequest throughput (req/s): 2.97\n"
        "Output token throughput (tok/s): 883.18\n==================================================\n"
    )
    saved = {
        "backend": "engine",
        "successful_requests": 10,
        "total_input_tokens": 1896,
        "total_output_tokens": 2970,
    }
    saved |= {"request_throughput": 2.97, "output_throughput": 883.18}
    for text in (printed, json.dumps(saved)):
        (found,) = read_vllm_bench(text)
        assert (found.request_rate_per_s, found.num_requests) == (float("inf"), 10)
        assert (found.mean_output_tokens, found.output_tokens_per_s) == (297.0, 883.18)


def test_gpus_of_llama_bench_share_the_layers() -> None:
    table = (
        "ggml_cuda_init: found 2 CUDA devices:\n  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6\n"
        "| model | size | params | backend | ngl | test | t/s |\n| --- | --- | --- | --- | --: | --: | --: |\n"
        "| qwen3 32B Q4_K - Medium | 18.40 GiB | 32.76 B | CUDA | 99 | tg128 | 35.20 ± 0.02 |\n"
    )
    fields = {
        "n_prompt": 0,
        "n_gen": 128,
        "avg_ts": 35.2,
        "gpu_info": "NVIDIA GeForce RTX 3090, NVIDIA GeForce RTX 3090",
    }
    for text in (table, json.dumps([fields | {"model_filename": "Qwen3-32B-Q4_K_M.gguf"}])):
        (test,) = read_llama_bench(text)
        assert test.num_gpus == 2
        assert local_row_of(test, {})[0]["pp"] == "2"


TIMINGS: Final = """\
slot print_timing: id 0 | task 0 |
prompt eval time =     210.00 ms /   512 tokens (    0.41 ms per token,  2438.10 tokens per second)
       eval time =    4090.00 ms /   298 tokens (   13.72 ms per token,    72.86 tokens per second)
"""


@pytest.mark.parametrize("text", [TIMINGS, TIMINGS * 3, read("ollama_verbose.txt")])
def test_timings_of_a_request_are_a_prompt_and_an_output_behind_it(text: str) -> None:
    prompt, output = read_llama_bench(text)
    assert (prompt.num_prompt_tokens, prompt.tokens_per_s) == (512, 2438.1)
    assert (output.num_output_tokens, output.depth_tokens, output.tokens_per_s) == (298, 512, 72.86)


def test_metal_names_its_device_in_a_log() -> None:
    log = (
        "ggml_metal_init: found device: Apple M3 Ultra\nload_tensors: offloaded 9/9 layers to GPU\n"
        "load_tensors: Metal_Mapped model buffer size = 99000.00 MiB\n"
        "llama_kv_cache: Metal KV buffer size = 6016.00 MiB\n"
    )
    assert read_server_log(log).device == "Apple M3 Ultra"


def test_a_device_without_a_rate_to_itself_is_the_host() -> None:
    found = read_copy_matrices(read("rocm_bandwidth_test.txt"))
    rates = {(rate.check, rate.source, rate.target): rate.bytes_per_s for rate in found.rates}
    assert found.device == "AMD Instinct MI300X"
    assert len(rates) == 6
    assert rates["peer.copy", 0, 1] == pytest.approx(47.9e9)
    assert rates["host_link.h2d", None, 0] == pytest.approx(55.2e9)
    assert rates["host_link.d2h", 1, None] == pytest.approx(55.5e9)


def test_rates_with_peer_access_count_before_those_without() -> None:
    text = read("p2p_bandwidth.txt")
    faster = text.replace("11.52", "50.0", 1)
    assert {rate.bytes_per_s for rate in read_copy_matrices(faster).rates} == {11.52e9, 11.6e9}
    with pytest.raises(InputFileError, match="GiB/s"):
        read_copy_matrices(text.replace("(GB/s)", "(GiB/s)"))


def test_metrics_of_servers_that_count_no_requests_are_refused_with_a_reason() -> None:
    with pytest.raises(InputFileError) as raised:
        read_prometheus_text("llamacpp:prompt_tokens_total 12000\n")
    assert "llama.cpp" in raised.value.why


CALLS = {
    "litellm": '[{"startTime": "2025-09-01T10:00:00.5", "endTime": "x", "prompt_tokens": 800, "completion_tokens": 40},'
    ' {"startTime": "2025-09-01T10:00:04.5", "prompt_tokens": 300, "completion_tokens": 90}]',
    "litellm csv": "request_id,startTime,prompt_tokens,completion_tokens\na,2025-09-01 10:00:00.5+00,800,40\n"
    "b,2025-09-01 10:00:04.5+00,300,90\n",
    "langfuse": '[{"type": "SPAN", "startTime": "2025-09-01T09:00:00Z"}, {"type": "GENERATION", "startTime": '
    '"2025-09-01T10:00:00Z", "usage": {"input": 800, "output": 40}}, {"type": "GENERATION", "startTime": '
    '"2025-09-01T10:00:04Z", "usageDetails": {"input": 300, "output": 90}}]',
    "page of langfuse": '{"data": [{"type": "GENERATION", "startTime": "2025-09-01T10:00:00Z", "promptTokens": 800, '
    '"completionTokens": 40}, {"type": "GENERATION", "startTime": "2025-09-01T10:00:04Z", "promptTokens": 300, '
    '"completionTokens": 90}], "meta": {"page": 1}}',
    "jaeger": '{"data": [{"traceID": "a", "spans": [{"startTime": 1000000, "tags": [{"key": '
    '"gen_ai.usage.input_tokens", "value": 800}, {"key": "gen_ai.usage.output_tokens", "value": 40}]}, '
    '{"startTime": 2000000, "tags": []}]}, {"traceID": "b", "spans": [{"startTime": 5000000, "tags": [{"key": '
    '"gen_ai.usage.input_tokens", "value": 300}, {"key": "gen_ai.usage.output_tokens", "value": 90}]}]}]}',
    "openai": '{"created": 1741569952, "usage": {"prompt_tokens": 800, "completion_tokens": 40}}\n'
    '{"created": 1741569956, "usage": {"prompt_tokens": 300, "completion_tokens": 90}}\n',
    "anthropic": '{"timestamp": "2025-09-01T10:00:00Z", "usage": {"input_tokens": 100, "cache_read_input_tokens": 700, '
    '"output_tokens": 40}}\n{"timestamp": "2025-09-01T10:00:04Z", "usage": '
    '{"input_tokens": 300, "output_tokens": 90}}\n',
    "sheet": "arrived_at_s;input_tokens;output_tokens\n0,5;800;40\n4,5;300;90\n",
    "ollama": '{"created_at": "2025-09-01T10:00:00.1Z", "prompt_eval_count": 800, "eval_count": 40}\n'
    '{"created_at": "2025-09-01T10:00:04.1Z", "prompt_eval_count": 300, "eval_count": 90}\n',
    "gemini": '{"createTime": "2025-09-01T10:00:00Z", "usageMetadata": {"promptTokenCount": 800, '
    '"candidatesTokenCount": 30, "thoughtsTokenCount": 10}}\n{"createTime": "2025-09-01T10:00:04Z", '
    '"usageMetadata": {"promptTokenCount": 300, "candidatesTokenCount": 90}}\n',
    "openrouter": "created_at,tokens_prompt,tokens_completion\n2025-09-01 10:00:00,800,40\n"
    "2025-09-01 10:00:04,300,90\n",
    "portkey": "created_at,req_units,res_units\n2025-09-01 10:00:00,800,40\n2025-09-01 10:00:04,300,90\n",
    "kong": '{"started_at": 1756720000000, "ai": {"proxy": {"usage": '
    '{"prompt_tokens": 800, "completion_tokens": 40}}}}\n'
    '{"started_at": 1756720004000, "ai": {"proxy": {"usage": {"prompt_tokens": 300, "completion_tokens": 90}}}}\n',
}
BEDROCK: Final = (
    '{"timestamp": "2025-09-01T10:00:00Z", "input": {"inputTokenCount": 800}, "output": {"outputTokenCount": 40}}',
    '{"timestamp": "2025-09-01T10:00:04Z", "input": {"inputTokenCount": 300}, "output": {"outputTokenCount": 90}}',
)
AGENT: Final = (
    {"type": "summary", "summary": "x"},
    {"type": "user", "timestamp": "2025-09-01T09:59:00Z", "message": {"content": "x"}},
    {
        "type": "assistant",
        "requestId": "a",
        "timestamp": "2025-09-01T09:59:59Z",
        "message": {"usage": {"input_tokens": 100, "cache_read_input_tokens": 700, "output_tokens": 7}},
    },
    {
        "type": "assistant",
        "requestId": "a",
        "timestamp": "2025-09-01T10:00:00Z",
        "message": {"usage": {"input_tokens": 100, "cache_read_input_tokens": 700, "output_tokens": 40}},
    },
    {
        "type": "assistant",
        "requestId": "b",
        "timestamp": "2025-09-01T10:00:04Z",
        "message": {"usage": {"input_tokens": 300, "output_tokens": 90}},
    },
)
CODEX: Final = [
    {
        "type": "event_msg",
        "timestamp": f"2025-09-01T10:00:0{second}Z",
        "payload": {
            "info": {
                "total_token_usage": {"input_tokens": 9999, "output_tokens": 999},
                "last_token_usage": {"input_tokens": inputs, "output_tokens": outputs},
            }
        },
    }
    for second, inputs, outputs in ((0, 800, 40), (4, 300, 90))
]
CALLS |= {
    "bedrock": "\n".join(BEDROCK),
    "events of cloudwatch": json.dumps({"events": [{"timestamp": 1, "message": one} for one in BEDROCK]}),
    "claude code": "\n".join(map(json.dumps, AGENT)),
    "codex": "\n".join(map(json.dumps, ({"type": "session_meta", "payload": {"id": "x"}}, *CODEX))),
    "batch of openai": "\n".join(
        json.dumps({"id": "r", "response": {"status_code": 200, "body": json.loads(line)}, "error": None})
        for line in CALLS["openai"].splitlines()
    )
    + '\n{"id": "r", "response": null, "error": {"code": "x"}}',
}


@pytest.mark.parametrize("name", CALLS)
def test_a_log_of_calls_is_a_trace(name: str, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    file.write_text(CALLS[name], encoding="utf-8")
    trace = read_trace(file)
    assert (trace.times_s, trace.pairs) == ((0.0, 4.0), ((800, 40), (300, 90)))


def test_texts_within_a_request_are_not_counted(tmp_path: Path) -> None:
    file = tmp_path / "batch.jsonl"
    file.write_text(
        '{"custom_id": "a", "body": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}}\n'
    )
    with pytest.raises(InputFileError, match="messages holds text"):
        read_trace(file)


def test_totals_give_their_means_and_texts_are_not_counted(tmp_path: Path) -> None:
    file = tmp_path / "usage.json"
    result = {"num_model_requests": 5000, "input_tokens": 1_000_000, "output_tokens": 500_000}
    bucket = {"object": "bucket", "start_time": 0, "end_time": 86400, "results": [result]}
    file.write_text(json.dumps({"object": "page", "data": [bucket, bucket]}), encoding="utf-8")
    with pytest.raises(InputFileError) as raised:
        read_trace(file)
    assert "--input-tokens 200 --output-tokens 100 --rate 0.05787" in raised.value.fix
    file.write_text(
        "start_time,end_time,num_model_requests,input_tokens,output_tokens\n0,86400,5000,1000000,500000\n"
    )
    with pytest.raises(InputFileError, match="totals of 5,000 requests"):
        read_trace(file)
    file.write_text(json.dumps([{"conversations": [{"from": "human", "value": "x"}]}]), encoding="utf-8")
    with pytest.raises(InputFileError, match="nothing counts its tokens"):
        read_trace(file)


SHEETS: Final = {
    "commas": "gpu,price\nH100 SXM,$2.49/hr\n",
    "markdown": "| GPU | VRAM | Price/hr |\n|-----|-----:|---|\n| H100 SXM | 80 GB | $2.49 |\n",
    "semicolons": "GPU;Price per hour\nNVIDIA H100;2,49\n",
    "title with units": 'Provider,GPU Type,GPU Count,Price/hr (USD)\nacme,H100 SXM,8,"$19.92"\n',
    "tabs": "GPU\tHourly price ($)\tCloud\nH100\t2.49\tacme\n",
    "of one": "Provider,GPU,GPUs,$/GPU-hr\nacme,H100,8,2.49\n",
    "vantage": "API Name,GPUs,GPU model,vCPUs,On Demand,Linux Spot Minimum cost\n"
    "p5,8,NVIDIA H100,192,$19.9200 hourly,unavailable\nm5,0,N/A,2,$0.0960 hourly,$0.05 hourly\n",
}


@pytest.mark.parametrize("name", SHEETS)
def test_a_sheet_of_prices_is_read_by_the_titles_of_its_columns(name: str, tmp_path: Path) -> None:
    file = tmp_path / "sheet.csv"
    file.write_text(SHEETS[name], encoding="utf-8")
    (price,) = prices.read_prices(file, providers=("acme",))
    assert (price.accelerator, price.usd_per_accelerator_hour) == ("h100-sxm", pytest.approx(2.49))
    assert not price.is_dated


@pytest.mark.parametrize(
    "text",
    [
        "gpu,price\nH100,2.49 EUR\n",
        "provider;gpu;price;currency\nacme;H100;19,92;EUR\n",
    ],
)
def test_other_currencies_are_not_converted(text: str, tmp_path: Path) -> None:
    file = tmp_path / "sheet.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputFileError) as raised:
        prices.read_prices(file, providers=("acme",))
    assert "dollars" in raised.value.fix or "USD" in raised.value.fix


@pytest.mark.parametrize(
    ("period", "hours", "term"),
    [
        ("minute", 1 / 60, "on_demand"),
        ("hour", 1.0, "on_demand"),
        ("day", 24.0, "on_demand"),
        ("week", 168.0, "on_demand"),
        ("month", 730.5, "reserved_1m"),
        ("year", 8766.0, "reserved_1y"),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "gpu,price per {p}\nH100 SXM,{usd}\n",
        "gpu,price\nH100 SXM,${usd}/{p}\n",
        "gpu,price,unit\nH100 SXM,{usd},{p}\n",
        "H100 SXM: ${usd} per {p}\n",
    ],
)
def test_a_price_of_another_period_is_converted(
    text: str, period: str, hours: float, term: str, tmp_path: Path
) -> None:
    file = tmp_path / "sheet.csv"
    file.write_text(text.format(p=period, usd=round(2.5 * hours, 5)), encoding="utf-8")
    (price,) = prices.read_prices(file, providers=("acme",))
    assert (price.term, price.usd_per_hour) == (term, pytest.approx(2.5, rel=1e-3))


def test_the_price_of_an_hour_counts_before_that_of_a_month(tmp_path: Path) -> None:
    file = tmp_path / "sheet.csv"
    file.write_text("gpu,price per month,price per hour\nH100 SXM,1500,2.5\n", encoding="utf-8")
    (price,) = prices.read_prices(file, providers=("acme",))
    assert (price.term, price.usd_per_hour) == ("on_demand", 2.5)


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        ("NVIDIA GeForce RTX 3090 24GB", "rtx-3090"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Intel(R) Arc(TM) A770 Graphics", "arc-a770"),
        ("Mac Studio M2 Ultra 192GB", "m2-ultra"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000-ws"),
    ],
)
def test_an_accelerator_goes_by_the_names_of_drivers_and_shops(name: str, accelerator: str) -> None:
    assert accelerators.get(name).record.id == accelerator


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 3060 8GB", "M4 Max 63GB"])
def test_another_board_or_memory_is_not_taken_for_a_record(name: str) -> None:
    with pytest.raises(UnknownNameError):
        accelerators.get(name)


@pytest.mark.parametrize("chip", [one for one in accelerators.all_accelerators() if one.smaller_memories_gib])
def test_a_chip_is_sold_with_smaller_memories(chip: Accelerator) -> None:
    for memory in chip.smaller_memories_gib:
        found = accelerators.get(f"{chip.id} {memory}GB").record
        assert found == accelerators.by_id(f"{chip.id}-{memory}gb")
        assert found.memory_bytes == memory * GIB < (chip.memory_bytes or 0.0)
        assert found.bandwidth_bytes_per_s == chip.bandwidth_bytes_per_s


@pytest.mark.parametrize("id_", accelerators.all_ids())
def test_a_name_of_several_memories_is_said_with_the_one_that_is_taken(id_: str) -> None:
    names = (id_, *(name for name, target in accelerators.aliases().items() if target == id_))
    others = accelerators.other_memories(accelerators.by_id(id_))
    for name in names:
        record, note = accelerators.get(name)
        said = f"{record.memory_bytes / GIB:.0f} GB" if record.memory_bytes else ""
        states_memory = re.search(r"\d+-?gb?\b", name) is not None
        assert (bool(others) and not states_memory) == (f"{said} of memory" in note), note
        assert all(other in note for other in others) or states_memory
        for other in others:
            assert not accelerators.get(other).note
            assert accelerators.get(other).record.memory_bytes != record.memory_bytes


OHA: Final = {
    "summary": {"average": 0.82, "requestsPerSec": 9.7},
    "latencyPercentiles": {"p50": 0.81, "p99": 1.15},
    "statusCodeDistribution": {"200": 117},
}
SUMMARIES: Final = {
    "oha": json.dumps(OHA),
    "oha printed": "Summary:\n  Success rate:\t100.00%\n  Average:\t0.8200 secs\n  Requests/sec:\t9.7000\n\n"
    "Response time distribution:\n  50.00% in 0.8100 secs\n  99.00% in 1.1500 secs\n\n  [200] 117 responses\n",
    "hey": "\nSummary:\n  Total:\t12.0 secs\n  Average:\t0.8200 secs\n  Requests/sec:\t9.7000\n\n"
    "Latency distribution:\n  50%% in 0.8100 secs\n  99%% in 1.1500 secs\n\nStatus code distribution:\n"
    "  [200]\t117 responses\n",
    "wrk": "Running 12s test @ http://localhost\n  2 threads and 8 connections\n  Thread Stats   Avg      Stdev\n"
    "    Latency   820.00ms   60.11ms   1.20s    80.00%\n    Req/Sec     5.10      1.50    12.00     70.00%\n"
    "  Latency Distribution\n     50%  810.00ms\n     99%    1.15s\n  117 requests in 12.00s, 1.10MB read\n"
    "Requests/sec:      9.70\n",
    "vegeta": json.dumps(
        {
            "latencies": {"mean": 820_000_000, "50th": 810_000_000, "99th": 1_150_000_000},
            "bytes_in": {"total": 1},
            "requests": 117,
            "rate": 10.0,
            "throughput": 9.7,
            "status_codes": {"200": 117},
        }
    ),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_programs_that_time_whole_requests_say_one_thing(name: str) -> None:
    (found,) = read_flat_results(SUMMARIES[name])
    assert (found.num_requests, found.requests_per_s) == (117, 9.7)
    assert (found.e2e.mean_s, found.e2e.p50_s, found.e2e.p99_s) == pytest.approx((0.82, 0.81, 1.15))


def test_scenarios_of_mlperf_send_requests_as_they_are_called() -> None:
    head = "SUT name : vllm\nScenario : {}\nMode     : PerformanceOnly\n"
    (offline,) = read_flat_results(
        head.format("Offline") + "Samples per second: 10.5\nTokens per second: 3100.2\n"
    )
    assert (offline.request_rate_per_s, offline.output_tokens_per_s) == (float("inf"), 3100.2)
    (server,) = read_flat_results(
        head.format("Server")
        + "Scheduled samples per second : 9.01\nCompleted samples per second    : 8.90\n"
        "Mean First Token latency (ns)                : 500000000\n"
        "Mean Time to Output Token (ns)              : 60000000\n"
    )
    assert (server.request_rate_per_s, server.requests_per_s) == (9.01, 8.9)
    assert (server.ttft.mean_s, server.tpot.mean_s) == pytest.approx((0.5, 0.06))


OLLAMA: Final = """\
time=x msg="inference compute" id=GPU-1 library=cuda name="NVIDIA GeForce RTX 3090" total="23.7 GiB"
time=x msg="model weights" device=CUDA0 size="4.5 GiB"
time=x msg="model weights" device=CPU size="333.8 MiB"
time=x msg="kv cache" device=CUDA0 size="1.1 GiB"
time=x msg="offloaded 37/37 layers to GPU"
time=x msg=load request="{Operation:alloc Parallel:1 KvSize:4096 KvCacheType: NumThreads:8}"
time=x msg=load request="{Operation:commit Parallel:2 KvSize:8192 KvCacheType:q8_0 NumThreads:8}"
"""


def test_the_log_of_ollama_states_weights_cache_and_slots() -> None:
    found = read_server_log(OLLAMA)
    assert (found.weight_bytes, found.kv_bytes) == (4.5 * GIB, 1.1 * GIB)
    assert (found.kv_tokens, found.max_num_seqs, found.kv_dtype) == (8192, 2, "q8_0")
    assert found.device == "NVIDIA GeForce RTX 3090"


OFFLOAD: Final = """\
time=x level=INFO msg="inference compute" id=GPU-1 library=cuda name="NVIDIA RTX A4000" total="15.7 GiB"
time=x level=INFO msg=offload library=cuda layers.requested=-1 layers.model=49 layers.offload=25 \
layers.split={split} memory.required.full="60.1 GiB" memory.required.kv="2.5 GiB" \
memory.weights.total="50.0 GiB" memory.weights.repeating="48.0 GiB"
time=x level=INFO msg="starting llama server" cmd="ollama runner --ctx-size 8192 --parallel 1"
"""


@pytest.mark.parametrize(
    ("split", "cards", "share"), [('""', None, 1.0), ("13,12", 2, 0.52), ("0,25", 1, 1.0)]
)
def test_an_estimate_of_ollama_is_a_log_and_its_layers_are_split_among_cards(
    split: str, cards: int | None, share: float
) -> None:
    found = read_server_log(OFFLOAD.format(split=split))
    assert (found.kv_tokens, found.kv_bytes, found.gpu_layers) == (8192, 2.5 * GIB, 26)
    assert found.weight_bytes == pytest.approx(48.0 * GIB * 25 / 48 * share)
    assert (found.pipeline_parallel or 1) == (cards or 1)


def test_a_setting_at_the_end_of_a_sentence_is_read() -> None:
    log = (
        "server_args=ServerArgs(model_path='x/y', tp_size=2, mem_fraction_static=0.8)\n"
        "[TP0] Load weight end. avail mem=3.00 GB, mem usage=60.00 GB.\n"
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.8.\n"
    )
    found = read_server_log(log)
    assert (found.memory_fraction, found.tensor_parallel, found.has_failed) == (0.8, 2, True)


def test_vllm_names_its_model_among_its_arguments() -> None:
    log = "vLLM API server version 0.10.2\nnon-default args: {'model': 'x/y', 'max_model_len': 16384}\n"
    assert read_server_log(f"{log}GPU KV cache size: 168,928 tokens\n").model == "x/y"


METRICS: Final = {
    "vllm:e2e_request_latency_seconds_sum": 900,
    "vllm:e2e_request_latency_seconds_count": 1000,
    "vllm:prompt_tokens_total": 500_000,
    "vllm:generation_tokens_total": 100_000,
}


@pytest.mark.parametrize("key", ["value", "values"])
def test_an_answer_of_prometheus_is_the_metrics_that_it_holds(key: str) -> None:
    text = "\n".join(f'{name}{{model_name="x/y"}} {value}' for name, value in METRICS.items())
    rows = [
        {
            "metric": {"__name__": name, "model_name": "x/y"},
            key: [1, str(value)] if key == "value" else [[0, "0"], [1, str(value)]],
        }
        for name, value in METRICS.items()
    ]
    answer = {"status": "success", "data": {"resultType": "vector", "result": rows}}
    assert read_prometheus_text(json.dumps(answer)) == read_prometheus_text(text)


def test_metrics_of_tgi_state_lengths_and_whole_requests() -> None:
    names = ("request_duration", "request_input_length", "request_generated_tokens")
    text = "".join(
        f"tgi_{name}_sum {value}\ntgi_{name}_count 10\n"
        for name, value in zip(names, (9, 5000, 1000), strict=True)
    )
    found = read_prometheus_text(text).result
    assert (found.e2e.mean_s, found.mean_input_tokens, found.mean_output_tokens) == (0.9, 500.0, 100.0)


def test_generations_of_mlx_are_a_prompt_and_an_output_behind_it() -> None:
    text = (
        "==========\nPrompt: 512 tokens, 560.1 tokens-per-sec\nGeneration: 200 tokens, 62.0 tokens-per-sec\n"
    )
    prompt, output = read_llama_bench(text)
    assert (prompt.num_prompt_tokens, prompt.tokens_per_s) == (512, 560.1)
    assert (output.num_output_tokens, output.depth_tokens, output.tokens_per_s) == (200, 512, 62.0)


def request_of(start_ns: int, latency_ms: float, phase: str = "profiling") -> str:
    lengths = {"input_sequence_length": 1000, "output_sequence_length": 100}
    metrics = {
        "request_latency": {"value": latency_ms, "unit": "ms"},
        "time_to_first_token": {"value": 50, "unit": "ms"},
    }
    end_ns = start_ns + round(latency_ms * 1e6)
    counted = {name: {"value": value, "unit": "tokens"} for name, value in lengths.items()}
    return json.dumps(
        {
            "metadata": {"request_start_ns": start_ns, "request_end_ns": end_ns, "benchmark_phase": phase},
            "metrics": metrics | counted,
        }
    )


def test_lines_of_requests_give_means_and_rates_over_the_time_that_they_took() -> None:
    lines = [request_of(0, 9e9, "warmup"), request_of(10**18, 1000.0), request_of(10**18 + 10**9, 3000.0)]
    (found,) = read_aiperf("\n".join(lines))
    assert (found.e2e.mean_s, found.ttft.p50_s, found.num_requests) == (2.0, 0.05, 2)
    assert (found.requests_per_s, found.output_tokens_per_s) == pytest.approx((0.5, 50.0))
    assert (found.mean_input_tokens, found.length_dist) == (1000.0, "fixed")


def test_the_printed_table_of_genai_perf_is_its_csv() -> None:
    csv = "Metric,avg,min,max,p99,p90,p75\nTime To First Token (ms),60.00,50.1,80.12,79.00,70.00,65.00\n"
    table = (
        "  NVIDIA GenAI-Perf | LLM Metrics\n┃ Statistic ┃ avg ┃ min ┃ max ┃ p99 ┃ p90 ┃ p75 ┃\n"
        "│ Time To First Token (ms) │ 60.00 │ 50.1 │ 80.12 │ 79.00 │ 70.00 │ 65.00 │\n"
    )
    assert read_aiperf(table)[0].ttft == read_aiperf(csv)[0].ttft


@pytest.mark.parametrize("is_one_process", [True, False])
def test_json_of_nccl_tests_is_what_it_prints(is_one_process: bool) -> None:
    timing = {"time": 31800.0, "alg_bw": 270.1, "bus_bw": 472.7, "nwrong": 0.0}
    devices = [
        {"rank": rank, "hostname": "n0", "device": rank, "device_info": "NVIDIA H200"}
        for rank in range(1 if is_one_process else 8)
    ]
    config = {"nthreads": 1, "ngpus": 8 if is_one_process else 1, "devices": devices}
    row = {"size": 8 << 30, "count": 2 << 30, "type": "float", "redop": "sum", "root": "    -1"}
    whole = {"config": config, "results": [row | {"out_of_place": timing, "in_place": timing}]}
    ranks = "\n".join(
        f"#  Rank {rank} Group 0 Pid 1 on n0 device {rank} [0x1] NVIDIA H200" for rank in range(8)
    )
    printed = f"{ranks}\n{8 << 30} {2 << 30} float sum -1 31800 270.1 472.7 0 31800 270.1 472.7 0\n"
    assert parse_nccl_tests(json.dumps(whole)) == parse_nccl_tests(printed)


def test_a_folder_of_a_sweep_is_each_of_its_results(tmp_path: Path) -> None:
    saved = {
        "backend": "vllm",
        "model_id": "x/y",
        "completed": 9,
        "total_input_tokens": 900,
        "total_output_tokens": 90,
    }
    for clients in (1, 8):
        (tmp_path / f"run-{clients}.json").write_text(
            json.dumps(saved | {"max_concurrency": clients, "output_throughput": 9.0}, indent=2)
        )
    (tmp_path / "summary.json").write_text("[]")
    assert [one.concurrency for one in read_vllm_bench(text_of(tmp_path))] == [1, 8]


HEAD = "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
ROW = "| qwen3 8B Q4_K - Medium | 4.68 GiB | 8.19 B | CUDA | 99 | tg128 | 130.33 ± 0.50 |\n"


@pytest.mark.parametrize("text", [ROW, HEAD + ROW, "    " + HEAD.replace("\n", "\n    ") + ROW])
def test_a_table_of_llama_bench_is_read_with_and_without_its_title(text: str) -> None:
    (test,) = read_llama_bench(text)
    assert (test.model, test.weight_dtype) == ("qwen3 8B Q4_K - Medium", "q4_k_m")
    assert (test.num_output_tokens, test.tokens_per_s, test.num_gpu_layers) == (128, 130.33, 99)


def test_a_size_that_llama_cpp_does_not_know_is_that_of_the_parameters() -> None:
    (test,) = read_llama_bench(HEAD + ROW.replace("qwen3 8B", "gemma4 ?B").replace("8.19 B", "11.91 B"))
    assert test.model.startswith("gemma4 12B")


def test_the_command_of_a_table_names_the_file_and_processors_graphics_are_no_card() -> None:
    command = "$ llama-bench -m models/Qwen2.5-14B-Instruct-Q4_K_M.gguf -n 128\n"
    devices = (
        "ggml_vulkan: Found 2 Vulkan devices:\n"
        "ggml_vulkan: 0 = AMD Radeon RX 7900 XT (RADV NAVI31) (radv) | uma: 0 | fp16: 1\n"
        "ggml_vulkan: 1 = V3D 7.1.10.2 (V3DV Mesa) | uma: 1 | fp16: 0\n"
    )
    (test,) = read_llama_bench(command + devices + HEAD + ROW)
    assert (test.file_stem, test.num_gpus) == ("Qwen2.5-14B-Instruct-Q4_K_M", 1)


def test_tags_within_a_line_of_nccl_tests_are_skipped() -> None:
    line = "536870912 134217728 float sum -1 193909 2.77 5.31 0 192903 2.78 5.33 0"
    tagged = "[0] 536870912 134217728 float sum -1[0] 193909 2.77 5.31 0[0] 192903 2.78 5.33 0"
    assert parse_nccl_tests(tagged) == parse_nccl_tests(line)


@pytest.mark.parametrize(
    ("size", "params", "name", "means"),
    [
        ("12.83 GiB", "20.91 B", "gpt-oss 20B F16", ""),
        ("27.51 GiB", "14.77 B", "qwen3 14B F16", "fp16"),
        ("942.43 MiB", "494.03 M", "qwen2 0.5B F16", "fp16"),
        ("8.38 GiB", "14.77 B", "qwen3 14B Q4_K - Medium", "q4_k_m"),
    ],
)
def test_a_wide_type_that_the_size_contradicts_is_none(size: str, params: str, name: str, means: str) -> None:
    text = (
        "| model | size | params | backend | ngl | test | t/s |\n"
        f"| {name} | {size} | {params} | CUDA | 99 | tg128 | 45.01 ± 0.05 |\n"
    )
    (row,) = read_llama_bench(text)
    assert row.weight_dtype == means


def test_what_is_written_behind_a_figure_of_a_summary_is_no_part_of_it() -> None:
    text = (
        "============ Serving Benchmark Result ============\n"
        "Successful requests:                     640        # completed, refused ones left out\n"
        "Benchmark duration (s):                  48.47      // seconds\n"
        "Total input tokens:                      1307017\nTotal generated tokens:                  78908\n"
        "Mean TTFT (ms):                          31861.01   ← first token\n"
        "Mean TPOT (ms):                          56.84\n=================================================="
    )
    (found,) = read_vllm_bench(text)
    assert (found.num_requests, found.ttft.mean_s) == (640, pytest.approx(31.86101))
