"""The tree of commands: a frozen dataclass declares the options of each, and `run.py` in its folder answers."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args

import typer
from typer.core import TyperGroup
from typer.main import get_command
from typer.models import ArgumentInfo

from advisor import __version__
from advisor.ask.inputs import fill_inputs, parameters_of
from advisor.ask.options import Effect, SharedOptions, clock_warning
from advisor.catalog.errors import AdvisorError
from advisor.cli.errors import EXIT_CODES
from advisor.cli.help import Works, class_of
from advisor.cli.typed import Once, OnceGroup, check_files, check_numbers, check_shared

if TYPE_CHECKING:
    from advisor.render.answer import Answer

T = TypeVar("T")
Delivery = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Studied:
    """Options of a command that a study may set, and figures of its answer that count in a row."""

    best_of: str = ""
    """The list of the answer whose first record is the answer's best; its fields join the row."""
    pareto: tuple[str, ...] = ()
    """Objectives where a study names none."""
    files: tuple[str, ...] = ()
    """Options of text that name a file, or an example that comes with the program."""
    left_out: tuple[str, ...] = ()
    """Options that only change what is shown; options with an effect besides reading are left out anyway."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its inputs, and where it is answered."""

    name: str
    """Words of the command after `advisor`, as typed: `simulate serve`."""
    inputs: type
    uses_calibration: bool
    studied: Studied | None
    """None where no study can ask it."""
    has_table: bool = True
    """Whether an answer may have a table, which CSV and Parquet hold."""
    has_drawing: bool = False
    """Whether an answer may have a drawing, which SVG holds."""

    works: Works | None = None
    """Kinds of work that it may be asked for, the usual one first; None where its options all act."""
    is_local: bool = False
    """Whether it works on this machine: measures it, starts processes, changes its files. Neither Python nor a service
    has such a command."""

    @property
    def effects(self) -> Mapping[str, Effect]:
        """Return the effects that options of the command have besides asking, by name of the field."""
        parameters = [*parameters_of(self.inputs), *parameters_of(SharedOptions)]
        found = {parameter.name: effect_of(parameter.annotation) for parameter in parameters}
        return {name: effect for name, effect in found.items() if effect is not None}

    @property
    def word(self) -> str:
        """Return the last word of the name, as typed."""
        return self.name.split()[-1]

    def answer(self, asked: object, shared: SharedOptions) -> "Answer":
        """Return the answer of the function named like the command in the module `run` of the options' folder."""
        module = importlib.import_module(self.inputs.__module__.rpartition(".")[0] + ".run")
        found: Answer = getattr(module, self.word.replace("-", "_"))(asked, shared)
        return found


COMPLETION: Final = "_ADVISOR_COMPLETE"
"""Variable by which a shell asks for completions; nothing else of a run needs them."""
COMMANDS: Final[dict[str, Command]] = {}
"""All commands whose options are imported, by name, in the order of the help."""


def command(
    name: str,
    *,
    uses_calibration: bool = False,
    studied: Studied | None = None,
    has_table: bool = True,
    has_drawing: bool = False,
    works: Works | None = None,
    is_local: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Register a dataclass of inputs as a command; a function of `run.py` named like its last word answers it.

    The dataclass's docstring is the help; with `works`, the help of one kind of work lists what acts for it. A
    calibration is read and checked for every command; one that does not use it says so. `is_local` says that the
    command works on this machine.
    """

    def register(inputs: type[T]) -> type[T]:
        COMMANDS[name] = Command(
            name, inputs, uses_calibration, studied, has_table, has_drawing, works, is_local
        )
        return inputs

    return register


def effect_of(annotation: Any) -> Effect | None:
    """Return the effect that an option declares; for a path without one, writing.

    No file in a folder sets an argument: it is typed, and a path among them is read.
    """
    kind, declared, *more = get_args(annotation)
    stated = next((each for each in more if isinstance(each, Effect)), None)
    is_path = kind is Path or Path in get_args(kind)
    if stated is not None or not is_path:
        return stated
    return Effect.READS if isinstance(declared, ArgumentInfo) else Effect.WRITES


def function_of(
    found: Command, *, is_group: bool = False, takes_options: bool = True
) -> Callable[..., Delivery | None]:
    """Return the function that Typer sees: its signature is the fields of the inputs, then the shared options.

    It hands the delivery back instead of making it: Typer turns a broken pipe into exit code 1, we do not. The command
    that bears the name of a group answers nothing where one of the group's commands does.
    """

    def run(**values: Any) -> Delivery | None:
        context = values.pop("_context")
        if is_group and context.invoked_subcommand is not None:
            return None
        if values.get("emit") and values["output"] is not None and not values["output"].suffix:
            values |= {"emit_dir": values["output"], "output": None}
        return partial(deliver, *run_command(found, values, _names_given(context, values)))

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("_context", kind, annotation=typer.Context)]
    if takes_options:
        parameters += [*parameters_of(found.inputs), *parameters_of(SharedOptions)]
    if COMPLETION in os.environ:
        from advisor.cli.completion import add_completion

        for parameter in parameters[1:]:
            add_completion(parameter.name, parameter.annotation)
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    # Typer keeps the line breaks of a paragraph, which are the source's and not the terminal's.
    run.__doc__ = "\n\n".join(
        " ".join(part.split()) for part in inspect.cleandoc(found.inputs.__doc__ or "").split("\n\n")
    )
    return run


def run_command(
    found: Command, values: Mapping[str, Any], given: frozenset[str]
) -> "tuple[Answer, SharedOptions]":
    """Return a command's answer to options by name, for the shell and Python alike, and the shared options.

    `given` names the options that the person gave, be it with their default.

    Raises: AdvisorError and its kinds: as the command, or a number is not finite, or a file cannot be written.
    """
    from advisor.ask.hub import hub_fetch
    from advisor.catalog.hub import use_fetch
    from advisor.cli.notes import implausible

    check_numbers(values)
    check_files(found.effects, values)
    shared = fill_inputs(SharedOptions, values)
    if shared.output is not None:
        from advisor.render.files import check_form, forms_for

        forms = forms_for(has_table=found.has_table, has_drawing=found.has_drawing)
        check_form(shared.output, forms, _commands_that_draw)
    shared = replace(check_shared(shared), given=given)
    wrong_clock = "" if "as_of" in given else clock_warning(shared.as_of)
    try:
        with use_fetch(hub_fetch(offline=shared.offline)):
            answer = found.answer(fill_inputs(found.inputs, values), shared)
    except AdvisorError as error:
        error.hint = "; ".join(filter(None, (wrong_clock, error.hint)))
        raise
    warnings = list(answer.warnings)
    if shared.calibration is not None and not found.uses_calibration:
        warnings.append("this answer does not use the calibration")
    warnings.append(wrong_clock)
    warnings += implausible(answer.result)
    return replace(answer, warnings=tuple(filter(None, warnings))), shared


def _commands_that_draw() -> list[str]:
    return [name for name, one in commands().items() if one.has_drawing]


def _names_given(context: typer.Context, values: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the options given by hand, file or variable, even if with their default value."""
    sources = {name: context.get_parameter_source(name) for name in values}
    return frozenset(name for name, source in sources.items() if source and source.name != "DEFAULT")


def write_json(text: str) -> None:
    """Write JSON as UTF-8, whatever the terminal's encoding is."""
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    binary.write(text.encode("utf-8"))


def deliver(answer: "Answer", shared: SharedOptions) -> int:
    """Write the file that was asked for, then print the answer; returns the exit code.

    Raises: AdvisorError: the file cannot be written, or the answer has no such form.
    """
    from advisor.cli.notes import note, warn
    from advisor.render.document import document, dump

    if not shared.quiet:
        note(*answer.notes)
        warn(*answer.warnings)
    needs_document = shared.json or shared.output is not None
    content = document(answer, seed=shared.seed, shared=shared.as_inputs()) if needs_document else {}
    if shared.output is not None:
        from advisor.render.atomic import write_text
        from advisor.render.files import writer_for

        try:
            written = writer_for(shared.output)(answer, content)
        except AdvisorError:  # the work is done, so the answer is told although it has no such form
            if not shared.json:
                _show(answer)
            raise
        write_text(shared.output, written)
        if not shared.quiet:
            note(f"wrote {shared.output}")
    if shared.json:
        write_json(dump(content))
    elif not (shared.quiet and shared.output is not None):
        _show(answer)
    return answer.exit_code


def _show(answer: "Answer") -> None:
    from advisor.render.terminal import print_blocks

    print_blocks(answer.blocks, sys.stdout)


_ORDER: Final = (
    "recommend",
    "cost",
    "probe",
    "calibrate",
    "compare",
    "report",
    "roofline",
    "kernel",
    "memory",
    "sweep",
    "simulate_serve",
    "simulate_train",
    "simulate_fleet",
    "simulate_trace",
    "simulate_collective",
    "simulate_items",
    "simulate_mechanisms",
    "simulate_long_context",
    "simulate_checkpoints",
    "simulate_experts",
    "simulate_afd",
    "validate",
    "catalog",
    "build",
    "serve_api",
    "mcp",
    "config",
)
FOLDERS: Final = tuple(
    sorted(
        (options.parent.name for options in (Path(__file__).parents[1] / "commands").glob("*/options.py")),
        key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name),
    )
)
"""Folders of `advisor.commands` in the order of the help: those that have a place in it, then the others by name."""
GROUPS: Final = {
    "simulate": "What would happen: serving, training, collectives, without a GPU.",
    "validate": "Predict a table of cases and score it against what was measured.",
    "catalog": "What the catalog knows: accelerators, models, prices, engines.",
    "probe": "Is this the machine that was sold? `read` judges pasted reports, `show` prints a saved probe.",
    "build": "Plan a workstation for a budget or a speed; `check` judges your own list.",
    "config": "Defaults of options, from advisor.toml and ADVISOR_* variables.",
}
EPILOG: Final = "Exit codes: " + " · ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES)


def commands(folders: Sequence[str] = FOLDERS) -> dict[str, Command]:
    """Return the commands of some folders by name, in the order of the help."""
    modules = [f"advisor.commands.{folder}.options" for folder in folders]
    for module in modules:
        importlib.import_module(module)
    return {
        name: one for module in modules for name, one in COMMANDS.items() if one.inputs.__module__ == module
    }


def folders_for(arguments: Sequence[str]) -> Sequence[str]:
    """Return the folders that may hold the named command, so that only their options are read; else all folders."""
    first, second = (*arguments, "", "")[:2]
    exact = f"{first}_{second}".replace("-", "_")
    return (
        [folder for folder in FOLDERS if folder == exact]
        or [folder for folder in FOLDERS if folder.split("_")[0] == first]
        or FOLDERS
    )


def tree(folders: Sequence[str] = FOLDERS, *, has_options: bool = True) -> typer.Typer:
    """Return the commands of some folders as Typer takes them; without options where a shell asks for their names."""
    top = typer.Typer(
        name="advisor",
        help="Which accelerators for AI, how many, in which layout, at what cost, how fast, and how sure.",
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        add_completion=has_options,
        add_help_option=has_options,
    )
    top.callback(invoke_without_command=True)(_top if has_options else _show_help)
    known = commands(folders)
    groups = {name: typer.Typer(cls=OnceGroup, help=text) for name, text in GROUPS.items()}
    for name, group in groups.items():
        bare = (
            function_of(known[name], is_group=True, takes_options=has_options)
            if name in known
            else _show_help
        )
        group.callback(invoke_without_command=True)(bare)
        top.add_typer(group, name=name)
    for name, found in known.items():
        if name not in groups:
            kind = class_of(name, found.inputs, found.works) if found.works is not None else Once
            groups.get(name.split()[0], top).command(found.word, cls=kind)(
                function_of(found, takes_options=has_options)
            )
    return top


@lru_cache
def parser_of(folders: tuple[str, ...], *, has_options: bool, is_completion: bool) -> TyperGroup:
    """Return the parser of the commands of some folders, which a process makes once: it keeps nothing of a run.

    `is_completion`: a shell asks, for which options complete their values.
    """
    command = get_command(tree(folders, has_options=has_options))
    assert isinstance(command, TyperGroup)
    return command


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"advisor {__version__}")
        raise typer.Exit


def _top(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    _show_help(context)


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
