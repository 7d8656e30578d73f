"""The shell around every command: streams, shared options, files, exit codes, start-up cost."""

import ast
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor import __version__
from advisor.catalog.errors import AdvisorError
from advisor.cli.command import commands, run_command
from advisor.cli.errors import EXIT_CODES
from advisor.render.files import forms_for

ROOT = Path(__file__).resolve().parents[2]
Cli = Callable[[str], Any]
LISTING = "advisor catalog gpus --family hopper --as-of 2026-11-20"


def in_subprocess(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m advisor` in the checkout with only the given variables beside PATH."""
    return subprocess.run(
        [sys.executable, "-m", "advisor", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_version(cli: Cli) -> None:
    assert cli("advisor --version").out == f"advisor {__version__}\n"


@pytest.mark.parametrize("command", ["advisor", "advisor --help", "advisor -h"])
def test_help_names_every_exit_code(cli: Cli, command: str) -> None:
    run = cli(command)
    assert run.code == 0
    words = " ".join(run.out.split())
    for code, meaning in EXIT_CODES:
        assert f"{code} {meaning}" in words


def test_group_without_subcommand_prints_its_help(cli: Cli) -> None:
    run = cli("advisor catalog")
    assert run.code == 0
    assert "gpus" in run.out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from advisor.__main__ import main; main(['--help']);"
        "heavy = {'torch', 'pandas', 'scipy', 'numpy', 'simpy', 'advisor.catalog.schema'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_pipe_gets_no_escape_codes_even_under_github_actions() -> None:
    for arguments in (["--help"], ["catalog", "gpus"], ["catalog", "nothing"]):
        done = in_subprocess(*arguments, GITHUB_ACTIONS="true", TERM="xterm-256color")
        assert "\x1b" not in done.stdout + done.stderr


def test_force_color_is_obeyed_and_no_color_too() -> None:
    coloured = in_subprocess("catalog", "gpus", FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[" in coloured.stdout
    plain = in_subprocess("catalog", "gpus", NO_COLOR="1", TERM="xterm-256color")
    assert "\x1b" not in plain.stdout


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("160", 160), ("", 100)])
def test_tables_fit_the_columns_there_are(columns: str, widest: int) -> None:
    variables = {"COLUMNS": columns} if columns else {}
    done = in_subprocess("catalog", "gpus", **variables)
    assert max(map(len, done.stdout.splitlines())) <= widest


def test_terminal_width_does_not_break_help() -> None:
    done = in_subprocess("catalog", "gpus", "--help", TERMINAL_WIDTH="70")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_ascii_terminal_gets_a_substitute_instead_of_an_error() -> None:
    done = in_subprocess("catalog", "gpus", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    asked = "simulate", "serve", "--model", "8b", "--gpu", "h100-sxm", "--rate", "1", "--requests", "20"
    shown = in_subprocess(*asked, PYTHONIOENCODING="ascii", PYTHONUTF8="0").stdout
    marks = ("+ measured on", "~ calibrated on", ". modelled from", "? assumed")
    assert all(mark in " ".join(shown.split()) for mark in marks)
    assert ") ?" not in shown  # its figures are modelled, none is assumed


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = [sys.executable, "-m", "advisor", "catalog", "gpus", "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_json_is_one_document_with_the_envelope_first(cli: Cli) -> None:
    run = cli(f"{LISTING} --json --seed 7")
    document = json.loads(run.out)
    envelope = ["schema_version", "tool_version", "catalog_version", "seed", "inputs", "warnings"]
    assert list(document)[:6] == envelope
    assert document["seed"] == 7
    assert document["inputs"]["family"] == "hopper"
    assert document["inputs"]["as_of"] == "2026-11-20"
    assert run.err == ""


def test_shared_options_come_after_the_subcommand_in_any_order(cli: Cli) -> None:
    first = cli("advisor catalog gpus --json --as-of 2026-11-20 --family hopper -q --no-input --offline")
    second = cli("advisor catalog gpus -q --offline --family hopper --no-input --as-of 2026-11-20 --json")
    assert first.code == 0
    assert first.out == second.out


@pytest.mark.parametrize("suffix", ["json", "csv", "md", "html"])
def test_output_file_takes_the_format_of_its_suffix(cli: Cli, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"gpus.{suffix}"
    run = cli(f"{LISTING} -o {file}")
    assert run.code == 0
    assert run.err == f"note: wrote {file}\n"
    assert "h100-sxm" in run.out
    text = file.read_text(encoding="utf-8")
    assert "h100-sxm" in text
    start = {"json": "{\n", "csv": "id,vendor,", "md": "| accelerator |", "html": "<!doctype html>"}[suffix]
    assert text.startswith(start)


def test_json_file_equals_json_on_stdout(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    run = cli(f"{LISTING} --json -o {file} -q")
    assert file.read_text(encoding="utf-8") == run.out


def test_quiet_with_a_file_prints_nothing(cli: Cli, tmp_path: Path) -> None:
    run = cli(f"{LISTING} -q -o {tmp_path / 'gpus.csv'}")
    assert (run.code, run.out, run.err) == (0, "", "")


def test_output_file_has_the_usual_mode(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "gpus.csv"
    cli(f"{LISTING} -o {file}")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask


def test_an_output_file_through_a_link_replaces_its_target(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "real.csv"
    link = tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    cli(f"{LISTING} -o {link}")
    assert link.is_symlink()
    assert "h100-sxm" in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("gpus.xlsx", "no output format for gpus.xlsx"),
        ("gpus", "no output format for gpus"),
        ("missing/gpus.csv", "there is no folder"),
        ("", "it is a folder"),
    ],
)
def test_a_bad_output_path_is_refused_before_any_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    folder = tmp_path / "out.csv"
    folder.mkdir()
    monkeypatch.setattr(
        "advisor.commands.catalog.queries.select_accelerators", lambda *_: pytest.fail("worked")
    )
    run = cli(f"{LISTING} -o {folder / name}")
    assert run.code == 2
    assert what in run.err
    assert "To fix:" in run.err
    assert run.out == ""
    assert list(folder.iterdir()) == []


def folders_that_draw() -> set[str]:
    """Return the folders of commands whose code hands a drawing to an answer."""
    return {
        file.parent.name
        for file in (ROOT / "advisor" / "commands").glob("*/*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "svg"
    }


def test_commands_that_draw_say_so() -> None:
    said = {one.inputs.__module__.split(".")[-2] for one in commands().values() if one.has_drawing}
    assert said == folders_that_draw()


@pytest.mark.parametrize("suffix", [".svg", ".csv", ".png", ""])
@pytest.mark.parametrize("name", sorted(commands()))
def test_a_file_that_a_command_cannot_write_is_answered_with_those_that_it_can(
    cli: Cli, tmp_path: Path, name: str, suffix: str
) -> None:
    """The fix lists the forms of this very command; for a drawing, the commands that draw are named."""
    found = commands()[name]
    able = {".svg": found.has_drawing, ".csv": found.has_table}.get(suffix, False)
    file = tmp_path / f"x{suffix}"
    forms = forms_for(has_table=found.has_table, has_drawing=found.has_drawing)
    if able:
        assert suffix in forms
        return
    with pytest.raises(AdvisorError) as refused:
        run_command(found, {"output": file}, frozenset())
    assert refused.value.fix is not None
    assert set(re.findall(r"(?<![\w/])\.[a-z]+", refused.value.fix.partition(", e.g.")[0])) == set(forms)
    if suffix == ".svg":
        drawing = [name for name, one in commands().items() if one.has_drawing]
        assert all(f"advisor {each}" in refused.value.why for each in drawing)


def test_an_answer_without_a_drawing_is_told_before_the_refusal(cli: Cli, tmp_path: Path) -> None:
    run = cli(
        f"advisor recommend --model 8b --rate 2 --gpu l40s --engine vllm --fast -q -o {tmp_path / 'x.svg'}"
    )
    assert run.code == 2
    assert "l40s" in run.out
    assert "no drawing" in run.err
    assert ".csv" in run.err


def test_a_failed_write_leaves_the_old_file_and_no_part(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gpus.csv"
    file.write_text("old")

    def disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", disk_full)
    run = cli(f"{LISTING} -o {file}")
    assert run.code == 2
    assert "No space left on device" in run.err
    assert run.out == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["gpus.csv"]
    assert file.read_text() == "old"


@pytest.mark.parametrize("day", ["2026-13-01", "2026-02-30", "20.11.2026", "today", "2026-1"])
def test_a_bad_date_is_refused(cli: Cli, day: str) -> None:
    run = cli(f"advisor catalog gpus --as-of {day}")
    assert run.code == 2
    assert f"--as-of {day} is not a date" in run.err
    assert "YYYY-MM-DD" in run.err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ("catalog gpu", "Did you mean 'gpus'?"),
        ("catalgo", "catalog"),
        ("catalog gpus --vendr amd", "--vendor"),
        ("catalog gpus --seed x", "--seed"),
        ("catalog gpus --seed -1", "--seed"),
        ("catalog gpus --sort size", "--sort"),
        ("catalog gpus extra", "extra"),
    ],
)
def test_a_usage_error_says_what_and_where_help_is(cli: Cli, arguments: str, what: str) -> None:
    run = cli(f"advisor {arguments}")
    assert run.code == 2
    assert run.err.startswith("error: ")
    assert what in run.err
    assert "--help" in run.err
    assert run.out == ""


def test_a_missing_argument_is_shown_where_it_is_typed(cli: Cli) -> None:
    assert "To fix: advisor compare A B\n" in cli("advisor compare plan.json").err


def test_a_whole_number_may_be_typed_short(cli: Cli) -> None:
    asked = "advisor simulate serve --model 8b --gpu h100-sxm --rate 1 --requests 20 --json --input-tokens"
    short, long = (json.loads(cli(f"{asked} {tokens}").out) for tokens in ("1.5k", "1500"))
    assert short["inputs"] == long["inputs"]
    refused = cli(f"{asked} 1.0001k")
    assert (refused.code, json.loads(refused.out)["error"]["exit_code"]) == (2, 2)
    assert "'--input-tokens': not a whole number" in refused.err


def test_an_internal_error_is_short_and_says_how_to_see_more(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.commands.catalog.queries.select_accelerators", lambda *_: 1 // 0)
    run = cli(LISTING)
    assert run.code == 1
    assert "ZeroDivisionError" in run.err
    assert "with -v, which shows the traceback" in run.err
    assert "Traceback" not in run.err
    assert "Traceback" in cli(f"{LISTING} -v").err


def test_an_interrupt_ends_with_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("advisor.commands.catalog.queries.select_accelerators", interrupt)
    for _ in range(2):
        run = cli(LISTING)
        assert run.code == 130
        assert run.err == "note: interrupted; nothing was saved\n"


def test_shell_completion_is_offered() -> None:
    done = in_subprocess(_ADVISOR_COMPLETE="complete_bash", COMP_WORDS="advisor catalog g", COMP_CWORD="2")
    assert "gpus" in done.stdout


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "no such file"),
        ("{", "not valid JSON"),
        ('{"kind": "probe"}', "is no calibration"),
        ('{"kind": "calibration"}', "accelerator"),
        (
            '{"kind": "calibration", "accelerator": "h100-sxm", "bandwidth_bytes_per_s": -1}',
            "bandwidth_bytes_per_s",
        ),
    ],
)
def test_a_file_that_is_no_calibration_is_refused(
    cli: Cli, tmp_path: Path, text: str | None, what: str
) -> None:
    file = tmp_path / "calibration.json"
    if text is not None:
        file.write_text(text)
    run = cli(f"{LISTING} --calibration {file}")
    assert run.code == 2
    assert what in run.err
    assert str(file) in run.err
    assert run.out == ""


def test_a_command_that_does_not_use_the_calibration_says_so(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_text('{"kind": "calibration", "accelerator": "h100-sxm"}')
    run = cli(f"{LISTING} --calibration {file} --json")
    assert run.code == 0
    assert json.loads(run.out)["warnings"] == ["this answer does not use the calibration"]


@pytest.mark.parametrize("sum_", ["$3,000", "3k", "3000 USD", "3000"])
def test_sums_and_whole_numbers_are_read_as_people_write_them(cli: Cli, sum_: str) -> None:
    answer = cli(f"advisor build --model 8b --budget '{sum_}' --top 1 --json")
    assert json.loads(answer.out)["inputs"]["budget_usd"] == 3000.0
    memory = "advisor memory --model 8b --gpu h100 --json --context"
    assert cli(f"{memory} 32,768").out == cli(f"{memory} 32768").out


def test_a_sum_in_another_currency_is_refused_for_its_own_option(cli: Cli) -> None:
    refused = cli("advisor build --model 8b --budget 2000€")
    assert refused.code == 2
    assert "--budget 2000€: not a sum of dollars" in refused.err
