"""Reasons are types: no decision reads a sentence of the program, and documents carry codes of a closed list."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import ask, leaves, timeless
from questions import DAYS, Question, Row

import advisor
from advisor.decide import reason as reasons

PACKAGE = Path(advisor.__file__).resolve().parent
PROGRAM = (
    sorted(
        path
        for folder in ("decide", "economics", "commands", "emit", "workstation", "sweep", "render", "cli")
        for path in (PACKAGE / folder).rglob("*.py")
    )
    + sorted((PACKAGE / "simulator").resolve().rglob("*.py"))
    + sorted((PACKAGE / "catalog").resolve().glob("*.py"))
)
SENTENCES = {
    "text",
    "reason",
    "why",
    "what",
    "note",
    "notes",
    "words",
    "sentence",
    "quality_note",
    "headline",
}
"""Names of fields and variables that hold sentences which the program made."""
READS = {
    "startswith",
    "endswith",
    "find",
    "index",
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "count",
    "isdigit",
    "splitlines",
}
ALLOWED = {
    # The title of a page without a headline is its first sentence: nothing is decided by it.
    "block.text.split('. ')",
}
CODES = {
    each.code: each
    for _, each in inspect.getmembers(reasons, inspect.isclass)
    if issubclass(each, reasons.Reason) and each is not reasons.Reason
}


def _is_sentence(node: ast.expr) -> bool:
    """Whether an expression is the text of a reason or of an error."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        return _is_sentence(node.args[0])
    if isinstance(node, ast.Attribute):
        return node.attr in SENTENCES
    return isinstance(node, ast.Name) and node.id in ("reason", "why", "sentence", "note")


def readings(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions that look into a sentence: `in`, `==` with a literal, methods of text, regular expressions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in READS and _is_sentence(node.func.value):
                yield node
            of_module = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
            if of_module and any(_is_sentence(argument) for argument in node.args):
                yield node
        elif isinstance(node, ast.Compare):
            for operator, right in zip(node.ops, node.comparators, strict=True):
                if isinstance(operator, ast.In | ast.NotIn) and _is_sentence(right) and _is_text(node.left):
                    yield node
                if isinstance(operator, ast.Eq | ast.NotEq) and _is_sentence(node.left) and _is_text(right):
                    yield node


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is surely a text of more than one word."""
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip()


def test_no_branch_reads_a_sentence() -> None:
    found = [
        f"{path.parent.name}/{path.name}, line {node.lineno}: {ast.unparse(node)}"
        for path in PROGRAM
        for node in readings(ast.parse(path.read_text(encoding="utf-8")))
        if ast.unparse(node) not in ALLOWED
    ]
    assert not found, "\n".join(found)


def test_every_reason_has_a_code_of_its_own() -> None:
    classes = [
        each
        for _, each in inspect.getmembers(reasons, inspect.isclass)
        if issubclass(each, reasons.Reason) and not each.__subclasses__()
    ]
    assert len({each.code for each in classes}) == len(classes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", each.code) for each in classes)


def test_the_closed_list_of_codes_is_documented() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "cli.md"
    documented = page.read_text(encoding="utf-8")
    missing = [code for code in CODES if f"`{code}`" not in documented]
    assert not missing, missing


MARKET = (
    Row("acme", "l40s", 1, 0.95),
    Row("bolt", "h100-sxm", 1, 2.6, DAYS[2]),
    Row("acme", "b200-sxm", 8, 38.0),
)
FP8 = "--engine vllm --precision fp8"
QUESTIONS = [
    Question(MARKET, "8b", 4.0, ("l40s", "h100-sxm", "b200-sxm", "l4", "rtx-4090"), FP8).words(),
    Question(MARKET, "70b", 1.0, ("l40s", "h100-sxm", "b200-sxm", "l4"), f"{FP8} --max-gpus 2").words(),
    "recommend --model 8b --own 2xl40s,2xl4 --rate 40 --engine vllm --levers none --precision fp8",
    "recommend --model 8b --own 4xl40s,2xl4 --rate 4 --engine vllm --levers none --precision fp8 --power-budget 1kW",
    "recommend --workload embed --model bge-m3 --rate 50 --gpu h100,l40s,l4 --top 1",
    "recommend --workload train --model 1b --tokens 1B --gpu h100,l40s --gpus 8 --top 1",
    "cost --model 8b --rate 2 --gpu l40s,l4 --engine vllm --precision fp8 --levers none --api none",
]


def _codes(document: Any) -> Iterator[str]:
    for path, value in leaves(document):
        if re.search(r"(^|\.)(rejected|reasons|unknown)\[\d+\]\.code$", path):
            yield value


@pytest.mark.parametrize("words", QUESTIONS)
def test_documents_carry_codes_of_the_list(words: str) -> None:
    answer = ask(words)
    if answer.code == 3:
        return
    assert set(_codes(answer.document)) <= set(CODES)
    assert all(
        each["text"] and set(each) == {"accelerator", "code", "text"} for each in answer.document["rejected"]
    )


@pytest.mark.parametrize("words", [QUESTIONS[0], QUESTIONS[3], QUESTIONS[4]])
def test_other_sentences_change_no_decision(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever every reason says, options, codes and exit code stay as they are."""
    before = ask(words)
    for each in CODES.values():
        monkeypatch.setattr(each, "text", property(lambda _: "reworded"))
    after = ask(f"{words} --seed 0")
    assert after.code == before.code
    if before.code == 0:
        assert _untold(timeless(before.document)) == _untold(timeless(after.document))


def _untold(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _untold(each)
            for name, each in value.items()
            if name not in ("text", "words", "note", "notes", "warnings", "what_would_change", "inputs")
        }
    return [_untold(each) for each in value] if isinstance(value, list) else value
