"""Files of other programs: recognised by content, read or refused with what they lack, never guessed."""

import itertools
import json
import math
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.aiperf import read_aiperf
from advisor.catalog.formats.bandwidth_test import read_bandwidth_test
from advisor.catalog.formats.dcgm_diagnostic import read_dcgm_diagnostic
from advisor.catalog.formats.gpu_topology import read_gpu_topology
from advisor.catalog.formats.guidellm import read_guidellm
from advisor.catalog.formats.inferencex import read_inferencex
from advisor.catalog.formats.llama_bench import read_llama_bench
from advisor.catalog.formats.nccl_tests import parse_nccl_tests
from advisor.catalog.formats.nvbandwidth import read_nvbandwidth
from advisor.catalog.formats.prometheus_text import read_prometheus_text
from advisor.catalog.formats.registry import FORMATS, read, recognise
from advisor.catalog.formats.server_log import read_server_log
from advisor.catalog.formats.trtllm_bench import read_trtllm_bench
from advisor.catalog.formats.vllm_bench import read_vllm_bench
from advisor.catalog.units import GIB, MIB
from advisor.probes.topology import read_matrix

FOLDER: Final = Path(__file__).parent / "formats"
IDS: Final = {
    "nccl_tests.txt": "nccl-tests",
    "nvbandwidth.txt": "nvbandwidth",
    "gpu_topology.txt": "gpu-topology",
    "dcgm_diag.txt": "dcgm-diag",
    "llama_bench.txt": "llama-bench",
    "vllm_bench.json": "vllm-bench",
    "vllm_printed.txt": "vllm-bench",
    "guidellm.json": "guidellm",
    "aiperf.json": "aiperf",
    "inferencex.json": "inferencex",
    "vllm.log": "server-log",
    "sglang.log": "server-log",
    "tensorrt_llm.log": "server-log",
    "llama_cpp.log": "server-log",
    "trtllm_bench.txt": "trtllm-bench",
    "trtllm_bench.json": "flat-results",
    "llmperf.json": "flat-results",
    "inference_perf.json": "flat-results",
    "one_batch.jsonl": "flat-results",
    "batched_bench.txt": "flat-results",
    "vllm_latency.json": "flat-results",
    "vllm_throughput.json": "flat-results",
    "k6.json": "flat-results",
    "locust.csv": "flat-results",
    "ollama_verbose.txt": "llama-bench",
    "rocm_bandwidth_test.txt": "copy-matrices",
    "p2p_bandwidth.txt": "copy-matrices",
    "bandwidth_test.txt": "bandwidth-test",
    "prometheus.txt": "prometheus",
}
"""Id of the format of each file in the folder, whose values are invented unless a test says otherwise."""
TEXTS: Final = {name: (FOLDER / name).read_text() for name in IDS}
NCCL: Final = TEXTS["nccl_tests.txt"]
NVBANDWIDTH: Final = TEXTS["nvbandwidth.txt"]
AIPERF: Final[dict[str, Any]] = json.loads(TEXTS["aiperf.json"])
GUIDELLM: Final[dict[str, Any]] = json.loads(TEXTS["guidellm.json"])
INFERENCEX: Final[dict[str, Any]] = json.loads(TEXTS["inferencex.json"])
VLLM_BENCH: Final[dict[str, Any]] = json.loads(TEXTS["vllm_bench.json"])


def metric(unit: Any, avg: float) -> dict[str, Any]:
    """Return a metric as AIPerf and GenAI-Perf write it."""
    return {"unit": unit, "avg": avg, "p50": avg, "p99": 1.2 * avg, "std": 0.0}


@pytest.mark.parametrize("name", IDS)
def test_each_format_is_recognised_by_its_content(name: str) -> None:
    assert recognise(TEXTS[name], "x").id == IDS[name]


def test_a_file_that_was_cut_is_read_in_part_or_refused_with_a_way_out() -> None:
    for percent in [5, 20, 35, 50, 65, 80, 95, 99]:
        for name in IDS:
            text = TEXTS[name]
            try:
                read(text[: len(text) * percent // 100], "cut")
            except InputFileError as error:
                found = error
            else:
                continue
            assert found.fix


@pytest.mark.parametrize("text", ["", "hello", "{}", "[]", "[1, 2]", "a,b\n1,2\n", "\x00\x01", "{" * 5000])
def test_what_is_in_no_format_is_refused_and_the_formats_are_named(text: str) -> None:
    with pytest.raises(InputFileError) as raised:
        read(text, "file.txt")
    assert "file.txt" in raised.value.what
    assert "nccl-tests" in raised.value.fix


def test_ids_of_formats_are_unique() -> None:
    assert len({one.id for one in FORMATS}) == len(FORMATS)


PREFIXES = [
    "[1,0]<stdout>:",
    "[0] ",
    "0: ",
    "2025-05-10T00:00:00.123456789Z ",
    "[pod/worker-0/nccl] ",
    "worker-0  | ",
    " 3: ",
    "[rank0]: ",
    "pod/bench-0 | ",
    "bench-0 main │ ",
    "2025-06-01T10:00:00.123456789Z stdout F ",
    "Nov 12 10:11:12 node-7 docker[4242]: ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_prefix_of_a_launcher_changes_nothing(prefix: str) -> None:
    plain = parse_nccl_tests(NCCL)
    wrapped = "\n".join(prefix + line.lstrip() for line in NCCL.splitlines())
    assert parse_nccl_tests(wrapped) == plain
    assert (plain.operation, plain.num_ranks, plain.num_nodes) == ("all_reduce", 16, 2)
    bandwidth = "\n".join(prefix + line for line in NVBANDWIDTH.splitlines())
    assert read_nvbandwidth(bandwidth).rates == read_nvbandwidth(NVBANDWIDTH).rates


def test_no_format_is_hidden_by_the_prefix_of_a_launcher() -> None:
    for name in IDS:
        for prefix in PREFIXES:
            wrapped = "\n".join(prefix + line for line in TEXTS[name].splitlines())
            kind, found = read(wrapped, name)
            plain = read(TEXTS[name], name)
            assert (kind.id, found) == (plain[0].id, plain[1])


HEAD = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
)


def table(columns: str, ratio: float, errors: tuple[str, str], ranks: int = 16, head: str = HEAD) -> str:
    lines = "\n".join(
        f"#  Rank {i} Group 0 Pid 1 on n{i // 8} device {i % 8} [0x1] NVIDIA H200" for i in range(ranks)
    )
    timing = f"10000 107.37 {107.37 * ratio:.2f}"
    return (
        f"{lines}\n{head}  1073741824 268435456 float {columns} {timing} {errors[0]} {timing} {errors[1]}\n"
    )


@pytest.mark.parametrize(
    ("columns", "ratio", "errors", "operation"),
    [
        ("sum -1", 1.875, ("0", "0"), "all_reduce"),
        ("sum -1", 0.9375, ("0", "0"), "reduce_scatter"),
        ("none -1", 0.9375, ("0", "0"), "all_gather"),
        ("none -1", 0.9375, ("0", "N/A"), "all_to_all"),
        ("none 0", 1.0, ("0", "0"), "broadcast"),
        ("sum 0", 1.0, ("0", "0"), "reduce"),
        ("sum -1", 1.0, ("0", "N/A"), "send_recv"),
    ],
)
def test_the_columns_tell_the_collective(
    columns: str, ratio: float, errors: tuple[str, str], operation: str
) -> None:
    assert parse_nccl_tests(table(columns, ratio, errors)).operation == operation


def test_a_collective_that_the_columns_leave_open_is_said_and_may_be_named() -> None:
    text = table("none -1", 0.9375, ("N/A", "N/A"))
    assert parse_nccl_tests(text).assumed
    assert parse_nccl_tests(text, "all_to_all").operation == "all_to_all"
    assert parse_nccl_tests(text, "all_to_all").assumed == ()


def test_other_units_in_a_table_of_nccl_tests_are_refused() -> None:
    text = NCCL.replace("(us)", "(ms)")
    with pytest.raises(InputFileError, match="ms"):
        parse_nccl_tests(text)


def test_a_row_that_was_cut_is_left_out() -> None:
    cut = NCCL[: NCCL.rindex("470.39") + 2]
    assert [row.num_bytes for row in parse_nccl_tests(cut).rows] == [2**30]


def test_the_row_of_a_read_is_the_target() -> None:
    rates = {(r.check, r.source, r.target): r.bytes_per_s for r in read_nvbandwidth(NVBANDWIDTH).rates}
    assert rates[("peer.copy", 1, 0)] == pytest.approx(26.34e9)
    assert rates[("host_link.h2d", None, 1)] == pytest.approx(26.10e9)


def test_nvbandwidth_in_json_is_read_alike() -> None:
    cases = [
        {
            "name": "device_to_device_memcpy_read_ce",
            "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix": [["N/A", "26.34"], ["21.95", "N/A"]],
        }
    ]
    found = read_nvbandwidth(
        json.dumps(
            {"nvbandwidth": {"GPU Device list": ["0: NVIDIA RTX A6000 (0000:01:00)"], "testcases": cases}}
        )
    )
    assert found.device == "NVIDIA RTX A6000"
    assert found.rates == tuple(r for r in read_nvbandwidth(NVBANDWIDTH).rates if r.check == "peer.copy")


def test_what_two_tools_say_of_links_is_one_report() -> None:
    texts = [TEXTS[name] for name in ("nvbandwidth.txt", "p2p_bandwidth.txt", "gpu_topology.txt")]
    for one, other in itertools.permutations(texts, 2):
        found = read(f"{one}\n{other}", "paste")[1]
        alone = [read(text, "text")[1] for text in (one, other)]
        assert {*found.rates} == {*alone[0].rates, *alone[1].rates}
        assert bool(found.matrix) == any(report.matrix for report in alone)


def test_a_matrix_of_nvbandwidth_is_read_without_the_line_of_its_test() -> None:
    bare = "\n".join(line for line in NVBANDWIDTH.splitlines() if not line.startswith("Running"))
    plain = [(r.check, r.source, r.target, r.bytes_per_s) for r in read_nvbandwidth(NVBANDWIDTH).rates]
    assert [(r.check, r.source, r.target, r.bytes_per_s) for r in read_nvbandwidth(bare).rates] == plain


def test_nvbandwidth_in_other_units_is_refused() -> None:
    with pytest.raises(InputFileError, match="GiB/s"):
        read_nvbandwidth(NVBANDWIDTH.replace("(GB/s)", "(GiB/s)"))


def test_a_matrix_of_links_without_all_rows_names_those_that_lack() -> None:
    with pytest.raises(InputFileError, match="GPU3"):
        read_gpu_topology(TEXTS["gpu_topology.txt"][: TEXTS["gpu_topology.txt"].rindex("GPU3")])


@pytest.mark.parametrize("num_gpus", [2, 5, 8])
@pytest.mark.parametrize("cell", ["OK", "CNS", "GNS", "TNS", "NS", "DR", "U"])
def test_a_matrix_of_peers_is_a_check_and_no_matrix_of_links(cell: str, num_gpus: int) -> None:
    """Form of `nvidia-smi topo -p2p r`; one pair alone lacks access."""
    names = [f"GPU{gpu}" for gpu in range(num_gpus)]
    states = {(0, num_gpus - 1), (num_gpus - 1, 0)}
    lines = [" \t" + "\t".join(names) + "\t"]
    for row, name in enumerate(names):
        cells = [
            "X" if row == place else cell if (row, place) in states else "OK" for place in range(num_gpus)
        ]
        lines.append(f" {name}\t" + "\t".join(cells) + "\t")
    _, found = read("\n".join([*lines, "", "Legend:", "", "  X    = Self", "  OK   = Status Ok"]), "p2p")
    (check,) = found.checks
    assert not found.matrix
    assert check.status == ("pass" if cell == "OK" else "warn")
    assert (f"0-{num_gpus - 1}" in check.detail) == (cell != "OK")


def test_links_and_peers_of_one_text_are_both_read() -> None:
    """Reports of machines hold `topo -m` and `topo -p2p` one after the other, in either order."""
    links = TEXTS["gpu_topology.txt"]
    peers = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n"
    for text in (f"{links}\n{peers}", f"{peers}\n{links}"):
        _, found = read(text, "topology")
        assert [check.status for check in found.checks] == ["warn"]
        assert "GNS" not in found.matrix.partition("Legend")[0]
        assert read_matrix(found.matrix).links == read_matrix(links).links


def test_copies_of_wrong_values_fail() -> None:
    # NVIDIA/nvbandwidth issue 34
    text = (
        "nvbandwidth Version: v0.7\n\nDevice 0: NVIDIA A100-SXM4-80GB (00000000:34:00)\n\n"
        "Running device_to_device_memcpy_read_ce.\n Invalid value when checking the pattern at 0x70a640000000\n"
    )
    (check,) = read_nvbandwidth(text).checks
    assert check.status == "fail"
    assert "device_to_device_memcpy_read_ce" in check.detail


def test_a_diagnostic_gives_checks_rates_and_the_board() -> None:
    found = read_dcgm_diagnostic(TEXTS["dcgm_diag.txt"])
    assert [(check.name, check.status) for check in found.checks] == [
        ("PCIe", "pass"),
        ("GPU Memory", "fail"),
        ("Targeted Power", "skip"),
    ]
    assert found.checks[1].detail == "Fail - GPU: 1. GPU 1 Error: row remap pending"
    assert found.pci_device_ids == ("10de:2330", "10de:2330")
    assert {rate.check: rate.bytes_per_s for rate in found.rates} == pytest.approx(
        {"host_link.d2h": 52.26e9, "host_link.h2d": 53.4e9}
    )


@pytest.mark.parametrize("rows", [("Pass - GPU: 0", "Fail - GPU: 1"), ("Fail - GPU: 1", "Pass - GPU: 0")])
def test_a_check_of_a_diagnostic_has_the_worst_status_of_its_gpus_and_its_cut_lines_are_joined(
    rows: tuple[str, str],
) -> None:
    cells = (
        ("GPU Memory", rows[0]),
        ("", rows[1]),
        ("Warning", f"{'Fail ' * 9}"),
        ("", "ed bidirectional bandwidth"),
    )
    text = "".join(f"| {name:<25} | {words:<46} |\n" for name, words in (("Diagnostic", "Result"), *cells))
    kind, found = read(text, "dcgm")
    assert kind.id == "dcgm-diag"
    assert [check.status for check in found.checks] == ["fail"]
    assert found.checks[0].detail == f"{', '.join(rows)}. {'Fail ' * 9}ed bidirectional bandwidth"


def test_each_test_of_a_diagnostic_counts_and_a_warning_says_of_which_gpu_it_is() -> None:
    """Tables of DCGM 3 and 4: one test is called as the table is, and DCGM 4 has a row for each GPU."""
    cells = (
        *(("PCIe", "Fail - GPU: 3"), ("Warning: GPU 3", "GPU 3's link width is"), ("", "8x")),
        *(("Diagnostic", "Fail - GPUs: 0, 1"), ("Warning: GPU 0", "Thermal violations totaling 18.3 s")),
        *(("Memory Bandwidth", "Skip - All"), ("memory", "Pass"), ("", "GPU0: Pass"), ("", "GPU1: Fail")),
    )
    found = read("".join(f"| {a:<25} | {b:<46} |\n" for a, b in (("Diagnostic", "Result"), *cells)), "dcgm")[
        1
    ]
    assert [(check.name, check.status) for check in found.checks] == [
        ("PCIe", "fail"),
        ("Diagnostic", "fail"),
        ("Memory Bandwidth", "skip"),
        ("memory", "fail"),
    ]
    assert found.checks[0].detail == "Fail - GPU: 3. GPU 3's link width is 8x"
    assert found.checks[1].detail == "Fail - GPUs: 0, 1. GPU 0: Thermal violations totaling 18.3 s"
    assert found.checks[3].detail == "GPU0: Pass, GPU1: Fail"


def test_llama_bench_table_and_json_are_read_alike() -> None:
    table_rows = read_llama_bench(TEXTS["llama_bench.txt"])
    assert [(row.num_prompt_tokens, row.num_output_tokens, row.depth_tokens) for row in table_rows] == [
        (512, 0, 0),
        (0, 128, 4096),
    ]
    assert {row.weight_dtype for row in table_rows} == {"q4_k_m"}
    assert table_rows[0].device == "NVIDIA GeForce RTX 4090"
    fields = {
        "n_prompt": 512,
        "n_gen": 0,
        "avg_ts": 6000.11,
        "model_filename": "m/Llama-3.1-8B-Instruct-Q4_K_M.gguf",
        "gpu_info": "NVIDIA GeForce RTX 4090",
    }
    (row,) = read_llama_bench(json.dumps([fields]))
    assert (row.tokens_per_s, row.weight_dtype, row.file_stem) == (
        6000.11,
        "q4_k_m",
        "Llama-3.1-8B-Instruct-Q4_K_M",
    )


def test_a_table_that_compares_builds_has_the_rates_of_each() -> None:
    rows = read_llama_bench(
        "| GPU | Model | Microbatch size | Test | t/s master | t/s tuned | Speedup |\n"
        "|:----|:------|----------------:|:-----|-----------:|----------:|--------:|\n"
        "| RX 7900 XTX | llama 8B Q4_K_M | 512 | pp2048@d4096 | 2677.85 | 2693.13 | 1.01 |\n"
    )
    assert [(row.device, row.depth_tokens, row.tokens_per_s) for row in rows] == [
        ("RX 7900 XTX", 4096, 2677.85),
        ("RX 7900 XTX", 4096, 2693.13),
    ]


def test_saved_and_printed_results_of_vllm_are_read() -> None:
    (saved,) = read_vllm_bench(json.dumps(VLLM_BENCH))
    assert (saved.concurrency, saved.mean_input_tokens, saved.mean_output_tokens) == (1, 1024.0, 128.0)
    assert saved.ttft.mean_s == pytest.approx(0.129)
    (printed,) = read_vllm_bench(TEXTS["vllm_printed.txt"])
    assert (printed.concurrency, printed.mean_input_tokens) == (32, 2048.0)
    assert printed.ttft.p99_s == pytest.approx(10.99946)


def test_a_result_in_which_every_request_failed_is_refused() -> None:
    empty = {name: 0 for name in VLLM_BENCH if name not in ("backend", "model_id", "date")}
    with pytest.raises(InputFileError, match="no latency and no rate"):
        read_vllm_bench(json.dumps(empty))


def test_guidellm_gives_one_result_for_each_load() -> None:
    twice = GUIDELLM | {"benchmarks": GUIDELLM["benchmarks"] * 2}
    one, two = read_guidellm(json.dumps(twice))
    assert one == two
    assert (one.concurrency, one.mean_input_tokens, one.length_dist) == (16, 1000.0, "fixed")
    assert one.e2e.mean_s == 2.0
    assert one.ttft.mean_s == pytest.approx(0.06)


@pytest.mark.parametrize(("unit", "seconds"), [("ms", 0.15), ("s", 150.0), ("us", 150e-6), ("ns", 150e-9)])
def test_a_metric_of_aiperf_is_read_in_its_own_unit(unit: str, seconds: float) -> None:
    (found,) = read_aiperf(json.dumps(AIPERF | {"time_to_first_token": metric(unit, 150.0)}))
    assert found.ttft.mean_s == pytest.approx(seconds)
    assert (found.model, found.concurrency) == ("Qwen/Qwen3-32B", 8)


@pytest.mark.parametrize("unit", [None, "", "ticks"])
def test_a_metric_without_a_known_unit_is_refused(unit: Any) -> None:
    with pytest.raises(InputFileError) as raised:
        read_aiperf(json.dumps(AIPERF | {"time_to_first_token": {"unit": unit, "avg": 150.0}}))
    assert "time_to_first_token" in raised.value.what


def test_rates_of_inferencex_are_per_gpu_and_latencies_in_seconds() -> None:
    (found,) = read_inferencex(json.dumps([INFERENCEX]))
    assert found.total_tokens_per_s == 8 * 1800.0
    assert found.ttft.p99_s == 0.6
    assert (found.tensor_parallel, found.engine, found.weight_dtype) == (8, "vllm", "nvfp4")


def test_an_inferencex_result_without_lengths_says_so() -> None:
    without = {name: value for name, value in INFERENCEX.items() if name not in ("isl", "osl")}
    (found,) = read_inferencex(json.dumps(without))
    assert found.mean_input_tokens is None
    assert any("isl" in note for note in found.notes)


def test_logs_give_weights_and_cache() -> None:
    vllm = read_server_log(TEXTS["vllm.log"])
    assert (vllm.engine, vllm.version, vllm.tensor_parallel, vllm.kv_tokens) == ("vllm", "0.10.1", 4, 178880)
    assert vllm.weight_bytes == pytest.approx(55.8 * GIB)
    sglang = read_server_log(TEXTS["sglang.log"])
    assert (sglang.memory_fraction, sglang.kv_tokens) == (0.88, 442750)
    assert sglang.kv_bytes == pytest.approx(54.04 * GIB)
    tensorrt = read_server_log(TEXTS["tensorrt_llm.log"])
    assert (tensorrt.kv_tokens, tensorrt.block_tokens) == (399360, 64)


def test_a_report_of_trtllm_bench_gives_lengths_load_and_layout() -> None:
    (found,) = read_trtllm_bench(TEXTS["trtllm_bench.txt"])
    assert (found.model, found.weight_dtype) == ("nvidia/Llama-3.3-70B-Instruct-FP8", "fp8")
    assert (found.concurrency, found.tensor_parallel, found.expert_parallel) == (245, 2, None)
    assert (found.mean_input_tokens, found.mean_output_tokens) == (1024.0, 1024.0)
    assert (found.output_tokens_per_s, found.e2e.mean_s) == (4927.488, pytest.approx(50.9581))


@pytest.mark.parametrize(("requests", "prompt", "output"), [(1000, 1024, 256), (64, 100, 1)])
def test_rates_of_an_offline_batch_give_its_lengths(requests: int, prompt: int, output: int) -> None:
    seconds = 81.04
    rates = (requests / seconds, requests * (prompt + output) / seconds, requests * output / seconds)
    line = "Throughput: {:.4f} requests/s, {:.4f} total tokens/s, {:.4f} output tokens/s".format(*rates)
    (found,) = read_vllm_bench(f"INFO 1\n{line}\nTotal num prompt tokens:  {requests * prompt}\n")
    assert found.num_requests == requests
    assert found.mean_input_tokens == pytest.approx(prompt, rel=0.01)
    assert found.mean_output_tokens == pytest.approx(output, rel=0.01)


def test_a_log_of_llama_cpp_gives_the_fullest_device_and_the_cache_of_all() -> None:
    log = read_server_log(TEXTS["llama_cpp.log"])
    assert (log.model, log.weight_dtype, log.kv_dtype) == (
        "Llama-3.3-70B-Instruct-Q4_K_M.gguf",
        "q4_k_m",
        "f16",
    )
    assert (log.pipeline_parallel, log.kv_tokens, log.device) == (2, 16384, "NVIDIA GeForce RTX 3090")
    assert log.weight_bytes == pytest.approx(20029 * MIB)
    assert log.kv_bytes == pytest.approx(5120 * MIB)
    mixed = TEXTS["llama_cpp.log"].replace("-Q4_K_M.gguf", "-UD-Q4_K_XL.gguf")
    assert read_server_log(mixed).weight_dtype == "q4_k_xl"  # the type that is printed has no word for it
    part = TEXTS["llama_cpp.log"].replace("offloaded 81/81", "offloaded 40/81")
    assert read_server_log(part).gpu_layers == 41
    assert read_server_log(f"load_tensors: offloading output layer to GPU\n{part}").gpu_layers == 40
    assert "40 of 81 layers are on the accelerators" in read_server_log(part).notes


def test_experts_of_vllm_lie_on_all_ranks_where_the_log_says_so() -> None:
    line = (
        "non-default args: {'data_parallel_size': 4, 'tensor_parallel_size': 2, 'enable_expert_parallel': %s}"
    )
    text = f"{line}\nModel loading took 9.3 GiB memory and 4 seconds"
    assert read_server_log(text % "True").expert_parallel == 8
    assert read_server_log(text % "False").expert_parallel is None


def test_the_pool_of_a_draft_model_is_not_that_of_the_model() -> None:
    pools = "\n".join(
        f"[TP{rank}] KV Cache is allocated. #tokens: {tokens}, K size: {size} GB, V size: {size} GB"
        for rank, tokens, size in ((0, 300_000, 3.0), (1, 299_000, 2.99), (0, 50_000, 0.1), (1, 50_000, 0.1))
    )
    log = read_server_log(f"Load weight end. mem usage=20.00 GB.\n{pools}")
    assert (log.kv_tokens, log.kv_bytes) == (299_000, pytest.approx(5.98 * GIB))


def test_tensorrt_llm_says_the_weights_of_a_rank() -> None:
    line = "[TRT-LLM] [RANK 0] [I] Use 13.73 GB for model weights."
    assert read_server_log(line).weight_bytes == pytest.approx(13.73 * GIB)


def test_blocks_of_an_old_log_become_tokens_and_the_size_is_said() -> None:
    log = read_server_log("INFO gpu_executor.py:122] # GPU blocks: 2588, # CPU blocks: 2048")
    assert log.kv_tokens == 41408
    assert any("16 tokens" in note for note in log.notes)


def test_a_log_that_ends_before_the_model_is_loaded_names_the_lines_that_lack() -> None:
    with pytest.raises(InputFileError) as raised:
        read_server_log(TEXTS["vllm.log"].splitlines()[0])
    assert "GPU KV cache size" in raised.value.fix


def test_metrics_give_means_percentiles_and_cache() -> None:
    found = read_prometheus_text(TEXTS["prometheus.txt"])
    assert found.result.ttft.mean_s == pytest.approx(0.035)
    assert found.result.ttft.p50_s == pytest.approx(0.02 + 0.02 * 400 / 700)
    assert (found.result.mean_input_tokens, found.result.mean_output_tokens) == (1000.0, 200.0)
    assert (found.kv_tokens, found.memory_fraction) == (440000, 0.9)


def test_a_percentile_beyond_the_last_bound_is_unknown() -> None:
    found = read_prometheus_text(
        TEXTS["prometheus.txt"].replace('le="0.08",model_name="m"} 1000.0', 'le="0.08",model_name="m"} 900.0')
    )
    assert found.result.ttft.p99_s is None
    assert found.result.ttft.mean_s is not None
    assert math.isfinite(found.result.ttft.mean_s)


def test_metrics_of_an_idle_server_are_refused() -> None:
    with pytest.raises(InputFileError, match="no finished request"):
        read_prometheus_text('vllm:num_requests_running{model_name="m"} 0.0\n')


def test_nodes_and_device_of_a_table_without_its_header_come_from_the_words_around_it() -> None:
    table = "\n".join(line for line in NCCL.splitlines() if "Rank" not in line)
    for words in (
        "2 nodes, 8 H100 each",
        "16 ranks on H100: srun --ntasks-per-node=8",
        "mpirun --map-by ppr:8:node, H100",
    ):
        run = parse_nccl_tests(f"{words}\n{table}", "all_reduce")
        assert (run.num_ranks, run.num_nodes, run.device) == (16, 2, "h100-sxm")


def test_tests_of_llama_bench_say_the_options_in_which_they_differ() -> None:
    head = f"| model | size | params | backend | ngl | n_ubatch | fa | test | t/s |\n{'|---' * 9}|\n"
    row = "| qwen3 8B Q4_K - Medium | 4.68 GiB | 8.19 B | CUDA | 99 | {} | 1 | pp512 | 5000.0 ± 1.0 |\n"
    found = read_llama_bench(head + row.format(512) + row.format(2048))
    assert [one.settings for one in found] == [(("-ub", "512"),), (("-ub", "2048"),)]


def test_a_test_of_llama_bench_may_have_a_blank_in_its_name() -> None:
    head = f"| model | size | params | backend | ngl | nkvo | test | t/s |\n{'|---' * 8}|\n"
    row = "| llama 7B Q4_0 | 3.56 GiB | 6.74 B | CUDA | 99 | {} | tg 128 | 127.43 ± 0.18 |\n"
    found = read_llama_bench(head + row.format(0) + row.format(1))
    assert [one.num_output_tokens for one in found] == [128, 128]
    assert [one.settings for one in found] == [(("-nkvo", "0"),), (("-nkvo", "1"),)]


def test_separate_pools_of_inferencex_are_read() -> None:
    row = INFERENCEX | {
        "disagg": True,
        "prefill_tp": 8,
        "prefill_ep": 8,
        "prefill_dp_attention": True,
        "prefill_num_workers": 1,
        "decode_tp": 16,
        "decode_ep": 16,
        "decode_dp_attention": "false",
        "decode_num_workers": 1,
        "num_prefill_gpu": 8,
        "num_decode_gpu": 16,
    }
    (found,) = read_inferencex(json.dumps(row))
    assert found.output_tokens_per_s == 16 * 900.0
    assert found.total_tokens_per_s == 24 * 1800.0
    assert (found.tensor_parallel, found.data_parallel, found.expert_parallel) == (16, None, 16)
    assert found.settings is not None
    assert {
        "mode": "disagg",
        "prefill_gpus": "8",
        "prefill_dp": "8",
        "prefill_tp": "1",
    }.items() <= found.settings.items()
    del row["prefill_num_workers"]
    with pytest.raises(InputFileError) as raised:
        read_inferencex(json.dumps(row))
    assert "prefill_num_workers" in raised.value.what


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"backend": "vllm", "model_id": "Qwen/Qwen3-8B", "total_input_tok', "ends in the middle"),
        ("INFO 04-14 06:01:13 [loader.py:447] Loading weights took 0.95 seconds\n", "cut"),
        ("print_info: arch             = qwen3\n", "cut"),
    ],
)
def test_a_record_that_was_cut_is_called_so(text: str, said: str) -> None:
    with pytest.raises(InputFileError) as raised:
        read(text, "x")
    assert said in raised.value.why


def test_rates_below_a_table_of_genai_perf_are_read() -> None:
    table = (
        "NVIDIA GenAI-Perf | LLM Metrics\n"
        "┃                Statistic ┃    avg ┃    min ┃    max ┃    p99 ┃\n"
        "│ Time to first token (ms) │  16.26 │  12.39 │  17.25 │  17.09 │\n"
        "│   Output sequence length │ 261.90 │ 256.00 │ 298.00 │ 296.60 │\n"
        "Output token throughput (per sec): 1,520.87\nRequest throughput (per sec): 1.99\n"
    )
    (found,) = read_aiperf(table)
    assert (found.output_tokens_per_s, found.requests_per_s) == (1520.87, 1.99)
    assert found.ttft.p99_s == pytest.approx(0.01709)


def test_both_forms_of_bandwidth_test_give_the_rates_of_pinned_memory() -> None:
    report = read_bandwidth_test(TEXTS["bandwidth_test.txt"])
    assert report.device == "NVIDIA A100-SXM4-40GB"
    assert {rate.check: rate.bytes_per_s for rate in report.rates} == {
        "host_link.h2d": 12.1e9,
        "host_link.d2h": 13.2e9,
    }
    assert report.unread == ("Device to Device",)
    lines = (
        "bandwidthTest-H2D-Pinned, Bandwidth = 25.0 GB/s, Time = 0.001 s, Size = 32000000 bytes, NumDevsUsed = 1\n"
        "bandwidthTest-H2D-Paged, Bandwidth = 6100.0 MB/s, Time = 0.005 s, Size = 32000000 bytes, NumDevsUsed = 1\n"
    )
    assert [rate.bytes_per_s for rate in read_bandwidth_test(lines).rates] == [25e9]
    with pytest.raises(InputFileError):
        read_bandwidth_test(lines.splitlines()[1])


def test_wrong_values_of_a_collective_are_counted() -> None:
    assert parse_nccl_tests(NCCL).num_wrong == 0
    row = next(line for line in NCCL.splitlines() if line.split()[:1] and line.split()[0].isdigit())
    bad = row.rstrip().removesuffix("0") + "7"
    assert parse_nccl_tests(NCCL.replace(row, bad)).num_wrong == 7
