"""The wording rules of CONTRIBUTING.md that a program can count, and the limits that hold the counts."""

import ast
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("check_words", ROOT / "tools" / "check_words.py")
assert SPEC is not None
assert SPEC.loader is not None
check_words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_words)


@pytest.fixture(scope="module")
def counts() -> Counter[str]:
    found: Counter[str] = check_words.count()[0]
    return found


@pytest.mark.parametrize("kind", check_words.LIMITS)
def test_no_kind_of_wording_fault_exceeds_its_limit(kind: str, counts: Counter[str]) -> None:
    limit = check_words.LIMITS[kind]
    assert counts[kind] <= limit, f"list them with: python tools/check_words.py --kind {kind}"


@pytest.mark.parametrize(
    ("text", "kind", "fragment"),
    [
        ("Return the engines that the scenario allows.", "function", None),
        ("Whether the board throttled.", "function", None),
        ("The same for a pool.", "function", "The same"),
        ("What is bought.", "class", "What"),
        ("Of one replica.", "field", "Of"),
        ("... and their number.", "field", "..."),
        ("When the price was read.", "field", None),
        ("When the price was read.", "class", "When"),
        ("Per-token cost [USD].", "field", None),
        ("Items by name.", "constant", None),
    ],
)
def test_a_text_that_needs_the_name_above_it_is_a_fragment(
    text: str, kind: str, fragment: str | None
) -> None:
    assert check_words.opening_fragment(text, kind, is_test=False) == fragment


@pytest.mark.parametrize("name", ["planned", "sold_by", "_found", "bought_in"])
def test_a_participle_in_place_of_a_verb_is_found(name: str) -> None:
    assert check_words.is_participle(name)


@pytest.mark.parametrize("name", ["plan", "is_planned", "needed_model", "exposed_stream_s", "feed", "exceed"])
def test_verbs_predicates_and_adjectives_are_no_participles(name: str) -> None:
    assert not check_words.is_participle(name)


@pytest.mark.parametrize(
    ("code", "is_fault"),
    [("a, b = 1, 2", True), ("a, b = b, a", False), ("a, b = pair", False), ("a, *b = x, *y", False)],
)
def test_only_unrelated_values_side_by_side_are_parallel(code: str, is_fault: bool) -> None:
    assert check_words.is_parallel(ast.parse(code).body[0]) is is_fault


def test_strings_below_names_are_docstrings_and_other_strings_are_not() -> None:
    source = (
        '"""Module."""\nA = 1\n"""Constant."""\nclass C:\n    """Class."""\n    x: int\n    """Field."""\n'
        'def f():\n    """Function."""\n    g()\n    "neither"\n'
    )
    found = {(kind, text) for _, kind, text in check_words.texts(ast.parse(source))}
    assert found == {
        (kind, f"{kind.title()}.") for kind in ("module", "constant", "class", "field", "function")
    }
