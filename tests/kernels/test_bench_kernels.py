"""The program behind the table of docs/kernels.md: its rows are shapes that kernels take, its table what was read."""

import importlib.util
import sys
from pathlib import Path

import pytest

from advisor.catalog import accelerators

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_kernels.py"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_kernels", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_row_has_a_roof(bench):
    record = accelerators.get("h100-sxm").record
    for row in bench.ROWS:
        analysis = bench.analyse_kernel(row.name, row.shape, row.dtype, record)
        assert 1e-6 < analysis.usual.floor_s < 1.0, row


def test_the_page_has_a_line_for_every_kernel_of_the_table(bench):
    page = PAGE.read_text(encoding="utf-8")
    table = page.split("## The table, by one command")[1].split("\n## ")[0]
    for name in {row.name for row in bench.ROWS}:
        assert f"| {name}" in table, name


def test_the_table_shows_the_best_instrument_and_its_peers(bench):
    row = bench.MeasuredRow
    found = [
        row("ssd", "1 x 2", "advisor", 2e-3, 5e11, "bytes/s", 0.15, 1e-3),
        row("ssd", "1 x 2", "advisor (wgmma)", 1e-3, 1e12, "bytes/s", 0.3, 2e-3),
        row("ssd", "1 x 2", "torch", 3e-3, 3e11, "bytes/s", 0.1, 1e-3),
        row("ssd", "1 x 2", "cudnn", None, None, "bytes/s", None, None, "no such kernel"),
        row("rope", "4", "advisor", None, None, "bytes/s", None, None, "out of memory"),
    ]
    lines = list(bench.markdown(found))
    assert lines[2] == (
        "| ssd | 1 x 2 | 1 ms | 1.00 TB/s | 30% | 2.0e-03 | torch 3 ms: 300%; cudnn: no such kernel |"
    )
    assert lines[3] == "| rope | 4 | - | - | - | - | out of memory |"
