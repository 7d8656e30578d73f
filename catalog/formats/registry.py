"""Registry of the formats that are read, and recognition of a text by its content."""

import dataclasses
import functools
import re
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats import (
    aiperf,
    bandwidth_test,
    copy_matrices,
    dcgm_diagnostic,
    engine_rates,
    flat_results,
    gpu_topology,
    guidellm,
    inferencex,
    llama_bench,
    local_tables,
    named_results,
    nccl_tests,
    network_rates,
    nvbandwidth,
    prometheus_text,
    server_log,
    trtllm_bench,
    vllm_bench,
)
from advisor.catalog.formats.benchmark_result import BenchmarkResult
from advisor.catalog.formats.file_format import FileFormat, fault_of_json
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.link_report import LinkReport
from advisor.catalog.formats.llama_bench import LlamaBenchRow, with_settings_around
from advisor.catalog.formats.prometheus_text import ServerMetrics
from advisor.catalog.formats.stated_settings import with_settings
from advisor.catalog.formats.surroundings import complete

FORMATS: Final[tuple[FileFormat, ...]] = (
    prometheus_text.FORMAT,
    guidellm.FORMAT,
    inferencex.FORMAT,
    aiperf.FORMAT,
    vllm_bench.FORMAT,
    trtllm_bench.FORMAT,
    flat_results.FORMAT,
    llama_bench.FORMAT,
    nvbandwidth.FORMAT,
    copy_matrices.FORMAT,
    bandwidth_test.FORMAT,
    dcgm_diagnostic.FORMAT,
    gpu_topology.FORMAT,
    network_rates.FORMAT,
    nccl_tests.FORMAT,
    server_log.FORMAT,
    engine_rates.FORMAT,
    local_tables.FORMAT,
    named_results.FORMAT,
)
"""Formats in the order in which they are tried: the most specific marks first, logs last, because a log may contain
anything."""


def recognise(text: str, name: str) -> FileFormat:
    """Return the format of a text; `name` names the file in the message.

    Raises: InputFileError: the text is in no format that is read.
    """
    return _unwrap(text, name)[0]


def read(text: str, name: str) -> tuple[FileFormat, Any]:
    """Return the format of a text and what its reader found; what several tools report of links is one report.

    Raises: InputFileError: the text is in no format that is read, or lacks what its reader needs.
    """
    found, plain = _unwrap(text, name)
    try:
        whole = text if found.reads_prefixes and found.is_it(text) else plain
        held = found.read(whole)
        if isinstance(held, LinkReport):
            beside = [
                one for one in FORMATS if one.holds == "links" and one is not found and one.is_it(plain)
            ]
            held = functools.reduce(LinkReport.with_report, (one.read(plain) for one in beside), held)
        return found, _with_settings(complete(held, plain), plain)
    except InputFileError as error:
        raise InputFileError(f"{name}: {error.what}", why=error.why, fix=error.fix, hint=error.hint) from None


def _with_settings(held: Any, text: str) -> Any:
    """Return the results of serving benchmarks with the settings that their text states; anything else as it is."""
    if isinstance(held, ServerMetrics):
        return dataclasses.replace(held, result=with_settings((held.result,), text)[0])
    if isinstance(held, tuple) and all(isinstance(one, LlamaBenchRow) for one in held):
        return with_settings_around(held, text)
    is_result = isinstance(held, tuple) and all(isinstance(one, BenchmarkResult) for one in held)
    return with_settings(held, text) if is_result else held


def _unwrap(text: str, name: str) -> tuple[FileFormat, str]:
    """Return the format of a text, and the text without the prefixes of launchers if only so it is in a format."""
    stripped = "\n".join(without_prefixes(text))
    lines = [line for line in stripped.splitlines() if line.strip()]
    if lines and all(line.lstrip().startswith("#") for line in lines):  # pasted below a command as comments
        stripped = re.sub(r"^[ \t]*#[ \t]?", "", stripped, flags=re.MULTILINE)
    is_wrapped = text.lstrip("\n")[:1] != stripped.lstrip("\n")[:1]
    for one in FORMATS:
        for plain in (stripped, text) if is_wrapped else (text, stripped):
            if one.is_it(plain):
                return one, plain
    start = " ".join(text.split())[:60]
    if engine := server_log.engine_of_lines(stripped):
        raise InputFileError(
            f"{name}: lines of {engine}'s log without the sizes of weights or KV cache",
            why="the log ends early, or was cut",
            fix=f"give the log until the server is ready; it has {server_log.WANTED[engine]}",
        )
    why = f"it begins with {start!r}" if start else ""
    if start[:1] in ("{", "["):
        why += f"; {fault_of_json(text)}"
    raise InputFileError(
        f"{name}: not in a format that is read" if start else f"{name}: is empty",
        why=why,
        fix="give the whole output of a benchmark (vllm bench serve, llama-bench, nccl-tests), a server's log or its "
        "metrics, a trace of calls, or a report of links",
    )
