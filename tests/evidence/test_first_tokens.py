"""The table of first tokens: what a request waits for, and pairs of runs that rows do not tell apart."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from advisor.evidence.scores import JudgedRow
from advisor.evidence.serving.prediction import predict_row

TOOLS = Path(__file__).resolve().parents[2] / "tools"
RUN = {
    "tier": "A1",
    "mode": "agg",
    "source": "one",
    "engine": "vllm",
    "engine_version": "0.20.2",
    "gpu": "h200-sxm",
    "model": "llama-3.1-8b",
    "n_gpus": "1",
    "tp": "1",
    "isl": "1024",
    "osl": "128",
    "load": "closed",
    "concurrency": "1",
    "num_requests": "4",
    "weight_dtype": "bf16",
    "ttft_ms_mean": "30",
}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    sys.modules.pop("first_tokens", None)
    import first_tokens

    return first_tokens


def rows_of(text: str) -> dict[str, str]:
    lines = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return {cells[0]: cells[1] for cells in lines}


def test_rows_are_divided_by_what_their_requests_wait_for(tool: ModuleType) -> None:
    runs = [
        RUN,
        RUN | {"concurrency": "64", "num_requests": "64", "isl": "4096"},
        RUN | {"load": "offline", "concurrency": "8", "num_requests": "8", "isl": "256"},
    ]
    judged = [JudgedRow(run, predict_row(run, 2).metrics) for run in runs]
    found = rows_of(tool.first_token_tables(judged, []))
    for name in ("load: idle", "load: queue", "load: all requests at once", "start: no closed loop"):
        assert found[name] == "1"
    assert found["all"] == "3"
    assert found["prompts: up to 8,192 tokens"] == "1"


def test_pairs_agree_in_all_that_rows_state(tool: ModuleType) -> None:
    again = RUN | {"ttft_ms_mean": "33"}
    longer = RUN | {"osl": "1024", "ttft_ms_mean": "36"}
    elsewhere = RUN | {"source": "two", "ttft_ms_mean": "90"}
    crowd = RUN | {"concurrency": "64", "osl": "1024", "ttft_ms_mean": "900"}
    found = list(tool._repeats([RUN, again, longer, elsewhere, crowd]))
    assert found == [("A1", "nothing", "1", "10 %", "10 %"), ("A1", "outputs", "2", "15 %", "19 %")]
