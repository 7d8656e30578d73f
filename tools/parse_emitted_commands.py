"""Parse printed start commands with the options that engine releases declare in their own source.

    python tools/parse_emitted_commands.py FOLDER [--write]

FOLDER holds wheels of PyPI as `pip download --no-deps` leaves them: vllm, sglang, lmdeploy, mlx_lm, vllm_router and
sglang_router. Nothing of them is imported or run: the declarations of their argument parsers are read as syntax trees,
an `argparse` parser is made of them, and it parses generated commands with every option that this program prints.
`--write` records release, day and counts in catalog/data/support/parsed_releases.csv.
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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from advisor.catalog import engines
from advisor.catalog.context_scaling import scaling_words
from advisor.catalog.engines import SUPPORT_FOLDER
from advisor.catalog.launch import Guess, LaunchSettings, launch, node_words
from advisor.catalog.launch_options import ROUTERS, launch_options
from advisor.catalog.models import by_id

FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": (
        r"vllm/engine/arg_utils\.py",
        r"vllm/entrypoints/(common|openai)/cli_args\.py",
        r"vllm/utils/argparse_utils\.py",
    ),
    "sglang": (r"sglang/srt/server_args\.py", r"sglang/srt/arg_groups/fields/\w+\.py"),
    "lmdeploy": (r"lmdeploy/cli/(serve|utils)\.py",),
    "mlx": (r"mlx_lm/server\.py",),
    "vllm-router": (r"vllm_router/\w+\.py",),
    "sglang-router": (r"sglang_router/\w+\.py",),
}
"""Files of each wheel that declare options, as patterns of their paths."""
WHEELS: Final = {"mlx": "mlx_lm", "vllm-router": "vllm_router", "sglang-router": "sglang_router"}
RECORD: Final = SUPPORT_FOLDER / "parsed_releases.csv"
_FLAG_ACTIONS: Final = ("store_true", "store_false", "store_const", "count", "help", "version")
OPTION_CLASSES: Final = {"vllm": re.compile(r"\w*FrontendArgs"), "sglang": re.compile(r"[A-Z]\w*")}
"""Classes whose fields are options, by program; the others declare each option by a call."""
_NO_CLASS: Final = re.compile("-")
_NUM_COMMANDS: Final = 200


@dataclass(frozen=True, slots=True)
class Declared:
    """One option as a release declares it."""

    names: tuple[str, ...]
    takes_value: bool | None
    """Whether it takes a value; None if the declaration leaves that to a type elsewhere."""
    takes_many: bool = False


def read_options(source: str, classes: re.Pattern[str] = _NO_CLASS) -> Iterator[Declared]:
    """Yield the options that a Python source declares: calls of `add_argument`, and fields of the classes named."""
    tree = ast.parse(source.lstrip("\ufeff"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            yield from _of_call(node)
        elif isinstance(node, ast.ClassDef) and classes.fullmatch(node.name):
            yield from _of_fields(node)


def _of_call(node: ast.Call) -> Iterator[Declared]:
    names = tuple(filter(None, map(_name, node.args)))
    if not names:
        return
    given = {each.arg: each.value for each in node.keywords if each.arg}
    action = given.get("action")
    words = "" if action is None else ast.unparse(action)
    takes: bool | None = True
    if words.strip("'") in _FLAG_ACTIONS or "StoreTrue" in words:
        takes = False
    elif "BooleanOptional" in words or any(each.arg is None for each in node.keywords):
        takes = None  # the second kind: keywords from a field's type
    nargs = given.get("nargs")
    yield Declared(names, takes, nargs is not None and ast.unparse(nargs) not in ("'?'", "None"))


def _name(node: ast.expr) -> str:
    """Return the option that an argument spells; an f-string's variable parts are prefixes, which are empty here."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    else:
        return ""
    return text if re.fullmatch(r"--?[A-Za-z][\w-]*", text) else ""


def _of_fields(node: ast.ClassDef) -> Iterator[Declared]:
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
            yield Declared((name, *more), None if is_flag else True, "list" in first.lower())


class RefusedCommandError(Exception):
    """A command that the release's parser would refuse."""


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        raise RefusedCommandError(message)


def parser_of(options: Iterable[Declared]) -> Parser:
    """Return a parser of the options; one that may be a flag or take a value is a flag with its negation."""
    parser = Parser(add_help=False, allow_abbrev=False)
    seen: set[str] = set()
    for option in options:
        names = tuple(name for name in dict.fromkeys(option.names) if name not in seen)
        if not names or not any(name.startswith("--") for name in names):
            continue
        seen |= set(names)
        if option.takes_value is False:
            parser.add_argument(*names, action="store_true")
        elif option.takes_value is None:
            nargs = "*" if option.takes_many else "?"
            parser.add_argument(*names, nargs=nargs)
            negated = tuple(f"--no-{name[2:]}" for name in names if name.startswith("--"))
            fresh = tuple(name for name in negated if name not in seen)
            seen |= set(fresh)
            if fresh:
                parser.add_argument(*fresh, action="store_true", dest=fresh[0].strip("-"))
        else:
            parser.add_argument(*names, nargs="+" if option.takes_many else None)
    return parser


def read_release(wheel: Path, name: str) -> list[Declared]:
    """Return the options that a wheel declares."""
    patterns = [re.compile(pattern) for pattern in FILES[name]]
    found: list[Declared] = []
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted(archive.namelist()):
            if any(pattern.fullmatch(path) for pattern in patterns):
                found += read_options(archive.read(path).decode(), OPTION_CLASSES.get(name, _NO_CLASS))
    return found


def commands_of(name: str) -> Iterator[list[str]]:
    """Yield generated commands of an engine with every option that this program prints, without their program."""
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
            kv_dtype=draw.choice(["bf16", *flags.kv, *flags.yaml_kv]),
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


def main() -> int:
    """Parse the commands of every release in the folder, and return how many would be refused."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--write", action="store_true", help=f"record the counts in {RECORD.name}")
    typed = asked.parse_args()
    rows = []
    refused = 0
    for name in FILES:
        release = launch_options()[name].release
        wheel = next(typed.folder.glob(f"{WHEELS.get(name, name)}-{release}-*.whl"), None)
        if wheel is None:
            print(f"{name} {release}: no wheel in {typed.folder}")
            continue
        options = read_release(wheel, name)
        parser = parser_of(options)
        by_router = {router: engine for engine, router in ROUTERS.items()}
        commands = list(routers_of(by_router[name]) if name in by_router else commands_of(name))
        wrong = 0
        for words in commands:
            try:
                parser.parse_args(words)
            except RefusedCommandError as error:
                wrong += 1
                print(f"{name} {release}: {error}: {shlex.join(words)}", file=sys.stderr)
        declared = {option for each in options for option in each.names if option.startswith("--")}
        absent = sorted(set(launch_options()[name].takes_value) - declared)
        absent = [option for option in absent if not option.startswith("--no-")]
        print(
            f"{name} {release}: {len(declared)} options, {len(commands)} commands, {wrong} refused; absent: {absent}"
        )
        rows.append((name, release, len(declared), len(commands), wrong, datetime.date.today().isoformat()))
        refused += wrong
    if typed.write:
        with RECORD.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("program", "release", "options", "commands", "refused", "parsed_on"))
            writer.writerows(rows)
    return min(refused, 1)


if __name__ == "__main__":
    sys.exit(main())
