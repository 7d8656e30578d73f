"""Answers of `advisor config show`."""

import os
from pathlib import Path

from advisor.ask.options import SharedOptions
from advisor.cli.defaults import FILE_NAME, Default, given_defaults
from advisor.commands.config.options import ShowConfigInput
from advisor.render.answer import Answer, Paragraph, Table, columns


def show(asked: ShowConfigInput, shared: SharedOptions) -> Answer:
    """Return every default that is set; one row for an option that several commands take from one place.

    Raises: InputFileError: the file is wrong.
    """
    from typer.main import get_command

    from advisor.cli.command import tree

    found = given_defaults(get_command(tree()), os.environ, Path.cwd())
    rows: dict[tuple[str, str, str], list[Default]] = {}
    for default in found.values:
        rows.setdefault((default.option, default.words, default.origin), []).append(default)
    cells = tuple(
        (option, value, origin, ", ".join(" ".join(default.command) for default in defaults))
        for (option, value, origin), defaults in rows.items()
    )
    empty = f"No defaults are set: neither {FILE_NAME} here nor ADVISOR_* variables."
    return Answer(
        result={"defaults": found.values},
        inputs={},
        blocks=(Table(columns("option | value~ | from~ | commands~"), cells),)
        if cells
        else (Paragraph(empty),),
        records="defaults",
    )
