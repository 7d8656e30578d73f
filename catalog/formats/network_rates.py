"""Rates between two hosts as perftest (`ib_write_bw`), OSU's `osu_bw` and iperf3 print them."""

import re
from collections.abc import Iterator
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.file_format import FileFormat, has_keys
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.link_report import LinkRate, LinkReport
from advisor.catalog.units import BITS_PER_BYTE, GIGA, MB, MIB

_PERFTEST: Final = re.compile(r"#bytes\s+#iterations.*BW average\[(\S+?)\]", re.IGNORECASE)
_PERFTEST_ROW: Final = re.compile(r"^\s*(\d+)\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+")
_PERFTEST_UNITS: Final = {
    "gb/sec": GIGA / BITS_PER_BYTE,
    "mb/sec": MIB,
    "mib/sec": MIB,
    "gib/sec": 1024 * MIB,
}
"""Bytes per second of perftest's units. Source: linux-rdma/perftest src/perftest_resources.c: its MB are 2^20 bytes."""
_PERFTEST_NAME: Final = re.compile(r"RDMA_?\s?Write BW|RDMA_?Read BW|Send BW|ib_\w+_bw", re.IGNORECASE)
_OSU: Final = re.compile(r"^#\s*OSU MPI.*Bandwidth|^#\s*Size\s+Bandwidth \(MB/s\)", re.MULTILINE)
_OSU_ROW: Final = re.compile(r"^\s*(\d+)\s+([\d.]+)\s*$")
_IPERF: Final = re.compile(
    r"^\[\s*(SUM|\d+)\]\s+0\.0+-\s?[\d.]+\s+sec\s.*?([\d.]+)\s+([GMK])bits/sec.*\b(receiver|sender)?\s*$"
)
_PERFTEST_KEYS: Final = ("BW_average", "MsgSize")
_BOTH_WAYS: Final = re.compile(
    r"\b(?:RDMA_?\s?\w+|Send|OSU MPI\S*) Bi-?directional (?:BW|Bandwidth)|\]\[TX-C\]|\"bidirectional\"\s*:\s*1",
    re.IGNORECASE,
)
"""Words of tests that send both ways at once. Source: as read_network_rates."""
_IPERF_JSON: Final = re.compile(r'"sum_(?:sent|received)"\s*:\s*\{')
_IPERF_UNITS: Final = {"G": GIGA, "M": 1e6, "K": 1e3}


def read_network_rates(text: str) -> LinkReport:
    """Return the highest rate between two hosts that a text states.

    Raises: InputFileError: no row with a rate, or a latency test.
    Source: linux-rdma/perftest README; esnet/iperf (text output); OSU micro-benchmarks (osu_bw).
    """
    if _BOTH_WAYS.search(text):
        raise InputFileError(
            "a test of both directions at once",
            why="its rate is the sum over both, and a port is judged by the rate of one direction",
            fix="run it in one direction: ib_write_bw without -b, osu_bw, iperf3 without --bidir",
        )
    if has_keys(text, *_PERFTEST_KEYS):
        raise InputFileError(
            "the JSON of perftest, which states no unit",
            why="it writes Gb/s with --report_gbits and MiB/s without, and a unit is not guessed from a number",
            fix="give the text that it prints, whose header names the unit",
        )
    found = list(_rates(text))
    if not found:
        raise InputFileError(
            "no rate in the output of the network test",
            why="no row has a size and an average rate; was it cut?",
            fix="paste the output with its table, e.g. of ib_write_bw --report_gbits",
        )
    test, rate = max(found, key=lambda one: one[1])
    return LinkReport("", rates=(LinkRate("network.port", None, None, rate, test),))


def _rates(text: str) -> Iterator[tuple[str, float]]:
    """Yield the tests and their rates [bytes/s]; of iperf3 the sum over streams where it prints one."""
    unit = 0.0
    streams: dict[str, float] = {}
    named = _PERFTEST_NAME.search(text)
    test = " ".join(named[0].replace("_", " ").split()) if named else "perftest"
    for key in ("sum_received", "sum_sent"):
        if found := re.search(rf'"{key}"\s*:\s*\{{[^{{}}]*"bits_per_second"\s*:\s*([\d.e+]+)', text):
            yield "iperf3", float(found[1]) / BITS_PER_BYTE
            return
    for line in without_prefixes(text):
        if head := _PERFTEST.search(line):
            unit = _PERFTEST_UNITS.get(head[1].lower(), 0.0)
        elif unit and (row := _PERFTEST_ROW.match(line)):
            yield f"{test}, {int(row[1]):,} bytes", float(row[2]) * unit
        elif stream := _IPERF.match(line):
            streams[stream[1]] = float(stream[2]) * _IPERF_UNITS[stream[3]] / BITS_PER_BYTE
        elif _OSU.search(text) and (row := _OSU_ROW.match(line)):
            yield f"osu_bw, {int(row[1]):,} bytes", float(row[2]) * MB
    if streams:
        yield "iperf3", streams.get("SUM", max(streams.values()))


def _is_network_rates(text: str) -> bool:
    lines = without_prefixes(text)
    is_named = (
        _BOTH_WAYS.search(text)
        or has_keys(text, *_PERFTEST_KEYS)
        or _PERFTEST.search(text)
        or _OSU.search(text)
        or _IPERF_JSON.search(text)
    )
    return bool(is_named) or any(_IPERF.match(line) for line in lines)


FORMAT: Final = FileFormat(
    "network-rates", "output of ib_write_bw, osu_bw or iperf3", "links", _is_network_rates, read_network_rates
)
