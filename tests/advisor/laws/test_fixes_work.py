"""A fix that a refused file prints as options is accepted when it is typed: the same refusal does not come again."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

BROUGHT: Final = Path(__file__).parents[2] / "catalog" / "brought_files.jsonl"
COMMANDS: Final = {
    "results": "advisor validate file {file}",
    "log": "advisor validate file {file}",
    "traffic": "advisor simulate serve --model 8b --gpu h100-sxm --requests 20 --trace {file}",
    "prices": "advisor catalog prices --price-file {file}",
    "machine": "advisor memory --model 8b --gpu {file}",
}
"""Command that takes files of a kind."""
VALUES: Final = {
    "--model ID": "--model llama-3.1-8b",
    "--gpu ID": "--gpu h100-sxm",
    "--concurrency N": "--concurrency 4",
    "--input-tokens N": "--input-tokens 512",
    "--output-tokens N": "--output-tokens 128",
    "--rate R": "--rate 2",
    "--provider NAME": "--provider acme",
    "xID": "xh100-sxm",
    "--precision FORMAT": "--precision q4_k_m",
}
"""Options as a person types them for the placeholders of fixes."""
OPTIONS: Final = re.compile(r"(?:--[a-z][\w-]*(?: (?!--)[^\s,;:]+)? ?)+")
REPLACED: Final = {"instead of the trace": "--trace", "--gpu": "--gpu"}
"""Option whose value a fix takes the place of, by words of the fix."""
TYPED: Final = {
    "no accelerator, no model": (
        "results",
        '{"max_concurrency": 4, "mean_ttft_ms": 90, "total_input_tokens": 4000, '
        '"total_output_tokens": 400, "completed": 8, "output_throughput": 300}',
    ),
    "rates alone": ("results", "| TTFT (ms) | TPOT (ms) |\n|---|---|\n| 90 | 11 |\n"),
    "a trace without times": ("traffic", '{"input_length": 100, "output_length": 10}\n' * 5),
    "a sheet without a provider": ("prices", "GPU,GPUs,Price per hour\nH100 SXM,8,19.92\n"),
    "a count without a name": ("machine", "Total number of GPUs: 4\n"),
}
"""Further refused files, with their kinds."""


def refused_files() -> list[Any]:
    rows = [json.loads(line) for line in BROUGHT.read_text(encoding="utf-8").splitlines()]
    brought = [(row["name"], row["kind"], row["text"]) for row in rows if "refused" in row["expected"]]
    typed = [(name, kind, text) for name, (kind, text) in TYPED.items()]
    return [pytest.param(kind, text, id=name) for name, kind, text in (*brought, *typed)]


def with_fix(command: str, fix: str) -> str:
    """The command with the options of its fix; as it is if the fix is words."""
    for placeholder, value in VALUES.items():
        fix = fix.replace(placeholder, value)
    if fix.startswith("advisor "):
        return fix
    found = OPTIONS.match(fix)
    if found is None:
        return command
    taken = next((option for words, option in REPLACED.items() if words in fix), "")
    words = shlex.split(command)
    if taken in words:
        place = words.index(taken)
        words[place : place + 2] = []
    return f"{shlex.join(words)} {found[0]}"


@pytest.mark.parametrize(("kind", "text"), refused_files())
def test_a_printed_fix_is_accepted(kind: str, text: str, cli: Callable[[str], Any], tmp_path: Path) -> None:
    file = tmp_path / "brought.txt"
    file.write_text(text, encoding="utf-8")
    command = COMMANDS[kind].format(file=file)
    seen: list[str] = []
    while (run := cli(command)).code:
        what = run.err.split("error: ")[1].splitlines()[0]
        assert "No such option" not in what, f"{command}: {what}"
        assert what not in seen, f"{command}: {what}"
        seen.append(what)
        fix = re.search(r"^  To fix: (.*)$", run.err, re.MULTILINE)
        assert fix is not None, run.err
        mended = with_fix(command, fix[1])
        if mended == command:
            break
        command = mended
