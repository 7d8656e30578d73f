"""Text from files, folders and variables enters scripts, manifests, tables and pages, and is never code in them.

CI tries what fits in half a minute, always the same. `ADVISOR_FUZZ_CASES=5000 ADVISOR_FUZZ_SEED=7` tries more, others.
"""

import csv
import html.parser
import io
import json
import os
import random
import shutil
import subprocess
import time
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from advisor.__main__ import main
from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.legible import Line, as_cell, escape_json, legible, markdown, of_cell

Ask = Callable[[list[str]], tuple[int, str, str]]
CASES = int(os.environ.get("ADVISOR_FUZZ_CASES", "0"))
SEED = int(os.environ.get("ADVISOR_FUZZ_SEED", "1"))
CI_S = 30.0
FORMS = ("command", "docker", "compose", "k8s", "skypilot", "slurm")
PRICES = "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on,sku,region\n"
"""Header of a price file; rows are made by `_prices`."""


PIECES: Final = (
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "' ; touch pwned ; '",
    '" ; touch pwned ; "',
    "&& touch pwned",
    "\ntouch pwned\n",
    "\r\ntouch pwned",
    "\nEOF\ntouch pwned\n",
    "--trust-remote-code",
    "-o",
    "=cmd|'/c calc'!A1",
    "@SUM(1+1)",
    "+1+1",
    "-2+3+cmd",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "![x](http://e/)",
    "[x](javascript:alert(1))",
    "\u202egnp",
    "\x1b[2J",
    "\u2028",
    "\u200b",
    "\U000e0041",
    "${HOME}",
    "$(HF_TOKEN)",
    "{{ x }}",
    "{0}",
    "%s",
    "a: b",
    "- a",
    "'",
    '"',
    "]",
    "|",
    "\\",
    "&lt;",
    "-->",
    "x",
    "Llama",
    "8b",
    "\u6a21\u578b",
    "\x00",
    "\t=1+1",
    "..",
    "/",
    "#",
    "!important",
    "*",
    "&anchor",
    "? key",
)
STUBS: Final = (
    "vllm",
    "docker",
    "curl",
    "nginx",
    "srun",
    "sky",
    "kubectl",
    "nvidia-smi",
    "python",
    "pip",
    "git",
    "hf",
)
_TAGS: Final = {"img", "iframe", "object", "embed", "form", "base", "link", "video", "audio"}


def hostile(draw: random.Random) -> str:
    """Return a text of one to three hostile pieces."""
    return draw.choice(("", " ", "a")).join(draw.choices(PIECES, k=draw.randint(1, 3)))


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


def run_scripts(folder: Path) -> None:
    """Run every emitted script where its programs are stand-ins, and fail if anything else ran or was written."""
    stubs = folder / "stubs"
    stubs.mkdir(exist_ok=True)
    for name in STUBS:
        (stubs / name).write_text("#!/bin/sh\nexit 0\n")
        (stubs / name).chmod(0o755)
    env = {
        "PATH": f"{stubs}:/usr/bin:/bin",
        "HOME": str(folder),
        "SLURM_ARRAY_TASK_ID": "0",
        "HF_TOKEN": "secret",
    }
    for script in [*folder.rglob("*.sh"), *folder.rglob("*.sbatch")]:
        if script.name not in ("router.sh", "power.sh"):  # they wait for replicas, or change the machine
            subprocess.run(
                ["bash", script.name],
                cwd=script.parent,
                env=env,
                check=False,
                timeout=20,
                capture_output=True,
            )
    for manifest in folder.rglob("*.yaml"):
        for document in yaml.safe_load_all(manifest.read_text(encoding="utf-8")):
            run = document.get("run") if isinstance(document, dict) else None
            if run:
                subprocess.run(
                    ["bash", "-c", run], cwd=folder, env=env, check=False, timeout=20, capture_output=True
                )
    assert not list(folder.rglob("pwned*"))


class _Page(html.parser.HTMLParser):
    """The parts of a page that a browser would act upon."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: list[str] = []
        self.shown: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in ("script", "style") else ""
        for name, value in attrs:
            text = (value or "").strip().lower()
            if name.startswith("on") or (
                name in ("href", "src") and text.startswith(("javascript:", "data:text"))
            ):
                self.acts.append(f"{tag} {name}={value}")
            self.shown.append(value or "")
        if tag in _TAGS and not any(name == "rel" and value == "icon" for name, value in attrs):
            self.acts.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.shown.append(data)
        elif "alert(1)" in data:
            try:
                json.loads(data)  # data of a chart, which is text to the script that draws it
            except ValueError:
                self.acts.append(data[:200])


def is_shown(text: str) -> bool:
    """Whether no character of a text is obeyed by a reader or hidden from one."""
    return not any(not letter.isprintable() and letter not in "\n\t\u00a0\u2009\u202f" for letter in text)


def judge_page(text: str) -> None:
    page = _Page()
    page.feed(text)
    assert page.acts == []
    assert all(map(is_shown, page.shown))


def judge_table(text: str) -> None:
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            if cell.startswith(("=", "+", "-", "@", "\t", "\r")) and len(cell) > 1:
                float(cell)
            assert is_shown(cell)


def judge_markdown(text: str) -> None:
    parts = text.split("```")
    outside = "".join(parts[::2])
    assert "<script" not in outside
    assert "<img" not in outside
    assert "](http" not in outside
    assert "](javascript" not in outside
    assert is_shown(text)


JUDGES: Final = {".html": judge_page, ".csv": judge_table, ".md": judge_markdown}


def files_of(folder: Path) -> set[str]:
    """Names of all files below a folder."""
    return {os.path.relpath(path, folder) for path in folder.rglob("*") if path.is_file()}


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _prices(folder: Path, text: str, draw: random.Random) -> list[str]:
    cells = {"provider": "mine", "accelerator": "l40s", "term": "on_demand", "sku": "s", "region": "r"}
    cells[draw.choice(list(cells))] = text
    values = (cells["provider"], cells["accelerator"], "1", cells["term"], "0.9", "2026-11-20")
    row = ",".join(map(_cell, (*values, cells["sku"], cells["region"])))
    (folder / "p.csv").write_text(f"{PRICES}{row}\n", encoding="utf-8", errors="replace")
    return ["catalog", "prices", "--price-file", "p.csv", "--gpu", "l40s"]


def _parts(folder: Path, text: str, draw: random.Random) -> list[str]:
    lines = ["RTX 5090 $2000", "Ryzen 9 9950X", text]
    if draw.random() < 0.5:
        (folder / "b.txt").write_text("\n".join(lines), encoding="utf-8", errors="replace")
        return ["build", "check", "b.txt"]
    (folder / "b.toml").write_text(f"parts = {json.dumps(lines)}\n", encoding="utf-8", errors="replace")
    return ["build", "check", "b.toml"]


def _trace(folder: Path, text: str, draw: random.Random) -> list[str]:
    header = ",".join(("arrived_at_s", "input_tokens", "output_tokens", _cell(text)))
    (folder / "t.csv").write_text(f"{header}\n0,100,20,x\n1,90,9,y\n", encoding="utf-8", errors="replace")
    return ["simulate", "trace", "t.csv"]


def _defaults(folder: Path, text: str, draw: random.Random) -> list[str]:
    key = draw.choice(("provider", "term", "sort", "region", "gpu", json.dumps(text)))
    (folder / "advisor.toml").write_text(f"{key} = {json.dumps(text)}\n", encoding="utf-8", errors="replace")
    return ["catalog", "prices", "--gpu", "l40s"]


def _variable(folder: Path, text: str, draw: random.Random) -> list[str]:
    os.environ[f"ADVISOR_{draw.choice(('PROVIDER', 'GPU', 'NOTHING'))}"] = text.replace("\0", "")
    return ["catalog", "prices"]


def _model(folder: Path, text: str, draw: random.Random) -> list[str]:
    field = draw.choice(
        ("_name_or_path", "model_type", "architectures", "torch_dtype", "quantization_config")
    )
    value = {"architectures": [text], "quantization_config": {"quant_method": text}}.get(field, text)
    model_folder(folder / "m", {field: value})
    return ["roofline", "--model", "./m", "--gpu", "l40s"]


INPUTS = (_prices, _parts, _trace, _defaults, _variable, _model)


def test_no_text_of_an_input_acts_in_any_form(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = time.monotonic()
    number = 0
    while number < CASES if CASES else time.monotonic() - started < CI_S:
        draw = random.Random(f"{SEED} {number}")
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(os, "environ", os.environ.copy())
            words = draw.choice(INPUTS)(folder, hostile(draw), draw)
            before = files_of(folder)
            suffix = draw.choice(("", ".html", ".csv", ".md", ".json"))
            ask([*words, *(["-o", f"out{suffix}"] if suffix else [])])
        written = files_of(folder) - before
        assert written <= {f"out{suffix}"}, words
        if written and suffix in JUDGES:
            JUDGES[suffix]((folder / f"out{suffix}").read_text(encoding="utf-8"))
        shutil.rmtree(folder)
    assert number


def shape(value: object) -> object:
    """The structure of a parsed manifest without its texts."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items() if key != "file_mounts"}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("form", FORMS)
def test_a_model_that_is_named_like_code_starts_nothing_but_its_engine(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shapes: dict[str, object] = {}
    names = ["plain", *(hostile(random.Random(f"{SEED} {form} {i}")) for i in range(max(3, CASES // 600)))]
    for number, name in enumerate(names):
        path = Path(name.replace("/", "").replace("\0", "").strip(".")[:60] or "x")
        model_folder(path, {"_name_or_path": name} if number % 2 else {})
        rate = "400" if number else "2"
        words = ["recommend", "--fast", "--gpu", "l40s", "--engine", "vllm", "--rate", rate, "--top", "1"]
        out = tmp_path / f"q{number}"
        code, _, err = ask([*words, "--model", f"./{path}", "--emit", form, "--emit-dir", str(out)])
        is_line = all(text.isprintable() for text in (str(path), name if number % 2 else ""))
        assert code == (0 if is_line else 2), err
        if not is_line:
            assert not out.exists()
            continue
        run_scripts(out)
        for file in out.rglob("*.yaml"):
            documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
            assert documents
            if number == 0:
                shapes[file.name] = {key for document in documents for key in document}
            assert {key for document in documents for key in document} >= shapes.get(file.name, set())  # type: ignore[operator]
    assert not list(tmp_path.rglob("pwned*"))


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
        assert of_cell(cell) == legible(text)


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
    judge_page((tmp_path / "out.html").read_text(encoding="utf-8"))
    assert "a\\u202eb" in (tmp_path / "out.csv").read_text(encoding="utf-8")
