"""Pasted nccl-tests output: what is read from it, and whether a run is judged normal."""

import pytest

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.simulator.collectives.nccl_tests import judge_nccl_tests, parse_nccl_tests

TABLE_HEAD = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def header(num_ranks: int, device: str, per_host: int = 8) -> str:
    lines = ["# nThread 1 nGpus 1 minBytes 8 maxBytes 17179869184 step: 2(factor) warmup iters: 5 iters: 20"]
    lines += [
        f"#  Rank {rank:2d} Group  0 Pid {300 + rank} on host-{rank // per_host}"
        f" device {rank % per_host:2d} [0x18] {device}"
        for rank in range(num_ranks)
    ]
    return "\n".join(lines) + "\n"


def row(num_bytes: int, time_us: float, factor: float, redop: str = "sum      -1") -> str:
    algorithm = num_bytes / time_us / 1e3
    timing = f"{time_us:.1f} {algorithm:.2f} {algorithm * factor:.2f}"
    return f"  {num_bytes} {num_bytes // 4} float {redop} {timing} 0 {timing} N/A\n"


def run(
    times_us: dict[int, float], num_ranks: int = 8, device: str = "NVIDIA H200", factor: float = 1.75
) -> str:
    rows = "".join(row(size, time, factor) for size, time in times_us.items())
    return header(num_ranks, device) + TABLE_HEAD + rows + "# Avg bus bandwidth    : 123.4\n"


# HGX H200, nccl-tests with switch sums and without (stas00/ml-engineering, network): 473.1 and 365.6 GB/s at 8 GiB.
WITH_SWITCH = {8 * 2**30: 31775.0, 2**30: 4053.0}
WITHOUT_SWITCH = {8 * 2**30: 41118.0, 2**30: 5220.0}


def test_header_and_rows_are_read() -> None:
    found = parse_nccl_tests(run(WITH_SWITCH))
    assert (found.operation, found.num_ranks, found.num_nodes) == ("all_reduce", 8, 1)
    assert found.device == "NVIDIA H200"
    assert [line.num_bytes for line in found.rows] == list(WITH_SWITCH)
    assert found.rows[0].time_s == pytest.approx(31.775e-3)
    assert found.rows[0].bus_bytes_per_s == pytest.approx(473.1e9, rel=1e-3)


def test_hosts_are_counted() -> None:
    text = header(16, "NVIDIA H100 80GB HBM3") + TABLE_HEAD + row(2**30, 4607.6, 1.875)
    assert parse_nccl_tests(text).num_nodes == 2


def test_without_header_the_ratio_of_bandwidths_tells_ranks() -> None:
    assert parse_nccl_tests(row(2**30, 4607.6, 1.875)).num_ranks == 16


@pytest.mark.parametrize("num_ranks", [2, 3, 16, 24, 32, 64, 256])
@pytest.mark.parametrize(
    "command",
    [
        "mpirun -np {n} --hostfile hosts -x NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -e 8G -n 20 -g 1",
        "mpirun \\\n  --map-by ppr:8:node -n {n} \\\n  ./all_reduce_perf -b 8 -e 8G -f 2",
        "srun -N 2 --ntasks={n} all_reduce_perf -b 1G -e 8G -n 5",
    ],
)
def test_without_header_the_command_tells_ranks(command: str, num_ranks: int) -> None:
    """The ratio of rounded bandwidths leaves the ranks of a slow run open, the command does not."""
    table = row(2**29, 196e3, 2.0 * (num_ranks - 1) / num_ranks)
    assert parse_nccl_tests(f"$ {command.format(n=num_ranks)}\n{table}").num_ranks == num_ranks


def test_ranks_are_processes_times_accelerators_of_each() -> None:
    text = "mpirun -np 4 ./all_reduce_perf -b 8 -e 8G -t 2 -g 4\n" + row(2**30, 4607.6, 62 / 32)
    assert parse_nccl_tests(text).num_ranks == 32


@pytest.mark.parametrize("first", ["all_reduce", "all_gather"])
def test_a_text_of_several_programs_has_runs_of_each(first: str) -> None:
    """No row of one collective counts as that of another."""
    factors = {"all_reduce": 1.875, "all_gather": 0.9375}
    redop = {"all_reduce": "sum      -1", "all_gather": "none      -1"}
    names = [first, *(name for name in factors if name != first)]
    text = "".join(
        f"$ mpirun -np 16 ./{name}_perf -b 1G -e 1G -g 1\n{TABLE_HEAD}{row(2**30, 5000.0, factors[name], redop[name])}"
        for name in names
    )
    for asked, expected in ((None, first), ("all_reduce", "all_reduce"), ("all_gather", "all_gather")):
        found = parse_nccl_tests(text, asked)
        assert (found.operation, found.num_ranks, len(found.rows)) == (expected, 16, 1)
        assert any("--op" in words for words in found.assumed)


def test_a_build_without_mpi_starts_runs_of_their_own() -> None:
    text = "mpirun -np 4 ./all_reduce_perf -b 8 -e 8G -g 4\n" + row(2**30, 4607.6, 1.5)
    assert parse_nccl_tests(text).num_ranks == 4


@pytest.mark.parametrize(
    ("program", "operation"),
    [("alltoall_perf", "all_to_all"), ("all_gather_perf", "all_gather"), ("sendrecv_perf", "send_recv")],
)
def test_the_program_names_the_operation(program: str, operation: str) -> None:
    text = f"$ mpirun ./build/{program} -b 8M -e 1G\n" + header(8, "NVIDIA H200") + row(2**30, 3000.0, 0.875)
    assert parse_nccl_tests(text).operation == operation


def test_old_format_without_root_is_read() -> None:
    line = (
        "   1048576  262144   float     sum   120.5    8.70   15.23  4e-07   119.9    8.75   15.30  4e-07\n"
    )
    found = parse_nccl_tests(header(8, "NVIDIA A100-SXM4-80GB") + line)
    assert found.rows[0].time_s == pytest.approx(120.5e-6)


def test_a_normal_run_is_normal() -> None:
    judged = judge_nccl_tests(run(WITH_SWITCH))
    assert judged.accelerator == "h200-sxm"
    assert judged.verdict == "as expected"
    assert judged.explanations == ()


def test_a_run_without_switch_sums_is_slow_and_says_why() -> None:
    judged = judge_nccl_tests(run(WITHOUT_SWITCH))
    assert judged.verdict == "slow"
    assert any("switch" in words for words in judged.explanations)


def test_a_network_on_half_its_ports_is_slow_and_says_why() -> None:
    # NCCL's maintainers expect 46 to 48 GB/s of each 400 Gb/s port; this run has half of that.
    size = 8 * 2**30
    text = header(32, "NVIDIA H100 80GB HBM3") + TABLE_HEAD + row(size, size * 1.9375 / 185e9 * 1e6, 1.9375)
    judged = judge_nccl_tests(text)
    assert judged.verdict == "slow"
    assert any("half" in words for words in judged.explanations)


@pytest.mark.parametrize("ranks", [2, 16, 32])
@pytest.mark.parametrize("bus_gb_s", [0.5, 2.0, 5.0, 12.0, 13.0, 20.0, 41.0, 60.0])
def test_sockets_are_suspected_only_of_rates_that_sockets_reach(ranks: int, bus_gb_s: float) -> None:
    """NCCL's documentation tunes sockets for networks of up to 100 Gb/s."""
    size = 8 * 2**30
    factor = 2.0 * (ranks - 1) / ranks
    text = header(ranks, "NVIDIA H100 80GB HBM3", per_host=min(8, ranks // 2))
    judged = judge_nccl_tests(text + TABLE_HEAD + row(size, size * factor / bus_gb_s / 1e3, factor))
    assert not any("sockets" in words for words in judged.explanations) or bus_gb_s <= 12.5


def test_implausibly_fast_is_said_too() -> None:
    assert judge_nccl_tests(run({2**30: 1000.0})).verdict == "fast"


@pytest.mark.parametrize("text", ["", "hello", "# Rank 0", "1 2 3 4 5 6 7 8 9", "8 2 float sum -1 0 0 0"])
def test_text_without_results_is_refused(text: str) -> None:
    with pytest.raises(InputFileError, match="no nccl-tests results"):
        parse_nccl_tests(text)


def test_a_device_must_be_named_somewhere() -> None:
    with pytest.raises(AdvisorError, match="device"):
        judge_nccl_tests(row(2**30, 4607.6, 1.75))
    assert judge_nccl_tests(row(2**30, 4607.6, 1.75), "h100").accelerator == "h100-sxm"
    with pytest.raises(AdvisorError, match="unknown device 'NVIDIA Nonesuch'"):
        judge_nccl_tests(run(WITH_SWITCH, device="NVIDIA Nonesuch"))


def test_processes_that_ran_apart_exchange_nothing_and_are_refused() -> None:
    """Source: NVIDIA/nccl-tests issue 107."""
    ranks = "\n".join(
        f"#   Rank  0 Pid {pid} on host-{pid} device  0 [0x00] Tesla V100-SXM2-16GB" for pid in (1, 2)
    )
    row = "1310720000 327680000 float sum 3394.4 386.14 0.00 0e+00 0.36 3676637.45 0.00 0e+00"
    with pytest.raises(InputFileError, match="each of 2 processes was a group of one rank"):
        judge_nccl_tests(f"{ranks}\n{row}")


def test_the_text_around_a_table_names_the_accelerator() -> None:
    """Source: NVIDIA/nccl-tests issue 194."""
    text = "all_reduce_perf -b 1G -g 2\n\nH100 PCIe\n\n1073741824 268435456 float sum -1 9306.7 115.37 115.37 0\n"
    found = judge_nccl_tests(text)
    assert (found.accelerator, found.run.num_ranks) == ("h100-pcie", 2)
