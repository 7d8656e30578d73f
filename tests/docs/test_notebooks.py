"""Notebooks of docs/notebooks run from top to bottom, each in a kernel of its own, and hold no output of a machine."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
MOST_S = 300


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Any:
    nbformat = pytest.importorskip("nbformat")
    found = nbformat.read(request.param, as_version=4)
    nbformat.validate(found)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the kernel's own libraries warn about each other
def test_a_notebook_runs(notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    done = nbclient.NotebookClient(
        notebook, timeout=MOST_S, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [each for cell in done.cells if cell.cell_type == "code" for each in cell.outputs]
    kinds = {kind for each in outputs for kind in each.get("data", {})}
    assert {"text/html", "image/png"} <= kinds
    assert not any(each.output_type == "error" for each in outputs)
    assert list(tmp_path.glob("*.ipynb")) == []


def test_a_notebook_holds_no_output_of_a_machine(notebook: Any) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_two_notebooks_are_linked() -> None:
    pages = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for file in NOTEBOOKS:
        assert f"notebooks/{file.name}" in pages
        json.loads(file.read_text(encoding="utf-8"))
    assert len(NOTEBOOKS) == 2
