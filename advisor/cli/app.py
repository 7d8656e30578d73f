"""The tree of commands."""

import importlib
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from advisor import __version__
from advisor.cli.command import COMMANDS, Command, function_of
from advisor.cli.errors import EXIT_CODES

FOLDERS: Final = (
    "recommend", "cost", "probe", "calibrate", "compare", "roofline", "sweep", "simulate_serve", "simulate_train",
    "simulate_fleet", "simulate_trace", "simulate_collective", "simulate_items", "simulate_mechanisms",
    "simulate_long_context", "validate", "catalog", "build", "config",
)  # fmt: skip
"""Folders of `advisor.commands`, in the order of the help."""
GROUPS: Final = {
    "simulate": "What would happen: serving, training, collectives, without a GPU.",
    "validate": "Predict a table of cases and score it against what was measured.",
    "catalog": "What the catalog knows: accelerators, models, prices, engines.",
    "build": "Plan a workstation for a budget or a speed; `check` judges your own list.",
    "config": "Defaults of options, from advisor.toml and ADVISOR_* variables.",
}
EPILOG: Final = "Exit codes: " + " · ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES)


def commands(folders: Sequence[str] = FOLDERS) -> dict[str, Command]:
    """The commands of some folders by name, in the order of the help."""
    modules = [f"advisor.commands.{folder}.options" for folder in folders]
    for module in modules:
        importlib.import_module(module)
    return {
        name: one for module in modules for name, one in COMMANDS.items() if one.inputs.__module__ == module
    }


def folders_for(arguments: Sequence[str]) -> Sequence[str]:
    """The folders that may hold what a command line names, so that only their options are read; all where none does."""
    first, second = (*arguments, "", "")[:2]
    exact = f"{first}_{second}".replace("-", "_")
    return (
        [folder for folder in FOLDERS if folder == exact]
        or [folder for folder in FOLDERS if folder.split("_")[0] == first]
        or FOLDERS
    )


def tree(folders: Sequence[str] = FOLDERS) -> typer.Typer:
    """The commands of some folders as Typer takes them."""
    top = typer.Typer(
        name="advisor",
        help="Which accelerators for AI, how many, in which layout, at what cost, how fast, and how sure.",
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    top.callback(invoke_without_command=True)(_top)
    known = commands(folders)
    groups = {name: typer.Typer(help=text) for name, text in GROUPS.items()}
    for name, group in groups.items():
        bare = function_of(known[name], is_group=True) if name in known else _show_help
        group.callback(invoke_without_command=True)(bare)
        top.add_typer(group, name=name)
    for name, found in known.items():
        if name not in groups:
            groups.get(name.split()[0], top).command(found.word)(function_of(found))
    return top


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
