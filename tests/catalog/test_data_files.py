"""A data file that is absent is an error: no answer of an installed program silently lacks one of a checkout's."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import (
    DATA_DIR,
    data_files,
    read_csv,
    read_lines,
    read_text,
    read_toml,
    stated_aliases,
    toml_names,
)

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("advisor", "catalog", "simulator", "evidence", "probes")
READER = ROOT / "catalog" / "files.py"
"""The one module that looks for data files: it knows both a checkout and an installed package."""
LOOKS = {"exists", "is_file", "is_dir", "stat", "glob", "rglob", "iterdir", "open", "read_text", "read_bytes"}
LOOKS |= {"isfile", "isdir", "listdir", "scandir"}
ABSENT = {"FileNotFoundError", "OSError", "InputFileError", "AdvisorError", "Exception"}

Trees = dict[Path, ast.Module]


def rooms() -> Trees:
    """The syntax trees of the rooms' modules but the reader's."""
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py")) if file != READER]
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


def is_of(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is made of one of these names or of the catalog's folder as a resource."""
    return any(
        (isinstance(part, ast.Name) and part.id in names)
        or (isinstance(part, ast.Attribute) and part.attr in names)
        or (isinstance(part, ast.Constant) and part.value == "advisor.catalog")
        for part in ast.walk(node)
    )


def with_assigned(scope: ast.AST, names: set[str]) -> set[str]:
    """Return `names` with the variables of a scope that are assigned from them."""
    names = set(names)
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if is_of(node.value, names):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def data_paths(trees: Trees) -> set[str]:
    """Constants of modules that hold a path of the data, e.g. `DATA_DIR` and `EFFICIENCY_DIR`."""
    names = {"DATA_DIR"}
    while True:
        found = set(names)
        for tree in trees.values():
            constants = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
            found |= with_assigned(ast.Module(list(constants), []), names)
        if found == names:
            return names
        names = found


def looks(scope: ast.AST, constants: set[str]) -> Iterator[int]:
    """Yield the lines on which a scope looks for a data file, or goes on where one cannot be read."""
    names = with_assigned(scope, constants)
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS:
            if any(is_of(part, names) for part in (node.func.value, *node.args)):
                yield node.lineno
        elif isinstance(node, ast.Try) and any(is_of(each, constants) for each in node.body):
            for handler in node.handlers:
                caught = {part.id for part in ast.walk(handler.type or handler) if isinstance(part, ast.Name)}
                goes_on = not any(isinstance(part, ast.Raise) for part in ast.walk(handler))
                if goes_on and (handler.type is None or caught & ABSENT):
                    yield handler.lineno


def scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the functions of a module, and last its other statements."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    yield from (node for node in ast.walk(tree) if isinstance(node, kinds))
    yield ast.Module([node for node in tree.body if not isinstance(node, (*kinds, ast.ClassDef))], [])


def test_no_module_but_the_reader_looks_for_a_data_file() -> None:
    trees = rooms()
    constants = data_paths(trees)
    assert {"DATA_DIR", "EFFICIENCY_DIR", "SUPPORT_FOLDER"} <= constants
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for file, tree in trees.items()
        for scope in scopes(tree)
        for line in looks(scope, constants)
    }
    assert sorted(found) == []


@pytest.mark.parametrize(
    "guarded",
    [
        "def f():\n    return read_toml(FILE) if FILE.is_file() else {}",
        "def f(name):\n    path = FOLDER / name\n    return read_csv(path) if path.exists() else ()",
        "def f():\n    return [read_text(p) for p in (FOLDER / 'x').glob('*.json')]",
        "def f():\n    return os.path.exists(FILE)",
        "def f():\n    try:\n        return read_toml(FILE)\n    except InputFileError:\n        return {}",
        "def f():\n    return (files('advisor.catalog') / 'data' / 'a.toml').is_file()",
        "KNOWN = read_toml(FILE) if FILE.exists() else {}",
    ],
)
def test_every_form_of_such_a_guard_is_seen(guarded: str) -> None:
    tree = ast.parse(f"FOLDER = DATA_DIR / 'x'\nFILE = FOLDER / 'a.toml'\n{guarded}\n")
    constants = data_paths({READER: tree})
    assert [line for scope in scopes(tree) for line in looks(scope, constants)]


def test_a_missing_data_file_is_an_error() -> None:
    for read in (
        lambda: read_toml(DATA_DIR / "no_such.toml"),
        lambda: read_text(DATA_DIR / "no_such.txt"),
        lambda: list(read_csv(DATA_DIR / "no_such.csv", ("name",))),
        lambda: data_files("no_such/*.csv"),
        lambda: toml_names(DATA_DIR / "no_such"),
        lambda: stated_aliases(DATA_DIR / "no_such"),
    ):
        with pytest.raises(InputFileError, match="missing from the data of the catalog"):
            read()


SHEET = "Anbieter,Preis\r\nMüller & Söhne,2.10 €\r\nCafé – São Paulo,3\r\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("num_rows", [1, 5000])
def test_a_text_is_read_alike_in_every_encoding_that_a_spreadsheet_saves(
    tmp_path: Path, encoding: str, num_rows: int
) -> None:
    text = SHEET * num_rows
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    file = tmp_path / "sheet.csv"
    file.write_bytes((mark + text).encode(encoding))
    assert read_text(file) == text.replace("\r\n", "\n")
    assert list(read_lines(file)) == text.replace("\r\n", "\n").splitlines(keepends=True)


@pytest.mark.parametrize(
    "content", [bytes(range(256)), b"\x89PNG\r\n\x1a\n\x00\x00", b"\x80\x03}q\x00.", b"a\xff\x00b"]
)
def test_bytes_are_no_text(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file.bin"
    file.write_bytes(content)
    with pytest.raises(InputFileError, match="not a text file"):
        read_text(file)
    with pytest.raises(InputFileError, match="not a text file"):
        list(read_lines(file))


def texts_of(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings of a module that are no docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node


def test_no_message_names_what_an_installed_wheel_lacks() -> None:
    """Pages and notebooks are in a checkout alone, and so is the folder that `pip install '.[extra]'` takes."""
    lacking = re.compile(r"\bin a clone\b|pip install '?\.|(?<![\w/])docs/\w+\.md|notebooks/")
    found = [
        f"{file}:{text.lineno}: {text.value[:60]}"
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
        if "fit" not in file.parts
        for text in texts_of(ast.parse(file.read_text(encoding="utf-8")))
        if lacking.search(text.value)
    ]
    assert found == []
