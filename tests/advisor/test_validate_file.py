"""`advisor validate file`: one door for everything that was measured."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.catalog.formats.llama_bench import read_llama_bench
from advisor.evidence.own_server import local_row_of

Cli = Callable[[str], Any]
FORMATS: Final = Path(__file__).parents[1] / "catalog" / "formats"


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("vllm_bench.json", "--gpu h100-sxm --tp 2", "loads"),
        ("vllm_printed.txt", "--gpu h100-sxm --tp 2 --model qwen2.5-72b", "loads"),
        ("guidellm.json", "--gpu h100-sxm", "loads"),
        ("aiperf.json", "--gpu h200-sxm", "loads"),
        ("inferencex.json", "", "loads"),
        ("llama_bench.txt", "--model llama-3.1-8b", "loads"),
        ("genai_perf.csv", "--gpu h100-sxm --model qwen3-0.6b --concurrency 1", "loads"),
        ("llama_bench.sql", "--model qwen2.5-7b", "loads"),
        ("prometheus.txt", "--gpu h100-sxm --concurrency 12", "loads"),
        ("vllm.log", "--gpu h100-sxm", "figures"),
        ("sglang.log", "--gpu h100-sxm", "figures"),
        ("tensorrt_llm.log", "--gpu h100-sxm --model llama-3.1-8b", "figures"),
        ("llama_cpp.log", "", "figures"),
        ("trtllm_bench.txt", "--gpu h100-sxm", "loads"),
        ("nccl_tests.txt", "", "sizes"),
        ("nvbandwidth.txt", "", "measurements"),
        ("gpu_topology.txt", "", "remarks"),
        ("dcgm_diag.txt", "", "checks"),
    ],
)
def test_every_format_is_judged(cli: Cli, name: str, options: str, kind: str) -> None:
    found = cli(f"advisor validate file {FORMATS / name} {options} --json").document()
    assert found[kind]
    if kind == "loads":
        assert [one["status"] for one in found["loads"]] == ["ok"] * len(found["loads"])
        assert all(one["figures"] for one in found["loads"])


def test_architecture_and_size_of_a_llama_bench_table_name_the_model(cli: Cli) -> None:
    run = cli(f"advisor validate file {FORMATS / 'llama_bench.txt'}")
    assert run.code == 0, run.err
    assert "llama-3.1-8b" in run.out  # `llama 8B`: its layers are those of every Llama 3 of this size


@pytest.mark.parametrize(
    ("name", "options", "what", "fix"),
    [
        ("vllm_bench.json", "", "which accelerator", "--gpu ID"),
        ("vllm_printed.txt", "--gpu h100-sxm", "which model", "--model ID"),
        ("prometheus.txt", "--gpu h100-sxm", "how requests were sent", "--concurrency N"),
        ("vllm.log", "", "the accelerator", "--gpu ID"),
        ("tensorrt_llm.log", "", "the model and the accelerator", "--model ID --gpu ID"),
    ],
)
def test_what_neither_file_nor_person_says_is_named(
    cli: Cli, name: str, options: str, what: str, fix: str
) -> None:
    run = cli(f"advisor validate file {FORMATS / name} {options}")
    assert run.code == 2
    assert what in run.err
    assert fix in run.err


@pytest.mark.parametrize(
    ("model", "engine", "weights", "tp"),
    [
        ("gpt-oss-20b", "vllm", "mxfp4", 1),
        ("deepseek-v3", "sglang", "fp8", 8),
        ("qwen2.5-72b", "vllm", "bf16", 4),
        ("qwen2.5-72b-instruct-awq", "vllm", "int4", 2),
    ],
)
def test_a_result_without_a_format_is_of_the_published_one(
    cli: Cli, model: str, engine: str, weights: str, tp: int
) -> None:
    line = f"advisor validate file {FORMATS / 'vllm_printed.txt'} --gpu h200-sxm --model {model} --engine {engine}"
    silent, stated = (
        cli(f"{line} --tp {tp}{words} --json").document()["loads"]
        for words in ("", f" --precision {weights}")
    )
    figures = [[one["figures"] for one in loads] for loads in (silent, stated)]
    assert figures[0] == figures[1]


def test_a_result_without_lengths_is_refused_until_they_are_typed(cli: Cli, tmp_path: Path) -> None:
    found = json.loads((FORMATS / "inferencex.json").read_text())
    file = tmp_path / "agg.json"
    file.write_text(json.dumps({name: value for name, value in found.items() if name not in ("isl", "osl")}))
    refused = cli(f"advisor validate file {file}")
    assert refused.code == 2
    assert "the prompt length" in refused.err
    assert "--input-tokens N" in refused.err
    assert cli(f"advisor validate file {file} --input-tokens 1024 --output-tokens 1024").code == 0


def test_pairs_across_sockets_are_as_expected(cli: Cli, tmp_path: Path) -> None:
    """RTX A6000: 26.3 GB/s within a processor and 21.9 across are normal (NVIDIA/nvbandwidth issues)."""
    file = tmp_path / "out.txt"
    file.write_text(
        "nvbandwidth Version: v0.8\nRunning device_to_device_memcpy_read_ce.\n"
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "           0         1         2\n"
        " 0       N/A     26.34     21.95\n 1     26.34       N/A     21.86\n 2     21.82     21.82       N/A\n"
    )
    run = cli(f"advisor validate file {file} --gpu rtx-a6000 --json")
    found = json.loads(run.out)
    assert {one["status"] for one in found["measurements"]} == {"pass"}
    assert cli(f"advisor validate file {file}").code == 2  # which accelerator is not guessed


def test_a_slow_server_gets_its_likeliest_cause(cli: Cli, tmp_path: Path) -> None:
    row = json.loads((FORMATS / "vllm_bench.json").read_text())
    told = "--gpu h100-sxm --model llama-3.1-8b --input-tokens 1024 --output-tokens 256 --concurrency 64"
    served = "--requests 200 --length-dist fixed --max-num-seqs 8 --json"
    lengths = "--concurrency 64 --input-tokens 1024 --output-tokens 256"
    base = cli(f"advisor simulate serve --model llama-3.1-8b --gpu h100-sxm {lengths} {served}")
    metrics = json.loads(base.out)["metrics"]
    rate = metrics["output_tokens_per_s"]["value"]
    row |= {
        "request_rate": "inf",
        "max_concurrency": 64,
        "completed": 200,
        "total_input_tokens": 204800,
        "total_output_tokens": 51200,
        "output_throughput": rate,
        "total_token_throughput": 5 * rate,
        "request_throughput": rate / 256,
    }
    for part, name in (("mean", "mean"), ("p50", "median"), ("p99", "p99")):
        row[f"{name}_ttft_ms"] = metrics["ttft_s"][part]["value"] * 1000
        row[f"{name}_tpot_ms"] = metrics["tpot_s"][part]["value"] * 1000
    file = tmp_path / "slow.json"
    file.write_text(json.dumps(row))
    found = json.loads(cli(f"advisor validate file {file} {told} --json").out)
    assert found["loads"][0]["verdict"] == "slower"
    assert "8 sequences" in found["loads"][0]["causes"][0]["words"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00x", b"hello", b"{", b"a,b\n1,2\n"])
def test_what_is_no_measurement_is_refused(cli: Cli, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "what"
    file.write_bytes(content)
    run = cli(f"advisor validate file {file}")
    assert run.code == 2
    assert "To fix" in run.err
    assert "internal error" not in run.err


def test_a_prompt_is_predicted_in_the_micro_batches_that_its_test_ran() -> None:
    fields = {
        "n_prompt": 2048,
        "n_gen": 0,
        "avg_ts": 998.24,
        "n_ubatch": 2048,
        "model_filename": "gpt-oss-120b-mxfp4.gguf",
        "gpu_info": "NVIDIA GeForce RTX 4090",
    }
    for step in (512, 2048):
        (test,) = read_llama_bench(json.dumps([fields | {"n_ubatch": step}]))
        row, notes = local_row_of(test, {})
        assert (row["micro_batch_tokens"], notes) == (str(step), ())


def test_a_tag_of_ollama_names_model_and_format() -> None:
    text = (
        "$ ollama run qwen3:8b --verbose\nprompt eval count:    26 token(s)\nprompt eval rate:     83.30 tokens/s\n"
        "eval count:           312 token(s)\neval rate:            24.80 tokens/s\n"
    )
    row, _ = local_row_of(read_llama_bench(text)[0], {"gpu": "rtx-3060-12gb"})
    assert (row["model"], row["weight_dtype"]) == ("qwen3-8b", "q4_k_m")


def test_the_only_file_of_a_command_is_its_own_though_it_shows_a_start_command(
    cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "result.md"
    file.write_text(
        "# 4x H100\n```bash\nvllm serve meta-llama/Llama-3.3-70B-Instruct -tp 4\n```\n"
        "| ISL | OSL | Concurrency | TTFT (ms) | TPOT (ms) |\n|---|---|---|---|---|\n| 128 | 128 | 1 | 40 | 12 |\n"
    )
    run = cli(f"advisor validate file {file} --json")
    assert run.code == 0, run.err
    assert "gpu h100-sxm, engine vllm, tp 4" in run.err


_LOADED: Final = "vllm serve openai/gpt-oss-120b\nINFO: Model loading took 65.9651 GiB and 12.8 seconds\n"
_OFFLOADED: Final = (
    'msg=offload library=cuda layers.model=49 layers.offload=49 memory.required.full="10.3 GiB" '
    'memory.required.kv="608.0 MiB"\n'
)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (
            f"{_LOADED}INFO: Available KV cache memory: -2.14 GiB\nERROR [core.py:700] EngineCore failed to start.\n",
            "--gpu h100-sxm",
            ("the server did not start", "-2.14 GiB", "leave none for the cache"),
        ),
        (
            f"{_LOADED}RuntimeError: Engine core initialization failed. See root cause above.\n",
            "--gpu h100-sxm",
            ("the server did not start", "the cache is not compared"),
        ),
        (_LOADED, "--gpu h100-sxm", ("1 of 1 figures", "the cache is not compared")),
        (
            f"# Gemma 3 12b (Q4_K_M) fills RAM\n{_OFFLOADED}",
            "--gpu rtx-3060",
            ("gemma-3-12b (q4_k_m)", "no figure of the log can be compared"),
        ),
        (
            f"llama_model_loader: loaded data from /models/gemma-3-12b-it-Q5_K_M.gguf\n{_OFFLOADED}",
            "--gpu rtx-3060",
            ("gemma-3-12b (q5_k_m)",),
        ),
    ],
)
def test_a_log_keeps_its_failure_its_format_and_says_what_was_not_compared(
    cli: Cli, tmp_path: Path, text: str, options: str, says: tuple[str, ...]
) -> None:
    (tmp_path / "server.log").write_text(text)
    run = cli(f"advisor validate file {tmp_path / 'server.log'} {options}")
    told = " ".join(f"{run.out} {run.err}".split())
    assert [words for words in says if words not in told] == []
    assert ("did not start" in told) == ("did not start" in says[0])


def test_timings_of_a_chip_name_it_and_are_no_list_of_prices(cli: Cli, tmp_path: Path) -> None:
    timings = {
        "model": "mlx-community/Qwen3-0.6B-8bit",
        "hardware": {"chip": "M4 Pro", "memory_gb": 48.0},
        "ttft_ms": {"mean": 74.6},
        "tpot_ms": {"mean": 3.52},
        "latency_seconds": {"mean": 0.972, "min": 0.960},
    }
    (tmp_path / "timings.json").write_text(json.dumps(timings))
    run = cli(f"advisor validate file {tmp_path / 'timings.json'}")
    assert run.code == 2
    assert "the prompt length" in run.err
    assert "which accelerator" not in run.err
    assert "price" not in run.err


def test_checks_that_failed_are_told_without_the_name_of_the_accelerator(cli: Cli, tmp_path: Path) -> None:
    text = (
        (FORMATS / "dcgm_diag.txt")
        .read_text()
        .replace("| GPU Device IDs Detected   | 2330,2330", "| Driver | 1")
    )
    (tmp_path / "dcgm.txt").write_text(text)
    run = cli(f"advisor validate file {tmp_path / 'dcgm.txt'}")
    assert "GPU Memory" in run.out
    assert "row remap pending" in run.out


def test_a_result_with_a_draft_that_is_not_modelled_is_compared_without_it(cli: Cli, tmp_path: Path) -> None:
    row = json.loads((FORMATS / "inferencex.json").read_text())
    row = row[0] if isinstance(row, list) else row
    file = tmp_path / "agg.json"
    rates = {name: 8 * row[name] for name in ("tput_per_gpu", "output_tput_per_gpu")}
    file.write_text(json.dumps(row | rates | {"model": "Qwen/Qwen3-8B", "tp": 1, "spec_decoding": "mtp"}))
    found = cli(f"advisor validate file {file} --json").document()["loads"][0]
    assert found["figures"]
    assert any("speculative decoding (mtp) is not in the prediction" in said for said in found["assumed"])


@pytest.mark.parametrize(("port_gbit", "status"), [(200, "pass"), (400, "fail")])
def test_the_rate_of_a_port_is_judged_by_the_network_that_is_named(
    cli: Cli, tmp_path: Path, port_gbit: int, status: str
) -> None:
    file = tmp_path / "ib.txt"
    file.write_text(
        "                    RDMA_Write BW Test\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        " 65536      5000             197.12             196.98             0.375717\n"
    )
    found = cli(f'advisor validate file {file} --network "InfiniBand 8x{port_gbit}Gb" --json').document()
    assert [m["status"] for m in found["measurements"]] == [status]
