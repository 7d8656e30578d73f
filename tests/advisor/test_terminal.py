"""The terminal: completion of names in three shells, the user's own defaults, three questions, words of the trade."""

import json
import os
import pty
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.completion import NAMES, names_like
from advisor.cli.engine_words import own_words
from advisor.cli.interview import ask_words

Cli = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
PRICES = "advisor catalog prices --gpu h100-sxm --as-of 2026-11-20"
MOST_OVER_TYPER = 4.5
"""Completing a command takes twice the time of importing Typer, a name of the catalog three times."""


def complete(shell: str, line: str) -> list[str]:
    """Return the words that a shell offers for the last word of a line."""
    words = line.split(" ")
    variables = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1],
        },
    }[shell]
    done = subprocess.run(
        [sys.executable, "-m", "advisor"],
        env={**os.environ, "_ADVISOR_COMPLETE": f"complete_{shell}", "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.replace("_arguments '*: :((", "").replace("))'", "").replace('"', "").split()


@pytest.mark.parametrize(
    ("shell", "line", "name"),
    [
        ("bash", "advisor recommend --model llama-3.1-8", "llama-3.1-8b"),
        ("bash", "advisor recommend --gpu mi30", "mi300x"),
        ("zsh", "advisor recommend --gpu mi30", "mi300x"),
        ("fish", "advisor recommend --gpu mi30", "mi300x"),
        ("zsh", "advisor cost --provider hyper", "hyperstack"),
        ("fish", "advisor recommend --profile re", "reasoning"),
        ("bash", "advisor recommend --region us-te", "us-texas"),
        ("zsh", "advisor simulate serve --engine vl", "vllm"),
        ("fish", "advisor catalog show bge-m", "bge-m3"),
    ],
)
def test_names_are_completed(shell: str, line: str, name: str) -> None:
    assert name in complete(shell, line)


def test_the_last_name_of_a_list_is_completed() -> None:
    assert names_like("accelerators", "l4,mi30") == ["l4,mi300x"]
    assert names_like("regions", "us-east-") == ["us-east-1"]
    assert names_like("accelerators", "8xmi300x") == ["8xmi300x"]
    assert names_like("accelerators", "2xl4,8xmi300x") == ["2xl4,8xmi300x"]
    assert names_like("models", "no such") == []
    assert set(NAMES.values()) >= {"models", "accelerators", "providers", "profiles", "regions", "engines"}


@pytest.mark.parametrize(
    ("shell", "line", "names"),
    [
        ("bash", "advisor rec", {"recommend"}),
        ("bash", "advisor s", {"simulate", "sweep", "serve-api"}),
        ("zsh", "advisor s", {"simulate", "sweep", "serve-api"}),
        ("fish", "advisor s", {"simulate", "sweep", "serve-api"}),
        ("zsh", "advisor simulate se", {"serve"}),
        ("fish", "advisor --ver", {"--version"}),
    ],
)
def test_commands_are_completed(shell: str, line: str, names: set[str]) -> None:
    assert names <= {word.partition(":")[0] for word in complete(shell, line)}


@pytest.mark.parametrize("line", ["advisor rec", "advisor recommend --gpu h1"])
def test_completion_is_quick(line: str, least_cpu_s: Callable[..., float]) -> None:
    """In processor time over that of Typer: machines differ, and a busy one is slower."""
    words = line.split(" ")
    asked = {"_ADVISOR_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    typer = least_cpu_s("-c", "import typer")
    assert least_cpu_s("-m", "advisor", variables=asked) <= MOST_OVER_TYPER * typer


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file; commands run in another folder."""
    folder = tmp_path / "config" / "ai-hardware-advisor"
    folder.mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path / "work")
    return folder / "advisor.toml"


def providers(cli: Cli, options: str = "") -> set[str]:
    run = cli(f"{PRICES} {options} --json")
    assert run.code == 0, run.err
    return {price["provider"] for price in json.loads(run.out)["prices"]}


def test_the_users_own_file_counts_behind_a_folders(cli: Cli, own_file: Path) -> None:
    own_file.write_text('provider = "aws"\n')
    assert providers(cli) == {"aws"}
    assert f"provider = aws (from {own_file})" in cli(PRICES).err
    Path("advisor.toml").write_text('provider = "azure"\n')
    assert providers(cli) == {"azure"}
    assert providers(cli, "--provider gcp") == {"gcp"}
    shown = json.loads(cli("advisor config show --json").out)["defaults"]
    assert {each["origin"] for each in shown} == {str(Path.cwd() / "advisor.toml")}


def test_a_named_file_stands_alone(cli: Cli, own_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_file.write_text('provider = "aws"\n')
    Path("named.toml").write_text('term = "on-demand"\n')
    monkeypatch.setenv("ADVISOR_CONFIG", "named.toml")
    assert len(providers(cli)) > 3


def test_only_the_users_own_file_may_name_outputs(cli: Cli, own_file: Path) -> None:
    own_file.write_text('output = "prices.json"\n')
    assert cli(PRICES).code == 0
    assert Path("prices.json").is_file()
    own_file.unlink()
    Path("advisor.toml").write_text('output = "other.json"\n')
    assert "--trust-config" in cli(PRICES).err
    assert not Path("other.json").exists()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["", "", ""], ["recommend", "--model", "70b"]),
        (["8b", "10", ""], ["recommend", "--model", "8b", "--rate", "10"]),
        (["8b", "", "5000"], ["recommend", "--model", "8b", "--budget", "5000/month"]),
        (["8b", " 2 ", "$13.5/h"], ["recommend", "--model", "8b", "--rate", "2", "--budget", "$13.5/h"]),
    ],
)
def test_three_answers_make_a_command(answers: list[str], words: list[str]) -> None:
    given = iter(answers)
    told: list[str] = []
    assert ask_words(lambda _, default, **__: next(given) or default, told.append) == words
    assert "advisor recommend" in told[-1]


def test_advisor_alone_asks_on_a_terminal_and_helps_in_a_pipe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "advisor"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    piped = subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=False)
    assert "Commands" in piped.stdout
    child, terminal = pty.openpty()
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, cwd=tmp_path
    )
    os.close(terminal)
    said = b""
    answers = [b"nope-7b\n", b"2\n", b"\n"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([child], [], [], 0.2)[0]:
            try:
                said += os.read(child, 65536)
            except OSError:  # the other end is closed
                break
        if answers and said.count(b"?") > 3 - len(answers):
            os.write(child, answers.pop(0))
    assert process.wait(timeout=60) == 2
    os.close(child)
    text = said.decode()
    assert "$ advisor recommend --model nope-7b --rate 2" in text
    assert "unknown model 'nope-7b'" in text


@pytest.mark.parametrize(
    ("typed", "own"),
    [
        (
            "simulate serve --gpu H100:2 --qps 2 --isl 100 --osl 20 --num-prompts 20",
            "simulate serve --gpu h100 --tp 2 --rate 2 --input-tokens 100 --output-tokens 20 --requests 20",
        ),
        (
            "simulate serve --gpu=H100:2 --max-concurrency 2 --random-input-len 9 --random-output-len 20 --requests 9",
            "simulate serve --gpu h100 --tp 2 --concurrency 2 --input-tokens 9 --output-tokens 20 --requests 9",
        ),
        (
            "simulate serve --gpu H100:8 --tensor-parallel-size 4 --rate 2 --requests 20",
            "simulate serve --gpu h100 --tp 4 --replicas 2 --rate 2 --requests 20",
        ),
        (
            "simulate serve --gpu 4xH100 --tp=2 --pp 2 --rate 2 --requests 20",
            "simulate serve --gpu h100 --tp 2 --pp 2 --rate 2 --requests 20",
        ),
        ("simulate train --gpu H100:8", "simulate train --gpu h100 --gpus 8"),
        ("memory --gpu H100:2 --tp 2", "memory --gpu h100 --tp 2"),
        (
            "cost --tokens-per-month 365.25M --gpu l40s --api none",
            "cost --tokens-per-day 12M --gpu l40s --api none",
        ),
        (
            "recommend --gpu-type l40s --cloud novita --ttft 1s",
            "recommend --gpu l40s --provider novita --ttft-p99 1s",
        ),
    ],
)
def test_words_of_the_trade_mean_the_own_options(cli: Cli, typed: str, own: str) -> None:
    documents = []
    for words in (typed, own):
        run = cli(f"advisor {words} --model 8b --as-of 2026-11-20 --json")
        assert run.code == 0, run.err
        documents.append(json.loads(run.out))
    for document in documents:
        for name in [name for name in document if "wall" in name or name in ("counts", "simulation")]:
            del document[name]
    assert documents[0] == documents[1]


@pytest.mark.parametrize(
    ("typed", "own"),
    [
        ("--engine vllm --engine-version 0.24.0 --top 1", "--engine vllm@0.24.0 --top 1"),
        ("--engine-version=0.5.0 --top 1 --engine=sglang", "--top 1 --engine sglang@0.5.0"),
        # A release without its engine, or of one of several, is left to the error.
        ("--engine-version 0.24.0", "--engine-version 0.24.0"),
        ("--engine vllm,sglang --engine-version 0.24.0", "--engine vllm,sglang --engine-version 0.24.0"),
    ],
)
def test_a_search_takes_the_release_with_the_name_of_its_engine(typed: str, own: str) -> None:
    assert own_words(typed.split(), {"--engine", "--top"}) == own.split()
    of_one_server = {"--engine", "--engine-version", "--top"}
    assert own_words(typed.split(), of_one_server) == typed.split()


@pytest.mark.parametrize(
    ("typed", "fix"),
    [
        ("recommend --model 8b --tokens-per-month 5B", "advisor cost --tokens-per-month"),
        ("recommend --model 8b --workload batch --requests 1M", "--items"),
        ("simulate serve --model 8b --gpu h100 --rate 5 --levers eagle", "--speculative NAME"),
        ("recommend --models 8b:2,70b:1", "--models 8b@20,70b@2"),
        ("recommend --model sdxl --workload images", "did you mean: diffusion"),
        ("recommend --model 8b --workload fine-tuning", "did you mean: finetune"),
        ("recommend --model 8b --use-spot", "--term spot"),
        ("recommend --model 8b --vram 80", "--min-memory"),
        ("simulate collective --size 1GB", "did you mean: --bytes"),
        ("recommend --model 8b --latency 2s", "did you mean: --latency-p99"),
        ("roofline", "--gpu ID"),
    ],
)
def test_words_that_mean_more_than_one_option_are_hinted_at(cli: Cli, typed: str, fix: str) -> None:
    run = cli(f"advisor {typed}")
    assert run.code == 2
    assert fix in run.err.split("To fix:")[1]


def test_accelerators_with_a_number_are_rented_unless_they_are_own(cli: Cli) -> None:
    run = cli("advisor recommend --model 8b --rate 1 --gpu H100:8")
    assert run.code == 0, run.err
    assert "--own 8xh100-sxm" in run.err


def test_a_saved_probe_is_shown(cli: Cli, tmp_path: Path) -> None:
    run = cli("advisor probe show h200-sxm-x8 --json")
    told = json.loads(run.out)
    assert run.code == 0
    assert told["kind"] == "probe"
    saved = tmp_path / "probe.json"
    saved.write_text(json.dumps(told))
    again = cli(f"advisor probe show {saved}")
    assert again.out.startswith("8 x h200-sxm: PASS")
    edited = {**told, "measurements": told["measurements"][:50]}
    saved.write_text(json.dumps(edited))
    assert "edited after the probe wrote it" in cli(f"advisor probe show {saved}").err
    for text in ("{}", "[1]", '{"kind": "plan"}', ""):
        saved.write_text(text)
        run = cli(f"advisor probe show {saved}")
        assert run.code == 2
        assert "To fix" in run.err or "why" in run.err


@pytest.mark.parametrize(("columns", "says"), [(60, True), (100, False), (160, False)])
def test_columns_that_have_no_room_are_named(
    monkeypatch: pytest.MonkeyPatch, columns: int, says: bool
) -> None:
    from io import StringIO

    from advisor.render.answer import Column, Table
    from advisor.render.terminal import print_blocks

    monkeypatch.setenv("COLUMNS", str(columns))
    names = ("take", "runs", "cost", "basis")
    header = tuple(Column(name, optional=name in ("runs", "basis")) for name in names)
    out = StringIO()
    print_blocks((Table(header, (("8 x h100-sxm", "v" * 24, "$4.20 (3-5)", "m" * 24),)),), out)
    text = out.getvalue()
    assert ("No room for basis: a wider window or --json shows them." in text) is says
    assert "$4.20 (3-5)" in text


@pytest.mark.parametrize("width", [40, 60, 70, 80, 90, 100, 120, 160])
def test_the_basis_of_each_row_is_shown_at_every_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    from io import StringIO

    from advisor.render.answer import Table, columns
    from advisor.render.numbers import GLYPHS
    from advisor.render.terminal import print_blocks

    monkeypatch.setenv("COLUMNS", str(width))
    rows = [
        (str(place), "8 x h100-sxm", "v" * 30, "$4.20", "lambda, 61d", basis)
        for place, basis in enumerate(GLYPHS)
    ]
    header = columns("# | take | runs? | $/h> | price | basis!")
    out = StringIO()
    print_blocks((Table(header, tuple(rows)),), out)
    text = out.getvalue()
    assert "No room for basis" not in text
    lines = text.splitlines()
    for place, basis, glyph in ((row[0], row[-1], GLYPHS[row[-1]]) for row in rows):
        assert basis in text
        has_mark = any(line.lstrip().startswith(f"{place} {glyph}") for line in lines)
        has_cell = any(basis in line and ("8 x" in line or line.startswith("basis")) for line in lines)
        assert has_mark or has_cell, (place, basis)


CELLS = (
    "h100-sxm",
    "rtx-pro-6000-server",
    "$4.20",
    "0.20-0.30",
    "µs",
    "日本語",
    "lambda,",
    "61d",
    "word" * 9,
    "",
)


@pytest.mark.parametrize("width", [30, 60, 80, 100, 140])
def test_a_table_looks_as_one_of_rich(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Rows are laid out without rich, whose tables take 1 ms for each."""
    from io import StringIO

    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    from advisor.render import terminal
    from advisor.render.answer import Table, columns

    def print_with_rich(block: Table, widths: list[int], console: Any) -> None:
        shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
        for column, size in zip(block.columns, widths, strict=True):
            shown.add_column(Text(column.header), justify=column.align, overflow="fold", width=size)
        for row in block.rows:
            cells = (terminal._at_hyphens(cell, size) for cell, size in zip(row, widths, strict=True))
            shown.add_row(*map(Text, cells))
        console.print(shown)

    monkeypatch.setenv("COLUMNS", str(width))
    draw = random.Random(width)
    for _ in range(60):
        names = [draw.choice(("#", "take", "$/h", "longest kernel")) for _ in range(draw.randint(1, 6))]
        header = columns(" | ".join(name + draw.choice(("", ">", "~", "~?")) for name in names))
        rows = [
            tuple(" ".join(draw.choices(CELLS, k=draw.randint(0, 4))) for _ in header)
            for _ in range(draw.randint(0, 4))
        ]
        out = [StringIO(), StringIO()]
        terminal.print_blocks((Table(header, tuple(rows)),), out[0])
        with monkeypatch.context() as changed:
            changed.setattr(terminal, "_print_columns", print_with_rich)
            terminal.print_blocks((Table(header, tuple(rows)),), out[1])
        assert out[0].getvalue() == out[1].getvalue()


@pytest.mark.parametrize("num_rows", [1_999, 2_000, 2_001, 30_000])
def test_a_long_table_is_bounded_and_says_so(num_rows: int) -> None:
    from io import StringIO

    from advisor.render.answer import Table, columns
    from advisor.render.terminal import print_blocks

    rows = tuple((str(place), "lambda", f"${place % 7}") for place in range(num_rows))
    out = StringIO()
    print_blocks((Table(columns("# | provider | $/h>"), rows),), out)
    lines = out.getvalue().splitlines()
    assert sum("lambda" in line for line in lines) == min(num_rows, 2_000)
    told = f"… and {num_rows - 2_000:,} more rows: -o FILE.csv writes all of them."
    assert (lines[-1] == told) is (num_rows > 2_000)


def test_accelerators_counted_with_their_name_share_one_image(cli: Cli) -> None:
    """Images are split by their tokens; tensor parallelism is asked for by its own option."""
    command = "advisor simulate diffusion --model flux.1-dev --json"
    counted = json.loads(cli(f"{command} --gpu H100:4").out)
    own = json.loads(cli(f"{command} --gpu h100 --parallel 4").out)
    assert counted["inputs"] == own["inputs"]


@pytest.mark.parametrize("width", [30, 40, 60, 70, 80, 100, 140])
def test_no_number_is_cut_at_any_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Columns give way down to parts of names; a table that is wider still is printed a line for each cell."""
    from io import StringIO

    from advisor.render.answer import Table, columns
    from advisor.render.terminal import print_blocks

    monkeypatch.setenv("COLUMNS", str(width))
    header = columns("# | take~ | runs~ | $/h> | $/Mtok~ | TTFT> | holds | price~ | basis?")
    row = (
        "2",
        "2 x b200-sxm",
        "trt-llm fp8",
        "$13.58",
        "$0.28",
        "516 ms",
        "marginal",
        "digitalocean, 188d",
        "modelled",
    )
    out = StringIO()
    print_blocks((Table(header, (row, row), "Options"),), out)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    for whole in ("$13.58", "$0.28", "516 ms", "$/Mtok", "marginal", "188d"):
        assert whole in text
