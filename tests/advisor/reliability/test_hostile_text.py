"""Text from files and folders enters scripts, manifests, tables and pages, and is never code in them: the direct tests.

tools/hostile tries thousands of texts in every place of every input (test_hostile_cases.py).
"""

import json
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.__main__ import main
from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.legible import Line, as_cell, escape_json, legible, markdown, of_cell, on_one_line

FORMS = ("command", "docker", "compose", "k8s", "skypilot", "slurm")
Ask = Callable[[list[str]], tuple[int, str, str]]
PRICES = "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on,sku,region\n"
"""Header of a price file; rows are made by `_prices`."""


def model_folder(folder: Path, fields: Mapping[str, object]) -> Path:
    """Write a small model's config.json with further fields."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config | dict(fields)), encoding="utf-8")
    return folder


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", ["field", "folder"])
def test_a_name_of_several_lines_starts_nothing(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "good-8b\ntouch pwned; exit 0 #"
    folder = model_folder(Path(name if place == "folder" else "m"), {"_name_or_path": f"x/{name}"})
    words = ["recommend", "--fast", "--gpu", "l40s", "--engine", "vllm", "--rate", "1", "--top", "1"]
    code, _, err = ask([*words, "--model", f"./{folder}", "--emit", form, "--emit-dir", "q"])
    assert code == 2
    assert "is not one line of printable characters" in err
    assert not Path("q").exists()


def test_several_models_are_started_by_the_paths_that_were_typed(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model_folder(Path("MyModel"), {})
    model_folder(Path("B x"), {"hidden_size": 4096})
    asked = ["recommend", "--fast", "--gpu", "l40s", "--engine", "vllm", "--top", "1", "--json"]
    for precision, started in (
        ("bf16", "vllm serve ./MyModel "),
        ("int4", "vllm serve ./mymodel/mymodel-int4 "),
    ):
        models_text = f"./MyModel@1/s:precision={precision},./B x@2/s:precision=bf16"
        code, out, _ = ask([*asked, "--models", models_text, "--emit", "command"])
        assert code == 0
        files = json.loads(out)["deployment"]["files"]
        scripts = "".join(text for name, text in files.items() if name.startswith("machine"))
        assert started in scripts
        assert "vllm serve './B x' " in scripts
        assert "cd " not in scripts  # a path counts from the folder where the script starts
        assert "all names were read in a source" not in files["README.md"]
        if precision == "int4":
            assert "../MyModel" in files["mymodel/quantise.sh"]


def test_a_local_model_is_started_by_its_path(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model_folder(tmp_path / "MyModel", {"_name_or_path": "meta-llama/Llama-3.1-8B"})
    asked = "recommend --fast --gpu l40s --engine vllm --rate 1 --top 1 --emit command --json --model"
    places = (
        ("MyModel", "./MyModel"),
        ("./MyModel/config.json", "./MyModel"),
        (str(tmp_path / "MyModel"),) * 2,
    )
    for typed, started in places:
        answer = json.loads(ask([*asked.split(), typed])[1])
        option = answer["options"][0]
        files = answer["deployment"]["files"]
        assert option["launch"]["command"].startswith(f"vllm serve {started} ")
        assert option["launch"]["checkpoint"]["repository"] == started
        assert f"vllm serve {started} " in files["start.sh"]
        assert "verify: of " in files["README.md"]
        assert "all names were read in a source" not in files["README.md"]


@given(st.text(max_size=40))
def test_a_line_is_printable_or_refused(text: str) -> None:
    if text.isprintable():
        assert Line(text) == text
    else:
        with pytest.raises(InputFileError) as refused:
            Line(text)
        assert "U+" in refused.value.why


@given(st.text(max_size=40))
def test_shown_text_hides_nothing(text: str) -> None:
    for shown in (legible(text), as_cell(text), markdown(text), escape_json(text)):
        kinds = {unicodedata.category(letter) for letter in shown if letter not in "\n\t"}
        assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert json.loads(escape_json(json.dumps(text, ensure_ascii=False))) == text


@given(
    st.one_of(st.text(max_size=20), st.builds("{}{}".format, st.sampled_from("=+-@\t"), st.text(max_size=20)))
)
def test_no_cell_is_a_formula_and_each_is_read_back(text: str) -> None:
    cell = as_cell(text)
    if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) and len(cell) > 1:
        float(cell)
    if not text.startswith("'"):
        assert of_cell(cell) == on_one_line(text)


def test_a_name_is_refused_with_its_file(tmp_path: Path) -> None:
    for name in ("x/good-8b\ntouch pwned; exit 0 #", "a\u202eb", "x" * 300):
        model_folder(tmp_path / "m", {"_name_or_path": name})
        with pytest.raises(InputFileError, match=r"config\.json: the name of the model"):
            models.get(str(tmp_path / "m"))
    with pytest.raises(AdvisorError, match="the path of the model"):
        models.get(str(model_folder(tmp_path / "a\nb", {"_name_or_path": "good"})))


def test_a_direction_mark_of_a_name_is_written_out_on_a_page(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(f"{PRICES}mine,l40s,1,on_demand,0.5,2026-11-20,a\u202eb<script>,r\n", encoding="utf-8")
    for suffix in (".html", ".csv", ".md"):
        out = tmp_path / f"out{suffix}"
        assert (
            main(["catalog", "prices", "--price-file", str(path), "--gpu", "l40s", "-q", "-o", str(out)]) == 0
        )
        text = out.read_text(encoding="utf-8")
        assert "\u202e" not in text
    assert (
        "<script>" not in (tmp_path / "out.html").read_text(encoding="utf-8").partition("a\\u202eb")[2][:20]
    )
    assert "a\\u202eb" in (tmp_path / "out.csv").read_text(encoding="utf-8")
