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
    truth, predicted = tmp_path / "truth", tmp_path / "predicted"
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
    page = folder / "accuracy.md"
    page.write_text("# Accuracy\n\nText.\n")
    tool.add_round(page, 1, "2026-11-22", "abc1234", folder / "truth", folder / "predicted")
    first = page.read_text()
    assert first.startswith("# Accuracy\n\nText.\n")
    assert "Commit abc1234, 2026-11-22." in first
    assert "| A1 | 2 | 50 % | 60.0 % (100 %) | – | – |" in first
    assert "| all | 1 | 100 % | 10.0 % (0 %) | – |" in first
    with pytest.raises(ValueError, match="never rewritten"):
        tool.add_round(page, 1, "2026-11-23", "def5678", folder / "truth", folder / "predicted")
    tool.add_round(page, 2, "2026-12-01", "def5678", folder / "truth", folder / "predicted")
    assert page.read_text().startswith(first.rstrip())
    assert page.read_text().count("## Round ") == 2
    assert tool.ledger_of(page).strip() in page.read_text()
