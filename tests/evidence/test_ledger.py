"""The ledger of blind rounds: added to when asked, kept word for word, never rewritten."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
SERVING = "case_id,tier,gpu,model,engine,tpot_ms_mean,ttft_ms_mean,output_tok_s\n"
TRAINING = "case_id,tier,tokens_per_s_per_gpu,peak_mem_gb\nx,2,100,\n"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    sys.modules.pop("write_accuracy", None)
    import write_accuracy

    return write_accuracy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    truth = tmp_path / "truth"
    predicted = tmp_path / "predicted"
    truth.mkdir()
    predicted.mkdir()
    for number in (1, 2):
        (truth / f"serving_blind{number}.csv").write_text(SERVING + "a,A1,g,m,e,10,,\nb,A1,g,m,e,10,,\n")
        (truth / f"training_blind{number}.csv").write_text(TRAINING)
        names = "tpot_ms_mean"
        (predicted / f"serving_blind{number}.csv").write_text(
            f"case_id,status,reason,basis,pred_{names},low_{names},high_{names}\na,ok,,modelled,12,9,13\nb,error,,,,,\n"
        )
        names = "tokens_per_s_per_gpu"
        (predicted / f"training_blind{number}.csv").write_text(
            f"case_id,status,reason,basis,pred_{names},low_{names},high_{names}\nx,ok,,modelled,90,80,95\n"
        )
    return tmp_path


def test_a_round_is_added_once_and_counts_what_is_missing(tool: ModuleType, folder: Path) -> None:
    path = folder / "rounds.csv"
    tool.add_round(path, 1, "2026-11-22", "abc1234", folder / "truth", folder / "predicted")
    first = path.read_text()
    page = tool.ledger(path)
    assert "Commit abc1234, 2026-11-22." in page
    assert "| A1 | 2 | 50 % | 60.0 % (100 %) | – | – |" in page
    assert "| all | 1 | 100 % | 10.0 % (0 %) | – |" in page
    with pytest.raises(ValueError, match="never rewritten"):
        tool.add_round(path, 1, "2026-11-23", "def5678", folder / "truth", folder / "predicted")
    tool.add_round(path, 2, "2026-12-01", "def5678", folder / "truth", folder / "predicted")
    assert path.read_text().startswith(first)
    assert tool.ledger(path).count("## Round ") == 2


def test_the_page_tells_the_rounds_as_they_were_written(tool: ModuleType) -> None:
    page = (TOOLS.parent / "docs" / "accuracy.md").read_text()
    assert tool.ledger(tool.ROUNDS).strip() in page
    assert "| core | 631 | 99 % | 22.2 % (54 %) | 44.8 % (57 %) | 22.1 % (82 %) |" in page
