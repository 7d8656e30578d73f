"""README and docs are programs: console blocks are run and their output compared, python blocks are doctests.

A console block holds `$ advisor ...` lines, each followed by what the terminal shows (notes first, then the
answer). A line `...` stands for any lines. `pytest tests/docs --update-golden` writes the real output
where the documented one does not match, in blocks of both kinds.
"""

import doctest
import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.cli.errors import EXIT_CODES

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(?:\\?\.\d+)?")
"""A number as it stands in an output, or in an escaped one."""
GAP = r"(\\d[\\d,]*(?:\\.\\d+)?)"
RULE = re.compile(r"─+")
SAME = 0.03
"""Relative difference at which a number is still the one that the page claims. What a number must be exactly is held
by laws, counts and published figures in the tests of its room."""
ALIKE = 0.6
"""Least ratio of equal characters at which a line is taken as the renewed form of a documented one."""


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def document(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_documented_commands_print_what_the_page_shows(
    document: Path,
    cli: Callable[[str], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    page = document.read_text(encoding="utf-8")
    found = BLOCK.sub(lambda block: replay_block(block, cli), page)
    if request.config.getoption("--update-golden") and found != page:
        document.write_text(found, encoding="utf-8")
    assert found == document.read_text(encoding="utf-8")


def replay_block(block: re.Match[str], cli: Callable[[str], Any]) -> str:
    """A console block with the output that its commands really print."""
    if block.group(1) != "console":
        return block.group()
    text = ""
    for example in re.split(r"^(?=\$ advisor )", block.group(2), flags=re.MULTILINE):
        first, _, expected = example.partition("\n")
        if not first:
            continue
        command = first.removeprefix("$ ")
        assert command.startswith("advisor "), (
            f"only advisor commands are run, others belong in ```sh: {command}"
        )
        run = replay_command(command, cli)
        assert run.code != 1, f"{command}: {run.err}"  # no page is printed again with a defect on it
        printed = terminal_text(run)
        kept = expected.rstrip("\n") if matches(expected, printed) else refresh_block(expected, printed)
        text += f"$ {command}\n" + (f"{kept}\n" if kept else "")
    return f"```console\n{text}```"


REPLIES: Final[dict[str, Any]] = {}
"""Runs of commands by their words: pages show the same command, and it has the same answer in every empty folder."""


def replay_command(command: str, cli: Callable[[str], Any]) -> Any:
    """Run a command, or return what it said on another page where neither the folder nor its answer holds files."""
    was_empty = not any(Path.cwd().iterdir())
    if was_empty and command in REPLIES:
        return REPLIES[command]
    run = cli(command)
    if was_empty and not any(Path.cwd().iterdir()):
        REPLIES[command] = run
    return run


def terminal_text(run: Any) -> str:
    """Output of a run as a terminal shows it: stderr comes first, as it is written before the answer."""
    return "\n".join(line.rstrip() for line in (run.err + run.out).splitlines()).rstrip("\n")


def matches(expected: str, printed: str) -> bool:
    """Whether the output says what the page claims: the same words in the same order, `...` lines standing for any
    number of them, and numbers within a few percent. Widths of columns and where lines break are not claims."""
    claimed, said = (tuple(re.sub(RULE, "─", text).split()) for text in (expected, printed))
    pattern = "".join(
        "(?:\\S+ )*?" if word == "..." else NUMBER.sub(GAP, re.escape(word)) + " " for word in claimed
    )
    found = re.fullmatch(pattern, "".join(f"{word} " for word in said))
    if found is None:
        return False
    numbers = NUMBER.findall(re.escape(" ".join(claimed)))
    return all(close(a, b) for a, b in zip(numbers, found.groups(), strict=True))


def close(claimed: str, said: str) -> bool:
    """Whether two written numbers are the same within a few percent, or a unit of the last digit that is shown."""
    a, b = (float(text.replace("\\", "").replace(",", "").rstrip(".") or "nan") for text in (claimed, said))
    shown = claimed.replace("\\", "").rstrip(".").partition(".")[2]
    return a == b or abs(a - b) <= max(SAME * abs(a), 1.01 * 10.0 ** -len(shown) if shown else 0.0)


def _beginning(lines: Sequence[str], position: int, first: str) -> int | None:
    """Place from `position` on of the line that is the first of a part, or else of the one most like it."""
    alike = {i: SequenceMatcher(None, lines[i], first).ratio() for i in range(position, len(lines))}
    best = max(alike, key=alike.__getitem__, default=None)
    return best if best is not None and alike[best] >= ALIKE else None


def refresh_block(expected: str, printed: str) -> str:
    """The output, with `...` where the documented one has it: parts begin at lines like theirs and end at a blank
    one."""
    parts: list[list[str]] = [[]]
    for line in expected.rstrip("\n").split("\n"):
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    lines = printed.split("\n")
    position = 0
    shown_parts = []
    for number, part in enumerate(parts):
        if not part:
            shown_parts.append("")
            continue
        start = _beginning(lines, position, part[0]) if number else 0
        if start is None:
            return printed
        ends = [i for i in range(start + 1, len(lines)) if not lines[i]] + [len(lines)]
        position = len(lines) if len(parts) == 1 else min(ends, key=lambda end: abs(end - start - len(part)))
        shown_parts.append("\n".join(lines[start:position]))
    return "\n...\n".join(shown_parts).strip("\n")


def test_a_page_claims_words_and_numbers_not_widths() -> None:
    page = "USD per  million\n────\na 1.00  12 ms\n...\nend 2026-11-20"
    assert matches(page, "USD per million\n───────\na  1.02 12 ms\nb 3\nc\nend 2026-11-20")
    assert not matches(page, "USD per million\n──\na 1.10 12 ms\nend 2026-11-20")
    assert not matches(page, "USD per million\n──\nb 1.00 12 ms\nend 2026-11-20")
    assert not matches(page, "USD per million\n──\na 1.00 12 s\nend 2026-11-20")


def test_a_refreshed_output_keeps_what_was_left_out() -> None:
    printed = "new headline\n\na 1\nb 2\nb 3\n\nplot\n\nStart it with\nvllm 2\n\nlegend"
    expected = "old headline\n\na 0\nb 0\n...\nStart it with\nvllm 1\n...\n"
    assert (
        refresh_block(expected, printed) == "new headline\n\na 1\nb 2\nb 3\n...\nStart it with\nvllm 2\n..."
    )
    assert (
        refresh_block("old\n...\nStart each with\nvllm 1\n...\n", printed)
        == "new headline\n...\nStart it with\nvllm 2\n..."
    )
    assert refresh_block("old\n", printed) == printed
    assert refresh_block("old\n...\ngone\n", printed) == printed


def test_documented_python_runs(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    page = document.read_text(encoding="utf-8")
    blocks = [block for block in BLOCK.finditer(page) if block.group(1) == "python"]
    if not blocks:
        pytest.skip("no python block")
    test = doctest.DocTestParser().get_doctest(mask_page(page, blocks), {}, document.name, str(document), 0)
    assert test.examples, "a python block needs >>> lines: only those are run"
    runner = Runner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False)
    report = []
    failed = runner.run(test, out=report.append).failed
    if failed == len(runner.printed) and request.config.getoption("--update-golden"):
        document.write_text(with_outputs(page, runner.printed), encoding="utf-8")
        return
    assert failed == 0, "".join(report)


class Runner(doctest.DocTestRunner):
    """Remembers what the examples whose output differs have printed; an exception is nothing to write down."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.printed: list[tuple[doctest.Example, str]] = []

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        self.printed.append((example, got))
        super().report_failure(out, test, example, got)


def mask_page(page: str, blocks: list[re.Match[str]]) -> str:
    """The page with every line outside the blocks blank, so that line numbers stay those of the page."""
    lines = [""] * page.count("\n")
    for block in blocks:
        first = page.count("\n", 0, block.start(2))
        inside = block.group(2).splitlines()
        lines[first : first + len(inside)] = inside
    return "\n".join(lines) + "\n"


def with_outputs(page: str, printed: list[tuple[doctest.Example, str]]) -> str:
    """The page with the output of these examples replaced by what they print."""
    lines = page.splitlines(keepends=True)
    for example, output in reversed(printed):
        first = example.lineno + example.source.count("\n")
        shown_lines = [line.rstrip() or "<BLANKLINE>" for line in output.splitlines()]
        lines[first : first + example.want.count("\n")] = [f"{line}\n" for line in shown_lines]
    return "".join(lines)


def test_outputs_are_written_where_they_belong() -> None:
    page = "# A\n```python\n>>> 1 + 1\n3\n>>> print('a\\n\\nb')\nx\ny\n```\nend\n"
    parsed = doctest.DocTestParser().get_examples(mask_page(page, list(BLOCK.finditer(page))))
    assert [example.lineno for example in parsed] == [2, 4]
    fixed = with_outputs(page, list(zip(parsed, ("2\n", "a\n\nb\n"), strict=True)))
    assert fixed == "# A\n```python\n>>> 1 + 1\n2\n>>> print('a\\n\\nb')\na\n<BLANKLINE>\nb\n```\nend\n"


def test_links_between_pages_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    pages = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [page for page in pages if not (document.parent / page).exists()] == []


def test_readme_is_short_and_its_commands_set_everything_up() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 180
    commands = [line for line in lines if line.startswith("python3 -m venv .venv && .venv/bin/pip install ")]
    assert len(commands) == 2
    assert commands[0].endswith(".venv/bin/advisor recommend --model 70b --rate 10 --top 3")
    assert commands[1].endswith(".venv/bin/python -m pytest")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script
    assert "-m pytest" in script


def test_documented_exit_codes_are_those_of_the_program() -> None:
    rows = re.findall(
        r"^\| (\d+) \| (.+) \|$", (ROOT / "docs/cli.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert tuple((int(code), meaning) for code, meaning in rows) == EXIT_CODES


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb\n", "a\nb", True),
        ("a\n...\n", "a\nb\nc", True),
        ("a\n...\nc\n", "a\nc", True),
        ("a\n", "a\nb", False),
        ("...\nb\n", "a\nc", False),
        ("a.b\n", "axb", False),
    ],
)
def test_what_counts_as_the_same_output(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
