"""Files of strangers are read, never obeyed: not imported, not trusted with outputs, not passed on to a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.__main__ import main
from advisor.render.answer import Answer, Column, Figure, Paragraph, Table
from advisor.render.document import document, dump
from advisor.render.files import as_markdown

ROOT = Path(__file__).resolve().parents[3]
SHADOWS = ("numpy", "random", "joblib", "socket", "pandas", "torch", "simpy", "typer", "advisor_plugin")
STUDY = 'command = "simulate collective"\n[base]\ngpu = "h100"\n[grid]\nbytes = ["1MiB", "2MiB", "4MiB"]\n'


@pytest.mark.parametrize(
    "words", ["catalog gpus -q", "sweep s.toml -o out.csv --workers 2 -q", "probe --quick -q"]
)
def test_modules_of_the_working_directory_do_not_run(tmp_path: Path, words: str) -> None:
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'a').write({name!r})\n")
    (tmp_path / "s.toml").write_text(STUDY)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "advisor", *words.split()],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert not (tmp_path / "RAN").exists(), (tmp_path / "RAN").read_text()
    assert done.returncode in (0, 6), done.stderr


@pytest.mark.parametrize("line", ['output = "stolen.json"', '[catalog.gpus]\noutput = "stolen.json"'])
def test_a_file_in_a_folder_may_not_say_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "advisor.toml").write_text(line + "\n")
    words = ["catalog", "gpus", "-q"]
    assert main(words) == 2
    assert "--trust-config" in capsys.readouterr().err
    assert not (tmp_path / "stolen.json").exists()
    assert main([*words, "--trust-config"]) == 0
    assert (tmp_path / "stolen.json").exists()
    assert main([*words, "-o", str(tmp_path / "mine.json")]) == 0


def test_a_file_cannot_vouch_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "advisor.toml").write_text('trust-config = true\noutput = "stolen.json"\n')
    assert main(["catalog", "gpus", "-q"]) == 2
    (tmp_path / "advisor.toml").write_text('[sweep]\ncluster = "tcp://elsewhere.example:1"\n')
    (tmp_path / "s.toml").write_text(STUDY)
    assert main(["sweep", "s.toml", "-o", "a.csv"]) == 2


EVIL = "a\x1b[2J\x9b31m\u202eb\u2028c<script>alert(1)</script>&lt;![x](http://e/)"


def answer() -> Answer:
    table = Table((Column("name"),), ((EVIL,),), title=EVIL)
    return Answer({"name": EVIL}, {}, (Paragraph(EVIL), table, Figure(f"```\n{EVIL}", title=EVIL)), "")


def test_control_characters_reach_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from advisor.render.terminal import print_blocks

    print_blocks(answer().blocks, sys.stdout)
    assert main(["catalog", "show", EVIL]) == 2
    assert main(["recommend", "--model", EVIL, "--json"]) == 2
    told = capsys.readouterr()
    shown = told.out + told.err + dump(document(answer(), seed=0, shared={}))
    assert [letter for letter in shown if not letter.isprintable() and letter not in "\n"] == []


def test_markdown_holds_no_html_and_loads_nothing() -> None:
    text = as_markdown(answer(), document(answer(), seed=0, shared={}))
    fence = "````"
    outside = "".join(text.split(fence)[::2])
    assert "<script" not in outside
    assert "](http" not in outside
    assert "&amp;lt;" in outside
    assert text.count(fence) == 2
