"""Count what breaks the wording rules of CONTRIBUTING.md in this checkout, and hold each count below its limit.

Usage: python tools/check_words.py [PATH ...] [--kind KIND]

Without a path, all Python files of the project are read, and the exit status is 1 if a kind exceeds its limit. With
paths (files or folders), the findings in them are listed and no limit applies.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("advisor", "catalog", "simulator", "probes", "kernels", "evidence", "tools", "benchmarks", "tests")
LIMITS = {
    "fragment": 21,
    "vague": 46,
    "participle": 0,
    "format-skip": 10,
    "parallel": 11,
}
"""Highest number of findings by kind. A number may only fall: lower it in the commit that mends findings."""


def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`."""
    return frozenset(text.split())


BACKWARD_WORDS = word_set(
    """
    The-same The-like The-other The-others The-one It Its That This Those These They Their Such So As Likewise
    Both Again Also There Else Then And But Only Because What Which Whose Who Where When
    """
)
"""Openings that refer to a name or text above. `-` stands for a space."""

PREPOSITIONS = word_set(
    """
    After At Before Beside Besides Between By For From In Inside Of On Over Per Than To Until Up-to With Within
    Without
    """
)
"""Openings of a phrase whose noun is missing. Tests state facts in sentences ("On one node ..."), so may open with
all but `Of`."""

SUBJECT_IS_THE_FIELD = frozenset({"Where", "When", "Which", "Who", "Only", "Both"})
"""Openings that are plain in the description of a field: "When the price was read"."""

VAGUE = re.compile(
    r"""\b(so\ (many|much|long) | nobody | somebody | thereof | hereof | anew | likewise | dearer | the\ like
    | as\ it\ were | what\ (is|was)\ (owed|there|of\ use) | in\ one\ of\ them | beside(?!\ the))\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words that leave open how many, who or which."""

IRREGULAR = word_set(
    """
    built bought chosen drawn driven found given grown held hidden kept known laid led lost made met paid said
    seen sent shown sold spent spoken started stood taken thought told torn understood won written begun broken
    done fed felt forgotten gone got meant overlaid rebuilt reread rewritten sought struck sunk swept thrown
    undone wound
    """
)
"""Participles that do not end in -ed, as far as they are met in names."""

NOUNS_AND_VERBS_IN_ED = word_set(
    "bed bleed breed deed embed exceed feed hundred need proceed seed shed speed"
)
LEADING_VERBS = word_set("are can does has is may must needs test visit was")
LINKS = word_set("as at by for from in into like of on out over per to under with within without")
"""Words after a participle which show that it is the name's verb: `sold_by`, and not `exposed_time`."""

DATA_DECORATORS = re.compile(
    r"property|validator|classmethod|fixture|overload|override|setter|computed_field"
)
FORMAT_SKIP = re.compile(r"#\s*fmt:\s*skip\b")


class WordFinding(NamedTuple):
    """One place that breaks a rule."""

    kind: str
    place: str
    text: str


def python_files(paths: Sequence[Path]) -> list[Path]:
    """Return the Python files under `paths` without following symbolic links."""
    found: list[Path] = []
    for path in paths:
        if path.is_file():
            found.append(path)
        elif path.is_dir() and not path.is_symlink():
            found += python_files(sorted(path.iterdir())) if path.name != "__pycache__" else []
    return [file for file in found if file.suffix == ".py"]


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement below a node. Expressions, which are nine nodes of ten, hold none."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(node, part, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each)


def texts(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind of owner (module, class, function, field, constant) and text of each docstring.

    A string below an assignment counts as the docstring of the assigned name.
    """
    for owner in (tree, *statements(tree)):
        if not isinstance(owner, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        kinds = {ast.Module: "module", ast.ClassDef: "class"}
        assigned = "field" if isinstance(owner, ast.ClassDef) else "constant"
        before: ast.stmt | None = None
        for statement in owner.body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    if before is None:
                        yield statement.lineno, kinds.get(type(owner), "function"), text
                    elif isinstance(before, ast.Assign | ast.AnnAssign):
                        yield statement.lineno, assigned, text
            before = statement


def opening_fragment(text: str, kind: str, *, is_test: bool) -> str | None:
    """Return the words that make `text` unreadable without the name above it, or None if it stands alone."""
    if text.lstrip().startswith("..."):
        return "..."
    words = re.findall(r"[\w'-]+(?![-_(=\w])", text[:60])
    if not words or not text.lstrip().startswith(words[0]):
        return None
    for opening in ("-".join(words[:2]), words[0]):
        is_plain = (kind == "field" and opening in SUBJECT_IS_THE_FIELD) or (
            is_test and opening in PREPOSITIONS - {"Of"}
        )
        if opening in BACKWARD_WORDS | PREPOSITIONS and not is_plain:
            return opening.replace("-", " ")
    return None


def is_participle(name: str) -> bool:
    """Whether a function has a participle where its verb belongs: `planned`, `sold_by`."""
    first, *rest = [word for word in name.split("_") if word] or [""]
    if first in LEADING_VERBS or first in NOUNS_AND_VERBS_IN_ED or (rest and rest[0] not in LINKS):
        return False
    return first in IRREGULAR or (first.endswith("ed") and len(first) > 3)


def is_parallel(node: ast.Assign) -> bool:
    """Whether the assignment puts unrelated values side by side; a swap, a rotation or a starred part is related."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets), *_], value=ast.Tuple(elts=values)):
            if any(isinstance(part, ast.Starred) for part in (*targets, *values)):
                return False
            return not {ast.unparse(part) for part in targets} & {ast.unparse(part) for part in values}
    return False


def findings(file: Path) -> Iterator[WordFinding]:
    """Yield what breaks a rule in one file."""
    source = file.read_text(encoding="utf-8")
    name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)
    tree = ast.parse(source, name)
    for line, kind, text in texts(tree):
        start = " ".join(text.split())[:100]
        if opening_fragment(text, kind, is_test=name.startswith("tests/")):
            yield WordFinding("fragment", f"{name}:{line}", start)
        if word := VAGUE.search(text):
            yield WordFinding("vague", f"{name}:{line}", f"({word.group()}) {start}")
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_data = any(DATA_DECORATORS.search(ast.unparse(mark)) for mark in node.decorator_list)
            if not is_data and is_participle(node.name):
                yield WordFinding("participle", f"{name}:{node.lineno}", node.name)
        elif isinstance(node, ast.Assign) and is_parallel(node):
            yield WordFinding("parallel", f"{name}:{node.lineno}", ast.unparse(node)[:100])
    for number, code in enumerate(source.splitlines(), 1):
        if FORMAT_SKIP.search(code):
            yield WordFinding("format-skip", f"{name}:{number}", code.strip()[:100])


def count(paths: Sequence[Path] = ()) -> tuple[Counter[str], list[WordFinding]]:
    """Return the number of findings by kind, and the findings, in `paths` or in the whole project."""
    files = python_files(paths or [ROOT / folder for folder in FOLDERS])
    found = [finding for file in files for finding in findings(file)]
    return Counter(finding.kind for finding in found), found


def main(arguments: Sequence[str] | None = None) -> int:
    """List or count findings and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders whose findings are listed")
    parser.add_argument("--kind", choices=sorted(LIMITS), help="list findings of one kind only")
    options = parser.parse_args(arguments)
    counts, found = count([path.resolve() for path in options.paths])
    if options.paths or options.kind:
        for finding in found:
            if options.kind in (None, finding.kind):
                print(f"{finding.place}: {finding.kind}: {finding.text}")
    for kind, limit in LIMITS.items():
        print(f"{kind}: {counts[kind]}" + ("" if options.paths else f" (limit {limit})"))
    return int(not options.paths and any(counts[kind] > limit for kind, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
