"""Files of many programs are read by the meanings of their names: a row of `brought_files.jsonl` is a file and what it
says."""

import datetime
import json
import time
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.catalog import prices
from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import BenchmarkResult
from advisor.catalog.formats.llama_bench import LlamaBenchRow
from advisor.catalog.formats.machine_listing import read_machine
from advisor.catalog.formats.prometheus_text import ServerMetrics
from advisor.catalog.formats.registry import read
from advisor.catalog.units import GIB
from advisor.simulator.serving.trace_files import read_trace

RENTED: Final = {sku: (count, id_) for (_, sku), (id_, count) in prices.rented_machines().items()}
DAY: Final = datetime.date(2026, 11, 20)
ROWS: Final = [
    json.loads(line)
    for line in (Path(__file__).parent / "brought_files.jsonl").read_text(encoding="utf-8").splitlines()
]


def rows_of(kind: str) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in ROWS if row["kind"] == kind]


def refusal_of(row: dict[str, Any], read_row: Any) -> bool:
    """Whether a row expects a refusal, which is then checked for its words and for a way out."""
    wanted = row["expected"].get("refused")
    if wanted is None:
        return False
    with pytest.raises(InputFileError) as raised:
        read_row()
    error = raised.value
    assert error.fix
    for word in wanted:
        assert word in f"{error.what} {error.why} {error.fix}"
    return True


def value_of(result: BenchmarkResult, name: str) -> Any:
    quantity, _, statistic = name.rpartition("_")
    if quantity in ("ttft", "tpot", "e2e"):
        return getattr(getattr(result, quantity), f"{statistic}_s")
    return getattr(result, name)


@pytest.mark.parametrize("row", rows_of("results"))
def test_figures_are_read_by_the_names_of_their_fields(row: dict[str, Any]) -> None:
    if refusal_of(row, lambda: read(row["text"], "file")):
        return
    content = read(row["text"], "file")[1]
    results = (content.result,) if isinstance(content, ServerMetrics) else content
    loads = row["expected"]["loads"]
    assert len(results) == len(loads)
    for result, load in zip(results, loads, strict=True):
        for name, value in load.items():
            found = value_of(result, name)
            assert found == (value if isinstance(value, str) else pytest.approx(value)), name


@pytest.mark.parametrize("row", rows_of("traffic"))
def test_requests_are_read_by_the_names_of_their_fields(row: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "traffic"
    path.write_text(row["text"], encoding="utf-8")
    if refusal_of(row, lambda: read_trace(path)):
        return
    trace = read_trace(path)
    assert list(trace.times_s) == pytest.approx(row["expected"]["times_s"])
    assert [list(pair) for pair in trace.pairs] == row["expected"]["tokens"]


@pytest.mark.parametrize("row", rows_of("prices"))
def test_prices_are_read_by_the_names_of_their_fields(row: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "prices"
    path.write_text(row["text"], encoding="utf-8")
    provider = row.get("provider")

    def read_prices() -> Any:
        return prices.read_prices(path, DAY, [provider] if provider else None)

    if refusal_of(row, read_prices):
        return
    found = [[p.accelerator, p.num_accelerators, p.term, round(p.usd_per_hour, 6)] for p in read_prices()]
    assert sorted(found) == row["expected"]["prices"]


@pytest.mark.parametrize("row", rows_of("machine"))
def test_accelerators_of_a_listing_are_counted(row: dict[str, Any]) -> None:
    if refusal_of(row, lambda: read_machine(row["text"], "file")):
        return
    counts = read_machine(row["text"], "file", RENTED).counts
    assert [list(count) for count in counts] == row["expected"]["counts"]


@pytest.mark.parametrize("row", rows_of("log"))
def test_what_programs_print_is_read(row: dict[str, Any]) -> None:
    if refusal_of(row, lambda: read(row["text"], "file")):
        return
    found = read(row["text"], "file")[1]
    expected = row["expected"]
    for name, value in expected.get("fields", {}).items():
        size, _, unit = name.rpartition("_")
        got = getattr(found, f"{size}_bytes") / GIB if unit == "gib" else getattr(found, name)
        assert got == (value if isinstance(value, str) else pytest.approx(value)), name
    if "rate_bytes_per_s" in expected:
        assert found.rates[0].bytes_per_s == pytest.approx(expected["rate_bytes_per_s"])
    if "timings" in expected:
        rows: tuple[LlamaBenchRow, ...] = found
        assert [[r.num_prompt_tokens or r.num_output_tokens, r.tokens_per_s] for r in rows] == expected[
            "timings"
        ]


FIGURES: Final = {
    "clients": 8,
    "ISL": 1024,
    "OSL": 128,
    "mean TTFT (ms)": 120,
    "p99 TPOT (ms)": 20,
    "req/s": 3.5,
}
NAMES: Final = list(FIGURES)
CELLS: Final = [str(cell) for cell in FIGURES.values()]
CONTAINERS: Final = {
    "commas": f"{','.join(NAMES)}\n{','.join(CELLS)}\n",
    "semicolons": f"{';'.join(NAMES)}\n{';'.join(CELLS)}\n",
    "tabs": "\t".join(NAMES) + "\n" + "\t".join(CELLS) + "\n",
    "Markdown": f"| {' | '.join(NAMES)} |\n|{'---|' * len(NAMES)}\n| {' | '.join(CELLS)} |\n",
    "box": f"│ {' │ '.join(NAMES)} │\n├───┤\n│ {' │ '.join(CELLS)} │\n",
    "columns": "   ".join(NAMES) + "\n" + "   ".join(CELLS) + "\n",
    "object": json.dumps(FIGURES),
    "list": json.dumps([FIGURES]),
    "nested": json.dumps({"run": {"setup": {"host": "a"}, "loads": [FIGURES]}}),
    "lines": "".join(f"{name}: {cell}\n" for name, cell in FIGURES.items()),
    "YAML": "runs:\n- "
    + "\n  ".join(f"{name}: {cell}" for name, cell in FIGURES.items())
    + "\n- host: b\n  note: idle\n",
    "XML": "<runs><run>"
    + "".join(f'<figure name="{name}">{cell}</figure>' for name, cell in FIGURES.items())
    + "</run></runs>",
    "psql": "-[ RECORD 1 ]---+-----\n" + "".join(f"{name} | {cell}\n" for name, cell in FIGURES.items()),
    "beside a table": "".join(f"{name}: {cell}\n" for name, cell in list(FIGURES.items())[:3])
    + f"\n| {' | '.join(NAMES[3:])} |\n|---|---|---|\n| {' | '.join(CELLS[3:])} |\n",
    "dots": "".join(f"{name} ........ {cell}\n" for name, cell in FIGURES.items()),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_does_not_change_what_its_fields_say(container: str) -> None:
    (result,) = read(CONTAINERS[container], "file")[1]
    assert (result.concurrency, result.mean_input_tokens, result.mean_output_tokens) == (8, 1024, 128)
    assert (result.ttft.mean_s, result.tpot.p99_s, result.requests_per_s) == pytest.approx((0.12, 0.02, 3.5))
    assert "mean ttft from" in result.notes[0]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_figure_below_zero_is_refused_in_every_container(container: str) -> None:
    with pytest.raises(InputFileError, match=": -120"):
        read(CONTAINERS[container].replace("120", "-120"), "file")


@pytest.mark.parametrize("quantity", ["ttft", "tpot", "e2e"])
def test_a_median_above_the_99th_percentile_is_refused(quantity: str) -> None:
    with pytest.raises(InputFileError, match="median"):
        read(f"users,{quantity}_p50_ms,{quantity}_p99_ms\n4,300,120\n", "file")


@pytest.mark.parametrize("sign", ["A$", "HK$", "€", "£", "₹"])
def test_only_american_dollars_are_read_as_such(sign: str, tmp_path: Path) -> None:
    path = tmp_path / "prices"
    path.write_text(f"L40S: {sign}1.20/h\n", encoding="utf-8")
    with pytest.raises(InputFileError, match="prices in"):
        prices.read_prices(path, DAY, ["acme"])
    path.write_text("L40S: US$1.20/h\n", encoding="utf-8")
    assert [price.usd_per_hour for price in prices.read_prices(path, DAY, ["acme"])] == [1.2]


def test_entities_of_xml_and_aliases_of_yaml_are_not_expanded() -> None:
    bomb = '<!DOCTYPE r [<!ENTITY a "b">]><r><run><ttft_ms>&a;</ttft_ms></run></r>'
    aliases = "a: &a [1, 2]\nruns:\n- ttft_ms: *a\n  users: *a\n"
    for text in (bomb, aliases):
        with pytest.raises(InputFileError):
            read(text, "file")


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("ttft_ms", "250"),
        ("TTFT [s]", "0.25"),
        ("timeToFirstTokenUs", "250000"),
        ("Time to first token", "250 ms"),
        ("first_token_latency_seconds", "0.25"),
        ("avg prefill time", "0.25s"),
    ],
)
def test_a_unit_stands_in_the_name_or_in_the_cell(name: str, cell: str) -> None:
    (result,) = read(f"users,{name}\n4,{cell}\n", "file")[1]
    assert result.ttft.mean_s == pytest.approx(0.25)


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize(
    "line", ["GPU {}: NVIDIA L40S (UUID: GPU-{})", "{}, NVIDIA L40S, 46068 MiB", "| {} | NVIDIA L40S | {}C |"]
)
def test_every_line_of_one_kind_is_an_accelerator(line: str, count: int) -> None:
    text = "\n".join(line.format(number, number + 30) for number in range(count))
    assert read_machine(text, "file").counts == ((count, "l40s"),)
    twice = f"{text}\n\n{text}\n"  # a listing that is printed again shows the same machine
    assert read_machine(twice, "file").counts == ((count, "l40s"),)


def test_a_name_of_several_boards_is_refused_with_both() -> None:
    line = (
        "03:00.0 VGA compatible controller: AMD [AMD/ATI] Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M] (rev c8)"
    )
    with pytest.raises(InputFileError) as raised:
        read_machine(line, "file")
    assert "rx-7900-xt or rx-7900-xtx" in raised.value.what


def test_requests_that_are_listed_one_by_one_are_one_load() -> None:
    rows = "".join(f"r{i},{i},1000,{100 + i},{50 + i}\n" for i in range(101))
    (result,) = read(f"request_id,start_s,input_tokens,output_tokens,ttft_ms\n{rows}", "file")[1]
    assert (result.num_requests, result.mean_input_tokens, result.mean_output_tokens) == (101, 1000, 150)
    assert (result.ttft.mean_s, result.ttft.p50_s) == pytest.approx((0.1, 0.1))
    assert "101 requests" in " ".join(result.notes)


@pytest.mark.parametrize(
    "text", ["in " * 10_000, "a: " * 10_000, "|" * 10_000, "x,y\n" * 10_000, "=" * 100_000, "[" * 1000]
)
def test_texts_that_say_nothing_are_refused_in_time(text: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(InputFileError):
        read(text, "file")
    with pytest.raises(InputFileError):
        read_machine(text, "file")
    assert time.perf_counter() - begun < 20.0
