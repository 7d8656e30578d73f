"""The house rules that a reader relies on, held by walking the tracked files."""

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

from advisor.ask.options import SharedOptions
from advisor.cli.command import FOLDERS, commands
from advisor.render.answer import Answer

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("advisor", "catalog", "simulator", "evidence", "probes", "kernels")
MAX_FUNCTION_STATEMENTS = 50
HOT_LOOPS = {"simulator/serving/lone_replica.py:_serve_usual_runs"}
"""Functions that may be longer. The event loop of one replica takes two thirds of its time with its state in local
variables, which no two functions share; each of its sections is a method of `Replica`, where it is explained."""
MOST_OVER_TYPER = 2.5
"""Time of `--help` over that of importing Typer with its formatting: 1.8 on a machine at rest."""
TEXT_SUFFIXES = {".py", ".md", ".toml", ".csv", ".txt", ".json", ".sh", ".yml", ""}
CONVERSION = re.compile(r"[*/] ?1e-?(?:3|6|9|12)\b|\b1e-?(?:3|6|9|12) ?[*/]|\b1024 ?\*\* ?\d")
HEAVY = ("torch", "triton", "rich", "typer", "pandas", "scipy")
HOMONYMS = {"Config": 4, "Operators": 7}
"""Public class names with several meanings, and how many: what is left to rename.

`Operators` of the mixers and `Config` of the kernels each mean one thing: those who find them expect the name."""


@functools.cache
def tracked_files() -> list[Path]:
    """Files under version control or, in a copy without it, all files of the rooms and tests."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = [Path(name) for name in listed.stdout.split("\0") if name]
    else:
        folders = (*ROOMS, "tests", "tools", "benchmarks", "docs")
        names = [
            p.relative_to(ROOT)
            for f in folders
            for p in (ROOT / f).rglob("*")
            if "__pycache__" not in p.parts
        ]
    return sorted(name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink())


def python_files() -> list[Path]:
    return [file for file in tracked_files() if file.suffix == ".py"]


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement below a node. Expressions, which are nine nodes of ten, hold none."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(node, part, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each)


@dataclass(frozen=True)
class Outline:
    """Names and sizes that the rules need of a file, without its tree: 1,300 trees take more than a gigabyte."""

    functions: tuple[tuple[str, int, int], ...]
    """Name of each function, how many statements it has, and its lines below the docstring."""
    classes: tuple[str, ...]
    imported: tuple[str, ...]
    """Modules of `import` statements."""
    imported_from: tuple[tuple[str, tuple[str, ...]], ...]
    """Module of each `from` statement, and its names."""


@functools.cache
def outline(file: Path) -> Outline:
    """Return the outline of a file, which is parsed once for all rules."""
    functions = []
    classes = []
    imported: list[str] = []
    imported_from = []
    for node in statements(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.body[0].lineno
            functions.append((node.name, 1 + sum(1 for _ in statements(node)), lines))
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
        elif isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported_from.append((node.module, tuple(alias.name for alias in node.names)))
    return Outline(tuple(functions), tuple(classes), tuple(imported), tuple(imported_from))


def module_of(file: Path) -> str:
    """The name by which a room's file is imported."""
    parts = file.with_suffix("").parts
    parts = parts if parts[0] == "advisor" else ("advisor", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(file: Path, modules: Collection[str]) -> set[str]:
    found = set(outline(file).imported)
    for module, names in outline(file).imported_from:
        whole = {f"{module}.{name}" for name in names}
        found |= {name if name in modules else module for name in whole}
    return found & set(modules)


def test_import_contracts_hold() -> None:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c()",
        "--no-cache",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


@pytest.mark.parametrize("room", ROOMS[1:])
def test_rooms_are_links_and_importable_through_advisor(room: str) -> None:
    link = ROOT / "advisor" / room
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == ROOT / room
    assert importlib.import_module(f"advisor.{room}").__name__ == f"advisor.{room}"


def test_kernels_stays_a_namespace() -> None:
    # With an __init__.py, a checkout as working directory would hide Hugging Face's package of the same name.
    assert not (ROOT / "kernels" / "__init__.py").exists()


def test_the_simulator_loads_nothing_heavy() -> None:
    code = (
        "import importlib, sys\n"
        f"for name in {modules_of('simulator')!r}: importlib.import_module(name)\n"
        f"print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_no_catch_all_module_names() -> None:
    bad = [
        f
        for f in python_files()
        if f.stem in {"utils", "util", "helpers", "misc"} or f.stem.startswith("base_")
    ]
    assert bad == []


def test_functions_are_short() -> None:
    """Statements count, not lines: a call with ten named arguments is one thought."""
    long = {
        f"{file}:{name}": count
        for file in python_files()
        for name, count, _ in outline(file).functions
        if count > MAX_FUNCTION_STATEMENTS
    }
    assert long.keys() == HOT_LOOPS


def test_no_place_within_a_room_is_called_like_another() -> None:
    """`folder/file.py` says which file is meant; commands alone repeat the names of their parts on purpose."""
    for room in ROOMS:
        files = [f for f in python_files() if f.parts[0] == room and f.name != "__init__.py"]
        tails = Counter("/".join(f.parts[-2:]) for f in files if f.parts[:2] != ("advisor", "commands"))
        assert [tail for tail, times in tails.items() if times > 1] == []


def test_nothing_imports_itself_by_a_detour() -> None:
    """No circle of imports, those inside of functions included."""
    modules = {module_of(file): file for file in python_files() if file.parts[0] in ROOMS}
    graph = {name: imports_of(file, modules) - {name} for name, file in modules.items()}
    assert set(TopologicalSorter(graph).static_order()) == graph.keys()


def test_help_is_quick(least_cpu_s: Callable[..., float]) -> None:
    """In processor time over that of Typer: machines differ, and a busy one is slower."""
    typer = least_cpu_s("-c", "import typer.rich_utils")
    assert least_cpu_s("-m", "advisor", "--help") <= MOST_OVER_TYPER * typer


_DECLARING = {("advisor", "commands"), ("advisor", "ask")}


def test_options_only_declare() -> None:
    """What a command takes is data: its options hold frozen records and builders of declarations, nothing that works.

    At most 8 lines between the docstring and the end, and nothing imported but the shell and other declarations.
    """
    wrong = []
    for file in python_files():
        if file.parts[:2] in _DECLARING and file.stem in {"options", "training_options", "work"}:
            wrong += [f"{file}:{name}" for name, _, lines in outline(file).functions if lines > 8]
            declared = ("advisor.ask.", "advisor.cli.")
            wrong += [
                f"{file}: {module}"
                for module, _ in outline(file).imported_from
                if module.startswith("advisor.") and not module.startswith(declared)
            ]
    assert wrong == []


def test_commands_answer_in_their_own_folder() -> None:
    """One folder per command: a frozen record of inputs, and beside it a function that turns it into an answer."""
    for found in commands().values():
        folder = found.inputs.__module__.rpartition(".")[0]
        function = getattr(importlib.import_module(f"{folder}.run"), found.word.replace("-", "_"))
        assert found.inputs.__dataclass_params__.frozen
        assert get_type_hints(function) == {
            "asked": found.inputs,
            "shared": SharedOptions,
            "return": Answer,
        }, found.name
    folders = {
        file.parts[2]
        for file in python_files()
        if file.parts[:2] == ("advisor", "commands")
        if len(file.parts) > 3
    }
    assert folders == set(FOLDERS)


def test_no_path_of_a_machine_is_written_down() -> None:
    machine_path = re.compile(r"(?<![\w.])/(?:work|root|home|farm|Users|tmp)/\w")
    found = []
    for file in tracked_files():
        if (
            file.suffix in TEXT_SUFFIXES
            and file.name != "LICENSE"
            and file != Path("tests/test_architecture.py")
        ):
            text = (ROOT / file).read_text(encoding="utf-8", errors="replace")
            found += [f"{file}: {match.group()}" for match in machine_path.finditer(text)]
    assert found == []


def test_the_architecture_page_names_what_exists() -> None:
    """Files and folders in backticks exist; `path.py:name` is a function or class of that file."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = [
        name for name in re.findall(r"`([^`\n]+)`", text) if re.fullmatch(r"[\w.]+(/[\w.]+)+(:\w+)?/?", name)
    ]
    assert len(named) > 50
    wrong = []
    for name in named:
        path, _, function = name.partition(":")
        if not (ROOT / path).exists():
            wrong.append(name)
        elif function:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            if function not in {getattr(node, "name", "") for node in tree.body}:
                wrong.append(name)
    assert wrong == []


def test_powers_of_ten_come_from_units() -> None:
    """Multiplying or dividing by 1e9 or 1024**3 in a room is a unit conversion in the wrong place.

    Kernels know no other room, so they cannot take units from the catalog.
    """
    found = []
    for file in python_files():
        if (
            file.parts[0] in ROOMS[:-1]
            and file != Path("catalog/units.py")
            and file.parts[:2] != ("catalog", "schema")
        ):
            text = (ROOT / file).read_text(encoding="utf-8")
            found += [f"{file}: {match.group()}" for match in CONVERSION.finditer(text)]
    assert found == []


def modules_of(room: str) -> list[str]:
    """Names of a room's tracked modules."""
    files = [file for file in python_files() if file.parts[0] == room and file.stem != "__init__"]
    return [".".join(("advisor", *file.with_suffix("").parts)) for file in files]


def public_functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """Public functions and, as `Class.method`, public methods that a module defines."""
    for name, member in vars(module).items():
        if name.startswith("_") or getattr(member, "__module__", "") != module.__name__:
            continue
        if inspect.isfunction(member):
            yield name, member
        elif inspect.isclass(member):
            methods = vars(member).items()
            yield from (
                (f"{name}.{m}", f) for m, f in methods if inspect.isfunction(f) and not m.startswith("_")
            )


def test_a_class_name_has_one_meaning() -> None:
    """No two classes share a public name, but for those of `HOMONYMS`. The table may only shrink: remove an entry when
    its classes are renamed, and never add one."""
    names = Counter(
        name
        for file in python_files()
        if file.parts[0] in ROOMS
        for name in outline(file).classes
        if not name.startswith("_")
    )
    assert {name: times for name, times in names.items() if times > 1} == HOMONYMS


def test_public_simulator_functions_say_answer_and_source() -> None:
    """The first line is a sentence (its unit in brackets); `Source:` says where a function's formula is from.

    Methods need no source of their own; what takes up to four lines with its signature explains itself.
    """
    for module in modules_of("simulator"):
        wrong = []
        for name, function in public_functions(importlib.import_module(module)):
            if len(inspect.getsource(function).splitlines()) <= 4:
                continue
            text = inspect.getdoc(function) or ""
            if not text.split("\n\n")[0].strip().endswith("."):
                wrong.append(f"{name}: no docstring, or its first paragraph is no sentence")
            elif "." not in name and "Source:" not in text:
                wrong.append(f"{name}: no Source")
        assert wrong == []
