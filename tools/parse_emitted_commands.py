"""Parse printed start commands with the options that engine releases declare in their own source.

    python tools/parse_emitted_commands.py FOLDER [--write]

FOLDER holds wheels of PyPI as `pip download --no-deps` leaves them, or folders NAME-RELEASE with their files: vllm,
sglang, lmdeploy, mlx_lm, vllm_router, sglang_router and ai_dynamo, also in earlier releases. Nothing of them is
imported or run: the declarations of their argument parsers are read as syntax trees, with the values that they allow,
an `argparse` parser is made of them, and it parses generated commands with every option that this program prints, and
the commands inside the files that `--emit` writes for the questions of `emitted_commands.py`, in every form. Engines
without such a wheel are checked against catalog/data/support/flags.csv. `--write` records releases, forms, days and
counts in parsed_releases.csv and parsed_forms.csv of that folder.
"""

import argparse
import ast
import csv
import datetime
import itertools
import random
import re
import shlex
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from advisor.catalog import engines
from advisor.catalog.context_scaling import scaling_words
from advisor.catalog.engines import SUPPORT_FOLDER
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch import Guess, LaunchSettings, launch, node_words
from advisor.catalog.launch_options import (
    DYNAMO_TRTLLM,
    ROUTERS,
    check_command,
    launch_options,
    words_in_release,
)
from advisor.catalog.models import by_id
from advisor.catalog.releases import version_key
from advisor.emit.formats import emit_files

sys.path.insert(0, str(Path(__file__).parent))
from declared_values import ANY, Declarations, Values
from emitted_commands import FORMS, Command, commands_in, option_of, questions

FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": (
        r"vllm/engine/arg_utils\.py",
        r"vllm/entrypoints/(common|openai|launchers)/cli_args\.py",
        r"vllm/utils/argparse_utils\.py",
    ),
    "sglang": (r"sglang/srt/server_args\.py", r"sglang/srt/arg_groups/fields/\w+\.py"),
    "lmdeploy": (r"lmdeploy/cli/(serve|utils)\.py",),
    "mlx": (r"mlx_lm/server\.py",),
    "vllm-router": (r"vllm_router/\w+\.py",),
    "sglang-router": (r"sglang_router/\w+\.py",),
    DYNAMO_TRTLLM: (r"dynamo/trtllm/backend_args\.py",),
}
"""Files of each wheel that declare options, as patterns of their paths."""
TYPE_FILES: Final = {"vllm": (r"vllm/config/\w+\.py",), "sglang": (r"sglang/srt/arg_groups/choices\.py",)}
"""Further files that name the values of options."""
WHEELS: Final = {
    "mlx": "mlx_lm",
    "vllm-router": "vllm_router",
    "sglang-router": "sglang_router",
    DYNAMO_TRTLLM: "ai_dynamo",
}
RECORD: Final = SUPPORT_FOLDER / "parsed_releases.csv"
FORMS_RECORD: Final = SUPPORT_FOLDER / "parsed_forms.csv"
_FLAG_ACTIONS: Final = ("store_true", "store_false", "store_const", "count", "help", "version")
OPTION_CLASSES: Final = {"vllm": re.compile(r"\w*FrontendArgs"), "sglang": re.compile(r"[A-Z]\w*")}
"""Classes whose fields are options, by program; the others declare each option by a call."""
_NO_CLASS: Final = re.compile("-")
_NUM_COMMANDS: Final = 200
_MANY: Final = "--served-model-name"
"""Option of vLLM that takes several values, as the type of a field says (vllm/config/model.py), which is not read."""
_DECLARE: Final = ("add_argument", "add_negatable_bool_argument")
"""Functions that declare an option; the second is Dynamo's, for a flag."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One option as a release declares it."""

    names: tuple[str, ...]
    takes_value: bool | None
    """Whether it takes a value; None if the declaration leaves that to a type elsewhere."""
    takes_many: bool = False
    values: Values = ANY


def read_options(
    source: str, classes: re.Pattern[str] = _NO_CLASS, known: Declarations | None = None
) -> Iterator[Declared]:
    """Yield the options that a Python source declares: calls of `add_argument`, and fields of the classes named.

    `known` are the declarations of all files of the release, by which values are understood.
    """
    if known is None:
        known = Declarations()
        known.add(source)
    tree = ast.parse(source.lstrip("\ufeff"))
    for node in ast.walk(tree):
        called = getattr(node, "func", None)
        if isinstance(node, ast.Call) and getattr(called, "attr", getattr(called, "id", "")) in _DECLARE:
            yield from _of_call(node, known)
        elif isinstance(node, ast.ClassDef) and classes.fullmatch(node.name):
            yield from _of_fields(node, known)


def _of_call(node: ast.Call, known: Declarations) -> Iterator[Declared]:
    named = [each.value for each in node.keywords if each.arg == "flag_name"]
    names = tuple(filter(None, map(_name, [*node.args, *named])))
    if not names:
        return
    given = {each.arg: each.value for each in node.keywords if each.arg}
    action = given.get("action")
    words = "" if action is None else ast.unparse(action)
    takes: bool | None = True
    if words.strip("'") in _FLAG_ACTIONS or "StoreTrue" in words:
        takes = False
    elif (
        "BooleanOptional" in words
        or ast.unparse(node.func) == _DECLARE[1]
        or any(each.arg is None for each in node.keywords)
    ):
        takes = None  # the second kind: keywords from a field's type
    nargs = given.get("nargs")
    values = known.of_keywords(given, [each.value for each in node.keywords if each.arg is None])
    many = nargs is not None and ast.unparse(nargs) not in ("'?'", "None")
    yield Declared(names, takes, many or _MANY in names, values)


def _name(node: ast.expr) -> str:
    """Return the option that an argument spells; an f-string's variable parts are prefixes, which are empty here."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    else:
        return ""
    return text if re.fullmatch(r"--?[A-Za-z][\w-]*", text) else ""


def _of_fields(node: ast.ClassDef, known: Declarations) -> Iterator[Declared]:
    for each in node.body:
        if (
            isinstance(each, ast.AnnAssign)
            and isinstance(each.target, ast.Name)
            and not each.target.id.startswith("_")
        ):
            kind = ast.unparse(each.annotation)
            first = re.sub(r"^A\[", "", kind)
            is_flag = first.startswith(("bool", "Optional[bool]"))
            name = "--" + each.target.id.replace("_", "-")
            more = re.findall(r"'(--?[\w-]+)'", kind)
            values = known.values_of(each.annotation)
            yield Declared((name, *more), None if is_flag else True, "list" in first.lower(), values)


class RefusedCommandError(Exception):
    """A command that the release's parser would refuse."""


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        raise RefusedCommandError(message)


def parser_of(options: Iterable[Declared], known: Declarations | None = None) -> Parser:
    """Return a parser of the options and their values; one that may be a flag or take a value is a flag with its
    negation."""
    known = known or Declarations()
    options = list(options)
    # A field and a call may declare the same option, of which one says the values.
    limits = {name: option.values for option in options if option.values != ANY for name in option.names}
    parser = Parser(add_help=False, allow_abbrev=False)
    seen: set[str] = set()
    for option in options:
        names = tuple(name for name in dict.fromkeys(option.names) if name not in seen)
        if not names or not any(name.startswith("--") for name in names):
            continue
        read = known.reader_of(next((limits[name] for name in names if name in limits), ANY))
        seen |= set(names)
        if option.takes_value is False:
            parser.add_argument(*names, action="store_true")
        elif option.takes_value is None:
            nargs = "*" if option.takes_many else "?"
            parser.add_argument(*names, nargs=nargs, type=read)
            negated = tuple(f"--no-{name[2:]}" for name in names if name.startswith("--"))
            fresh = tuple(name for name in negated if name not in seen)
            seen |= set(fresh)
            if fresh:
                parser.add_argument(*fresh, action="store_true", dest=fresh[0].strip("-"))
        else:
            parser.add_argument(*names, nargs="+" if option.takes_many else None, type=read)
    return parser


def read_release(place: Path, name: str) -> tuple[list[Declared], Declarations]:
    """Return the options that a wheel, or a folder with its files, declares, and what its files declare otherwise."""
    options = re.compile("|".join(FILES[name]))
    types = re.compile("|".join((*FILES[name], *TYPE_FILES.get(name, ()))))
    sources = {path: source() for path, source in _sources(place) if types.fullmatch(path)}
    known = Declarations()
    for source in sources.values():
        known.add(source)
    found: list[Declared] = []
    for path, source in sources.items():
        if options.fullmatch(path):
            found += read_options(source, OPTION_CLASSES.get(name, _NO_CLASS), known)
    return found, known


def _sources(place: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the paths in a release, each with a function that reads it."""
    if place.is_dir():
        for path in sorted(place.rglob("*.py")):
            yield path.relative_to(place).as_posix(), path.read_text
        return
    with zipfile.ZipFile(place) as archive:
        for name in sorted(archive.namelist()):
            yield name, lambda name=name: archive.read(name).decode()  # type: ignore[misc]


def releases_in(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """Yield the releases of a program in a folder, oldest first, each with its wheel or folder."""
    pattern = re.compile(rf"{WHEELS.get(name, name)}-(\d[\d.]*\d)(-.*\.whl)?")
    found = {}
    for path in folder.iterdir():
        if match := pattern.fullmatch(path.name):
            found[match[1]] = path
    yield from sorted(found.items(), key=lambda item: version_key(item[0]))


def commands_of(name: str) -> Iterator[list[str]]:
    """Yield generated commands of an engine with every option that this program prints, without their program."""
    if name not in engines.all_ids():
        return  # Its commands are those of a form alone.
    engine = engines.by_id(name)
    flags = engine.flags
    model = by_id("qwen3-32b")
    draw = random.Random(name)
    guesses = [None, *(Guess(kind, 3, "org/head") for kind in (*flags.speculation, *flags.yaml_speculation))]
    for number in range(_NUM_COMMANDS):
        dp = draw.choice((1, 1, 8))
        count = draw.choice((1, 1, 2, 4))
        length = draw.choice((8192, 40960, 65536, 131072))
        paths = (("sql adapter", "/data/my adapters/sql"), ("de", "/data/de")) if draw.random() < 0.3 else ()
        settings = LaunchSettings(
            tp=1 if dp > 1 else draw.choice((1, 8)),
            pp=1 if dp > 1 else count,
            dp=dp,
            ep=dp,
            weight_dtype=draw.choice(["bf16", *flags.weights]),
            kv_dtype=draw.choice(
                ["bf16", *flags.kv, *flags.yaml_kv, *(["q8_0", "q8_0/q4_0"] if flags.kv_halves else [])]
            ),
            max_num_seqs=draw.choice((None, 16, 256)),
            max_model_len=length,
            prefix_caching=draw.choice((None, True, False)),
            guess=draw.choice(guesses),
            adapters=(max(1, len(paths)), 16, 2) if paths or draw.random() < 0.2 else None,
            adapter_paths=paths,
            scaling_words=scaling_words(engine, model, length),
            runs_repository_code=draw.random() < 0.3,
            role=draw.choice(["", *flags.pools, *flags.yaml_pools]),
        )
        repository = draw.choice(("Qwen/Qwen3-32B", "/models/it's a model", "./quantised"))
        words: list[str] = [*launch(engine, repository, settings).words("engine.yaml")]
        if flags.nodes and not flags.nodes.launcher and count > 1:
            every, workers = node_words(engine, count, 8, rank=str(number % count), head="10.0.0.1")
            words += [*shlex.split(every), *(shlex.split(workers) if number % count else [])]
        words += shlex.split(flags.address.format(port=8000))
        yield _without_program(words)


def _without_program(words: list[str]) -> list[str]:
    """Return the options of a command, without program, subcommand and model."""
    first = next(place for place, word in enumerate(words) if word.startswith("--"))
    return words[first:]


def routers_of(name: str) -> Iterator[list[str]]:
    """Yield the router commands of an engine."""
    flags = engines.by_id(name).flags
    for template, roles in ((flags.pool_router, ("prefill", "decode")), (flags.sticky_router, ("replica",))):
        workers = " ".join(
            flags.pool_router_worker[role].format(url=f"http://host-{place}:8001", port=5600 + place)
            for role, place in itertools.product(roles, (1, 2))
        )
        if template:
            yield _without_program(shlex.split(template.replace("$workers", workers).format(port=8000)))


def parse_generated(name: str, release: str, parser: Parser) -> tuple[int, int]:
    """Return the number of generated commands of a program, in the words of a release, and of those refused."""
    by_router = {router: engine for engine, router in ROUTERS.items()}
    commands = routers_of(by_router[name]) if name in by_router else commands_of(name)
    count = 0
    wrong = 0
    for command in commands:
        try:
            words = command if name in by_router else words_in_release(name, command, release)
        except AdvisorError:
            continue  # The release cannot do what the command asks, and the program says so.
        count += 1
        wrong += _is_refused(parser, words, f"{name} {release}")
    return count, wrong


def _is_refused(parser: Parser, words: Sequence[str], what: str) -> bool:
    try:
        parser.parse_args(list(words))
    except RefusedCommandError as error:
        print(f"{what}: {error}: {shlex.join(words)}", file=sys.stderr)
        return True
    return False


def parse_forms(parsers: Mapping[tuple[str, str], Parser]) -> list[tuple[object, ...]]:
    """Return, for each form of emitted files, the questions, the commands in their files, and those refused."""
    counts = dict.fromkeys(FORMS, (0, 0, 0))
    for question in questions():
        found = option_of(question)
        if found is None:
            continue
        for form in FORMS:
            try:
                files = emit_files(*found, form)
            except AdvisorError:
                continue  # The form has no way to start the plan, and the program says so.
            asked, commands, wrong = counts[form]
            for one in commands_in(files):
                commands += 1
                wrong += _refuses(one, parsers, f"{form} of {question}")
            counts[form] = (asked + 1, commands, wrong)
    day = datetime.date.today().isoformat()
    return [(form, *numbers, day) for form, numbers in counts.items()]


def _refuses(one: Command, parsers: Mapping[tuple[str, str], Parser], what: str) -> bool:
    """Whether a release refuses a command: by its own declarations, or by the list that is kept of it."""
    release = one.release or launch_options()[one.program].release
    parser = parsers.get((one.program, release))
    if parser is not None:
        return _is_refused(parser, one.words, what)
    try:
        check_command(one.program, (one.program, *one.words), one.release)
    except AdvisorError as error:
        print(f"{what}: {error}: {shlex.join(one.words)}", file=sys.stderr)
        return True
    return False


def main() -> int:
    """Parse the commands of every release in the folder, and return 1 if one would be refused."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument(
        "--write", action="store_true", help="record the counts in the folder of support tables"
    )
    typed = asked.parse_args()
    rows: list[tuple[object, ...]] = []
    parsers: dict[tuple[str, str], Parser] = {}
    for name in FILES:
        newest = launch_options()[name].release
        for release, place in releases_in(typed.folder, name):
            options, known_types = read_release(place, name)
            parser = parsers[name, release] = parser_of(options, known_types)
            count, wrong = parse_generated(name, release, parser)
            declared = {option for each in options for option in each.names if option.startswith("--")}
            known = launch_options()[name].takes_value if release == newest else {}
            absent = [each for each in known if each.startswith("--") and each not in declared]
            absent = sorted(each for each in absent if not each.startswith("--no-"))
            limited = sum(each.values != ANY for each in options)
            counts = (
                f"{len(declared)} options, {limited} with known values, {count} commands, {wrong} refused"
            )
            print(f"{name} {release}: {counts}; absent: {absent}")
            if count:
                rows.append((name, release, len(declared), count, wrong, datetime.date.today().isoformat()))
    forms = parse_forms(parsers)
    for form in forms:
        print("{}: {} questions, {} commands, {} refused".format(*form))
    if typed.write:
        _write(RECORD, ("program", "release", "options", "commands", "refused", "parsed_on"), rows)
        _write(FORMS_RECORD, ("form", "questions", "commands", "refused", "parsed_on"), forms)
    return int(any(row[-2] for row in (*rows, *forms)))


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
